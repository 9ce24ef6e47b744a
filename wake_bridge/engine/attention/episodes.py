"""Keeps, for each watched agent, the episodes in which it needs a person, whether mail waits for it or not."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Final, Protocol

import structlog

from wake_bridge.domain.attention import (
    AFTER_WORK,
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
from wake_bridge.domain.events import Fact, PresenceDetail, WakeEvent
from wake_bridge.domain.names import (
    DAY,
    EPOCH_START,
    AttentionKind,
    Epoch,
    EventKind,
    Identity,
    Instant,
    LogId,
    Trigger,
)
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.usage_limits import is_met_again, reset_in
from wake_bridge.engine.presence.tracked_place import TrackedPlace, vote_of
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import PageRecord

AT_WORK_FOR: Final = 10_000
"""Milliseconds that a turn must have run before a limit that ends it has left work undone."""

ROW_SLACK: Final = 5_000
"""Milliseconds by which a word may be seen before the turn in which it was said."""

GONE_FOR: Final = 10_000
"""Milliseconds for which an agent must be gone: one that restarts itself is away for a moment."""

_NO_ROW: Final = LogId(0)

_REST: Final = 1
"""Seconds of window: not 0, which would skip the pane's rest after a wake."""

_NOBODY_KNOWS: Final = frozenset({Cause.NO_TMUX, Cause.TMUX_SILENT})
"""Why an agent has no place, though it may live on."""


@dataclass(slots=True)
class _Seen:
    """What was seen of one agent by this process. `shows` is None until it was seen to live.

    `is_known` says that a look decided what it stands at; `was_at_work` that the turn that it was seen in last had run for a
    while.
    """

    where: str = ""
    place_key: str = ""
    shows: AttentionKind | None = None
    adopted: TrackedPlace | None = None
    turn_began: Instant = EPOCH_START
    ends: tuple[int, int] = (0, 0)
    lost_at: Instant | None = None
    left_by_person: bool = False
    has_worked: bool = False
    was_at_work: bool = False
    is_known: bool = False
    has_kept_word: bool = False
    word_at: Instant = EPOCH_START
    finished_by: Instant = EPOCH_START
    heard_word: Instant = EPOCH_START
    work_began: Instant = EPOCH_START
    idle_since: Instant | None = None
    program: str = ""

    def has_idled(self, now: Instant) -> bool:
        """Whether it has for long enough that a word which is read late would have been."""
        return self.idle_since is not None and now - max(self.idle_since, self.word_at) > ROW_SLACK


class Watchers(Protocol):
    """Who subscribed to the presence of others (`engine.tail`)."""

    def watchers_of(self, watched: Identity) -> Sequence[Subscription]:
        """The matching subscriptions to an agent's presence."""

    def match_now(self, fact: Fact) -> list[WakeEvent]:
        """The open events of a fact; nothing is stored."""


