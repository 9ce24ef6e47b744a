"""Which routes lead to an identity, from configuration, bindings and its newest subscription (DESIGN §§6.1, 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wake_bridge.domain.instants import parse_instant
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.routing import Address, Binding, Route
from wake_bridge.domain.subscriptions import HEARTBEAT_TARGETS, Subscription
from wake_bridge.engine.settings import Current, TargetSettings
from wake_bridge.ports.adapter import HarnessAdapter


class Routes:
    """Answers with the routes of an identity, in Shape D order.

    Args:
        adapters: the enabled adapters by name.
        current: the settings in force.
        subscriptions_of: the active subscriptions of an identity, as the tail knows them.
        binding_of: where the identity was bound, if it was.
    """

    def __init__(
        self,
        adapters: Mapping[str, HarnessAdapter],
        current: Current,
        subscriptions_of: Callable[[Identity], Sequence[Subscription]],
        binding_of: Callable[[Identity], Binding | None],
    ) -> None:
        self._adapters = adapters
        self._current = current
        self._subscriptions_of = subscriptions_of
        self._binding_of = binding_of

    def of(self, identity: Identity) -> list[Route]:
        """The routes that exist now; empty where nothing serves the identity."""
        target = self._current.settings.targets.get(identity)
        newest = self._newest(identity)
        name = self._adapter_name(target, newest)
        adapter = self._adapters.get(name)
        if adapter is None:
            return []
        return [Route(name, self._address(identity, target, newest), adapter.capabilities)]

    def adapter(self, route: Route) -> HarnessAdapter:
        """The adapter of a route that `of` answered."""
        return self._adapters[route.adapter]

    def missing(self, identity: Identity) -> str:
        """Why `of` is empty, in words a person can act on."""
        name = self._adapter_name(self._current.settings.targets.get(identity), self._newest(identity))
        installed = ", ".join(sorted(self._adapters)) or "none"
        return f"no adapter named {name!r} is installed and enabled (there are: {installed}): correct the subscription or [targets]"

    def _newest(self, identity: Identity) -> Subscription | None:
        serving = [one for one in self._subscriptions_of(identity) if one.harness_target not in HEARTBEAT_TARGETS]
        return max(serving, key=lambda one: (bool(one.pane), one.updated_at or one.created_at), default=None)

    def _adapter_name(self, target: TargetSettings | None, newest: Subscription | None) -> str:
        if target is not None:
            return target.adapter
        return (newest.adapter if newest else "") or self._current.settings.default_adapter

    def _address(self, identity: Identity, target: TargetSettings | None, newest: Subscription | None) -> Address:
        settings = self._current.settings
        # nobody knows when a variable of the environment was set
        suggested, suggested_written = settings.fallback_pane, EPOCH_START
        if newest is not None and newest.pane:
            suggested, suggested_written = newest.pane, _written(newest)
        return Address(
            identity=identity,
            pane=target.pane if target else "",
            socket=target.socket if target else "",
            harness=target.harness if target else "",
            suggested=suggested,
            binding=self._binding_of(identity),
            pane_written=settings.targets_written,
            suggested_written=suggested_written,
            details=newest.details if newest else (),
        )


def _written(subscription: Subscription) -> Instant:
    """When a subscription took its present form; long ago if it does not say."""
    return parse_instant(subscription.updated_at) or parse_instant(subscription.created_at) or EPOCH_START
