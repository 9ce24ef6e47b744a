"""One look at one pane in one tmux call: formats, the screen, formats again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, Self, TypeVar

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.bounded_call import CallResult
from wake_bridge_adapters.tmux.command import NOT_FOUND, Separators, TmuxServer, why_not_ours

FENCED_NAMES: Final = (
    "pane_id",
    "pid",
    "session_id",
    "window_id",
    "pane_pid",
    "pane_dead",
    "pane_in_mode",
    "pane_input_off",
    "pane_synchronized",
    "pane_active",
    "window_active_clients",
    "cursor_x",
    "cursor_y",
    "cursor_flag",
    "alternate_on",
    "pane_width",
    "pane_height",
    "pane_current_command",
)
"""The formats whose values, as seen, a condition holds tmux to."""

DRIVER_OPTION: Final = "@wake_bridge_driver"
"""The pane option by which a pane says which daemons drive it, one a graph."""

_SEEN_NAMES: Final = (
    *FENCED_NAMES,
    DRIVER_OPTION,
    "pane_mode",
    "pane_tty",
    "#{S:#{session_id}/#{window_id}/#{session_activity} }",
    "pane_title",
)
_SESSIONS: Final = _SEEN_NAMES[-2]
_SERVER_TIME: Final = "%s"
_CLIENT_NAMES: Final = ("client_activity", "window_id", "pane_id", "client_flags")


class HasFormats(Protocol):
    """What tmux said of something: the values of its formats, by their names."""

    @property
    def values(self) -> Mapping[str, str]:
        """By the names of the formats."""
        ...


Value = TypeVar("Value")


class Format(Generic[Value]):
    """An attribute that is one format of what tmux said.

    Args:
        name: the format's.
        read: makes its value of tmux's text.
    """

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self._name = name
        self._read = read

    def __get__(self, holder: HasFormats, _: type[HasFormats] | None = None) -> Value:
        """The value of the format."""
        return self._read(holder.values[self._name])


def number(text: str) -> int:
    """A number; 0 where tmux says nothing."""
    return int(text or 0)


def _is_on(text: str) -> bool:
    return text not in {"", "0"}


@dataclass(frozen=True, slots=True)
class Client:
    """A terminal attached to the server. `last_key` is in the server's whole seconds."""

    last_key: int
    window_id: str
    pane_id: str
    flags: frozenset[str]

    def can_type_into(self, facts: PaneFacts) -> bool:
        """Whether its keys go to that pane: its current pane, any of the window when keys are synchronised.

        tmux tells a client with a pane of its own (`active-pane`) by the window's active pane; such a one may be
        anywhere in its window. A read-only client's keys count as well: they hide the keys of others.
        """
        if self.window_id != facts.window_id:
            return False
        return self.pane_id == facts.pane_id or facts.is_synchronized or "active-pane" in self.flags


@dataclass(frozen=True, slots=True)
class PaneFacts:
    """What the formats said about one pane."""

    values: Mapping[str, str]

    pane_id = Format("pane_id", str)
    """`%5`; empty when there is no such pane."""

    window_id = Format("window_id", str)
    """`@2`."""

    server_pid = Format("pid", int)
    """The server's own pid."""

    pane_pid = Format("pane_pid", number)
    """The process the pane was started with; of a dead pane, the one it had."""

    command = Format("pane_current_command", str)

    title = Format("pane_title", str)

    terminal = Format("pane_tty", str)
    """The path of the pane's terminal; of a dead pane, the one it had."""

    driver = Format(DRIVER_OPTION, str)
    """Which daemons drive the pane, as they wrote it there."""

    is_dead = Format("pane_dead", _is_on)
    """The program ended and the pane remains."""

    is_in_mode = Format("pane_in_mode", _is_on)
    """Copy mode, view mode, the tree of choose-tree."""

    is_input_off = Format("pane_input_off", _is_on)
    """`select-pane -d`."""

    is_synchronized = Format("pane_synchronized", _is_on)
    """Keys sent to this pane go to every pane of the window."""

    is_active = Format("pane_active", _is_on)
    """The active pane of its window."""

    def sessions_showing_it(self) -> dict[str, int]:
        """Sessions whose current window holds the pane, with their last activity in the server's seconds."""
        shown = {}
        for entry in self.values[_SESSIONS].split():
            session_id, window_id, activity = entry.split("/")
            if window_id == self.window_id:
                shown[session_id] = int(activity)
        return shown


