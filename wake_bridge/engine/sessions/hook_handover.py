"""Hands what waits for an identity to the hook of its own conversation, under the lease.

Three steps, as for every driver: the lease is taken with exactly what is shown, the intent is written down before a byte
is printed, and what was printed is settled. A hook that dies in between leaves a journal that says how far it can have got.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Progress, Proof, Step, progress_in
from wake_bridge.domain.digest import answer_line, history_line
from wake_bridge.domain.errors import IllegalTransition, SourceError, StaleLease
from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.guards import Go, WakeCandidate, before_lock, switched_off
from wake_bridge.domain.hook_block import MOST_SHOWN, compose_block, items_of
from wake_bridge.domain.names import DAY, EPOCH_START, EventKind, Identity, Instant, WakePolicy
from wake_bridge.domain.nudges import is_our_pulse
from wake_bridge.domain.sessions import HOOK, Caller, Moment
from wake_bridge.domain.text import harmless
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.deliver.attempt import TOO_LATE, subjects_of
from wake_bridge.engine.deliver.leases import FenceNotHeld, Leases, SoleDriver
from wake_bridge.engine.deliver.relevance import JudgedEvents, allowed_senders, bodies_of, judge_events
from wake_bridge.engine.deliver.settle import settle_and_log
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.sessions.registry import SessionRegistry
from wake_bridge.engine.sessions.session_identity import SessionIdentity
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import Place
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Lock, NewId

OFFERS_KEPT: Final = 1000
"""Offers at the end of a turn that are remembered; most are printed, or over, within seconds."""

OFFER_LASTS: Final = 3_000
"""Milliseconds a hook has to say that it takes an offer; it asks for one second at most."""

PRINTING_LASTS: Final = 10_000
"""Milliseconds it then has to say that it has printed it; it lives for three at most."""

HANDED_AT: Final = frozenset({Moment.PROMPT, Moment.TOOL, Moment.STOP})
"""The moments at which a hook adds to what the model is about to see. At the start of a session it could as well, but no turn
begins there: what is to wake the agent would be settled, and nobody awake."""


class ProlongedTurns:
    """The conversations in a turn that a hook has prolonged: no turn is prolonged twice running, and not every harness says so."""

    def __init__(self) -> None:
        self._offered: OrderedDict[str, str] = OrderedDict()
        self._sessions: set[str] = set()

    def offered(self, delivery_id: str, session_id: str) -> None:
        """A hook at the end of a turn may print this delivery."""
        self._offered[delivery_id] = session_id
        if len(self._offered) > OFFERS_KEPT:
            self._offered.popitem(last=False)

    def printed(self, delivery_id: str) -> None:
        """A hook has printed it: if that was at the end of a turn, the turn goes on."""
        session_id = self._offered.pop(delivery_id, None)
        if session_id is not None:
            self._sessions.add(session_id)

    def is_over(self, session_id: str) -> None:
        """Another turn has begun, or the conversation has ended."""
        self._sessions.discard(session_id)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions


@dataclass(frozen=True, slots=True)
class Offer:
    """A block for one hook to print, if it says that it takes it under this lease."""

    delivery_id: str
    lease: int
    block: str
    shown: int
    total: int


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a hook is answered: whose its conversation is, and what is offered to it."""

    identity: Identity | None
    offer: Offer | None = None


