"""The screen of an identity whose agent is reached past it: who is there, and what stands in the way of beginning a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceState, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import HarnessAdapter, Place

_IN_THE_WAY: Final = {PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL, PresenceState.UNKNOWN}
"""What a screen may show that keeps a wake from going past it."""

ScreenOf = Callable[[Identity], HarnessAdapter | None]


@dataclass(frozen=True, slots=True)
class OwnScreen:
    """The identity's own screen, and who sees it."""

    adapter: HarnessAdapter
    place: Place

    @property
    def agent_pid(self) -> int:
        """The agent's process; 0 where none is known."""
        return self.place.fence.agent_pid if self.place.fence is not None else 0

    async def look(self, address: Address) -> Observation:
        """What it shows now."""
        return await self.adapter.observe(self.place, address)


async def find_screen(screen_of: ScreenOf, address: Address) -> OwnScreen | None:
    """The identity's own screen; None where no adapter finds it."""
    adapter = screen_of(address.identity)
    place = await adapter.resolve(address) if adapter is not None else None
    return OwnScreen(adapter, place) if adapter is not None and isinstance(place, Place) else None


def in_the_way(seen: Observation) -> Evidence | None:
    """What is on the screen instead of an agent at rest, such as a menu from which another conversation may be begun.

    A draft is in nobody's way, nor what tmux says of the pane.
    """
    told = tuple(one for one in seen.evidence if one.weighs and one.hold is None and one.vote in _IN_THE_WAY)
    return single_vote(told) if told else None
