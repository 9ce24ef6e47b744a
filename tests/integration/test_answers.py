"""Wakes that have to be answered, in the ledger and in the engine: who may answer, until when, and who is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.properties.answers_house import WITHIN, AnswersHouse, Death
from wake_bridge.cli.context import CommandContext
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.channels import Channel, ChannelKind
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.errors import LateAnswer, RefusedForSafety, StaleLease
from wake_bridge.domain.escalation import MOST_REPEATS, EscalationRules, EscalationStep, escalation_messages
from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.notices import about_escalation, said_of_escalation
from wake_bridge.domain.ownership import Invoker
from wake_bridge.domain.presence import PresenceState
from wake_bridge.engine.attention.notices import Notices
from wake_bridge.engine.deliver.delivery_loop import Deliverer
from wake_bridge.offline import mail
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.ledger_samples import (
    START,
    advance,
    busy,
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    sample_event,
)
from wake_bridge.testing.turned_clock import live

MINUTE = 60_000
DESK = Channel("desk", ChannelKind.COMMAND)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerStore]:
    with fresh_ledger(tmp_path) as one:
        yield one


def at(milliseconds: int) -> Instant:
    return Instant(START + milliseconds)


def under_way(ledger: LedgerStore, row: int = 1) -> Delivery:
    """A wake whose attempt runs, to be answered within a minute."""
    advance(ledger, replace(sample_event(row), ack_within=MINUTE))
    (delivery,) = ledger.gather(START, counted_ids(f"D{row}"))
    return lock_with_its_events(ledger, ledger.dispatch(delivery, START), START)


def handed(ledger: LedgerStore, row: int = 1, proof: Proof = Proof.SUBMITTED) -> Delivery:
    """A wake that its agent has, and has to answer within a minute."""
    return ledger.settle(under_way(ledger, row), Outcome.SUBMITTED, proof, {}, START)


def passed_on(ledger: LedgerStore, delivery: Delivery, now: Instant) -> Delivery:
    """The watchdog's side."""
    notice = about_escalation(delivery, ledger.events_of(delivery.id), now, set())
    return ledger.escalate(delivery, notice, escalation_messages(notice, EscalationRules(), [], DESK, now), now)


def test_an_answer_under_another_lease_is_dropped(ledger: LedgerStore) -> None:
    """The lease that the agent was told, and no other."""
    waiting = handed(ledger)
    assert (waiting.state, waiting.handed_lease, waiting.ack_by) == (DeliveryState.LOCKED, 1, at(MINUTE))
    for wrong in (2, 7):
        with pytest.raises(LateAnswer):
            ledger.answer(waiting.id, wrong, "ack", at(1))
        assert ledger.delivery(waiting.id) == waiting
    after = ledger.answer(waiting.id, 1, "ack", at(2))
    assert (after.state, after.outcome, after.proof) == (DeliveryState.DELIVERED, Outcome.ACKNOWLEDGED, 3)


def test_a_daemon_that_takes_over_leaves_the_agents_lease_in_force(ledger: LedgerStore) -> None:
    """The lease of its own work rises; the agent could not know."""
    advance(ledger, replace(sample_event(1), ack_within=10 * MINUTE))
    (delivery,) = ledger.gather(START, counted_ids())
    locked = lock_with_its_events(ledger, ledger.dispatch(delivery, START), START)
    taken = ledger.renew(locked, at(5 * MINUTE), None, at(2 * MINUTE))
    assert (taken.owner_lease, taken.handed_lease) == (2, 1)
    ledger.settle(taken, Outcome.SUBMITTED, Proof.SUBMITTED, {}, at(3 * MINUTE))
    assert ledger.answer(delivery.id, 1, "ack", at(4 * MINUTE)).outcome is Outcome.ACKNOWLEDGED


def test_an_answer_after_the_deadline_is_dropped_and_written_down(ledger: LedgerStore) -> None:
    """No second delivery, no effect; the journal keeps it."""
    gone = passed_on(ledger, handed(ledger), at(MINUTE))
    assert (gone.state, gone.owner_lease, gone.escalated_at) == (DeliveryState.ESCALATED, 2, at(MINUTE))
    told = ledger.settle_escalation(gone, "", at(MINUTE + 1))
    assert (told.state, told.outcome) == (DeliveryState.DELIVERED, Outcome.ESCALATED)
    with pytest.raises(LateAnswer, match="a person was told"):
        ledger.answer(gone.id, 1, "ack", at(MINUTE + 2))
    assert ledger.delivery(gone.id) == told
    assert ledger.journal_of(gone.id)[-1].step is Step.STALE


