"""Wakes pushed to an MCP client, on a turned clock: whether the agent acts decides; nothing is lost, nothing is told twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from wake_bridge_adapters.mcp_push import McpPushAdapter

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.matching import MatchingRules, TargetRule
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.receivers import ACTS_WITHIN, PUSH, PUSHED_TARGET
from wake_bridge.engine.deliver.pushes import LOOK_EVERY
from wake_bridge.engine.settings import TargetSettings
from wake_bridge.ports.adapter import AttemptOutcome, Journal, Place, Wake
from wake_bridge.ports.sessions import PushClient
from wake_bridge.testing.office import Office

ME, SENDER = "@ada", "@me"
PANE = "ada"
TYPES = frozenset({"wake/sent_to_me", "wake/task_state_changed", "wake/digest"})


class Died(BaseException):
    """The daemon was killed."""


@dataclass(slots=True)
class PlayedClients:
    """Who takes pushes, and what they were pushed. `answers` is what comes of a push; `dies` kills the daemon after it."""

    clients: dict[Identity, PushClient] = field(default_factory=dict)
    pushed: list[dict[str, Any]] = field(default_factory=list)
    answers: bool | None = True
    dies: bool = False

    def client_of(self, identity: Identity) -> PushClient | None:
        return self.clients.get(identity)

    async def push(self, identity: Identity, mark: str, envelope: str) -> bool | None:
        assert mark
        if self.answers is False:
            return False
        self.pushed.append({"to": identity, **json.loads(envelope)})
        if self.dies:
            raise Died
        return self.answers


Story = Callable[[Office, PlayedClients], Coroutine[None, None, None]]


def played(
    directory: Path, story: Story, *, pane: str = PANE, target: str = PUSHED_TARGET, mcp_push: bool = True
) -> None:
    """Run a story with `@ada`, who has a pane and whose client takes pushes."""

    async def run() -> None:
        office = Office(directory, [ME, SENDER], carried={PUSH: McpPushAdapter}, start=int(time.time() * 1000))
        clients = PlayedClients({Identity(ME): PushClient("one", 1, "push-test 1", TYPES)})
        served(office).serve_pushes(clients)
        if pane:
            office.agent(pane)
        where = TargetSettings("memory", pane, mcp_push=mcp_push) if pane else TargetSettings(mcp_push=mcp_push)
        limits = replace(office.current.settings.limits, refractory=0)
        office.current.settings = replace(office.current.settings, limits=limits, targets={Identity(ME): where})
        office.rules = MatchingRules(targets={Identity(ME): TargetRule()}, serve=frozenset({PUSHED_TARGET}))
        office.subscribe(ME, target)
        async with office:
            await story(office, clients)

    asyncio.run(run())


def served(office: Office) -> McpPushAdapter:
    adapter = office.adapters[PUSH]
    assert isinstance(adapter, McpPushAdapter)
    return adapter


async def sent(office: Office, subject: str) -> str:
    message = office.core.send(SENDER, ME, subject)
    await office.reads()
    await office.passes(1)
    return message


def steps(office: Office, delivery: Delivery) -> list[Step]:
    return [one.step for one in office.ledger.journal_of(delivery.id)]


def received(office: Office) -> list[str]:
    return office.agent(PANE).received


def test_sent_is_proof_1_and_the_mail_that_is_read_settles_it(tmp_path: Path) -> None:
    """It stays LOCKED until then, and no other route is asked."""

    async def story(office: Office, clients: PlayedClients) -> None:
        message = await sent(office, "please look")
        (locked,) = office.deliveries(ME)
        assert (locked.state, locked.proof, locked.adapter) == (DeliveryState.LOCKED, 1, PUSH)
        assert locked.hold is not None
        assert locked.hold.cause is Cause.PUSHED
        office.core.mark_read(message)
        await office.reads()
        await office.passes(2 * LOOK_EVERY)

        (done,) = office.deliveries(ME)
        assert (done.outcome, done.proof) == (Outcome.SUBMITTED, 3)
        assert [one["eventType"] for one in clients.pushed] == ["wake/sent_to_me"]
        await office.passes(2 * ACTS_WITHIN)
        assert received(office) == []
        assert len(clients.pushed) == 1

    played(tmp_path, story)


def test_a_turn_that_begins_settles_it_and_one_that_ran_before_is_no_sign(tmp_path: Path) -> None:
    """A turn that ran before the push keeps every route from beginning one: the minute begins with its end."""

    async def story(office: Office, clients: PlayedClients) -> None:
        await sent(office, "first")
        office.agent(PANE).state = PresenceState.ACTIVE
        await office.passes(3 * LOOK_EVERY)
        (done,) = office.deliveries(ME)
        assert (done.outcome, done.proof) == (Outcome.SUBMITTED, 2)

        await sent(office, "second")
        await office.passes(3 * ACTS_WITHIN)
        assert office.deliveries(ME)[1].state is DeliveryState.LOCKED
        office.agent(PANE).state = PresenceState.IDLE
        await office.passes(ACTS_WITHIN + 3 * LOOK_EVERY)
        assert len(clients.pushed) == 2
        (typed,) = received(office)
        assert '"second"' in typed

    played(tmp_path, story)


def test_a_client_that_drops_its_wakes_is_left_alone_and_the_pane_is_woken_once(tmp_path: Path) -> None:
    """After a minute the next route takes it; what follows is not pushed until the client shows that it acts."""

    async def story(office: Office, clients: PlayedClients) -> None:
        await sent(office, "dropped")
        await office.passes(ACTS_WITHIN - 2 * LOOK_EVERY)
        assert received(office) == []
        await office.passes(4 * LOOK_EVERY)
        (done,) = office.deliveries(ME)
        assert (done.outcome, done.adapter) == (Outcome.SUBMITTED, "memory")
        assert len(received(office)) == len(clients.pushed) == 1

        await sent(office, "typed at once")
        await office.passes(5_000)
        assert len(received(office)) == 2
        assert len(clients.pushed) == 1
        # also after a restart
        await office.restarts()
        await sent(office, "typed again")
        await office.passes(5_000)
        assert (len(received(office)), len(clients.pushed)) == (3, 1)

        office.gate.pushes.take_up(Identity(ME))
        await sent(office, "pushed again")
        assert len(clients.pushed) == 2

    played(tmp_path, story)


def test_who_has_nothing_but_a_client_that_drops_is_told_what_helps(tmp_path: Path) -> None:
    """No wake vanishes: it is held, with a remedy; taken literally it is pushed again."""

    async def story(office: Office, clients: PlayedClients) -> None:
        await sent(office, "dropped")
        await office.passes(ACTS_WITHIN + 3 * LOOK_EVERY)
        (held,) = office.deliveries(ME)
        assert held.hold is not None
        assert (held.state, held.hold.reason) == (DeliveryState.DISPATCHED, HoldReason.UNREACHABLE)
        assert held.hold.cause is Cause.PUSH_UNANSWERED
        assert "update ID --recover" in held.hold.remedy(Identity(ME))
        assert len(clients.pushed) == 1

    played(tmp_path, story, pane="")


def test_who_has_nothing_but_pushes_waits_for_a_client(tmp_path: Path) -> None:
    """Where none takes wakes the hold says so; a client that comes is pushed what waits."""

    async def story(office: Office, clients: PlayedClients) -> None:
        taken = clients.clients.pop(Identity(ME))
        await sent(office, "waits")
        (held,) = office.deliveries(ME)
        assert held.hold is not None
        assert (held.hold.cause, clients.pushed) == (Cause.NO_MCP_CLIENT, [])
        clients.clients[Identity(ME)] = taken
        office.ledger.look_at_once(Identity(ME), office.clock.now())
        await office.passes(1)
        assert len(clients.pushed) == 1

    played(tmp_path, story, pane="")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mcp_push": False}, "the target does not allow it"),
        ({"target": "bridge-daemon"}, "its subscription names the pane"),
    ],
)
def test_nobody_is_pushed_to_without_both_words(tmp_path: Path, options: Mapping[str, Any], why: str) -> None:
    """The subscription asks for pushes and the target allows them; else the pane is woken at once."""

    async def story(office: Office, clients: PlayedClients) -> None:
        await sent(office, "for the pane")
        await office.passes(5_000)
        assert clients.pushed == [], why
        assert len(received(office)) == 1

    played(tmp_path, story, **options)


@pytest.mark.parametrize("answer", [False, None])
def test_what_the_server_did_not_take_goes_on_at_once_and_what_it_may_have_after_a_minute(
    tmp_path: Path, answer: bool | None
) -> None:
    """Not taken: nothing can have arrived. Not confirmed: it may have, and is proof of nothing."""

    async def story(office: Office, clients: PlayedClients) -> None:
        clients.answers = answer
        await sent(office, "doubtful")
        await office.passes(5_000)
        assert len(received(office)) == (answer is False)
        await office.passes(ACTS_WITHIN + LOOK_EVERY)
        assert len(received(office)) == 1
        assert len(clients.pushed) == (answer is None)
        assert office.deliveries(ME)[0].outcome is Outcome.SUBMITTED

    played(tmp_path, story)


def test_a_type_of_event_that_the_client_does_not_take_is_not_pushed(tmp_path: Path) -> None:
    """`supportedEvents` of the handshake: nothing is written down as sent, and the pane is woken."""

    async def story(office: Office, clients: PlayedClients) -> None:
        clients.clients[Identity(ME)] = PushClient("one", 1, "push-test 1", frozenset({"wake/digest"}))
        await sent(office, "typed")
        await office.passes(5_000)
        assert (clients.pushed, len(received(office))) == ([], 1)
        assert Step.INTENT_SUBMIT in steps(office, office.deliveries(ME)[0])

    played(tmp_path, story)


def test_pushes_count_against_the_limits_of_the_agent(tmp_path: Path) -> None:
    """Refractory, storm and budget hold for this way as for each: it is the same agent."""

    async def story(office: Office, clients: PlayedClients) -> None:
        office.current.settings = replace(office.current.settings, limits=Limits(refractory=0, storm=2))
        for subject in ("one", "two", "three"):
            message = await sent(office, subject)
            office.core.mark_read(message)
            await office.reads()
            await office.passes(2 * LOOK_EVERY)
        await sent(office, "four")
        held = office.deliveries(ME)[-1]
        assert len(clients.pushed) == 2
        assert held.hold is not None
        assert held.hold.reason is HoldReason.STORM

    played(tmp_path, story)


@pytest.mark.parametrize("moment", ["before the intent", "after the intent", "after the push", "after it was noted"])
def test_a_daemon_that_is_killed_loses_nothing_and_pushes_nothing_twice(tmp_path: Path, moment: str) -> None:
    """What may have been pushed is only looked for; a minute after the restart the next route takes it, once."""

    async def story(office: Office, clients: PlayedClients) -> None:
        adapter = served(office)
        clients.dies = moment == "after the push"
        true_deliver = adapter.deliver

        async def dies(place: Place, address: Any, wake: Wake, journal: Journal) -> AttemptOutcome:
            async def write(step: Step, evidence: Mapping[str, str]) -> None:
                if moment == "before the intent":
                    raise Died
                await journal(step, evidence)
                if moment == "after the intent":
                    raise Died

            return await true_deliver(place, address, wake, write)

        adapter.deliver = dies  # type: ignore[method-assign]
        office.core.send(SENDER, ME, "once")
        await office.reads()
        if moment == "after it was noted":
            await office.passes(1)
        else:
            with pytest.raises(Died):
                await office.passes(1)
        adapter.deliver = true_deliver  # type: ignore[method-assign]
        clients.dies = False
        await office.restarts()
        office.ledger.look_at_once(None, office.clock.now())
        await office.passes(office.current.settings.lease_ms + ACTS_WITHIN + 5 * LOOK_EVERY)

        assert len(clients.pushed) == (moment != "after the intent")
        assert len(received(office)) == 1
        assert office.deliveries(ME)[-1].outcome is Outcome.SUBMITTED

    played(tmp_path, story)


def test_a_turn_seen_before_a_push_is_forgotten_with_a_wake_that_ended_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer or a person ends it; when its agent was at work last was kept until a restart."""
    monkeypatch.setattr("wake_bridge.engine.deliver.gate.LOOKS_RECOUNTED_EVERY", 0)

    async def story(office: Office, clients: PlayedClients) -> None:
        office.agent(PANE).state = PresenceState.ACTIVE
        await office.passes(3 * LOOK_EVERY)
        await sent(office, "pushed")
        await office.passes(2 * LOOK_EVERY)
        (pushed,) = office.deliveries(ME)
        assert list(office.gate.pushes._worked_at) == [pushed.id]
        office.ledger.settle(pushed, Outcome.READ, Proof.NONE, {}, office.clock.now())
        clients.clients.clear()

        await sent(office, "waits for the pane")

        assert office.deliveries(ME)[1].hold is not None
        assert office.gate.pushes._worked_at == {}

    played(tmp_path, story)
