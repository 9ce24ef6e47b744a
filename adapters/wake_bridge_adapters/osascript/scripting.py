"""Runs the scripts: with arguments and private files, never from composed source; every call is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.bounded_call import BoundedCall, CallResult


@dataclass(frozen=True, slots=True)
class ScreenReading:
    """One look.

    `composer` is the text in it, empty for none, None where it cannot be read. `raw` is what a check inside a script
    compares with: the focused element's value, or the visible text. `has_mark` says whether the wake's mark stands
    outside the composer. `front_pid` is the frontmost process, where that is asked. `quiet_for` are the seconds since a person touched the machine, where that concerns this place.
    """

    composer: str | None
    raw: str = ""
    is_front: bool = False
    front_pid: int = 0
    quiet_for: float | None = None
    has_dialog: bool = False
    has_mark: bool = False
    title: str = ""
    beside: tuple[Evidence, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Equal for two looks between which nothing relevant moved; empty where the composer cannot be read."""
        if self.composer is None:
            return ""
        return hashlib.blake2b(f"{self.title}\0{self.has_dialog}\0{self.raw}".encode(), digest_size=16).hexdigest()


def same_text(one: str, other: str) -> bool:
    """Whether two texts differ in white space only: a composer breaks lines as it likes."""
    return "".join(one.split()) == "".join(other.split())


def evidence_of(sight: ScreenReading, typing_quiet: float) -> tuple[Evidence, ...]:
    """Every vote of one look; idle only when nothing speaks against it."""
    votes = tuple(_votes(sight, typing_quiet))
    if any(one.weighs for one in votes):
        return votes
    return (*votes, _seen("empty-composer", PresenceState.IDLE, "composer"))


def _votes(sight: ScreenReading, typing_quiet: float) -> Iterator[Evidence]:
    if sight.has_dialog:
        yield _seen("dialog", PresenceState.WAITING_ON_APPROVAL, "window")
    if sight.quiet_for is not None and sight.quiet_for < typing_quiet:
        yield _seen("user-active", PresenceState.USER_TYPING, "machine", f"{sight.quiet_for:.0f} s ago")
    yield from sight.beside
    if sight.composer is None:
        yield _seen("composer-unreadable", PresenceState.UNKNOWN, "focused element")
    elif sight.composer:
        yield _seen("draft", PresenceState.USER_TYPING, "composer", f"{len(sight.composer)} characters")


def _seen(rule: str, vote: PresenceState, region: str, saw: str = "") -> Evidence:
    return Evidence(rule, vote, saw=saw, region=region, source=PresenceSource.OS_UI_PROBE)


class Kind(StrEnum):
    """What kind of thing went wrong; decides whether another try may help."""

    PERMISSION = "permission"
    PLACE = "place"
    TIME = "time"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failed script: the system's number where there is one, what happened, what to do."""

    kind: Kind
    what: str
    remedy: str
    code: int | None = None

    def __str__(self) -> str:
        number = f" ({self.code})" if self.code is not None else ""
        return f"{self.what}{number}: {self.remedy}"


_AUTOMATION: Final = (
    Kind.PERMISSION,
    "macOS does not let wake-bridge send Apple events to that application",
    "allow its interpreter in System Settings, Privacy & Security, Automation",
)
_ACCESSIBILITY: Final = (
    Kind.PERMISSION,
    "macOS does not let wake-bridge read or press keys for other applications",
    "add its interpreter in System Settings, Privacy & Security, Accessibility",
)
_NO_OBJECT: Final = (
    Kind.PLACE,
    "there is no such window, tab, session or process",
    "correct the name in [targets]; `wake-bridge doctor` lists what is there",
)
_NOT_RUNNING: Final = (Kind.PLACE, "the application is not running", "start it")
_NOT_INSTALLED: Final = (
    Kind.PLACE,
    "the application's scripting dictionary is missing",
    "install the application, or correct its name in [targets]",
)