def test_an_agent_without_a_lease_takes_nothing_back_from_its_person(ledger: LedgerStore) -> None:
    """A wake that names no lease may be passed on, too; from then on its agent's `ack` is a late answer like any other."""
    advance(ledger, sample_event(1))
    (delivery,) = ledger.gather(START, counted_ids())
    assert ledger.call_person(delivery.id, None, "escalate", at(1)).ack_by == at(1)
    gone = passed_on(ledger, ledger.dispatch(delivery, START), at(2))
    with pytest.raises(LateAnswer, match=r"^a person was told"):
        ledger.answer(gone.id, None, "ack", at(3), is_person=False)
    assert ledger.delivery(gone.id) == gone
    told = ledger.settle_escalation(gone, "", at(4))
    with pytest.raises(LateAnswer, match=r"^a person was told"):
        ledger.answer(gone.id, None, "ack", at(5), is_person=False)
    assert ledger.delivery(gone.id) == told
    assert [one.id for one, _ in ledger.unacknowledged_by_person()] == [gone.id]
    assert ledger.answer(gone.id, None, "ack", at(6)).proof is Proof.ACKNOWLEDGED


@pytest.mark.parametrize(
    ("delivery", "is_called", "told"),
    [
        ({"state": "LOCKED", "hold": "awaiting_ack"}, False, "did not answer within 1 min"),
        ({"state": "DISPATCHED", "hold": "paused"}, False, "could not be woken within 1 min (paused)"),
        # the hold is gone, and the agent had it
        ({"state": "ESCALATED", "proof": 2}, False, "did not answer within 1 min"),
        ({"state": "LOCKED", "hold": "awaiting_ack"}, True, "did not answer: its wake was passed to you"),
        ({"state": "DISPATCHED", "ack_within": 0}, True, "did not answer: its wake was passed to you"),
    ],
)
def test_a_person_is_told_truly_why_a_wake_is_theirs(delivery: Mapping[str, Any], is_called: bool, told: str) -> None:
    """What passed before its time was over is not told as a time that is over."""
    known = Delivery(
        "01X",
        Identity("@a"),
        DeliveryState(delivery["state"]),
        1,
        START,
        START,
        hold=Hold(HoldReason(delivery["hold"])) if "hold" in delivery else None,
        proof=Proof(delivery.get("proof", 0)),
        ack_within=delivery.get("ack_within", MINUTE),
    )
    assert said_of_escalation(known, is_called=is_called)[0] == told


def test_an_escalation_that_lost_the_race_changes_nothing(ledger: LedgerStore) -> None:
    """A delivery that was answered a moment before is not turned into one that a person has."""
    waiting = handed(ledger)
    answered = ledger.answer(waiting.id, 1, "ack", at(MINUTE))
    with pytest.raises(StaleLease, match="was LOCKED under lease 1"):
        passed_on(ledger, waiting, at(MINUTE))
    assert ledger.delivery(waiting.id) == answered
    assert ledger.sends_about(waiting.id) == []
    assert ledger.noticed() == set()


def test_a_wake_that_waits_for_its_answer_is_nobodys_to_take_up(tmp_path: Path) -> None:
    """It keeps no lease that runs out, is due for nobody, and a restart leaves it as it is."""
    house = AnswersHouse(tmp_path, Death())

    async def story() -> None:
        async with house:
            house.mail()
            await house.wake_arrives()
            (waiting,) = house.deliveries("@a")
            assert waiting.awaits_ack
            deliverer = _deliverer(house)
            deliverer.take_over_locked()
            assert house.ledger.delivery(waiting.id) == waiting
            assert house.ledger.due(Instant(house.clock.now() + 10 * WITHIN * 1000)) == []
            assert house.ledger.next_deadline() is None
            house.ledger.look_at_once(None, house.clock.now())
            assert house.ledger.delivery(waiting.id) == waiting
            house.mail(is_to_answer=False)
            await house.lasts(40)
            assert len(house.agent("a").received) == 2, "it blocks no later one"

    live(house.clock, story())


def _deliverer(house: AnswersHouse) -> Deliverer:
    return Deliverer(house.ledger, house.gate, house.current, house.clock, new_ulid)


def test_an_attempt_that_runs_is_left_alone_at_the_deadline(ledger: LedgerStore) -> None:
    """A person is told once it is known whether the agent has the wake; an attempt ends within its lease."""
    advance(ledger, replace(sample_event(1), ack_within=MINUTE))
    (delivery,) = ledger.gather(START, counted_ids())
    locked = lock_with_its_events(ledger, ledger.dispatch(delivery, START), START + MINUTE - 1)
    assert ledger.overdue(at(MINUTE)) == []
    assert [one.id for one in ledger.overdue(locked.lease_until or START)] == [delivery.id]


