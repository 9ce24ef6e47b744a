"""Turns that a hook has prolonged: not every harness tells its hook so, and none is prolonged twice running."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

OFFERS_KEPT: Final = 1000
"""Offers at the end of a turn that are remembered; most are printed, or over, within seconds."""


class Prolonged:
    """Which conversations are in such a turn."""

    def __init__(self) -> None:
        self._offered: OrderedDict[str, str] = OrderedDict()
        self._sessions: set[str] = set()

    def offered(self, delivery_id: str, session_id: str) -> None:
        """A hook at the end of a turn may print this delivery."""
        self._offered[delivery_id] = session_id
        if len(self._offered) > OFFERS_KEPT:
            self._offered.popitem(last=False)

    def printed(self, delivery_id: str) -> None:
        """A hook has printed it: if that was at the end of a turn, the turn goes on."""
        session_id = self._offered.pop(delivery_id, None)
        if session_id is not None:
            self._sessions.add(session_id)

    def is_over(self, session_id: str) -> None:
        """Another turn has begun, or the conversation has ended."""
        self._sessions.discard(session_id)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions
