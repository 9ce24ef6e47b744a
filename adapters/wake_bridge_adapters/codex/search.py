"""Finds what became of a wake that was sent: its echo in the thread's record, or the proof that it never arrived."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final

from ulid import ULID

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.delivery import Proof, Step
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Refused, Trace
from wake_bridge_adapters.codex.server import AppServer, Connection, Server
from wake_bridge_adapters.codex.threads import Thread, read_thread
from wake_bridge_adapters.recorded import (
    LONGEST_PAUSE,
    PATIENCE,
    AnswerLost,
    Declined,
    NotThere,
    SearchedWake,
    SearchPace,
)
from wake_bridge_adapters.unix_peer import Peer

_PAGE: Final = 30
_MOST_PAGES: Final = 40
_SLACK: Final = 60_000
"""Milliseconds by which clocks may differ between a delivery's birth and what the record says."""

_NOTHING_YET: Final = "not materialized yet"
"""How the server says that nobody has said anything in a thread so far."""


class RecordUnreadable(Exception):
    """The record cannot be read just now, or not far enough back."""


@dataclass(frozen=True, slots=True)
class Echo:
    """Where our message stands.

    `began_turn` tells a turn that it began from one that it was added to. `was_cut_short`: the turn ended before anything
    came after our message in it, and nothing has come after that turn.
    """

    turn_id: str
    began_turn: bool
    was_cut_short: bool


async def find_echo(connection: Connection, thread_id: str, mark: str) -> Echo | None:
    """Our message in the thread's record, None where the record has none.

    Raises:
        Lost: no answer.
        Unreadable: an answer that tells nothing.
    """
    oldest, newer = _born(mark) - _SLACK, 0
    cursor: Any = None
    for _ in range(_MOST_PAGES):
        page = await _page(connection, thread_id, cursor)
        for entry in page.get("data") or ():
            if _is_ours(entry.get("item") or {}, mark):
                return await _told(connection, thread_id, str(entry.get("turnId", "")), mark, is_last=newer == 0)
            if int(entry.get("startedAtMs") or oldest) < oldest:
                return None
            newer += 1
        cursor = page.get("nextCursor")
        if cursor is None:
            return None
    raise RecordUnreadable("the thread's record is too long to be searched")


async def was_completed(connection: Connection, thread_id: str, turn_id: str) -> bool:
    """Whether a turn came to its end. One that was cut short may stand in the record without its message. Raises `AnswerLost`."""
    turns = await _turns(connection, thread_id)
    return any(one.get("id") == turn_id and one.get("status") == "completed" for one in turns)


async def is_queued(connection: Connection, thread_id: str, mark: str) -> bool:
    """Whether our text waits in the thread's queue. Raises `AnswerLost` and `RecordUnreadable`."""
    try:
        answer = await connection.call("thread/queue/list", threadId=thread_id, limit=100)
    except Declined as no:
        raise RecordUnreadable(str(no)) from no
    return any(mark in str(one.get("input")) for one in answer.get("data") or ())


async def _page(connection: Connection, thread_id: str, cursor: Any) -> Mapping[str, Any]:
    asked: dict[str, Any] = {"threadId": thread_id, "limit": _PAGE, "sortDirection": "desc"}
    if cursor is not None:
        asked["cursor"] = cursor
    try:
        return await connection.call("thread/items/list", **asked)
    except Declined as no:
        if _NOTHING_YET in str(no):
            return {}
        raise RecordUnreadable(str(no)) from no


async def _told(connection: Connection, thread_id: str, turn_id: str, mark: str, *, is_last: bool) -> Echo:
    try:
        first = await connection.call("thread/items/list", threadId=thread_id, turnId=turn_id, limit=1)
    except Declined as no:
        raise RecordUnreadable(str(no)) from no
    entries = list(first.get("data") or ())
    began = bool(entries) and _is_ours(entries[0].get("item") or {}, mark)
    turns = await _turns(connection, thread_id) if is_last else []
    ended = bool(turns) and turns[0].get("id") == turn_id and turns[0].get("status") == "interrupted"
    return Echo(turn_id, began_turn=began, was_cut_short=is_last and ended)


