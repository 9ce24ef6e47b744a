"""Codex's app-server as one held connection: opened when it is needed, opened anew when it ended, with patience."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from adapters.codex.connection import Connection, NotThere, Unfamiliar, connect
from adapters.codex.socket_path import control_socket, where_it_leads, why_not_ours
from wake_bridge.ports.clock import Clock

STRANGER_LASTS: Final = 30_000
"""Milliseconds before a server of an unknown version is asked again who it is."""


class AppServer:
    """The server of one `CODEX_HOME`.

    Args:
        versions: those whose ways are known, by their first two numbers.
        timeout: seconds of one call.
    """

    def __init__(self, home: Path, versions: Sequence[str], timeout: float, clock: Clock) -> None:
        self.home = home
        self._versions = versions
        self._timeout = timeout
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._trouble: NotThere | None = None
        self._again_at = 0

    async def connection(self) -> Connection:
        """The open connection.

        Raises:
            NotThere: nobody answers, or nobody who is known here.
        """
        self._belong_to(asyncio.get_running_loop())
        async with self._opening:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            if self._trouble is not None and self._clock.now() < self._again_at:
                raise self._trouble
            self._connection = None
            began = self._clock.now()
            try:
                self._connection = await self._open()
            except NotThere as trouble:
                # who does not answer is not asked all the time: each try costs a time-out
                took = self._clock.now() - began
                self._again_at = self._clock.now() + (STRANGER_LASTS if isinstance(trouble, Unfamiliar) else took)
                self._trouble = trouble
                raise
            return self._connection

    async def _open(self) -> Connection:
        socket = control_socket(self.home)
        if why := why_not_ours(socket):
            raise NotThere(why)
        return await connect(where_it_leads(socket), self._versions, self._timeout, os.geteuid())

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """A connection lives and dies with its event loop."""
        if self._loop is not loop:
            self._loop, self._opening, self._connection = loop, asyncio.Lock(), None
