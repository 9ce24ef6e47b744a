"""The picture of `wake-bridge demo`, drawn from a real run of it."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from typing import Final

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from tests.pages.modules import ROOT

FILE: Final = ROOT / "docs/demo.svg"
WIDTH: Final = 100
PATIENCE: Final = 120.0

_SUBSCRIPTION: Final = "573ff73e-31f3-4571-8e67-20cd02736614"
_WAKE: Final = "01M8J73QXEYB691W6FWZV0D4KQ"
"""The ids in the picture; those of a run are others each time."""

_FORMAT: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" class="rich-terminal" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own, without the fonts that it would load from the network."""


def draw() -> None:
    """Run the demo, and draw what it printed."""
    FILE.write_text(svg_of(_played()), encoding="utf-8")


def svg_of(printed: str) -> str:
    """What the demo printed as a picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=StringIO(), color_system="truecolor", force_terminal=True)
    for line in _shortened(printed).splitlines():
        console.print(Text(line, style=_style_of(line)), overflow="crop", no_wrap=True)
    return console.export_svg(title="wake-bridge demo", theme=SVG_EXPORT_THEME, code_format=_FORMAT, unique_id="demo")


def _played() -> str:
    program = [sys.executable, "-m", "wake_bridge", "demo"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=True, cwd=ROOT)
    return ended.stdout


def _shortened(printed: str) -> str:
    """One row for many blank ones of a pane, and nothing that differs from run to run: no times, and ids of our own."""
    rows = re.sub(r"(?:^   │ *\n){2,}", "   │\n", printed.strip(), flags=re.MULTILINE)
    rows = re.sub(r" +→ MESSAGE:\S+", "", rows)
    rows = re.sub(r"(?<=WAKE_SUB:)[0-9a-f-]+", _SUBSCRIPTION, rows)
    # the pane may end in the middle of the wake's id
    rows = re.sub(r"(?<=Wake: )(\w+)(\n   │   )?(\w*)", _wake, rows)
    return re.sub(r"^   \d{4}-\d\d-\d\dT\S+Z  ", "   ", rows, flags=re.MULTILINE)


def _wake(found: re.Match[str]) -> str:
    head, fold, _ = found.groups()
    return f"{_WAKE[: len(head)]}{fold}{_WAKE[len(head) :]}" if fold else _WAKE


def _style_of(line: str) -> str:
    if line.startswith("──"):
        return "bold"
    if line.startswith("the wake was"):
        return "bold green"
    return "cyan" if line.startswith("   wake-bridge") else ""
