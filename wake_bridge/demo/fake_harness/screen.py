"""The fake harness's screen: keys, the text in the composer, and the rows that show it."""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from wake_bridge.demo.fake_harness.settings import Mode

PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"

_SEQUENCES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b[1~": "home",
    b"\x1b[4~": "end",
    b"\x1b[3~": "delete",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1bOH": "home",
    b"\x1bOF": "end",
}
_CONTROLS = {
    0x01: "home",
    0x02: "left",
    0x03: "interrupt",
    0x04: "end-of-file",
    0x05: "end",
    0x06: "right",
    0x08: "backspace",
    0x09: "tab",
    0x0A: "newline",
    0x0B: "kill-to-end",
    0x0D: "enter",
    0x15: "kill-to-start",
    0x17: "kill-word",
    0x7F: "backspace",
}
_ESCAPE = 0x1B
_COMPLETE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F


class Key:
    """A key that is no text; `name` is what it does."""

    def __init__(self, name: str) -> None:
        self.name = name


class Text:
    """Characters that were typed."""

    def __init__(self, text: str) -> None:
        self.text = text


class Pasted:
    """A framed paste; its line breaks are newlines."""

    def __init__(self, text: str) -> None:
        self.text = text


Input = Key | Text | Pasted


class Decoder:
    """Bytes in, inputs out; keeps what is not complete yet."""

    def __init__(self) -> None:
        self._pending = b""
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def has_lone_escape(self) -> bool:
        """Whether an Escape waits that may be a key or the start of a sequence."""
        return self._pending == b"\x1b"

    def flush_escape(self) -> Iterator[Input]:
        """Give out a waiting Escape as a key: nothing followed it in time."""
        if self.has_lone_escape:
            self._pending = b""
            yield Key("escape")

    def feed(self, chunk: bytes) -> Iterator[Input]:
        """Every input that is complete with these bytes."""
        self._pending += chunk
        while self._pending:
            first = self._pending[0]
            if self._pending.startswith(PASTE_START):
                end = self._pending.find(PASTE_END)
                if end < 0:
                    return
                content = self._pending[len(PASTE_START) : end]
                self._pending = self._pending[end + len(PASTE_END) :]
                yield Pasted(content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n"))
            elif first == _ESCAPE:
                sequence = _COMPLETE.match(self._pending)
                if sequence is None and not self._begins_otherwise():
                    return
                taken = sequence.group() if sequence else self._pending[:1]
                self._pending = self._pending[len(taken) :]
                yield Key(_SEQUENCES.get(taken, "escape" if len(taken) == 1 else "unknown"))
            elif first < _FIRST_PRINTABLE or first == _DELETE:
                self._pending = self._pending[1:]
                yield Key(_CONTROLS.get(first, f"control-{first:02x}"))
            else:
                stop = next(
                    (at for at, byte in enumerate(self._pending) if byte < _FIRST_PRINTABLE or byte == _DELETE),
                    len(self._pending),
                )
                text = self._characters.decode(self._pending[:stop])
                self._pending = self._pending[stop:]
                if text:
                    yield Text(text)

    def _begins_otherwise(self) -> bool:
        """Whether the Escape at the front is followed by something that makes no sequence."""
        return len(self._pending) > 1 and self._pending[1:2] not in {b"[", b"O"}


@lru_cache(maxsize=4096)
def cell_width(character: str) -> int:
    """Columns of one character: 0 combining, 2 wide, else 1."""
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"F", "W"} else 1


def text_width(text: str) -> int:
    """Columns of a string."""
    return sum(map(cell_width, text))


class Wrapped:
    """A text in rows, and the cursor's row and column in them."""

    def __init__(self, rows: Sequence[str], cursor_row: int, cursor_column: int) -> None:
        self.rows = tuple(rows)
        self.cursor_row = cursor_row
        self.cursor_column = cursor_column


