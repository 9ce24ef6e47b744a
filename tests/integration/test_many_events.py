"""What a delivery of thousands of events must not do to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wake_bridge.domain.names import Identity
from wake_bridge.engine.deliver.relevance import EVENTS_AT_ONCE, events_of
from wake_bridge.engine.graph_queries import PAIRS_AT_ONCE, GraphQueries
from wake_bridge.ports.change_log import ChangeLog, MailState
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import START, fresh_ledger, open_delivery, sample_event

if TYPE_CHECKING:
    from collections.abc import Mapping

Pair = tuple[str, Identity]


def test_its_events_are_read_in_pieces_and_others_have_their_turns(tmp_path: Path) -> None:
    """The loop is held up for a piece at a time; nothing is lost or out of order."""
    count = 3 * EVENTS_AT_ONCE + 7

    async def story(ledger: LedgerStore) -> int:
        delivery = open_delivery(ledger, *(sample_event(1 + row) for row in range(count)), new_id=lambda: "ONE")
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        events = await events_of(ledger, delivery.id)
        beside.cancel()
        assert events == ledger.events_of(delivery.id)
        assert [event.log_id for event in events] == list(range(1, count + 1))
        return turns

    with fresh_ledger(tmp_path) as ledger:
        assert asyncio.run(story(ledger)) >= 4


class CountedLog:
    """A log that knows every message, and remembers how many it was asked about at once."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def mail_states(self, pairs: Sequence[Pair]) -> Mapping[Pair, MailState]:
        self.asked.append(len(pairs))
        return dict.fromkeys(pairs, MailState(exists=True, addressed=True, is_read=False))


def test_the_graph_is_asked_about_its_mail_in_pieces() -> None:
    """Questions share one thread: whoever has thousands must not make the others wait for all of them."""
    log = CountedLog()
    queries = GraphQueries(lambda: cast("ChangeLog", log))
    pairs = [(f"MESSAGE:{number}", Identity("@a")) for number in range(2 * PAIRS_AT_ONCE + 1)]

    states = asyncio.run(queries.mail_states(pairs))

    assert list(states) == pairs
    assert log.asked == [PAIRS_AT_ONCE, PAIRS_AT_ONCE, 1]


def test_a_lock_on_thousands_of_events_takes_few_statements(tmp_path: Path) -> None:
    """What is locked already is not written again, event by event."""
    with fresh_ledger(tmp_path) as ledger:
        delivery = open_delivery(ledger, *(sample_event(1 + row) for row in range(500)), new_id=lambda: "ONE")
        dispatched = ledger.dispatch(delivery, START)
        statements: list[str] = []
        ledger._db.connection.set_trace_callback(statements.append)
        ledger._keep_exactly(dispatched.id, ledger.event_ids_of(dispatched.id))
        ledger._db.connection.set_trace_callback(None)
        assert len(statements) < 10
