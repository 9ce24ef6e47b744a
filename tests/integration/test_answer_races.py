"""An agent answers in the moment in which its time is over: two processes, one wake, and one of them wins."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from wake_bridge.domain.channels import Channel, ChannelKind
from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import StaleLease
from wake_bridge.domain.escalation import EscalationRules, escalation_messages
from wake_bridge.domain.names import Instant
from wake_bridge.domain.notices import about_escalation
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import (
    START,
    advance,
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    sample_event,
)

WITHIN = 60_000
DUE = Instant(START + 10 * WITHIN)
FEW, MANY = 200, 10_000
APART = 0.0004
"""Seconds by which one of the two may be later, at random: either may win."""


def waiting_for_answers(directory: Path, count: int) -> list[str]:
    """So many wakes that agents have, and have not answered; answers their ids."""
    with fresh_ledger(directory) as ledger:
        # what is prepared may be lost in a power failure
        ledger._db.connection.execute("PRAGMA synchronous = OFF")
        new_id = counted_ids()
        for row in range(1, count + 1):
            advance(ledger, replace(sample_event(row, f"@agent{row}"), ack_within=WITHIN))
            (delivery,) = ledger.gather(START, new_id)
            locked = lock_with_its_events(ledger, ledger.dispatch(delivery, START), START)
            ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
        return [one.id for one in ledger.overdue(DUE)]


def answer(ledger: LedgerStore, known: Delivery) -> None:
    """The agent's side."""
    ledger.answer(known.id, known.handed_lease, "ack", DUE)


def escalate(ledger: LedgerStore, known: Delivery) -> None:
    """The watchdog's side."""
    notice = about_escalation(known, ledger.events_of(known.id), DUE, set())
    sends = escalation_messages(notice, EscalationRules(), [], Channel("human", ChannelKind.COMMAND), DUE)
    ledger.escalate(known, notice, sends, DUE)


def race(
    directory: Path, ids: list[str], act: Callable[[LedgerStore, Delivery], None], start: Barrier, result: Path
) -> None:
    """One racer: it knows each wake as it was before the start."""
    chance = random.Random(act.__name__)
    won = []
    with closing(LedgerStore.open(directory)) as ledger:
        for one in ids:
            known = ledger.delivery(one)
            assert known is not None
            start.wait(HUNG)
            time.sleep(chance.uniform(0, APART))
            try:
                act(ledger, known)
            except StaleLease:
                continue
            won.append(one)
    result.write_text("\n".join(won), encoding="ascii")


def raced(directory: Path, count: int) -> Counter[str]:
    """So many races; answers who won how often."""
    ids = waiting_for_answers(directory, count)
    assert len(ids) == count
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    racers = [
        context.Process(target=race, args=(directory, ids, act, start, directory / act.__name__))
        for act in (answer, escalate)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0]
    answered, told = (set((directory / name).read_text().split()) for name in ("answer", "escalate"))
    assert answered | told == set(ids), "somebody has it"
    assert not answered & told, "one has it"
    with closing(LedgerStore.open(directory, read_only=True)) as ledger:
        for one in ids:
            after = ledger.delivery(one)
            assert after is not None
            is_told = one in told
            assert len(ledger.sends_about(one)) == is_told
            assert after.state is (DeliveryState.ESCALATED if is_told else DeliveryState.DELIVERED)
            assert after.outcome is (None if is_told else Outcome.ACKNOWLEDGED)
            assert [line.step for line in ledger.journal_of(one)].count(Step.STALE) == is_told
    return Counter(answered=len(answered), told=len(told))


def test_of_an_answer_and_a_deadline_at_the_same_moment_one_wins(tmp_path: Path) -> None:
    """The other one changes nothing: a late answer is dropped, an answered wake tells nobody."""
    wins = raced(tmp_path, FEW)
    assert wins.total() == FEW


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_the_same_ten_thousand_times(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Both win often."""
    record_property("trials", MANY)
    wins = raced(tmp_path, MANY)
    assert min(wins["answered"], wins["told"]) > MANY // 100, wins
