"""Cursor and events move together; a subject wakes an identity at most once; nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import Hold, HoldReason, Outcome, Proof
from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.ports.ledger_records import NOT_ADDRESSED, PageRecord, Position, Quarantined, TaskState
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import (
    AGENT,
    START,
    advance,
    counted_ids,
    open_delivery,
    sample_event,
)


def at(cursor: int, epoch: int = 1, fingerprint: str = "") -> Position:
    return Position(Epoch(epoch), LogId(cursor), fingerprint)


def test_a_new_ledger_has_no_position(tmp_path: Path) -> None:
    """The cursor rules begin with a missing cursor, which is not row 0."""
    ledger = LedgerStore.open(tmp_path)
    try:
        assert ledger.position() is None
        with pytest.raises(LedgerError, match="epoch"):
            ledger.advance(PageRecord(at(5)), START)
        assert ledger.position() is None
    finally:
        ledger.close()


def test_cursor_and_events_and_all_else_of_a_page_are_one_transaction(ledger: LedgerStore) -> None:
    """Advancing the cursor and inserting the events is one transaction."""
    taken = sample_event(1)
    advance(ledger, taken)
    impossible = replace(sample_event(3), id=taken.id)
    page = PageRecord(
        at(3, fingerprint="edges:E3"),
        [sample_event(2), impossible],
        [TaskState("TASK:1", "Working")],
        [Quarantined(LogId(3), "E3", "broken")],
    )

    with pytest.raises(LedgerError, match="two events have one id"):
        ledger.advance(page, START)

    assert ledger.position() == at(1)
    assert ledger.known_subjects(AGENT, ["MESSAGE:2", "MESSAGE:3"]) == set()
    assert ledger.task_states(["TASK:1"]) == {}
    assert ledger.tally().quarantined == 0

    new = ledger.advance(replace(page, events=[sample_event(2)]), START)
    assert [event.log_id for event in new] == [2]
    assert ledger.position() == at(3, fingerprint="edges:E3")
    assert ledger.task_states(["TASK:1", "TASK:2"]) == {"TASK:1": TaskState("TASK:1", "Working")}
    assert ledger.tally().quarantined == 1


def test_the_cursor_never_goes_back_inside_an_epoch(ledger: LedgerStore) -> None:
    """Ids only grow inside one life of the source; what is found meanwhile still counts."""
    ledger.advance(PageRecord(at(10, fingerprint="nodes:N")), START)

    assert len(ledger.advance(PageRecord(at(4, fingerprint="nodes:M"), [sample_event(4)]), START)) == 1

    assert ledger.position() == at(10, fingerprint="nodes:N")


def test_one_message_makes_one_event_however_many_rows_mention_it(ledger: LedgerStore) -> None:
    """Unique (identity, subject key); every upsert writes a row."""
    first = sample_event(1, subject_key="MESSAGE:m")
    assert advance(ledger, first) == [first]

    assert advance(ledger, sample_event(2, subject_key="MESSAGE:m"), sample_event(3, subject_key="MESSAGE:m")) == []
    other = sample_event(4, "@other", subject_key="MESSAGE:m")
    assert advance(ledger, other) == [other]

    assert ledger.find_events(subject_key="MESSAGE:m") == [first, other]


def test_one_row_makes_one_event_for_one_identity(ledger: LedgerStore) -> None:
    """Unique (epoch, log_id, identity); a page may be read twice after a restart."""
    first = sample_event(1)
    advance(ledger, first)

    assert advance(ledger, sample_event(1, subject_key="MESSAGE:another reading of the row")) == []

    ledger.begin_epoch(at(0, epoch=2), [], "replaced", START)
    fresh = replace(sample_event(1, subject_key="MESSAGE:of another life"), epoch=Epoch(2))
    assert ledger.advance(PageRecord(at(1, epoch=2), [fresh]), START) == [fresh]


def test_facts_without_a_row_are_told_apart_by_their_subject(ledger: LedgerStore) -> None:
    """A look-back finds mail whose rows were pruned; intake keys never had one."""
    found = [sample_event(0, subject_key="MESSAGE:a"), sample_event(0, subject_key="MESSAGE:b")]

    assert advance(ledger, *found) == found
    assert advance(ledger, sample_event(0, subject_key="MESSAGE:a")) == []
    assert ledger.find_events(log_id=LogId(0)) == []


@pytest.mark.parametrize("word", ["filter", "self", "silent", "suppressed", "read", "age"])
def test_a_refused_fact_is_kept_and_stays_refused(ledger: LedgerStore, word: str) -> None:
    """Facts that matched but were refused answer `why`; a message wakes an identity at most once."""
    refused = replace(
        sample_event(1, subject_key="MESSAGE:m"),
        status=EventStatus.REFUSED,
        refused_by=word,
        refusals=(("WAKE_SUB:1", word), ("WAKE_SUB:2", "filter")),
    )
    assert advance(ledger, refused) == [refused]

    assert advance(ledger, sample_event(2, subject_key="MESSAGE:m")) == []

    assert ledger.find_events(subject_key="MESSAGE:m") == [refused]
    assert ledger.find_events(log_id=LogId(1)) == [refused]
    assert ledger.gather(START, counted_ids()) == []


@pytest.mark.parametrize("status", [EventStatus.SUPERSEDED, EventStatus.REFUSED])
def test_an_event_closed_before_its_audience_was_written_opens_again(ledger: LedgerStore, status: EventStatus) -> None:
    """SENT_TO commits before its DELIVERED_TO edges; an edge that comes late must still wake."""
    early = sample_event(1, subject_key="MESSAGE:m")
    advance(ledger, early)
    ledger.mark([early.id], status, NOT_ADDRESSED, START)
    assert ledger.gather(START, counted_ids()) == []

    late = sample_event(5, subject_key="MESSAGE:m", matched_at=START + 400)
    assert advance(ledger, late) == [replace(late, id=early.id)]

    (delivery,) = ledger.gather(Instant(START + 400), counted_ids())
    (event,) = ledger.events_of(delivery.id)
    assert (event.log_id, event.status, event.refused_by) == (5, EventStatus.OPEN, "")
    assert delivery.due_at == START + 30_400
    assert advance(ledger, sample_event(6, subject_key="MESSAGE:m")) == []


def test_a_broadcast_that_waits_for_its_audience_is_due_once_that_names_its_identity(ledger: LedgerStore) -> None:
    """The edge of another recipient hastens nothing, and an event is hastened once."""
    waits = replace(sample_event(1, subject_key="MESSAGE:m", window=0), not_before=Instant(START + 2000))
    delivery = open_delivery(ledger, waits, new_id=counted_ids())
    assert delivery.due_at == START + 2000
    assert advance(ledger, replace(waits, id="E2"), now=START + 5) == []
    assert ledger.due(Instant(START + 10)) == []

    receipt = sample_event(2, subject_key="MESSAGE:m", window=0)
    assert advance(ledger, receipt, now=START + 10) == [replace(waits, not_before=receipt.not_before)]

    assert [one.id for one in ledger.due(Instant(START + 10))] == [delivery.id]
    assert advance(ledger, sample_event(3, subject_key="MESSAGE:m", window=0), now=START + 11) == []


def test_a_wake_that_is_held_for_a_broadcast_alone_is_due_once_its_audience_names_its_identity(
    ledger: LedgerStore,
) -> None:
    """The other mail of that wake was read meanwhile: what is left waits for the audience."""
    waits = replace(sample_event(1, subject_key="MESSAGE:m", window=0), not_before=Instant(START + 2000))
    delivery = ledger.dispatch(open_delivery(ledger, waits, new_id=counted_ids()), START)
    ledger.hold(delivery, Hold(HoldReason.WINDOW, next_look_at=Instant(START + 2000)), START)
    assert ledger.due(Instant(START + 10)) == []

    advance(ledger, sample_event(2, subject_key="MESSAGE:m", window=0), now=START + 10)

    assert [one.id for one in ledger.due(Instant(START + 10))] == [delivery.id]


def test_an_event_opens_again_also_when_a_delivery_had_ended_empty_over_it(ledger: LedgerStore) -> None:
    """The same when the guards had already settled its delivery."""
    early = sample_event(1, subject_key="MESSAGE:m")
    delivery = open_delivery(ledger, early, new_id=counted_ids())
    ledger.mark([early.id], EventStatus.SUPERSEDED, NOT_ADDRESSED, START)
    ledger.settle(delivery, Outcome.EMPTY, Proof.NONE, {}, START)
    advance(ledger, sample_event(5, subject_key="MESSAGE:m"))

    (again,) = ledger.gather(START, counted_ids("AGAIN"))
    assert [event.log_id for event in ledger.events_of(again.id)] == [5]


def test_what_was_shown_before_it_was_matched_is_kept_as_announced(ledger: LedgerStore) -> None:
    """Our own record of what was announced counts as read."""
    ledger.announce(AGENT, ["MESSAGE:m"], "inbox", START)

    (event,) = advance(ledger, sample_event(1, subject_key="MESSAGE:m"))

    assert (event.status, event.refused_by) == (EventStatus.ANNOUNCED, "inbox")
    assert ledger.find_events(subject_key="MESSAGE:m") == [event]
    assert ledger.gather(START, counted_ids()) == []
    assert advance(ledger, sample_event(2, "@other", subject_key="MESSAGE:m"))[0].status is EventStatus.OPEN


def test_known_subjects_are_those_met_or_shown(ledger: LedgerStore) -> None:
    """A look-back must not bring back what the ledger knows."""
    advance(ledger, sample_event(1))
    ledger.announce(AGENT, ["MESSAGE:shown"], "inbox", START)
    keys = ["MESSAGE:1", "MESSAGE:shown", "MESSAGE:2"]

    assert ledger.known_subjects(AGENT, keys) == {"MESSAGE:1", "MESSAGE:shown"}
    assert ledger.known_subjects(Identity("@other"), keys) == set()


def test_a_new_epoch_copies_all_task_states_and_its_look_back_with_the_cursor(ledger: LedgerStore) -> None:
    """At a new epoch every task's state is copied in the same transaction as the cursor."""
    ledger.advance(PageRecord(at(1), [sample_event(1)], [TaskState("TASK:old", "Working")]), START)
    found = replace(sample_event(0, subject_key="MESSAGE:unread"), epoch=Epoch(2))

    new = ledger.begin_epoch(
        at(900, epoch=2), [TaskState("TASK:1", "Submitted", "@a")], "file replaced", START, [found]
    )

    assert new == [found]
    assert ledger.position() == at(900, epoch=2)
    assert ledger.task_states(["TASK:old", "TASK:1"]) == {"TASK:1": TaskState("TASK:1", "Submitted", "@a")}
    (delivery,) = ledger.gather(START, counted_ids())
    assert [event.subject_key for event in ledger.events_of(delivery.id)] == ["MESSAGE:1", "MESSAGE:unread"]


