"""Threads, Codex's conversations: what each is doing, and which of them an address means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.codex.server import Connection
from wake_bridge_adapters.recorded import Declined

HARNESS: Final = "codex"
THREAD_ID: Final = "threadId"
"""What a subscription's metadata calls it."""

IDLE: Final = "idle"
ACTIVE: Final = "active"
NOT_LOADED: Final = "notLoaded"
WAITING: Final = frozenset({"waitingOnApproval", "waitingOnUserInput"})


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread as the server describes it.

    `flags` say what an active one waits for. `is_a_persons` is false of what Codex began by itself: sub-agents, and the
    short ones that only find a title.
    """

    id: str
    status: str
    flags: frozenset[str] = frozenset()
    directory: str = ""
    is_a_persons: bool = True

    @property
    def is_loaded(self) -> bool:
        """Whether a program has it open, or had until a minute ago."""
        return self.status != NOT_LOADED

    @property
    def waits(self) -> bool:
        """Whether a dialog is open."""
        return bool(self.flags & WAITING)

    @property
    def is_at_rest(self) -> bool:
        """Whether no turn runs."""
        return self.status != ACTIVE

    @property
    def evidence(self) -> Evidence:
        """The control plane's own word, as it weighs for presence."""
        vote, hold = PresenceState.UNKNOWN, None
        if self.status == IDLE:
            vote = PresenceState.IDLE
        elif self.status == ACTIVE:
            vote = PresenceState.WAITING_ON_APPROVAL if self.waits else PresenceState.ACTIVE
        elif self.status == NOT_LOADED:
            hold = HoldReason.NOT_LOADED
        saw = " ".join([self.status, *sorted(self.flags)])
        return Evidence("thread-status", vote, saw, "thread", PresenceSource.CODEX_APP_SERVER, hold)


def parsed(raw: Mapping[str, Any]) -> Thread:
    """What `thread/read` tells of one."""
    status = raw.get("status") or {}
    by_itself = raw.get("ephemeral") or raw.get("parentThreadId") or raw.get("agentNickname") or raw.get("agentRole")
    return Thread(
        id=str(raw.get("id", "")),
        status=str(status.get("type", "")),
        flags=frozenset(str(one) for one in status.get("activeFlags") or ()),
        directory=str(raw.get("cwd") or ""),
        is_a_persons=not by_itself,
    )


async def read_thread(connection: Connection, thread_id: str) -> Thread | None:
    """The thread as it is now; None where the server knows none of that name. Raises `AnswerLost`."""
    try:
        answer = await connection.call("thread/read", threadId=thread_id)
    except Declined:
        return None
    return parsed(answer.get("thread") or {})


async def loaded_threads(connection: Connection) -> list[Thread]:
    """Those that programs have open. Raises `AnswerLost` and `Declined`."""
    answer = await connection.call("thread/loaded/list")
    found = [await read_thread(connection, str(one)) for one in answer.get("data") or ()]
    return [one for one in found if one is not None and one.is_loaded]


async def active_turn(connection: Connection, thread_id: str) -> str | None:
    """The id of the turn that runs; None where none does, or none is told of yet. Raises `AnswerLost`."""
    try:
        answer = await connection.call("thread/turns/list", threadId=thread_id, limit=1)
    except Declined:
        return None
    running = [one for one in answer.get("data") or () if one.get("status") == "inProgress"]
    return str(running[0].get("id", "")) if running else None


def named_threads(address: Address) -> tuple[str, ...]:
    """The threads that are known to be the identity's, best first."""
    recorded = (one.session_id for one in address.sessions if one.harness == HARNESS)
    written = (value for name, value in address.details if name == THREAD_ID)
    return tuple(dict.fromkeys((*recorded, *written)))


def own_directory(address: Address) -> str:
    """The directory in which a thread of Codex can only be the identity's; empty where there is none.

    Another harness may work beside it, and another identity too: then a directory tells nothing.
    """
    expected = address.expected
    is_codex = HARNESS in {expected.agent, address.harness}
    return expected.directory if is_codex and address.has_directory_to_itself else ""


def is_same_directory(one: str, other: str) -> bool:
    """Whether two paths lead to the same directory."""
    return bool(one) and os.path.realpath(one) == os.path.realpath(other)
