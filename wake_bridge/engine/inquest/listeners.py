"""What each subscription of an identity said to a fact, or would have said; for `why`."""

from __future__ import annotations

from dataclasses import replace

from wake_bridge.domain.case import Listener
from wake_bridge.domain.events import EventStatus, Fact, WakeEvent
from wake_bridge.domain.instants import parse_instant
from wake_bridge.domain.matching import MatchingRules, Moment, match
from wake_bridge.domain.names import EPOCH_START, Epoch, Identity, Instant
from wake_bridge.domain.refusals import Refusal, unheard_by
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import Subscription


def listeners_of(
    identity: Identity,
    book: SubscriptionBook,
    fact: Fact | None,
    event: WakeEvent | None,
    happened: Instant,
    rules: MatchingRules,
) -> list[Listener]:
    """What each subscription said: as recorded, else as it would have said it when the thing happened.

    `rules` that know no age are asked: what was young enough then may be too old now, and that says nothing about then.
    """
    recorded = _recorded(event) if event is not None else {}
    present = {one.id: one for one in book.all() if one.identity == identity}
    said = [Listener(one, present.get(one), refusal, is_recorded=True) for one, refusal in recorded.items()]
    if fact is not None:
        others = [one for one in present.values() if one.id not in recorded]
        said += [_would_say(one, book, fact, happened, rules) for one in others]
    return said


def _would_say(
    subscription: Subscription, book: SubscriptionBook, fact: Fact, happened: Instant, rules: MatchingRules
) -> Listener:
    is_younger = 0 < happened < (parse_instant(subscription.created_at) or EPOCH_START)
    is_changed = 0 < happened < (parse_instant(subscription.updated_at) or EPOCH_START)
    deaf = unheard_by(subscription, fact, is_served=book.serves(subscription))
    refusal = None
    if deaf is None:
        alone = SubscriptionBook(embedded=True)
        alone.put(subscription)
        moment = Moment(Epoch(0), happened, happened, str, rules)
        told = match(replace(fact, recipients=(subscription.identity,)), alone, moment)
        refusal = Refusal(told[0].refused_by) if told and told[0].refused_by else None
    return Listener(subscription.id, subscription, refusal, deaf, is_younger=is_younger, is_changed=is_changed)


def _recorded(event: WakeEvent) -> dict[str, Refusal | None]:
    """What the ledger has of each subscription's answer."""
    refused = {one: Refusal(word) for one, word in event.refusals if word in set(Refusal)}
    wanted = (
        () if event.status is EventStatus.REFUSED and refused else (event.subscription_id, *event.other_subscriptions)
    )
    return {**dict.fromkeys(one for one in wanted if one), **refused}
