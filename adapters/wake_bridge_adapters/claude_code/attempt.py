"""One wake of Claude Code without its composer: the line that asks, and what the session's file shows afterwards.

Measured on 2.1.332: a line of a monitor is noted as `queue-operation` within 0.3 s, whatever the agent does, and as a
message of the conversation once the agent is given it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.delivery import HoldReason, Proof, Step
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Journal, Refused, Trace, Unknown, Wake
from wake_bridge.ports.sessions import Sessions
from wake_bridge_adapters.claude_code.session import (
    SESSION_ID,
    Life,
    LiveSession,
    LiveSessions,
    life_of,
    monitors_below,
    waits_for_input,
)

MOST_READ: Final = 64 * 1024 * 1024
"""Bytes at the end of a transcript that are searched."""

_LAST_TURN: Final = 256 * 1024
"""Bytes at the end of a transcript in which the last thing that was said is looked for."""

_AT_LIMIT: Final = "usage_limit_reached"
"""The `apiError` of what Claude Code says in the model's place when the account is at its limit (seen on 2.1.332)."""

_PIECE: Final = 1024 * 1024
_QUEUE: Final = "queue-operation"
_BY_A_MONITOR: Final = b"<task-notification>"
"""Stands around what came from a monitor: a mark that somebody only speaks of is no echo."""


class EchoLevel(IntEnum):
    """How far a wake is seen to have come."""

    NONE = 0
    QUEUED = 1
    TOLD = 2


class Transcripts:
    """The transcripts below `projects/`, by session id.

    Args:
        directory: the harness's own.
    """

    def __init__(self, directory: Path) -> None:
        self._projects = directory / "projects"

    def search(self, mark: str) -> EchoSearch:
        """A search for one wake, which may take many looks."""
        return EchoSearch(mark.encode(), self._file_of)

    def limit_of(self, session_id: str) -> str:
        """What the last turn of the conversation says of a usage limit that it has reached; empty where it has not.

        When it resets stands there in seconds since 1970, if Claude Code was told.
        """
        file = self._file_of(session_id)
        try:
            return _limit_in(file) if file is not None else ""
        except OSError:
            return ""

    def can_be_read(self, session_id: str) -> bool:
        """Whether there is a transcript of the conversation."""
        file = self._file_of(session_id)
        return file is not None and os.access(file, os.R_OK)

    def _file_of(self, session_id: str) -> Path | None:
        """Below whichever project's folder; None where there is none, or the id is no name for a file."""
        if not SESSION_ID.fullmatch(session_id):
            return None
        name = f"{session_id}.jsonl"
        try:
            return next((file for folder in self._projects.iterdir() if (file := folder / name).is_file()), None)
        except OSError:
            return None


def _limit_in(file: Path) -> str:
    """Raises `OSError`: it cannot be read."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
        stream.seek(max(0, os.fstat(descriptor).st_size - _LAST_TURN))
        lines = stream.read(_LAST_TURN).split(b"\n")
    row = next((row for row in map(_said, reversed(lines)) if row is not None), {})
    if row.get("apiError") != _AT_LIMIT:
        return ""
    limits = row.get("quotaLimits")
    seconds = limits.get("resetsAt") if isinstance(limits, dict) else None
    return f"usage limit reached|{seconds}" if isinstance(seconds, int) else "usage limit reached"


def _said(line: bytes) -> dict[str, Any] | None:
    """What the person or the model said, by a row of the transcript; None for any other row."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_said = isinstance(row, dict) and row.get("type") in {"user", "assistant"} and not row.get("isSidechain")
    return row if is_said else None


