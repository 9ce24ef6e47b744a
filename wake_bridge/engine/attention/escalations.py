"""The watchdog of wakes that have to be answered: past the deadline each passes to a person, by the configured channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Final

import structlog

from wake_bridge.domain.channels import SendOutcome, beside, by_default, told_of
from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, was_called
from wake_bridge.domain.errors import IllegalTransition, SourceError, StaleLease
from wake_bridge.domain.escalation import Way, axes_of, escalation_messages, way_of
from wake_bridge.domain.events import ItemDetail, WakeEvent, answers_to
from wake_bridge.domain.names import MINUTE, Identity, Instant
from wake_bridge.domain.notices import ESCALATED, about_escalation
from wake_bridge.domain.sessions import Session
from wake_bridge.engine.deliver.relevance import JudgedEvents, judge_events
from wake_bridge.engine.deliver.settle import settle_and_log
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.settings import Current
from wake_bridge.ports.ledger import Ledger

WAITS_FOR_GRAPH: Final = MINUTE
"""Milliseconds past the deadline for which the graph is waited for: whether the mail was read, it alone knows."""


class Escalations:
    """Looks for wakes whose time to be answered is over, and for what has become of those that passed to a person.

    Contract: `tick` may be called at any time and any number of times, by several processes: each move is a compare-and-swap.
    The messages are written down in the transaction that takes the wake from its agent, so that no crash loses them; nothing is
    sent here.

    Args:
        known: the identities of the graph.
        is_over: whether nobody can have answered any more, of a wake whose own time is over: another host may have it. None
            where this host has them all.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: GraphQueries,
        current: Current,
        known: Callable[[], Container[Identity]],
        is_over: Callable[[Delivery, Instant], Awaitable[bool]] | None = None,
    ) -> None:
        self._ledger = ledger
        self._queries = queries
        self._current = current
        self._known = known
        self._is_over = is_over
        self._log = structlog.get_logger("notices")

    async def tick(self, now: Instant) -> None:
        """Take from their agents what is overdue, and settle what a person was told of. Raises `LedgerError`."""
        for delivery in self._ledger.overdue(now):
            try:
                await self._look(delivery, now)
            except (StaleLease, IllegalTransition):
                self._log.info("stale_lease", delivery=delivery.id)
        for delivery in self._ledger.escalated():
            self._conclude(delivery, now)

    async def _look(self, delivery: Delivery, now: Instant) -> None:
        events = self._ledger.events_of(delivery.id)
        try:
            judged = await judge_events(self._queries, self._ledger, delivery.identity, events)
        except SourceError:
            if now < (delivery.ack_by or now) + WAITS_FOR_GRAPH:
                return
            judged = JudgedEvents(tuple(events))
        if judged.unanswered and self._is_over is not None and not await self._is_over(delivery, now):
            return
        if judged.unanswered:
            self._escalate(delivery, judged.unanswered, now)
        else:
            self._settle(delivery, judged, now)

    def _settle(self, delivery: Delivery, judged: JudgedEvents, now: Instant) -> None:
        """The mail was read, or is gone: nobody need be told."""
        judged.write_ends(self._ledger, now)
        if delivery.awaits_ack and judged.any_read:
            outcome, proof = Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED
        else:
            outcome, proof = Outcome.READ if judged.any_read else Outcome.EMPTY, Proof.NONE
        evidence = {"by": "mail read"} if judged.any_read else {}
        settle_and_log(self._ledger, self._log, delivery, outcome, proof, evidence, now)

    def _escalate(self, delivery: Delivery, events: Sequence[WakeEvent], now: Instant) -> None:
        settings = self._current.settings
        is_called = was_called(self._ledger.journal_of(delivery.id))
        notice = about_escalation(delivery, events, now, self._known(), is_called=is_called)
        default = by_default(settings.channels) or settings.human
        sends = escalation_messages(notice, settings.escalation, settings.channels, default, now)
        if _answers_to(events):
            # the host that wants the answer tells its person
            sends = []
        session = self._session_of(events[0])
        if (
            sends
            and session is not None
            and way_of(axes_of(events[0]).escalated(), has_session=True) is Way.CONVERSATION
        ):
            sends = [beside(sends[0], session)]
        after = self._ledger.escalate(delivery, notice, sends, now)
        self._log.warning(
            "delivery_escalated",
            delivery=delivery.id,
            agent=delivery.identity,
            reason=delivery.hold.reason if delivery.hold else None,
            channel=sends[0].channel if sends else _answers_to(events),
            lease=after.owner_lease,
        )

    def _session_of(self, event: WakeEvent) -> Session | None:
        """The conversation that it is tied to, while that is known."""
        item = event.detail
        return self._ledger.session(item.session_id) if isinstance(item, ItemDetail) and item.session_id else None

    def _conclude(self, delivery: Delivery, now: Instant) -> None:
        sends = [one for one in self._ledger.sends_about(delivery.id) if one.reason == ESCALATED]
        is_told = any(one.outcome is SendOutcome.SENT for one in sends) or bool(
            not sends and _answers_to(self._ledger.events_of(delivery.id))
        )
        if not is_told and any(one.outcome is None for one in sends):
            return
        why_not = "" if is_told else "; ".join(dict.fromkeys(f"{one.channel}: {told_of(one)}" for one in sends))
        try:
            after = self._ledger.settle_escalation(delivery, why_not or ("" if is_told else "no channel"), now)
        except StaleLease:
            return
        report = self._log.error if after.state is DeliveryState.FAILED else self._log.info
        report(
            "delivery_settled",
            delivery=delivery.id,
            agent=delivery.identity,
            outcome=after.outcome,
            reason=why_not or None,
        )


def _answers_to(events: Sequence[WakeEvent]) -> str:
    """The link of the host that wants the answer; empty where this one does."""
    return next((link for one in events if (link := answers_to(one.detail))), "")
