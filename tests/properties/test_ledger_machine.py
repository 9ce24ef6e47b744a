"""Two processes' worth of actors on one ledger, in any order, with old and new knowledge: the promises hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from wake_bridge.domain.delivery import (
    LEGAL_MOVES,
    Delivery,
    DeliveryState,
    Hold,
    HoldReason,
    Outcome,
    Progress,
    Proof,
    Step,
    progress_of,
)
from wake_bridge.domain.errors import IllegalTransition, OperationFailed, RefusedForSafety, StaleLease
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId, WakePolicy
from wake_bridge.ports.ledger_records import Lock, PageRecord, Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import START, counted_ids, lay_ledger, sample_event

IDENTITIES = st.sampled_from(["@a", "@b"])
ACTORS = st.sampled_from([0, 1])
WHICH = st.integers(0, 4)
NEWEST = 0
"""Which of the deliveries an actor remembers it acts on, the newest memory first."""
LEASE = 60_000
Move = Callable[[LedgerStore, Delivery], Delivery]
TABLES = ("delivery", "delivery_event", "wake_event", "journal", "announced", "meta")


class TwoActors(RuleBasedStateMachine):
    """A daemon and a command, each with a connection of its own and with what it last saw."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        path = lay_ledger(Path(self._directory.name))
        self._stores = [LedgerStore.open(path), LedgerStore.open(path)]
        self._stores[0].begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", START)
        self._seen: list[list[Delivery]] = [[], []]
        self._now = int(START)
        self._rows = count(1)
        self._new_id = counted_ids()
        self._events: dict[str, EventStatus] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._leases: dict[str, tuple[DeliveryState, int]] = {}
        self._journal: list[tuple[Any, ...]] = []
        self._reopened: set[str] = set()
        self._told_again: set[str] = set()
        self._composed: dict[str, list[str]] = {}

    def teardown(self) -> None:
        for store in self._stores:
            store.close()
        self._directory.cleanup()

    # -- what happens in the world ---------------------------------------------------------------------------------

    @initialize()
    def two_messages_lie_there(self) -> None:
        self.a_message_arrives(0, "@a", 0, WakePolicy.IMMEDIATE, True)
        self.a_message_arrives(1, "@b", 30, WakePolicy.IMMEDIATE, True)

    @rule(
        actor=ACTORS,
        identity=IDENTITIES,
        window=st.sampled_from([0, 30]),
        policy=st.sampled_from([WakePolicy.IMMEDIATE, WakePolicy.IMMEDIATE, WakePolicy.NEXT_TURN]),
        is_gathered=st.sampled_from([True, True, False]),
    )
    def a_message_arrives(self, actor: int, identity: str, window: int, policy: WakePolicy, is_gathered: bool) -> None:
        row = next(self._rows)
        message = sample_event(row, identity, window=window, policy=policy, matched_at=self._now)
        repeated = sample_event(row, identity, matched_at=self._now)
        for store in self._stores:
            store.advance(PageRecord(Position(Epoch(1), LogId(row)), [message, repeated]), self.now)
        self._events[message.id] = EventStatus.OPEN
        if is_gathered:
            self._gather(actor)

    @rule(actor=ACTORS, identity=IDENTITIES, seconds=st.sampled_from([0, 1, 20, 61]))
    def time_passes_and_somebody_reads(self, actor: int, identity: str, seconds: int) -> None:
        self._now += seconds * 1000
        store = self._stores[actor]
        waiting = [one for one in store.unsettled() if one.identity == identity]
        shown = [event.subject_key for one in waiting for event in store.events_of(one.id)][:1]
        store.announce(Identity(identity), shown, "inbox", self.now)

    @rule(actor=ACTORS)
    def an_actor_starts_anew(self, actor: int) -> None:
        self._stores[actor].close()
        self._stores[actor] = LedgerStore.open(Path(self._directory.name))

    # -- what actors do --------------------------------------------------------------------------------------------

    @rule(actor=ACTORS, which=WHICH, ways_on=st.lists(st.integers(0, 5), min_size=1, max_size=6))
    def an_actor_goes_on(self, actor: int, which: int, ways_on: list[int]) -> None:
        """The way a daemon goes, several steps at once, so that the machine gets far enough to be interesting."""
        for way_on in ways_on:
            alive = self._stores[actor].unsettled()
            if not alive:
                self._gather(actor)
                return
            one = alive[which % len(alive)]
            self._seen[1 - actor].append(one)
            self._seen[actor].append(one)
            if one.state is DeliveryState.PENDING:
                self._act(actor, NEWEST, self._dispatch)
            elif one.state is DeliveryState.DISPATCHED:
                self._act(actor, NEWEST, self._lock)
            else:
                told, unsure, failed = map(self._settle, (Outcome.SUBMITTED, Outcome.UNKNOWN, Outcome.FAILED))
                stage = self._append(Step.INTENT_STAGE)
                self._act(actor, NEWEST, (self._release, self._renew, stage, told, unsure, failed)[way_on])

    @rule(actor=ACTORS, which=WHICH, move=st.integers(0, 14))
    def an_actor_does_anything(self, actor: int, which: int, move: int) -> None:
        """With whatever it remembers; rather with an old state that it must take for the new one."""
        truths = {(one.id, one.state): one.owner_lease for one in self._stores[actor].unsettled()}
        old = [one for one in self._seen[actor] if truths.get((one.id, one.state), one.owner_lease) != one.owner_lease]
        if old:
            event("an old state taken for the new one")
            self._seen[actor].append(old[which % len(old)])
            natural = {
                DeliveryState.DISPATCHED: (self._hold, self._lock, self._settle(Outcome.READ)),
                DeliveryState.LOCKED: (self._renew, self._release, self._settle(Outcome.SUBMITTED)),
            }
            self._act(actor, NEWEST, natural[self._seen[actor][-1].state][move % 3])
        plain = [self._dispatch, self._hold, self._lock, self._renew, self._release, self._release]
        steps = [self._append(step) for step in (Step.INTENT_STAGE, Step.STAGED, Step.REFUSED)]
        self._act(actor, which, [*plain, *steps, *(self._settle(outcome) for outcome in Outcome)][move])

    @rule(actor=ACTORS, which=WHICH)
    def an_actor_composes_a_digest_for_later(self, actor: int, which: int) -> None:
        """A command may show its events, and others may join, before it is locked."""
        waiting = [one for one in self._stores[actor].unsettled() if not one.state.is_frozen]
        if waiting:
            one = waiting[which % len(waiting)]
            self._composed[one.id] = self._compose(self._stores[actor], one)

    @rule(actor=ACTORS, which=WHICH, looked=st.booleans(), proof=st.sampled_from(Proof))
    def something_is_done_to_what_has_ended(self, actor: int, which: int, looked: bool, proof: Proof) -> None:
        if not self._ended:
            return
        delivery_id = sorted(self._ended)[which % len(self._ended)]
        store = self._stores[actor]
        store.raise_proof(delivery_id, proof, {}, self.now)
        before = self._everything()
        members = [event.id for event in store.events_of(delivery_id)]
        try:
            self._seen[actor].append(store.retry(delivery_id, self._new_id, self.now, looked=looked))
        except (IllegalTransition, RefusedForSafety, OperationFailed):
            assert self._everything() == before
        else:
            event("retried")
            self._reopened.update(members)

    @rule(actor=ACTORS, which=WHICH)
    def what_nobody_knows_of_is_opened_again(self, actor: int, which: int) -> None:
        """Decision 11: of an unknown one alone, and each event at most once."""
        store = self._stores[actor]
        if not self._ended:
            return
        delivery_id = sorted(self._ended)[which % len(self._ended)]
        before = self._everything()
        again = store.open_again(delivery_id, self._new_id, self.now)
        if again is None:
            assert self._everything() == before
            return
        event("opened again")
        unknown = store.delivery(delivery_id)
        assert unknown is not None
        assert unknown.outcome is Outcome.UNKNOWN
        assert not unknown.is_seen_late
        opened = {each.id for each in store.events_of(delivery_id) if each.again_of == delivery_id}
        assert opened
        assert not opened & self._told_again
        self._told_again |= opened
        self._reopened.update(opened)
        self._seen[actor].append(again)

    def _gather(self, actor: int) -> None:
        gathered = self._stores[actor].gather(self.now, self._new_id)
        assert all(not one.state.is_frozen for one in gathered)
        assert self._stores[1 - actor].gather(self.now, self._new_id) == []
        self._seen[actor] += gathered

    def _dispatch(self, store: LedgerStore, one: Delivery) -> Delivery:
        return store.dispatch(one, self.now)

    def _hold(self, store: LedgerStore, one: Delivery) -> Delivery:
        return store.hold(one, Hold(HoldReason.ACTIVE, "spinner", "agents:1.0", Instant(self._now + 5_000)), self.now)

    def _lock(self, store: LedgerStore, one: Delivery) -> Delivery:
        digest = self._composed.pop(one.id, None) or self._compose(store, one)
        frozen = store.lock(
            one,
            Lock(
                digest="[WAKE]",
                events=digest,
                adapter="tmux",
                where="agents:1.0",
                pane_key="pane",
                until=Instant(self._now + LEASE),
            ),
            self.now,
        )
        assert {event.id for event in store.events_of(one.id)} == set(digest)
        assert {event.status for event in store.events_of(one.id)} == {EventStatus.OPEN}
        return frozen

    def _compose(self, store: LedgerStore, one: Delivery) -> list[str]:
        members = [event.id for event in store.events_of(one.id) if event.status is EventStatus.OPEN]
        return [*members, *(event.id for event in store.next_turn_events(one.identity))]

    def _renew(self, store: LedgerStore, one: Delivery) -> Delivery:
        staged = Hold(HoldReason.STAGED, "userTyping", "agents:1.0", Instant(self._now + 5_000))
        return store.renew(one, Instant(self._now + LEASE), staged, self.now)

    def _append(self, step: Step) -> Move:
        def append(store: LedgerStore, one: Delivery) -> Delivery:
            store.append(one, step, {}, self.now)
            return one

        return append

    def _release(self, store: LedgerStore, one: Delivery) -> Delivery:
        progress = progress_of(line.step for line in store.journal_of(one.id))
        thawed = store.release(one, Hold(HoldReason.UNKNOWN, next_look_at=self.now), self.now, is_attempt=True)
        assert progress is Progress.UNTOUCHED
        return thawed

    def _settle(self, outcome: Outcome) -> Move:
        return lambda store, one: store.settle(one, outcome, Proof.ACCEPTED, {}, self.now)

    @property
    def now(self) -> Instant:
        return Instant(self._now)

    def _act(self, actor: int, which: int, move: Move) -> None:
        """Make a move with whatever the actor remembers: it happens on true knowledge only, or nothing changes."""
        if not self._seen[actor]:
            return
        known = self._seen[actor][-1 - which % len(self._seen[actor])]
        truth = self._stores[1 - actor].delivery(known.id)
        assert truth is not None
        is_true = (known.state, known.owner_lease) == (truth.state, truth.owner_lease)
        before = self._everything()
        try:
            after = move(self._stores[actor], known)
        except StaleLease:
            # a digest over events that were shown meanwhile is old knowledge as well
            assert not is_true or move == self._lock
            event("untrue digest" if is_true else "stale")
            assert self._everything() == before
        except IllegalTransition:
            assert self._everything() == before
        else:
            assert is_true
            event(f"{known.state} → {after.state}")
            if len(self._stores[actor].unsettled()) > len({one.identity for one in self._stores[actor].unsettled()}):
                event("a second delivery beside a locked one")
            self._seen[actor].append(after)

    def _everything(self) -> list[list[tuple[Any, ...]]]:
        return [[tuple(row) for row in self._stores[0]._db.rows(f"SELECT * FROM {table}")] for table in TABLES]

    # -- what always holds -----------------------------------------------------------------------------------------

    @invariant()
    def no_event_is_lost(self) -> None:
        """An open event is loose, or carried by a delivery that is alive or can be retried."""
        rows = self._stores[0]._db.rows(
            "SELECT wake_event.id, status, policy, state, outcome FROM wake_event"
            " LEFT JOIN delivery ON delivery.id = delivery_id"
        )
        assert {row["id"] for row in rows} == self._events.keys()
        for row in rows:
            assert row["status"] in {EventStatus.OPEN, EventStatus.ANNOUNCED}
            if row["status"] == EventStatus.OPEN:
                assert row["state"] != DeliveryState.DELIVERED
                assert row["outcome"] in {None, Outcome.FAILED}
                assert self._events[row["id"]] is EventStatus.OPEN or row["id"] in self._reopened
            self._events[row["id"]] = EventStatus(row["status"])
        self._reopened.clear()

    @invariant()
    def an_event_belongs_to_the_delivery_that_carries_it(self) -> None:
        strays = self._stores[0]._db.rows(
            "SELECT id FROM wake_event WHERE delivery_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM delivery_event"
            " WHERE event_id = wake_event.id AND delivery_event.delivery_id = wake_event.delivery_id)"
        )
        assert strays == []

    @invariant()
    def no_event_stands_in_two_digests_at_once(self) -> None:
        doubled = self._stores[0]._db.rows(
            "SELECT event_id FROM delivery_event JOIN delivery ON delivery.id = delivery_event.delivery_id"
            " WHERE settled_at IS NULL GROUP BY event_id HAVING COUNT(*) > 1"
        )
        assert doubled == []

    @invariant()
    def one_unfrozen_delivery_per_identity(self) -> None:
        unfrozen = [one.identity for one in self._stores[1].unsettled() if not one.state.is_frozen]
        assert len(unfrozen) == len(set(unfrozen))

    @invariant()
    def what_has_ended_stays_as_it_ended_but_for_its_proof(self) -> None:
        of_proof = {"proof": 0, "is_seen_late": 0}
        for row in self._stores[0]._db.rows("SELECT * FROM delivery WHERE settled_at IS NOT NULL"):
            now = dict(row)
            then = self._ended.setdefault(now["id"], now)
            assert now["proof"] >= then["proof"]
            assert {**now, **of_proof} == {**then, **of_proof}
            self._ended[now["id"]] = now

    @invariant()
    def a_lease_never_falls_and_rises_with_every_change_of_owner(self) -> None:
        for one in self._stores[0].deliveries(state=None, identity=None, limit=1000):
            state, lease = self._leases.get(one.id, (one.state, one.owner_lease))
            assert one.owner_lease >= lease
            if (state, one.state) in LEGAL_MOVES and DeliveryState.LOCKED not in {state, one.state}:
                assert state is DeliveryState.PENDING or one.owner_lease > lease
            self._leases[one.id] = (one.state, one.owner_lease)

    @invariant()
    def the_journal_only_grows(self) -> None:
        lines = [tuple(row) for row in self._stores[1]._db.rows("SELECT * FROM journal ORDER BY seq")]
        assert lines[: len(self._journal)] == self._journal
        self._journal = lines

    @invariant()
    def the_next_deadline_is_when_something_is_due(self) -> None:
        store = self._stores[0]
        alive = store.unsettled()
        deadline = store.next_deadline()
        assert {one.id for one in store.due(Instant(2**60))} == {one.id for one in alive}
        if deadline is not None:
            assert store.due(deadline) != []
            assert store.due(Instant(deadline - 1)) == []
            assert deadline <= min(latest_look(one, self._now) for one in alive)


def latest_look(delivery: Delivery, now: int) -> int:
    """When somebody must look at a delivery at the latest, as far as it shows."""
    if delivery.state is DeliveryState.PENDING:
        return delivery.due_at
    looks = [delivery.hold.next_look_at] if delivery.hold is not None else []
    if delivery.lease_until is not None:
        looks.append(delivery.lease_until)
    return min(looks, default=Instant(now))


TwoActors.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


TestTwoActors = TwoActors.TestCase
"""A stale actor changes nothing, no event is lost, terminal rows stand, whoever acts in which order."""
