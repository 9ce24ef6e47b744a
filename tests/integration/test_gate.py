"""One delivery through the gate: a real graph and a real ledger, an imagined agent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from wake_bridge.domain.delivery import Delivery, DeliveryState, HoldReason, Outcome, Progress, Proof, Step
from wake_bridge.domain.errors import DiskFull
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId, Trigger, WakePolicy
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.receivers import RECEIVER_TARGETS, Receiver, ReceiverAnswer
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.deliver.gate import LOOKS_APART, Gate
from wake_bridge.engine.deliver.leases import SoleDriver
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_recovery import RouteRecovery
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current, EngineSettings, TargetSettings
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Delivered,
    Failed,
    HarnessAdapter,
    Journal,
    NotTaken,
    Nowhere,
    Place,
    Refused,
    TargetLimits,
    Wake,
)
from wake_bridge.ports.change_log import IdentityRow
from wake_bridge.ports.ledger_records import PageRecord, Position
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import lay_ledger, sample_event
from wake_bridge.testing.memory_adapter import ImaginedAgent, MemoryAdapter, MemoryConfig
from wake_bridge.testing.memory_core import MemoryCore

AGENT = Identity("@agent")
Deliver = Callable[[Place, Wake, Journal], Coroutine[Any, Any, AttemptOutcome]]


class ScriptedAdapter(MemoryAdapter):
    """The imagined adapter, whose attempts a test may play itself."""

    script: Deliver | None = None

    async def deliver(self, place: Place, address: Any, wake: Wake, journal: Journal) -> AttemptOutcome:
        if self.script is not None:
            return await self.script(place, wake, journal)
        return await super().deliver(place, address, wake, journal)


class Door(ScriptedAdapter):
    """Sends to the receiver that a subscription names, whatever presence says, and again as it was until it is taken."""

    name = "door"
    capabilities = Capabilities(
        composer_independent=True, idempotent=True, watchable=False, presence_independent=True, per_subscription=True
    )

    async def resolve(self, address: Address) -> Place | Nowhere:
        if address.receiver is None:
            return Nowhere(HoldReason.UNREACHABLE, "no subscription names a receiver")
        return Place(address.receiver.place_key, address.receiver.shown)

    async def observe(self, place: Place, address: Address) -> Observation:
        del address
        return Observation(Instant(0), (Evidence("receiver-decides", PresenceState.UNKNOWN),), where=place.label)


class Rig:
    """A gate on real files, with one agent named `one` whom `@agent` and `@twin` share."""

    def __init__(self, directory: Path, leases: SoleDriver | None = None) -> None:
        self.clock = SteadyClock()
        self.leases = leases
        self.core = MemoryCore.create(directory / "graph.sqlite", ["@me", AGENT, "@twin"])
        self.ledger = LedgerStore.open(lay_ledger(directory / "state"))
        self.ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", self.clock.now())
        context = AdapterContext(10, 10, "", os.environ, self.clock)
        self.adapter = ScriptedAdapter(MemoryConfig(), context)
        self.agent = self.adapter.agents["one"] = ImaginedAgent()
        target = TargetSettings(adapter="memory", pane="one")
        self.current = Current(
            EngineSettings(
                targets={AGENT: target, Identity("@twin"): target}, limits=Limits(refractory=0), max_attempts=2
            )
        )
        self.subscriptions: list[Subscription] = []
        self.door = Door(MemoryConfig(), context)
        adapters: dict[str, HarnessAdapter] = {"memory": self.adapter, "door": self.door}
        self.routes = Routes(adapters, self.current, lambda _: self.subscriptions, lambda _: None)
        self.watch = Watch(
            self.routes, self.current, self.clock, watched=frozenset, waiting=set, changed=lambda _: None
        )
        self.recovery = RouteRecovery(
            self.ledger, self.routes, self.watch, self.current, self.clock, restored=lambda _: None
        )
        self.known: dict[Identity, IdentityRow] | None = None
        self.queries = GraphQueries(lambda: SqliteGraph(directory / "graph.sqlite"), known=lambda: self.known)
        self.gate = self.new_gate()
        self._rows = 0

    def new_gate(self, *, dry_run: bool = False) -> Gate:
        return Gate(
            self.ledger,
            self.queries,
            self.routes,
            self.watch,
            self.recovery,
            self.current,
            self.clock,
            other_driver=lambda: None,
            dry_run=dry_run,
            leases=self.leases,
        )

    def arrives(self, identity: str = AGENT, *, as_of: str = "", **fields: Any) -> Delivery:
        """A message is sent and matched, for `as_of` where that is somebody else; the delivery that carries it."""
        message = self.core.send("@me", identity, "a subject")
        self._rows += 1
        event = sample_event(
            self._rows, as_of or identity, subject_key=message, window=0, matched_at=self.clock.now(), **fields
        )
        self.ledger.advance(PageRecord(Position(Epoch(1), LogId(self._rows)), (event,)), self.clock.now())
        touched = self.ledger.gather(self.clock.now(), new_ulid)
        return touched[0] if touched else self.ledger.unsettled()[0]

    def takes(self, delivery: Delivery, gate: Gate | None = None) -> Delivery:
        return asyncio.run((gate or self.gate).take(self.ledger.delivery(delivery.id) or delivery, patient=True))

    def steps(self, delivery: Delivery) -> list[Step]:
        return [entry.step for entry in self.ledger.journal_of(delivery.id)]

    def close(self) -> None:
        self.queries.close()
        self.ledger.close()
        self.core.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


async def _stages_and_stops(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
    del place, wake
    await journal(Step.INTENT_STAGE, {})
    await journal(Step.STAGED, {})
    return Refused(HoldReason.USER_TYPING, "a key came in", "one")


def test_an_idle_agent_is_woken_once_with_what_rides_along(rig: Rig) -> None:
    """A `next_turn` event opens no delivery, but is in the next immediate digest."""
    rig.arrives()
    delivery = rig.arrives(policy=WakePolicy.NEXT_TURN)

    after = rig.takes(delivery)

    assert (after.state, after.outcome) == (DeliveryState.DELIVERED, Outcome.SUBMITTED)
    assert "2 new messages" in after.digest
    assert rig.agent.received == [after.digest]


def test_where_an_at_reads_files_no_name_in_the_digest_has_one(rig: Rig) -> None:
    """The name of an agent may be that of a file in its directory, and would be read into the turn."""
    rig.agent.paper = TargetLimits(at_reads_files=True)

    done = rig.takes(rig.arrives())

    assert "@" not in done.digest
    assert "for ＠agent" in done.digest
    assert "inbox ＠agent --bodies" in done.digest


def test_mail_that_was_read_settles_without_a_byte(rig: Rig) -> None:
    """A set that was read meanwhile settles as DELIVERED/`read` with zero bytes."""
    delivery = rig.arrives()
    (event,) = rig.ledger.events_of(delivery.id)
    rig.core.mark_read(event.subject_key)

    after = rig.takes(delivery)

    assert after.outcome is Outcome.READ
    assert rig.agent.keys == 0


def test_text_that_is_staged_is_not_submitted_while_its_identity_is_paused(rig: Rig) -> None:
    """`pause`: the off switch holds for what already stands in the composer, too."""
    rig.adapter.script = _stages_and_stops
    staged = rig.takes(rig.arrives())
    assert staged.hold is not None
    assert staged.hold.reason is HoldReason.STAGED
    rig.adapter.script = None
    rig.agent.composer = staged.digest
    rig.ledger.pause(AGENT, None, rig.clock.now())

    paused = rig.takes(staged)

    assert paused.state is DeliveryState.LOCKED
    assert paused.hold is not None
    assert "paused" in paused.hold.detail
    assert rig.agent.received == []

    rig.ledger.resume(AGENT, rig.clock.now())
    assert rig.takes(paused).outcome is Outcome.SUBMITTED
    assert rig.agent.received == [staged.digest]


def test_what_was_seen_submitted_before_a_stop_needs_no_place_any_more(rig: Rig) -> None:
    """Proof stands; the pane may be gone by the time the daemon is back."""

    async def submits_and_dies(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        del place, wake
        for step in (Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT, Step.SUBMITTED):
            await journal(step, {})
        raise asyncio.CancelledError

    rig.adapter.script = submits_and_dies
    delivery = rig.arrives()
    with pytest.raises(asyncio.CancelledError):
        rig.takes(delivery)
    del rig.adapter.agents["one"]

    with structlog.testing.capture_logs() as logs:
        assert rig.takes(delivery).outcome is Outcome.SUBMITTED
    assert ("delivery_settled", delivery.id) in [(one["event"], one.get("delivery")) for one in logs]


def test_staged_text_waits_for_a_place_that_is_gone_for_the_moment(rig: Rig) -> None:
    """Once text was staged, the only next steps are to submit that text or to settle."""
    rig.adapter.script = _stages_and_stops
    staged = rig.takes(rig.arrives())
    agent = rig.adapter.agents.pop("one")
    agent.composer = staged.digest

    waiting = rig.takes(staged)

    assert waiting.state is DeliveryState.LOCKED
    assert waiting.hold is not None
    assert "unreachable" in waiting.hold.detail
    rig.adapter.script = None
    rig.adapter.agents["one"] = agent
    assert rig.takes(waiting).outcome is Outcome.SUBMITTED


@pytest.mark.parametrize("becomes", ["left standing", "sent", "cleared"])
def test_text_that_stands_in_a_pane_the_identity_has_left_is_told_of_there_and_gets_no_key(
    rig: Rig, becomes: str
) -> None:
    """After `bind` to another pane a person is told of the text where it stands, until it is sent or cleared."""
    rig.adapter.script = _stages_and_stops
    staged = rig.takes(rig.arrives())
    rig.agent.composer = staged.digest
    rig.adapter.agents["two"] = ImaginedAgent()
    targets = {AGENT: TargetSettings(adapter="memory", pane="two")}
    rig.current.settings = replace(rig.current.settings, targets=targets)
    rig.adapter.script = None

    after = rig.takes(rig.takes(staged))
    assert (after.state, rig.agent.keys) == (DeliveryState.LOCKED, 0)
    assert after.hold is not None
    assert (after.hold.reason, after.hold.where) == (HoldReason.STAGED, "one")
    assert after.hold.remedy(AGENT) == "our wake text is in the composer of one, not sent: send it or clear it there"
    rig.agent.composer = "" if becomes != "left standing" else rig.agent.composer
    rig.agent.received = [staged.digest] if becomes == "sent" else []
    end = {"left standing": None, "sent": Outcome.SUBMITTED, "cleared": Outcome.UNKNOWN}[becomes]

    assert rig.takes(after).outcome is end
    assert rig.adapter.agents["two"] == ImaginedAgent()


def test_an_adapter_that_keeps_failing_ends_in_failed(rig: Rig) -> None:
    """`max_attempts` counts failures of the adapters, never holds."""

    async def fails(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        del place, wake, journal
        return Failed(retryable=True, reason="tmux is not there")

    rig.adapter.script = fails
    delivery = rig.arrives()

    once = rig.takes(delivery)
    assert (once.state, once.attempts) == (DeliveryState.DISPATCHED, 1)
    twice = rig.takes(once)

    assert (twice.state, twice.outcome) == (DeliveryState.FAILED, Outcome.FAILED)


def test_an_adapter_that_raises_after_the_intent_to_submit_is_not_trusted_again_with_the_text(rig: Rig) -> None:
    """A crash after `intent_submit` is uncertain; what it typed, only a look can tell."""

    async def breaks(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        del place, wake
        await journal(Step.INTENT_STAGE, {})
        await journal(Step.STAGED, {})
        await journal(Step.INTENT_SUBMIT, {})
        raise RuntimeError("a bug")

    rig.adapter.script = breaks
    broken = rig.takes(rig.arrives())
    assert broken.state is DeliveryState.LOCKED
    rig.adapter.script = None

    after = rig.takes(broken)

    assert (after.state, after.outcome) == (DeliveryState.FAILED, Outcome.UNKNOWN)
    assert rig.agent.received == []


def test_an_attempt_that_hangs_ends_before_its_lease_and_keeps_what_it_staged(rig: Rig) -> None:
    """Nobody else may take the delivery while an attempt runs, and no attempt runs for ever."""

    async def hangs(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        del place, wake
        await journal(Step.INTENT_STAGE, {})
        return await asyncio.Future()

    async def taken() -> Delivery | None:
        attempt = asyncio.ensure_future(rig.gate.take(delivery, patient=True))
        done, _ = await asyncio.wait([attempt], timeout=HUNG)
        attempt.cancel()
        return attempt.result() if done else None

    rig.adapter.script = hangs
    rig.current.settings = replace(rig.current.settings, lease_ms=500)
    delivery = rig.arrives()

    after = asyncio.run(taken())

    assert after is not None, "the attempt took longer than its lease by far"
    assert after.state is DeliveryState.LOCKED
    assert after.hold is not None
    assert after.hold.reason is HoldReason.STAGED


def test_a_failure_after_the_paste_keeps_the_digest_locked(rig: Rig) -> None:
    """Once text may stand there it is that text or none; a failure is no way back to another digest."""

    async def breaks(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        del place, wake
        await journal(Step.INTENT_STAGE, {})
        return Failed(retryable=False, reason="the terminal went away")

    rig.adapter.script = breaks
    after = rig.takes(rig.arrives())

    assert (after.state, after.outcome) == (DeliveryState.LOCKED, None)
    assert after.hold is not None
    assert after.hold.reason is HoldReason.STAGED


def test_a_disk_that_fills_at_the_paste_is_not_the_adapters_fault(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that cannot be written down ends the attempt as what it is; with room again it is made anew."""
    delivery = rig.arrives()

    def is_full(*_: object) -> None:
        raise DiskFull("the disk is full (0 KiB free)", "/srv/state")

    with structlog.testing.capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr(rig.ledger, "append", is_full)
        with pytest.raises(DiskFull):
            rig.takes(delivery)
    assert [one for one in logs if one["event"] == "adapter_broke_promise"] == []
    assert rig.agent.received == []

    locked = rig.ledger.delivery(delivery.id)
    assert locked is not None
    again = rig.takes(rig.takes(locked))
    assert (again.state, len(rig.agent.received)) == (DeliveryState.DELIVERED, 1)


