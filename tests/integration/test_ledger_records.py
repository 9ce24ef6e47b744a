"""What the ledger remembers besides deliveries: what was shown, limits, pauses, bindings; and its own upkeep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import Delivery, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.events import EventStatus, MessageDetail, PulseDetail, WakeEvent
from wake_bridge.domain.guards import PastWake
from wake_bridge.domain.names import EPOCH_START, Epoch, EventKind, Identity, Instant, LogId
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.routing import Address, Claim, RememberedPane
from wake_bridge.engine.presence.remembered_panes import UNWRITTEN, RememberedPanes
from wake_bridge.ports.adapter import Place
from wake_bridge.ports.ledger_records import DegradedRoute, NewId, PageRecord, Pause, Position, Quarantined, Tally
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import (
    AGENT,
    FENCE,
    START,
    advance,
    busy,
    later,
    lock_with_its_events,
    open_delivery,
    sample_event,
)

HOUR = 3_600_000


def submitted(ledger: LedgerStore, new_id: NewId, *events: WakeEvent, at: Instant) -> Delivery:
    delivery = ledger.dispatch(open_delivery(ledger, *events, new_id=new_id, now=at), at)
    frozen = lock_with_its_events(ledger, delivery, at)
    ledger.append(frozen, Step.INTENT_SUBMIT, {}, at)
    return ledger.settle(frozen, Outcome.SUBMITTED, Proof.SUBMITTED, {}, at)


def test_a_long_past_is_forgotten_in_steps_and_the_file_shrinks(
    ledger: LedgerStore, new_id: NewId, tmp_path: Path
) -> None:
    """Retention deletes in small steps, so that no wake waits for it, and the file shrinks."""
    body = "x" * 1000
    for row in range(1, 301):
        event = replace(sample_event(row), detail=MessageDetail(f"MESSAGE:{row}", body, "@me", "a thread"))
        submitted(ledger, new_id, event, at=START)
    full = _size_of(ledger, tmp_path)

    steps = []
    while step := ledger.prune(later(1), 100):
        steps.append(step)
    # each wake is a delivery, an event and two lines of the feed
    assert steps == [100] * 12
    shrunk = []
    while ledger.shrink(16):
        shrunk.append(_size_of(ledger, tmp_path))

    assert _size_of(ledger, tmp_path) < full / 2
    assert len(shrunk) > 2
    assert ledger.prune(later(1), 100) == 0


def test_all_that_ages_goes_in_steps_of_one_size(ledger: LedgerStore) -> None:
    """The file is locked for each step; what an inbox has shown in a year is not forgotten in one."""
    ledger.announce(AGENT, [f"MESSAGE:{number}" for number in range(25)], "inbox", START)
    broken = tuple(Quarantined(LogId(row), f"E:{row}", "broken") for row in range(1, 13))
    ledger.advance(PageRecord(Position(Epoch(1), LogId(12)), quarantined=broken), START)
    for number in range(7):
        ledger.give_notice(Notice(f"state {number}", "state_directory", "title", "body", START), START)

    steps = []
    while step := ledger.prune(later(1), 10):
        steps.append(step)

    # each notice is also a line of the feed
    assert steps == [10, 10, 10, 10, 10, 1]
    assert (ledger.tally().quarantined, ledger.standing_notices(50)) == (0, [])


def test_a_table_without_old_rows_is_gone_through_once_in_a_pass(ledger: LedgerStore) -> None:
    """Each step goes on where the one before it stopped, and the next pass begins with the first table again."""
    ledger.announce(AGENT, [f"MESSAGE:{number}" for number in range(25)], "inbox", START)
    tables: list[str] = []
    ledger._db.connection.set_trace_callback(
        lambda text: tables.append(text.split()[2]) if text.startswith("DELETE") else None
    )

    assert [ledger.prune(later(1), 10) for _ in range(3)] == [10, 10, 5]
    assert (tables.count("delivery"), tables.count("wake_event"), tables.count("announced")) == (1, 1, 3)

    tables.clear()
    assert (ledger.prune(later(1), 10), tables[0]) == (0, "delivery")
    ledger.announce(AGENT, [f"MESSAGE:{number}" for number in range(15)], "inbox", START)
    assert ledger.prune(later(1), 10) == 10
    tables.clear()
    assert (ledger.prune(later(2), 10), tables[0]) == (5, "delivery")


def test_a_file_that_can_give_nothing_back_is_not_asked_for_ever(ledger: LedgerStore, new_id: NewId) -> None:
    """One of an earlier version whose rewriting at the start failed: whoever goes on until nothing is left must end."""
    ledger._db.connection.execute("PRAGMA auto_vacuum = 0")
    ledger._db.connection.execute("VACUUM")
    for row in range(1, 51):
        submitted(ledger, new_id, sample_event(row), at=START)
    ledger.prune(later(1), 100)

    assert ledger._db.value("PRAGMA freelist_count") > 0
    assert not ledger.shrink(16)


def _size_of(ledger: LedgerStore, directory: Path) -> int:
    ledger._db.value("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(one.stat().st_size for one in directory.rglob("state.sqlite"))


# -- events --------------------------------------------------------------------------------------------------------


def test_only_open_events_can_be_closed_and_the_first_reason_stands(ledger: LedgerStore) -> None:
    """Facts are recorded with the reason; they answer `why`."""
    event, other = sample_event(1), sample_event(2)
    advance(ledger, event, other)

    ledger.mark([event.id, other.id], EventStatus.SUPERSEDED, "the message is gone", later(5))
    ledger.mark([event.id], EventStatus.READ, "read", later(6))

    (stored,) = ledger.find_events(subject_key=event.subject_key)
    assert stored == replace(event, status=EventStatus.SUPERSEDED, refused_by="the message is gone")


def test_what_inbox_shows_is_remembered_and_closes_its_event(ledger: LedgerStore, new_id: NewId) -> None:
    """`inbox`: printing counts as announced, event or not."""
    event = sample_event(1)
    delivery = open_delivery(ledger, event, new_id=new_id)

    ledger.announce(AGENT, [event.subject_key, "MESSAGE:without an event"], "inbox", later(1))

    keys = [event.subject_key, "MESSAGE:without an event", "MESSAGE:another"]
    assert ledger.announced(AGENT, keys) == set(keys[:2])
    assert ledger.announced(Identity("@other"), keys) == set()
    (stored,) = ledger.events_of(delivery.id)
    assert (stored.status, stored.refused_by) == (EventStatus.ANNOUNCED, "inbox")


def test_events_are_found_by_subject_and_by_row(ledger: LedgerStore) -> None:
    """A reference is a message, a task or a log id: `why MESSAGE|TASK|LOGID`."""
    events = [sample_event(1, "@a"), sample_event(1, "@b"), sample_event(2, "@a")]
    advance(ledger, *events)

    assert ledger.find_events(log_id=LogId(1)) == events[:2]
    assert ledger.find_events(subject_key="MESSAGE:2") == events[2:]
    assert ledger.find_events() == []


# -- limits --------------------------------------------------------------------------------------------------------


def test_a_wake_counts_from_its_intent_with_its_pane_and_its_threads(ledger: LedgerStore, new_id: NewId) -> None:
    """Budget and loop brake count submits that were begun, and who caused them."""
    pulse = replace(sample_event(4), kind=EventKind.PULSE, subject_key="PULSE:1", detail=PulseDetail("PULSE:1"))
    submitted(
        ledger,
        new_id,
        sample_event(1, thread="T1"),
        sample_event(2, thread="T2", from_human=True),
        sample_event(3, thread="T1"),
        pulse,
        at=START,
    )
    submitted(ledger, new_id, sample_event(5, "@other"), at=later(5))

    assert ledger.past_wakes(START) == [
        PastWake(START, AGENT, "pane of @agent", threads=("T1",), human_threads=("T2",)),
        PastWake(later(5), Identity("@other"), "pane of @other"),
    ]
    assert [wake.identity for wake in ledger.past_wakes(later(1))] == ["@other"]


def test_a_submit_that_was_given_back_with_nothing_sent_is_no_wake(ledger: LedgerStore, new_id: NewId) -> None:
    """What a channel refused before sending must not keep the next route waiting for a rest."""
    frozen = lock_with_its_events(
        ledger, ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), START), START
    )
    ledger.append(frozen, Step.INTENT_SUBMIT, {}, START)
    assert [wake.at for wake in ledger.past_wakes(EPOCH_START)] == [START]

    ledger.append(frozen, Step.REFUSED, {}, later(1))
    given_back = ledger.release(frozen, Hold(HoldReason.UNREACHABLE), later(1), is_attempt=False)
    assert ledger.past_wakes(EPOCH_START) == []

    again = lock_with_its_events(ledger, given_back, later(2))
    ledger.append(again, Step.INTENT_SUBMIT, {}, later(3))
    assert [wake.at for wake in ledger.past_wakes(EPOCH_START)] == [later(3)]


def test_an_enter_that_is_repeated_is_one_wake(ledger: LedgerStore, new_id: NewId) -> None:
    """Enter again (≤ 3) is still the same wake; one that was never begun is none."""
    frozen = lock_with_its_events(
        ledger, ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=new_id), START), START
    )
    ledger.append(frozen, Step.INTENT_STAGE, {}, START)
    assert ledger.past_wakes(EPOCH_START) == []

    for attempt in range(3):
        ledger.append(frozen, Step.INTENT_SUBMIT, {}, later(attempt))

    assert [wake.at for wake in ledger.past_wakes(EPOCH_START)] == [later(2)]


def test_resume_lifts_the_limits_of_one_or_of_all(ledger: LedgerStore) -> None:
    """Held with reason `budget` or `loop`; `resume` clears it."""
    assert ledger.limits_lifted_at(AGENT) == EPOCH_START

    ledger.resume(AGENT, later(5))
    assert ledger.limits_lifted_at(AGENT) == later(5)
    assert ledger.limits_lifted_at(Identity("@other")) == EPOCH_START
    ledger.resume("*", later(9))
    assert ledger.limits_lifted_at(AGENT) == later(9)
    assert ledger.limits_lifted_at(Identity("@other")) == later(9)


def test_a_pause_ends_by_itself_or_by_resume(ledger: LedgerStore) -> None:
    """`pause @ID|--all [--for 1h]` stops wakes, `resume @ID|--all` ends it."""
    ledger.pause("@a", later(HOUR), START)
    ledger.pause("@b", None, START)
    ledger.pause("*", later(5), START)
    assert ledger.pauses(START) == [Pause("*", later(5)), Pause("@a", later(HOUR)), Pause("@b", None)]
    assert ledger.pauses(later(HOUR)) == [Pause("@b", None)]

    ledger.pause("@b", later(9), START)
    ledger.resume("@a", START)
    assert ledger.pauses(later(6)) == [Pause("@b", later(9))]

    ledger.resume("*", START)
    assert ledger.pauses(START) == []


def test_an_identity_is_bound_to_one_place_at_a_time(ledger: LedgerStore) -> None:
    """A target; one at a time per identity."""
    assert ledger.binding(AGENT) is None
    ledger.bind(AGENT, FENCE, START)
    ledger.bind(AGENT, replace(FENCE, pane_id="%9"), later(1))

    assert ledger.binding(AGENT) == replace(FENCE, pane_id="%9")
    assert ledger.bindings() == {AGENT: replace(FENCE, pane_id="%9")}


def test_a_remembered_pane_is_replaced_only_by_who_knows_it(ledger: LedgerStore) -> None:
    """What is found meanwhile does not overwrite a person's word; who was there before is a former agent."""
    first = RememberedPane("work:0.0", "", FENCE, START, START)
    second = replace(first, fence=replace(FENCE, agent_pid=301), since=later(5), seen_at=later(5))
    renamed = replace(second, name="team:0.0")

    assert ledger.remember(AGENT, first, None)
    assert not ledger.remember(AGENT, second, None)
    assert not ledger.remember(AGENT, second, second)
    assert ledger.remember(AGENT, replace(first, seen_at=later(3)), first)
    assert ledger.claims() == [Claim(AGENT, fence=FENCE)]
    assert ledger.remember(AGENT, second, first)
    assert ledger.remembered(AGENT) == second
    assert ledger.claims() == [Claim(AGENT, fence=second.fence), Claim(AGENT, fence=FENCE, until=later(3))]
    assert ledger.remember(AGENT, renamed, None)
    ledger.unbind(AGENT)
    assert ledger.remembered(AGENT) is None
    assert not ledger.remember(AGENT, renamed, renamed)
    assert [one.until for one in ledger.claims()] == [later(3), later(5)]
    ledger.prune(later(4), 10_000)
    assert [one.until for one in ledger.claims()] == [later(5)]


