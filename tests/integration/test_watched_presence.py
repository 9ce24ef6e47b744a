"""A lead is woken when its worker stops or blocks: subscriptions to presence, on a turned clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.desk import ACTIVE, DIALOG, IDLE, OTHER, SECOND, Desk, played
from wake_bridge.domain.attention import AttentionRules
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.names import AttentionKind, Identity

LEAD, WORKER = Identity("@lead"), Identity("@worker")
MINUTE = 60 * SECOND


async def watches(desk: Desk, who: Identity, whom: Identity, *kinds: str) -> str:
    filters: dict[str, Any] = {"senderFilter": [whom], **({"presenceFilter": list(kinds)} if kinds else {})}
    made = desk.office.subscribe(who, pane=who.removeprefix("@"), trigger="PRESENCE", filters=filters)
    await desk.office.reads()
    return made


def texts(desk: Desk, who: Identity) -> list[str]:
    return desk.office.agent(who.removeprefix("@")).received


async def works(desk: Desk, who: Identity, *, says: bool = False) -> None:
    agent = desk.office.agent(who.removeprefix("@"))
    agent.state = ACTIVE
    await desk.lets_pass(20)
    if says:
        desk.office.core.send(who, OTHER, "done", sentAt=desk.office.now_text())
        await desk.office.reads()
    agent.state = IDLE
    await desk.lets_pass(40)


def test_a_lead_is_woken_once_by_its_worker_s_approval(tmp_path: Path) -> None:
    """One wake for one episode, whatever restarts; an approval that was answered before its wake is no news."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER, "approval", "gone")
        worker = desk.office.agent("worker")
        await desk.lets_pass(20)
        worker.state = DIALOG
        for _ in range(4):
            await desk.lets_pass(20)
            await desk.restarts()
        (text,) = texts(desk, LEAD)
        assert "1 change of presence (latest: @worker waits for an approval)" in text
        worker.state = ACTIVE
        await desk.lets_pass(20)
        worker.state = IDLE
        await desk.lets_pass(60)
        assert len(texts(desk, LEAD)) == 1

        desk.office.agent("lead").state = ACTIVE
        worker.state = DIALOG
        await desk.lets_pass(20)
        worker.state = ACTIVE
        await desk.lets_pass(10)
        desk.office.agent("lead").state = IDLE
        await desk.lets_pass(90)
        assert len(texts(desk, LEAD)) == 1
        assert texts(desk, WORKER) == []

    played(tmp_path, story, agents=(LEAD, WORKER))


def test_finished_is_the_worker_s_own_word_and_stopped_is_not(tmp_path: Path) -> None:
    """Mail sent or a task ended in the turn, then idle; merely idle after work is `stopped`, which must be asked for."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER)
        await desk.lets_pass(20)
        await works(desk, WORKER)
        assert texts(desk, LEAD) == []
        await works(desk, WORKER, says=True)
        (text,) = texts(desk, LEAD)
        assert "@worker has finished" in text
        await desk.restarts()
        await desk.lets_pass(60)
        await works(desk, WORKER)
        assert len(texts(desk, LEAD)) == 1

        await watches(desk, LEAD, WORKER, "stopped")
        await works(desk, WORKER)
        assert len(texts(desk, LEAD)) == 2
        assert "@worker has stopped" in texts(desk, LEAD)[1]
        assert desk.told == []

    played(tmp_path, story, agents=(LEAD, WORKER))


@pytest.mark.parametrize("kind", [AttentionKind.FAILED, AttentionKind.LIMITED])
def test_a_turn_that_failed_and_a_limit_wake_the_lead(tmp_path: Path, kind: AttentionKind) -> None:
    """And `gone` does, by the same rules."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER)
        worker = desk.office.agent("worker")
        await desk.lets_pass(20)
        worker.sign = kind
        await desk.lets_pass(40)
        worker.sign = None
        await desk.lets_pass(20)
        del desk.office.adapter.agents["worker"]
        await desk.lets_pass(90)
        said = [text.partition("(latest: ")[2].partition(")")[0] for text in texts(desk, LEAD)]
        what = {AttentionKind.FAILED: "failed in its last turn", AttentionKind.LIMITED: "has reached a usage limit"}
        assert said == [f"@worker {what[kind]}", "@worker is gone"]

    played(tmp_path, story, agents=(LEAD, WORKER))


def test_two_leads_that_watch_each_other_are_stopped_by_the_loop_brake(tmp_path: Path) -> None:
    """Each wake is a turn with mail in it, which finishes, which wakes the other: not for ever."""

    async def story(desk: Desk) -> None:
        desk.configure(limits=Limits(refractory=0, thread_wakes=4, wakes_per_hour=1000, wakes_per_day=1000))
        await watches(desk, LEAD, WORKER)
        await watches(desk, WORKER, LEAD)
        await desk.lets_pass(20)
        await works(desk, WORKER, says=True)
        for _ in range(10):
            for who in (LEAD, WORKER):
                await works(desk, who, says=True)
        assert len(texts(desk, LEAD)) + len(texts(desk, WORKER)) == 4
        held = [one.hold.reason for who in (LEAD, WORKER) for one in desk.office.deliveries(who) if one.hold]
        assert "loop" in held

    played(tmp_path, story, agents=(LEAD, WORKER))


