"""The captured screens, read once, and how each profile answers them: the table of docs/harnesses.md.

`python -m tests.screens.corpus` prints the table; with `--write` it goes into the page.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wake_bridge_adapters.screens import Capture, classify_capture, load_profiles, read_capture

from wake_bridge.domain.presence import PresenceState

CAPTURES = Path(__file__).parent / "captures"
FILES = sorted(CAPTURES.glob("*/*.json"))
PROFILES = load_profiles()
PAGE = Path(__file__).parents[2] / "docs" / "harnesses.md"
BEGIN, END = "<!-- captures: begin -->\n", "<!-- captures: end -->\n"

_COLUMNS = ("harness", "version", "pane", "screens", "idle found", "others right", "idle where it is none")


@dataclass(frozen=True, slots=True)
class Captured:
    """A capture and the file it is in."""

    file: Path
    capture: Capture

    @property
    def name(self) -> str:
        """`claude/idle-empty.80x24`."""
        return f"{self.file.parent.name}/{self.file.stem}"

    @property
    def size(self) -> str:
        """`80x24`."""
        return f"{self.capture.screen.width}x{self.capture.screen.height}"

    @property
    def must_be_idle(self) -> bool:
        """Whether idle is the only right answer."""
        return self.capture.expect == (PresenceState.IDLE,)

    @property
    def must_not_be_idle(self) -> bool:
        """Whether idle is a wrong answer."""
        return PresenceState.IDLE not in self.capture.expect


@cache
def corpus() -> tuple[Captured, ...]:
    """All of them, by name."""
    return tuple(Captured(file, read_capture(file)) for file in FILES)


HARNESSES = sorted({file.parent.name for file in FILES})
"""Whose screens there are. A test of all screens is one test a harness: to name and report a screen costs more than to read it."""


@cache
def captures_of(harness: str) -> tuple[Captured, ...]:
    """All screens of a harness, by name."""
    return tuple(one for one in corpus() if one.file.parent.name == harness)


@cache
def table() -> str:
    """One row a harness, version and size: what was found, as Markdown."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for one in corpus():
        if one.capture.harness == "fake":
            continue
        count = counts.setdefault((one.capture.harness, one.capture.version, one.size), Counter())
        count.update(_told(one))
    rows = [_row(key, count) for key, count in sorted(counts.items(), key=lambda item: _order(item[0]))]
    total = sum(counts.values(), Counter())
    rows.append(_row(("all", "", ""), total))
    lines = [_COLUMNS, tuple("---" for _ in _COLUMNS), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _told(one: Captured) -> Iterator[str]:
    state = classify_capture(one.capture, PROFILES[one.capture.harness]).state
    yield "screens"
    if one.must_be_idle:
        yield "idle screens"
        if state is PresenceState.IDLE:
            yield "idle found"
    else:
        yield "other screens"
        if state in one.capture.expect:
            yield "others right"
    if state is PresenceState.IDLE and one.must_not_be_idle:
        yield "false idle"


def _row(key: tuple[str, str, str], count: Counter[str]) -> tuple[str, ...]:
    return (
        *key,
        str(count["screens"]),
        f"{count['idle found']} of {count['idle screens']}",
        f"{count['others right']} of {count['other screens']}",
        str(count["false idle"]),
    )


def _order(key: tuple[str, str, str]) -> tuple[str, str, int]:
    harness, version, size = key
    return harness, version, int(size.partition("x")[0])


def main() -> None:
    """Print the table, or write it into the page."""
    if "--write" not in sys.argv:
        print(table(), end="")
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
