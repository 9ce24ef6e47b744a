"""What programs inside a harness tell the daemon and get from it: hooks, monitors and MCP servers.

Contract: nothing here is trusted to be alive because it was once heard of; a line counts as written only when the
monitor has said so, a push only when the MCP server has, and a prompt as heard only when the harness's own hook carried
the mark.
"""

from __future__ import annotations

from typing import Protocol

from wake_bridge.domain.names import Identity
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class PushClient:
    """An MCP client that takes wakes, by what our server says that it has started.

    `connection` names the connection, `pid` is the server's process, `told` how a person is told of the client, `events`
    are the types of events that it takes.
    """

    connection: str
    pid: int
    told: str
    events: frozenset[str]


class Sessions(Protocol):
    """See the module's contract."""

    def session(self, session_id: str) -> Session | None:
        """One conversation that made itself known, whoever's it is; None where it never did or has ended."""

    def listens(self, session_id: str) -> bool:
        """Whether a monitor of this conversation waits for a line now."""

    async def ring(self, session_id: str, mark: str, line: str) -> bool | None:
        """Hand one line to the monitor of a conversation.

        Answers True once the monitor said that the line was written out, False when it certainly was not (nobody waits,
        or the monitor had not begun), None when nobody can tell. Bounded by the monitor's own time-out.
        """

    async def heard(self, mark: str, patience: float) -> bool:
        """Whether a prompt with the mark was reported by the harness's hook, waiting at most `patience` seconds."""


class PushChannel(Protocol):
    """See the module's contract."""

    def client_of(self, identity: Identity) -> PushClient | None:
        """The identity's MCP client that takes wakes now; of several the one that was heard of last."""

    async def push(self, identity: Identity, mark: str, envelope: str) -> bool | None:
        """Hand one envelope to the MCP server of an identity's client, as `Sessions.ring` does a line to a monitor."""
