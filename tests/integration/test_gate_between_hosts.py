"""One delivery through the gate where several hosts share the graph: what this one does about what another has told or serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.integration.test_gate import AGENT, Rig
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Step
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.names import Identity
from wake_bridge.engine.deliver.leases import SoleDriver
from wake_bridge.ports.adapter import AttemptOutcome, Journal, Place, Refused, Wake


class PlayedLeases(SoleDriver):
    """What the database would say."""

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
    after = rig.takes(staged)
    assert (after.state, after.outcome, rig.agent.received) == (DeliveryState.DELIVERED, Outcome.READ, [])

    rig.shared.teller = ""
    assert rig.takes(rig.arrives()).outcome is Outcome.SUBMITTED


def test_text_that_no_host_has_told_meanwhile_is_sent_once_the_lease_is_back(rig: SharedRig) -> None:
    """That another host serves for a while is no reason to lose what stands here."""
    staged = rig.stages()
    rig.shared.server = "beta"
    assert rig.takes(staged).state is DeliveryState.LOCKED
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
