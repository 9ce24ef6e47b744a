"""Wakes of unknown outcome: looks for their proof without a key, and announces unread mail once more (decision 11)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from wake_bridge.domain.delivery import Delivery, Progress, Proof
from wake_bridge.domain.errors import LedgerError, NotFound, SourceError
from wake_bridge.domain.events import EventStatus, MessageDetail, WakeEvent
from wake_bridge.domain.names import Instant, to_beat
from wake_bridge.domain.reasons import SEEN_LATE
from wake_bridge.domain.routing import Route
from wake_bridge.domain.signed_wakes import is_signed
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.deliver.relevance import events_of, still_unread
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.adapter_calls import AdapterCalls
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import LOOKED_FOR, Current, EngineSettings
from wake_bridge.ports.adapter import Place, Trace, Wake
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId

LOOK_EVERY: Final = 5.0
"""Seconds between two rounds."""

LOOKS_A_ROUND: Final = 16
"""Wakes that are looked for in one round, those first that have waited longest: many may end unknown at once."""

STILL_NEWS: Final = 7 * 24 * 3600 * 1000
"""Milliseconds after which an unknown wake is left as it is: a daemon that did not run comes back to old mail."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why something may have arrived, one clause, and where that was seen."""

    told: str
    where: str


class OutcomeTracer:
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
            return Trace(Proof.NONE, f"the adapter {unknown.adapter} is not loaded, so nothing can look for it")
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


class UnknownOutcomes:
    """Follows what ended as `unknown`, by what the ledger says of it; a restart goes on where it was.

    For as long as `delivery.unknown_again` says they are only looked for. Then what is still unread is opened again, in
    a delivery of its own that goes through the gate like any other; once more as long, the first is looked for besides, so
    that it is known if it came after all.

    Args:
        poke: called when something was opened again.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        routes: Routes,
        current: Current,
        clock: Clock,
        new_id: NewId,
        *,
        poke: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._queries = queries
        self._routes = routes
        self._tracer = OutcomeTracer(ledger, routes, current, clock)
        self._current = current
        self._clock = clock
        self._new_id = new_id
        self._poke = poke
        self._since: dict[str, Instant] = {}
        self._looked: dict[str, Instant] = {}
        self._left_alone: set[str] = set()
        self._log = structlog.get_logger("deliver")

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.look()
            except LedgerError as away:
                self._log.warning("ledger_away", reason=str(away), hint=away.hint)
            await asyncio.sleep(to_beat(LOOK_EVERY, asyncio.get_running_loop().time()))

    async def look(self) -> None:
        """One round. Raises `LedgerError`."""
        now = self._clock.now()
        found = self._ledger.unknown_since(Instant(now - STILL_NEWS))
        # the clock may have been set back since: nothing is waited for longer than from now on
        self._since = {one.id: min(self._since.get(one.id, now), one.settled_at or now) for one in found}
        self._looked = {one.id: self._looked.get(one.id, Instant(0)) for one in found}
        self._left_alone &= self._since.keys()
        looked_for = looked_for_of(self._current.settings)
        young = [one for one in found if now - self._since[one.id] < 2 * looked_for]
        turn = sorted(young, key=lambda one: self._looked[one.id])[:LOOKS_A_ROUND]
        await asyncio.gather(*(self._look_for(one) for one in turn))
        if self._current.settings.unknown_again_ms:
            for one in found:
                if now - self._since[one.id] >= looked_for and one.id not in self._left_alone:
                    await self._tell_again(one)

    async def _look_for(self, unknown: Delivery) -> None:
        """In the mail first: an agent that has read it has been told."""
        self._looked[unknown.id] = self._clock.now()
        with contextlib.suppress(SourceError):
            if await self._was_read(unknown, await self._mail_of(unknown)):
                return
        trace = await self._tracer.at_its_place(unknown)
        self._tracer.note(unknown, trace.proof, trace.told)

    async def _tell_again(self, unknown: Delivery) -> None:
        """Open again what nobody has read, if it can be looked for when its moment comes."""
        fresh = self._ledger.delivery(unknown.id)
        if fresh is None or fresh.is_seen_late or not self._routes.can_trace(fresh.adapter):
            return
        told = await self._mail_of(fresh)
        try:
            if await self._was_read(fresh, told):
                return
            unread = await still_unread(self._queries, self._ledger, fresh.identity, told)
            opened = self._ledger.open_again(fresh.id, self._new_id, self._clock.now()) if unread else None
        except (SourceError, NotFound):
            # the tail says so, and it is asked again in the next round; or retention took it meanwhile
            return
        if opened is None:
            self._left_alone.add(fresh.id)
            return
        self._log.warning("delivery_told_again", delivery=opened.id, agent=opened.identity, again_of=fresh.id)
        self._poke()

    async def _was_read(self, unknown: Delivery, told: Sequence[WakeEvent]) -> bool:
        """Whether any of the mail that it told of was read, which is then written down. Raises `SourceError`."""
        mail = [one.detail.message_id for one in told if isinstance(one.detail, MessageDetail) and not is_signed(one)]
        states = await self._queries.mail_states([(message_id, unknown.identity) for message_id in mail])
        is_read = any(state.is_read for state in states.values())
        if is_read:
            self._tracer.note(unknown, Proof.ACKNOWLEDGED, "mail read")
        return is_read

    async def _mail_of(self, unknown: Delivery) -> list[WakeEvent]:
        return [one for one in await events_of(self._ledger, unknown.id) if isinstance(one.detail, MessageDetail)]


def looked_for_of(settings: EngineSettings) -> int:
    """Milliseconds for which a wake of unknown outcome is looked for before anything else comes of it."""
    return settings.unknown_again_ms or LOOKED_FOR
