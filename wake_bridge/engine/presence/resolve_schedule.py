"""Decides whose place is resolved in which round: all in turn, because each costs a call."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.ports.clock import Clock

RESOLVE_AGAIN: Final = 30_000
"""Milliseconds after which a place is resolved anew, whether it still answers or could not be found."""

STILL_AFTER: Final = 60_000
"""Milliseconds without a change after which a place stands still, and nothing need be done for it as often."""

STILL: Final = 10
"""How many times as long a place that stands still may wait for its turn, if nothing waits for its agent."""

MISSED_AGAIN: Final = 2_000
"""The same where there is no place, and something waits."""

PLANNED_EVERY: Final = 1_000
"""Milliseconds between two plans: quick rounds need not go through all identities."""

PLANNED_AT_REST: Final = 10_000
"""The same while nothing waits, nobody comes or goes, and all have had their turn."""

RESOLVED_AT_ONCE: Final = 10
"""Places of each kind and adapter resolved in one round: each costs a call, and thousands of subscriptions may lead nowhere."""

RENEWED_AT_ONCE: Final = 20
"""Places of all adapters resolved anew in one round, of those that nobody misses: nothing hangs on when."""

PLANNED_AT_ONCE: Final = 100
"""Identities whose routes are gone through in one plan: with thousands that alone would keep everything else waiting."""

RouteKey = tuple[Identity, str]
"""Whose route, and by which adapter."""

Kind = tuple[str, int]
"""Routes whose turn comes apart from others': their adapter, empty for all, and the milliseconds after which they are resolved anew."""

Found = TypeVar("Found")


class OfIdentities(MutableMapping[RouteKey, Found]):
    """What is known of routes, by their keys; what is known of one identity costs no look at the others."""

    def __init__(self) -> None:
        self._found: dict[RouteKey, Found] = {}
        self._adapters: dict[Identity, dict[str, Found]] = {}

    def of(self, identity: Identity) -> list[Found]:
        """What is known of an identity's routes, what was first known first."""
        return [*self._adapters.get(identity, {}).values()]

    def drop(self, identity: Identity) -> None:
        """Forget all of an identity's."""
        for adapter in self._adapters.pop(identity, {}):
            del self._found[identity, adapter]

    def keep_only(
        self, watched: AbstractSet[Identity] | None, whose: AbstractSet[Identity], wanted: AbstractSet[RouteKey]
    ) -> None:
        """Forget what is of nobody who is watched, None for the same as ever; and of those whose turn it is, what is not wanted."""
        if watched is not None:
            for identity in self._adapters.keys() - watched:
                self.drop(identity)
        theirs = {(who, adapter) for who in whose & self._adapters.keys() for adapter in self._adapters[who]}
        for key in theirs - wanted:
            del self[key]

    def __getitem__(self, key: RouteKey) -> Found:
        return self._found[key]

    def __setitem__(self, key: RouteKey, found: Found) -> None:
        self._found[key] = self._adapters.setdefault(key[0], {})[key[1]] = found

    def __delitem__(self, key: RouteKey) -> None:
        del self._found[key]
        del self._adapters[key[0]][key[1]]
        if not self._adapters[key[0]]:
            del self._adapters[key[0]]

    def __iter__(self) -> Iterator[RouteKey]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Turns:
    """Goes through identities that come and go, `PLANNED_AT_ONCE` at a time."""

    def __init__(self) -> None:
        self._left: deque[Identity] = deque()

    @property
    def are_over(self) -> bool:
        """Whether all have had theirs since they began anew."""
        return not self._left

    def put_first(self, identity: Identity) -> None:
        """It is the next."""
        self._left.appendleft(identity)

    def next(self, everybody: AbstractSet[Identity]) -> AbstractSet[Identity]:
        """Whose turn it is; all of them where they are so few."""
        if len(everybody) <= PLANNED_AT_ONCE:
            self._left.clear()
            return everybody
        if not self._left:
            self._left.extend(everybody)
        turn = [self._left.popleft() for _ in range(min(PLANNED_AT_ONCE, len(self._left)))]
        return everybody & set(turn)


def again(*, is_missed: bool, is_still: bool) -> int:
    """Milliseconds after which a route is resolved anew: by which something waits in vain, or of a place that stands still."""
    return MISSED_AGAIN if is_missed else RESOLVE_AGAIN * (STILL if is_still else 1)


class ResolveSchedule:
    """Those never resolved come first and quickly, a few a round; the others when they were resolved long ago."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._planned_at = EPOCH_START
        self._is_behind = False
        self._resolved_at: OfIdentities[Instant] = OfIdentities()
        self._newcomers: dict[Kind, deque[RouteKey]] = {}

    @property
    def has_newcomers(self) -> bool:
        """Whether some were never resolved, and are to have their turn soon."""
        return bool(self._newcomers)

    @property
    def is_planned(self) -> bool:
        """Whether the last plan is young enough to go on with."""
        return self._clock.now() - self._planned_at < PLANNED_EVERY

    @property
    def may_rest(self) -> bool:
        """Whether it is where nothing has called for another one."""
        return not self._is_behind and self._clock.now() - self._planned_at < PLANNED_AT_REST

    def note_resolved(self, key: RouteKey) -> None:
        """It was resolved just now, in turn or not."""
        self._resolved_at[key] = self._clock.now()

    def forget(self, key: RouteKey) -> None:
        """It must be found anew, and soon."""
        self._resolved_at.pop(key, None)
        self._planned_at = EPOCH_START

    def forget_all(self, identity: Identity) -> None:
        """All of an identity's must be found anew, and at once."""
        self._resolved_at.drop(identity)
        self._planned_at = EPOCH_START

    def keep_only(
        self, watched: AbstractSet[Identity] | None, whose: AbstractSet[Identity], wanted: AbstractSet[RouteKey]
    ) -> None:
        """See `OfIdentities.keep_only`."""
        self._resolved_at.keep_only(watched, whose, wanted)

    def plan(self, wanted: Mapping[RouteKey, int]) -> list[RouteKey]:
        """Whose turn it is, out of those that are wanted now, each with the milliseconds after which it is resolved anew."""
        now = self._planned_at = self._clock.now()
        due: dict[Kind, list[RouteKey]] = {}
        new: dict[Kind, deque[RouteKey]] = {}
        for key, again in wanted.items():
            at = self._resolved_at.get(key)
            if at is None:
                new.setdefault((key[1], again), deque()).append(key)
            elif now - at >= again:
                due.setdefault((key[1] if again == MISSED_AGAIN else "", again), []).append(key)
        self._newcomers = new
        turns = self.next_newcomers()
        self._is_behind = False
        for (adapter, _), keys in due.items():
            at_once = RESOLVED_AT_ONCE if adapter else RENEWED_AT_ONCE
            self._is_behind |= len(keys) > at_once
            turns += heapq.nsmallest(at_once, keys, key=self._resolved_at.__getitem__)
        self._resolved_at.update(dict.fromkeys(turns, now))
        return turns

    def next_newcomers(self) -> list[RouteKey]:
        """The next of those that were never resolved: thousands have their turns without a plan for each round."""
        turns: list[RouteKey] = []
        for queue in self._newcomers.values():
            turns += [queue.popleft() for _ in range(min(RESOLVED_AT_ONCE, len(queue)))]
        self._newcomers = {kind: queue for kind, queue in self._newcomers.items() if queue}
        self._resolved_at.update(dict.fromkeys(turns, self._clock.now()))
        return turns
