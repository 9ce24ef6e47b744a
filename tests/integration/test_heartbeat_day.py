"""A day of the heartbeat on a turned clock: a real graph, a real ledger, imagined agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from wake_bridge_adapters.heartbeat import HeartbeatAdapter

from wake_bridge.domain.delivery import HoldReason, Outcome, Step
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.routing import Binding
from wake_bridge.testing.office import Office

MINUTE = 60_000
FENCE = Binding("memory", 1, "$0", "%0", 2, "0", 3, "0")
Story = Callable[[Office], Coroutine[None, None, None]]
WHO = ["@other", "@push", "@degraded", "@disabled", "@bridge", "@unbound", "@bound", "@retired"]


def played(directory: Path, story: Story) -> None:
    async def run() -> None:
        targets = {"@bound": "bound", "@push": "push"}
        office = Office(
            directory,
            WHO,
            carried={"heartbeat": HeartbeatAdapter},
            targets=targets,
            start=int(time.time() * 1000),
        )
        for name in targets.values():
            office.agent(name)
        async with office:
            await story(office)

    asyncio.run(run())


async def minutes(office: Office, count: int) -> None:
    """Let so many minutes pass, with a tick of the heartbeat at the beginning of each."""
    for _ in range(count):
        began = office.clock.now()
        await office.heartbeat.tick(began)
        await office.works()
        office.clock.turn(MINUTE - (office.clock.now() - began))


def nudges(office: Office, name: str) -> list[str]:
    return [text for text in office.agent(name).received if " unread " in text.splitlines()[0]]


def test_over_a_day_exactly_those_whom_nothing_else_wakes_are_nudged(tmp_path: Path) -> None:
    """Not the push-capable, not one with an open delivery, not the unbound."""

    async def story(office: Office) -> None:
        office.subscribe("@push", "a2a-webhook", pane="push")
        office.subscribe("@push", "disabled", pane="push")
        office.subscribe("@degraded", pane="degraded", status="degraded")
        office.subscribe("@disabled", "disabled", pane="disabled")
        office.subscribe("@bridge", pane="bridge")
        office.subscribe("@unbound", "none")
        office.subscribe("@retired", pane="retired", status="retired")
        office.agent("bridge").state = PresenceState.ACTIVE
        await office.reads()
        began = office.clock.now()
        for who in WHO[1:]:
            office.core.send("@other", who, f"for {who}")
        await office.reads()

        await minutes(office, 24 * 60)

        assert {name for name, agent in office.adapter.agents.items() if agent.received} == {
            "degraded",
            "disabled",
            "bound",
        }
        for name in ("degraded", "disabled", "bound"):
            mine = office.deliveries(f"@{name}")
            assert {(one.adapter, one.outcome) for one in mine} == {("heartbeat", Outcome.SUBMITTED)}
            assert all(one.id in text for one, text in zip(mine, office.agent(name).received, strict=True))
            assert all("1 unread message (latest: " in one.digest for one in mine)
            at = [(one.created_at - began) // MINUTE for one in mine]
            gaps = [later - earlier for earlier, later in pairwise(at)]
            assert at[0] == 0
            assert gaps[:4] == [6, 11, 21, 41]
            assert set(gaps[4:]) == {61}
            assert len(at) == 27
        (waiting,) = office.deliveries("@bridge")
        assert waiting.hold is not None
        assert waiting.hold.reason is HoldReason.ACTIVE
        assert office.deliveries("@unbound") == office.deliveries("@push") == office.deliveries("@retired") == []

        office.agent("bridge").state = PresenceState.IDLE
        await minutes(office, 3)
        (digest,) = office.agent("bridge").received
        assert "- 1 new message (latest:" in digest
        assert office.deliveries("@bridge")[0].adapter == "memory"

    played(tmp_path, story)


def test_a_nudge_is_a_delivery_like_every_other(tmp_path: Path) -> None:
    """Through the same gate, ledger and budget, with a journal of its own; never a second way to type."""

    async def story(office: Office) -> None:
        office.subscribe("@disabled", "disabled", pane="disabled")
        agent = office.agent("disabled")
        agent.composer = "half a thought"
        await office.reads()
        office.core.send("@other", "@disabled", "hello")
        await office.reads()

        await minutes(office, 3)
        (held,) = office.deliveries("@disabled")
        assert held.hold is not None
        assert held.hold.reason is HoldReason.USER_TYPING
        assert agent.received == []

        agent.composer = ""
        await minutes(office, 2)
        (told,) = office.deliveries("@disabled")
        assert told.outcome is Outcome.SUBMITTED
        steps = [line.step for line in office.ledger.journal_of(told.id)]
        assert steps[-6:] == [
            Step.LOCKED,
            Step.INTENT_STAGE,
            Step.STAGED,
            Step.INTENT_SUBMIT,
            Step.SUBMITTED,
            Step.SETTLED,
        ]
        assert [wake.identity for wake in office.ledger.past_wakes(told.created_at)] == ["@disabled"]

    played(tmp_path, story)


def test_a_nudge_that_waits_for_hours_is_one_delivery_and_the_rest_begins_at_its_end(tmp_path: Path) -> None:
    """Skips whoever has an open delivery; a night at a dialog is not a night's worth of nudges."""

    async def story(office: Office) -> None:
        office.subscribe("@disabled", "disabled", pane="disabled")
        agent = office.agent("disabled")
        agent.state = PresenceState.WAITING_ON_APPROVAL
        await office.reads()
        office.core.send("@other", "@disabled", "hello")
        await office.reads()
        await minutes(office, 3 * 60)
        (held,) = office.deliveries("@disabled")
        assert len(office.ledger.events_of(held.id)) == 1

        agent.state = PresenceState.IDLE
        await minutes(office, 4)
        assert len(agent.received) == 1
        await minutes(office, 3)
        assert len(agent.received) == 2

    played(tmp_path, story)


