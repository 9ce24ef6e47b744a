"""Modes and knobs of the fake harness, its command line, and the log of everything that reached it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TextIO


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


@dataclass(slots=True)
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


@dataclass(frozen=True, slots=True)
class StartSettings:
    """How it was started. `quiet` and `deaf` are ways to be many: see the module `quiet`.

    `client_of` is the socket of an app-server that it is a client of.
    """

    name: str
    log: Path | None
    control: Path | None
    mode: Mode
    text: str
    knobs: Knobs
    quiet: bool = False
    deaf: bool = False
    client_of: str = ""


def parse_arguments(arguments: Sequence[str]) -> StartSettings:
    """Read the command line; exits with usage on a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m wake_bridge.demo.fake_harness",
        description="A terminal agent that plays any state and records every byte it receives.",
    )
    parser.add_argument("--name", default="fake", help="shown in title and banner")
    parser.add_argument("--log", type=Path, help="JSONL file for every byte and event")
    parser.add_argument("--control", type=Path, help="FIFO that exists, or path of a Unix socket to make: JSON lines")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.IDLE)
    parser.add_argument("--text", default="", help="the draft or ghost to start with")
    parser.add_argument("--quiet", action="store_true", help="the same mind and screen, asleep but for what it reads")
    parser.add_argument("--deaf", action="store_true", help="looks idle, and never reads a byte")
    parser.add_argument("--client-of", default="", help="the socket of an app-server that it is a client of")
    for field in fields(Knobs):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(field.default), default=field.default)
    found = vars(parser.parse_args(arguments))
    knobs = Knobs(**{field.name: found[field.name] for field in fields(Knobs)})
    return StartSettings(
        found["name"],
        found["log"],
        found["control"],
        found["mode"],
        found["text"],
        knobs,
        found["quiet"],
        found["deaf"],
        found["client_of"],
    )


class Record:
    """Appends events to the log file, each flushed before the next is handled; without a file they are dropped.

    Every record has `at` (UTC milliseconds, with fractions), `event`, and the `mode` and `composer` it met.
    """

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = path.open("a", encoding="utf-8") if path else None

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
