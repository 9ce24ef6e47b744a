"""What a script's error means, and what a person can do about it (docs/macos.md "Errors")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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
