"""Modes and settings of the fake harness, its command line, and the log of everything that reached it.

Tests start it a thousand times. So no module of it imports what costs more than its own work: no asyncio, argparse,
dataclasses, pathlib or typing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from enum import StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self, TextIO


class Mode(StrEnum):
    """What the fake harness can be told to show."""

    IDLE = "idle"
    BUSY = "busy"
    STREAMING = "streaming"
    APPROVAL = "approval"
    MENU = "menu"
    DRAFT = "draft"
    GHOST = "ghost"
    VIM_NORMAL = "vim-normal"
    SHELL = "shell"
    CRASH = "crash"
    EXIT = "exit"


class Knobs:
    """What can be turned, at the start and while it runs. Times are milliseconds, 0 is off.

    Attributes:
        echo_delay: a key is handled, and so shown, this much after it came.
        paste_delay: the same for a paste.
        paste_read_delay: input that comes while the composer is empty is read from the terminal so much later.
        enter_read_delay: the same for input that comes while text stands in it.
        draw_delay: whatever changes is shown so much later.
        ticks: a clock in the footer goes on, whatever else is late.
        swallow_enter: so many Enters are ignored.
        chip_lines: a paste of at least so many lines folds into a chip.
        dialog_after_paste: an approval comes up right after a paste.
        transcript_delay: a submitted message leaves the composer at once, and stands in the transcript this much after.
        dialog_after_submit: the turn that a message begins asks at once.
        reply_after: a submitted message keeps it busy for so long.
        on_submit: a shell command run for every submitted message, which it finds in `WAKE_BRIDGE_TEST_FAKE_TEXT`.
        inbox_command: a shell command run when a wake is submitted; what it prints becomes the answer.
    """

    echo_delay: int = 0
    paste_delay: int = 0
    paste_read_delay: int = 0
    enter_read_delay: int = 0
    draw_delay: int = 0
    ticks: bool = False
    swallow_enter: int = 0
    chip_lines: int = 0
    dialog_after_paste: bool = False
    transcript_delay: int = 0
    dialog_after_submit: bool = False
    reply_after: int = 0
    on_submit: str = ""
    inbox_command: str = ""


KNOBS: tuple[str, ...] = tuple(Knobs.__annotations__)
"""The names of all knobs."""


class StartSettings:
    """How it was started: the options of its command line, and the knobs.

    `log` is a JSONL file for every byte and event, `control` a FIFO that exists or the path of a Unix socket to make.
    `text` is the draft or ghost to start with. `quiet` and `deaf` are ways to be many: see the module `quiet`.
    `client_of` is the socket of an app-server that it is a client of.
    """

    name: str = "fake"
    log: str = ""
    control: str = ""
    mode: Mode = Mode.IDLE
    text: str = ""
    quiet: bool = False
    deaf: bool = False
    client_of: str = ""

    def __init__(self) -> None:
        self.knobs = Knobs()


OPTIONS: tuple[str, ...] = tuple(StartSettings.__annotations__)
"""The names of all options that are no knobs."""


def parse_arguments(arguments: Sequence[str]) -> StartSettings:
    """Read the command line; exits with `error: …` and `hint: …` on a mistake."""
    start = StartSettings()
    words = iter(arguments)
    for word in words:
        name = word.removeprefix("--").replace("-", "_")
        holder = start.knobs if name in KNOBS else start
        if not word.startswith("--") or not (name in KNOBS or name in OPTIONS):
            _refuse(f"there is no option {word!r}")
        kind = type(getattr(holder, name))
        if kind is bool:
            setattr(holder, name, True)
            continue
        value = next(words, None)
        if value is None:
            _refuse(f"{word} needs a value")
        try:
            setattr(holder, name, kind(value))
        except ValueError:
            _refuse(f"{value!r} is no value for {word}")
    return start


def _refuse(why: str) -> NoReturn:
    known = ", ".join("--" + name.replace("_", "-") for name in (*OPTIONS, *KNOBS))
    sys.stderr.write(f"error: {why}\nhint: the options are {known}\n")
    raise SystemExit(2)


class Record:
    """Appends events to the log file, each flushed before the next is handled; without a file they are dropped.

    Every record has `at` (UTC milliseconds, with fractions), `event`, and the `mode` and `composer` it met.
    """

    def __init__(self, path: str) -> None:
        self._file: TextIO | None = open(path, "a", encoding="utf-8") if path else None  # noqa: SIM115 - see __exit__

    def write(self, event: str, mode: str, composer: str, **details: Any) -> None:
        """Append one event."""
        if self._file is None:
            return
        entry = {"at": time.time() * 1000, "event": event, "mode": mode, "composer": composer, **details}
        self._file.write(json.dumps(entry, ensure_ascii=True) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