def test_whoever_is_degraded_while_a_wake_is_held_is_not_nudged_besides(tmp_path: Path) -> None:
    """Never both for one identity; the wake that was begun is told, once."""

    async def story(office: Office) -> None:
        subscription = office.subscribe("@bridge", pane="bridge")
        agent = office.agent("bridge")
        agent.state = PresenceState.WAITING_ON_APPROVAL
        await office.reads()
        office.core.send("@other", "@bridge", "by the bridge")
        await office.reads()
        await minutes(office, 2)
        office.core.set(subscription, "status", "degraded")
        await office.reads()
        office.core.send("@other", "@bridge", "left to the heartbeat")
        await office.reads()
        await minutes(office, 60)
        (held,) = office.deliveries("@bridge")

        agent.state = PresenceState.IDLE
        await minutes(office, 120)
        first, *nudged = agent.received
        assert first.startswith("[WAKE] 2 events for @bridge:")
        assert held.id in first
        assert nudged == []

    played(tmp_path, story)


def test_mail_that_is_read_silences_the_heartbeat_also_when_a_nudge_already_waits(tmp_path: Path) -> None:
    """A set that was read meanwhile settles as `read` with zero bytes; nothing unread is no nudge."""

    async def story(office: Office) -> None:
        office.subscribe("@disabled", "disabled", pane="disabled")
        agent = office.agent("disabled")
        agent.state = PresenceState.WAITING_ON_APPROVAL
        await office.reads()
        message = office.core.send("@other", "@disabled", "hello")
        await office.reads()
        await minutes(office, 2)
        office.core.mark_read(message)
        agent.state = PresenceState.IDLE
        await minutes(office, 120)

        assert [one.outcome for one in office.deliveries("@disabled")] == [Outcome.READ]
        assert agent.received == []

        told = office.core.send("@other", "@disabled", "again")
        await office.reads()
        await minutes(office, 2)
        assert len(agent.received) == 1
        office.core.mark_read(told)
        await minutes(office, 180)
        assert len(agent.received) == 1

    played(tmp_path, story)


@pytest.mark.parametrize(
    "said", [{"wakePolicy": "silent"}, {"wakePolicy": "next_turn"}, {"wakeSuppressed": True}], ids=str
)
def test_silent_and_next_turn_mail_is_never_nudged(tmp_path: Path, said: dict[str, Any]) -> None:
    """`silent`: no heartbeat either; `next_turn` waits for the turn; for the bound without subscription, too."""

    async def story(office: Office) -> None:
        office.subscribe("@disabled", "disabled", pane="disabled")
        await office.reads()
        for who in ("@disabled", "@bound"):
            office.core.send("@other", who, "hush", **said)
        await office.reads()
        await minutes(office, 90)
        assert office.deliveries("@disabled") == office.deliveries("@bound") == []

        for who in ("@disabled", "@bound"):
            office.core.send("@other", who, "aloud")
        await office.reads()
        await minutes(office, 2)
        for name in ("disabled", "bound"):
            (text,) = office.agent(name).received
            assert '1 unread message (latest: "aloud"' in text

    played(tmp_path, story)


def test_new_mail_resets_the_cooldown_and_a_restart_does_not(tmp_path: Path) -> None:
    """A persisted cooldown, doubled while nothing changes, reset by new mail."""

    async def story(office: Office) -> None:
        office.subscribe("@disabled", "disabled", pane="disabled")
        await office.reads()
        office.core.send("@other", "@disabled", "first")
        await office.reads()
        await minutes(office, 5 * 60)
        before = len(nudges(office, "disabled"))

        await office.restarts()
        await minutes(office, 10)
        assert len(nudges(office, "disabled")) - before <= 1

        count = len(nudges(office, "disabled"))
        office.core.send("@other", "@disabled", "second")
        await office.reads()
        await minutes(office, 7)
        assert "2 unread messages" in nudges(office, "disabled")[count]
        await minutes(office, 20)
        assert len(nudges(office, "disabled")) == count + 3

    played(tmp_path, story)


