"""Rules of items from outside: modes and tiers, thresholds, keys and states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wake_bridge.domain.events import ItemMode, ItemPriority, ItemState, ItemTier, WakeEvent
from wake_bridge.domain.items import (
    ME,
    REPEATED_AFTER,
    SAME_FOR,
    Contradiction,
    ItemDraft,
    SourceRules,
    TakenAs,
    event_of,
    judge,
)
from wake_bridge.domain.names import Epoch, Identity, Instant, WakePolicy

NOW = Instant(1_000_000_000)


def made(at: int = 0, rules: SourceRules | None = None, **fields: Any) -> WakeEvent:
    draft = ItemDraft(**{"recipient": Identity("@api"), "source": "build", "text": "x"} | fields)
    return event_of(draft, rules or SourceRules(), f"ID{at}", Epoch(1), Instant(NOW + at))


@pytest.mark.parametrize(
    ("fields", "rules", "mode", "tier", "policy"),
    [
        ({}, {}, "passive", "next", "next_turn"),
        ({"mode": ItemMode.ACTIVE}, {}, "active", "now", "immediate"),
        ({"tier": ItemTier.NOW}, {}, "active", "now", "immediate"),
        ({"tier": ItemTier.LATER}, {}, "passive", "later", "silent"),
        ({}, {"mode": ItemMode.ACTIVE}, "active", "now", "immediate"),
        ({"tier": ItemTier.LATER}, {"mode": ItemMode.ACTIVE}, "passive", "later", "silent"),
        ({"mode": ItemMode.PROMPT}, {}, "prompt", "next", "silent"),
        ({"mode": ItemMode.ACTIVE, "priority": ItemPriority.LOW}, {}, "active", "now", "next_turn"),
        ({"mode": ItemMode.ACTIVE}, {"threshold": ItemPriority.HIGH}, "active", "now", "next_turn"),
        (
            {"mode": ItemMode.ACTIVE, "priority": ItemPriority.CRITICAL},
            {"threshold": ItemPriority.CRITICAL},
            "active",
            "now",
            "immediate",
        ),
        ({"recipient": ME}, {"mode": ItemMode.ACTIVE}, "prompt", "next", "silent"),
    ],
)
def test_mode_tier_and_threshold_say_how_insistent_an_item_is(
    fields: dict[str, Any], rules: dict[str, Any], mode: str, tier: str, policy: str
) -> None:
    """An active item wakes from the threshold of its source on; below it waits for the next turn."""
    event = made(rules=SourceRules(**rules), **fields)
    detail: Any = event.detail
    assert (detail.mode, detail.tier, event.policy) == (mode, tier, WakePolicy(policy))
    assert event.identity == (ME if mode == "prompt" else "@api")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"mode": ItemMode.ACTIVE, "tier": ItemTier.NEXT}, "tier"),
        ({"mode": ItemMode.PASSIVE, "tier": ItemTier.NOW}, "tier"),
        ({"recipient": ME, "mode": ItemMode.ACTIVE}, "mode"),
        ({"state": ItemState.RESOLVED}, "state"),
        ({"text": " \n"}, "text"),
        ({"text": "x" * 16_385}, "text"),
        ({"source": "a b"}, "source"),
        ({"key": "k" * 257}, "key"),
    ],
)
def test_what_contradicts_itself_is_no_item_and_the_field_is_named(fields: dict[str, Any], field: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(Contradiction) as caught:
        made(**fields)
    assert caught.value.field == field


def test_only_a_critical_item_need_not_wait_until_its_agent_has_rested() -> None:
    """A debounce of half a second is no wish to interrupt."""
    assert not made(mode=ItemMode.ACTIVE, priority=ItemPriority.HIGH).is_urgent
    assert made(mode=ItemMode.ACTIVE, priority=ItemPriority.CRITICAL).is_urgent


KEYED = {"key": "k"}
OPEN = {"key": "k", "state": ItemState.OPEN}
RESOLVED = {"key": "k", "state": ItemState.RESOLVED}


@pytest.mark.parametrize(
    ("fields", "before", "opened", "at", "waits", "was"),
    [
        (KEYED, None, None, 0, False, "new"),
        (KEYED, KEYED, None, SAME_FOR - 1, False, "same"),
        (KEYED, KEYED, None, SAME_FOR - 1, True, "same"),
        (KEYED, KEYED, None, SAME_FOR, False, "new"),
        (KEYED | {"text": "y"}, KEYED, None, 1, True, "updated"),
        (KEYED | {"text": "y"}, KEYED, None, 1, False, "new"),
        (OPEN | {"text": "y"}, OPEN, OPEN, 1, True, "updated"),
        (OPEN | {"text": "y"}, OPEN, OPEN, REPEATED_AFTER - 1, False, "repeated"),
        (OPEN, OPEN, OPEN, REPEATED_AFTER, False, "new"),
        (OPEN | {"priority": ItemPriority.CRITICAL}, OPEN, OPEN, 1, False, "new"),
        (OPEN, RESOLVED, None, SAME_FOR, False, "new"),
        (RESOLVED, OPEN, OPEN, 1, True, "new"),
        (RESOLVED, OPEN, OPEN, 1, False, "new"),
        (RESOLVED | {"text": "y"}, RESOLVED, None, 1, True, "over"),
        (RESOLVED, None, None, 0, False, "over"),
    ],
)
def test_a_key_says_what_becomes_of_an_item(
    fields: dict[str, Any],
    before: dict[str, Any] | None,
    opened: dict[str, Any] | None,
    at: int,
    waits: bool,
    was: str,
) -> None:
    """The same is dropped for 300 s, news takes the place of what waits, an open matter repeats after 4 h, its end is told once."""
    event = made(at, **fields)
    latest = made(**before) if before else None
    lasting = replace(made(**opened), id="OPENED") if opened else None
    assert judge(event, latest, lasting, Instant(NOW + at), waits=waits) is TakenAs(was)
