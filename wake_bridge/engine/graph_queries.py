"""Questions to the graph, asked on a thread of their own so that neither the tail nor the loop waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.ports.change_log import ChangeLog, EdgeRow, IdentityRow, Json, MailState

Answer = TypeVar("Answer")

PAIRS_AT_ONCE: Final = 500
"""Messages of one question: whoever has thousands must not make the others wait, nor hold them all in memory."""


class GraphQueries:
    """An awaitable face of a change log.

    The log is opened on first use, on this object's own thread; one that answered with an error is opened anew at the
    next question. Raises what the log raises (`SourceError`).
    """

    def __init__(self, open_log: Callable[[], ChangeLog]) -> None:
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

    async def identities(self) -> Mapping[Identity, IdentityRow]:
        """Every AgentIdentity."""
        return await self._ask(lambda log: log.identities())

    async def node(self, node_id: str) -> Json | None:
        """Properties of one node; None if it is gone."""
        return await self._ask(lambda log: log.node(node_id))

    async def touched(self, after: LogId, upto: LogId) -> set[str]:
        """What those rows of the log are about; see `ChangeLog.touched`."""
        return await self._ask(lambda log: log.touched(after, upto))

    async def unread_mail(self, identity: Identity, since: Instant) -> list[tuple[str, Json, EdgeRow]]:
        """Unread messages for an identity that were sent since then, with the edge that addressed each."""
        return await self._ask(lambda log: log.unread_mail(identity, since))

    async def presences(self, since: Instant) -> list[Json]:
        """What programs say in the graph of how agents have stood since then."""
        return await self._ask(lambda log: log.presences(since))

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
