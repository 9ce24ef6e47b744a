"""Which routes lead to an identity, from configuration, bindings and its newest subscription."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, Hold
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.hosts import HostDirectory
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, parse_instant
from wake_bridge.domain.receivers import (
    HOST,
    PUSH,
    RECEIVER_TARGETS,
    Receiver,
    ReceiverStanding,
    is_program,
    is_receiver,
    receiver_at,
    receiver_of_key,
)
from wake_bridge.domain.routing import (
    Address,
    Authority,
    Binding,
    Claim,
    Expected,
    RememberedPane,
    Route,
    no_claims,
)
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.subscriptions import Subscription, why_no_adapter
from wake_bridge.engine.settings import Current, TargetSettings
from wake_bridge.ports.adapter import Carried, HarnessAdapter, ScreenServed, Tracer


class Routes:
    """Answers with the routes of an identity, in the order in which they are tried (docs/routes.md).

    Args:
        adapters: the enabled adapters by name.
        current: the settings in force.
        subscriptions_of: the active subscriptions of an identity, as the tail knows them.
        binding_of: where the identity was bound, if it was.
        set_aside: the adapters that are degraded for an identity.
        sessions_of: the conversations of harnesses that are known to be an identity's.
        remembered: where an identity was found before.
        claims: who holds, or held, which pane and which agent.
        everybody: the identities that may have a name to be found by.
        subscribed: the identities with an active subscription; None while nobody knows.
        unserved: why no subscription of an identity wakes it; None where one does, or the heartbeat.
        installed: the adapters that are installed, enabled or not.
        standing: how the receiver of a subscription stands that failed; None for one that works.
        homes: which other host an identity lives on.
    """

    def __init__(
        self,
        adapters: Mapping[str, HarnessAdapter],
        current: Current,
        subscriptions_of: Callable[[Identity], Sequence[Subscription]],
        binding_of: Callable[[Identity], Binding | None],
        set_aside: Callable[[Identity], Container[str]] = lambda _: (),
        sessions_of: Callable[[Identity], Sequence[Session]] = lambda _: (),
        remembered: Callable[[Identity], RememberedPane | None] = lambda _: None,
        claims: Callable[[], Sequence[Claim]] = no_claims,
        everybody: Callable[[], Iterable[Identity]] = tuple,
        subscribed: Callable[[], Container[Identity] | None] = lambda: None,
        unserved: Callable[[Identity], Hold | None] = lambda _: None,
        installed: Collection[str] = (),
        standing: Callable[[str], ReceiverStanding | None] = lambda _: None,
        homes: HostDirectory = HostDirectory(),  # noqa: B008 - a fixed value
    ) -> None:
        self._homes = homes
        self._standing = standing
        self._adapters = adapters
        self._current = current
        self._subscriptions_of = subscriptions_of
        self._binding_of = binding_of
        self._set_aside = set_aside
        self._sessions_of = sessions_of
        self._remembered = remembered
        self._claims = claims
        self._everybody = everybody
        self._subscribed = subscribed
        self._unserved = unserved
        self._installed = installed
        self._natives = [
            name
            for name in sorted(adapters)
            if (can := adapters[name].capabilities).composer_independent
            and not (can.presence_independent or can.per_subscription)
        ]
        self._carried = {name: one for name, one in adapters.items() if isinstance(one, Carried)}
        for adapter in self._carried.values():
            adapter.ride_on(self.carrier_of)
        for other in adapters.values():
            if isinstance(other, ScreenServed):
                other.see_through(self.screen_of)

    def of(self, identity: Identity, receivers: Sequence[Receiver] = ()) -> list[Route]:
        """The routes that exist now; empty where nothing serves the identity.

        Native channels come first, without being configured; then the `receivers`: that of a wake, or all where a person
        asks; then what is configured. Whose subscriptions are all left to the heartbeat, or who has none, is reached by nothing else.
        """
        posted = [route for one in receivers if (route := self.to(identity, one)) is not None]
        ways_in = self._ways_in(identity)
        native = [one for one in ways_in if one.capabilities.composer_independent]
        return [*native, *posted, *(one for one in ways_in if one not in native)]

    def to(self, identity: Identity, receiver: Receiver | None) -> Route | None:
        """The route to a receiver; None where there is none, or no adapter that sends to it."""
        if receiver is None or not self._sends_to(identity, receiver):
            return None
        address = replace(self.address(identity), receiver=receiver)
        return Route(receiver.adapter, address, self._adapters[receiver.adapter].capabilities)

    def locked_for(self, delivery: Delivery) -> Route | None:
        """The route that a delivery was locked for; None where it is there no longer."""
        if not is_receiver(delivery.pane_key):
            return self.by(delivery.identity, delivery.adapter)
        there = receiver_of_key(delivery.pane_key)
        if there is not None:
            # that daemon may have it, wherever the agent lives by now: only a host that was removed cannot be asked any more
            return self.to(delivery.identity, there if self._homes.is_known(there.host) else None)
        theirs = self.receivers_of(delivery.identity)
        return self.to(delivery.identity, next((one for one in theirs if one.place_key == delivery.pane_key), None))

    def is_sent_again(self, delivery: Delivery) -> bool:
        """Whether a LOCKED delivery is sent to its receiver again as it was, because the adapter says that it may be.

        Of an adapter that is there no longer nobody can ask: it sent to a receiver, and nothing else is to be done.
        """
        adapter = self._adapters.get(delivery.adapter)
        if adapter is None:
            return is_program(delivery.pane_key)
        return adapter.capabilities.per_subscription and adapter.capabilities.idempotent

    def receivers_of(self, identity: Identity) -> list[Receiver]:
        """The receivers of an identity: its MCP client, then webhooks, the newest of each first; then the host where it lives."""
        theirs = sorted(
            self._subscriptions_of(identity), key=lambda one: one.updated_at or one.created_at, reverse=True
        )
        receivers = [one.receiver for one in theirs if one.receiver is not None and not one.is_heartbeat_only]
        there = [receiver_at(host, identity)] if (host := self.host_of(identity)) else []
        return [*_in_order(one for one in receivers if self._sends_to(identity, one)), *there]

    def host_of(self, identity: Identity) -> str:
        """The other host whose daemon wakes the identity; empty where it lives here, or nobody says so."""
        host = self._homes.host_of(identity) if HOST in self._adapters else ""
        return "" if host and self.has_place_here(identity) else host

    def conflict_of(self, identity: Identity) -> str:
        """The other host that says as well that the identity lives there; this one serves it. Empty where none does."""
        return self._homes.host_of(identity) if self.has_place_here(identity) else ""

    def has_place_here(self, identity: Identity) -> bool:
        """Whether somebody has said where it lives on this host: a target, a binding, or a pane of a subscription."""
        target = self._target(identity)
        if (target is not None and target.is_place) or self._binding_of(identity) is not None:
            return True
        return any(one.pane for one in self._subscriptions_of(identity))

    def _sends_to(self, identity: Identity, receiver: Receiver) -> bool:
        adapter, target = self._adapters.get(receiver.adapter), self._target(identity)
        is_allowed = receiver.adapter != PUSH or (target is not None and target.mcp_push)
        return is_allowed and adapter is not None and adapter.capabilities.per_subscription

    def receivers_for(self, event: WakeEvent) -> tuple[Receiver, ...]:
        """Where an event may be sent, in order: the receivers of its subscriptions, after the one that has left it."""
        theirs = {one.subscription_id: one for one in self.receivers_of(event.identity)}
        matched = (event.subscription_id, *event.other_subscriptions)
        ways = _in_order(theirs[one] for one in matched if one in theirs)
        ways += [one for one in theirs.values() if one.adapter == HOST]
        left = [one.subscription_id for one in ways]
        if event.passed_by:
            return tuple(ways[left.index(event.passed_by) + 1 :]) if event.passed_by in left else ()
        return tuple(ways)

    def receivers_after(self, route: Route, events: Sequence[WakeEvent]) -> tuple[Receiver, ...]:
        """Which other receivers may be sent what one of them, that of the route, does not take."""
        ways = self.receivers_for(events[0]) if events else ()
        keys = [one.place_key for one in ways]
        return ways[keys.index(route.key) + 1 :] if route.key in keys else ways

    def shut(self, route: Route) -> Hold | None:
        """Why a receiver is left alone for now; None for one that is not, and for every other route."""
        return self.shut_now(route.address.receiver) if route.address.receiver is not None else None

    def shut_now(self, receiver: Receiver) -> Hold | None:
        """Why a receiver is left alone for now; None for one that is not."""
        standing = self.standing_of(receiver)
        # a link says itself whether it is up, and what was handed to it goes no other way
        if standing is None or not standing.is_shut or receiver.adapter == HOST:
            return None
        if standing.degraded_at is not None:
            detail = f"degraded: {standing.why}"
            return Hold(HoldReason.UNREACHABLE, detail, receiver.shown, cause=Cause.RECEIVER_DEGRADED)
        return Hold(
            HoldReason.UNREACHABLE,
            f"suspended: {standing.why}",
            receiver.shown,
            standing.next_try_at,
            Cause.PUSH_UNANSWERED if receiver.adapter == PUSH else Cause.RECEIVER_SUSPENDED,
        )

    def standing_of(self, receiver: Receiver) -> ReceiverStanding | None:
        """How a receiver stands that failed since its subscription was changed last; None for one that works."""
        standing = self._standing(receiver.subscription_id)
        return standing if standing is not None and standing.speaks_of(receiver) else None

    def _ways_in(self, identity: Identity) -> list[Route]:
        return self.through(identity, self.names(identity))

    def names(self, identity: Identity) -> list[str]:
        """The adapters of an identity's routes, in order; the last may be one that is not there."""
        if self._unserved_now(identity) is not None or self.host_of(identity):
            return []
        name = self._adapter_name(identity)
        if self._is_left_to_heartbeat(identity) and self._carrier_name(identity) in self._adapters:
            return [*self._carried] or [name]
        if self.is_only_posted(identity):
            # a receiver that is given up is none: the heartbeat tells of what nothing else does
            is_given_up = all(self._is_given_up(one) for one in self.receivers_of(identity))
            return [*self._natives, *(self._carried if is_given_up else ())]
        return [name] if name in self._natives else [*self._natives, name]

    def by(self, identity: Identity, adapter: str) -> Route | None:
        """The route of one adapter to an identity, whether or not it would be chosen now; None where it is not there."""
        return next(iter(self.through(identity, [adapter])), None)

    def through(self, identity: Identity, adapters: Iterable[str]) -> list[Route]:
        """The routes of several adapters as `by` answers them: where an identity lives is asked once."""
        names = [one for one in adapters if one in self._adapters]
        if not names:
            return []
        address, aside = self.address(identity), self._set_aside(identity)
        return [Route(one, address, self._adapters[one].capabilities, degraded=one in aside) for one in names]

    def authority(self, identity: Identity) -> Authority:
        """What the identity's target allows besides waking it when it is idle."""
        target = self._target(identity)
        return Authority(target.steer, target.may_start_thread) if target is not None else Authority()

    def may_fall_back(self, route: Route) -> bool:
        """Whether what a native route gives back with nothing sent can take another one."""
        identity = route.address.identity
        others = [
            one for one in self.of(identity, self.receivers_of(identity)) if one.key != route.key and not one.degraded
        ]
        return route.capabilities.composer_independent and any(not one.capabilities.last_resort for one in others)

    def carrier_of(self, identity: Identity) -> HarnessAdapter | None:
        """The adapter with a surface of its own that reaches an identity; None if there is none, or it is set aside.

        Always the configured one: a nudge that was begun in a pane must not be looked for in a channel.
        """
        name = self._carrier_name(identity)
        return None if name in self._set_aside(identity) else self._adapters.get(name)

    def screen_of(self, identity: Identity) -> HarnessAdapter | None:
        """The adapter that sees an identity's screen, also while it is set aside; None if there is none."""
        name = self._carrier_name(identity)
        found = self._adapters.get(self._current.settings.default_adapter if name in self._natives else name)
        return None if found is None or found.capabilities.composer_independent else found

    def adapters(self) -> Iterable[HarnessAdapter]:
        """All that are loaded."""
        return self._adapters.values()

    def adapter(self, route: Route) -> HarnessAdapter:
        """The adapter of a route that `of` answered."""
        return self._adapters[route.adapter]

    def can_trace(self, adapter: str) -> bool:
        """Whether what that adapter sent can be looked for later."""
        return isinstance(self._adapters.get(adapter), Tracer)

    def missing(self, identity: Identity) -> Hold | None:
        """Why nothing serves the identity, or that its own adapter is not there; None where neither is so."""
        why = why_no_adapter(self._adapter_name(identity), self._adapters, self._installed)
        # nothing but receivers is named for it: no other adapter is missed
        why = "" if self.is_only_posted(identity) else why
        return self._unserved_now(identity) or (Hold(HoldReason.NO_ADAPTER, why) if why else None)

    def speaks_for(self, identity: Identity) -> Subscription | None:
        """Whose word counts for where the identity lives; one that is left to the heartbeat only where no other is."""
        theirs = self._subscriptions_of(identity)
        serving = [one for one in theirs if not one.is_heartbeat_only] or theirs
        return max(serving, key=lambda one: (bool(one.pane), one.updated_at or one.created_at), default=None)

    def _unserved_now(self, identity: Identity) -> Hold | None:
        hold = self._unserved(identity)
        if hold is None or hold.cause is not Cause.NOT_SUBSCRIBED:
            return hold
        is_placed = self._target(identity) is not None or self._binding_of(identity) is not None
        # who has a place and asked for nothing is left to the heartbeat
        return None if is_placed else hold

    def _carrier_name(self, identity: Identity) -> str:
        name = self._adapter_name(identity)
        return self._current.settings.default_adapter if name in self._carried else name

    def is_only_posted(self, identity: Identity) -> bool:
        """Whether nothing but receivers is named for it, or it lives elsewhere, so that no pane is expected."""
        if self.host_of(identity):
            return True
        wanting = [one for one in self._subscriptions_of(identity) if not one.is_heartbeat_only]
        if not wanting or any(one.receiver is None or one.pane for one in wanting):
            return False
        target = self._target(identity)
        return not (target is not None and target.is_place) and self._binding_of(identity) is None

    def _is_given_up(self, receiver: Receiver) -> bool:
        standing = self.standing_of(receiver)
        return standing is not None and standing.degraded_at is not None

    def _is_left_to_heartbeat(self, identity: Identity) -> bool:
        return all(one.is_heartbeat_only for one in self._subscriptions_of(identity))

    def _target(self, identity: Identity) -> TargetSettings | None:
        return self._current.settings.targets.get(identity)

    def _adapter_name(self, identity: Identity) -> str:
        target, newest = self._target(identity), self.speaks_for(identity)
        if target is not None:
            return target.adapter
        return (newest.adapter if newest else "") or self._current.settings.default_adapter

    def _is_alone(self, target: TargetSettings | None) -> bool:
        """Whether no other target expects the same harness in the same directory."""
        if target is None or not target.directory:
            return False
        alike = (target.agent, target.directory)
        return [(one.agent, one.directory) for one in self._current.settings.targets.values()].count(alike) == 1

    def address(self, identity: Identity) -> Address:
        """All that is configured or known about where an identity can be reached, whoever serves it."""
        settings = self._current.settings
        target, newest = self._target(identity), self.speaks_for(identity)
        # nobody knows when a variable of the environment was set
        suggested, suggested_written = settings.fallback_pane, EPOCH_START
        if newest is not None and newest.pane:
            suggested, suggested_written = newest.pane, _written(newest)
        address = Address(
            identity=identity,
            pane=target.pane if target else "",
            socket=target.socket if target else "",
            harness=target.harness if target else "",
            expected=Expected(target.agent, target.directory) if target else Expected(),
            suggested=suggested,
            binding=self._binding_of(identity),
            pane_written=settings.targets_written,
            suggested_written=suggested_written,
            details=newest.details if newest else (),
            sessions=tuple(self._sessions_of(identity)),
            has_directory_to_itself=self._is_alone(target),
            claims=self._all_claims,
        )
        found = self._remembered(identity)
        # who changes the name means another pane
        is_meant = found is not None and (found.name, found.socket) == (address.name, address.socket)
        return replace(address, remembered=found) if is_meant else address

    def _all_claims(self) -> list[Claim]:
        """What is held, and the name of everybody who has one."""
        subscribed = self._subscribed()
        return [
            *(one for one in self._claims() if subscribed is None or self._may_claim(one.identity, subscribed)),
            *(one for identity in self._everybody() if (one := self._claim_by_name(identity)).name),
        ]

    def _may_claim(self, identity: Identity, subscribed: Container[Identity]) -> bool:
        """Whether anything still says that it is to be woken, or where it lives: else it has left what it held."""
        is_placed = self._target(identity) is not None or self._binding_of(identity) is not None
        return identity in subscribed or is_placed

    def _claim_by_name(self, identity: Identity) -> Claim:
        target, newest = self._target(identity), self.speaks_for(identity)
        suggested = newest.pane if newest is not None else ""
        if target is None:
            return Claim(identity, suggested)
        return Claim(
            identity, target.pane or suggested, target.socket, expected=Expected(target.agent, target.directory)
        )


def _in_order(receivers: Iterable[Receiver]) -> list[Receiver]:
    """As they are tried: sorted by what they are, else as they come."""
    order = list(RECEIVER_TARGETS.values())
    return sorted(receivers, key=lambda one: order.index(one.adapter))


def _written(subscription: Subscription) -> Instant:
    """When a subscription took its present form; long ago if it does not say."""
    return parse_instant(subscription.updated_at) or parse_instant(subscription.created_at) or EPOCH_START
