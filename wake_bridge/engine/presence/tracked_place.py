"""A place that is watched, and what was seen there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from wake_bridge.domain.attention import standing_of
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import EPOCH_START, Instant
from wake_bridge.domain.presence import SAMPLES_APART, Observation, Presence, PresenceState, Sighted, fuse, single_vote
from wake_bridge.domain.routing import Route
from wake_bridge.engine.presence.resolve_schedule import STILL, STILL_AFTER
from wake_bridge.ports.adapter import Place

LOOK_AGAIN: Final = 60_000
"""Milliseconds after which an unchanged pane is looked at all the same, the one that has waited longest first."""


@dataclass(slots=True)
class TrackedPlace:
    """A place and what was seen there.

    `changed_at` is when its pulse was seen to change last, or it was found; `since` is when it began to show what it shows now;
    `turns` counts how often it was seen to begin a turn, the last one at `turn_began`. `rests` counts how often it was seen to
    stand at nothing, and `is_at_rest` says that it does now: at a turn, or otherwise for as long as idle needs to be proven; None
    where no look could tell. A screen that is just drawn anew can miss what its agent stands at.
    """

    route: Route
    place: Place
    changed_at: Instant
    pulse: str = ""
    since: Instant = EPOCH_START
    turns: int = 0
    turn_began: Instant = EPOCH_START
    rests: int = 0
    is_at_rest: bool | None = None
    nothing_since: Instant | None = None
    samples: deque[Observation] = field(default_factory=lambda: deque(maxlen=8))
    is_looked_at: bool = False

    def is_still(self, now: Instant) -> bool:
        """Whether nothing has changed there for long."""
        return now - self.changed_at >= STILL_AFTER

    def is_due(self, now: Instant) -> bool:
        """Whether to look at it again though nothing has changed: what is no evidence of rest may end in silence."""
        is_seen_at_rest = len(self.samples) > 1 and vote_of(self.samples[-1])[0] is PresenceState.IDLE
        return now - self.last_seen >= LOOK_AGAIN * (STILL if is_seen_at_rest and self.is_still(now) else 1)

    @property
    def last_seen(self) -> Instant:
        """When it was looked at last."""
        return self.samples[-1].at if self.samples else EPOCH_START

    def keep(self, latest: Observation) -> None:
        """Remember a look."""
        if not self.samples or vote_of(self.samples[-1]) != vote_of(latest):
            self.since = latest.at
            if vote_of(latest)[0] is PresenceState.ACTIVE:
                self.turns += 1
                self.turn_began = latest.at
        recent = [*self.samples][-2:]
        if len(recent) > 1 and all(_agree(one, latest) for one in recent):
            # of looks that agree the first and the last say all; many in a row must not push the first out
            self.samples.pop()
        self.samples.append(latest)
        standing = standing_of(latest.evidence)
        if standing.kind is not None:
            self.nothing_since, self.is_at_rest = None, False
        elif standing.is_certain:
            self.is_at_rest = bool(self.is_at_rest)
            self.nothing_since = latest.at if self.nothing_since is None else self.nothing_since
            self._note_rest(latest.at, is_certain=latest.is_proof or vote_of(latest)[0] is PresenceState.ACTIVE)

    def stays(self, at: Instant) -> None:
        """It was seen to show the same as at the last look."""
        if self.nothing_since is not None and not self.is_at_rest and standing_of(self.samples[-1].evidence).is_certain:
            self._note_rest(at)

    def _note_rest(self, at: Instant, *, is_certain: bool = False) -> None:
        if self.nothing_since is None or self.is_at_rest:
            return
        if is_certain or at - self.nothing_since >= SAMPLES_APART:
            self.is_at_rest = True
            self.rests += 1

    def elder(self, latest: Observation) -> Observation | None:
        """The newest sample old enough to compare with; a younger one that disagrees speaks first."""
        for sample in reversed(self.samples):
            if sample is latest:
                continue
            if sample.fingerprint != latest.fingerprint or latest.at - sample.at >= SAMPLES_APART:
                return sample
        return None

    def at_rest_since(self, now: Instant) -> Instant:
        """When the first of the looks was that agree by now and speak for idle; `now` where none does."""
        since = now
        for sample in reversed(self.samples):
            if sample.fingerprint != self.samples[-1].fingerprint or vote_of(sample)[0] is not PresenceState.IDLE:
                break
            since = sample.at
        return since

    def shown(self, fresh_for_ms: int) -> Presence:
        """What the looks added up to at the last one; there must have been one."""
        latest = self.samples[-1]
        return fuse(latest, self.elder(latest), latest.at, fresh_for_ms)

    def sighted(self, fresh_for_ms: int) -> Sighted:
        """The same, beside what the last look alone speaks for, and since when."""
        state, alone = self.shown(fresh_for_ms).state, vote_of(self.samples[-1])[0]
        return Sighted(state, alone, self.since, self.place.label, self.route.adapter)


def vote_of(sample: Observation) -> tuple[PresenceState, HoldReason | None]:
    """What one look alone speaks for."""
    decided_by = single_vote(sample.evidence)
    return decided_by.vote, decided_by.hold


def _agree(one: Observation, other: Observation) -> bool:
    return one.fingerprint == other.fingerprint and vote_of(one) == vote_of(other)