class Editor:
    """A text, a cursor in it, and the pastes that stand folded in it by their chips."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.chips: dict[str, str] = {}

    @property
    def expanded(self) -> str:
        """The text with every chip replaced by what was pasted."""
        text = self.text
        for chip, content in self.chips.items():
            text = text.replace(chip, content, 1)
        return text

    def replace(self, text: str) -> None:
        """Hold this text and nothing else, cursor behind it."""
        self.text, self.cursor = text, len(text)
        self.chips.clear()

    def insert(self, text: str) -> None:
        """Put text in at the cursor."""
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def fold(self, text: str) -> None:
        """Put a chip in that stands for a long paste."""
        chip = f"[Pasted text #{len(self.chips) + 1} +{text.count(chr(10))} lines]"
        self.chips[chip] = text
        self.insert(chip)

    def press(self, key: str) -> bool:
        """Do what an editing key does; False when it is none."""
        start = self.text.rfind("\n", 0, self.cursor) + 1
        stop = self.text.find("\n", self.cursor)
        stop = len(self.text) if stop < 0 else stop
        if key == "newline":
            self.insert("\n")
        elif key in {"backspace", "delete", "kill-to-start", "kill-to-end", "kill-word"}:
            self._cut(*self._range(key, start, stop))
        elif key in {"left", "right", "home", "end", "up", "down"}:
            self.cursor = self._target(key, start, stop)
        else:
            return False
        return True

    def _range(self, key: str, start: int, stop: int) -> tuple[int, int]:
        """What a deleting key takes away from the line `start`–`stop`."""
        kept = self.text[: self.cursor].rstrip()
        word = max(kept.rfind(" "), kept.rfind("\n")) + 1
        return {
            "backspace": (self.cursor - 1, self.cursor),
            "delete": (self.cursor, self.cursor + 1),
            "kill-to-start": (start, self.cursor),
            "kill-to-end": (self.cursor, stop),
            "kill-word": (word, self.cursor),
        }[key]

    def _target(self, key: str, start: int, stop: int) -> int:
        """Where a moving key takes the cursor from the line `start`–`stop`."""
        column = self.cursor - start
        above = self.text.rfind("\n", 0, max(0, start - 1)) + 1
        places = {
            "left": self.cursor - 1,
            "right": self.cursor + 1,
            "home": start,
            "end": stop,
            "up": min(above + column, max(start - 1, 0)),
            "down": stop + 1 + column,
        }
        return max(0, min(places[key], len(self.text)))

    def _cut(self, start: int, stop: int) -> None:
        start, stop = max(0, start), min(len(self.text), stop)
        self.text = self.text[:start] + self.text[stop:]
        self.cursor = start

    def wrapped(self, width: int) -> Wrapped:
        """Rows of at most `width` columns, broken at blanks where there are some."""
        rows: list[str] = []
        cursor = (0, 0)
        at = 0
        for line in self.text.split("\n"):
            for row in _wrap(line, width):
                if at <= self.cursor <= at + len(row):
                    cursor = (len(rows), text_width(row[: self.cursor - at]))
                rows.append(row.rstrip(" "))
                at += len(row)
            at += 1
        if cursor[1] >= width:  # a full row: the next character would start a new one
            cursor = (cursor[0] + 1, 0)
            if cursor[0] == len(rows):
                rows.append("")
        return Wrapped(rows, *cursor)


def _wrap(line: str, width: int) -> list[str]:
    """The pieces of a line, blanks kept, so that together they are the line."""
    pieces: list[str] = []
    while text_width(line) > width:
        stop = columns = 0
        while columns + cell_width(line[stop]) <= width:
            columns += cell_width(line[stop])
            stop += 1
        blank = line.rfind(" ", 0, stop) + 1
        stop = blank or max(stop, 1)
        pieces.append(line[:stop])
        line = line[stop:]
    return [*pieces, line]


GLYPH = "➤ "
SHELL_GLYPH = "! "
PLACEHOLDER = "Ask the fake agent"
APPROVAL = (
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
MENU = ("Fast", "Careful", "Slow")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MINIMUM_WIDTH = 8

ENTER_SCREEN = b"\x1b[?1049h\x1b[?2004h\x1b[2J\x1b[?25h"
LEAVE_SCREEN = b"\x1b[0m\x1b[?2004l\x1b[?1049l\x1b[?25h"


class View:
    """All that is shown."""

    ghost: str = ""
    is_vim_normal: bool = False
    is_shell: bool = False
    choice: int = 0
    beat: int = 0
    elapsed: int = 0
    ticks: int = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.mode = Mode.IDLE
        self.transcript = [f"  fake harness · {name}", ""]
        self.editor = Editor()


class Picture:
    """Rows from the top, the cursor (column, row) or None when hidden, and the title."""

    def __init__(self, rows: tuple[str, ...], cursor: tuple[int, int] | None, title: str) -> None:
        self.rows = rows
        self.cursor = cursor
        self.title = title

    def is_as(self, other: Picture) -> bool:
        """Whether both show the same."""
        return (self.rows, self.cursor, self.title) == (other.rows, other.cursor, other.title)


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
        if last and picture.is_as(last):
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
