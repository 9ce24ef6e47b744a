"""A delivery found LOCKED: what its journal says may have reached the pane decides how it goes on (docs/design.md §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Hold, Outcome, Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Instant
from wake_bridge.domain.routing import Route
from wake_bridge.domain.sessions import HOOK
from wake_bridge.engine.deliver.attempt import AttemptRunner, still_out
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.deliver.unknown_outcomes import OutcomeTracer
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Nowhere, Place, Refused, Unknown
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger

TEXT_STANDS = frozenset({Progress.MAYBE_STAGED, Progress.STAGED})


class LeaseRecovery:
    """Takes up a delivery whose lease ran out, or whose text stands staged and is looked at again.

    Args:
        relook: when a delivery that still waits is to be looked at next.
    """

    def __init__(
        self,
        ledger: Ledger,
        routes: Routes,
        watch: Watch,
        attempt: AttemptRunner,
        switches: SwitchReader,
        tracer: OutcomeTracer,
        current: Current,
        clock: Clock,
        *,
        relook: Callable[[Delivery], Instant],
    ) -> None:
        self._ledger = ledger
        self._routes = routes
        self._watch = watch
        self._attempt = attempt
        self._switches = switches
        self._tracer = tracer
        self._current = current
        self._clock = clock
        self._relook = relook
        self._log = structlog.get_logger("deliver")

    async def take(self, delivery: Delivery) -> Delivery:
        """Go on from the journal; answers where the delivery stands then."""
        now = self._clock.now()
        delivery = self._ledger.renew(delivery, self._lease_end(), delivery.hold, now)
        progress = progress_of(entry.step for entry in self._ledger.journal_of(delivery.id))
        if progress is Progress.UNTOUCHED:
            again = Hold(HoldReason.UNKNOWN, "taken up again after a stop", "", now, Cause.TAKEN_UP_AGAIN)
            return self._ledger.release(delivery, again, now, is_attempt=False)
        if progress is Progress.SUBMITTED:
            seen = {"proof": "seen before the stop"}
            # of what a hook printed nobody saw more than that
            proof = Proof.ACCEPTED if delivery.adapter == HOOK else Proof.SUBMITTED
            return self._ledger.settle(delivery, Outcome.SUBMITTED, proof, seen, now)
        if delivery.adapter == HOOK:
            # it ends within seconds, and nobody can look at what it printed
            silent = {"why": "the hook that took it never said that it had printed it"}
            self._log.warning(
                "delivery_settled", agent=delivery.identity, outcome=Outcome.UNKNOWN, detail=silent["why"]
            )
            return self._ledger.settle(delivery, Outcome.UNKNOWN, Proof.NONE, silent, now)
        off = self._switches.off(delivery.identity)
        if off is not None and progress in TEXT_STANDS:
            return self._stay(delivery, replace(off, where=delivery.where))
        # where another adapter might find no trace of it and send it again
        route = self._routes.locked_for(delivery)
        if route is None:
            why = f"begun by {delivery.adapter}, and no adapter can look for it"
            gone = Nowhere(HoldReason.NO_ADAPTER, why, cause=Cause.BEGUN_BY_ANOTHER)
            return self._without_a_place(delivery, progress, gone)
        place = await self._watch.locate(route)
        if isinstance(place, Nowhere):
            place = self._former_place(route, delivery) or place
        if isinstance(place, Nowhere):
            return self._without_a_place(delivery, progress, place)
        if self._is_elsewhere(route, place, delivery):
            return self._attempt.conclude(route, delivery, await self._left_there(delivery))
        after = await self._attempt.make(route, place, delivery, may_begin=off is None)
        self._watch.forget(delivery.identity)
        return after

    def _former_place(self, route: Route, delivery: Delivery) -> Place | None:
        """Where a channel sent it: that a conversation has ended may be the proof that it never came in."""
        fence = self._ledger.fence_of(delivery.id)
        if fence is None or not route.capabilities.composer_independent:
            return None
        return Place(delivery.pane_key, delivery.where, fence)

    def _is_elsewhere(self, route: Route, place: Place, delivery: Delivery) -> bool:
        """Whether its text was left in another pane than the one where the identity lives by now, as after `bind`."""
        is_screen = not route.capabilities.composer_independent
        return is_screen and place.key != delivery.pane_key and self._routes.can_trace(delivery.adapter)

    async def _left_there(self, delivery: Delivery) -> AttemptOutcome:
        """What became of the text that was left in a pane which is the identity's no longer: no key goes there."""
        trace = await self._tracer.at_its_place(delivery)
        if trace.proof >= Proof.SUBMITTED:
            return Delivered(trace.proof, {"proof": trace.told})
        if trace.is_absent:
            why = (
                f"{delivery.identity} lives elsewhere by now, and where it was typed, in {delivery.where}, {trace.told}"
            )
            return Unknown({"why": why})
        return Refused(HoldReason.UNKNOWN, trace.told, delivery.where)

    def _without_a_place(self, delivery: Delivery, progress: Progress, nowhere: Nowhere) -> Delivery:
        """Staged text waits for its place; what may have been submitted does not wait for ever."""
        now = self._clock.now()
        submits = [entry.at for entry in self._ledger.journal_of(delivery.id) if entry.step is Step.INTENT_SUBMIT]
        if progress is Progress.MAYBE_SUBMITTED and now - submits[-1] > 2 * self._current.settings.lease_ms:
            self._log.warning(
                "delivery_settled", agent=delivery.identity, outcome=Outcome.UNKNOWN, detail=nowhere.detail
            )
            return self._ledger.settle(delivery, Outcome.UNKNOWN, Proof.NONE, {"why": nowhere.detail}, now)
        return self._stay(delivery, replace(nowhere.hold, next_look_at=self._relook(delivery)))

    def _stay(self, delivery: Delivery, why: Hold) -> Delivery:
        """Stay LOCKED, the text where it is."""
        hold = still_out(self._ledger.journal_of(delivery.id), why)
        return self._ledger.renew(delivery, self._lease_end(), hold, self._clock.now())

    def _lease_end(self) -> Instant:
        return Instant(self._clock.now() + self._current.settings.lease_ms)