def test_an_epoch_follows_an_earlier_one_only(ledger: LedgerStore) -> None:
    """Ids compare only inside one epoch, so an old one cannot come back."""
    for epoch in (0, 1):
        with pytest.raises(LedgerError, match="cannot follow"):
            ledger.begin_epoch(at(5, epoch=epoch), [], "again", START)
    with pytest.raises(LedgerError, match="not the current one"):
        ledger.advance(PageRecord(at(5, epoch=2)), START)

    assert ledger.position() == at(0)


def test_a_task_state_is_the_last_one_told(ledger: LedgerStore) -> None:
    """Transitions are derived by comparing with the last state in our ledger."""
    ledger.advance(PageRecord(at(1), tasks=[TaskState("TASK:1", "Submitted", None, "t1")]), START)
    ledger.advance(PageRecord(at(2), tasks=[TaskState("TASK:1", "Working", "@a", "t2")]), START)

    assert ledger.task_states(["TASK:1"]) == {"TASK:1": TaskState("TASK:1", "Working", "@a", "t2")}


def test_a_replay_brings_back_what_was_told_but_doubles_nothing_that_is_open(ledger: LedgerStore) -> None:
    """`resync` adds a suffix to the subject key, so that the same rows count once more."""
    told, still_open = sample_event(1), sample_event(2)
    advance(ledger, told, still_open)
    ledger.announce(AGENT, [told.subject_key], "inbox", START)
    again = [replace(event, id=event.id + "-again") for event in (told, still_open)]

    assert ledger.replay(again, START) == [again[0]]
    assert ledger.replay([replace(again[0], id="third")], START) == []

    (delivery,) = ledger.gather(START, counted_ids())
    assert [event.id for event in ledger.events_of(delivery.id)] == [again[0].id, still_open.id]
    assert ledger.announced(AGENT, [told.subject_key]) == set()
    assert advance(ledger, sample_event(9, subject_key=told.subject_key)) == []

    ledger.mark([again[0].id], EventStatus.READ, "read", START)
    assert len(ledger.replay([replace(again[0], id="third")], START)) == 1
    assert len(ledger.find_events(subject_key=told.subject_key)) == 3


def test_a_thousand_events_of_a_page_are_inserted_once(ledger: LedgerStore) -> None:
    """Pages hold up to 1000 rows; one may come twice after a restart."""
    page = [sample_event(row, f"@agent{row % 7}") for row in range(1, 1001)]

    assert advance(ledger, *page) == page
    assert advance(ledger, *page) == []
    assert sum(len(ledger.events_of(one.id)) for one in ledger.gather(START, counted_ids())) == 1000