MEANINGS: Final[dict[int, tuple[Kind, str, str]]] = {
    -1743: _AUTOMATION,
    -25211: _ACCESSIBILITY,
    1002: _ACCESSIBILITY,
    -1712: (
        Kind.TIME,
        "the application did not answer in time",
        "it may wait for a permission dialog: look at the screen",
    ),
    -1728: _NO_OBJECT,
    -1719: _NO_OBJECT,
    -600: _NOT_RUNNING,
    -609: _NOT_RUNNING,
    -2741: _NOT_INSTALLED,
    -2740: _NOT_INSTALLED,
    -128: (Kind.OTHER, "somebody cancelled it", "nothing to do: it is tried again"),
}

_NUMBER: Final = re.compile(r"\((-?\d+)\)\s*$")


def trouble_of(complaint: str) -> Trouble:
    """Read what `osascript` wrote to its error output."""
    found = _NUMBER.search(complaint.strip())
    code = int(found[1]) if found else None
    if code is not None and code in MEANINGS:
        return Trouble(*MEANINGS[code], code)
    if "no such process" in complaint.lower():
        return Trouble(Kind.PLACE, "the application has ended", "start it", code)
    first_line = complaint.strip().partition("\n")[0]
    return Trouble(Kind.OTHER, "the script failed", first_line or "it said nothing", code)


def timed_out() -> Trouble:
    """What is known when a program had to be killed."""
    return Trouble(
        Kind.TIME, "osascript did not answer in time", "it may wait for a permission dialog: look at the screen"
    )


_FIELD_END: Final = "\x1f"
_RECORD_END: Final = "\x1e"

Records = list[list[str]]


class Scripting:
    """The system's scripting programs, as far as PATH has them.

    Args:
        timeout: bound of one call in seconds.
        environment: for the programs; its `PATH` finds them.
    """

    def __init__(self, timeout: float, environment: Mapping[str, str]) -> None:
        self._timeout = timeout
        self._environment = {**environment, "LC_CTYPE": "UTF-8"}

    @property
    def is_there(self) -> bool:
        """Whether this system has `osascript`."""
        return shutil.which("osascript", path=self._environment.get("PATH")) is not None

    async def run(self, script: str, *arguments: str) -> Records | Trouble:
        """Run one of the bundled scripts and return the records that it answered, each a list of fields."""
        with as_file(files("wake_bridge_adapters.osascript.scripts") / f"{script}.applescript") as path:
            answer = await self._call("osascript", str(path), *arguments)
        if isinstance(answer, Trouble):
            return answer
        said = answer.stdout.removesuffix("\n")
        return [record.split(_FIELD_END)[:-1] for record in said.split(_RECORD_END) if record]

    async def clipboard(self) -> str | Trouble:
        """The clipboard's text."""
        answer = await self._call("pbpaste")
        return answer if isinstance(answer, Trouble) else answer.stdout

    async def set_clipboard(self, text: str) -> Trouble | None:
        """Put text on the clipboard."""
        answer = await self._call("pbcopy", stdin=text)
        return answer if isinstance(answer, Trouble) else None

    async def _call(self, program: str, *arguments: str, stdin: str = "") -> CallResult | Trouble:
        found = shutil.which(program, path=self._environment.get("PATH"))
        if found is None:
            return Trouble(Kind.PLACE, f"there is no {program} here", "this adapter works on macOS only")
        answer = await _bounded([found, *arguments], stdin, self._timeout, self._environment)
        if answer.timed_out:
            return timed_out()
        return answer if answer.is_well else trouble_of(answer.stderr)


async def _bounded(argv: Sequence[str], stdin: str, timeout: float, environment: Mapping[str, str]) -> CallResult:
    call = BoundedCall(argv, stdin, timeout, environment)
    try:
        return await asyncio.to_thread(call.run)
    except asyncio.CancelledError:
        call.kill()
        raise


@contextlib.contextmanager
def private_file(text: str) -> Iterator[str]:
    """The path of a file with `text` that only this user can read; gone afterwards. What is private stands in no argv."""
    descriptor, name = tempfile.mkstemp(prefix="wake-bridge-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        yield name
    finally:
        Path(name).unlink(missing_ok=True)