def test_when_an_agent_was_seen_last_is_written_down_and_never_earlier(ledger: LedgerStore) -> None:
    """Who was there beside it, before a restart too, is not the one that comes after it."""
    ledger.remember(AGENT, RememberedPane("work", "", FENCE, START, later(5)), None)

    ledger.seen_there(AGENT, later(9))
    ledger.seen_there(AGENT, later(3))
    ledger.seen_there(Identity("@nobody"), later(9))

    assert ledger.remembered(AGENT) == RememberedPane("work", "", FENCE, START, later(9))
    assert ledger.remembered(Identity("@nobody")) is None


@pytest.mark.parametrize(
    ("lived_until", "seen_at"), [(-HOUR, 0), (0, 0), (7_000, 7_000), (UNWRITTEN, UNWRITTEN), (HOUR, UNWRITTEN)]
)
def test_a_run_that_was_killed_may_have_seen_an_agent_after_it_wrote_it_down(
    ledger: LedgerStore, lived_until: int, seen_at: int
) -> None:
    """A neighbour that was started meanwhile is not the new agent; what this run sees is exact."""
    found = RememberedPane("work", "", FENCE, START, START)
    ledger.remember(AGENT, found, None)
    memory = RememberedPanes(ledger, later(lived_until))
    assert memory.of(AGENT) == replace(found, seen_at=later(seen_at))

    place = Place("", "work:0.0", FENCE)
    memory.note(Address(AGENT, suggested="work", remembered=memory.of(AGENT)), place, later(1_000))
    assert memory.of(AGENT) == replace(found, seen_at=later(1_000))


