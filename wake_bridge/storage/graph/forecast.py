"""Predicts what will become of a message or a subscription now, by the rules that the daemon matches by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from wake_bridge.config.settings import Settings, matching_rules
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.events import EventStatus, Fact, WakeEvent
from wake_bridge.domain.facts import Past, facts_of
from wake_bridge.domain.matching import MatchContext, match
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import BROADCAST, Epoch, Identity, Instant, LogId, WakePolicy
from wake_bridge.domain.reasons import Refusal, held_because
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import (
    DEFAULT_ADAPTER,
    Subscription,
    parse_subscription,
    why_no_adapter,
)
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.change_log import EdgeRow, LogEntry
from wake_bridge.storage.graph.access import Graph, Node
from wake_bridge.storage.graph.nodes import find_identity, shown_subscription
from wake_bridge.storage.graph.status import book_of

ResolveTarget = Callable[[Subscription], str]
"""Asks a subscription's adapter for its one place, now: empty when there is one, else what is wrong."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What deliverability depends on besides the graph; `resolve_target` None leaves the target itself unasked."""

    settings: Settings
    adapters: Collection[str]
    resolve_target: ResolveTarget | None = None


def judge_subscription(
    node: Node, book: SubscriptionBook, graph: Graph, circumstances: Circumstances
) -> dict[str, Any]:
    """A subscription as the commands print it, with `deliverable` and `why`, and in `note` what goes by a default.

    Args:
        node: where it stands.
        book: all subscriptions of the graph.
        graph: says whether its identity takes part.
        circumstances: what it depends on besides.
    """
    subscription = parse_subscription(node.id, node.properties)
    why = why_undeliverable(subscription, book, graph, circumstances)
    note = "; ".join(f"{one}: the default is taken" for one in subscription.remarks)
    return {**shown_subscription(node), "deliverable": not why, "why": why, "note": note}


def why_undeliverable(
    subscription: Subscription, book: SubscriptionBook, graph: Graph, circumstances: Circumstances
) -> str:
    """What somebody must change before this subscription can wake anyone; empty when nothing.

    A busy or unattended pane is nothing of that kind: its wake is held and comes by itself.
    """
    if why := book.why_unwoken(subscription):
        return why
    if (participation := _participation(graph, subscription)) != "active":
        return f"{subscription.identity} is {participation}"
    why = circumstances.resolve_target(subscription) if circumstances.resolve_target is not None else ""
    # another adapter may lead there although its own does not
    return why and (_why_no_adapter(subscription, circumstances) or why)


def _why_no_adapter(subscription: Subscription, circumstances: Circumstances) -> str:
    config, installed = circumstances.settings.config, circumstances.adapters
    target = config.targets.get(subscription.identity)
    name = target.adapter if target is not None else subscription.adapter or DEFAULT_ADAPTER
    enabled = [one for one in installed if config.adapters.get(one, {}).get("enabled", True)]
    return why_no_adapter(name, enabled, installed)


def _participation(graph: Graph, subscription: Subscription) -> str:
    node = find_identity(graph, subscription.identity)
    if node is None:
        return "no identity of this graph"
    return str(node.properties.get("participationStatus") or "active")


_SILENT_WORDS = frozenset({Refusal.SUPPRESSED, Refusal.SILENT})
PASSING: Final = frozenset({HoldReason.REFRACTORY, HoldReason.STORM})
"""Holds that are over before many a window closes."""

_UNCONCERNED_WORDS = ("filter", "private")


class Forecast:
    """Judges messages as the daemon would.

    Args:
        graph: where the subscriptions are read, once.
        settings: the settings in force.
        now: the wall clock.
        holds: what would hold a wake of an identity with those events now, the first one first.
    """

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        now: Instant,
        holds: Callable[[Identity, Sequence[WakeEvent]], Iterable[Hold]] = lambda *_: (),
    ) -> None:
        self._holds = holds
        self._settings = settings
        self._rules = matching_rules(settings)
        self._moment = MatchContext(epoch=Epoch(1), now=now, wall=now, new_id=str, rules=self._rules)
        self._book = book_of(graph, settings)

    def policy(self, message: Node, identity: Identity) -> WakePolicy:
        """How insistent a message is for one who received it, subscribed or not."""
        event = self._event(message, identity)
        if event is not None and event.refused_by in _SILENT_WORDS:
            return WakePolicy.SILENT
        if event is not None and not event.refused_by.startswith(_UNCONCERNED_WORDS):
            return event.policy
        return self._policy_without_subscription(message, identity)

    def expected_outcome(self, message: Node, identity: Identity) -> str:
        """What will come of a message that was just sent, in one clause."""
        event = self._event(message, identity)
        if event is None:
            hold = self._book.nothing_serves(identity)
            if hold is None or hold.cause is Cause.NOT_SUBSCRIBED:
                return f"{identity} has no subscription for mail: it waits in the inbox"
            return f"{identity} is not woken ({hold.detail}): it waits in the inbox"
        if event.status is EventStatus.REFUSED:
            return f"{identity} is not woken ({event.refused_by}): it waits in the inbox"
        if (hold := self._book.nothing_serves(identity)) is not None:
            return f"{identity} is not woken ({hold.detail}): it waits in the inbox"
        if why := self._book.why_left_to_heartbeat(identity):
            return f"{identity} is not woken ({why}): it waits in the inbox"
        if event.policy is WakePolicy.NEXT_TURN:
            return f"{identity} finds it at its next turn"
        due_at = self._moment.now + event.window * 1000
        for hold in self._holds(identity, [event]):
            if hold.reason not in PASSING or hold.next_look_at > due_at:
                return f"{identity} is not woken now: {held_because(hold, identity)}; {hold.remedy(identity)}"
        return f"{identity} is due {'at once' if event.window == 0 else f'in {event.window} s'}"

    def _event(self, message: Node, identity: Identity) -> WakeEvent | None:
        fact = _fact(message, identity)
        events = match(fact, self._book, self._moment) if fact is not None else []
        return events[0] if events else None

    def _policy_without_subscription(self, message: Node, identity: Identity) -> WakePolicy:
        fact = _fact(message, identity)
        if fact is None or fact.message is None:
            return WakePolicy.NEXT_TURN
        if fact.message.wake_suppressed:
            return WakePolicy.SILENT
        has_target = identity in self._settings.config.targets
        default = self._rules.default_policy or (WakePolicy.IMMEDIATE if has_target else WakePolicy.NEXT_TURN)
        return fact.message.wake_policy or default


def _fact(message: Node, identity: Identity) -> Fact | None:
    """The message as the log would show it to one recipient, unread."""
    kind = "DELIVERED_TO" if message.properties.get("to") == BROADCAST else "SENT_TO"
    entry = LogEntry(
        log_id=LogId(0),
        entity_type="edges",
        entity_id="",
        edge=EdgeRow("", message.id, identity, kind, {}),
        message={**message.properties, "readAt": None},
    )
    facts = facts_of(entry, Past(seen_at=Instant(0)))
    return None if isinstance(facts, Unusable) or not facts else facts[0]
