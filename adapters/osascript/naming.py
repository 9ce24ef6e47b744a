"""From an address to what is meant: a terminal's session, or an application (docs/macos.md "Two kinds of place")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wake_bridge.domain.routing import Address


class Surface(StrEnum):
    """How text gets there; the values are the first words of their scripts' names."""

    ITERM = "iterm"
    TERMINAL = "terminal"
    APPLICATION = "app"


@dataclass(frozen=True, slots=True)
class SessionName:
    """A session of a terminal, by tty or by the terminal's own id."""

    surface: Surface
    session: str


@dataclass(frozen=True, slots=True)
class ApplicationName:
    """An application, by name or bundle id.

    `tab` is a key to press with Cmd before the composer is looked for, `user_data` the directory that tells one
    instance from another; both may be empty.
    """

    name: str
    tab: str = ""
    user_data: str = ""


_TERMINALS: Final = {"iterm2": Surface.ITERM, "iterm": Surface.ITERM, "terminal": Surface.TERMINAL}
_SHORT_TTY: Final = re.compile(r"ttys\d+")


def meant_by(address: Address) -> SessionName | ApplicationName | None:
    """What the address names; the configuration's word wins over the subscription's. None when it names nothing."""
    details = dict(address.details)
    written = address.pane or address.suggested or details.get("appName", "")
    terminal, is_session, session = written.partition(":")
    surface = _TERMINALS.get(terminal.strip().lower())
    if is_session and surface:
        session = session.strip()
        return SessionName(surface, f"/dev/{session}" if _SHORT_TTY.fullmatch(session) else session)
    if not written:
        return None
    return ApplicationName(written, details.get("tabShortcut", "")[:1], details.get("userDataDir", ""))
