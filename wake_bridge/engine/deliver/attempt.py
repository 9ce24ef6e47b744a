"""One attempt on a LOCKED delivery, and the recovery of a delivery found LOCKED from its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Hold, JournalEntry, Outcome, Progress, Proof, Step, progress_in
from wake_bridge.domain.errors import LedgerUnwritable, SourceError, StaleLease
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.names import Instant
from wake_bridge.domain.routing import Route
from wake_bridge.domain.sessions import HOOK
from wake_bridge.engine.deliver.emissions import Receivers
from wake_bridge.engine.deliver.leases import FenceNotHeld, Leases
from wake_bridge.engine.deliver.pushes import Pushes
from wake_bridge.engine.deliver.settle import settle_and_log
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.deliver.unknown_outcomes import OutcomeTracer
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_recovery import RouteRecovery
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import (
    AttemptOutcome,
    Delivered,
    Failed,
    NotTaken,
    Nowhere,
    Place,
    Refused,
    SendBy,
    Unknown,
    Wake,
)
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger


class LeasedJournal:
    """The journal port of one attempt: writes under the delivery's lease, and refuses once the lease has risen."""

    def __init__(self, ledger: Ledger, delivery: Delivery, clock: Clock, leases: Leases) -> None:
        self._ledger = ledger
        self._delivery = delivery
        self._clock = clock
        self._leases = leases

    async def __call__(self, step: Step, evidence: Mapping[str, str]) -> SendBy | None:
        """Append the step; on disk when this returns. An intent to submit is committed for all hosts first.

        Raises `StaleLease`, `LedgerUnwritable` or `FenceNotHeld`.
        """
        send_by = None
        if step is Step.INTENT_SUBMIT:
            send_by = await self._leases.commit(self._delivery, subjects_of(self._ledger, self._delivery.id))
        self._ledger.append(self._delivery, step, evidence, self._clock.now())
        if send_by is not None and send_by.is_over(self._clock):
            # whatever the adapter, and however long this process stood still
            self._ledger.append(self._delivery, Step.REFUSED, {"why": TOO_LATE}, self._clock.now())
            raise FenceNotHeld(OtherDriver(TOO_LATE, Cause.LEASE_LATE))
        return send_by


TOO_LATE: Final = "too long after its commit"


def subjects_of(ledger: Ledger, delivery_id: str) -> list[str]:
    """What a delivery tells of."""
    return [one.subject_key for one in ledger.events(ledger.event_ids_of(delivery_id))]


_LEFT_THERE: Final[Mapping[Cause, Cause]] = {
    Cause.NO_SUCH_PANE: Cause.LEFT_IN_NO_PANE,
    Cause.MOVED: Cause.LEFT_BY_MOVE,
    Cause.SERVER_BEGAN_ANEW: Cause.LEFT_BY_MOVE,
    Cause.TARGET_MOVED: Cause.LEFT_BY_TARGET,
    Cause.NOT_YET_SHOWN: Cause.NOT_YET_SHOWN,
    Cause.BEGUN_BY_ANOTHER: Cause.LEFT_BY_ADAPTER,
    **dict.fromkeys((Cause.OTHER_HOST, Cause.KNOWN_HERE_ALONE, Cause.TOLD_ELSEWHERE), Cause.LEFT_TO_HOST),
}
"""The cause while our text stands in the composer meanwhile; for all others `staged` says enough."""


def still_out(journal: Iterable[JournalEntry], why: Hold) -> Hold:
    """The hold of a delivery whose text stands staged; where nothing was staged, it may have been sent."""
    seen = f"{why.reason}: {why.detail}" if why.detail else why.reason
    if any(entry.step is Step.INTENT_STAGE for entry in journal):
        return Hold(HoldReason.STAGED, seen, why.where, why.next_look_at, _LEFT_THERE.get(why.cause, Cause.STAGED))
    seen = f"it may have been sent; wake-bridge looks for it ({seen})"
    return Hold(HoldReason.UNKNOWN, seen, why.where, why.next_look_at, Cause.MAYBE_SENT)


