"""Remembers the pane in which each identity was found: from then on the pane counts, not its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.routing import Address, Binding, Claim, RememberedPane
from wake_bridge.domain.sessions import NOBODY, Session
from wake_bridge.engine.presence.resolve_schedule import RESOLVE_AGAIN, STILL
from wake_bridge.ports.adapter import Place
from wake_bridge.ports.ledger import Ledger

WRITTEN_EVERY: Final = 60_000
"""Milliseconds after which it is written down that an agent is still there."""

UNWRITTEN: Final = WRITTEN_EVERY + 2 * STILL * RESOLVE_AGAIN
"""Milliseconds for which an agent may have been seen after what was written down last: its next turn writes it."""


class RememberedPanes:
    """What is remembered in the ledger, and when each agent was seen since.

    Args:
        lived_until: the latest instant at which an earlier run can have lived: it may have been killed before it wrote.
    """

    def __init__(self, ledger: Ledger, lived_until: Instant) -> None:
        self._ledger = ledger
        self._lived_until = lived_until
        self._seen: dict[Identity, Instant] = {}

    def of(self, identity: Identity) -> RememberedPane | None:
        """Where the identity was found last."""
        found = self._ledger.remembered(identity)
        if found is None:
            return None
        seen_at = self._seen.get(identity, min(found.seen_at + UNWRITTEN, self._lived_until))
        return replace(found, seen_at=Instant(max(found.seen_at, seen_at)))

    def claims(self) -> list[Claim]:
        """Who holds, or held, which pane, which agent and which conversation."""
        return claims_of(self._ledger.claims(), self._ledger.all_sessions())

    def note(self, address: Address, place: Place, now: Instant) -> None:
        """An identity was found there, as of `now`; a pane without an agent is no place to remember."""
        fence = place.fence
        if fence is None or not fence.pane_id or not fence.agent_pid:
            return
        was, identity = address.remembered, address.identity
        is_same_pane = was is not None and was.fence.has_pane_of(fence)
        is_known = is_same_pane and was is not None and was.fence.has_agent_of(fence)
        seen_before = self._seen.get(identity, was.seen_at if was is not None else None)
        self._seen[identity] = now
        if not is_known and seen_before is not None:
            # until when it was there: who shared the pane has left it with the other, or before
            self._ledger.seen_there(identity, seen_before)
        written = self._ledger.remembered(identity) if is_known else None
        if written is not None and now - written.seen_at < WRITTEN_EVERY:
            return
        # after a boot another server may have the pid of the one before, and its panes the same ids
        is_same_process = was is not None and was.fence.pane_started == fence.pane_started
        since = was.since if was is not None and is_same_pane and is_same_process else now
        if not self._ledger.remember(
            identity, RememberedPane(address.name, address.socket, fence, since, now), address.remembered
        ):
            self._seen.pop(identity, None)

    def still_there(self, identity: Identity, now: Instant) -> None:
        """Nothing has changed in the identity's pane since its agent was found there."""
        if identity in self._seen:
            self._seen[identity] = now

    def write_down(self) -> None:
        """Write down when each agent was seen last: who was beside it then is not the one that comes after it."""
        for identity, at in self._seen.items():
            self._ledger.seen_there(identity, at)


def claims_of(held: Sequence[Claim], sessions: Sequence[Session]) -> list[Claim]:
    """What is remembered, and the agents that have a conversation of somebody's."""
    agents = [
        Claim(one.identity, fence=Binding(one.socket, 0, "", "", 0, "", one.pid, one.started), until=one.seen_at)
        for one in sessions
        if one.identity != NOBODY and one.pid
    ]
    return [*held, *agents]
