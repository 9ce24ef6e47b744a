"""Takes signed wakes in: what a sender reports becomes events in the ledger, like a row of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from wake_bridge.domain.events import (
    Fact,
    Message,
    MessageDetail,
    PulseDetail,
    WakeEvent,
)
from wake_bridge.domain.matching import MatchContext, MatchingRules, match
from wake_bridge.domain.names import (
    SECOND,
    TRIGGER_OF,
    Epoch,
    EventKind,
    Identity,
    Instant,
    LogId,
    WakePolicy,
    parse_instant,
)
from wake_bridge.domain.signed_wakes import NotHere, subject_key_of
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.tail.tail import EventNotifier
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import Emission, NewId, Taken

if TYPE_CHECKING:
    from wake_bridge.engine.tail.reported_events import ReportedEvent
    from wake_bridge.schemas.incoming import Incoming

_NO_ROW: Final = LogId(0)


class SignedWakes:
    """Takes verified wakes in.

    Contract: what `take` answers is on disk. The sender has matched; here the rules of this host have their say: policy,
    window, age. What is read is not known here.

    Args:
        rules: the matching rules in force.
        epoch: the present life of the source; 0 before anybody knows who lives here.
        lives_here: whether an identity can have a place on this host.
        notifier: told of the events that are new.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        new_id: NewId,
        *,
        rules: Callable[[], MatchingRules],
        epoch: Callable[[], Epoch],
        lives_here: Callable[[Identity], bool],
        notifier: EventNotifier,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._rules = rules
        self._epoch = epoch
        self._lives_here = lives_here
        self._notifier = notifier
        self._log = structlog.get_logger("tail")

    async def take(self, sender: str, wake: Incoming, body: str, *, is_followed: bool = False) -> Taken:
        """Take a wake in that its sender may send; answers what it was.

        Args:
            sender: whose signature it bears, by its name in the configuration.
            wake: what it says.
            body: the SHA-256 of its bytes, in hex.
            is_followed: the sender asks what became of it, and tells its own person: what it says of an answer holds here.

        Raises:
            NotHere: the identity does not live here.
            LedgerError: it could not be written down.
        """
        identity = Identity(wake.agent_identity)
        if not self._epoch():
            raise NotHere(is_starting=True)
        # of one that has moved away since, its sender must not hear that nothing came of what was taken in
        if not self._lives_here(identity) and not self._ledger.knows_emission(sender, wake.event_id):
            raise NotHere
        now = self._clock.now()
        emitted_at = parse_instant(wake.emitted_at) or now
        emission = Emission(sender, wake.event_id, body, emitted_at)
        taken, new = self._ledger.take_in(
            emission, self._events(sender, wake, identity, emitted_at, is_followed=is_followed), now
        )
        self._log.info("wake_taken_in", sender=sender, agent=identity, event_id=wake.event_id, was=taken.value)
        await self._notifier.notify(new)
        return taken

    def _events(
        self, sender: str, wake: Incoming, identity: Identity, emitted_at: Instant, *, is_followed: bool
    ) -> list[WakeEvent]:
        # pydantic and the models are 11 MB, and most daemons are sent no wakes
        from wake_bridge.engine.tail.reported_events import reported_events  # noqa: PLC0415

        rules = self._rules()
        moment = MatchContext(self._epoch(), self._clock.now(), self._clock.wall(), self._new_id, rules)
        events: dict[str, WakeEvent] = {}
        for told in reported_events(wake, identity, emitted_at):
            book = SubscriptionBook(embedded=True)
            book.put(Subscription(wake.subscription_id, identity, TRIGGER_OF[told.kind]))
            asked = told if is_followed else replace(told, ack_within=None)
            for event in match(_fact(asked, sender, identity), book, moment):
                if told.kind is EventKind.PULSE and event.policy is WakePolicy.IMMEDIATE:
                    # only mail is matched with its time: an item brings its own
                    event = replace(event, ack_within=(asked.ack_within or 0) * SECOND)  # noqa: PLW2901
                events.setdefault(event.subject_key, event)
        return list(events.values())


def _fact(told: ReportedEvent, sender: str, identity: Identity) -> Fact:
    """A fact that the sender has matched: whose doing it was is judged there."""
    message, detail = None, told.detail
    if told.kind is EventKind.MESSAGE:
        message = Message(told.subject, "", identity, priority=told.priority, ack_within=told.ack_within)
    if told.ack_within is not None and isinstance(detail, MessageDetail | PulseDetail):
        detail = replace(detail, answers_to=sender)
    return Fact(
        log_id=_NO_ROW,
        kind=told.kind,
        trigger=TRIGGER_OF[told.kind],
        recipients=(identity,),
        subject_key=subject_key_of(sender, told.subject),
        detail=detail,
        occurred_at=told.at,
        message=message,
    )
