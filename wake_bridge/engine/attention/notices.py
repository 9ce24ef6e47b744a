"""Finds what a person should know, and sends one notice of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

import structlog

from wake_bridge.domain.attention import Episode, EpisodeElsewhere, host_in, is_same_fact, stands_first
from wake_bridge.domain.causes import Cause, Tell
from wake_bridge.domain.channels import Channel, Send, messages_of, near_message
from wake_bridge.domain.delivery import Delivery, Hold, Outcome, held_since
from wake_bridge.domain.names import DAY, AttentionKind, Identity, Instant
from wake_bridge.domain.notices import (
    NO_ROUTES,
    WHO_LIVES_WHERE,
    Notice,
    about_attention,
    about_attention_elsewhere,
    about_end,
    about_failed_turns,
    about_hold,
    about_moved,
    about_no_routes,
    about_state,
    calls_for_a_person,
    is_one_question,
)
from wake_bridge.domain.usage_limits import clock_time, is_same_limit
from wake_bridge.engine.attention.outbox import Outbox
from wake_bridge.engine.deliver.unknown_outcomes import looked_for_of
from wake_bridge.engine.settings import Current
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.human import Human
from wake_bridge.ports.ledger import Ledger

NEWS_FOR: Final = DAY
"""Milliseconds after which what has ended is no news any more, as after an update or a long sleep."""

_NEVER_TOLD: Final = frozenset(one for one in Cause if one.tell is Tell.NEVER)
"""Thousands may wait so, of whom nobody is told: the ledger leaves them out."""

_LATEST: Final = 3
"""Episodes of an agent among which the one is that holds its wake."""


class Notices:
    """Decides on notices and sends them on their way.

    Contract: `tick` may be called at any time and any number of times; a notice is on disk before it goes out, so that no
    restart says it twice; nothing that goes out holds up the caller. In quiet hours nothing is decided: what is still
    true when they end is told then.

    Args:
        active_routes: how many subscriptions can wake somebody; None while nobody knows.
        nudged: how many identities the heartbeat serves instead: as long as there are any, somebody can be woken.
        known: the identities of the graph.
        trouble: why nothing can be written down now, empty if it can.
        due: the episodes in which an agent needs a person, and that are to be told now.
        given_up: the wakes whose turns failed again and again, and whose mail is unread.
        elsewhere: what agents on other hosts stand at, by the hosts that can say so now.
        is_linked: whether there is a link to a host, up or not.
        is_somebody_active: whether a client had a key in the last minute.
    """

    def __init__(
        self,
        ledger: Ledger,
        human: Human,
        current: Current,
        clock: Clock,
        *,
        active_routes: Callable[[], int | None],
        nudged: Callable[[], int],
        known: Callable[[], Container[Identity]],
        trouble: Callable[[], str] = str,
        due: Callable[[Instant], Sequence[Episode]] = lambda _: (),
        given_up: Callable[[], Sequence[Delivery]] = lambda: (),
        elsewhere: Callable[[], Mapping[str, Sequence[EpisodeElsewhere]]] = dict,
        is_linked: Callable[[str], bool] = lambda _: True,
        is_somebody_active: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ledger = ledger
        self.outbox = Outbox(ledger, human, current, clock, is_somebody_active)
        self._current = current
        self._clock = clock
        self._active_routes = active_routes
        self._nudged = nudged
        self._known = known
        self._trouble = trouble
        self._due = due
        self._given_up = given_up
        self._elsewhere = elsewhere
        self._is_linked = is_linked
        self._told_trouble = False
        self._silent_since: Instant | None = None
        self._log = structlog.get_logger("notices")

    def tick(self, now: Instant) -> None:
        """Tell what is due now."""
        if trouble := self._trouble():
            # nothing can be noted down, this word least of all: it is said once, until it is over
            if not self._told_trouble:
                self.about_state(trouble)
            self._told_trouble = True
            return
        self._told_trouble = False
        routes = self._about_routes(now)
        if not self._is_quiet():
            self._decide(routes, now)
        self.outbox.tick(now)

    def _decide(self, routes: Sequence[Notice], now: Instant) -> None:
        self._tell_of_episodes(now)
        self._tell_of_elsewhere(now)
        for notice in (*self._about_deliveries(now), *routes):
            if self._ledger.give_notice(notice, now, messages_of(notice, self._channels, now, far_at=now)):
                self._report(notice)

    def _tell_of_episodes(self, now: Instant) -> None:
        """Tell each once, alike ones together; those who are away hear later of what a person at hand may answer first."""
        due: list[list[Episode]] = []
        standing = self._ledger.open_episodes()
        for episode in self._due(now):
            if self._is_told_as_hold(episode) or any(
                one.told_at is not None and is_same_limit(one, episode) for one in standing
            ):
                self._ledger.note_episodes_told([episode.id], now)
                continue
            alike = next((one for one in due if _is_one_fact(one[0], episode)), None)
            if alike is None:
                due.append([episode])
            else:
                alike.append(episode)
        for alike in due:
            notice = about_attention(alike, now, self._clock_time(alike[0].resets_at))
            ids = [one.id for one in alike]
            self._ledger.tell_of_episodes(notice, ids, self._messages(notice, alike[0], ids, now), now)
            self._report(notice)

    def _tell_of_elsewhere(self, now: Instant) -> None:
        """Tell what no channel of another host has told, once; forget what is over there, or where no link leads any more."""
        found = self._elsewhere()
        standing = {one.subject for host in found for one in found[host]}
        for subject in self._ledger.noticed() - standing:
            host = host_in(subject)
            # a host that is not linked any more says no more, ever
            if host in found or (host and not self._is_linked(host)):
                self._ledger.withdraw_notice(subject)
        for one in (one for host in found for one in found[host] if one.is_unheard):
            notice = about_attention_elsewhere(one, now)
            if self._ledger.give_notice(notice, now, self._messages(notice, one, [one.subject], now)):
                self._report(notice)

    def _messages(
        self, notice: Notice, first: Episode | EpisodeElsewhere, ids: Sequence[str], now: Instant
    ) -> list[Send]:
        """The messages about episodes: who is away hears later of what a person at hand may answer first."""
        waits = stands_first(first.kind)
        later = Instant(first.began_at + self._current.settings.later_ms)
        far_at = max(now, later) if waits else now
        return messages_of(notice, self._channels, now, far_at=far_at, is_patient=waits, episodes=ids)

    @property
    def _channels(self) -> Sequence[Channel]:
        return self._current.settings.channels

    def _report(self, notice: Notice) -> None:
        self._log.warning(
            "notice_given",
            agent=notice.identity or None,
            reason=notice.reason,
            subject=notice.subject,
            where=notice.where or None,
        )

    def _clock_time(self, instant: Instant | None) -> str:
        return (
            "" if instant is None else clock_time(instant, self._clock.now(), self._clock.wall(), self._clock.local())
        )

    def _is_told_as_hold(self, episode: Episode) -> bool:
        """Whether a person was told of the same thing by the notice of a wake that it holds."""
        held = (one for one in self._ledger.unsettled() if one.identity == episode.identity and one.hold is not None)
        told = [self._ledger.noticed_at(one.id) for one in held if one.hold and is_same_fact(episode, one.hold.cause)]
        return any(at is not None and at >= episode.began_at for at in told)

    def _is_told_as_episode(self, delivery: Delivery, hold: Hold, since: Instant) -> bool:
        """Whether a person was told of what holds the wake, as an episode of its agent.

        One that has ended counts as well: until the wake is looked at again it is held by what is over.
        """
        return any(
            one.told_at is not None
            and (one.ended_at is None or one.ended_at >= since)
            and is_same_fact(one, hold.cause)
            for one in self._ledger.episodes_of(delivery.identity, _LATEST)
        )

    def about_state(self, trouble: str) -> None:
        """Tell what is the matter with the state directory, at any hour, without a note of it there."""
        notice = about_state(trouble, self._clock.now())
        self._log.warning("notice_given", reason=notice.reason, subject=notice.subject, detail=trouble)
        self.outbox.send_directly(near_message(notice, self._channels, self._clock.now()))

    async def drain(self) -> None:
        """Wait for what is going out."""
        await self.outbox.drain()

    async def close(self) -> None:
        """Call back what is going out."""
        await self.outbox.close()

    def _is_quiet(self) -> bool:
        hours, local = self._current.settings.quiet_hours, self._clock.local()
        return hours is not None and hours.minutes_left(local.hour * 60 + local.minute) > 0

    def _about_deliveries(self, now: Instant) -> Iterator[Notice]:
        told, known = self._ledger.noticed(), self._known()
        # of what has to be answered a person hears once: when it passes to them
        held = self._ledger.held(but=_NEVER_TOLD)
        yield from self._about_moved([one for one in held if one.hold and is_one_question(one.hold)], now, told)
        for delivery in held:
            if delivery.hold is None or delivery.id in told or is_one_question(delivery.hold):
                continue
            since = held_since(self._ledger.journal_of(delivery.id)) or now
            is_due = calls_for_a_person(delivery.hold, since, now, self._current.settings.notice_after_ms)
            if is_due and not self._is_told_as_episode(delivery, delivery.hold, since):
                yield about_hold(delivery, delivery.hold, since, self._ledger.events_of(delivery.id), now, known)
        for delivery in self._given_up():
            if delivery.id not in told:
                yield about_failed_turns(delivery, self._ledger.events_of(delivery.id), now, known)
        looked_until = Instant(now - looked_for_of(self._current.settings))
        for delivery in self._ledger.failed_untold(Instant(now - NEWS_FOR)):
            if delivery.outcome is Outcome.UNKNOWN and looked_until < (delivery.settled_at or now) <= now:
                # it may be seen yet, and if it is not, its news may be announced once more
                continue
            yield about_end(delivery, self._ledger.events_of(delivery.id), now, known)

    def _about_moved(self, waiting: Sequence[Delivery], now: Instant, told: Container[str]) -> Iterator[Notice]:
        """One word for all, as soon as one of them has waited long enough; when nobody waits so, it may come again."""
        if not waiting and WHO_LIVES_WHERE in told:
            self._ledger.withdraw_notice(WHO_LIVES_WHERE)
        if not waiting or WHO_LIVES_WHERE in told:
            return
        since, longest = min(
            ((held_since(self._ledger.journal_of(one.id)) or now, one) for one in waiting), key=lambda one: one[0]
        )
        if longest.hold and calls_for_a_person(longest.hold, since, now, self._current.settings.notice_after_ms):
            yield about_moved(waiting, longest.hold, since, now)

    def _about_routes(self, now: Instant) -> list[Notice]:
        """Nobody can be woken, for as long as a hold must last."""
        routes = self._active_routes()
        if routes is None:
            return []
        if routes or self._nudged():
            self._silent_since = None
            if NO_ROUTES in self._ledger.noticed():
                self._ledger.withdraw_notice(NO_ROUTES)
            return []
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since < self._current.settings.notice_after_ms:
            return []
        return [about_no_routes(self._silent_since)]


def _is_one_fact(one: Episode, other: Episode) -> bool:
    """Whether one notice is enough for both: alike at the same moment; at a limit, of one account."""
    return one.kind is other.kind and (one.kind is not AttentionKind.LIMITED or is_same_limit(one, other))