@pytest.mark.parametrize(("pane_started", "since"), [(FENCE.pane_started, 0), ("of another boot", 5_000)])
def test_a_pane_of_another_boot_is_another_one_though_server_and_pane_have_the_same_ids(
    ledger: LedgerStore, pane_started: str, since: int
) -> None:
    """Else its server would count as ended for ever, and whoever lives beside it as new."""
    ledger.remember(AGENT, RememberedPane("work", "", FENCE, START, START), None)
    memory = RememberedPanes(ledger, START)
    there = replace(FENCE, pane_started=pane_started, agent_pid=FENCE.agent_pid + 1)

    address = Address(AGENT, suggested="work", remembered=memory.of(AGENT))
    memory.note(address, Place("", "work:0.0", there), later(5_000))

    found = memory.of(AGENT)
    assert found is not None
    assert found.since == later(since)


def test_an_agent_that_was_seen_in_the_future_counts_as_seen_now(ledger: LedgerStore) -> None:
    """After the clock was set back no stored instant lies ahead."""
    ledger.remember(AGENT, RememberedPane("work", "", FENCE, later(HOUR), later(2 * HOUR)), None)

    ledger.rebase(START)

    assert ledger.remembered(AGENT) == RememberedPane("work", "", FENCE, START, START)


def test_a_route_is_set_aside_until_it_is_restored(ledger: LedgerStore) -> None:
    """A degraded route falls to the next."""
    ledger.degrade(AGENT, "codex", "refused", START)
    ledger.degrade(AGENT, "codex", "refused again", START)
    ledger.degrade(AGENT, "webhook", "410", START)
    assert ledger.degraded(AGENT) == {"codex": "refused again", "webhook": "410"}

    ledger.restore(AGENT, "codex")
    assert ledger.degraded(AGENT) == {"webhook": "410"}
    assert ledger.degraded(Identity("@other")) == {}
    assert ledger.degraded_routes() == [DegradedRoute(AGENT, "webhook", "410", START)]


