"""Which routes lead to an identity, from configuration, bindings and its newest subscription (DESIGN §§6.1, 7)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from wake_bridge.domain.instants import parse_instant
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.routing import Address, Binding, Expected, Route
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.settings import Current, TargetSettings
from wake_bridge.ports.adapter import Carried, HarnessAdapter


class Routes:
    """Answers with the routes of an identity, in Shape D order.

    Args:
        adapters: the enabled adapters by name.
        current: the settings in force.
        subscriptions_of: the active subscriptions of an identity, as the tail knows them.
        binding_of: where the identity was bound, if it was.
        set_aside: the adapters that are degraded for an identity.
        sessions_of: the conversations of harnesses that are known to be an identity's.
    """

    def __init__(
        self,
        adapters: Mapping[str, HarnessAdapter],
        current: Current,
        subscriptions_of: Callable[[Identity], Sequence[Subscription]],
        binding_of: Callable[[Identity], Binding | None],
        set_aside: Callable[[Identity], Container[str]] = lambda _: (),
        sessions_of: Callable[[Identity], Sequence[Session]] = lambda _: (),
    ) -> None:
        self._adapters = adapters
        self._current = current
        self._subscriptions_of = subscriptions_of
        self._binding_of = binding_of
        self._set_aside = set_aside
        self._sessions_of = sessions_of
        self._carried = {name: one for name, one in adapters.items() if isinstance(one, Carried)}
        for adapter in self._carried.values():
            adapter.ride_on(self.carrier_of)

    def of(self, identity: Identity) -> list[Route]:
        """The routes that exist now; empty where nothing serves the identity.

        Whose subscriptions are all left to the heartbeat, or who has none, is reached by nothing else (DESIGN §7).
        """
        name = self._adapter_name(identity)
        if self._is_left_to_heartbeat(identity) and self.carrier_of(identity) is not None:
            names = [*self._carried] or [name]
        else:
            names = [name]
        address = self._address(identity)
        aside = self._set_aside(identity)
        return [
            Route(one, address, self._adapters[one].capabilities, degraded=one in aside)
            for one in names
            if one in self._adapters
        ]

    def carrier_of(self, identity: Identity) -> HarnessAdapter | None:
        """The adapter with a surface of its own that reaches an identity; None if there is none, or it is set aside."""
        name = self._adapter_name(identity)
        if name in self._carried:
            name = self._current.settings.default_adapter
        return None if name in self._set_aside(identity) else self._adapters.get(name)

    def adapter(self, route: Route) -> HarnessAdapter:
        """The adapter of a route that `of` answered."""
        return self._adapters[route.adapter]

    def missing(self, identity: Identity) -> str:
        """Why `of` is empty, in words a person can act on."""
        installed = ", ".join(sorted(self._adapters)) or "none"
        return (
            f"no adapter named {self._adapter_name(identity)!r} is installed and enabled (there are: {installed}):"
            " correct the subscription or [targets]"
        )

    def _is_left_to_heartbeat(self, identity: Identity) -> bool:
        return all(one.is_heartbeat_only for one in self._subscriptions_of(identity))

    def _newest(self, identity: Identity) -> Subscription | None:
        """Whose word counts for where the identity lives; one that is left to the heartbeat only where no other is."""
        theirs = self._subscriptions_of(identity)
        serving = [one for one in theirs if not one.is_heartbeat_only] or theirs
        return max(serving, key=lambda one: (bool(one.pane), one.updated_at or one.created_at), default=None)

    def _target(self, identity: Identity) -> TargetSettings | None:
        return self._current.settings.targets.get(identity)

    def _adapter_name(self, identity: Identity) -> str:
        target, newest = self._target(identity), self._newest(identity)
        if target is not None:
            return target.adapter
        return (newest.adapter if newest else "") or self._current.settings.default_adapter

    def _is_alone(self, target: TargetSettings | None) -> bool:
        """Whether no other target expects the same harness in the same directory."""
        if target is None or not target.directory:
            return False
        alike = (target.agent, target.directory)
        return [(one.agent, one.directory) for one in self._current.settings.targets.values()].count(alike) == 1

    def _address(self, identity: Identity) -> Address:
        settings = self._current.settings
        target, newest = self._target(identity), self._newest(identity)
        # nobody knows when a variable of the environment was set
        suggested, suggested_written = settings.fallback_pane, EPOCH_START
        if newest is not None and newest.pane:
            suggested, suggested_written = newest.pane, _written(newest)
        return Address(
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
        )


def _written(subscription: Subscription) -> Instant:
    """When a subscription took its present form; long ago if it does not say."""
    return parse_instant(subscription.updated_at) or parse_instant(subscription.created_at) or EPOCH_START
