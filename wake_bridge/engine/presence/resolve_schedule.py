"""Decides whose place is resolved in which round: all in turn, because each costs a call."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import Final

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.ports.clock import Clock

RESOLVE_AGAIN: Final = 30_000
"""Milliseconds after which a place is resolved anew, whether it still answers or could not be found."""

MISSED_AGAIN: Final = 2_000
"""The same where there is no place, and something waits."""

PLANNED_EVERY: Final = 1_000
"""Milliseconds between two plans: quick rounds need not go through all identities."""

RESOLVED_AT_ONCE: Final = 10
"""Places of each kind and adapter resolved in one round: each costs a call, and thousands of subscriptions may lead nowhere."""

RouteKey = tuple[Identity, str]
"""Whose route, and by which adapter."""

Kind = tuple[str, bool]
"""Routes whose turn comes apart from others': their adapter, and whether they are missed because something waits."""


class ResolveSchedule:
    """Those never resolved come first and quickly, a few a round; the others when they were resolved long ago."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._planned_at = EPOCH_START
        self._resolved_at: dict[RouteKey, Instant] = {}
        self._newcomers: dict[Kind, deque[RouteKey]] = {}

    @property
    def has_newcomers(self) -> bool:
        """Whether some were never resolved, and are to have their turn soon."""
        return bool(self._newcomers)

    @property
    def is_planned(self) -> bool:
        """Whether the last plan is young enough to go on with."""
        return self._clock.now() - self._planned_at < PLANNED_EVERY

    def note_resolved(self, key: RouteKey) -> None:
        """It was resolved just now, in turn or not."""
        self._resolved_at[key] = self._clock.now()

    def forget(self, key: RouteKey) -> None:
        """It must be found anew."""
        self._resolved_at.pop(key, None)

    def forget_all(self, identity: Identity) -> None:
        """All of an identity's must be found anew, and at once."""
        for key in [one for one in self._resolved_at if one[0] == identity]:
            del self._resolved_at[key]
        self._planned_at = EPOCH_START

    def plan(self, wanted: Mapping[RouteKey, bool]) -> list[RouteKey]:
        """Whose turn it is, out of all that are wanted and whether they are missed."""
        now = self._planned_at = self._clock.now()
        due: dict[Kind, list[RouteKey]] = {}
        new: dict[Kind, deque[RouteKey]] = {}
        for key, is_missed in wanted.items():
            at, kind = self._resolved_at.get(key), (key[1], is_missed)
            if at is None:
                new.setdefault(kind, deque()).append(key)
            elif now - at >= (MISSED_AGAIN if is_missed else RESOLVE_AGAIN):
                due.setdefault(kind, []).append(key)
        if len(self._resolved_at) > len(wanted):
            self._resolved_at = {one: at for one, at in self._resolved_at.items() if one in wanted}
        self._newcomers = new
        turns = self.next_newcomers()
        for keys in due.values():
            turns += heapq.nsmallest(RESOLVED_AT_ONCE, keys, key=self._resolved_at.__getitem__)
        self._resolved_at |= dict.fromkeys(turns, now)
        return turns

    def next_newcomers(self) -> list[RouteKey]:
        """The next of those that were never resolved: thousands have their turns without a plan for each round."""
        turns: list[RouteKey] = []
        for queue in self._newcomers.values():
            turns += [queue.popleft() for _ in range(min(RESOLVED_AT_ONCE, len(queue)))]
        self._newcomers = {kind: queue for kind, queue in self._newcomers.items() if queue}
        self._resolved_at |= dict.fromkeys(turns, self._clock.now())
        return turns
