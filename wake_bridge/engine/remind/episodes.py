"""Keeps, for each watched agent, the episodes in which it needs a person, whether mail waits for it or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from wake_bridge.domain.attention import (
    ENDINGS,
    IN_FRONT,
    UNDECIDED,
    UNWATCHED,
    AttentionRules,
    Episode,
    Standing,
    standing_of,
)
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.names import AttentionKind, Identity, Instant
from wake_bridge.engine.presence.watch import TrackedPlace, Watch
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger

GONE_FOR: Final = 10_000
"""Milliseconds for which an agent must be gone: one that restarts itself is away for a moment."""

_NOBODY_KNOWS: Final = frozenset({Cause.NO_TMUX, Cause.TMUX_SILENT})
"""Why an agent has no place, though it may live on."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one agent by this process. `shows` is None until it was seen to live."""

    where: str = ""
    place_key: str = ""
    shows: AttentionKind | None = None
    adopted: TrackedPlace | None = None
    turns: int = 0
    lost_at: Instant | None = None
    left_by_person: bool = False
    has_worked: bool = False


class Episodes:
    """Turns what the watch sees into episodes in the ledger, and tells which of them a person is to hear of.

    Contract: `look` may be called at any time and any number of times; it only reads what the watch has seen, so it costs
    no call. An episode is on disk as soon as it is seen, and an open one outlives a restart: it is the same episode as
    long as the agent is not seen in another state.

    Args:
        watched: the identities whose places are watched.
        new_id: makes an id that sorts by time.
    """

    def __init__(
        self,
        ledger: Ledger,
        watch: Watch,
        current: Current,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        watched: Callable[[], Iterable[Identity]],
    ) -> None:
        self._ledger = ledger
        self._watch = watch
        self._current = current
        self._clock = clock
        self._new_id = new_id
        self._watched = watched
        self._seen: dict[Identity, _Seen] = {}
        self._log = structlog.get_logger("attention")

    def look(self, now: Instant) -> None:
        """Begin and end episodes by what the watch has seen last. Raises `LedgerError`."""
        standing = {one.identity: one for one in self._ledger.open_episodes()}
        watched = set(self._watched())
        for identity in watched:
            self._follow(identity, standing.get(identity), now)
        for identity in standing.keys() - watched:
            self._turn(standing[identity], UNWATCHED, None, now)
        for identity in self._seen.keys() - watched:
            del self._seen[identity]

    def due(self, now: Instant) -> list[Episode]:
        """The episodes that a person is to be told of now, the oldest first.

        None while its pane is in front of a person, and none of what the last look did not show any more.
        """
        rules = self._rules
        return [
            one
            for one in self._ledger.open_episodes()
            if one.told_at is None
            and rules.is_told(one.identity, one.kind)
            and rules.due_at(one) <= now
            and self._shows(one)
            and not self._is_in_front(one.place_key)
        ]

    @property
    def _rules(self) -> AttentionRules:
        return self._current.settings.attention

    def _shows(self, episode: Episode) -> bool:
        seen = self._seen.get(episode.identity)
        return seen is not None and seen.shows is episode.kind

    def _is_in_front(self, place_key: str) -> bool:
        last = self._watch.last_key_in_front(place_key) if place_key else None
        return last is not None and self._clock.wall() - last <= IN_FRONT

    def _follow(self, identity: Identity, episode: Episode | None, now: Instant) -> None:
        seen = self._seen.setdefault(identity, _Seen())
        track, standing = self._standing(identity, seen, now)
        seen.shows = standing.kind
        if not standing.is_certain or (standing.kind is None and episode is None):
            return
        if standing.kind is None:
            if episode is not None:
                self._turn(episode, ENDINGS[episode.kind], None, now)
            return
        since = track.since if track is not None else (seen.lost_at or now)
        turns = track.turns if track is not None else 0
        # only what this very watch saw end may begin anew: after a restart, or a moment without tmux, it goes on
        went_away = track is not None and seen.adopted is track and seen.turns != turns
        seen.adopted, seen.turns = track, turns
        if episode is not None and episode.kind is standing.kind and not went_away:
            return
        begun = Episode(
            self._new_id(), identity, standing.kind, since, standing.evidence, seen.place_key, where=seen.where
        )
        if episode is not None:
            ending = "gone" if standing.kind is AttentionKind.GONE else ENDINGS[episode.kind]
            self._turn(episode, ending, begun, now)
        else:
            self._turn(None, "", begun, now)

    def _standing(self, identity: Identity, seen: _Seen, now: Instant) -> tuple[TrackedPlace | None, Standing]:
        """What the agent stands at by the latest looks, and the place that shows it."""
        calm: tuple[TrackedPlace | None, Standing] = (None, UNDECIDED)
        for track in self._watch.looked_at(identity):
            standing = standing_of(track.samples[-1].evidence)
            if standing.kind is AttentionKind.GONE:
                return track, self._gone(seen, standing.evidence, now)
            if standing.is_certain:
                self._note_life(identity, seen, track)
            if standing.kind is not None:
                return track, standing
            if standing.is_certain and not calm[1].is_certain:
                calm = track, standing
        if calm[0] is None:
            nowhere = self._watch.nowhere(identity)
            if nowhere is not None and nowhere.cause not in _NOBODY_KNOWS and not self._watch.looked_at(identity):
                return None, self._gone(seen, nowhere.detail, now)
            return calm
        return calm[0], self._stopped(identity, seen, calm[1])

    def _stopped(self, identity: Identity, seen: _Seen, calm: Standing) -> Standing:
        """An agent that idles after work, where somebody wants to know; else it stands at nothing."""
        if not calm.is_idle:
            seen.has_worked = True
            return calm
        is_wanted = seen.has_worked and self._rules.is_told(identity, AttentionKind.STOPPED)
        return Standing(AttentionKind.STOPPED, evidence="idle after work") if is_wanted else calm

    def _note_life(self, identity: Identity, seen: _Seen, track: TrackedPlace) -> None:
        # a person looks at its pane, whichever channel said how it stands
        place = self._watch.place_of(identity) or track.place
        seen.where, seen.place_key = place.label, place.key
        seen.lost_at, seen.left_by_person = None, False
        if seen.shows is AttentionKind.GONE:
            seen.shows = None

    def _gone(self, seen: _Seen, why: str, now: Instant) -> Standing:
        """An agent that was seen to live and is gone: not one whose person has just typed there, nor one never seen."""
        if not seen.place_key:
            return UNDECIDED
        if seen.lost_at is None:
            seen.lost_at = now
            seen.left_by_person = self._is_in_front(seen.place_key)
        if seen.left_by_person:
            return Standing(None)
        return Standing(AttentionKind.GONE, evidence=why) if now - seen.lost_at >= GONE_FOR else UNDECIDED

    def _turn(self, episode: Episode | None, ending: str, begun: Episode | None, now: Instant) -> None:
        self._ledger.turn_episode(episode, ending, begun, now)
        if episode is not None:
            self._log.info(
                "attention_ended", agent=episode.identity, reason=episode.kind, subject=episode.id, by=ending
            )
        if begun is not None:
            self._log.info(
                "attention_began",
                agent=begun.identity,
                reason=begun.kind,
                subject=begun.id,
                where=begun.where or None,
            )