# -- upkeep --------------------------------------------------------------------------------------------------------


def test_the_tally_tells_open_held_failed_and_unknown_apart(ledger: LedgerStore, new_id: NewId) -> None:
    """Unknown is FAILED/`unknown` and counted apart."""
    assert ledger.tally() == Tally()
    ends = [Outcome.SUBMITTED, Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.UNKNOWN]
    for row, outcome in enumerate(ends, start=1):
        delivery = ledger.dispatch(open_delivery(ledger, sample_event(row, f"@{row}"), new_id=new_id), START)
        ledger.settle(lock_with_its_events(ledger, delivery, START), outcome, Proof.NONE, {}, START)
    # the last was seen since to have arrived
    ledger.raise_proof(delivery.id, Proof.SUBMITTED, {}, START)
    for row in (7, 8):
        delivery = ledger.dispatch(open_delivery(ledger, sample_event(row, f"@{row}"), new_id=new_id), START)
        ledger.hold(delivery, busy(later(5)), START)
    open_delivery(ledger, sample_event(9, "@9"), new_id=new_id)
    broken = [Quarantined(LogId(10), "E", "broken"), Quarantined(LogId(10), "E", "broken")]
    ledger.advance(PageRecord(Position(Epoch(1), LogId(10)), quarantined=broken), START)

    assert ledger.tally() == Tally(open=3, held=2, unknown=2, failed=1, delivered=3, quarantined=1, holds={"active": 2})


