"""The oracle of the typist trials: each way to break the draft rule is seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torture.draft_rule import AFTER, REFUSED, STAGED, Attack, judge
from tests.torture.rig import Standing
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason
from wake_bridge.domain.names import EPOCH_START, Identity

OURS = "[WAKE] Wake: 01"
KEYS = Attack(after=0.1, keys="abc")


def held(reason: HoldReason) -> Standing:
    delivery = Delivery("01", Identity("@a"), DeliveryState.DISPATCHED, 1, EPOCH_START, EPOCH_START, Hold(reason))
    return Standing("open", "", delivery)


def paste(composer: str = "") -> dict[str, Any]:
    return {"event": "paste", "text": OURS, "composer": composer}


def submit(text: str = OURS) -> dict[str, Any]:
    return {"event": "submit", "text": text, "composer": text}


@pytest.mark.parametrize(
    ("received", "composer", "hold", "result"),
    [
        ([], "abc", HoldReason.USER_TYPING, REFUSED),
        ([paste()], OURS + "abc", HoldReason.STAGED, STAGED),
        ([paste(), submit()], "abc", HoldReason.STAGED, AFTER),
    ],
)
def test_each_half_of_the_rule_is_recognised(
    received: list[dict[str, Any]], composer: str, hold: HoldReason, result: str
) -> None:
    """Before the condition intact, after the paste staged and reported, after Enter the next draft."""
    assert judge(KEYS, received, composer, held(hold)) == (result, [])


@pytest.mark.parametrize(
    ("received", "composer", "hold"),
    [
        ([], "ab", HoldReason.USER_TYPING),
        ([], "abc", HoldReason.STAGED),
        ([paste("abc")], "abc" + OURS, HoldReason.STAGED),
        ([paste()], OURS, HoldReason.STAGED),
        ([paste()], OURS + "abc", HoldReason.USER_TYPING),
        ([paste(), submit(OURS + "abc")], "", HoldReason.STAGED),
        ([paste(), submit()], "", HoldReason.STAGED),
        ([paste(), submit(), submit()], "abc", HoldReason.STAGED),
        ([paste(), paste(OURS)], OURS + OURS + "abc", HoldReason.STAGED),
    ],
    ids=[
        "a key of the draft is lost",
        "refused, but reported as staged",
        "pasted over a draft",
        "staged, and the key is lost",
        "staged, and not reported",
        "submitted together",
        "the key after Enter is lost",
        "submitted twice",
        "pasted twice",
    ],
)
def test_each_way_to_break_the_rule_is_seen(received: list[dict[str, Any]], composer: str, hold: HoldReason) -> None:
    """A trial that breaks the rule is a violation, whatever else happened."""
    assert judge(KEYS, received, composer, held(hold))[1]
