"""The coalescer against a model: what is gathered where, and when it is due, whoever gathers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason, Outcome, Proof
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId, WakePolicy
from wake_bridge.ports.ledger_records import PageRecord, Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import START, counted_ids, lay_ledger, lock_with_its_events, sample_event

IDENTITIES = st.sampled_from(["@a", "@b"])
ACTORS = st.sampled_from([0, 1])


@dataclass
class Expected:
    """What the model knows of one delivery that is not settled."""

    due_at: int
    members: set[str] = field(default_factory=set)
    state: DeliveryState = DeliveryState.PENDING


class Gathering(RuleBasedStateMachine):
    """Two connections that gather, and a model that says what must come of it."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        path = lay_ledger(Path(self._directory.name))
        self._stores = [LedgerStore.open(path), LedgerStore.open(path)]
        self._stores[0].begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", START)
        self._now = int(START)
        self._rows = count(1)
        self._new_id = counted_ids()
        self._loose: dict[str, dict[str, int]] = {"@a": {}, "@b": {}}
        self._unfrozen: dict[str, str] = {}
        self._alive: dict[str, Expected] = {}

    def teardown(self) -> None:
        for store in self._stores:
            store.close()
        self._directory.cleanup()

    @property
    def now(self) -> Instant:
        return Instant(self._now)

    # -- what happens ------------------------------------------------------------------------------------------------

    @rule(
        actor=ACTORS,
        identity=IDENTITIES,
        windows=st.lists(st.sampled_from([0, 5, 30, 300]), min_size=1, max_size=3),
        policy=st.sampled_from([WakePolicy.IMMEDIATE, WakePolicy.IMMEDIATE, WakePolicy.NEXT_TURN]),
    )
    def messages_match(self, actor: int, identity: str, windows: list[int], policy: WakePolicy) -> None:
        for window in windows:
            row = next(self._rows)
            message = sample_event(row, identity, window=window, policy=policy, matched_at=self._now)
            self._stores[actor].advance(PageRecord(Position(Epoch(1), LogId(row)), [message]), self.now)
            if policy is WakePolicy.IMMEDIATE:
                self._loose[identity][message.id] = self._now + window * 1000

    @rule(seconds=st.sampled_from([0, 1, 4, 31]))
    def time_passes(self, seconds: int) -> None:
        self._now += seconds * 1000

    @rule(actor=ACTORS)
    def somebody_gathers(self, actor: int) -> None:
        touched = {one.identity: one for one in self._stores[actor].gather(self.now, self._new_id)}
        assert self._stores[1 - actor].gather(self.now, self._new_id) == []
        waiting = {identity for identity, loose in self._loose.items() if loose}
        assert touched.keys() == waiting
        for identity in waiting:
            self._joins(identity, touched[Identity(identity)])

    def _joins(self, identity: str, after: Delivery) -> None:
        loose = self._loose[identity]
        earliest = min(loose.values())
        known = self._unfrozen.get(identity)
        if known is None:
            self._unfrozen[identity] = after.id
            assert after.id not in self._alive
            self._alive[after.id] = Expected(earliest)
        else:
            event("joined")
            assert after.id == known
        expected = self._alive[after.id]
        expected.due_at = min(expected.due_at, earliest)
        expected.members |= loose.keys()
        loose.clear()

    @rule(actor=ACTORS, identity=IDENTITIES)
    def its_window_closes(self, actor: int, identity: str) -> None:
        known = self._unfrozen.get(identity)
        if known is None or self._alive[known].state is not DeliveryState.PENDING:
            return
        due = {one.id for one in self._stores[actor].due(self.now)}
        assert (known in due) == (self._alive[known].due_at <= self._now)
        if known in due:
            self._stores[actor].dispatch(self._read(known), self.now)
            self._alive[known].state = DeliveryState.DISPATCHED

    @rule(actor=ACTORS, identity=IDENTITIES)
    def it_is_frozen(self, actor: int, identity: str) -> None:
        known = self._unfrozen.get(identity)
        if known is None or self._alive[known].state is not DeliveryState.DISPATCHED or not self._alive[known].members:
            return
        lock_with_its_events(self._stores[actor], self._read(known), self._now)
        self._alive[known].state = DeliveryState.LOCKED
        del self._unfrozen[identity]

    @rule(actor=ACTORS, which=st.integers(0, 3))
    def it_thaws(self, actor: int, which: int) -> None:
        """A younger one that was opened meanwhile is merged into it."""
        delivery = self._frozen(which)
        if delivery is None:
            return
        busy = Hold(HoldReason.ACTIVE, "spinner", "agents:1.0", self.now)
        self._stores[actor].release(delivery, busy, self.now, is_attempt=False)
        expected = self._alive[delivery.id]
        expected.state = DeliveryState.DISPATCHED
        younger = self._unfrozen.get(delivery.identity)
        if younger is not None:
            event("merged")
            other = self._alive.pop(younger)
            expected.members |= other.members
            expected.due_at = min(expected.due_at, other.due_at)
        self._unfrozen[delivery.identity] = delivery.id

    @rule(actor=ACTORS, which=st.integers(0, 3), outcome=st.sampled_from([Outcome.SUBMITTED, Outcome.UNKNOWN]))
    def it_ends(self, actor: int, which: int, outcome: Outcome) -> None:
        delivery = self._frozen(which)
        if delivery is not None:
            self._stores[actor].settle(delivery, outcome, Proof.ACCEPTED, {}, self.now)
            del self._alive[delivery.id]

    @rule(actor=ACTORS, identity=IDENTITIES)
    def somebody_wants_a_look_at_once(self, actor: int, identity: str) -> None:
        """It never brings a window to an end."""
        self._stores[actor].look_at_once(Identity(identity), self.now)

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def everything_is_where_the_model_has_it(self) -> None:
        store = self._stores[1]
        alive = {one.id: one for one in store.unsettled() if one.id in self._alive or not one.state.is_terminal}
        assert alive.keys() == self._alive.keys()
        for delivery_id, expected in self._alive.items():
            one = alive[delivery_id]
            assert one.state is expected.state
            assert one.due_at == expected.due_at
            assert {each.id for each in store.events_of(delivery_id)} == expected.members

    @invariant()
    def the_next_deadline_is_the_models(self) -> None:
        pending = [one.due_at for one in self._alive.values() if one.state is DeliveryState.PENDING]
        deadline = self._stores[0].next_deadline()
        if pending:
            assert deadline is not None
            assert deadline <= min(pending)
        if len(pending) == len(self._alive):
            assert deadline == min(pending, default=None)

    def _frozen(self, which: int) -> Delivery | None:
        frozen = [one for one, expected in self._alive.items() if expected.state is DeliveryState.LOCKED]
        return self._read(sorted(frozen)[which % len(frozen)]) if frozen else None

    def _read(self, delivery_id: str) -> Delivery:
        found = self._stores[0].delivery(delivery_id)
        assert found is not None
        return found