class AttemptRunner:
    """Runs attempts on locked deliveries and settles what comes of them."""

    def __init__(
        self,
        ledger: Ledger,
        routes: Routes,
        recovery: RouteRecovery,
        pushes: Pushes,
        current: Current,
        clock: Clock,
        leases: Leases,
    ) -> None:
        self._leases = leases
        self._pushes = pushes
        self._ledger = ledger
        self._routes = routes
        self._recovery = recovery
        self._current = current
        self._clock = clock
        self.receivers = Receivers(ledger, routes, current, clock)
        self._log = structlog.get_logger("deliver")

    async def make(
        self, route: Route, place: Place, delivery: Delivery, *, turn_id: str = "", may_begin: bool = True
    ) -> Delivery:
        """One attempt on a LOCKED delivery, going on from what its journal says; answers where it stands then.

        `turn_id` is the running turn that it is to be added to; without `may_begin` no turn is begun.
        """
        journal = self._ledger.journal_of(delivery.id)
        stagings = [entry.at for entry in journal if entry.step is Step.INTENT_STAGE]
        wake = Wake(
            delivery_id=delivery.id,
            text=delivery.digest,
            mark=delivery.id,
            progress=progress_in(journal),
            fence=self._ledger.fence_of(delivery.id),
            staged_ago=self._since(stagings[-1]) if stagings else None,
            turn_id=turn_id,
            may_start_thread=self._routes.authority(delivery.identity).may_start_thread,
            may_begin=may_begin,
        )
        try:
            outcome = await self._bounded(route, place, delivery, wake)
            return self.conclude(route, delivery, outcome)
        except StaleLease:
            self._log.warning("stale_lease", delivery=delivery.id)
            return self._ledger.delivery(delivery.id) or delivery
        finally:
            self._leases.concluded(delivery)

    def _since(self, instant: Instant) -> int | None:
        """Milliseconds since then; None where the clock was set back over a restart, and nobody knows."""
        return now - instant if (now := self._clock.now()) >= instant else None

    async def _bounded(self, route: Route, place: Place, delivery: Delivery, wake: Wake) -> AttemptOutcome:
        adapter = self._routes.adapter(route)
        journal = LeasedJournal(self._ledger, delivery, self._clock, self._leases)
        try:
            async with asyncio.timeout(self._current.settings.lease_ms / 1000 * 0.8):
                return await adapter.deliver(place, route.address, wake, journal)
        except TimeoutError:
            return Failed(retryable=True, reason="the attempt took longer than its lease")
        except FenceNotHeld as refused:
            return Refused(refused.why.cause.reason, refused.why.told, delivery.where, refused.why.cause)
        except (StaleLease, LedgerUnwritable):
            # no fault of the adapter's: no key follows a step that cannot be written down
            raise
        except Exception as broken:  # noqa: BLE001 - it broke its promise; what it may have typed, the journal tells
            self._log.exception("adapter_broke_promise", delivery=delivery.id, adapter=route.adapter)
            return Failed(retryable=True, reason=f"{type(broken).__name__}: {broken}")

    def conclude(self, route: Route, delivery: Delivery, outcome: AttemptOutcome) -> Delivery:
        """Write down what became of a LOCKED delivery; answers where it stands then."""
        match outcome:
            case Delivered(proof, evidence) if route.capabilities.needs_sign:
                return self._pushes.sent(delivery, proof, evidence["by"])
            case Unknown(evidence) if route.capabilities.needs_sign:
                return self._pushes.sent(delivery, Proof.NONE, evidence["why"])
            case Delivered(proof, evidence):
                self._recovery.note_success(route)
                self.receivers.took_it(route)
                return self._settle(delivery, Outcome.SUBMITTED, proof, evidence)
            case Unknown(evidence):
                return self._settle(delivery, Outcome.UNKNOWN, Proof.NONE, evidence)
            case Refused(reason, detail, where, cause):
                return self._wait(delivery, Hold(reason, detail, where or delivery.where, self._later(), cause))
            case NotTaken():
                return self.receivers.not_taken(route, delivery, outcome)
            case Failed(retryable, reason):
                return self._failed(route, delivery, reason, retryable=retryable)

    def _settle(self, delivery: Delivery, outcome: Outcome, proof: Proof, evidence: Mapping[str, str]) -> Delivery:
        return settle_and_log(self._ledger, self._log, delivery, outcome, proof, evidence, self._clock.now())

    def _wait(self, delivery: Delivery, hold: Hold) -> Delivery:
        """Nothing (more) was sent: thaw if nothing can have been sent at all, else keep the text's place."""
        now = self._clock.now()
        journal = self._ledger.journal_of(delivery.id)
        if progress_in(journal) is Progress.UNTOUCHED:
            self._log.info(
                "attempt_refused", delivery=delivery.id, agent=delivery.identity, reason=hold.reason, detail=hold.detail
            )
            return self._ledger.release(delivery, hold, now, is_attempt=False)
        staged = still_out(journal, hold)
        if delivery.hold is None or (delivery.hold.reason, delivery.hold.detail) != (staged.reason, staged.detail):
            # it is looked at for as long as it stands there
            self._log.info(
                "delivery_staged", delivery=delivery.id, agent=delivery.identity, reason=hold.reason, detail=hold.detail
            )
        return self._ledger.renew(delivery, Instant(now + self._current.settings.lease_ms), staged, now)

    def _failed(self, route: Route, delivery: Delivery, reason: str, *, retryable: bool) -> Delivery:
        hold = Hold(HoldReason.ADAPTER_FAILED, reason, delivery.where, self._later(delivery.attempts))
        if progress_in(self._ledger.journal_of(delivery.id)) is not Progress.UNTOUCHED:
            return self._wait(delivery, hold)
        if self._routes.may_fall_back(route):
            self._recovery.set_aside(route, reason)
            return self._ledger.release(delivery, hold, self._clock.now(), is_attempt=False)
        if not retryable or delivery.attempts + 1 >= self._current.settings.max_attempts:
            return self._settle(delivery, Outcome.FAILED, Proof.NONE, {"reason": reason})
        self._log.warning(
            "attempt_failed",
            delivery=delivery.id,
            agent=delivery.identity,
            reason=reason,
            attempts=delivery.attempts + 1,
        )
        return self._ledger.release(delivery, hold, self._clock.now(), is_attempt=True)

    def _later(self, attempts: int = 0) -> Instant:
        settings = self._current.settings
        return Instant(self._clock.now() + min(settings.relook_min_ms * 2**attempts, settings.relook_max_ms))


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
        leases: Leases,
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
        self._leases = leases
        self._relook = relook
        self._log = structlog.get_logger("deliver")

    async def take(self, delivery: Delivery) -> Delivery:
        """Go on from the journal; answers where the delivery stands then."""
        delivery = self._ledger.renew(delivery, self._lease_end(), delivery.hold, self._clock.now())
        progress = progress_in(self._ledger.journal_of(delivery.id))
        if (after := self._by_the_journal(delivery, progress)) is not None:
            return after
        off = self._switches.off(delivery.identity)
        may_ask = off is None or off.cause is Cause.OTHER_HOST
        if may_ask and progress in TEXT_STANDS and (host := await self._told_by(delivery)):
            return await self._left_to(host, delivery, progress)
        if off is not None and progress in TEXT_STANDS:
            # nothing but a look says that another host has told it
            look_at = self._relook(delivery) if off.cause is Cause.OTHER_HOST else off.next_look_at
            return self._stay(delivery, replace(off, where=delivery.where, next_look_at=look_at))
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

    def _by_the_journal(self, delivery: Delivery, progress: Progress) -> Delivery | None:
        """Ends or releases it where the journal alone decides: untouched, submitted, or taken by a hook. Else None: its place must be seen."""
        now = self._clock.now()
        if progress is Progress.UNTOUCHED:
            again = Hold(HoldReason.UNKNOWN, "resumed after a stop", "", now, Cause.TAKEN_UP_AGAIN)
            return self._ledger.release(delivery, again, now, is_attempt=False)
        if progress is Progress.SUBMITTED:
            seen = {"proof": "seen before the stop"}
            # of what a hook printed nobody saw more than that
            proof = Proof.ACCEPTED if delivery.adapter == HOOK else Proof.SUBMITTED
            return settle_and_log(self._ledger, self._log, delivery, Outcome.SUBMITTED, proof, seen, now)
        if delivery.adapter == HOOK:
            # it ends within seconds, and nobody can look at what it printed
            silent = {"why": "the hook that took it did not confirm that it printed it"}
            return settle_and_log(self._ledger, self._log, delivery, Outcome.UNKNOWN, Proof.NONE, silent, now)
        return None

    async def _told_by(self, delivery: Delivery) -> str:
        """Which other host has told any of it meanwhile; empty where none has, or nobody can tell now."""
        with suppress(SourceError):
            told = await self._leases.told(delivery.identity, subjects_of(self._ledger, delivery.id))
            return next(iter(told.values()), "")
        return ""

    async def _left_to(self, host: str, delivery: Delivery, progress: Progress) -> Delivery:
        """Its text may not be sent any more: a person clears it, and then this wake is over."""
        now, trace = self._clock.now(), await self._tracer.at_its_place(delivery)
        if trace.proof >= Proof.SUBMITTED:
            # a person sent it all the same
            sent = {"proof": trace.told}
            return settle_and_log(self._ledger, self._log, delivery, Outcome.SUBMITTED, trace.proof, sent, now)
        stagings = [entry.at for entry in self._ledger.journal_of(delivery.id) if entry.step is Step.INTENT_STAGE]
        # a paste may come to show late
        may_come = progress is Progress.MAYBE_STAGED and now - stagings[-1] < self._current.settings.lease_ms
        if trace.is_absent and not may_come:
            told = {"why": f"the host {host} has told it, and nothing was sent here"}
            return settle_and_log(self._ledger, self._log, delivery, Outcome.READ, Proof.NONE, told, now)
        away = Hold(HoldReason.OTHER_HOST, host, delivery.where, self._relook(delivery), Cause.TOLD_ELSEWHERE)
        return self._stay(delivery, away)

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
            why = f"{delivery.identity} has moved; in {delivery.where}, where the text was typed, {trace.told}"
            return Unknown({"why": why})
        return Refused(HoldReason.UNKNOWN, trace.told, delivery.where)

    def _without_a_place(self, delivery: Delivery, progress: Progress, nowhere: Nowhere) -> Delivery:
        """Staged text waits for its place; what may have been submitted does not wait for ever."""
        now = self._clock.now()
        submits = [entry.at for entry in self._ledger.journal_of(delivery.id) if entry.step is Step.INTENT_SUBMIT]
        if progress is Progress.MAYBE_SUBMITTED and now - submits[-1] > 2 * self._current.settings.lease_ms:
            why = {"why": nowhere.detail}
            return settle_and_log(self._ledger, self._log, delivery, Outcome.UNKNOWN, Proof.NONE, why, now)
        return self._stay(delivery, replace(nowhere.hold, next_look_at=self._relook(delivery)))

    def _stay(self, delivery: Delivery, why: Hold) -> Delivery:
        """Stay LOCKED, the text where it is."""
        hold = still_out(self._ledger.journal_of(delivery.id), why)
        return self._ledger.renew(delivery, self._lease_end(), hold, self._clock.now())

    def _lease_end(self) -> Instant:
        return Instant(self._clock.now() + self._current.settings.lease_ms)
