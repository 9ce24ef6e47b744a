"""Items: what comes from outside, whom it is for, when the same counts as said, and when a source storms. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from wake_bridge.domain.events import (
    ItemDetail,
    ItemMode,
    ItemPriority,
    ItemState,
    ItemTier,
    WakeEvent,
)
from wake_bridge.domain.names import (
    EPOCH_START,
    HOUR,
    MINUTE,
    SECOND,
    Epoch,
    EventKind,
    Identity,
    Instant,
    LogId,
    WakePolicy,
)
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.text import harmless
from wake_bridge.domain.values import dataclass

ME: Final = Identity("@me")
"""Whose the inbox of the person is."""

SAME_FOR: Final = 300 * SECOND
"""Milliseconds for which the same content under the same key is dropped."""

REPEATED_AFTER: Final = 4 * HOUR
"""Milliseconds after which an open matter is told again at the earliest."""

LEASED_FOR: Final = 10 * MINUTE
"""Milliseconds in which a reader acknowledges, or reads on; after that what it was shown counts as unread again."""

LONGEST_TEXT: Final = 16_384
"""Characters of an item's text."""

MOST_SHOWN: Final = 50
"""Items of one list."""

DEBOUNCE: Final = 0.5
"""Seconds that an item waits for others before it wakes, unless its source says otherwise."""

_LONGEST_KEY: Final = 256
_SOURCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")

_MODE_OF_TIER: Final = {
    ItemTier.NOW: ItemMode.ACTIVE,
    ItemTier.NEXT: ItemMode.PASSIVE,
    ItemTier.LATER: ItemMode.PASSIVE,
}
"""What a tier alone says."""


@dataclass(frozen=True, slots=True)
class SourceRules:
    """What the configuration says of a source.

    `mode` counts where an item says nothing; an active one wakes from `threshold` on; `debounce_ms` are the milliseconds that it
    waits for others, and `ack_within_ms` those in which one that wakes has to be answered, 0 where it need not be. Its token reaches `identities`, everybody here where there are none, with items of the `tiers`.
    """

    mode: ItemMode = ItemMode.PASSIVE
    threshold: ItemPriority = ItemPriority.NORMAL
    debounce_ms: int = int(DEBOUNCE * SECOND)
    identities: tuple[Identity, ...] = ()
    tiers: frozenset[ItemTier] = frozenset(ItemTier)
    ack_within_ms: int = 0

    def reaches(self, identity: Identity) -> bool:
        """Whether its token may send anything to an identity."""
        return not self.identities or identity in self.identities


@dataclass(frozen=True, slots=True)
class ItemDraft:
    """An item as its sender has it: mode and tier only where it says so."""

    recipient: Identity
    source: str
    text: str
    mode: ItemMode | None = None
    tier: ItemTier | None = None
    priority: ItemPriority = ItemPriority.NORMAL
    key: str = ""
    state: ItemState = ItemState.NONE
    by: str = ""
    directive: str = ""
    tone_hint: str = ""
    session_id: str = ""
    channel_id: str = ""
    metadata: str = "{}"


@dataclass(frozen=True, slots=True)
class SourcesTable:
    """All sources; one that is not named has the defaults."""

    rules: Mapping[str, SourceRules] = field(default_factory=dict)

    def of(self, source: str) -> SourceRules:
        """What holds for a source."""
        return self.rules.get(source, SourceRules())


