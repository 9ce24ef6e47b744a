"""All subscriptions of a graph: which there are, and which of them listen to a trigger, serve an identity or wake nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Identity, Trigger
from wake_bridge.domain.subscriptions import UNSUBSCRIBED, Subscription, serves, why_unwoken


class SubscriptionBook:
    """All subscriptions of a graph, and an index of those that match: active, ours to serve, with a known trigger.

    Args:
        embedded: whether the graph is our own.
        serve: further harnessTargets to serve on a foreign graph.
        has_target: whether a `[targets]` entry says where an identity lives.
        is_placed: whether the adapter of a subscription that can wake, or another channel, is there to do it.
        unusable: the adapters of receivers that cannot send here, each with why.
        judged_by: the rules by which these two judge now: what was counted by the same is not counted again.
    """

    def __init__(
        self,
        *,
        embedded: bool,
        serve: Collection[str] = (),
        has_target: Callable[[Identity], bool] = lambda _: False,
        is_placed: Callable[[Subscription], bool] = lambda _: True,
        unusable: Mapping[str, str] = MappingProxyType({}),
        judged_by: Callable[[], object] = object,
    ) -> None:
        self._judged_by = judged_by
        self._counted: tuple[object, frozenset[Identity], int, list[Identity]] | None = None
        self._unusable = unusable
        self._has_target = has_target
        self._is_placed = is_placed
        self._embedded = embedded
        self._serve = frozenset(serve)
        self._all: dict[str, Subscription] = {}
        self._listening: dict[Trigger, dict[Identity, dict[str, Subscription]]] = {trigger: {} for trigger in Trigger}
        self._serving: dict[Identity, dict[str, Subscription]] = {}
        self._routes: set[str] = set()
        self._with_target_only: set[str] = set()

    def put(self, subscription: Subscription) -> None:
        """Add a subscription, or replace the one of that id."""
        self.remove(subscription.id)
        self._all[subscription.id] = subscription
        self._counted = None
        if not (subscription.is_active and self.serves(subscription)):
            return
        if not subscription.identity or subscription.trigger is None:
            return
        if not subscription.is_signed:
            self._listening[subscription.trigger].setdefault(subscription.identity, {})[subscription.id] = subscription
        self._serving.setdefault(subscription.identity, {})[subscription.id] = subscription
        if not subscription.is_heartbeat_only:
            is_unwoken = self._why_unwoken(subscription, has_target=False)
            (self._with_target_only if is_unwoken else self._routes).add(subscription.id)

    def remove(self, subscription_id: str) -> bool:
        """Forget one; answers whether it was known."""
        known = self._all.pop(subscription_id, None)
        if known is None:
            return False
        self._counted = None
        self._routes.discard(subscription_id)
        self._with_target_only.discard(subscription_id)
        if known.trigger is not None:
            _drop(self._listening[known.trigger], known)
        _drop(self._serving, known)
        return True

    def serves(self, subscription: Subscription) -> bool:
        """Whether it is ours to serve on this graph."""
        return serves(subscription, embedded=self._embedded, serve=self._serve)

    def why_unwoken(self, subscription: Subscription) -> str:
        """What somebody must change before it can wake anyone, as far as graph and configuration say; empty when nothing."""
        return self._why_unwoken(subscription, has_target=self._has_target(subscription.identity))

    def _why_unwoken(self, subscription: Subscription, *, has_target: bool) -> str:
        return why_unwoken(
            subscription,
            embedded=self._embedded,
            serve=self._serve,
            has_target=has_target,
            unusable=self._unusable,
        )

    def nothing_serves(self, identity: Identity) -> Hold | None:
        """Why none of the identity's subscriptions wakes it, or that it has none; None where one does, or the heartbeat."""
        if self._has_target(identity):
            return None
        theirs: Iterable[Subscription] = [one for one in self.of(identity) if not one.is_heartbeat_only]
        if not self.of(identity):
            theirs = [one for one in self._all.values() if one.identity == identity and one.status != "removed"]
            if not theirs:
                return Hold(HoldReason.NO_ADAPTER, UNSUBSCRIBED, cause=Cause.NOT_SUBSCRIBED)
        whys = [(self.why_unwoken(one), one) for one in theirs]
        if not whys or not all(why for why, _ in whys):
            return None
        why, first = whys[0]
        cause = Cause.NOBODY_PUSHES
        if not first.is_active:
            cause = Cause.NOT_ACTIVE
        elif not self.serves(first):
            cause = Cause.OWN_SERVER
        elif first.trigger is None:
            cause = Cause.NO_ADAPTER
        return Hold(HoldReason.NO_ADAPTER, why, cause=cause)

    def why_left_to_heartbeat(self, identity: Identity) -> str:
        """Why the heartbeat alone speaks to an identity that has subscriptions; empty where something else does."""
        theirs = self.of(identity)
        return self.why_unwoken(theirs[0]) if theirs and all(one.is_heartbeat_only for one in theirs) else ""

    def get(self, subscription_id: str) -> Subscription | None:
        """One subscription, matching or not."""
        return self._all.get(subscription_id)

    def all(self) -> tuple[Subscription, ...]:
        """Every subscription, matching or not."""
        return tuple(self._all.values())

    def listening(self, identity: Identity, trigger: Trigger) -> tuple[Subscription, ...]:
        """The identity's matching subscriptions with that trigger."""
        return tuple(self._listening[trigger].get(identity, {}).values())

    def of(self, identity: Identity) -> tuple[Subscription, ...]:
        """The identity's matching subscriptions, whatever their trigger."""
        return tuple(self._serving.get(identity, {}).values())

    def watchers_of(self, watched: Identity) -> tuple[Subscription, ...]:
        """The matching subscriptions to an agent's presence."""
        return tuple(
            one
            for theirs in self._listening[Trigger.PRESENCE].values()
            for one in theirs.values()
            if one.identity != watched and (not one.filters.senders or watched in one.filters.senders)
        )

    def identities_for(self, trigger: Trigger) -> tuple[Identity, ...]:
        """Everyone with a matching subscription with that trigger."""
        return tuple(self._listening[trigger])

    def identities(self) -> frozenset[Identity]:
        """Everyone who can be woken, not only stored for."""
        return self._count()[1]

    def can_wake(self, identity: Identity) -> bool:
        """Whether it is one of `identities`."""
        theirs = self._serving.get(identity, {}).keys()
        return not theirs.isdisjoint(self._routes) or (
            self._has_target(identity) and not theirs.isdisjoint(self._with_target_only)
        )

    def subscribed(self) -> frozenset[Identity]:
        """Everyone with an active subscription, whoever serves it."""
        return frozenset(one.identity for one in self._all.values() if one.is_active)

    @property
    def active_routes(self) -> int:
        """How many subscriptions can wake somebody, not only store, by an adapter that is there."""
        return self._count()[2] - len(self.unplaced())

    def unplaced(self) -> list[Identity]:
        """Whose each subscription is that could wake, and names an adapter that is not there."""
        return self._count()[3]

    def _count(self) -> tuple[object, frozenset[Identity], int, list[Identity]]:
        """Who can be woken, by how many subscriptions, and whose name an adapter that is not there."""
        rules = self._judged_by()
        if self._counted is None or self._counted[0] is not rules:
            lifted_by_targets = (one for one in self._with_target_only if self._has_target(self._all[one].identity))
            able = [self._all[one] for one in (*self._routes, *lifted_by_targets)]
            unplaced = [one.identity for one in able if not self._is_placed(one)]
            self._counted = rules, frozenset(one.identity for one in able), len(able), unplaced
        return self._counted


def _drop(index: dict[Identity, dict[str, Subscription]], subscription: Subscription) -> None:
    of_identity = index.get(subscription.identity)
    if of_identity is None:
        return
    of_identity.pop(subscription.id, None)
    if not of_identity:
        del index[subscription.identity]
