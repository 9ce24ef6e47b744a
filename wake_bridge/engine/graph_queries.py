"""Questions to the graph, asked on a thread of their own so that neither the tail nor the loop waits for them."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar, cast

from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.domain.presence import Evidence, told_in_graph
from wake_bridge.engine.settings import Current
from wake_bridge.ports.change_log import ChangeLog, EdgeRow, IdentityRow, Json, MailState
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger_records import Position

Answer = TypeVar("Answer")

PAIRS_AT_ONCE: Final = 500
"""Messages of one question: whoever has thousands must not make the others wait, nor hold them all in memory."""


READ_EVERY: Final = 1_000
"""Milliseconds for which what was read is good enough: looks are many, and nobody's state lasts so short."""

PRESENCE_PATIENCE: Final = 0.5
"""Seconds: a busy graph holds up no look."""


class GraphQueries:
    """An awaitable face of a change log.

    The log is opened on first use, on this object's own thread; one that answered with an error is opened anew at the
    next question. Raises what the log raises (`SourceError`).

    Args:
        open_log: opens it.
        told: answers what an identity was told of by other hosts on the same graph; None where there can be none.
        known: every AgentIdentity as it was read last; None where nobody has.
    """

    def __init__(
        self,
        open_log: Callable[[], ChangeLog],
        told: Callable[[Identity, Sequence[str]], Awaitable[Mapping[str, str]]] | None = None,
        known: Callable[[], Mapping[Identity, IdentityRow] | None] = lambda: None,
    ) -> None:
        self._known = known
        self._told = told
        self._open_log = open_log
        self._log: ChangeLog | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inquiry")

    async def mail_states(self, pairs: Sequence[tuple[str, Identity]]) -> Mapping[tuple[str, Identity], MailState]:
        """How those (message id, identity) stand now."""
        states: dict[tuple[str, Identity], MailState] = {}
        for first in range(0, len(pairs), PAIRS_AT_ONCE):
            some = pairs[first : first + PAIRS_AT_ONCE]
            states |= await self._ask(partial(_mail_states, pairs=some))
        return states

    async def edges_present(self, edge_ids: Sequence[str]) -> set[str]:
        """Which of the edges still exist."""
        return await self._ask(lambda log: log.edges_present(edge_ids)) if edge_ids else set()

    async def identities(self, identity: Identity) -> Mapping[Identity, IdentityRow]:
        """Every AgentIdentity: that one as it stands now, the others as they were read last."""
        known = self._known()
        if known is None:
            return await self._ask(lambda log: log.identities())
        fresh = await self._ask(lambda log: log.identities(identity))
        return ChainMap({**fresh}, cast("dict[Identity, IdentityRow]", known))

    async def node(self, node_id: str) -> Json | None:
        """Properties of one node; None if it is gone."""
        return await self._ask(lambda log: log.node(node_id))

    async def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, str]:
        """Which of these an identity was told of, or may have been, by another host on the same graph; and by which."""
        return await self._told(identity, subject_keys) if self._told is not None else {}

    async def touched(self, after: LogId, upto: LogId) -> set[str]:
        """What those rows of the log are about; see `ChangeLog.touched`."""
        return await self._ask(lambda log: log.touched(after, upto))

    async def unread_mail(self, identity: Identity, since: Instant) -> list[tuple[str, Json, EdgeRow]]:
        """Unread messages for an identity that were sent since then, with the edge that addressed each."""
        return await self._ask(lambda log: log.unread_mail(identity, since))

    async def presences(self, since: Instant) -> list[Json]:
        """What programs say in the graph of how agents have stood since then."""
        return await self._ask(lambda log: log.presences(since))

    async def note_reader(self, reader: str, position: Position) -> None:
        """Say how far this daemon has stored what it read; see `ChangeLog.note_reader`."""
        await self._ask(lambda log: log.note_reader(reader, position.cursor, position.snapshot))

    async def _ask(self, question: Callable[[ChangeLog], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    def _answer(self, question: Callable[[ChangeLog], Answer]) -> Answer:
        if self._log is None:
            self._log = self._open_log()
        try:
            return question(self._log)
        except Exception:
            self._forget()
            raise

    def _forget(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None

    def close(self) -> None:
        """Close the log on its own thread and end the thread."""
        self._thread.submit(self._forget)
        self._thread.shutdown(wait=True)


def _mail_states(log: ChangeLog, pairs: Sequence[tuple[str, Identity]]) -> Mapping[tuple[str, Identity], MailState]:
    return log.mail_states(pairs)


class GraphPresence:
    """The rows, read once for all who ask within a second, and not again while the log stays as it is.

    Args:
        queries: asks the graph.
        current: how long such a row is fresh.
        clock: when it was read; what the rows say follows the wall.
        log_version: of the log at its last look, or None while that says nothing.
    """

    def __init__(
        self, queries: GraphQueries, current: Current, clock: Clock, log_version: Callable[[], object | None]
    ) -> None:
        self._queries = queries
        self._current = current
        self._clock = clock
        self._log_version = log_version
        self._rows: Sequence[Json] = ()
        self._read_at: Instant | None = None
        self._read_from: object | None = None

    async def of(self, identity: Identity) -> tuple[Evidence, ...]:
        """What is said of an identity's agent now; nothing where the graph does not answer."""
        now, fresh_for_ms = self._clock.wall(), self._current.settings.fresh_for_ms
        if self._is_due():
            # taken before the question: what is committed meanwhile makes another one
            self._read_at, read_from = self._clock.now(), self._log_version()
            try:
                async with asyncio.timeout(PRESENCE_PATIENCE):
                    self._rows = await self._queries.presences(Instant(now - fresh_for_ms))
                self._read_from = read_from
            except (SourceError, TimeoutError):
                self._rows, self._read_from = (), None
        found = (told_in_graph(row, now, fresh_for_ms) for row in self._rows if row.get("agentIdentity") == identity)
        return tuple(one for one in found if one is not None)

    def _is_due(self) -> bool:
        if self._read_at is None or self._clock.now() - self._read_at >= READ_EVERY:
            return self._read_from is None or self._read_from != self._log_version()
        return False
