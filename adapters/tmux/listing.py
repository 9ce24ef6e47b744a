"""One `list-panes -a` for all who ask in the same moment: fifty bound panes must not cost fifty calls."""

from __future__ import annotations

import asyncio
from typing import Final

from adapters.tmux.command import TmuxServer
from adapters.tmux.facts import NoPane
from adapters.tmux.panes import Pane, panes_of

ASKED_AGAIN_AFTER: Final = 0.5
"""Seconds without an answer, for which 10 ms is usual, until tmux is asked once more beside it: many wait for this call."""


class Listing:
    """Lists the panes of servers. An answer is never older than the question: who asks later asks tmux anew.

    A call that hangs is not waited for alone: another one is made, and whichever answers is the answer.
    """

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Task[list[Pane] | NoPane]] = {}

    async def of(self, server: TmuxServer) -> list[Pane] | NoPane:
        """Every pane of the server; `NoPane` when it cannot be asked."""
        first = self._join(server)
        # one who gives up waiting takes the answer from nobody else
        if (await asyncio.wait({first}, timeout=ASKED_AGAIN_AFTER))[0]:
            return first.result()
        asked = {first, self._join(server)}
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    def _join(self, server: TmuxServer) -> asyncio.Task[list[Pane] | NoPane]:
        """The call that has not begun yet, or a new one."""
        asked = self._asked.get(server.socket)
        if asked is None:
            asked = asyncio.create_task(self._ask(server))
            self._asked[server.socket] = asked
            asked.add_done_callback(lambda _: self._begun(server.socket, asked))
        return asked

    async def _ask(self, server: TmuxServer) -> list[Pane] | NoPane:
        await asyncio.sleep(0)
        self._begun(server.socket, asyncio.current_task())
        return await panes_of(server)

    def _begun(self, socket: str, asked: object) -> None:
        """From now on the answer may be older than a question."""
        if self._asked.get(socket) is asked:
            del self._asked[socket]