class Contradiction(ValueError):
    """An item that says two things, or nothing; `field` names where."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field
        self.why = why


def event_of(draft: ItemDraft, rules: SourceRules, item_id: str, epoch: Epoch, now: Instant) -> WakeEvent:
    """The event of an item.

    Args:
        draft: what its sender says.
        rules: what holds for its source.
        item_id: its id, by which `why` and `ack` know it.
        epoch: the present life of the source of rows.
        now: the present moment.

    Raises:
        Contradiction: it says nothing, or two things.
    """
    _require_text(draft)
    mode, tier = mode_and_tier(draft, rules)
    is_for_person = mode is ItemMode.PROMPT
    detail = ItemDetail(
        source=draft.source,
        text=draft.text.strip(),
        mode=mode,
        tier=tier,
        priority=draft.priority,
        key=draft.key,
        state=draft.state,
        about=draft.recipient if is_for_person and draft.recipient != ME else "",
        by=draft.by,
        directive=draft.directive,
        tone_hint=draft.tone_hint,
        session_id=draft.session_id,
        channel_id=draft.channel_id,
        metadata=draft.metadata,
    )
    policy = _policy(mode, tier, draft.priority, rules)
    return WakeEvent(
        id=item_id,
        epoch=epoch,
        log_id=LogId(0),
        identity=ME if is_for_person else draft.recipient,
        kind=EventKind.ITEM,
        subject_key=item_id,
        detail=detail,
        subscription_id="",
        matched_at=now,
        occurred_at=now,
        policy=policy,
        ack_within=rules.ack_within_ms if policy is WakePolicy.IMMEDIATE else 0,
        priority=draft.priority.of_wake,
        window=0,
        not_before=Instant(now + rules.debounce_ms) if policy is WakePolicy.IMMEDIATE else EPOCH_START,
    )


def is_source(name: str) -> bool:
    """Whether a source can be named so."""
    return _SOURCE.fullmatch(name) is not None


def _require_text(draft: ItemDraft) -> None:
    if not draft.text.strip():
        raise Contradiction("text", "there is no text")
    if len(draft.text) > LONGEST_TEXT:
        raise Contradiction("text", f"the text has more than {LONGEST_TEXT} characters")
    if not is_source(draft.source):
        raise Contradiction("source", "a source is named by 1 to 32 letters, digits, - and _")
    if draft.state is not ItemState.NONE and not draft.key:
        raise Contradiction("state", f"{draft.state} needs a key: it says which matter is meant")
    if len(draft.key) > _LONGEST_KEY:
        raise Contradiction("key", f"the key has more than {_LONGEST_KEY} characters")


def mode_and_tier(draft: ItemDraft, rules: SourceRules) -> tuple[ItemMode, ItemTier]:
    """What an item says of both, or what its source says where it says nothing. Raises `Contradiction`."""
    mode = draft.mode
    if draft.recipient == ME:
        if mode not in {None, ItemMode.PROMPT}:
            raise Contradiction("mode", f"{mode} is for an agent, and {ME} is the person")
        mode = ItemMode.PROMPT
    if mode is None:
        mode = rules.mode
        # a tier that does not fit what is only configured says more than that does
        if draft.tier is not None and mode is not ItemMode.PROMPT:
            mode = _MODE_OF_TIER[draft.tier]
    tier = draft.tier or (ItemTier.NOW if mode is ItemMode.ACTIVE else ItemTier.NEXT)
    if mode is ItemMode.ACTIVE and tier is not ItemTier.NOW:
        raise Contradiction("tier", f"active wakes at once, and {tier} does not")
    if mode is ItemMode.PASSIVE and tier is ItemTier.NOW:
        raise Contradiction("tier", "passive waits for the next turn, and now does not")
    return mode, tier


def _policy(mode: ItemMode, tier: ItemTier, priority: ItemPriority, rules: SourceRules) -> WakePolicy:
    if mode is ItemMode.PROMPT or tier is ItemTier.LATER:
        return WakePolicy.SILENT
    if mode is ItemMode.ACTIVE and priority.rank >= rules.threshold.rank:
        return WakePolicy.IMMEDIATE
    return WakePolicy.NEXT_TURN


class TakenAs(StrEnum):
    """What became of an item. `updated`: it took the place of one that waited; `same`, `repeated` and `over` are dropped."""

    NEW = "new"
    UPDATED = "updated"
    SAME = "same"
    REPEATED = "repeated"
    OVER = "over"

    @property
    def is_kept(self) -> bool:
        """Whether it is in the inbox now."""
        return self in {TakenAs.NEW, TakenAs.UPDATED}


def judge(
    event: WakeEvent, latest: WakeEvent | None, opened: WakeEvent | None, now: Instant, *, waits: bool
) -> TakenAs:
    """What becomes of an item whose recipient has others under its key.

    Args:
        event: the new one.
        latest: the latest one under its key; None where there is none, or it has no key.
        opened: the latest `open` one that no `resolved` has followed.
        now: the present moment.
        waits: whether the latest one has not been locked, told or settled.
    """
    item = _item(event)
    if latest is None:
        return TakenAs.OVER if item.state is ItemState.RESOLVED else TakenAs.NEW
    before = _item(latest)
    if _content(item) == _content(before) and now - latest.matched_at < SAME_FOR:
        return TakenAs.SAME
    if item.state is ItemState.RESOLVED:
        return TakenAs.NEW if opened is not None else TakenAs.OVER
    if waits and before.state is item.state:
        return TakenAs.UPDATED
    if item.state is ItemState.OPEN and opened is not None and now - opened.matched_at < REPEATED_AFTER:
        return TakenAs.NEW if item.priority.rank > _item(opened).priority.rank else TakenAs.REPEATED
    return TakenAs.NEW


def _content(item: ItemDetail) -> tuple[str, ...]:
    return item.text, item.priority, item.mode, item.tier, item.state


def _item(event: WakeEvent) -> ItemDetail:
    if not isinstance(event.detail, ItemDetail):
        raise TypeError(f"{event.id} is no item")
    return event.detail


def calmed(event: WakeEvent) -> WakeEvent:
    """The item of a source that storms: it waits in the inbox, and neither wakes nor is told."""
    return replace(event, policy=WakePolicy.SILENT if event.identity == ME else WakePolicy.NEXT_TURN)


def storm_subject(event: WakeEvent) -> str:
    """What the notice of a storm is about."""
    return f"storm:{_item(event).source}:{event.identity}"


def about_storm(event: WakeEvent, most: int, period_ms: int, now: Instant) -> Notice:
    """The one notice of a source that storms."""
    source = harmless(_item(event).source)
    return Notice(
        storm_subject(event),
        "storm",
        f"wake-bridge: {source} sends more than {most} items within {period_ms // SECOND} s",
        f"Further items for {event.identity} wait in its inbox and wake nobody until it sends fewer.",
        now,
        event.identity,
        whose=event.identity,
    )
