"""Our wake in a thread's own record: the server writes down each message with the mark it was sent under (docs/native.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ulid import ULID

from adapters.codex.connection import Connection, Declined

_PAGE: Final = 30
_MOST_PAGES: Final = 40
_SLACK: Final = 60_000
"""Milliseconds by which clocks may differ between a delivery's birth and what the record says."""

_NOTHING_YET: Final = "not materialized yet"
"""How the server says that nobody has said anything in a thread so far."""


class Unreadable(Exception):
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
    raise Unreadable("the thread's record is too long to be searched")


async def was_completed(connection: Connection, thread_id: str, turn_id: str) -> bool:
    """Whether a turn came to its end. One that was cut short may stand in the record without its message. Raises `Lost`."""
    turns = await _turns(connection, thread_id)
    return any(one.get("id") == turn_id and one.get("status") == "completed" for one in turns)


async def is_queued(connection: Connection, thread_id: str, mark: str) -> bool:
    """Whether our text waits in the thread's queue. Raises `Lost` and `Unreadable`."""
    try:
        answer = await connection.call("thread/queue/list", threadId=thread_id, limit=100)
    except Declined as no:
        raise Unreadable(str(no)) from no
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
        raise Unreadable(str(no)) from no


async def _told(connection: Connection, thread_id: str, turn_id: str, mark: str, *, is_last: bool) -> Echo:
    try:
        first = await connection.call("thread/items/list", threadId=thread_id, turnId=turn_id, limit=1)
    except Declined as no:
        raise Unreadable(str(no)) from no
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
