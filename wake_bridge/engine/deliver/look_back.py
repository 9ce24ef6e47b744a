"""Whether a wake of unknown outcome has arrived after all: looks for its mark, and sends nothing (decision 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from wake_bridge.domain.delivery import Delivery, Progress, Proof
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.reasons import SEEN_LATE
from wake_bridge.domain.routing import Route
from wake_bridge.engine.presence.adapter_calls import AdapterCalls
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import Place, Trace, Wake
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why something may have arrived, one clause, and where that was seen."""

    told: str
    where: str


class LookBack:
    """Looks for wakes that may have been sent; what is found raises their proof, and nothing else of them changes."""

    def __init__(self, ledger: Ledger, routes: Routes, current: Current, clock: Clock) -> None:
        self._ledger = ledger
        self._routes = routes
        self._clock = clock
        self._calls = AdapterCalls(current, clock)
        self._log = structlog.get_logger("deliver")

    async def at_its_place(self, unknown: Delivery) -> Trace:
        """Look where it was announced."""
        route = self._routes.by(unknown.identity, unknown.adapter)
        if route is None:
            return Trace(Proof.NONE, f"the adapter {unknown.adapter} is not there to look for it")
        place = Place(unknown.pane_key, unknown.where, self._ledger.fence_of(unknown.id))
        return await self._look(unknown.id, unknown.digest, route, place)

    def note(self, unknown: Delivery, proof: Proof, by: str) -> None:
        """Write down how far it was seen to get, if that is news."""
        if proof <= unknown.proof:
            return
        try:
            after = self._ledger.raise_proof(unknown.id, proof, {"by": by}, self._clock.now())
        except NotFound:
            # retention took it while it was looked for
            return
        if after.is_seen_late and not unknown.is_seen_late:
            self._log.info(
                "delivery_seen_late", delivery=unknown.id, agent=unknown.identity, proof=int(after.proof), by=by
            )

    async def unseen_of(
        self, events: Sequence[WakeEvent], route: Route, place: Place, *, is_at_rest: bool
    ) -> tuple[tuple[WakeEvent, ...], Doubt | None]:
        """Which of them may be announced at `place` now, and why the others may not.

        Those that no unknown delivery told before are among them. Of the others one look here, and one where they were
        announced, must prove that the agent does not have them; what it is seen to have is closed.
        """
        free, why = [one for one in events if not one.again_of], None
        for earlier in dict.fromkeys(one.again_of for one in events if one.again_of):
            theirs = [one for one in events if one.again_of == earlier]
            doubt, is_seen = await self._doubt_about(earlier, route, place)
            if is_seen:
                self._ledger.mark([one.id for one in theirs], EventStatus.ANNOUNCED, SEEN_LATE, self._clock.now())
            elif doubt or not is_at_rest:
                why = doubt or Doubt("a turn runs", place.label)
            else:
                free += theirs
        order = {one.id: number for number, one in enumerate(events)}
        return tuple(sorted(free, key=lambda one: order[one.id])), why

    async def _doubt_about(self, mark: str, route: Route, place: Place) -> tuple[Doubt | None, bool]:
        """Why it may have arrived, None where it has not; and whether it is seen to have."""
        unknown = self._ledger.delivery(mark)
        if unknown is not None and unknown.is_seen_late:
            return None, True
        traces = [(place.label, await self._look(mark, unknown.digest if unknown else "", route, place))]
        # without a record of it, retention has taken it, and here is the only place that is known
        if unknown is not None and (unknown.adapter, unknown.pane_key) != (route.adapter, place.key):
            traces.append((unknown.where, await self.at_its_place(unknown)))
        best = max((trace for _, trace in traces), key=lambda one: one.proof)
        if unknown is not None:
            self.note(unknown, best.proof, best.told)
        if best.proof >= Proof.SUBMITTED:
            return None, True
        return next((Doubt(trace.told, where) for where, trace in traces if not trace.is_absent), None), False

    async def _look(self, mark: str, text: str, route: Route, place: Place) -> Trace:
        wake = Wake(
            delivery_id=mark,
            text=text,
            mark=mark,
            progress=Progress.MAYBE_SUBMITTED,
            fence=self._ledger.fence_of(mark),
            may_begin=False,
        )
        return await self._calls.trace(self._routes.adapter(route), place, route.address, wake)