@dataclass(frozen=True, slots=True)
class PaneReading:
    """What one call saw. `server_time` is the server's clock in whole seconds, the one client activity is told in."""

    facts: PaneFacts
    clients: tuple[Client, ...]
    ansi: str
    server_time: int
    is_moving: bool

    def typists(self) -> list[Client]:
        """Clients whose keys go to this pane."""
        return [client for client in self.clients if client.can_type_into(self.facts)]


_ENDED: Final = "no server running on "
"""What tmux says, before the path, of a socket that a server has left behind."""


@dataclass(frozen=True, slots=True)
class NoPane:
    """There is nothing to look at, or tmux did not say."""

    why: str
    timed_out: bool = False
    cause: Cause = Cause.UNREACHABLE

    @classmethod
    def of(cls, answer: CallResult, pane_id: str = "") -> Self:
        """What a call that did not go well says of the pane it was about, or of all."""
        if answer.timed_out:
            return cls(answer.complaint, timed_out=True, cause=Cause.TMUX_SILENT)
        if answer.stderr.startswith(_ENDED):
            return cls(answer.complaint, cause=Cause.NO_TMUX_SERVER)
        if answer.returncode == NOT_FOUND:
            return cls(answer.complaint, cause=Cause.NO_TMUX)
        return cls(f"no pane {pane_id}" if pane_id and "can't find pane" in answer.stderr else answer.complaint)


def nothing_behind(path: str) -> NoPane | None:
    """That no panes can be seen behind a socket which may not be used; None where it may."""
    why = why_not_ours(path)
    is_there = os.path.exists(path)  # noqa: PTH110 - a directory that may not be read is no reason to raise
    return NoPane(why, cause=Cause.UNREACHABLE if is_there else Cause.NO_TMUX_SERVER) if why else None


async def look_at(server: TmuxServer, pane_id: str) -> PaneReading | NoPane:
    """Look once. A pane that moved between the first and the last format is told as moving."""
    pane, clients, screen = Separators(), Separators(), Separators().between_records
    answer = await server.ask(
        ["display-message", "-p", "-t", pane_id, pane.template((*_SEEN_NAMES, _SERVER_TIME))],
        ["list-clients", "-F", clients.template(_CLIENT_NAMES)],
        ["display-message", "-p", screen],
        ["capture-pane", "-p", "-e", "-t", pane_id],
        ["display-message", "-p", "-t", pane_id, screen + pane.template(_SEEN_NAMES)],
    )
    parts = answer.stdout.split(screen)
    if not answer.is_well or len(parts) != 3:  # noqa: PLR2004 - before, screen, after
        return NoPane.of(answer, pane_id)
    first, end, attached = parts[0].partition(pane.between_records)
    before = pane.records(first + end, (*_SEEN_NAMES, _SERVER_TIME))
    after = pane.records(parts[2], _SEEN_NAMES)
    if not before or not after or before[0]["pane_id"] != pane_id:
        return NoPane(f"no pane {pane_id}")
    server_time = int(before[0].pop(_SERVER_TIME))
    return PaneReading(
        facts=PaneFacts(after[0]),
        clients=tuple(_client(record) for record in clients.records(attached, _CLIENT_NAMES)),
        ansi=parts[1].removeprefix("\n").removesuffix("\n"),
        server_time=server_time,
        is_moving=before[0] != after[0],
    )


async def scrollback_of(server: TmuxServer, pane_id: str) -> str | NoPane:
    """All lines of the pane, history included, wrapped rows joined."""
    answer = await server.ask(["capture-pane", "-p", "-J", "-S", "-", "-t", pane_id])
    return answer.stdout if answer.is_well else NoPane.of(answer, pane_id)


def _client(record: Mapping[str, str]) -> Client:
    return Client(
        last_key=int(record["client_activity"] or 0),
        window_id=record["window_id"],
        pane_id=record["pane_id"],
        flags=frozenset(record["client_flags"].split(",")),
    )
