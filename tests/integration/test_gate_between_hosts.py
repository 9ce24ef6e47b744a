"""One delivery through the gate where several hosts share the graph: what this one does about what another has told or serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import structlog

from tests.integration.test_gate import AGENT, Rig
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Step
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.names import Identity
from wake_bridge.engine.deliver.leases import SoleDriver
from wake_bridge.engine.deliver.other_hosts import OtherHosts
from wake_bridge.ports.adapter import AttemptOutcome, Journal, Place, Refused, Wake
from wake_bridge.ports.change_log import IdentityRow


class PlayedLeases(SoleDriver):
    """What the database would say."""

    are_shared = True
    server = ""
    silent = ""
    teller = ""

    def elsewhere(self, identity: Identity) -> OtherDriver | None:  # noqa: ARG002 - the protocol's signature
        """Who serves it."""
        return OtherDriver(self.server, Cause.OTHER_HOST) if self.server else None

    def silent_host(self, identity: Identity) -> str:  # noqa: ARG002
        """Who did."""
        return self.silent

    async def told(self, identity: Identity, subject_keys: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        """Who told all of it."""
        return dict.fromkeys(subject_keys, self.teller) if self.teller else {}


class SharedRig(Rig):
    """A rig on a graph that others share."""

    def __init__(self, directory: Path) -> None:
        self.shared = PlayedLeases()
        super().__init__(directory, self.shared)
        self.rival: OtherDriver | None = None
        self.others = OtherHosts(self.ledger, self.shared, self.clock, lambda: self.rival, lambda: self.known)

    def held(self, delivery: Delivery) -> tuple[Cause, str, str]:
        """Its cause, where, and what a person is told to do."""
        after = self.takes(delivery)
        assert after.hold is not None
        return after.hold.cause, after.hold.where, after.hold.remedy(AGENT)

    def stages(self) -> Delivery:
        """A wake whose text stands unsent."""

        async def stops(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
            del place
            await journal(Step.INTENT_STAGE, {})
            await journal(Step.STAGED, {})
            self.agent.composer = wake.text
            return Refused(HoldReason.OTHER_HOST, "beta", "one", Cause.OTHER_HOST)

        self.adapter.script = stops
        staged = self.takes(self.arrives())
        self.adapter.script = None
        assert staged.hold is not None
        assert staged.hold.cause is Cause.LEFT_TO_HOST
        return staged

    def known_to(self, delivery: Delivery) -> Delivery:
        """It as it is now."""
        now = self.ledger.delivery(delivery.id)
        assert now is not None
        return now


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SharedRig]:
    made = SharedRig(tmp_path)
    yield made
    made.close()


def test_text_of_which_another_host_has_told_is_to_be_cleared_and_then_its_wake_is_over(rig: SharedRig) -> None:
    """It may not be sent any more, with the lease or without: a person is told so, and the pane is free once it is gone."""
    staged = rig.stages()
    rig.shared.server = "beta"
    cause, where, remedy = rig.held(staged)
    assert (cause, where) == (Cause.LEFT_TO_HOST, "one")
    assert remedy.startswith("clear our wake text from the composer of one and do not send it")

    rig.shared.server, rig.shared.teller = "", "beta"
    assert rig.held(staged)[0] is Cause.LEFT_TO_HOST
    rig.agent.composer = ""
    with structlog.testing.capture_logs() as logs:
        after = rig.takes(staged)
    assert [one["evidence"]["why"] for one in logs if one["event"] == "delivery_settled"] == [
        "the host beta has told it, and nothing was sent here"
    ]
    assert (after.state, after.outcome, rig.agent.received) == (DeliveryState.DELIVERED, Outcome.READ, [])

    rig.shared.teller = ""
    assert rig.takes(rig.arrives()).outcome is Outcome.SUBMITTED


def test_text_that_no_host_has_told_meanwhile_is_sent_once_the_lease_is_back(rig: SharedRig) -> None:
    """That another host serves for a while is no reason to lose what stands here."""
    staged = rig.stages()
    rig.shared.server = "beta"
    waits = rig.takes(staged)
    assert waits.state is DeliveryState.LOCKED
    # whether that host has told it by now is asked soon, though nothing changes here
    assert waits.hold is not None
    assert waits.hold.next_look_at - rig.clock.now() <= rig.current.settings.relook_max_ms
    rig.shared.server = ""
    assert rig.takes(staged).outcome is Outcome.SUBMITTED
    assert rig.agent.received == [staged.digest]


def test_an_agent_that_no_host_sees_is_told_by_the_host_that_served_it_last_and_is_silent(rig: SharedRig) -> None:
    """Where that is known, the advice is about that host; where nobody served it, about the pane."""
    agent = rig.adapter.agents.pop("one")
    delivery = rig.arrives()
    assert rig.held(delivery)[0].reason is HoldReason.UNREACHABLE
    rig.shared.silent = "beta"
    cause, where, remedy = rig.held(delivery)
    assert (cause, cause.reason, where) == (Cause.HOST_SILENT, HoldReason.HOST_AWAY, "beta")
    assert "start the daemon on beta again" in remedy

    rig.adapter.agents["one"] = agent
    assert rig.takes(delivery).outcome is Outcome.SUBMITTED


def test_what_another_host_drives_is_held_as_the_gate_would_and_ends_once_it_was_told_there(rig: SharedRig) -> None:
    """Without a question to graph and adapters: all hosts read each message, and one of them has to do with it."""
    rig.shared.server = "beta"
    by_gate, mine = rig.arrives("@twin"), rig.arrives()
    asked = rig.takes(by_gate)
    assert rig.others.hold([mine]) == []
    held = rig.known_to(mine)
    assert (held.state, held.hold and held.hold.cause) == (asked.state, Cause.OTHER_HOST)
    assert asked.hold is not None
    assert held.hold is not None
    assert (held.hold.reason, held.hold.detail, rig.steps(held)) == (asked.hold.reason, "beta", rig.steps(asked))
    assert rig.others.hold([held]) == [held], "whoever asks for a look at it again has it judged by the gate"

    subjects = rig.ledger.untold([AGENT])
    assert [identity for identity, _ in subjects] == [AGENT]
    rig.others.end([(AGENT, subjects[0][1], "beta"), (AGENT, "never heard of", "beta")])
    over, (event,) = rig.known_to(held), rig.ledger.events_of(held.id)
    assert (over.state, over.outcome, event.status) == (DeliveryState.DELIVERED, Outcome.READ, EventStatus.ANNOUNCED)
    assert event.refused_by == "told by the host beta"
    assert rig.known_to(by_gate).state is DeliveryState.DISPATCHED
    assert rig.agent.received == []


def test_only_what_was_told_ends_and_the_rest_is_there_once_the_lease_comes(rig: SharedRig) -> None:
    """A host that takes over announces what was never told, and nothing else."""
    rig.shared.server = "beta"
    delivery = rig.arrives()
    rig.others.hold([delivery])
    rig.arrives()
    told, _ = rig.ledger.untold([AGENT])
    rig.others.end([(*told, "beta")])
    assert rig.known_to(delivery).state is DeliveryState.DISPATCHED

    rig.shared.server = ""
    assert rig.takes(delivery).outcome is Outcome.SUBMITTED
    assert "1 new message" in rig.agent.received[0]


def test_text_that_stands_unsent_is_not_ended_with_the_others(rig: SharedRig) -> None:
    """A person has to clear it first."""
    staged = rig.stages()
    (event,) = rig.ledger.events_of(staged.id)
    assert rig.ledger.untold([AGENT]) == []
    rig.others.end([(AGENT, event.subject_key, "beta")])
    assert rig.known_to(staged).state is DeliveryState.LOCKED
    assert rig.ledger.events_of(staged.id) == [event]


@pytest.mark.parametrize("why", ["paused", "all paused", "benched", "another driver", "no lease", "sole", "no row"])
def test_what_is_held_for_another_reason_or_known_here_alone_is_left_to_the_gate(rig: SharedRig, why: str) -> None:
    """It knows which reason comes first, and what to tell a person."""
    rig.shared.server = "" if why == "no lease" else "beta"
    rig.shared.are_shared = why != "sole"
    rig.rival = OtherDriver("upstream") if why == "another driver" else None
    rig.known = {AGENT: IdentityRow(AGENT, participation="benched")} if why == "benched" else None
    delivery = rig.arrives()
    if why == "no row":
        rig.ledger._db.change("UPDATE wake_event SET log_id = 0")
    if "paused" in why:
        rig.ledger.pause("*" if why == "all paused" else AGENT, None, rig.clock.now())
    assert rig.others.hold([delivery]) == [delivery]
    assert rig.known_to(delivery).state is DeliveryState.PENDING
