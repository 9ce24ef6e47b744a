"""The feed as server-sent events: replayed from the ledger, then live; each subscriber has a short queue of its own."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from sse_starlette.event import ServerSentEvent

from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.names import Instant
from wake_bridge.records import activity_record
from wake_bridge.storage.ledger import LedgerStore

QUEUE: Final = 256
"""Entries that wait for one subscriber; one more drops the oldest."""

LOOKED_EVERY: Final = 0.25
"""Seconds between two looks at the ledger while somebody listens: commands write it too."""

PRESENCE_EVERY: Final = 4
"""Looks at the ledger for each look at what the agents show."""

READ_AT_ONCE: Final = 200
"""Entries of a replay that are read in one go."""

MOST_SUBSCRIBERS: Final = 32

RETRY: Final = 1000
"""Milliseconds after which a client is asked to connect again."""

PRESENCE: Final = "presence"
RESET: Final = "reset"
DROPPED: Final = "dropped"


class Subscriber:
    """What waits for one client. `cursor` is the entry that it was sent last."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self._queue: deque[tuple[int, ServerSentEvent]] = deque()
        self._shown: dict[str, ServerSentEvent] = {}
        self._dropped = 0
        self._has_events = asyncio.Event()

    def put(self, number: int, event: ServerSentEvent) -> None:
        """Queue an entry by its number, unless it was sent already."""
        if number <= self.cursor:
            return
        if len(self._queue) >= QUEUE:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append((number, event))
        self._has_events.set()

    def show(self, identity: str, event: ServerSentEvent) -> None:
        """Keep what an agent shows now; what it showed before and was not sent yet concerns nobody."""
        self._shown[identity] = event
        self._has_events.set()

    async def take(self) -> list[ServerSentEvent]:
        """Wait for events, and take them; the first says how many entries were dropped before them, if any were."""
        await self._has_events.wait()
        self._has_events.clear()
        events = [event for _, event in self._queue]
        if self._dropped:
            events.insert(0, _event(DROPPED, {"count": self._dropped, "after": self.cursor}))
        if self._queue:
            self.cursor = self._queue[-1][0]
        events += self._shown.values()
        self._dropped = 0
        self._queue.clear()
        self._shown.clear()
        return events


class Feed:
    """Reads the ledger while somebody listens, and sends everybody what is new.

    Args:
        ledger: the ledger, to read, on the server's thread.
        presence: what each agent shows now, by identity.
        seen_until: when a person last looked.
    """

    def __init__(
        self,
        ledger: Callable[[], LedgerStore],
        presence: Callable[[], Awaitable[Mapping[str, Mapping[str, Any]]]],
        seen_until: Callable[[], Instant | None],
    ) -> None:
        self._ledger = ledger
        self._presence = presence
        self._seen_until = seen_until
        self._subscribers: set[Subscriber] = set()
        self._listening = 0
        self._last = 0
        self._shown: Mapping[str, Mapping[str, Any]] = {}
        self._watch: asyncio.Task[None] | None = None

    @property
    def is_crowded(self) -> bool:
        """Whether one more subscriber is too many."""
        return self._listening >= MOST_SUBSCRIBERS

    async def events(self, after: int | None) -> AsyncGenerator[ServerSentEvent]:
        """Everything after an entry, for as long as the client listens; from now on without one. Raises `LedgerError`."""
        self._listening += 1
        try:
            oldest, last = self._ledger().activity_span()
            cursor = last if after is None else after
            if not oldest - 1 <= cursor <= last:
                # what lies between is forgotten, or was never written: the client begins anew
                yield _event(RESET, {"oldest": oldest, "last": last}, last)
                cursor = last
            else:
                yield ServerSentEvent(comment="listening", retry=RETRY)
            while entries := self._ledger().activity_after(cursor, READ_AT_ONCE):
                for entry in entries:
                    yield self._told(entry)
                    cursor = entry.id
                    # a client that reads fast, or has gone, makes nobody wait: others must have their turn
                    await asyncio.sleep(0)
            # nothing is awaited between the last look and this: no entry is missed
            subscriber = Subscriber(cursor)
            self._welcome(subscriber)
            try:
                for identity, shown in self._shown.items():
                    subscriber.show(identity, _presence(identity, shown))
                while True:
                    for event in await subscriber.take():
                        yield event
            finally:
                self._part_from(subscriber)
        finally:
            self._listening -= 1

    def _welcome(self, subscriber: Subscriber) -> None:
        if not self._subscribers:
            self._last, self._shown = subscriber.cursor, {}
            self._watch = asyncio.create_task(self._look())
        self._subscribers.add(subscriber)

    def _part_from(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)
        if not self._subscribers and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _look(self) -> None:
        """Until nobody listens any more. A ledger that cannot be read for a moment is read again."""
        count = 0
        while True:
            with suppress(LedgerError):
                self._look_at_ledger()
            if count % PRESENCE_EVERY == 0:
                await self._look_at_agents()
            count += 1
            await asyncio.sleep(LOOKED_EVERY)

    def _look_at_ledger(self) -> None:
        if self._ledger().activity_span()[1] == self._last:
            return
        for entry in self._ledger().activity_after(self._last, READ_AT_ONCE):
            event = self._told(entry)
            for subscriber in self._subscribers:
                subscriber.put(entry.id, event)
            self._last = entry.id

    async def _look_at_agents(self) -> None:
        shown = await self._presence()
        for identity, state in shown.items():
            if self._shown.get(identity) == state:
                continue
            for subscriber in self._subscribers:
                subscriber.show(identity, _presence(identity, state))
        self._shown = shown

    def _told(self, entry: Any) -> ServerSentEvent:
        return _event(entry.kind.value, activity_record(entry, self._seen_until()), entry.id)


def _presence(identity: str, shown: Mapping[str, Any]) -> ServerSentEvent:
    return _event(PRESENCE, {"agentIdentity": identity, **shown})


def _event(name: str, said: Mapping[str, Any], number: int | None = None) -> ServerSentEvent:
    data = json.dumps(said, ensure_ascii=True, separators=(",", ":"))
    return ServerSentEvent(data, event=name, id=None if number is None else str(number))