def test_an_answer_that_comes_while_the_attempt_runs_ends_it(ledger: LedgerStore) -> None:
    """The attempt knows the delivery as it was before: what it then writes down waits for no second answer."""
    locked = under_way(ledger)
    ledger.answer(locked.id, None, "ack", START)
    after = ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
    assert (after.state, after.proof, after.hold) == (DeliveryState.DELIVERED, Proof.ACKNOWLEDGED, None)
    assert [one.id for one in ledger.answered(START)] == [locked.id]


def test_an_answered_wake_whose_attempt_is_refused_is_not_told_later(ledger: LedgerStore) -> None:
    """`ack` ends what was not sent yet, also in the moment in which somebody begins to type."""
    locked = under_way(ledger)
    ledger.answer(locked.id, None, "ack", START)
    after = ledger.release(locked, Hold(HoldReason.USER_TYPING), START, is_attempt=False)
    assert (after.state, after.outcome, after.hold) == (DeliveryState.DELIVERED, Outcome.ACKNOWLEDGED, None)
    assert ledger.due(at(10 * MINUTE)) == []


def test_a_call_for_a_person_that_comes_while_the_attempt_runs_is_heard(ledger: LedgerStore) -> None:
    """The time to answer does not begin anew for it."""
    locked = under_way(ledger)
    ledger.call_person(locked.id, locked.handed_lease, "escalate", START)
    ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
    assert [one.id for one in ledger.overdue(START)] == [locked.id]


def test_what_is_held_past_its_time_passes_on_without_having_been_typed(ledger: LedgerStore) -> None:
    """The deadline counts from the creation while it is held; the way leads through LOCKED."""
    advance(ledger, replace(sample_event(1), ack_within=MINUTE))
    (delivery,) = ledger.gather(START, counted_ids())
    held = ledger.hold(ledger.dispatch(delivery, START), busy(START + 10 * MINUTE), START)
    assert [one.id for one in ledger.overdue(at(MINUTE))] == [held.id]
    gone = passed_on(ledger, held, at(MINUTE))
    steps = [line.step for line in ledger.journal_of(gone.id)]
    assert steps[-2:] == [Step.LOCKED, Step.ESCALATED]
    assert (gone.owner_lease, gone.hold, gone.digest) == (2, None, "")


@pytest.mark.parametrize(("outcome", "is_overdue"), [(Outcome.UNKNOWN, False), (Outcome.FAILED, True)])
def test_an_unknown_outcome_waits_for_the_answer_and_a_failed_one_is_overdue_at_once(
    ledger: LedgerStore, outcome: Outcome, is_overdue: bool
) -> None:
    """Neither ends it: nothing is announced a second time, and somebody has it in the end."""
    advance(ledger, replace(sample_event(1), ack_within=MINUTE))
    (delivery,) = ledger.gather(START, counted_ids())
    locked = lock_with_its_events(ledger, ledger.dispatch(delivery, START), START)
    after = ledger.settle(locked, outcome, Proof.NONE, {"why": "nobody saw it"}, at(1))
    assert after.awaits_ack
    assert bool(ledger.overdue(at(2))) is is_overdue


def test_that_a_wake_was_seen_to_arrive_is_no_answer(ledger: LedgerStore) -> None:
    """Whatever proof its channel has."""
    waiting = handed(ledger, proof=Proof.ACKNOWLEDGED)
    assert (waiting.awaits_ack, waiting.proof) == (True, Proof.SUBMITTED)
    assert [one.id for one in ledger.overdue(at(MINUTE))] == [waiting.id]


def test_what_has_to_be_answered_shares_its_wake_with_nothing(ledger: LedgerStore) -> None:
    """Two of them are two deliveries; other mail has its own, and rides along in none."""
    asked = [replace(sample_event(row), ack_within=MINUTE) for row in (1, 2)]
    advance(ledger, *asked, sample_event(3), sample_event(4), sample_event(5, policy=WakePolicy.NEXT_TURN))
    deliveries = ledger.gather(START, counted_ids())
    told = sorted([event.log_id for event in ledger.events_of(one.id)] for one in deliveries)
    assert told == [[1], [2], [3, 4]]


def test_mail_for_the_next_turn_rides_along_in_no_wake_that_has_to_be_answered(tmp_path: Path) -> None:
    """One answer is about one thing."""
    house = AnswersHouse(tmp_path, Death())

    async def story() -> None:
        async with house:
            house.core.send("@me", "@a", "by the way", sentAt=house.now_text(), wakePolicy="next_turn")
            house.mail()
            await house.wake_arrives()
            (waiting,) = house.deliveries("@a")
            assert [one.subject_key for one in house.ledger.events_of(waiting.id)] == house.sent

    live(house.clock, story())