def test_pruning_takes_what_has_ended_and_nothing_else(ledger: LedgerStore, new_id: NewId) -> None:
    """Never lost; what is open, or failed with its events untold, stays however old it is."""
    old = submitted(ledger, new_id, sample_event(1), at=START)
    failed = ledger.settle(
        open_delivery(ledger, sample_event(2, "@failed"), new_id=new_id), Outcome.FAILED, Proof.NONE, {}, START
    )
    waiting = open_delivery(ledger, sample_event(3, "@waiting"), new_id=new_id)
    recent = submitted(ledger, new_id, sample_event(4), at=later(HOUR))
    refused = replace(sample_event(5), status=EventStatus.REFUSED, refused_by="filter")
    advance(ledger, refused, sample_event(6, "@loose"))
    ledger.announce(AGENT, ["MESSAGE:shown"], "inbox", START)

    assert ledger.prune(START, 10_000) == 0
    # a delivery, its event, the refused one, what the inbox showed, and five lines of the feed
    assert ledger.prune(later(1), 10_000) == 9

    left = {one.id for one in ledger.deliveries(state=None, identity=None, limit=50)}
    assert left == {failed.id, waiting.id, recent.id}
    assert ledger.journal_of(old.id) == []
    assert ledger.journal_of(failed.id) != []
    kept = [row for row in range(1, 7) if ledger.find_events(log_id=LogId(row))]
    assert kept == [2, 3, 4, 6]
    assert ledger.announced(AGENT, ["MESSAGE:shown"]) == set()
    assert ledger.retry(failed.id, new_id, later(HOUR)).identity == "@failed"


