"""A night of notices on a turned clock: a real graph, a real ledger, imagined agents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from wake_bridge.domain.delivery import HoldReason, Outcome
from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.names import Identity
from wake_bridge.domain.notices import NO_ROUTES, Notice
from wake_bridge.domain.presence import PresenceState
from wake_bridge.engine.attention.notices import Notices
from wake_bridge.ports.adapter import AttemptOutcome, Failed, Unknown
from wake_bridge.ports.human import Told
from wake_bridge.testing import HUNG
from wake_bridge.testing.office import Office

MINUTE = 60_000
STEP = 5_000
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
MIDNIGHT = int(TODAY.timestamp() * 1000)


@dataclass
class Person:
    """Hears what is told, and when."""

    office: Office
    trouble: str = ""
    heard: list[tuple[str, Notice]] = field(default_factory=list)

    async def tell(self, notice: Notice) -> Told:
        self.heard.append((f"{self.office.clock.local():%H:%M:%S}", notice))
        return Told("voice", self.trouble)

    @property
    def times(self) -> list[str]:
        return [at for at, _ in self.heard]

    @property
    def reasons(self) -> list[str]:
        return [notice.reason for _, notice in self.heard]


class Night:
    """An office at night, and the person who owns it."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.person = Person(office)
        self.begins()

    def begins(self) -> None:
        """The notices' part starts anew, as after a restart."""
        self.notices = Notices(
            self.office.ledger,
            self.person,
            self.office.current,
            self.office.clock,
            active_routes=lambda: self.office.tail.active_routes,
            nudged=lambda: len(self.office.heartbeat.served()),
            known=self.office.tail.known_identities,
        )

    def configure(self, **changes: object) -> None:
        self.office.current.settings = replace(self.office.current.settings, **changes)  # type: ignore[arg-type]

    async def until(self, clock: str) -> None:
        """Work on until that local time, looking every five seconds, as the daemon does."""
        while f"{self.office.clock.local():%H:%M}" != clock:
            began = self.office.clock.now()
            if began % MINUTE < STEP:
                await self.office.works()
            self.notices.tick(self.office.clock.now())
            await self.notices.drain()
            self.office.clock.turn(max(0, STEP - (self.office.clock.now() - began)))

    async def sends(self, subject: str = "a question", who: str = "@agent") -> str:
        sent = self.office.core.send("@other", who, subject)
        await self.office.reads()
        return sent


Story = Callable[[Night], Coroutine[None, None, None]]


def played(directory: Path, story: Story, *, hour: int = 1, subscribed: bool = True) -> None:
    async def run() -> None:
        office = Office(directory, ["@other", "@agent"], start=MIDNIGHT + hour * 60 * MINUTE)
        if subscribed:
            office.subscribe("@agent", pane="agent")
        async with office:
            await story(Night(office))

    asyncio.run(run())


def test_an_approval_since_one_o_clock_is_told_once_at_a_quarter_past_and_the_wake_arrives_once(tmp_path: Path) -> None:
    """`[human] notice_after`: exactly one at 01:15 and none again; the wake comes once after the approval."""

    async def story(night: Night) -> None:
        agent = night.office.agent("agent")
        agent.state = PresenceState.WAITING_ON_APPROVAL
        await night.sends()
        await night.until("01:14")
        assert night.person.heard == []
        await night.until("01:16")
        (at,) = night.person.times
        assert "01:15:00" <= at <= "01:15:10"
        (_, notice) = night.person.heard[0]
        assert notice.title == "wake-bridge: @agent cannot be woken (waitingOnApproval)"

        await night.until("03:00")
        await night.office.restarts()
        night.begins()
        await night.until("06:30")
        assert len(night.person.heard) == 1
        assert agent.received == []

        agent.state = PresenceState.IDLE
        await night.until("06:40")
        assert len(agent.received) == 1
        assert [one.outcome for one in night.office.deliveries("@agent")] == [Outcome.SUBMITTED]
        assert len(night.person.heard) == 1
        assert night.office.ledger.standing_notices(5) == []

    played(tmp_path, story)