def test_text_that_goes_on_standing_there_is_told_once_and_looked_at_again(rig: Rig) -> None:
    """Decision 10: it stays staged for as long as it takes, and each look is no news."""

    async def presses_in_vain(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        if wake.progress is Progress.UNTOUCHED:
            for step in (Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT):
                await journal(step, {})
        return Refused(HoldReason.STAGED, "Enter was pressed, and our text still stands there", place.label)

    rig.adapter.script = presses_in_vain
    with structlog.testing.capture_logs() as logs:
        after = rig.takes(rig.arrives())
        for _ in range(3):
            after = rig.takes(after)

    assert after.state is DeliveryState.LOCKED
    assert after.hold is not None
    assert (after.hold.reason, after.hold.next_look_at > after.created_at) == (HoldReason.STAGED, True)
    assert [one["event"] for one in logs].count("delivery_staged") == 1


def test_mail_that_turns_out_to_be_for_others_settles_without_a_byte(rig: Rig) -> None:
    """A broadcast is matched before its audience is written; who is not among it is not woken."""
    delivery = rig.arrives("@twin", as_of=AGENT)

    after = rig.takes(delivery)

    assert (after.state, after.outcome) == (DeliveryState.DELIVERED, Outcome.EMPTY)
    assert rig.agent.received == []


def test_an_agent_is_judged_as_it_stands_now_and_the_others_as_they_were_read(rig: Rig) -> None:
    """Among thousands of identities a judgement reads one: whether that takes part may have changed a moment ago."""
    others = {Identity(f"@other{number}"): IdentityRow(Identity(f"@other{number}")) for number in range(3)}
    rig.known = {**others, AGENT: IdentityRow(AGENT)}
    rig.core.identity(AGENT, participationStatus="operator_benched")
    found = asyncio.run(rig.queries.identities(AGENT))
    assert found[AGENT].participation == "operator_benched"
    assert found.keys() == rig.known.keys()
    held = rig.takes(rig.arrives())
    assert held.hold is not None
    assert held.hold.reason is HoldReason.BENCHED


def test_identities_that_share_a_pane_share_its_storm_guard(rig: Rig) -> None:
    """Two identities may share a pane: limits are counted per pane."""
    rig.current.settings = EngineSettings(targets=rig.current.settings.targets, limits=Limits(refractory=0, storm=2))
    for identity in (AGENT, "@twin"):
        assert rig.takes(rig.arrives(identity)).outcome is Outcome.SUBMITTED

    third = rig.takes(rig.arrives("@twin"))

    assert third.hold is not None
    assert third.hold.reason is HoldReason.STORM
    assert len(rig.agent.received) == 2


def test_the_more_wakes_are_held_the_less_often_each_is_looked_at(rig: Rig) -> None:
    """What changes at a place is told by the watch; thousands of looks at what has not changed would take all the time."""
    count, seconds = 120, LOOKS_APART / 1000
    before = rig.current.settings.relook_min_ms / 1000
    for number in range(count):
        rig.core.identity(f"@nobody{number}")
        held = rig.takes(rig.arrives(f"@nobody{number}")).hold
        assert held is not None
        wait = (held.next_look_at - rig.clock.now()) / 1000
        assert max(before, number * seconds) - 1 < wait <= max(before, (number + 1) * seconds)


def test_wakes_that_ended_without_a_look_do_not_make_the_others_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer, a person or another host ends a held wake; each made all others wait 50 ms longer until a restart."""
    for number in range(120):
        rig.core.identity(f"@nobody{number}")
        held = rig.takes(rig.arrives(f"@nobody{number}"))
        rig.ledger.settle(held, Outcome.READ, Proof.NONE, {}, rig.clock.now())
    monkeypatch.setattr("wake_bridge.engine.deliver.gate.LOOKS_RECOUNTED_EVERY", 0)
    rig.core.identity("@nobody")

    held = rig.takes(rig.arrives("@nobody"))

    assert held.hold is not None
    assert held.hold.next_look_at - rig.clock.now() <= rig.current.settings.relook_min_ms


def test_a_dry_run_types_nothing_and_goes_on_with_nothing(rig: Rig) -> None:
    """`run --dry-run`: decides and logs, types nothing."""
    dry = rig.new_gate(dry_run=True)
    held = rig.takes(rig.arrives(), dry)
    assert held.hold is not None
    assert held.hold.reason is HoldReason.DRY_RUN

    rig.adapter.script = _stages_and_stops
    staged = rig.takes(held)
    rig.adapter.script = None
    rig.agent.composer = staged.digest

    left = rig.takes(staged, dry)

    assert left.state is DeliveryState.LOCKED
    assert rig.agent.received == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (PresenceState.ACTIVE, HoldReason.ACTIVE),
        (PresenceState.WAITING_ON_APPROVAL, HoldReason.WAITING_ON_APPROVAL),
        (PresenceState.UNKNOWN, HoldReason.UNKNOWN),
    ],
)
def test_a_moment_that_is_not_proven_safe_holds(rig: Rig, state: PresenceState, reason: HoldReason) -> None:
    """Immediate means live if provably safe, else hold and look again."""
    rig.agent.state = state

    held = rig.takes(rig.arrives())

    assert held.state is DeliveryState.DISPATCHED
    assert held.hold is not None
    assert held.hold.reason is reason
    assert held.hold.next_look_at > Instant(0)
    assert rig.agent.keys == 0


def test_whatever_declares_that_it_serves_receivers_is_sent_to_first_and_again_as_it_was(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine goes by what the adapter declares (`Capabilities.per_subscription`, `idempotent`), never by its name."""
    monkeypatch.setitem(RECEIVER_TARGETS, "a-door", "door")
    receiver = Receiver("WAKE_SUB:1", adapter="door")
    rig.subscriptions.append(Subscription("WAKE_SUB:1", AGENT, Trigger.SENT_TO_ME, receiver=receiver))
    rig.agent.state = PresenceState.ACTIVE
    sent: list[str] = []

    async def takes_the_second(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        assert place.key == receiver.place_key
        await journal(Step.INTENT_SUBMIT, {})
        sent.append(wake.text)
        if len(sent) == 1:
            return NotTaken(ReceiverAnswer.TRANSIENT, "no answer, and it may have arrived")
        return Delivered(Proof.SUBMITTED)

    rig.door.script = takes_the_second
    lost = rig.takes(rig.arrives())
    assert (lost.state, lost.adapter, len(sent)) == (DeliveryState.LOCKED, "door", 1)

    taken = rig.takes(lost)

    assert (taken.state, taken.outcome) == (DeliveryState.DELIVERED, Outcome.SUBMITTED)
    assert sent == [taken.digest, taken.digest]
    assert rig.agent.keys == 0


def test_no_pane_leaves_anything_behind_once_nothing_is_under_way_in_it(rig: Rig) -> None:
    """Panes and receivers come and go for years; who still waits for a turn has the same lock as who holds it."""
    during: list[int] = []

    async def looks_inside(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        during.append(len(rig.gate._pane_locks))
        return await MemoryAdapter.deliver(rig.adapter, place, Address(AGENT), wake, journal)

    rig.adapter.script = looks_inside

    assert rig.takes(rig.arrives()).outcome is Outcome.SUBMITTED

    assert during == [1]
    assert dict(rig.gate._pane_locks) == {}


def test_two_that_wait_for_one_pane_are_never_in_it_together(rig: Rig) -> None:
    """Whoever comes while another is at work there waits for the very lock that this one holds."""
    inside = most = 0

    async def counts(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return await MemoryAdapter.deliver(rig.adapter, place, Address(AGENT), wake, journal)

    rig.adapter.script = counts
    waiting = [rig.arrives(one) for one in (AGENT, "@twin")]

    async def together() -> list[Delivery]:
        return list(await asyncio.gather(*(rig.gate.take(one, patient=True) for one in waiting)))

    assert [one.outcome for one in asyncio.run(together())] == [Outcome.SUBMITTED] * 2
    assert most == 1


def test_what_a_receiver_gave_back_is_forgotten_with_a_wake_that_ended_without_a_look(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer or a person ends a held wake; why its receiver did not take it was kept until a restart."""
    monkeypatch.setitem(RECEIVER_TARGETS, "a-door", "door")
    receiver = Receiver("WAKE_SUB:1", adapter="door")
    rig.subscriptions.append(Subscription("WAKE_SUB:1", AGENT, Trigger.SENT_TO_ME, receiver=receiver))
    rig.agent.state = PresenceState.ACTIVE

    async def gives_back(place: Place, wake: Wake, journal: Journal) -> AttemptOutcome:
        del wake, journal
        return Refused(HoldReason.UNREACHABLE, "not now", place.label)

    rig.door.script = gives_back
    held = rig.takes(rig.arrives())
    assert list(rig.gate._given_back) == [held.id]
    rig.ledger.settle(held, Outcome.READ, Proof.NONE, {}, rig.clock.now())
    monkeypatch.setattr("wake_bridge.engine.deliver.gate.LOOKS_RECOUNTED_EVERY", 0)
    rig.core.identity("@nobody")

    assert rig.takes(rig.arrives("@nobody")).hold is not None

    assert held.id not in rig.gate._given_back