class Episodes:
    """Turns what the watch sees into episodes in the ledger, and tells which of them a person is to hear of.

    Contract: `look` may be called at any time and any number of times; it only reads what the watch has seen, so it costs
    no call. An episode is on disk as soon as it is seen, and an open one outlives a restart: it is the same episode as
    long as the agent is not seen in another state.

    Args:
        watched: the identities whose places are watched.
        changed: called with an identity whose wakes need not wait for its limit any more.
        watchers: who subscribed to the presence of others; None where nobody can have.
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
        changed: Callable[[Identity], None] = lambda _: None,
        watchers: Watchers | None = None,
    ) -> None:
        self._ledger = ledger
        self._watch = watch
        self._current = current
        self._clock = clock
        self._new_id = new_id
        self._watched = watched
        self._changed = changed
        self._watchers = watchers
        self._seen: dict[Identity, _Seen] = {}
        self._words: set[Identity] | None = None
        self._log = structlog.get_logger("attention")

    def look(self, now: Instant) -> None:
        """Begin and end episodes by what the watch has seen last. Raises `LedgerError`."""
        standing = {one.identity: one for one in self._ledger.open_episodes()}
        watched = set(self._watched())
        self._take_up_words()
        # of who was never seen nothing can be said, and there may be thousands of them
        for identity in watched & (self._watch.seen_here() | self._seen.keys() | standing.keys()):
            self._follow(identity, standing.get(identity), now)
        for identity in standing.keys() - watched:
            self._turn(standing[identity], UNWATCHED, None, now)
        for identity in self._seen.keys() - watched:
            del self._seen[identity]
        self._forget_words(watched, now)
        self._store_events(now)

    def note_word(self, identity: Identity) -> None:
        """The identity has just sent mail, or brought a task to its end."""
        self._take_up_words().add(identity)
        self._seen.setdefault(identity, _Seen()).word_at = self._clock.now()

    def _take_up_words(self) -> set[Identity]:
        """The words that the ledger keeps; those of before a restart are of a turn whose end this process has not seen."""
        if self._words is None:
            self._words = self._ledger.own_words()
            heard = {one.identity for one in self._ledger.open_episodes() if one.kind is AttentionKind.FINISHED}
            for identity in self._words - heard:
                self._seen.setdefault(identity, _Seen()).has_kept_word = True
        return self._words

    def _forget_words(self, watched: Container[Identity], now: Instant) -> None:
        """Of those who idle: what they said before is of an earlier turn than what they do next."""
        words = self._take_up_words()
        over = {one for one in words if one not in watched or self._seen.setdefault(one, _Seen()).has_idled(now)}
        if over:
            self._ledger.forget_own_words(over)
            words -= over

    def _store_events(self, now: Instant) -> None:
        """Wake who watches an agent for what it stands at, and who is to go on after a limit; each once for an episode."""
        position = self._ledger.position() if self._watchers is not None else None
        if position is None or self._watchers is None:
            return
        found: list[WakeEvent] = []
        for episode in self._ledger.open_episodes():
            if self._is_to_continue(episode):
                found.append(go_on_event(episode, self._new_id(), position.epoch, now))
            watching = {one.identity for one in self._watchers.watchers_of(episode.identity)}
            if watching:
                found += self._watchers.match_now(_presence_fact(episode, watching))
        new = tuple(one for one in found if not self._ledger.known_subjects(one.identity, [one.subject_key]))
        if new:
            # no row of the log is passed by it: the cursor stays where it is
            self._ledger.advance(PageRecord(position, new), now)
            for one in new:
                self._log.info(
                    "event_matched",
                    agent=one.identity,
                    kind=one.kind,
                    log_id=one.log_id,
                    policy=one.policy,
                    subject_key=one.subject_key,
                )
                self._changed(one.identity)

    def _is_to_continue(self, episode: Episode) -> bool:
        is_limit = episode.kind is AttentionKind.LIMITED and episode.was_at_work
        return is_limit and self._rules.continues_after_limit

    def look_at(self, identity: Identity, now: Instant) -> None:
        """The same for one agent, right after a look at it. Raises `LedgerError`."""
        standing = (one for one in self._ledger.open_episodes() if one.identity == identity)
        self._follow(identity, next(standing, None), now)

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

    def is_somebody_active(self) -> bool:
        """Whether any client had a key in the last minute: its person sees for themselves what waits at this host."""
        last = self._watch.last_key()
        return last is not None and self._clock.wall() - last <= IN_FRONT

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
        if not standing.is_certain:
            return
        if standing.kind is None:
            if standing.is_idle and episode is not None and episode.kind in AFTER_WORK and not seen.has_worked:
                # after a restart it rests as before
                return
            seen.is_known = True
            if episode is not None and (episode.kind in AFTER_WORK or self._is_at_rest(identity)):
                self._turn(episode, ENDINGS[episode.kind], None, now)
            return
        since = track.since if track is not None else (seen.lost_at or now)
        if track is not None and standing.sign is not None:
            # a turn may fail too fast to be seen at work
            since = track.samples[-1].at
        ends = (track.turns, 0 if standing.kind in AFTER_WORK else track.rests) if track is not None else (0, 0)
        # only what this very watch saw end may begin anew: after a restart, or a moment without tmux, it goes on
        went_away = track is not None and seen.adopted is track and seen.ends != ends
        seen.adopted, seen.ends = track, ends
        # a turn may be over between two looks: what it came to stands below another wake then
        other_wake = standing.sign.wake_id if standing.sign is not None else ""
        went_away |= episode is not None and other_wake not in {"", episode.wake_id}
        if episode is not None and episode.kind is standing.kind and not went_away:
            seen.is_known = True
            return
        begun = Episode(
            self._new_id(),
            identity,
            standing.kind,
            since,
            standing.evidence,
            seen.place_key,
            where=seen.where,
            program=seen.program,
            was_at_work=seen.was_at_work,
            wake_id=standing.sign.wake_id if standing.sign is not None else "",
        )
        if standing.kind is AttentionKind.LIMITED and standing.sign is not None:
            begun = self._at_limit(begun, standing.sign.text, is_first_look=not seen.is_known)
        if episode is not None:
            ending = "gone" if standing.kind is AttentionKind.GONE else ENDINGS[episode.kind]
            self._turn(episode, ending, begun, now)
        else:
            self._turn(None, "", begun, now)
        seen.is_known = True

    def _is_at_rest(self, identity: Identity) -> bool:
        """Whether it is at work, or none of its places can still show what was seen: one may say idle where another has the sign."""
        places = self._watch.looked_at(identity)
        is_at_work = any(vote_of(one.samples[-1])[0] is PresenceState.ACTIVE for one in places)
        return is_at_work or all(one.is_at_rest is not False for one in places)

    def _at_limit(self, begun: Episode, text: str, *, is_first_look: bool) -> Episode:
        """When the limit resets, as the screen says; and what is known from before, where the same limit is met again.

        A time of day on a screen that nobody saw change may be of another day: one that lies half a day ahead is not
        believed.
        """
        wall, steady = self._clock.wall(), self._clock.now()
        reset = reset_in(text, wall, self._clock.local().tzinfo or UTC)
        if reset is not None and is_first_look and not reset.is_dated and reset.at - wall > DAY // 2:
            reset = None
        begun = replace(begun, resets_at=Instant(reset.at - wall + steady) if reset is not None else None)
        before = next((one for one in self._ledger.episodes_of(begun.identity, 1)), None)
        if before is None or not is_met_again(replace(before, ended_at=before.ended_at or begun.began_at), begun):
            return begun
        return replace(begun, told_at=before.told_at, tries=before.tries + 1)

    def _note_work(self, seen: _Seen, track: TrackedPlace, *, is_at_work: bool) -> None:
        # a turn may be over between two looks
        is_over = not is_at_work and track.turn_began > seen.turn_began
        seen.turn_began = track.turn_began
        if not is_at_work and not is_over:
            return
        if not seen.has_worked or seen.idle_since or is_over:
            seen.has_kept_word = seen.has_kept_word and seen.idle_since is None
            seen.work_began, seen.idle_since = track.turn_began, None
            # what ended the turn before ends no other one
            seen.heard_word = seen.finished_by
        seen.has_worked = True
        # the turn that a limit ends at once was none
        seen.was_at_work = is_at_work and self._clock.now() - track.since >= AT_WORK_FOR

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
        self._note_work(seen, calm[0], is_at_work=not calm[1].is_idle)
        return calm[0], self._stopped(identity, seen, calm[1])

    def _stopped(self, identity: Identity, seen: _Seen, calm: Standing) -> Standing:
        """An agent that idles after work, where somebody wants to know; else it stands at nothing."""
        if not calm.is_idle:
            return calm
        seen.idle_since = seen.idle_since or self._clock.now()
        if not seen.has_worked and not seen.has_kept_word:
            return calm
        wanted = {kind for kind in AFTER_WORK if self._is_wanted(identity, kind)}
        # a row may be read a moment after it was written, and the end of a turn a moment before
        is_of_this_turn = seen.word_at >= seen.work_began - ROW_SLACK and seen.word_at != seen.heard_word
        has_word = seen.has_kept_word or is_of_this_turn
        if AttentionKind.FINISHED in wanted and has_word:
            seen.finished_by = seen.word_at
            return Standing(AttentionKind.FINISHED, evidence="idle after mail or the end of a task")
        is_stopped = AttentionKind.STOPPED in wanted and seen.has_worked
        return Standing(AttentionKind.STOPPED, evidence="idle after work") if is_stopped else calm

    def _is_wanted(self, identity: Identity, kind: AttentionKind) -> bool:
        watching = self._watchers.watchers_of(identity) if self._watchers is not None else ()
        return self._rules.is_told(identity, kind) or any(kind in one.filters.watches_for for one in watching)

    def _note_life(self, identity: Identity, seen: _Seen, track: TrackedPlace) -> None:
        # a person looks at its pane, whichever channel said how it stands
        place = self._watch.place_of(identity) or track.place
        seen.where, seen.place_key = place.label, place.key
        seen.program = next(iter(track.samples[-1].capabilities), seen.program)
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
            if episode.kind is AttentionKind.LIMITED:
                self._changed(episode.identity)
        if begun is not None:
            self._log.info(
                "attention_began",
                agent=begun.identity,
                reason=begun.kind,
                subject=begun.id,
                where=begun.where or None,
            )


def _presence_fact(episode: Episode, watching: Iterable[Identity]) -> Fact:
    return Fact(
        log_id=_NO_ROW,
        kind=EventKind.PRESENCE,
        trigger=Trigger.PRESENCE,
        recipients=tuple(sorted(watching)),
        subject_key=f"presence:{episode.id}",
        detail=PresenceDetail(episode.identity, episode.kind, episode.id),
        occurred_at=None,
        actor=episode.identity,
    )


def go_on_event(episode: Episode, event_id: str, epoch: Epoch, now: Instant) -> WakeEvent:
    """The line for an agent that a limit stopped in the middle of its work; its own hold at the limit says when."""
    return WakeEvent(
        id=event_id,
        epoch=epoch,
        log_id=_NO_ROW,
        identity=episode.identity,
        kind=EventKind.PRESENCE,
        subject_key=f"continue:{episode.id}",
        detail=PresenceDetail(episode.identity, episode.kind, episode.id),
        subscription_id="",
        matched_at=now,
        window=_REST,
    )
