"""One watched place on one route: its latest looks, and what they say together."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import EPOCH_START, Instant
from wake_bridge.domain.presence import SAMPLES_APART, Observation, PresenceState, Sighted, fuse, single_vote
from wake_bridge.domain.routing import Route
from wake_bridge.ports.adapter import Place


@dataclass(slots=True)
class TrackedPlace:
    """A place and what was seen there.

    `since` is when it began to show what it shows now; `turns` counts how often it was seen to show another state.
    """

    route: Route
    place: Place
    pulse: str = ""
    since: Instant = EPOCH_START
    turns: int = 0
    samples: deque[Observation] = field(default_factory=lambda: deque(maxlen=8))
    is_looked_at: bool = False

    @property
    def last_seen(self) -> Instant:
        """When it was looked at last."""
        return self.samples[-1].at if self.samples else EPOCH_START

    def keep(self, latest: Observation) -> None:
        """Remember a look."""
        if not self.samples or vote_of(self.samples[-1]) != vote_of(latest):
            self.since = latest.at
            self.turns += bool(self.samples)
        recent = [*self.samples][-2:]
        if len(recent) > 1 and all(_agree(one, latest) for one in recent):
            # of looks that agree the first and the last say all; many in a row must not push the first out
            self.samples.pop()
        self.samples.append(latest)

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

    def sighted(self, fresh_for_ms: int) -> Sighted:
        """What it showed at the last look; there must have been one."""
        latest = self.samples[-1]
        presence = fuse(latest, self.elder(latest), latest.at, fresh_for_ms)
        return Sighted(presence.state, vote_of(latest)[0], self.since, self.place.label, self.route.adapter)


def vote_of(sample: Observation) -> tuple[PresenceState, HoldReason | None]:
    """What one look alone speaks for."""
    decided_by = single_vote(sample.evidence)
    return decided_by.vote, decided_by.hold


def _agree(one: Observation, other: Observation) -> bool:
    return one.fingerprint == other.fingerprint and vote_of(one) == vote_of(other)
