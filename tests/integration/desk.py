"""An office on a turned clock, and the person who hears what is told of its agents; for tests of attention."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from wake_bridge.domain.attention import Episode, EpisodeElsewhere
from wake_bridge.domain.names import Identity
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.presence import PresenceState
from wake_bridge.engine.attention.notices import Notices
from wake_bridge.ports.human import Told
from wake_bridge.testing.office import Office

SECOND = 1000
STEP = 5
ONE_O_CLOCK = int(datetime.now(UTC).replace(hour=1, minute=0, second=0, microsecond=0).timestamp() * 1000)
AGENT, OTHER = Identity("@agent"), Identity("@other")
DIALOG, IDLE, ACTIVE = PresenceState.WAITING_ON_APPROVAL, PresenceState.IDLE, PresenceState.ACTIVE


class Desk:
    """An office, and the person who hears what is told; `dies` before what was heard is noted as told."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.heard: list[Notice] = []
        self.elsewhere: dict[str, list[EpisodeElsewhere]] = {}
        self.unlinked: set[str] = set()
        self.dies = False
        self.begins()

    def begins(self) -> None:
        self.notices = Notices(
            self.office.ledger,
            self,
            self.office.current,
            self.office.clock,
            active_routes=lambda: 1,
            nudged=lambda: 0,
            known=self.office.tail.known_identities,
            due=self.office.episodes.due,
            given_up=self.office.failed_turns.given_up,
            elsewhere=lambda: self.elsewhere,
            is_linked=lambda host: host not in self.unlinked,
        )

    async def tell(self, notice: Notice) -> Told:
        self.heard.append(notice)
        if self.dies:
            raise asyncio.CancelledError
        return Told("voice")

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(one.identity, one.reason) for one in self.heard]

    async def lets_pass(self, seconds: int) -> None:
        """Look and tell every five seconds, as the daemon does."""
        for _ in range(seconds // STEP):
            await self._passes(STEP * SECOND)

    async def lives_until(self, instant: int, step: int = 40) -> None:
        """Look and tell until then, every so many seconds; what is under way makes the last look at most 3 s late."""
        while (left := instant - self.office.clock.now()) > 0:
            await self._passes(min(left, step * SECOND))

    async def _passes(self, milliseconds: int) -> None:
        self.office.clock.turn(milliseconds)
        await self.office.watch.round()
        await self.office.works()
        self.office.episodes.look(self.office.clock.now())
        await self.office.failed_turns.look(self.office.clock.now())
        self.notices.tick(self.office.clock.now())
        await self.notices.drain()

    async def restarts(self) -> None:
        await self.office.restarts()
        self.begins()

    def configure(self, **changes: object) -> None:
        self.office.current.settings = replace(self.office.current.settings, **changes)  # type: ignore[arg-type]

    def episodes(self, who: Identity = AGENT) -> list[Episode]:
        return self.office.ledger.episodes_of(who, 100)[::-1]


Story = Callable[[Desk], Coroutine[None, None, None]]


def played(
    directory: Path,
    story: Story,
    *,
    agents: Sequence[Identity] = (AGENT,),
    start: int = ONE_O_CLOCK,
    zone: tzinfo = UTC,
    channels: Sequence[str] = (),
) -> None:
    """Play a story at a desk, with `agents` that are woken for mail; each lives in the pane of its name."""

    async def run() -> None:
        office = Office(
            directory, list(dict.fromkeys([*agents, AGENT, OTHER])), start=start, zone=zone, channels=channels
        )
        for one in agents:
            office.subscribe(one, pane=one.removeprefix("@"))
        async with office:
            await story(Desk(office))

    asyncio.run(run())
