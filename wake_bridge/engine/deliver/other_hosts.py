"""Sees to what another host drives, many deliveries at once: it waits here in case that host does not tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, Outcome
from wake_bridge.domain.guards import LOOKED_AT_EVERY, OtherDriver
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.engine.deliver.leases import Leases
from wake_bridge.engine.settings import LOGGED_ONE_BY_ONE
from wake_bridge.ports.change_log import IdentityRow, participates
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger


class OtherHosts:
    """Holds and ends deliveries of identities that other hosts drive.

    Contract: it only does sooner, and without a question to graph and adapters, what the gate would do: a hold as that would
    write it, and the end of what was told elsewhere. Whatever it is not sure of is left to the gate.

    Args:
        other_driver: what else drives the same directory, None if nothing does.
        known: every AgentIdentity as it was read last; None where nobody has.
    """

    def __init__(
        self,
        ledger: Ledger,
        leases: Leases,
        clock: Clock,
        other_driver: Callable[[], OtherDriver | None],
        known: Callable[[], Mapping[Identity, IdentityRow] | None],
    ) -> None:
        self._ledger = ledger
        self._leases = leases
        self._clock = clock
        self._other_driver = other_driver
        self._known = known
        self._log = structlog.get_logger("deliver")

    def hold(self, due: Sequence[Delivery]) -> list[Delivery]:
        """Hold those that another host drives and that nobody has looked at yet; answers the others."""
        fresh = [one for one in due if one.state is DeliveryState.PENDING or _is_unseen(one)]
        if not self._leases.are_shared or not fresh or self._other_driver() is not None:
            return list(due)
        now = self._clock.now()
        known = self._known() or {}
        paused = {one.identity for one in self._ledger.pauses(now)}
        holds = {
            one.id: Hold(
                driver.cause.reason, driver.told, next_look_at=Instant(now + LOOKED_AT_EVERY), cause=driver.cause
            )
            for one in fresh
            if not paused & {one.identity, "*"}
            and participates(known.get(one.identity))
            and (driver := self._leases.elsewhere(one.identity)) is not None
            and driver.cause is Cause.OTHER_HOST
        }
        held = self._ledger.hold_fresh(holds, now) if holds else []
        self._report(
            "delivery_held",
            "deliveries_held",
            held,
            [
                {"reason": holds[one.id].reason, "cause": holds[one.id].cause, "detail": holds[one.id].detail}
                for one in held
            ],
        )
        done = {one.id for one in held}
        return [one for one in due if one.id not in done]

    def end(self, told: Sequence[tuple[Identity, str, str]]) -> None:
        """End what other hosts have told: identity, subject key and the host of each."""
        closed = [(identity, key, f"told by the host {host}") for identity, key, host in told]
        over = self._ledger.close_told(closed, self._clock.now()) if closed else []
        self._report(
            "delivery_settled", "deliveries_settled", over, [{"outcome": Outcome.READ, "proof": 0}] * len(over)
        )

    def _report(
        self, of_one: str, of_many: str, deliveries: Sequence[Delivery], facts: Sequence[Mapping[str, object]]
    ) -> None:
        if len(deliveries) > LOGGED_ONE_BY_ONE:
            self._log.info(of_many, count=len(deliveries), **_shared(facts))
            return
        for one, about in zip(deliveries, facts, strict=True):
            self._log.info(of_one, delivery=one.id, agent=one.identity, **about)


def _is_unseen(delivery: Delivery) -> bool:
    return delivery.state is DeliveryState.DISPATCHED and delivery.hold is None


def _shared(facts: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What is the same of all."""
    return {name: value for name, value in facts[0].items() if all(one[name] == value for one in facts)}
