"""Whatever an event says, it says the same after it lay in the ledger."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from wake_bridge.domain.events import (
    Detail,
    EventStatus,
    ItemDetail,
    ItemMode,
    ItemPriority,
    ItemState,
    ItemTier,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Priority, WakePolicy
from wake_bridge.ports.ledger_records import PageRecord, Position
from wake_bridge.testing.ledger_samples import START, fresh_ledger

# the graph's JSON may hold anything in its texts, lone surrogates and NUL included
FREE = st.text(st.characters(), max_size=20)
COLUMN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INSTANTS = st.integers(0, 2**50).map(Instant)
MAYBE_COLUMN = st.none() | COLUMN

DETAILS: dict[EventKind, st.SearchStrategy[Detail]] = {
    EventKind.MESSAGE: st.builds(MessageDetail, FREE, FREE, FREE, COLUMN, st.booleans(), st.booleans()),
    EventKind.TASK: st.builds(
        TaskDetail, FREE, FREE, FREE, FREE, MAYBE_COLUMN, MAYBE_COLUMN, COLUMN, MAYBE_COLUMN, st.booleans()
    ),
    EventKind.PERMISSION: st.builds(PermissionDetail, FREE, FREE, FREE, INSTANTS, st.booleans()),
    EventKind.PULSE: st.builds(PulseDetail, FREE, FREE, FREE, FREE),
    EventKind.PRESENCE: st.builds(PresenceDetail, COLUMN.map(Identity), FREE, FREE),
    EventKind.ITEM: st.builds(
        ItemDetail,
        COLUMN,
        FREE,
        st.sampled_from(ItemMode),
        st.sampled_from(ItemTier),
        st.sampled_from(ItemPriority),
        COLUMN,
        st.sampled_from(ItemState),
        *[FREE] * 6,
    ),
}


@st.composite
def events(draw: st.DrawFn) -> WakeEvent:
    kind = draw(st.sampled_from(EventKind))
    return WakeEvent(
        id=draw(COLUMN),
        epoch=Epoch(1),
        log_id=draw(st.integers(0, 2**40).map(LogId)),
        identity=draw(COLUMN.map(Identity)),
        kind=kind,
        subject_key=draw(COLUMN.filter(bool)),
        detail=draw(DETAILS[kind]),
        subscription_id=draw(COLUMN),
        matched_at=draw(INSTANTS),
        occurred_at=draw(st.none() | INSTANTS),
        other_subscriptions=tuple(draw(st.lists(FREE, max_size=3))),
        policy=draw(st.sampled_from(WakePolicy)),
        priority=draw(st.sampled_from(Priority)),
        window=draw(st.integers(0, 300)),
        not_before=draw(INSTANTS),
        status=draw(st.sampled_from(EventStatus)),
        refused_by=draw(COLUMN),
        refusals=tuple(draw(st.lists(st.tuples(FREE, FREE), max_size=3))),
    )


@given(events())
@settings(max_examples=60)
def test_an_event_comes_back_as_it_went_in(event: WakeEvent) -> None:
    """All later steps work from the ledger alone, so it must hold the whole event."""
    with tempfile.TemporaryDirectory() as directory, fresh_ledger(Path(directory)) as ledger:
        assert ledger.advance(PageRecord(Position(Epoch(1), event.log_id), [event]), START) == [event]

        assert ledger.find_events(subject_key=event.subject_key) == [event]
        stored = ledger._db.row("SELECT due_at, thread, from_human FROM wake_event")
        assert stored is not None
        assert tuple(stored) == (event.due_at, event.thread, event.from_human)