def test_a_busy_agent_is_no_news_and_a_hold_begins_anew_with_its_reason(tmp_path: Path) -> None:
    """What ends by itself is no notice; a dialog counts from when it came up."""

    async def story(night: Night) -> None:
        agent = night.office.agent("agent")
        agent.state = PresenceState.ACTIVE
        await night.sends()
        await night.until("02:00")
        assert night.person.heard == []
        agent.state = PresenceState.USER_TYPING
        await night.until("02:30")
        assert night.person.reasons == [HoldReason.USER_TYPING]
        assert "02:15" <= night.person.times[0] <= "02:17"

    played(tmp_path, story)


def test_in_quiet_hours_nothing_is_told_and_what_is_still_true_afterwards_is(tmp_path: Path) -> None:
    """`policy.quiet_hours`: held until they end, then still true → sent; what was mended meanwhile is not."""

    async def story(night: Night) -> None:
        night.configure(quiet_hours=QuietHours.parse("01:10-07:00"))
        agent = night.office.agent("agent")
        agent.state = PresenceState.WAITING_ON_APPROVAL
        await night.sends()
        await night.until("07:14")
        assert night.person.heard == []
        await night.until("07:20")
        assert night.person.reasons == [HoldReason.WAITING_ON_APPROVAL]

        agent.state = PresenceState.IDLE
        await night.until("07:30")
        night.configure(quiet_hours=QuietHours.parse("07:00-09:00"))
        await night.until("09:30")
        assert len(night.person.heard) == 1

    played(tmp_path, story)


async def _unknown(*_: object) -> AttemptOutcome:
    return Unknown({"why": "nobody knows"})


async def _failed(*_: object) -> AttemptOutcome:
    return Failed(retryable=False, reason="the surface is gone")


@pytest.mark.parametrize(
    ("outcome", "attempt", "told_at"), [(Outcome.UNKNOWN, _unknown, "01:10"), (Outcome.FAILED, _failed, "01:00")]
)
def test_a_wake_that_failed_or_may_not_have_arrived_is_told_once_and_after_quiet_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, attempt: Callable[..., object], told_at: str
) -> None:
    """Per FAILED and per unknown one notice, once it was looked for; in quiet hours, when they end."""

    async def story(night: Night) -> None:
        monkeypatch.setattr(night.office.adapter, "deliver", attempt)
        await night.sends()
        await night.until("01:09")
        assert night.person.reasons == ([] if outcome is Outcome.UNKNOWN else [outcome])
        await night.until("01:15")
        assert night.person.reasons == [outcome]
        assert night.person.times[0].startswith(told_at)
        night.configure(quiet_hours=QuietHours.parse("01:00-07:00"))
        await night.until("07:05")
        assert len(night.person.heard) == 1

        night.configure(quiet_hours=None)
        await night.sends("another")
        await night.office.works()
        night.configure(quiet_hours=QuietHours.parse("07:00-09:00"))
        assert [one.outcome for one in night.office.deliveries("@agent")] == [outcome, outcome]
        await night.until("08:59")
        assert len(night.person.heard) == len(night.office.ledger.noticed()) == 1
        await night.until("09:01")
        assert night.person.reasons == [outcome, outcome]

    played(tmp_path, story)


