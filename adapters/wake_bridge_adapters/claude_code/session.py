"""A running session: the record it keeps of itself (`sessions/PID.json`), its process, and which sessions live.

Measured on 2.1.332: rewritten whenever the session turns busy, idle or comes to wait for a person; a draft changes
nothing; removed at the end, but left behind by `kill -9` with what it last said.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from time import strptime
from typing import Any, Final

import psutil

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.routing import Address
from wake_bridge.domain.sessions import NOBODY, Session
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import Nowhere
from wake_bridge_adapters.own_file import content_of
from wake_bridge_adapters.process_stat import START_TIME, STATE, stat_fields

LONGEST: Final = 64 * 1024
"""Bytes; a real one has about 700."""

OLDEST: Final = (2, 1, 224)
"""The first version whose records and monitors are like those that were measured."""

NEXT_MAJOR: Final = 3
"""Of this version nothing is known."""

AT_REST: Final = frozenset({"idle", "shell"})
"""`shell`: idle while a task of its own, such as our monitor, runs in the background."""

BUSY: Final = "busy"
WAITING: Final = "waiting"

SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{7,63}")
"""What a session may be called: a name for a file as well."""

_KNOWN: Final = AT_REST | {BUSY, WAITING}
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:\D.*)?")
_MOST_WORDS: Final = 80


class HalfWritten(Exception):
    """What was read is not whole; another look may find it so."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One interactive session, in words that are understood.

    `started` is its process' start as the harness wrote it, `stamp` when it last changed how it stands, both only to be
    compared. `waiting_for` is what it waits for a person to do.
    """

    pid: int
    started: str
    session_id: str
    directory: str
    status: str
    waiting_for: str
    stamp: str

    @property
    def is_at_rest(self) -> bool:
        """No turn runs and no dialog is open."""
        return self.status in AT_REST


def read_record(file: Path) -> SessionRecord | None:
    """The record in a file; None where there is none, or none that is ours to understand.

    Raises:
        HalfWritten: it is being written just now, or broken.
    """
    content = content_of(file, LONGEST)
    if content is None:
        return None
    try:
        said = json.loads(content)
    except (ValueError, RecursionError) as broken:
        raise HalfWritten(str(file)) from broken
    return _understood(said, file.stem) if isinstance(said, dict) else None


def _understood(said: Mapping[str, Any], name: str) -> SessionRecord | None:
    """The record, if every word that is relied on is one that is known; it must be called after its process."""
    pid, session_id = said.get("pid"), said.get("sessionId")
    if not isinstance(pid, int) or isinstance(pid, bool) or str(pid) != name:
        return None
    if not isinstance(session_id, str) or not SESSION_ID.fullmatch(session_id):
        return None
    if said.get("kind") != "interactive" or said.get("status") not in _KNOWN or not _is_known_version(said):
        return None
    return SessionRecord(
        pid=pid,
        started=_text(said, "procStart"),
        session_id=session_id,
        directory=_text(said, "cwd"),
        status=str(said["status"]),
        waiting_for=_text(said, "waitingFor")[:_MOST_WORDS],
        stamp=f"{said.get('statusUpdatedAt')}",
    )


def _is_known_version(said: Mapping[str, Any]) -> bool:
    found = _VERSION.fullmatch(_text(said, "version"))
    if found is None:
        return False
    version = tuple(int(part) for part in found.groups())
    return OLDEST <= version < (NEXT_MAJOR,)


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


_STOPPED: Final = frozenset({"T", "t"})
_ENDED: Final = frozenset({"Z", "X", "x"})
_ASLEEP: Final = frozenset({"S", "I"})

CLOCKS_APART: Final = 2.0
"""Seconds by which two answers about the start of one process may differ where they are whole seconds."""

MONITOR: Final = ("claude", "monitor")
"""The end of a monitor's command line."""


class Life(Enum):
    """How a process stands."""

    ENDED = "ended"
    SUSPENDED = "suspended"
    RUNS = "runs"


def life_of(pid: int, started: str) -> Life:
    """How the process stands that has this id and, in the harness's words, this start."""
    return _from_proc(pid, started) if platform.system() == "Linux" else _from_psutil(pid, started)


def waits_for_input(pid: int) -> bool:
    """Whether a process sleeps until something comes in; one that waits for the processor or a disk may have input unread.

    Where the system does not tell (macOS) it counts as asleep.
    """
    if platform.system() != "Linux":
        return True
    fields = stat_fields(pid)
    return bool(fields) and fields[STATE] in _ASLEEP


def monitors_below(pid: int) -> int | None:
    """How many of our monitors run below a process; None where that cannot be told."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return 0
    except psutil.Error:
        return None
    count = 0
    for one in below:
        try:
            count += tuple(one.cmdline()[-len(MONITOR) :]) == MONITOR
        except psutil.NoSuchProcess:
            continue
        except psutil.Error:
            return None
    return count


def _from_proc(pid: int, started: str) -> Life:
    fields = stat_fields(pid)
    if not fields or fields[STATE] in _ENDED or fields[START_TIME] != started:
        return Life.ENDED
    return Life.SUSPENDED if fields[STATE] in _STOPPED else Life.RUNS


def _from_psutil(pid: int, started: str) -> Life:
    """On macOS the record has what `LC_ALL=C TZ=UTC ps -o lstart=` says."""
    try:
        process = psutil.Process(pid)
        status, created = process.status(), process.create_time()
        written = timegm(strptime(started, "%a %b %d %H:%M:%S %Y"))
    except (psutil.Error, ValueError):
        return Life.ENDED
    if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD} or abs(created - written) > CLOCKS_APART:
        return Life.ENDED
    return Life.SUSPENDED if status == psutil.STATUS_STOPPED else Life.RUNS


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
        return Nowhere(HoldReason.UNREACHABLE, f"no running Claude Code session is known to be {address.identity}")
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
