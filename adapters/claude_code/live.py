"""The sessions that run now, and which of them is an identity's (DESIGN §6.1: exactly one, never a guess)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.claude_code.process import Life, life_of
from adapters.claude_code.record import HalfWritten, SessionRecord, read_record
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.routing import Address
from wake_bridge.domain.sessions import NOBODY, Session
from wake_bridge.ports.adapter import Nowhere

HARNESS: Final = "claude"

MOST_RECORDS: Final = 500
READ_AGAIN: Final = (0.02, 0.05, 0.1)
"""Seconds to wait before a record that is not whole is read once more."""


@dataclass(frozen=True, slots=True)
class LiveSession:
    """One session whose process lives."""

    record: SessionRecord
    life: Life

    @property
    def rests(self) -> bool:
        """No turn runs, no dialog is open, and what it is given it reads."""
        return self.record.is_at_rest and self.life is Life.RUNS


class LiveSessions:
    """The records in `sessions/`.

    Args:
        directory: the harness's own.
    """

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "sessions"

    def file_of(self, pid: int) -> Path:
        """Where the session of that process keeps its record."""
        return self._folder / f"{pid}.json"

    async def all(self) -> list[LiveSession]:
        """Every session that lives and is understood."""
        found = [await self._read(file) for file in await asyncio.to_thread(self._files)]
        return [one for one in found if one is not None]

    async def one(self, pid: int, started: str) -> LiveSession | None:
        """The session of that very process; None where it has ended or is not understood any more."""
        found = await self._read(self.file_of(pid))
        return found if found is not None and found.record.started == started else None

    async def _read(self, file: Path) -> LiveSession | None:
        for pause in (*READ_AGAIN, None):
            try:
                record = read_record(file)
            except HalfWritten:
                if pause is None:
                    return None
                await asyncio.sleep(pause)
                continue
            if record is None:
                return None
            life = life_of(record.pid, record.started)
            return None if life is Life.ENDED else LiveSession(record, life)
        return None

    def _files(self) -> list[Path]:
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except OSError:
            return []
        theirs = sorted(name for name in names if name.endswith(".json") and name[:-5].isdecimal())
        return [self._folder / name for name in theirs[:MOST_RECORDS]]


def choose(
    address: Address, live: Sequence[LiveSession], known: Callable[[str], Session | None]
) -> LiveSession | Nowhere:
    """The one session that is the identity's.

    By what its hooks, its monitor or a `bind` recorded; by the process that it is bound to; else, where the address says
    that it is Claude Code, by the directory that it shares with no other identity, if only one runs there and nothing says
    that it is somebody else's.

    Args:
        address: who is meant.
        live: the sessions that live.
        known: what a session said of itself.
    """
    recorded = [one for one in live if any(_is_session(session, one.record) for session in theirs(address))]
    bound = [one for one in live if _is_bound(address, one.record)]
    named = recorded or bound or _in_the_directory(address, live, known)
    if len(named) == 1:
        return named[0]
    if not named:
        return Nowhere(HoldReason.UNREACHABLE, f"no Claude Code that runs is known to be {address.identity}")
    pids = ", ".join(str(one.record.pid) for one in named)
    return Nowhere(HoldReason.AMBIGUOUS, f"{len(named)} Claude Code sessions may be {address.identity}: pids {pids}")


def theirs(address: Address) -> list[Session]:
    """The recorded conversations of the identity with this harness."""
    return [one for one in address.sessions if one.harness == HARNESS]


def _is_session(session: Session, record: SessionRecord) -> bool:
    """By its id, or by its process: `/clear` begins another conversation in the same one."""
    if session.session_id == record.session_id:
        return True
    return session.pid == record.pid and session.started == record.started


def _is_bound(address: Address, record: SessionRecord) -> bool:
    binding = address.binding
    return binding is not None and (binding.agent_pid, binding.agent_started) == (record.pid, record.started)


def _in_the_directory(
    address: Address, live: Sequence[LiveSession], known: Callable[[str], Session | None]
) -> list[LiveSession]:
    expected = address.expected
    # another identity may work beside it: then a directory tells nothing
    if not address.has_directory_to_itself or HARNESS not in {address.harness, expected.agent}:
        return []
    room = os.path.realpath(expected.directory)
    whose = {
        one: session.identity if (session := known(one.record.session_id)) else address.identity
        for one in live
        if os.path.realpath(one.record.directory) == room
    }
    # one that may be anybody's is not taken for the identity's, and beside it no other is certain
    may_be = [one for one, identity in whose.items() if identity in {address.identity, NOBODY}]
    return may_be if len(may_be) > 1 else [one for one in may_be if whose[one] == address.identity]