def test_a_failure_in_quiet_hours_that_somebody_retried_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Still true when quiet hours end, or not told at all."""

    async def story(night: Night) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(night.office.adapter, "deliver", _failed)
            await night.sends()
            await night.office.works()
        (failed,) = night.office.deliveries("@agent")
        assert failed.outcome is Outcome.FAILED
        night.configure(quiet_hours=QuietHours.parse("00:30-01:30"))
        await night.until("01:10")
        night.office.ledger.retry(failed.id, lambda: "01RETRY", night.office.clock.now())
        await night.until("02:00")
        assert night.person.heard == []
        assert len(night.office.agent("agent").received) == 1

    played(tmp_path, story)


def test_a_spent_budget_is_told_at_once_and_once(tmp_path: Path) -> None:
    """Held with reason `budget`, one notice, `resume` clears it."""

    async def story(night: Night) -> None:
        night.configure(limits=Limits(wakes_per_hour=1, refractory=0))
        await night.sends("first")
        await night.until("01:02")
        await night.sends("second")
        await night.until("01:05")
        assert night.person.reasons == [HoldReason.BUDGET]
        await night.until("01:50")
        assert len(night.person.heard) == 1
        night.office.ledger.resume("@agent", night.office.clock.now())
        night.office.ledger.look_at_once(Identity("@agent"), night.office.clock.now())
        await night.until("01:55")
        assert len(night.office.agent("agent").received) == 2

    played(tmp_path, story)


def test_nobody_to_be_woken_is_told_once_each_time(tmp_path: Path) -> None:
    """`0 active routes`: once while it lasts, across restarts; again when it comes again."""

    async def story(night: Night) -> None:
        await night.until("01:14")
        assert night.person.heard == []
        await night.until("01:30")
        assert night.person.reasons == [NO_ROUTES]
        await night.office.restarts()
        night.begins()
        await night.until("02:00")
        assert len(night.person.heard) == 1

        subscription = night.office.subscribe("@agent", pane="agent")
        await night.office.reads()
        await night.until("02:05")
        night.office.core.sql("DELETE FROM Nodes WHERE id = ?", subscription)
        await night.office.reads()
        await night.until("02:30")
        assert night.person.reasons == [NO_ROUTES, NO_ROUTES]

    played(tmp_path, story, subscribed=False)


def test_who_is_left_to_the_heartbeat_can_be_woken(tmp_path: Path) -> None:
    """The heartbeat is a route, too; a person who relies on it is not told that nobody can be woken."""

    async def story(night: Night) -> None:
        subscription = night.office.subscribe("@agent", "disabled", pane="agent")
        await night.office.reads()
        await night.until("01:30")
        assert night.person.heard == []
        night.office.core.sql("DELETE FROM Nodes WHERE id = ?", subscription)
        await night.office.reads()
        await night.until("01:50")
        assert night.person.reasons == [NO_ROUTES]

    played(tmp_path, story, subscribed=False)


def test_a_person_who_cannot_be_told_is_complained_about_once(tmp_path: Path) -> None:
    """`[human]`: a failing command is logged once, and holds nothing up; what it did not take is tried again."""

    async def story(night: Night) -> None:
        night.person.trouble = "exit status 1"
        night.office.agent("agent").state = PresenceState.WAITING_ON_APPROVAL
        night.office.core.identity("@twin")
        night.office.subscribe("@twin", pane="twin")
        night.office.agent("twin").state = PresenceState.WAITING_ON_APPROVAL
        await night.sends()
        await night.sends(who="@twin")
        with structlog.testing.capture_logs() as lines:
            night.begins()
            await night.until("01:30")
        tries = Counter(one.subject for _, one in night.person.heard)
        assert sorted(tries.values()) == [5, 5]
        assert [line["event"] for line in lines if line["event"].startswith("notice_")] == [
            "notice_given",
            "notice_given",
            "notice_failed",
        ]

    played(tmp_path, story)


def test_a_word_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    """`[human]`: never blocks: the tick is over before the word is out; closing calls it back."""

    async def story(night: Night) -> None:
        hangs = asyncio.Event()

        class Deaf:
            async def tell(self, notice: Notice) -> Told:
                del notice
                await hangs.wait()
                return Told("voice")

        notices = Notices(
            night.office.ledger,
            Deaf(),
            night.office.current,
            night.office.clock,
            active_routes=lambda: 1,
            nudged=lambda: 0,
            known=set,
        )
        night.office.agent("agent").state = PresenceState.WAITING_ON_APPROVAL
        await night.sends()
        await night.office.works()
        night.office.clock.turn(16 * MINUTE)
        notices.tick(night.office.clock.now())
        assert len(night.office.ledger.noticed()) == 1
        await asyncio.sleep(0)
        await asyncio.wait_for(notices.close(), HUNG)

    played(tmp_path, story)