def test_after_the_clock_was_set_back_windows_looks_and_leases_keep_their_nominal_length(
    ledger: LedgerStore, new_id: NewId
) -> None:
    """A loaded remainder longer than its nominal length is clamped to it."""
    pending = open_delivery(
        ledger, sample_event(1, "@pending", window=30), sample_event(2, "@pending", window=300), new_id=new_id
    )
    early = replace(sample_event(3, "@broadcast", window=0), not_before=later(250))
    open_delivery(ledger, early, new_id=new_id)
    held = ledger.dispatch(open_delivery(ledger, sample_event(4, "@held"), new_id=new_id), START)
    ledger.hold(held, busy(later(HOUR)), START)
    owned = ledger.dispatch(open_delivery(ledger, sample_event(5, "@locked"), new_id=new_id), START)
    owned = lock_with_its_events(ledger, owned, START)
    staged = ledger.dispatch(open_delivery(ledger, sample_event(6, "@staged"), new_id=new_id), START)
    staged = lock_with_its_events(ledger, staged, START)
    ledger.renew(staged, later(HOUR), Hold(HoldReason.STAGED, "", "", later(HOUR)), START)
    ledger.pause("@paused", later(HOUR), START)
    ledger.resume(AGENT, START)
    now = Instant(START - 24 * HOUR)

    ledger.rebase(now)

    deadlines: dict[str, int] = {}
    for instant in (now, now + 250, now + 30_000, now + 60_000):
        for delivery in ledger.due(Instant(instant)):
            deadlines.setdefault(delivery.identity, instant - now)
    assert deadlines == {
        "@broadcast": 250,
        "@pending": 30_000,
        "@held": 60_000,
        "@locked": 60_000,
        "@staged": 60_000,
    }
    assert ledger.pauses(now) == [Pause("@paused", Instant(now + HOUR))]
    assert ledger.limits_lifted_at(AGENT) == now
    assert [event.due_at - now for event in ledger.events_of(pending.id)] == [30_000, 300_000]


def test_a_clock_that_was_not_set_back_changes_nothing(ledger: LedgerStore, new_id: NewId) -> None:
    """An ordinary restart keeps every window and look as it was."""
    pending = open_delivery(ledger, sample_event(1, window=300), new_id=new_id)
    held = ledger.dispatch(open_delivery(ledger, sample_event(2, "@held", window=0), new_id=new_id), START)
    held = ledger.hold(held, busy(later(40_000)), START)
    submitted(ledger, new_id, sample_event(3, "@told"), at=START)
    wakes = ledger.past_wakes(EPOCH_START)

    ledger.rebase(later(10_000))

    assert ledger.unsettled() == [pending, held]
    assert ledger.past_wakes(EPOCH_START) == wakes


def test_wakes_recorded_in_the_future_count_as_of_now_and_only_once(ledger: LedgerStore, new_id: NewId) -> None:
    """A budget must neither be forgotten nor held for a year because the clock had run ahead."""
    year = 365 * 24 * HOUR
    submitted(ledger, new_id, sample_event(1), at=later(year))
    ledger.rebase(START)
    assert [wake.at for wake in ledger.past_wakes(Instant(START - HOUR))] == [START]
    assert ledger.past_wakes(later(1)) == []
    ledger.rebase(Instant(START - 5))
    assert [wake.at for wake in ledger.past_wakes(EPOCH_START)] == [START - 5]
    ledger.rebase(START)

    submitted(ledger, new_id, sample_event(2), at=later(10))
    ledger.rebase(later(HOUR))
    assert [wake.at for wake in ledger.past_wakes(EPOCH_START)] == [START - 5, later(10)]

    ledger.rebase(Instant(START - HOUR))
    assert [wake.at for wake in ledger.past_wakes(EPOCH_START)] == [START - HOUR, START - HOUR]