async def _turns(connection: Connection, thread_id: str) -> list[Mapping[str, Any]]:
    try:
        answer = await connection.call("thread/turns/list", threadId=thread_id, limit=10)
    except Declined:
        return []
    return list(answer.get("data") or ())


def _is_ours(item: Mapping[str, Any], mark: str) -> bool:
    """What `codex queue` hands in has a name of its own, and the mark in its text."""
    if item.get("type") != "userMessage":
        return False
    texts = (str(part.get("text", "")) for part in item.get("content") or () if isinstance(part, dict))
    return item.get("clientId") == mark or any(mark in text for text in texts)


def _born(mark: str) -> int:
    """When the delivery was opened: its ULID says so."""
    try:
        return int(ULID.from_str(mark).milliseconds)
    except ValueError:
        return 0


_TURN_PATIENCE: Final = 3.0
"""Seconds one search lasts while a turn runs without showing it: that may take as long as a tool does."""

_PEEK: Final = 3.0
"""Seconds for a turn that the queue begins to show."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What is known of the sending: to whom, None where nobody knows any more, and the turn that was begun.

    `is_unanswered` says that the request was sent and the answer never came, so that the server may still be at it.
    """

    to: Peer | None
    turn_id: str = ""
    is_unanswered: bool = False


@dataclass(frozen=True, slots=True)
class _Look:
    """One look that was answered."""

    server: Server
    thread: Thread | None
    echo: Echo | None


class Search:
    """Looks for one wake; with `may_begin` a turn that was cut short may be begun again."""

    def __init__(
        self, app_server: AppServer, thread_id: str, searched: SearchedWake, *, may_begin: bool = True
    ) -> None:
        self._app_server = app_server
        self._thread_id = thread_id
        self._searched = searched
        self._may_begin = may_begin

    async def run(self, sent: Sent) -> AttemptOutcome:
        """Look until it is found or proven absent; after a while leave it to the next attempt, and at last to a person."""
        pace = SearchPace(is_unanswered=sent.is_unanswered)
        look: _Look | str = ""
        while pace.goes_on(_TURN_PATIENCE if _runs(look) else math.inf):
            look = await self._look()
            if isinstance(look, _Look):
                if look.echo is not None:
                    return await self._found(look, look.echo, sent)
                if is_another(sent.to, look.server):
                    if look.thread is None:
                        # a thread in which nothing was said is on no disk, and dies with its server
                        return await self._searched.absent("its server is gone, and the thread with it")
                    return await self._settled_without(sent, "its server is gone, and the record has no such message")
                may_come = look.thread is None or _runs(look)
                if pace.has_settled(is_at_rest=not may_come):
                    return await self._settled_without(sent, "the thread rests, and its record has no such message")
            await pace.pause()
        return self._undecided(look)

    async def peek(self) -> Echo | None:
        """Look for a moment only."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + _PEEK
        while loop.time() < ends:
            look = await self._look()
            if isinstance(look, _Look) and look.echo is not None:
                return look.echo
            await asyncio.sleep(LONGEST_PAUSE)
        return None

    async def _look(self) -> _Look | str:
        return await _look_at(self._app_server, self._thread_id, self._searched.mark)

    async def _found(self, look: _Look, echo: Echo, sent: Sent) -> AttemptOutcome:
        evidence = {"turn": echo.turn_id, "echo": self._searched.mark}
        if not echo.began_turn:
            evidence["added to"] = "a turn that had begun meanwhile"
        if echo.was_cut_short and is_another(sent.to, look.server):
            evidence |= await self._begin_again()
        return await self._searched.found(evidence)

    async def _begin_again(self) -> dict[str, str]:
        """Let the agent answer what it was given before its server died: a turn without a text, once."""
        if not self._may_begin:
            return {"cut short": "its server died, and waking is switched off; the agent reads it with its next turn"}
        try:
            connection = await self._opened_again()
            if connection is None:
                return {"cut short": "its server died; the agent reads it with its next turn"}
            await self._searched.journal(
                Step.INTENT_SUBMIT, {"call": "turn/start without a text", "thread": self._thread_id}
            )
            answer = await connection.call("turn/start", threadId=self._thread_id, input=[])
        except (NotThere, AnswerLost, Declined) as no:
            return {"cut short": f"its server died, and it was not begun again: {no}"}
        return {"begun again": str((answer.get("turn") or {}).get("id", ""))}

    async def _opened_again(self) -> Connection | None:
        """The connection once a program has the thread open again; None if none has it for a while, or a turn runs."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + PATIENCE
        while loop.time() < ends:
            connection = await self._app_server.connection()
            thread = await read_thread(connection, self._thread_id)
            if thread is not None and thread.is_loaded:
                return connection if thread.is_at_rest else None
            await asyncio.sleep(LONGEST_PAUSE)
        return None

    async def _settled_without(self, sent: Sent, why: str) -> AttemptOutcome:
        """No message of ours: what may still stand for it is its turn, or a line in the thread's queue."""
        try:
            connection = await self._app_server.connection()
            answered = bool(sent.turn_id) and await was_completed(connection, self._thread_id, sent.turn_id)
            queued = await is_queued(connection, self._thread_id, self._searched.mark)
        except (NotThere, AnswerLost, RecordUnreadable) as blind:
            return self._undecided(str(blind))
        if answered:
            await self._searched.journal(Step.SUBMITTED, {"turn": sent.turn_id})
            return Delivered(Proof.SUBMITTED, {"turn": sent.turn_id, "echo": "none"})
        if queued:
            await self._searched.journal(Step.SUBMITTED, {"queue": "it waits in the queue of its thread"})
            return Delivered(Proof.ACCEPTED, {"queue": "it waits in the queue of its thread"})
        return await self._searched.absent(why)

    def _undecided(self, look: _Look | str) -> AttemptOutcome:
        if _runs(look):
            self._searched.forget()
            why = "it was handed over while a turn runs, and is read at the end of a tool"
            return Refused(HoldReason.ACTIVE, why, self._searched.where)
        why = look if isinstance(look, str) else "the server did not answer whether it took it, and shows nothing of it"
        return self._searched.undecided(why, HoldReason.UNREACHABLE)