class EchoSearch:
    """Looks for one mark, each time only in what was added since.

    Args:
        mark: what is looked for.
        file_of: the transcript of a conversation.
    """

    def __init__(self, mark: bytes, file_of: Callable[[str], Path | None]) -> None:
        self._mark = mark
        self._file_of = file_of
        self._files: dict[str, Path] = {}
        self._read_to: dict[Path, int] = {}
        self._found = EchoLevel.NONE

    def look(self, conversations: Iterable[str]) -> EchoLevel:
        """How far the wake is seen to have come in any of the conversations."""
        for session_id in conversations:
            file = self._files.get(session_id) or self._file_of(session_id)
            if file is not None:
                self._files[session_id] = file
                with contextlib.suppress(OSError):
                    self._read(file)
        return self._found

    def _read(self, file: Path) -> None:
        """Raises `OSError`: it cannot be read."""
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
            size = os.fstat(descriptor).st_size
            place = self._read_to.get(file, 0)
            place = max(0, size - MOST_READ) if place > size else max(place, size - MOST_READ)
            stream.seek(place)
            rest = b""
            while piece := stream.read(_PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._weigh(line)
            # a line that is still being written is read again
            self._read_to[file] = stream.tell() - len(rest)

    def _weigh(self, line: bytes) -> None:
        if self._mark in line and _BY_A_MONITOR in line:
            self._found = max(self._found, _told_by(line))


def _told_by(line: bytes) -> EchoLevel:
    """What a row says; one that makes no sense says only that something is there."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return EchoLevel.QUEUED
    return EchoLevel.QUEUED if isinstance(row, dict) and row.get("type") == _QUEUE else EchoLevel.TOLD


LONGEST: Final = 500
"""UTF-16 units of a line; the harness cuts what is longer and says `...(truncated)` (measured on 2.1.332)."""

GAP: Final = "   "
_CUT: Final = "…"


def one_line(text: str, mark: str) -> str:
    """The digest on one line, with its mark whatever else must go.

    Lines are joined by a gap. What is too long loses its end before the last line, which has the mark, and the line
    before that, which says how to read the mail.
    """
    lines = [cleaned for line in text.splitlines() if (cleaned := _printable(line))]
    if not any(mark in line for line in lines):
        lines.append(f"Wake: {mark}")
    whole = GAP.join(lines)
    if _units(whole) <= LONGEST:
        return whole
    for kept in (2, 1):
        head, tail = GAP.join(lines[:-kept]), GAP.join(lines[-kept:])
        room = LONGEST - _units(tail) - _units(_CUT + GAP)
        if head and mark in tail and room >= LONGEST // 4:
            return f"{_first(head, room)}{_CUT}{GAP}{tail}"
    trailer = f"Wake: {mark}"
    return f"{_first(whole, LONGEST - _units(_CUT + GAP + trailer))}{_CUT}{GAP}{trailer}"


def _printable(line: str) -> str:
    """Without anything that could end the line or move a cursor, and without blanks around it."""
    return "".join(letter if letter.isprintable() else " " for letter in line).strip()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "replace")) // 2


def _first(text: str, units: int) -> str:
    """As much of the beginning as fits."""
    return text.encode("utf-16-le", "replace")[: 2 * units].decode("utf-16-le", "ignore").rstrip()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt waits, in seconds; all of it together stays below a lease.

    Args:
        written: for what a hook said that the agent was given, to stand in the transcript as well. The hook speaks first, then
            the model is asked, then the row is written, all within 0.3 s: a program that is killed in between has told nobody.
        queued: for what the harness has in its queue, to reach the agent.
        rest: how long a harness must have been at rest without the wake before the wake counts as never come in; measured:
            it has a line in its queue 0.5 s after that was written, and the agent has it 0.3 s later.
        proof: for that rest to come about.
    """

    written: float = 1.5
    queued: float = 25.0
    rest: float = 10.0
    proof: float = 25.0


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of one wake at one moment; times are in seconds.

    Args:
        echo: how far the transcripts have it. They are read after it was asked whether the process lives.
        life: how the process stands.
        heard_for: how long ago its hook said that the agent was given it; None where none did.
        rested_for: how long the harness has been at rest without it, asleep at both ends, with nobody there who could still
            write it.
        waited_for: how long it has been looked for.
    """

    echo: EchoLevel
    life: Life
    heard_for: float | None = None
    rested_for: float = 0.0
    waited_for: float = 0.0


class WakeVerdict(Enum):
    """What became of the wake, and why."""

    TOLD = "the agent was given it: transcript"
    HEARD = "the agent was given it: hook"
    QUEUED = "the harness's own queue has it"
    ENDED = "its process has ended without it"
    RESTED = "it is at rest without it"
    UNSEEN = "it may have been given to the monitor, and nothing shows that it was not"

    @property
    def is_absence(self) -> bool:
        """The harness's own record proves that the wake never came in."""
        return self in {WakeVerdict.ENDED, WakeVerdict.RESTED}


def verdict_on(seen: Seen, patience: Patience) -> WakeVerdict | None:
    """The first line that applies; None while it is to be looked for further."""
    if seen.echo is EchoLevel.TOLD:
        return WakeVerdict.TOLD
    if seen.life is Life.ENDED:
        return WakeVerdict.ENDED
    if seen.heard_for is not None:
        return WakeVerdict.HEARD if seen.heard_for > patience.written else None
    if seen.echo is EchoLevel.QUEUED:
        return WakeVerdict.QUEUED if seen.waited_for > patience.queued else None
    if seen.rested_for > patience.rest:
        return WakeVerdict.RESTED
    return WakeVerdict.UNSEEN if seen.waited_for > patience.proof else None


FENCED_BY: Final = "claude"
"""The socket in a fence of ours, which has none."""

LOOKS_APART: Final = 0.1
"""Seconds between two looks into the transcript, in which a hook may say the same."""


class Bell:
    """Rings a monitor, and listens for the echo.

    Args:
        sessions: who waits inside a harness.
        live: the records of the harnesses that run.
        transcripts: what they have written down.
        patience: how long is waited.
    """

    def __init__(self, sessions: Sessions, live: LiveSessions, transcripts: Transcripts, patience: Patience) -> None:
        self._sessions = sessions
        self._live = live
        self._transcripts = transcripts
        self._patience = patience

    async def ring(
        self, session: LiveSession, listening: str, wake: Wake, journal: Journal, where: str
    ) -> AttemptOutcome:
        """Give the wake to the monitor that waits as `listening`; nothing goes out before its intent is on disk."""
        record = session.record
        await journal(Step.INTENT_SUBMIT, {"session": record.session_id, "process": str(record.pid)})
        written = await self._sessions.ring(listening, wake.mark, one_line(wake.text, wake.mark))
        if written is False:
            await journal(Step.REFUSED, {"why": "the monitor took nothing"})
            return Refused(HoldReason.UNREACHABLE, "its monitor did not take the line", where)
        fence = fence_of(session)
        outcome = await self.look_for(wake, fence, journal, where, listening)
        if isinstance(outcome, Unknown) and written and await self._had_an_unseen_turn(fence):
            await journal(Step.SUBMITTED, {"seen": "a turn began after the line was written"})
            return Delivered(Proof.SUBMITTED, {"by": "session record"})
        return outcome

    async def look_for(
        self, wake: Wake, fence: Binding, journal: Journal, where: str, listening: str = ""
    ) -> AttemptOutcome:
        """What became of a wake that may have been sent; sends nothing."""
        verdict = await self._watch_for(wake.mark, fence, listening)
        if verdict.is_absence:
            await journal(Step.ABSENT, {"why": verdict.value})
            return Refused(HoldReason.UNREACHABLE, f"the wake never arrived: {verdict.value}", where)
        if verdict is WakeVerdict.UNSEEN:
            return Unknown({"why": verdict.value})
        if verdict is WakeVerdict.QUEUED:
            return Delivered(Proof.ACCEPTED, {"by": verdict.value})
        await journal(Step.SUBMITTED, {"seen": verdict.value})
        return Delivered(Proof.ACKNOWLEDGED, {"by": verdict.value})

    async def trace(self, search: EchoSearch, fence: Binding) -> Trace:
        """What one look says; a record that rests without the wake does not have it."""
        life = life_of(fence.agent_pid, fence.agent_started)
        echo = await asyncio.to_thread(search.look, await self._conversations(fence, ""))
        if echo is EchoLevel.TOLD:
            return Trace(Proof.ACKNOWLEDGED, WakeVerdict.TOLD.value)
        if echo is EchoLevel.QUEUED:
            return Trace(Proof.ACCEPTED, WakeVerdict.QUEUED.value)
        if life is Life.ENDED:
            return Trace(Proof.NONE, WakeVerdict.ENDED.value, is_absent=True)
        rests = await self._proves_rest(fence, "") and waits_for_input(fence.agent_pid)
        return Trace(Proof.NONE, (WakeVerdict.RESTED if rests else WakeVerdict.UNSEEN).value, is_absent=rests)

    async def _watch_for(self, mark: str, fence: Binding, listening: str) -> WakeVerdict:
        """Look again and again, until what is seen says something."""
        search = self._transcripts.search(mark)
        began, heard_at, rests_since = _now(), 0.0, 0.0
        while True:
            # asked before the transcript is read: what the process wrote last is then there
            life = life_of(fence.agent_pid, fence.agent_started)
            echo = await asyncio.to_thread(search.look, await self._conversations(fence, listening))
            if not heard_at and await self._sessions.heard(mark, LOOKS_APART):
                heard_at = _now()
            rests = echo is EchoLevel.NONE and not heard_at and await self._proves_rest(fence, listening)
            now, is_asleep = _now(), waits_for_input(fence.agent_pid)
            # its record says how it stood when it last could: the rest begins, and ends, with a look that finds it asleep
            if not rests:
                rests_since = 0.0
            elif is_asleep and not rests_since:
                rests_since = now
            seen = Seen(
                echo,
                life,
                heard_for=now - heard_at if heard_at else None,
                rested_for=now - rests_since if rests_since and is_asleep else 0.0,
                waited_for=now - began,
            )
            if (verdict := verdict_on(seen, self._patience)) is not None:
                return verdict
            if heard_at:
                await asyncio.sleep(LOOKS_APART)

    async def _conversations(self, fence: Binding, listening: str) -> tuple[str, ...]:
        """Those of that process in which the mark may stand: `/clear` begins another."""
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        now = session.record.session_id if session is not None else ""
        return tuple(dict.fromkeys(one for one in (fence.session_id, now, listening) if one))

    async def _had_an_unseen_turn(self, fence: Binding) -> bool:
        """Whether a turn began, in a session that writes nothing down of its conversation."""
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        if session is None or session.record.stamp == fence.pane_started:
            return False
        return not self._transcripts.can_be_read(session.record.session_id)

    async def _proves_rest(self, fence: Binding, listening: str) -> bool:
        """Whether the harness rests now, could tell if it had the wake, and nobody is there who could still write it.

        A monitor that was given a line and did not say that it wrote it may be about to; one that waits for the next is
        not, as long as it is the only one.
        """
        session = await self._live.one(fence.agent_pid, fence.agent_started)
        if session is None or not session.rests:
            return False
        record = session.record
        had_no_turn = record.stamp == fence.pane_started
        if not had_no_turn and not self._transcripts.can_be_read(record.session_id):
            return False
        monitors = await asyncio.to_thread(monitors_below, record.pid)
        waits = any(self._sessions.listens(one) for one in {record.session_id, listening} if one)
        return monitors == 0 or (monitors == 1 and waits)


def fence_of(session: LiveSession) -> Binding:
    """What must be the same for a session to be the one it was, and, as `pane_started`, when it last changed its status."""
    record = session.record
    return Binding(
        socket=FENCED_BY,
        server_pid=0,
        session_id=record.session_id,
        pane_id="",
        pane_pid=record.pid,
        pane_started=record.stamp,
        agent_pid=record.pid,
        agent_started=record.started,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
