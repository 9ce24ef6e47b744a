"""The commands on the ledger against a model: pauses, places, routes set aside, beats, notices, what is pruned."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Barrier, Thread

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.errors import LedgerError, OperationFailed, RefusedForSafety
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.nudges import Beat
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.ledger_records import PageRecord, Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import FENCE, START, counted_ids, lay_ledger, lock_with_its_events, sample_event

NAMES = ("@a", "@b")
IDENTITIES = st.sampled_from(NAMES)
ACTORS = st.sampled_from([0, 1])
Act = Callable[[LedgerStore], object]


class CommandsBesideADaemon(RuleBasedStateMachine):
    """Every word of a person is in force from then on, on either connection, and takes nothing else along."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._path = lay_ledger(Path(self._directory.name))
        self._stores = [LedgerStore.open(self._path), LedgerStore.open(self._path)]
        self._stores[0].begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", START)
        self._now = int(START)
        self._rows = count(1)
        self._new_ids = (counted_ids("A"), counted_ids("B"))
        self._pauses: dict[str, int | None] = {}
        self._lifted = dict.fromkeys((*NAMES, "*"), 0)
        self._places: dict[str, Binding] = {}
        self._aside: dict[tuple[str, str], str] = {}
        self._beats: dict[str, Beat] = {}
        self._notices: dict[str, int] = {}
        self._open: set[str] = set()

    def teardown(self) -> None:
        for store in self._stores:
            store.close()
        self._directory.cleanup()

    @property
    def now(self) -> Instant:
        return Instant(self._now)

    @rule(seconds=st.sampled_from([0, 1, 59, 61, 90_000]))
    def time_passes(self, seconds: int) -> None:
        self._now += seconds * 1000

    # -- switches ----------------------------------------------------------------------------------------------------

    @rule(actor=ACTORS, who=st.sampled_from([*NAMES, "*"]), seconds=st.sampled_from([None, 0, 60, 3600]))
    def pause(self, actor: int, who: str, seconds: int | None) -> None:
        until = None if seconds is None else self._now + seconds * 1000
        self._stores[actor].pause(who, None if until is None else Instant(until), self.now)
        self._pauses[who] = until

    @rule(actor=ACTORS, who=st.sampled_from([*NAMES, "*"]))
    def resume(self, actor: int, who: str) -> None:
        self._stores[actor].resume(who, self.now)
        self._lifted[who] = self._now
        self._pauses = {} if who == "*" else {one: until for one, until in self._pauses.items() if one != who}

    @rule(actor=ACTORS, who=IDENTITIES, pane=st.integers(1, 3))
    def bind(self, actor: int, who: str, pane: int) -> None:
        place = replace(FENCE, pane_id=f"%{pane}")
        self._stores[actor].bind(Identity(who), place, self.now)
        self._places[who] = place

    @rule(actor=ACTORS, who=IDENTITIES, adapter=st.sampled_from(["tmux", "other"]), is_back=st.booleans())
    def a_route_is_set_aside_or_taken_back(self, actor: int, who: str, adapter: str, is_back: bool) -> None:
        if is_back:
            self._stores[actor].restore(Identity(who), adapter)
            self._aside.pop((who, adapter), None)
        else:
            why = f"since {self._now}"
            self._stores[actor].degrade(Identity(who), adapter, why, self.now)
            self._aside[who, adapter] = why

    @rule(actor=ACTORS, who=IDENTITIES, cooldown=st.sampled_from([60_000, 3_600_000]))
    def the_heartbeat_nudges(self, actor: int, who: str, cooldown: int) -> None:
        beat = Beat(self.now, cooldown)
        self._stores[actor].note_beat(Identity(who), beat)
        self._beats[who] = beat

    @rule(actor=ACTORS, who=IDENTITIES)
    def everything_of_an_identity_is_taken_back(self, actor: int, who: str) -> None:
        """As `uninstall` does: where it lives, its pause; no event goes with them."""
        self._stores[actor].unbind(Identity(who))
        self._stores[actor].resume(who, self.now)
        self._places.pop(who, None)
        self._pauses.pop(who, None)
        self._lifted[who] = self._now

    # -- notices -----------------------------------------------------------------------------------------------------

    @rule(subject=st.sampled_from(["D1", "no-routes"]))
    def both_give_the_same_notice_at_once(self, subject: str) -> None:
        notice = Notice(subject, "unknown", "a title", "a body", self.now, "@a")
        given: list[bool] = []
        self._race(lambda store: given.append(store.give_notice(notice, self.now)))
        assert sorted(given) == ([False, False] if subject in self._notices else [False, True])
        self._notices.setdefault(subject, self._now)

    @rule(actor=ACTORS, subject=st.sampled_from(["D1", "no-routes"]))
    def a_notice_is_withdrawn(self, actor: int, subject: str) -> None:
        self._stores[actor].withdraw_notice(subject)
        self._notices.pop(subject, None)

    # -- deliveries, with two who want the same at the same moment ---------------------------------------------------

    @rule(who=IDENTITIES)
    def a_message_is_gathered_by_both_at_once(self, who: str) -> None:
        row = next(self._rows)
        message = sample_event(row, who, window=0, matched_at=self._now)
        self._stores[0].advance(PageRecord(Position(Epoch(1), LogId(row)), [message]), self.now)
        self._open.add(message.id)
        gathered: list[list[Delivery]] = []
        numbers = iter(self._new_ids)
        self._race(lambda store: gathered.append(store.gather(self.now, next(numbers))))
        assert sorted(map(len, gathered)) == [0, 1]

    @rule(which=st.integers(0, 3), end=st.sampled_from(["submitted", "unknown", "failed", "released", "renewed"]))
    def both_make_the_next_move_at_once(self, which: int, end: str) -> None:
        """Exactly one of them does; the other is told, and changes nothing."""
        alive = self._stores[0].unsettled()
        if not alive:
            return
        known = alive[which % len(alive)]
        event(f"race from {known.state}")
        won: list[object] = []
        lost: list[LedgerError] = []

        def move(store: LedgerStore) -> None:
            try:
                won.append(self._move(store, known, end))
            except LedgerError as refusal:
                lost.append(refusal)

        self._race(move)
        assert (len(won), len(lost)) in {(1, 1), (2, 0)}, lost
        # only a renewed lease may be renewed again: before its end that is no change of owner
        assert len(won) == 1 or (known.state is DeliveryState.LOCKED and end == "renewed")

    def _move(self, store: LedgerStore, known: Delivery, end: str) -> Delivery:
        if known.state is DeliveryState.PENDING:
            return store.dispatch(known, self.now)
        if known.state is DeliveryState.DISPATCHED:
            return lock_with_its_events(store, known, self._now)
        if end == "released":
            busy = Hold(HoldReason.ACTIVE, "spinner", "agents:1.0", self.now)
            return store.release(known, busy, self.now, is_attempt=True)
        if end == "renewed":
            return store.renew(known, Instant(self._now + 60_000), known.hold, self.now)
        return store.settle(known, Outcome(end), Proof.ACCEPTED, {}, self.now)

    @rule(actor=ACTORS, which=st.integers(0, 5), looked=st.booleans())
    def a_person_retries_or_acknowledges(self, actor: int, which: int, looked: bool) -> None:
        store = self._stores[actor]
        ended = store.deliveries(state=DeliveryState.FAILED, identity=None, limit=100)
        if not ended:
            return
        one = ended[which % len(ended)]
        try:
            store.retry(one.id, self._new_ids[actor], self.now, looked=looked)
        except RefusedForSafety:
            assert one.outcome is Outcome.UNKNOWN
            assert not looked
            store.raise_proof(one.id, Proof.ACKNOWLEDGED, {"by": "a person"}, self.now)
            assert one.id not in {each.id for each in store.failed_untold(START)}
        except OperationFailed:
            event("nothing left to retry")

    @rule(actor=ACTORS)
    def what_is_old_is_pruned(self, actor: int) -> None:
        """Nothing open, and nothing that is under way."""
        day_ago = Instant(self._now - 86_400_000)
        alive = {one.id for one in self._stores[0].unsettled()}
        self._stores[actor].prune(day_ago, 10_000)
        assert {one.id for one in self._stores[0].unsettled()} == alive
        # without their delivery, old notices go too
        self._notices = {subject: at for subject, at in self._notices.items() if at >= day_ago}

    def _race(self, act: Act) -> None:
        """Both do it at the same moment, each on a connection of its own thread."""
        together = Barrier(2)
        broken: list[BaseException] = []

        def run() -> None:
            store = LedgerStore.open(self._path)
            try:
                together.wait(10)
                act(store)
            except BaseException as error:  # noqa: BLE001 - told to the one that looks
                broken.append(error)
            finally:
                store.close()

        racers = [Thread(target=run) for _ in range(2)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert not broken, broken

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def both_see_what_the_model_has(self) -> None:
        for store in self._stores:
            pauses = {one.identity: one.until for one in store.pauses(self.now)}
            assert pauses == {one: until for one, until in self._pauses.items() if until is None or until > self._now}
            assert store.bindings() == self._places
            assert store.noticed() == self._notices.keys()
            for who in NAMES:
                identity = Identity(who)
                assert store.limits_lifted_at(identity) == max(self._lifted[who], self._lifted["*"])
                assert store.degraded(identity) == {it: why for (one, it), why in self._aside.items() if one == who}
                assert store.beat(identity) == self._beats.get(who)

    @invariant()
    def no_open_event_is_lost_and_no_line_of_the_journal_is_orphaned(self) -> None:
        rows = self._stores[0]._db.rows("SELECT id, status, delivery_id FROM wake_event")
        known = {row["id"]: row for row in rows}
        for event_id in self._open:
            row = known.get(event_id)
            # told and a day old: it may be pruned
            assert row is None or row["status"] in {EventStatus.OPEN, EventStatus.ANNOUNCED}
            if row is not None and row["status"] == EventStatus.OPEN and row["delivery_id"] is not None:
                carrier = self._stores[0].delivery(row["delivery_id"])
                assert carrier is not None
                assert carrier.state is not DeliveryState.DELIVERED
        steps = self._stores[0]._db.rows("SELECT delivery_id, step FROM journal")
        deliveries = {one.id for one in self._stores[0].deliveries(state=None, identity=None, limit=10_000)}
        assert {row["delivery_id"] for row in steps} <= deliveries
        assert {row["step"] for row in steps} <= {step.value for step in Step}