async def trace(app_server: AppServer, thread_id: str, mark: str, sent_to: Peer | None) -> Trace:
    """One look for a wake that may have been sent long ago; `sent_to` is the server that may have taken it."""
    look = await _look_at(app_server, thread_id, mark)
    if isinstance(look, str):
        return Trace(Proof.NONE, look)
    if look.echo is not None:
        return Trace(Proof.ACKNOWLEDGED, f"it stands in the record of the thread: turn {look.echo.turn_id}")
    if look.thread is None:
        return Trace(Proof.NONE, "the app-server knows no such thread", is_absent=is_another(sent_to, look.server))
    if _runs(look):
        return Trace(Proof.NONE, "a turn runs in the thread")
    try:
        queued = await is_queued(await app_server.connection(), thread_id, mark)
    except (NotThere, AnswerLost, RecordUnreadable) as blind:
        return Trace(Proof.NONE, str(blind))
    if queued:
        return Trace(Proof.ACCEPTED, "it waits in the queue of its thread")
    return Trace(Proof.NONE, "the thread rests, and its record has no such message", is_absent=True)


async def _look_at(app_server: AppServer, thread_id: str, mark: str) -> _Look | str:
    """What the server says; why nothing could be seen, where it says nothing."""
    try:
        connection = await app_server.connection()
        thread = await read_thread(connection, thread_id)
        echo = await find_echo(connection, thread_id, mark) if thread is not None else None
    except (NotThere, AnswerLost, RecordUnreadable) as blind:
        return str(blind)
    return _Look(connection.server, thread, echo)


def _runs(look: _Look | str) -> bool:
    """Whether a turn runs that may have our message without showing it yet."""
    return isinstance(look, _Look) and look.thread is not None and not look.thread.is_at_rest


def is_another(known: Peer | None, now: Server) -> bool:
    """Whether a server is certainly another process than the one that is known."""
    return known is not None and known != now.peer
