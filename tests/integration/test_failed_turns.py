"""A wake whose turn failed at once is announced again, ever later and at most three times; then a person is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.desk import ACTIVE, AGENT, IDLE, OTHER, SECOND, Desk, played
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Step
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import EPOCH_START, AttentionKind, LogId
from wake_bridge.ports.ledger_records import PageRecord
from wake_bridge.storage.ledger.database import Database, Parameters

MINUTE = 60 * SECOND


async def mail(desk: Desk, subject: str = "a question") -> str:
    message = desk.office.core.send(OTHER, AGENT, subject)
    await desk.office.reads()
    return message


def test_it_is_announced_again_after_5_15_and_45_minutes_and_then_told(tmp_path: Path) -> None:
    """Each time as a wake of its own; the person hears of the first failed turn, and that nothing is tried any more."""

    async def story(desk: Desk) -> None:
        office, agent = desk.office, desk.office.agent("agent")
        agent.turns_fail = AttentionKind.FAILED
        await mail(desk)
        sent = []
        for number in range(4):
            while len(agent.received) == number:
                await desk.lives_until(office.clock.now() + 20 * SECOND)
            sent.append(office.clock.now())
            if number == 1:
                await desk.lets_pass(10)
                (*_, held) = office.deliveries(AGENT)
                assert held.hold is not None
                assert (held.hold.reason, held.hold.cause) == (HoldReason.LIMITED, Cause.TURN_FAILED)
                assert held.hold.detail.startswith("announcement 3, until 01:")
        await desk.lives_until(office.clock.now() + 240 * MINUTE, step=120)
        assert len(agent.received) == 4
        assert [(later - earlier) // MINUTE for earlier, later in pairwise(sent)] == [5, 15, 45]
        marks = [text.rpartition(" ")[2] for text in agent.received]
        assert marks == [one.id for one in office.deliveries(AGENT)]
        assert desk.told == [("@agent", "failed")] * 2
        assert desk.heard[1].subject == marks[-1]
        assert "the turn of each wake for @agent failed" in desk.heard[1].title
        opened = [office.ledger.journal_of(one)[0] for one in marks]
        assert [one.detail.get("turn_failed") for one in opened] == [None, *marks[:-1]]
        assert all(one.step is Step.OPENED for one in opened)

    played(tmp_path, story)


def test_a_turn_that_ran_is_never_announced_again(tmp_path: Path) -> None:
    """An error below anything else, or mail that was read: the wake was taken in."""

    async def story(desk: Desk) -> None:
        office, agent = desk.office, desk.office.agent("agent")
        await mail(desk)
        await desk.lets_pass(20)
        assert len(agent.received) == 1
        agent.state = ACTIVE
        await desk.lets_pass(20)
        agent.state, agent.sign = IDLE, AttentionKind.FAILED
        await desk.lives_until(office.clock.now() + 90 * MINUTE, step=60)
        assert len(agent.received) == 1

        agent.turns_fail = AttentionKind.FAILED
        first, _ = await mail(desk, "one"), await mail(desk, "two")
        while len(agent.received) == 1:
            office.clock.turn(SECOND)
            await office.works()
        office.core.mark_read(first)
        await desk.lives_until(office.clock.now() + 90 * MINUTE, step=60)
        assert len(agent.received) == 2

    played(tmp_path, story)


@pytest.mark.parametrize("kind", [AttentionKind.FAILED, AttentionKind.LIMITED])
def test_no_restart_announces_it_once_more_or_loses_it(tmp_path: Path, kind: AttentionKind) -> None:
    """The daemon ends after each of its rounds: one wake for each failed turn, and the last one after the model answers."""

    async def story(desk: Desk) -> None:
        office, agent = desk.office, desk.office.agent("agent")
        agent.turns_fail = kind
        await mail(desk)
        for _ in range(40):
            await desk.lives_until(office.clock.now() + 30 * SECOND)
            await desk.restarts()
            if len(agent.received) == 2:
                # the model answers again
                agent.turns_fail = None
        await desk.lives_until(office.clock.now() + 60 * MINUTE, step=60)
        assert len(agent.received) == 3
        assert len({text.rpartition(" ")[2] for text in agent.received}) == 3

    played(tmp_path, story)


def test_dying_at_any_step_of_opening_again_leaves_it_whole_or_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one transaction: whichever of its statements is the last, the wake is open once, or not yet."""

    class DiedError(Exception):
        pass

    async def story(desk: Desk) -> None:
        office, agent = desk.office, desk.office.agent("agent")
        agent.turns_fail = AttentionKind.FAILED
        await mail(desk)
        while not agent.received:
            await office.works()
        await office.watch.round()
        office.episodes.look(office.clock.now())
        change = Database.change
        deaths = 0
        while len(office.deliveries(AGENT)) == 1:
            left = iter(range(deaths))

            def dies(self: Database, statement: str, parameters: Parameters = (), left: Iterator[int] = left) -> int:
                if next(left, None) is None:
                    raise DiedError
                return change(self, statement, parameters)

            with monkeypatch.context() as patched, contextlib.suppress(DiedError):
                patched.setattr(Database, "change", dies)
                await office.failed_turns.look(office.clock.now())
            deaths += 1
        assert deaths > 4
        await office.failed_turns.look(office.clock.now())
        _, again = office.deliveries(AGENT)
        (event,) = office.ledger.events_of(again.id)
        assert (event.status, event.failed_turns) == (EventStatus.OPEN, 1)
        seen_again = replace(event, id="seen-again", log_id=LogId(event.log_id + 1), not_before=EPOCH_START)
        position = office.ledger.position()
        assert position is not None
        assert office.ledger.advance(PageRecord(position, [seen_again]), office.clock.now()) == []
        assert office.ledger.events_of(again.id) == [event]

    played(tmp_path, story)