def test_mail_that_was_read_is_not_passed_on(tmp_path: Path) -> None:
    """Also where only the watchdog's last look sees it."""
    house = AnswersHouse(tmp_path, Death())

    async def story() -> None:
        async with house:
            house.mail()
            await house.wake_arrives()
            house.agent_reads()
            await house.lasts(WITHIN + 15)
            (ended,) = house.deliveries("@a")
            assert (ended.outcome, house.desk.told) == (Outcome.ACKNOWLEDGED, [])

    live(house.clock, story())


def test_mail_that_was_only_listed_is_passed_on(tmp_path: Path) -> None:
    """A list of the inbox announces; an answer is `ack`, or that the mail is read."""
    house = AnswersHouse(tmp_path, Death())

    async def story() -> None:
        async with house:
            house.mail()
            await house.wake_arrives()
            (waiting,) = house.deliveries("@a")
            keys = [one.subject_key for one in house.ledger.events_of(waiting.id)]
            house.ledger.announce(Identity("@a"), keys, "inbox", house.clock.now())
            await house.lasts(WITHIN + 15)
            (ended,) = house.deliveries("@a")
            assert (ended.outcome, len(house.desk.told)) == (Outcome.ESCALATED, 1)

    live(house.clock, story())


def test_of_a_hold_that_will_pass_to_a_person_there_is_no_notice(tmp_path: Path) -> None:
    """A notice and an escalation are never both sent for one fact; other mail that is held so is told as ever."""
    house = AnswersHouse(tmp_path, Death())

    async def story() -> None:
        async with house:
            house.current.settings = replace(house.current.settings, notice_after_ms=20_000)
            notices = Notices(
                house.ledger,
                house.desk,
                house.current,
                house.clock,
                active_routes=lambda: 1,
                nudged=lambda: 0,
                known=lambda: {Identity("@a")},
            )
            house.agent_is(PresenceState.WAITING_ON_APPROVAL)
            house.mail()
            house.mail(is_to_answer=False)
            await house.lasts(40)
            notices.tick(house.clock.now())
            await notices.drain()
            (other,) = [one for one in house.deliveries("@a") if not one.ack_within]
            assert [(one.subject, one.reason) for one in house.desk.told] == [
                (other.id, HoldReason.WAITING_ON_APPROVAL)
            ]
            await house.lasts(WITHIN)
            assert sorted(one.reason for one in house.desk.told) == ["escalated", HoldReason.WAITING_ON_APPROVAL]

    live(house.clock, story())


def test_an_agent_must_name_the_lease_and_a_person_need_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lease an agent is refused, and nothing changes; other wakes need none."""
    with Sandbox(tmp_path) as sandbox:
        for name, value in sandbox.environment.items():
            monkeypatch.setenv(name, value)
        sandbox.run("init")
        with fresh_ledger(sandbox.state_dir) as ledger:
            waiting = handed(ledger)
            advance(ledger, sample_event(2))
            (plain,) = ledger.gather(START, counted_ids("P"))
            passed_on(ledger, ledger.dispatch(plain, START), START)
        agent = CommandContext()
        agent.config_option = str(sandbox.config_file)
        agent.invoker = Invoker("claude", 110, frozenset({waiting.identity}), "because it is so")
        with pytest.raises(RefusedForSafety, match="under its lease"):
            mail.acknowledge(agent, waiting.id)
        assert mail.acknowledge(agent, waiting.id, 1).delivery.outcome is Outcome.ACKNOWLEDGED
        with pytest.raises(LateAnswer, match="a person was told"):
            mail.acknowledge(agent, plain.id)


def test_steps_follow_each_other_in_their_times_and_come_again_nine_times_at_most() -> None:
    """Ordered, each with an id of its own; a channel that is gone is replaced by the default."""
    delivery = Delivery("01X", Identity("@a"), DeliveryState.LOCKED, 1, START, START, ack_within=MINUTE)
    notice = about_escalation(delivery, [], at(MINUTE), set())
    channels = [Channel("phone", ChannelKind.APPRISE), Channel("ops", ChannelKind.FILE)]
    rules = EscalationRules((EscalationStep("phone"), EscalationStep("ops", 5 * MINUTE), EscalationStep("gone", 1)), 2)
    sends = escalation_messages(notice, rules, channels, DESK, at(MINUTE))
    assert [one.channel for one in sends] == ["phone", "ops", "desk"] * 3
    waits = [one.next_try_at - at(MINUTE) for one in sends]
    assert waits[:4] == [0, 5 * MINUTE, 5 * MINUTE + 1, 5 * MINUTE + 1]
    assert len({one.id for one in sends}) == 9
    assert sends[0].body == "", "off this host only agent and reason"
    many = escalation_messages(notice, EscalationRules((), 1000), channels, DESK, at(MINUTE))
    assert len(many) == 1 + MOST_REPEATS