class HookHandover:
    """Takes the calls of hooks.

    Args:
        place_of: where the identity lives, as it is watched: a turn that is prolonged counts against that place.
        poke: something may have been left for another delivery.
        dry_run: hand nothing over.
        leases: whether this host drives an identity.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        registry: SessionRegistry,
        session_identity: SessionIdentity,
        switches: SwitchReader,
        current: Current,
        clock: Clock,
        new_id: NewId,
        *,
        place_of: Callable[[Identity], Place | None],
        poke: Callable[[], None],
        dry_run: bool = False,
        leases: Leases | None = None,
    ) -> None:
        self._leases = leases if leases is not None else SoleDriver()
        self._ledger = ledger
        self._queries = queries
        self._registry = registry
        self._session_identity = session_identity
        self._switches = switches
        self._current = current
        self._clock = clock
        self._new_id = new_id
        self._place_of = place_of
        self._poke = poke
        self._dry_run = dry_run
        self._prolonged = ProlongedTurns()
        self._log = structlog.get_logger("deliver")

    def meet(self, caller: Caller) -> Identity | None:
        """A program inside a harness made its conversation known; answers whose it is."""
        identity = self._session_identity.of(caller)
        self._registry.meet(caller, identity)
        return identity

    async def called(self, caller: Caller, moment: Moment, marks: Sequence[str], *, drain: bool) -> HookAnswer:
        """A hook calls.

        Args:
            caller: what it says of itself; a sub-agent's is handed nothing, and says nothing of its conversation.
            moment: where in its turn the conversation stands.
            marks: the marks that a submitted prompt carries.
            drain: whether the hook can print something now.
        """
        if caller.agent:
            return HookAnswer(self._session_identity.of(caller))
        identity = self.meet(caller)
        self._acknowledge(identity, marks, caller.harness)
        if moment in {Moment.PROMPT, Moment.ENDED}:
            self._prolonged.is_over(caller.session_id)
        if moment is Moment.ENDED:
            self._registry.part(caller.session_id)
            return HookAnswer(identity)
        self._registry.note(caller.session_id, moment)
        is_over = moment is Moment.STOP and caller.session_id in self._prolonged
        if identity is None or not drain or moment not in HANDED_AT or is_over or self._dry_run:
            return HookAnswer(identity)
        try:
            return HookAnswer(identity, await self._offer(identity, caller, moment))
        except (SourceError, StaleLease) as away:
            # the graph cannot be asked, or another driver was quicker: it waits, or it is done
            self._log.debug("stale_lease", agent=identity, reason=str(away))
            return HookAnswer(identity)

    async def taking(self, delivery_id: str, lease: int) -> bool:
        """The hook is about to print its offer: whether it may. On disk when this answers."""
        now = self._clock.now()
        delivery = self._held(delivery_id, lease)
        if (
            delivery is None
            or (delivery.lease_until or 0) <= now
            or progress_in(self._ledger.journal_of(delivery.id)) is not Progress.UNTOUCHED
        ):
            return False
        try:
            send_by = await self._leases.commit(delivery, subjects_of(self._ledger, delivery.id))
            # first the time, then the intent: nobody takes over from a hook that prints
            self._ledger.renew(delivery, Instant(now + PRINTING_LASTS), None, now)
            self._ledger.append(delivery, Step.INTENT_SUBMIT, {"by": HOOK, "where": delivery.where}, now)
            if send_by is not None and send_by.is_over(self._clock):
                self._ledger.append(delivery, Step.REFUSED, {"why": TOO_LATE}, self._clock.now())
                return False
        except (StaleLease, IllegalTransition, FenceNotHeld):
            return False
        return True

    def printed(self, delivery_id: str, lease: int) -> bool:
        """The hook has printed it: settles the delivery, proven as far as the harness having taken the bytes."""
        now = self._clock.now()
        delivery = self._held(delivery_id, lease)
        if delivery is None or progress_in(self._ledger.journal_of(delivery.id)) is not Progress.MAYBE_SUBMITTED:
            return False
        self._prolonged.printed(delivery_id)
        evidence = {"proof": "the hook has printed it"}
        try:
            self._ledger.append(delivery, Step.SUBMITTED, evidence, now)
            settle_and_log(self._ledger, self._log, delivery, Outcome.SUBMITTED, Proof.ACCEPTED, evidence, now)
        except (StaleLease, IllegalTransition):
            return False
        self._poke()
        return True

    # -- what is offered -----------------------------------------------------------------------------------------

    async def _offer(self, identity: Identity, caller: Caller, moment: Moment) -> Offer | None:
        vehicle = self._unfrozen(identity)
        events = self._waiting(identity, vehicle)
        if not events:
            return None
        judged = await judge_events(self._queries, self._ledger, identity, events)
        judged.write_ends(self._ledger, self._clock.now())
        place = self._place_of(identity) if moment is Moment.STOP else None
        free = self._let_through(identity, judged, vehicle, moment, place)
        items = items_of(free)
        if not items or await self._leases.take(identity, [one.subject_key for one in free]) is not None:
            return None
        shown, total = items[:MOST_SHOWN], len(items) + self._beside(identity, events)
        told = [event for item in shown for event in item.events]
        allowed = allowed_senders(self._current, identity)
        delivery_id = vehicle.id if vehicle else self._new_id()
        passed_on = self._ledger.passed_on(identity, EPOCH_START, is_untold=True)
        block = compose_block(
            shown,
            total,
            identity=identity,
            delivery_id=delivery_id,
            now=self._clock.now(),
            known=judged.identities.keys(),
            style=self._current.settings.digest,
            bodies=await bodies_of(self._queries, told, allowed),
            allow_from=allowed,
            answer=answer_line(vehicle) if vehicle is not None else "",
            history=history_line(passed_on, identity, self._clock.now(), judged.identities.keys()),
        )
        now = self._clock.now()
        where = f"{harmless(caller.harness, 20)} ({moment})"
        locked = self._ledger.hand_over(
            identity,
            vehicle,
            delivery_id,
            Lock(
                digest=block,
                events=[one.id for one in told],
                adapter=HOOK,
                where=where,
                pane_key=_counted_against(identity, moment, place),
                until=Instant(now + OFFER_LASTS),
                history=[one.id for one, _ in passed_on],
            ),
            now,
        )
        if moment is Moment.STOP:
            self._prolonged.offered(locked.id, caller.session_id)
        self._log.info("delivery_locked", delivery=locked.id, agent=identity, pane=where, events=len(told))
        self._poke()
        return Offer(locked.id, locked.owner_lease, block, len(shown), total)

    def _beside(self, identity: Identity, events: Sequence[WakeEvent]) -> int:
        """Items that wait besides: of a flood not all are read."""
        read = sum(one.kind is EventKind.ITEM and one.policy is WakePolicy.NEXT_TURN for one in events)
        return max(0, self._ledger.waiting_items(identity) - read) if read else 0

    def _unfrozen(self, identity: Identity) -> Delivery | None:
        open_ones = [one for one in self._ledger.unsettled() if one.identity == identity and not one.state.is_frozen]
        # what has to be answered is told alone, and first
        now = self._clock.now()
        pressing = (
            one for one in open_ones if one.ack_within and one.due_at <= now and one.state is not DeliveryState.PENDING
        )
        return next(pressing, next((one for one in open_ones if not one.ack_within), None))

    def _waiting(self, identity: Identity, vehicle: Delivery | None) -> list[WakeEvent]:
        """What may be handed over: the held delivery's, once its window has closed, and what waits for the next turn.

        A nudge of the heartbeat is left to it: it speaks of how much is unread, not of anything that arrived. What is
        announced once more is left to the gate, which looks first whether the agent has it.
        """
        members: list[WakeEvent] = []
        if vehicle is not None and vehicle.state is DeliveryState.DISPATCHED:
            members = self._ledger.events_of(vehicle.id) if vehicle.due_at <= self._clock.now() else []
        riders = [] if vehicle is not None and vehicle.ack_within else self._ledger.next_turn_events(identity)
        waiting = [*members, *riders]
        return [one for one in waiting if one.status is EventStatus.OPEN and not (is_our_pulse(one) or one.again_of)]

    def _let_through(
        self, identity: Identity, judged: JudgedEvents, vehicle: Delivery | None, moment: Moment, place: Place | None
    ) -> tuple[WakeEvent, ...]:
        """What the guards let pass: a turn that runs anyway costs nothing more, one that is prolonged counts as a wake."""
        now = self._clock.now()
        row = judged.identities.get(identity)
        switches = self._switches.of(identity, row.participation if row else "active")
        if moment is not Moment.STOP:
            off = switched_off(switches, now, self._switches.local_minutes())
            return () if off else tuple(one for one in judged.surviving if one.not_before <= now)
        verdict = before_lock(
            WakeCandidate(
                identity=identity,
                events=judged.surviving,
                due_at=vehicle.due_at if vehicle else now,
                pane_key=_counted_against(identity, moment, place),
                where=place.label if place else "",
                lifted_at=self._ledger.limits_lifted_at(identity),
            ),
            self._current.settings.limits,
            self._ledger.past_wakes(Instant(now - DAY)),
            switches,
            now,
            self._switches.local_minutes(),
        )
        return verdict.events if isinstance(verdict, Go) else ()

    # -- what is heard -------------------------------------------------------------------------------------------

    def _acknowledge(self, identity: Identity | None, marks: Sequence[str], harness: str) -> None:
        """A prompt carried our mark: the agent has the wake (proof 3). Another identity's proves nothing."""
        for mark in marks:
            delivery = self._ledger.delivery(mark)
            if delivery is None or (delivery.id, delivery.identity) != (mark, identity):
                continue
            if progress_in(self._ledger.journal_of(delivery.id)) is Progress.UNTOUCHED:
                continue
            self._registry.hear([mark])
            # that the prompt was submitted is no answer
            if delivery.proof < Proof.ACKNOWLEDGED and not delivery.ack_within:
                by = f"prompt hook of {harmless(harness, 20)}"
                self._ledger.raise_proof(mark, Proof.ACKNOWLEDGED, {"by": by}, self._clock.now())
                self._log.info("delivery_acknowledged", delivery=mark, agent=delivery.identity, by=by)

    # -- the lease -----------------------------------------------------------------------------------------------

    def _held(self, delivery_id: str, lease: int) -> Delivery | None:
        """The delivery, if it is still locked for a hook under this very lease."""
        delivery = self._ledger.delivery(delivery_id) if delivery_id else None
        if delivery is None or delivery.id != delivery_id:
            return None
        known = (delivery.state, delivery.adapter, delivery.owner_lease)
        return delivery if known == (DeliveryState.LOCKED, HOOK, lease) else None


def _counted_against(identity: Identity, moment: Moment, place: Place | None) -> str:
    """Which place's limits a hand-over counts against: none where it costs no turn."""
    if moment is not Moment.STOP:
        return ""
    return place.key if place else f"{HOOK}:{identity}"
