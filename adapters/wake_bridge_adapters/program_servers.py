"""The servers in the programs of a harness that were met, one connection each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from wake_bridge.ports.clock import Clock
from wake_bridge_adapters.loopback import Listener, listeners_of
from wake_bridge_adapters.recorded import NotThere, Program

STRANGER_LASTS: Final = 30_000
"""Milliseconds before a program that is no known server is asked again who it is."""

SERVERLESS_LASTS: Final = 5_000
"""The same where a program has no server: it may only be starting."""


class Openable(Protocol):
    """A connection."""

    @property
    def is_open(self) -> bool:
        """Whether anything can still come through it."""


Server = TypeVar("Server", bound=Openable)


class ProgramServers(Generic[Server]):
    """Connections to the servers of programs.

    Args:
        connect: opens one to what a program has at an address; raises `NotThere`.
        advice: what is said of a program that has no server.
    """

    def __init__(self, connect: Callable[[Program, Listener], Awaitable[Server]], advice: str, clock: Clock) -> None:
        self._connect = connect
        self._advice = advice
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._open: dict[Program, Server] = {}
        self._troubles: dict[Program, tuple[NotThere, int]] = {}

    async def of(self, program: Program) -> Server:
        """The connection to a program's server.

        Raises:
            NotThere: it has none, or none that is known.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # a connection lives and dies with its event loop
            self._loop, self._opening, self._open, self._troubles = loop, asyncio.Lock(), {}, {}
        async with self._opening:
            found = self._open.get(program)
            if found is not None and found.is_open:
                return found
            trouble, again_at = self._troubles.get(program, (None, 0))
            if trouble is not None and self._clock.now() < again_at:
                raise trouble
            self._troubles.pop(program, None)
            self._open = {one: server for one, server in self._open.items() if server.is_open}
            self._open[program] = await self._opened(program)
            return self._open[program]

    def known(self, program: Program) -> Server | None:
        """The connection that is open already; asks nothing."""
        found = self._open.get(program)
        return found if found is not None and found.is_open and self._loop is asyncio.get_running_loop() else None

    async def _opened(self, program: Program) -> Server:
        listeners = await asyncio.to_thread(listeners_of, program.pid)
        trouble = NotThere(self._advice)
        for listener in listeners:
            try:
                return await self._connect(program, listener)
            except NotThere as no:
                trouble = no
        now, lasts = self._clock.now(), STRANGER_LASTS if listeners else SERVERLESS_LASTS
        self._troubles = {one: known for one, known in self._troubles.items() if now < known[1]}
        self._troubles[program] = (trouble, now + lasts)
        raise trouble
