"""From the bytes a terminal sends to keys, text and pastes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PASTE_START: Final = b"\x1b[200~"
PASTE_END: Final = b"\x1b[201~"

_SEQUENCES: Final = {
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
_CONTROLS: Final = {
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
_ESCAPE: Final = 0x1B
_COMPLETE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is no text; `name` is what it does."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that were typed."""

    text: str


@dataclass(frozen=True, slots=True)
class Pasted:
    """A framed paste; its line breaks are newlines."""

    text: str


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