def test_nobody_is_woken_by_its_own_presence_or_without_asking(tmp_path: Path) -> None:
    """Nobody watches itself, and a subscription that is retired watches nobody."""

    async def story(desk: Desk) -> None:
        made = await watches(desk, LEAD, LEAD)
        desk.office.agent("lead").sign = AttentionKind.FAILED
        desk.office.agent("worker").state = DIALOG
        await desk.lets_pass(90)
        assert texts(desk, LEAD) == texts(desk, WORKER) == []
        desk.office.core.set(made, "status", "retired")
        await desk.office.reads()
        await desk.lets_pass(90)
        assert texts(desk, LEAD) == []

    played(tmp_path, story, agents=(LEAD, WORKER))


def test_who_was_in_the_middle_of_its_work_is_told_to_go_on_where_that_is_asked_for(tmp_path: Path) -> None:
    """`on_limit_reset = "continue"`: one line after the reset, with the mail that waited; not for a turn that had only begun."""

    async def story(desk: Desk) -> None:
        worker, lead = desk.office.agent("worker"), desk.office.agent("lead")
        desk.configure(attention=AttentionRules(continues_after_limit=True))
        await desk.lets_pass(10)
        worker.state = ACTIVE
        await desk.lets_pass(60)
        lead.state = ACTIVE
        await desk.lets_pass(5)
        for agent in (worker, lead):
            agent.state, agent.sign, agent.says = IDLE, AttentionKind.LIMITED, "resets in 1h"
        seen = desk.office.clock.now()
        await desk.lives_until(seen + 60 * MINUTE)
        assert texts(desk, WORKER) == []
        await desk.restarts()
        await desk.lives_until(seen + 70 * MINUTE)
        (text,) = texts(desk, WORKER)
        assert "your usage limit has reset: continue where you stopped" in text
        assert texts(desk, LEAD) == []

    played(tmp_path, story, agents=(LEAD, WORKER))


@pytest.mark.parametrize("is_at_work_after", [True, False])
def test_a_restart_between_a_worker_s_word_and_its_rest_loses_no_finish(
    tmp_path: Path, *, is_at_work_after: bool
) -> None:
    """Whether the turn ends before the daemon is back or after: the lead hears of it once, and of no turn without a word."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER)
        worker = desk.office.agent("worker")
        await desk.lets_pass(20)
        worker.state = ACTIVE
        await desk.lets_pass(20)
        desk.office.core.send(WORKER, OTHER, "done", sentAt=desk.office.now_text())
        await desk.office.reads()
        if not is_at_work_after:
            worker.state = IDLE
        await desk.restarts()
        await desk.lets_pass(20)
        worker.state = IDLE
        await desk.lets_pass(40)
        assert ["@worker has finished" in text for text in texts(desk, LEAD)] == [True]

        await desk.restarts()
        await works(desk, WORKER)
        await desk.restarts()
        await desk.lets_pass(60)
        assert len(texts(desk, LEAD)) == 1

    played(tmp_path, story, agents=(LEAD, WORKER))


def test_a_word_that_led_to_a_finish_leads_to_no_second_one_after_a_crash(tmp_path: Path) -> None:
    """The episode is on disk before the word is forgotten; between the two it counts as heard."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER)
        worker = desk.office.agent("worker")
        await desk.lets_pass(20)
        worker.state = ACTIVE
        await desk.lets_pass(20)
        desk.office.core.send(WORKER, OTHER, "done", sentAt=desk.office.now_text())
        await desk.office.reads()
        worker.state = IDLE
        await desk.lets_pass(5)
        assert desk.office.ledger.own_words() == {WORKER}
        await desk.restarts()
        worker.state = ACTIVE
        await desk.lets_pass(20)
        worker.state = IDLE
        await desk.lets_pass(60)
        assert len(texts(desk, LEAD)) == 1
        assert desk.office.ledger.own_words() == set()

    played(tmp_path, story, agents=(LEAD, WORKER))


@pytest.mark.parametrize("says", [True, False])
def test_a_turn_between_two_rounds_of_notices_counts_as_work(tmp_path: Path, *, says: bool) -> None:
    """Panes are looked at more often than notices are: a worker that answers within two seconds has finished, too."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER, "finished", "stopped")
        worker = desk.office.agent("worker")
        await desk.lets_pass(20)
        for turn in range(1, 3):
            worker.state = ACTIVE
            await desk.office.watch.round()
            if says:
                desk.office.core.send(WORKER, OTHER, "done", sentAt=desk.office.now_text())
                await desk.office.reads()
            desk.office.clock.turn(2000)
            worker.state = IDLE
            await desk.office.watch.round()
            await desk.lets_pass(60)
            assert len(texts(desk, LEAD)) == turn
            assert f"@worker has {'finished' if says else 'stopped'}" in texts(desk, LEAD)[-1]

    played(tmp_path, story, agents=(LEAD, WORKER))


def test_a_word_ends_one_turn_and_not_the_next_that_begins_at_once(tmp_path: Path) -> None:
    """A row is read a moment late, so that a moment counts; what was told as the end of a turn is of that turn alone."""

    async def story(desk: Desk) -> None:
        await watches(desk, LEAD, WORKER, "finished", "stopped")
        worker = desk.office.agent("worker")
        await desk.lets_pass(20)
        worker.state = ACTIVE
        await desk.lets_pass(5)
        desk.office.core.send(WORKER, OTHER, "done", sentAt=desk.office.now_text())
        await desk.office.reads()
        worker.state = IDLE
        await desk.office.watch.round()
        desk.office.episodes.look(desk.office.clock.now())
        worker.state = ACTIVE
        await desk.lets_pass(10)
        worker.state = IDLE
        await desk.lets_pass(90)
        assert [one.kind for one in desk.episodes(WORKER)] == [AttentionKind.FINISHED, AttentionKind.STOPPED]

    played(tmp_path, story, agents=(LEAD, WORKER))
