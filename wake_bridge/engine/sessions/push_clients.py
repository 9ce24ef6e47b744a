"""MCP clients that take wakes: who waits for one, what is handed over, and what they were seen to do since."""

from __future__ import annotations

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.engine.sessions.monitor_lines import MonitorLine, MonitorLines
from wake_bridge.ports.sessions import PushClient


class PushClients:
    """Implements `PushChannel`: the clients of each identity; one push goes to one of them, once."""

    def __init__(self) -> None:
        self._lines = MonitorLines()
        self._clients: dict[Identity, PushClient] = {}
        self._acted_at: dict[Identity, Instant] = {}

    def client_of(self, identity: Identity) -> PushClient | None:
        """See `PushChannel.client_of`."""
        return self._clients.get(identity) if self._lines.listens(identity) else None

    async def wait(self, identity: Identity, client: PushClient) -> MonitorLine | None:
        """The server's side: the next envelope for its client; None where there was none for a while."""
        self._clients[identity] = client
        return await self._lines.wait(identity)

    def pushing(self, identity: Identity, mark: str) -> bool:
        """A server is about to write: whether it still may."""
        return self._lines.printing(identity, mark)

    def pushed(self, mark: str) -> bool:
        """A server has written: whether anybody still waits to hear so."""
        return self._lines.printed(mark)

    async def push(self, identity: Identity, mark: str, envelope: str) -> bool | None:
        """See `PushChannel.push`."""
        return await self._lines.ring(identity, mark, envelope)

    def note_act(self, identity: Identity, now: Instant) -> None:
        """The identity's agent has called a tool over the connection that takes its wakes."""
        self._acted_at[identity] = now

    def acted_since(self, identity: Identity, instant: Instant) -> bool:
        """Whether it has called one since then."""
        return self._acted_at.get(identity, EPOCH_START) >= instant
