"""Wakes that were pushed to an MCP client: a push may be dropped without a word, so the agent must be seen to act on it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

import structlog

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Hold, Outcome, Progress, Proof, Step, progress_in
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.receivers import ACTS_WITHIN, PUSH, ReceiverStanding
from wake_bridge.engine.deliver.relevance import news_of
from wake_bridge.engine.deliver.settle import settle_and_log
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger

LOOK_EVERY: Final = 2_000
"""Milliseconds between two looks at what an agent has done since."""

NO_SIGN: Final = f"it was pushed a wake, and its agent did nothing for {ACTS_WITHIN // 1000} s"

_AT_WORK: Final = frozenset({PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL})


class Pushes:
    """What becomes of a push: it stays LOCKED until its agent was seen to act, or its time is over.

    Then the next route takes its events, and the client is left alone until it shows that it acts on pushes.

    Args:
        acted: what an identity's agent was told to have done since an instant, a few words; empty for nothing.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        routes: Routes,
        watch: Watch,
        current: Current,
        clock: Clock,
        acted: Callable[[Identity, Instant], str],
    ) -> None:
        self._ledger = ledger
        self._queries = queries
        self._routes = routes
        self._watch = watch
        self._current = current
        self._clock = clock
        self._acted = acted
        # what was done while no daemon ran nobody has seen: time begins anew with this one
        self._began = clock.now()
        self._worked_at: dict[str, Instant] = {}
        self._log = structlog.get_logger("deliver")

    def sent(self, delivery: Delivery, proof: Proof, by: str) -> Delivery:
        """A LOCKED delivery was pushed, or may have been; answers where it stands then."""
        now = self._clock.now()
        if proof:
            self._ledger.raise_proof(delivery.id, proof, {"by": by}, now)
        self._log.info("delivery_pushed", agent=delivery.identity, where=delivery.where, proof=int(proof), by=by)
        return self._keep(self._ledger.delivery(delivery.id) or delivery)

    async def take(self, delivery: Delivery) -> Delivery:
        """Look what has become of a LOCKED delivery; answers where it stands then. Raises `SourceError`."""
        now, journal = self._clock.now(), self._ledger.journal_of(delivery.id)
        if progress_in(journal) is not Progress.MAYBE_SUBMITTED:
            # nothing has left
            again = Hold(HoldReason.UNKNOWN, "taken up again after a stop", "", now, Cause.TAKEN_UP_AGAIN)
            return self._ledger.release(delivery, again, now, is_attempt=False)
        pushed_at = max(one.at for one in journal if one.step is Step.INTENT_SUBMIT)
        news = await news_of(self._queries, self._ledger, delivery.id, delivery.identity)
        if not news.candidates:
            news.judged.write_ends(self._ledger, now)
            if news.judged.any_read:
                return self._settle(delivery, Proof.ACKNOWLEDGED, "mail read")
            return settle_and_log(self._ledger, self._log, delivery, Outcome.EMPTY, Proof.NONE, {}, now)
        if by := self._began_since(delivery, pushed_at):
            return self._settle(delivery, Proof.SUBMITTED, by)
        if now < self._ends_at(delivery, pushed_at):
            return self._keep(delivery)
        return self._give_up(delivery, news.candidates)

    def keep_only(self, unsettled: Container[str]) -> None:
        """Forget what was seen for all other deliveries: they ended without a look."""
        self._worked_at = {one: at for one, at in self._worked_at.items() if one in unsettled}

    def take_up(self, identity: Identity) -> None:
        """A client has shown that it knows what a push is: the identity's are pushed to again."""
        for receiver in self._routes.receivers_of(identity):
            if receiver.adapter == PUSH and self._ledger.forget_receiver(receiver.subscription_id):
                self._log.info("receiver_restored", agent=identity, subscription=receiver.subscription_id)

    def _began_since(self, delivery: Delivery, pushed_at: Instant) -> str:
        """What shows that the agent was woken; empty while nothing does."""
        if told := self._acted(delivery.identity, pushed_at):
            return told
        seen = self._watch.sighted(delivery.identity)
        if seen is None or seen.looks_like not in _AT_WORK:
            return ""
        if seen.since >= pushed_at:
            return f"a turn began: {seen.adapter}"
        # a turn that ran before keeps the client, and every other route, from beginning one
        self._worked_at[delivery.id] = self._clock.now()
        return ""

    def _ends_at(self, delivery: Delivery, pushed_at: Instant) -> Instant:
        """When the next route takes it."""
        since = max(pushed_at, self._worked_at.get(delivery.id, EPOCH_START))
        # a clock that was set back delays nothing for ever
        since = min(max(since, self._began), self._clock.now())
        return Instant(since + ACTS_WITHIN)

    def _settle(self, delivery: Delivery, proof: Proof, by: str) -> Delivery:
        self._worked_at.pop(delivery.id, None)
        now = self._clock.now()
        return settle_and_log(self._ledger, self._log, delivery, Outcome.SUBMITTED, proof, {"by": by}, now)

    def _keep(self, delivery: Delivery) -> Delivery:
        now = self._clock.now()
        look_at = Instant(now + LOOK_EVERY)
        hold = Hold(HoldReason.UNKNOWN, "pushed; its agent has not begun yet", delivery.where, look_at, Cause.PUSHED)
        return self._ledger.renew(delivery, Instant(look_at + self._current.settings.lease_ms), hold, now)

    def _give_up(self, delivery: Delivery, events: Sequence[WakeEvent]) -> Delivery:
        """Leave the client alone, and its wake to the next route: in this order, so that a crash between leaves neither out."""
        now = self._clock.now()
        self._worked_at.pop(delivery.id, None)
        route = self._routes.locked_for(delivery)
        receiver = route.address.receiver if route is not None else None
        if receiver is not None:
            self._ledger.note_receiver(
                ReceiverStanding(receiver.subscription_id, receiver.as_of, failures=1, suspended_at=now, why=NO_SIGN)
            )
            self._log.warning(
                "receiver_suspended",
                agent=delivery.identity,
                subscription=receiver.subscription_id,
                where=delivery.where,
                reason=NO_SIGN,
                failures=1,
            )
        # whom nothing else can ever wake is told again once the client acts, or a person says so
        has_next = route is not None and (
            not self._routes.is_only_posted(delivery.identity) or bool(self._routes.receivers_after(route, events))
        )
        hold = Hold(HoldReason.UNREACHABLE, NO_SIGN, delivery.where, now, Cause.PUSH_UNANSWERED)
        return self._ledger.release(
            delivery,
            hold,
            now,
            is_attempt=False,
            idempotent=route is None or route.capabilities.needs_sign,
            passed_by=receiver.subscription_id if has_next and receiver is not None else "",
        )
