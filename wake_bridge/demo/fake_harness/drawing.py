"""What the fake harness looks like: rows of text with SGR, and writing only those that changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wake_bridge.demo.fake_harness.editor import Editor, Wrapped, text_width
from wake_bridge.demo.fake_harness.settings import Mode

GLYPH: Final = "➤ "
SHELL_GLYPH: Final = "! "
PLACEHOLDER: Final = "Ask the fake agent"
APPROVAL: Final = (
    "",
    " Shell command",
    "",
    "   rm -rf build",
    "",
    " Allow this command?",
    " ▸ 1. Yes",
    "   2. Yes, and do not ask again",
    "   3. No",
    "",
    " enter confirm · esc cancel",
)
MENU: Final = ("Fast", "Careful", "Slow")
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MINIMUM_WIDTH: Final = 8

ENTER_SCREEN: Final = b"\x1b[?1049h\x1b[?2004h\x1b[2J\x1b[?25h"
LEAVE_SCREEN: Final = b"\x1b[0m\x1b[?2004l\x1b[?1049l\x1b[?25h"


@dataclass(slots=True)
class View:
    """All that is shown."""

    name: str
    mode: Mode
    transcript: list[str]
    editor: Editor
    ghost: str = ""
    is_vim_normal: bool = False
    is_shell: bool = False
    choice: int = 0
    beat: int = 0
    elapsed: int = 0
    ticks: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """Rows from the top, the cursor (column, row) or None when hidden, and the title."""

    rows: tuple[str, ...]
    cursor: tuple[int, int] | None
    title: str


def draw(view: View, width: int, height: int) -> Picture:
    """The picture of a view in a terminal of that size."""
    width = max(width, _MINIMUM_WIDTH)
    is_at_work = view.mode in {Mode.BUSY, Mode.STREAMING}
    title = f"{_SPINNER[view.beat % len(_SPINNER)] if is_at_work else '▪'} {view.name}"
    rule = "─" * width
    if view.mode is Mode.APPROVAL:
        return Picture(_stacked(view.transcript, [rule, *APPROVAL], width, height), None, title)
    if view.mode is Mode.MENU:
        choices = [f" {'▸' if at == view.choice else ' '} {at + 1}. {name}" for at, name in enumerate(MENU)]
        menu = [rule, " Select a pace", "", *choices, "", " enter select · esc back"]
        return Picture(_stacked(view.transcript, menu, width, height), None, title)
    wrapped = view.editor.wrapped(width - len(GLYPH) - 1)
    composer, hidden, row = _composer_rows(view, wrapped, height)
    top = f"─── ↑ {hidden} more {rule}"[:width] if hidden else rule
    working = (
        [f"{_SPINNER[view.beat % len(_SPINNER)]} Working… ({view.elapsed}s)", ""] if view.mode is Mode.BUSY else []
    )
    bottom = [*working, top, *composer, rule, _footer(view)]
    rows = _stacked(view.transcript, bottom, width, height)
    cursor = (len(GLYPH) + wrapped.cursor_column, height - 2 - len(composer) + row)
    return Picture(rows, cursor if cursor[1] >= 0 else None, title)


def _composer_rows(view: View, wrapped: Wrapped, height: int) -> tuple[list[str], int, int]:
    """The composer's rows, how many are scrolled out of sight above, and which of those shown has the cursor."""
    most = max(1, height // 2 - 5)
    hidden = max(0, min(wrapped.cursor_row - most + 1, len(wrapped.rows) - most))
    shown = list(wrapped.rows[hidden : hidden + most])
    glyph = f"\x1b[31m{SHELL_GLYPH}\x1b[0m" if view.is_shell else f"\x1b[1m{GLYPH}\x1b[0m"
    if not view.editor.text and not view.is_shell:
        return [f"{glyph}\x1b[2m{view.ghost or PLACEHOLDER}\x1b[0m"], 0, 0
    rows = [(glyph if at + hidden == 0 else " " * len(GLYPH)) + row for at, row in enumerate(shown)]
    return rows, hidden, wrapped.cursor_row - hidden


def _footer(view: View) -> str:
    clock = f" · {view.ticks} ticks" if view.ticks else ""
    if view.is_vim_normal:
        return "  -- NORMAL --"
    if view.is_shell:
        return "  ! for shell mode"
    if view.mode is Mode.BUSY:
        return "  esc to interrupt"
    return ("  enter to send" if view.editor.text else "  ? for shortcuts") + clock


def _stacked(transcript: Sequence[str], bottom: Sequence[str], width: int, height: int) -> tuple[str, ...]:
    """The transcript's last rows above what stands at the bottom."""
    room = max(0, height - len(bottom) - 1)
    rows: list[str] = []
    for line in transcript:
        while text_width(line) > width:
            stop = len(line)
            while text_width(line[:stop]) > width:
                stop -= 1
            rows.append(line[:stop])
            line = "  " + line[stop:]  # noqa: PLW2901
        rows.append(line)
    rows = rows[-room:] if room else []
    rows += [""] * (height - len(bottom) - len(rows))
    return tuple([*rows, *bottom][-height:])


class Terminal:
    """Writes pictures, each as one write of the rows that differ from the last."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._last: Picture | None = None

    def forget(self) -> None:
        """Draw everything next time: the size changed."""
        self._last = None

    def show(self, picture: Picture) -> None:
        """Bring the terminal from the last picture to this one."""
        last = self._last
        if picture == last:
            return
        parts = [] if last else ["\x1b[2J"]
        if last is None or picture.title != last.title:
            parts.append(f"\x1b]2;{picture.title}\x07")
        changed = [
            f"\x1b[{number + 1};1H\x1b[0m{row}\x1b[0m\x1b[K"
            for number, row in enumerate(picture.rows)
            if last is None or number >= len(last.rows) or last.rows[number] != row
        ]
        parts += changed
        if picture.cursor is None:
            parts.append("\x1b[?25l\x1b[999;999H")
        else:
            column, row = picture.cursor
            parts.append(f"\x1b[{row + 1};{column + 1}H\x1b[?25h")
        self._last = picture
        _write_all(self._output, "".join(parts).encode("utf-8", "replace"))


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