def test_no_mail_is_announced_by_two_drivers(tmp_path: Path) -> None:
    """What one driver told, the other does not tell, in whichever order they serve."""

    async def story(office: Office) -> None:
        subscription = office.subscribe("@disabled", "disabled", pane="disabled")
        agent = office.agent("disabled")
        await office.reads()
        office.core.send("@other", "@disabled", "told by the heartbeat")
        await office.reads()
        await minutes(office, 2)
        assert len(nudges(office, "disabled")) == 1

        office.core.set(subscription, "harnessTarget", "bridge-daemon")
        await office.reads()
        office.core.send("@other", "@disabled", "told by the bridge")
        await office.reads()
        await minutes(office, 120)
        assert len(agent.received) == 2
        assert agent.received[1].startswith("[WAKE] 1 event for @disabled:")
        assert "told by the bridge" in agent.received[1]

        office.core.set(subscription, "harnessTarget", "disabled")
        await office.reads()
        await minutes(office, 120)
        assert all("told by the bridge" not in text for text in nudges(office, "disabled"))
        assert all("1 unread message " in text for text in nudges(office, "disabled"))
        told = [
            event.subject_key
            for one in office.deliveries("@disabled")
            for event in office.ledger.events_of(one.id)
            if event.subject_key.startswith("MESSAGE:")
        ]
        assert len(told) == len(set(told)) == 2

    played(tmp_path, story)


def test_what_was_stored_and_then_rode_along_with_the_bridge_is_not_nudged(tmp_path: Path) -> None:
    """Whoever told it first has told it."""

    async def story(office: Office) -> None:
        subscription = office.subscribe("@disabled", "disabled", pane="disabled")
        await office.reads()
        office.core.send("@other", "@disabled", "stored")
        await office.reads()
        office.core.set(subscription, "harnessTarget", "bridge-daemon")
        await office.reads()
        office.core.send("@other", "@disabled", "live")
        await office.reads()
        await minutes(office, 3)
        (digest,) = office.agent("disabled").received
        assert "2 new messages" in digest

        office.core.set(subscription, "harnessTarget", "disabled")
        await office.reads()
        await minutes(office, 120)
        assert office.agent("disabled").received == [digest]

    played(tmp_path, story)


def test_what_a_waiting_nudge_counted_and_the_bridge_then_told_is_not_nudged(tmp_path: Path) -> None:
    """A nudge that is overtaken by its identity's own driver has told nothing."""

    async def story(office: Office) -> None:
        subscription = office.subscribe("@disabled", "disabled", pane="disabled")
        agent = office.agent("disabled")
        agent.state = PresenceState.ACTIVE
        await office.reads()
        office.core.send("@other", "@disabled", "stored")
        await office.reads()
        await minutes(office, 2)
        office.core.set(subscription, "harnessTarget", "bridge-daemon")
        await office.reads()
        office.core.send("@other", "@disabled", "live")
        await office.reads()
        await minutes(office, 2)
        agent.state = PresenceState.IDLE
        await minutes(office, 2)
        (digest,) = agent.received
        assert "2 new messages" in digest
        assert "pulse" not in digest

        office.core.set(subscription, "harnessTarget", "disabled")
        await office.reads()
        await minutes(office, 120)
        assert agent.received == [digest]

    played(tmp_path, story)


def test_mail_that_the_inbox_showed_is_not_nudged_again(tmp_path: Path) -> None:
    """`inbox`: printing counts as announced, also for what a nudge has counted before."""

    async def story(office: Office) -> None:
        await office.reads()
        message = office.core.send("@other", "@bound", "hello")
        await minutes(office, 2)
        assert len(nudges(office, "bound")) == 1
        office.ledger.announce(Identity("@bound"), [message], "inbox", office.clock.now())
        await minutes(office, 120)
        assert len(nudges(office, "bound")) == 1

    played(tmp_path, story)


def test_ticks_missed_in_the_night_are_one_nudge_in_the_morning(tmp_path: Path) -> None:
    """A machine that slept makes up for nothing."""

    async def story(office: Office) -> None:
        await office.reads()
        office.core.send("@other", "@bound", "hello")
        await minutes(office, 2)
        office.clock.turn(9 * 60 * MINUTE)
        await minutes(office, 2)
        assert len(nudges(office, "bound")) == 2

    played(tmp_path, story)


def test_a_pane_bound_by_hand_counts_as_a_target(tmp_path: Path) -> None:
    """Unread immediate mail, no subscription, and a bound target."""

    async def story(office: Office) -> None:
        office.core.identity("@elsewhere")
        office.core.send("@other", "@elsewhere", "hello")
        await minutes(office, 2)
        assert office.deliveries("@elsewhere") == []
        office.ledger.bind(Identity("@elsewhere"), FENCE, office.clock.now())
        office.current.settings = office.current.settings.__class__(
            default_adapter="memory", fallback_pane="elsewhere", targets=office.current.settings.targets
        )
        office.agent("elsewhere")
        await minutes(office, 2)
        assert len(nudges(office, "elsewhere")) == 1

    played(tmp_path, story)
