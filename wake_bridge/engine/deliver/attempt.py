"""One locked attempt: the adapter's answer becomes a ledger state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import (
    Delivery,
    Hold,
    JournalEntry,
    Outcome,
    Progress,
    Proof,
    Step,
    progress_of,
)
from wake_bridge.domain.errors import LedgerUnwritable, StaleLease
from wake_bridge.domain.names import Instant
from wake_bridge.domain.routing import Route
from wake_bridge.engine.deliver.receivers import Receivers
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.routing.route_recovery import RouteRecovery
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import AttemptOutcome, Delivered, Failed, NotTaken, Place, Refused, Unknown, Wake
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger


class LeasedJournal:
    """The journal port of one attempt: writes under the delivery's lease, and refuses once the lease has risen."""

    def __init__(self, ledger: Ledger, delivery: Delivery, clock: Clock) -> None:
        self._ledger = ledger
        self._delivery = delivery
        self._clock = clock

    async def __call__(self, step: Step, evidence: Mapping[str, str]) -> None:
        """Append the step; on disk when this returns. Raises `StaleLease` or `LedgerUnwritable`."""
        self._ledger.append(self._delivery, step, evidence, self._clock.now())


def still_out(journal: Iterable[JournalEntry], why: Hold) -> Hold:
    """The hold of a delivery whose text stands staged; where nothing was staged, it may have been sent."""
    seen = f"{why.reason}: {why.detail}" if why.detail else why.reason
    if any(entry.step is Step.INTENT_STAGE for entry in journal):
        return Hold(HoldReason.STAGED, seen, why.where, why.next_look_at, why.row.left or Cause.STAGED)
    seen = f"it may have been sent, and is looked for ({seen})"
    return Hold(HoldReason.UNKNOWN, seen, why.where, why.next_look_at, Cause.MAYBE_SENT)


class AttemptRunner:
    """Runs attempts on locked deliveries and settles what comes of them."""

    def __init__(self, ledger: Ledger, routes: Routes, recovery: RouteRecovery, current: Current, clock: Clock) -> None:
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
            progress=progress_of(entry.step for entry in journal),
            fence=self._ledger.fence_of(delivery.id),
            staged_ago=self._since(stagings[-1]) if stagings else None,
            turn_id=turn_id,
            may_start_thread=self._routes.authority(delivery.identity).may_start_thread,
            may_begin=may_begin,
        )
        outcome = await self._bounded(route, place, delivery, wake)
        try:
            return self.conclude(route, delivery, outcome)
        except StaleLease:
            self._log.warning("stale_lease", delivery=delivery.id)
            return self._ledger.delivery(delivery.id) or delivery

    def _since(self, instant: Instant) -> int | None:
        """Milliseconds since then; None where the clock was set back over a restart, and nobody knows."""
        return now - instant if (now := self._clock.now()) >= instant else None

    async def _bounded(self, route: Route, place: Place, delivery: Delivery, wake: Wake) -> AttemptOutcome:
        adapter = self._routes.adapter(route)
        journal = LeasedJournal(self._ledger, delivery, self._clock)
        try:
            async with asyncio.timeout(self._current.settings.lease_ms / 1000 * 0.8):
                return await adapter.deliver(place, route.address, wake, journal)
        except TimeoutError:
            return Failed(retryable=True, reason="the attempt outlasted its lease")
        except (StaleLease, LedgerUnwritable):
            # no fault of the adapter's: no key follows a step that cannot be written down
            raise
        except Exception as broken:  # noqa: BLE001 - it broke its promise; what it may have typed, the journal tells
            self._log.exception("adapter_broke_promise", delivery=delivery.id, adapter=route.adapter)
            return Failed(retryable=True, reason=f"{type(broken).__name__}: {broken}")

    def conclude(self, route: Route, delivery: Delivery, outcome: AttemptOutcome) -> Delivery:
        """Write down what became of a LOCKED delivery; answers where it stands then."""
        match outcome:
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
        settled = self._ledger.settle(delivery, outcome, proof, evidence, self._clock.now())
        report = self._log.info if outcome is Outcome.SUBMITTED else self._log.warning
        report(
            "delivery_settled",
            delivery=delivery.id,
            agent=delivery.identity,
            pane=delivery.where,
            outcome=outcome,
            proof=int(proof),
            evidence=dict(evidence),
        )
        return settled

    def _wait(self, delivery: Delivery, hold: Hold) -> Delivery:
        """Nothing (more) was sent: thaw if nothing can have been sent at all, else keep the text's place."""
        now = self._clock.now()
        journal = self._ledger.journal_of(delivery.id)
        if progress_of(entry.step for entry in journal) is Progress.UNTOUCHED:
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
        if self._progress(delivery) is not Progress.UNTOUCHED:
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

    def _progress(self, delivery: Delivery) -> Progress:
        return progress_of(entry.step for entry in self._ledger.journal_of(delivery.id))

    def _later(self, attempts: int = 0) -> Instant:
        settings = self._current.settings
        return Instant(self._clock.now() + min(settings.relook_min_ms * 2**attempts, settings.relook_max_ms))
