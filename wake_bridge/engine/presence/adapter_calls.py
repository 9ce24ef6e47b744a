"""Calls adapters safely: an answer stands in for one that raises or never answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from wake_bridge.domain.delivery import HoldReason, Proof
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address
from wake_bridge.engine.settings import Current
from wake_bridge.ports.adapter import HarnessAdapter, Nowhere, Place, Trace, Tracer, Wake
from wake_bridge.ports.clock import Clock

Answer = TypeVar("Answer")


class AdapterCalls:
    """The calls of all adapters, each over within a lease: one adapter's trouble holds its own wakes, nobody else's.

    Never raises; what an adapter did instead of answering is logged when it changes.
    """

    def __init__(self, current: Current, clock: Clock) -> None:
        self._current = current
        self._clock = clock
        self._troubles: dict[str, str] = {}

    @cached_property
    def _log(self) -> Any:
        import structlog  # noqa: PLC0415 - a command that looks at panes has nothing to log, and should be quick

        return structlog.get_logger("watch")

    async def resolve(self, adapter: HarnessAdapter, address: Address) -> Place | Nowhere:
        """See `HarnessAdapter.resolve`; nowhere to be reached when there is no answer."""
        answer, trouble = await self._answer(adapter, adapter.resolve(address))
        return answer or Nowhere(HoldReason.UNREACHABLE, trouble)

    async def survey(self, adapter: HarnessAdapter, places: Sequence[Place]) -> Mapping[str, str | None]:
        """See `HarnessAdapter.survey`; no place has a pulse when there is no answer."""
        answer, _ = await self._answer(adapter, adapter.survey(places))
        return answer or {}

    async def observe(self, adapter: HarnessAdapter, place: Place, address: Address) -> Observation:
        """See `HarnessAdapter.observe`; unknown when there is no answer."""
        answer, trouble = await self._answer(adapter, adapter.observe(place, address))
        if answer is not None:
            return answer
        nothing = Evidence("no answer", PresenceState.UNKNOWN, saw=trouble, hold=HoldReason.UNREACHABLE)
        return Observation(self._clock.now(), (nothing,), where=place.label)

    async def trace(self, adapter: HarnessAdapter, place: Place, address: Address, wake: Wake) -> Trace:
        """See `Tracer.trace`; it cannot be told by an adapter that has none, or does not answer."""
        if not isinstance(adapter, Tracer):
            return Trace(Proof.NONE, f"the adapter {adapter.name} cannot look for it")
        answer, trouble = await self._answer(adapter, adapter.trace(place, address, wake))
        return answer or Trace(Proof.NONE, trouble)

    async def _answer(self, adapter: HarnessAdapter, call: Awaitable[Answer]) -> tuple[Answer | None, str]:
        """The answer and no trouble, or the other way round."""
        try:
            async with asyncio.timeout(self._current.settings.lease_ms / 1000):
                answer = await call
        except Exception as broken:  # noqa: BLE001 - whatever it is, the adapter owed an answer
            trouble = f"the adapter {adapter.name} {_told(broken)}"
            if self._troubles.get(adapter.name) != trouble:
                self._log.exception("adapter_broke_promise", adapter=adapter.name)
            self._troubles[adapter.name] = trouble
            return None, trouble
        self._troubles.pop(adapter.name, None)
        return answer, ""


def _told(broken: Exception) -> str:
    if isinstance(broken, TimeoutError):
        return "did not answer in time"
    return f"broke: {type(broken).__name__}: {broken}"
