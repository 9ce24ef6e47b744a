"""Nights: who stands at a usage limit is not woken before it resets, on a turned clock; a real ledger, imagined agents."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.integration.desk import ACTIVE, AGENT, IDLE, ONE_O_CLOCK, OTHER, SECOND, Desk, played
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.names import AttentionKind, Identity

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
SIX = tuple(Identity(f"@{name}") for name in ("ada", "bob", "cem", "dov", "eva", "fay"))


def meets_limit(desk: Desk, who: Identity, says: str, program: str = "claude") -> None:
    agent = desk.office.agent(who.removeprefix("@"))
    agent.state, agent.sign, agent.says, agent.program = IDLE, AttentionKind.LIMITED, says, program


async def gets_mail(desk: Desk, *who: Identity) -> None:
    for one in who:
        desk.office.core.send(OTHER, one, "a question")
    await desk.office.reads()


def received(desk: Desk, who: Identity) -> int:
    return len(desk.office.agent(who.removeprefix("@")).received)


def test_six_agents_of_two_accounts_sleep_until_their_limits_reset(tmp_path: Path) -> None:
    """A limit at 01:00 that resets at 03:00: no wake before, six staggered after, two notices in all, and a restart in between."""

    async def story(desk: Desk) -> None:
        office = desk.office
        for number, who in enumerate(SIX):
            office.agent(who.removeprefix("@")).state = ACTIVE
            await desk.lets_pass(20)
            meets_limit(desk, who, "resets 3am", "claude" if number % 2 else "codex")
        await gets_mail(desk, *SIX)
        reset = ONE_O_CLOCK + 2 * HOUR
        await desk.lives_until(reset - HOUR)
        await desk.restarts()
        await desk.lives_until(reset + MINUTE - 3 * SECOND)
        assert [received(desk, who) for who in SIX] == [0] * 6
        assert {one.hold.reason for who in SIX for one in office.deliveries(who) if one.hold} == {HoldReason.LIMITED}

        woken: dict[Identity, int] = {}
        while office.clock.now() < reset + 6 * MINUTE:
            await desk.lets_pass(5)
            for who in SIX:
                if received(desk, who):
                    woken.setdefault(who, office.clock.now())
                    office.agent(who.removeprefix("@")).sign = None
        assert sorted(woken) == list(SIX)
        assert reset + MINUTE <= min(woken.values())
        assert max(woken.values()) <= reset + 5 * MINUTE + 10 * SECOND
        assert len(set(woken.values())) > 1
        assert [received(desk, who) for who in SIX] == [1] * 6
        assert [one.reason for one in desk.heard] == ["limited", "limited"]

    played(tmp_path, story, agents=SIX)


def test_a_hold_says_until_when(tmp_path: Path) -> None:
    """The hold of the contract's table: `limited`, with the time on a clock of this machine; `resume` wakes at once."""

    async def story(desk: Desk) -> None:
        await desk.lets_pass(10)
        meets_limit(desk, AGENT, "You've hit your limit · resets 3am (Europe/Berlin)")
        await desk.lets_pass(10)
        await gets_mail(desk, AGENT)
        await desk.lets_pass(10)
        (held,) = desk.office.deliveries(AGENT)
        assert held.hold is not None
        assert (held.hold.reason, held.hold.cause) == (HoldReason.LIMITED, Cause.LIMITED)
        assert held.hold.detail.startswith("until 03:0")
        assert held.hold.next_look_at <= desk.office.clock.now() + 15 * MINUTE
        assert desk.heard[0].body.endswith("It resets at 03:00. For 0 s")
        desk.office.ledger.resume(AGENT, desk.office.clock.now())
        desk.office.ledger.look_at_once(AGENT, desk.office.clock.now())
        await desk.lets_pass(20)
        assert received(desk, AGENT) == 1

    start = int(datetime(2026, 6, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)
    played(tmp_path, story, start=start, zone=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(("night", "hours"), [("2026-03-29", 1), ("2026-10-25", 3)])
def test_the_nights_in_which_clocks_change(tmp_path: Path, night: str, hours: int) -> None:
    """From 01:00 to 03:00 it is one hour in spring, and three in autumn."""
    berlin = ZoneInfo("Europe/Berlin")
    start = int(datetime.fromisoformat(f"{night}T01:00").replace(tzinfo=berlin).timestamp() * 1000)

    async def story(desk: Desk) -> None:
        await desk.lets_pass(10)
        meets_limit(desk, AGENT, "resets 3am")
        await gets_mail(desk, AGENT)
        await desk.lives_until(start + hours * HOUR + MINUTE - 3 * SECOND)
        assert received(desk, AGENT) == 0
        (held,) = desk.office.deliveries(AGENT)
        assert held.hold is not None
        assert held.hold.detail.startswith("until 03:0")
        await desk.lives_until(start + hours * HOUR + 6 * MINUTE)
        assert received(desk, AGENT) == 1

    played(tmp_path, story, start=start, zone=berlin)


def test_without_a_time_it_waits_longer_after_each_turn_that_met_the_limit(tmp_path: Path) -> None:
    """5, 15, 45 and 45 minutes; it is one limit, so the person hears of it once."""

    async def story(desk: Desk) -> None:
        desk.configure(limits=Limits(wakes_per_hour=1000, wakes_per_day=1000))
        office, agent = desk.office, desk.office.agent("agent")
        await desk.lets_pass(10)
        meets_limit(desk, AGENT, "You've hit your limit")
        agent.turns_fail = AttentionKind.LIMITED
        began = office.clock.now()
        waited = []
        for number in range(4):
            await gets_mail(desk, AGENT)
            while received(desk, AGENT) == number:
                await desk.lives_until(office.clock.now() + 20 * SECOND)
            waited.append((office.clock.now() - began) // MINUTE)
            began = office.clock.now()
            agent.state = ACTIVE
            await desk.lets_pass(10)
            agent.state = IDLE
            await desk.lets_pass(10)
            if number == 1:
                await desk.restarts()
        assert waited == [5, 15, 45, 45]
        assert desk.told.count(("@agent", "limited")) == 1

    played(tmp_path, story)


def test_an_agent_that_works_again_before_its_time_is_free(tmp_path: Path) -> None:
    """A limit that ends early: a turn that runs ends the hold at once, whatever time was shown."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        await desk.lets_pass(10)
        meets_limit(desk, AGENT, "resets Dec 24 at 3am")
        await gets_mail(desk, AGENT)
        await desk.lives_until(desk.office.clock.now() + HOUR)
        assert received(desk, AGENT) == 0
        agent.state, agent.sign = ACTIVE, None
        await desk.lets_pass(20)
        agent.state = IDLE
        await desk.lets_pass(90)
        assert received(desk, AGENT) == 1

    played(tmp_path, story, start=int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000))


def test_a_time_of_day_on_an_old_screen_is_not_believed(tmp_path: Path) -> None:
    """Nobody saw when it was printed, and it lies most of a day ahead: the limit has probably passed."""

    async def story(desk: Desk) -> None:
        meets_limit(desk, AGENT, "resets 12:30am")
        await gets_mail(desk, AGENT)
        await desk.lets_pass(6 * 60)
        assert received(desk, AGENT) == 1

    played(tmp_path, story)


@pytest.mark.parametrize("shift", [-26 * 3600, -3600, 3600, 26 * 3600])
def test_a_wall_clock_that_is_set_moves_no_reset(tmp_path: Path, shift: int) -> None:
    """The reset is a length from what was seen: two hours stay two hours."""

    async def story(desk: Desk) -> None:
        await desk.lets_pass(10)
        meets_limit(desk, AGENT, "resets in 2h")
        seen = desk.office.clock.now()
        await gets_mail(desk, AGENT)
        await desk.lives_until(seen + HOUR)
        desk.office.clock.set_wall(shift)
        await desk.lives_until(seen + 2 * HOUR + MINUTE - 3 * SECOND)
        assert received(desk, AGENT) == 0
        await desk.lives_until(seen + 2 * HOUR + 6 * MINUTE)
        assert received(desk, AGENT) == 1

    played(tmp_path, story)


def test_the_wait_of_an_agent_is_the_same_after_each_restart(tmp_path: Path) -> None:
    """Jitter is drawn from the agent and its stretch at the limit, not from chance."""

    async def story(desk: Desk) -> None:
        await desk.lets_pass(10)
        meets_limit(desk, AGENT, "resets 3am")
        await gets_mail(desk, AGENT)
        ends = set()
        for _ in range(5):
            await desk.lets_pass(60)
            (held,) = desk.office.deliveries(AGENT)
            assert held.hold is not None
            ends.add(held.hold.detail)
            await desk.restarts()
        assert len(ends) == 1
        assert all(one <= other for one, other in pairwise(sorted(ends)))

    played(tmp_path, story)
