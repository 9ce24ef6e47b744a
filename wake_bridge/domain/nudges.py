"""The heartbeat's rules: whom it serves, when it reminds again, and the line that it sends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from wake_bridge.domain.digest import MOST_BYTES, DigestStyle, action_line, recency
from wake_bridge.domain.events import MessageDetail, PulseDetail, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId
from wake_bridge.domain.receivers import Receiver
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.subscriptions import PUSH_TARGETS, Subscription, of_rows
from wake_bridge.domain.text import harmless, name
from wake_bridge.domain.values import dataclass

LONGEST_COOLDOWN: Final = 3_600_000
"""Milliseconds: so long it waits at most while nothing changes."""

HEARTBEAT: Final = "heartbeat"
"""What a pulse of our own names as its source, and the name of the adapter that brings it."""

_REST: Final = 1
"""Seconds of window of a pulse: not 0, which would skip the pane's rest after a wake."""

_GAP: Final = "   "
_SUBJECT_STEPS: Final = (80, 40, 0)


class Driver(StrEnum):
    """Who puts wakes in front of an identity: one at a time, never two."""

    PUSH = "push"
    BRIDGE = "bridge"
    HEARTBEAT = "heartbeat"
    NOBODY = "nobody"


def driver_of(
    subscriptions: Iterable[Subscription],
    served: Iterable[Subscription],
    *,
    is_bound: bool,
    wakes: Callable[[Subscription], bool] = lambda _: True,
) -> Driver:
    """Who serves an identity; the first line that applies wins.

    Args:
        subscriptions: all it has, whoever serves them.
        served: those of them that match and are ours to serve.
        wakes: whether one of those can wake, as things stand: on a graph of our own nobody pushes.
        is_bound: whether it is known where it lives: it was bound, or has a `[targets]` entry.
    """
    known = [one for one in subscriptions if one.status != "removed"]
    ours = list(served)
    if any(is_push_capable(one) and one not in ours for one in known):
        return Driver.PUSH
    if any(not one.is_heartbeat_only and wakes(one) for one in ours):
        return Driver.BRIDGE
    if any(one.is_heartbeat_only for one in ours):
        return Driver.HEARTBEAT
    # a retired subscription, or one that another server has, is a word against being woken
    return Driver.HEARTBEAT if is_bound and not known else Driver.NOBODY


def drivers(
    book: SubscriptionBook, bound: Collection[Identity], is_shut: Callable[[Receiver], bool] = lambda _: False
) -> Mapping[Identity, Driver]:
    """The driver of everyone who is subscribed or bound; `is_shut` says which receivers take nothing for now."""

    def wakes(one: Subscription) -> bool:
        return not book.why_unwoken(one) and not (one.is_posted and one.receiver is not None and is_shut(one.receiver))

    known: dict[Identity, list[Subscription]] = {identity: [] for identity in bound}
    for subscription in book.all():
        if subscription.identity and not subscription.is_signed:
            known.setdefault(subscription.identity, []).append(subscription)
    return {
        identity: driver_of(theirs, of_rows(book.of(identity)), is_bound=identity in bound, wakes=wakes)
        for identity, theirs in known.items()
    }


def is_push_capable(subscription: Subscription) -> bool:
    """Whether another channel than a composer pushes to it: what a heartbeat must skip."""
    return subscription.harness_target in PUSH_TARGETS and subscription.status == "active"


@dataclass(frozen=True, slots=True)
class Beat:
    """When an identity was last nudged, and how long the heartbeat waits from then on while nothing changes, in ms."""

    nudged_at: Instant
    cooldown: int


def next_beat(last: Beat | None, *, has_news: bool, first_cooldown: int, now: Instant) -> Beat | None:
    """The beat that is due now, None while it is not: news resets the cooldown, else it doubles up to an hour.

    `first_cooldown` is in milliseconds. However many ticks were missed, one beat is due.
    """
    if last is None:
        return Beat(now, first_cooldown)
    if now < last.nudged_at + (first_cooldown if has_news else last.cooldown):
        return None
    return Beat(now, first_cooldown if has_news else min(2 * last.cooldown, LONGEST_COOLDOWN))


@dataclass(frozen=True, slots=True)
class Unread:
    """What waits for an identity that is left to the heartbeat.

    `news` was never told; `told` is mail that an earlier nudge counted and that is still unread.
    """

    news: tuple[WakeEvent, ...] = ()
    told: tuple[WakeEvent, ...] = ()

    @property
    def all(self) -> tuple[WakeEvent, ...]:
        """Both."""
        return (*self.told, *self.news)


def pulse_for(identity: Identity, event_id: str, epoch: Epoch, now: Instant) -> WakeEvent:
    """The reason of one nudge; it has no row in the log, and says nothing where something else is told."""
    return WakeEvent(
        id=event_id,
        epoch=epoch,
        log_id=LogId(0),
        identity=identity,
        kind=EventKind.PULSE,
        subject_key=f"{HEARTBEAT}:{event_id}",
        detail=PulseDetail(event_id, HEARTBEAT),
        subscription_id="",
        matched_at=now,
        window=_REST,
    )


def is_our_pulse(event: WakeEvent) -> bool:
    """Whether an event is a nudge's reason, made by `pulse_for`."""
    return isinstance(event.detail, PulseDetail) and event.subject_key == f"{HEARTBEAT}:{event.id}"


def compose_nudge(
    unread: Unread,
    *,
    identity: Identity,
    delivery_id: str,
    known: Container[Identity],
    style: DigestStyle | None = None,
    target_characters: int = 1024,
) -> str:
    """One line: how much is unread, the latest of it, what to do, and the mark as its last word.

    Raises:
        ValueError: nothing is unread.
    """
    if not unread.all:
        raise ValueError("a nudge speaks of something unread")
    action = action_line((style or DigestStyle()).action, identity, known)
    text = ""
    for subject in _SUBJECT_STEPS:
        counted = f"{_counted(unread.all)}{_latest(unread.all, subject, known)}"
        opening = f"[WAKE] {counted} for {name(identity, known=identity in known)}."
        text = _GAP.join(filter(None, [opening, action, f"Wake: {delivery_id}"]))
        if len(text) <= target_characters and len(text.encode()) <= MOST_BYTES:
            break
    return text


def _counted(events: Sequence[WakeEvent]) -> str:
    mail = len([one for one in events if one.kind is EventKind.MESSAGE])
    others = len(events) - mail
    return " and ".join(
        filter(
            None,
            [
                f"{mail} unread {'message' if mail == 1 else 'messages'}" if mail else "",
                f"{others} unread {'notice' if others == 1 else 'notices'}" if others else "",
            ],
        )
    )


def _latest(events: Sequence[WakeEvent], subject: int, known: Container[Identity]) -> str:
    messages = [one for one in events if isinstance(one.detail, MessageDetail)]
    detail = max(messages, key=recency).detail if messages else None
    if not subject or not isinstance(detail, MessageDetail):
        return ""
    sender = name(detail.sender, known=Identity(detail.sender) in known) or "unknown"
    return f' (latest: "{harmless(detail.subject, subject) or "(no subject)"}" from {sender})'
