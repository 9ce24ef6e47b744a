"""The words of `status`: what happened since you last looked, and the rows of the live table."""

from __future__ import annotations

from typing import Any

import pytest

from wake_bridge.cli.daemon import taken_in
from wake_bridge.cli.watch import HEADINGS, cells_of
from wake_bridge.domain.names import Instant
from wake_bridge.records import absence_words

NOW = Instant(1_700_000_000_000)
SIX_HOURS_AGO = "2023-11-14T16:13:20.000Z"


def absence(**said: Any) -> dict[str, Any]:
    nothing = {"delivered": 0, "held": 0, "heldFor": [], "unknown": 0, "failed": 0, "escalated": 0}
    return {"since": SIX_HOURS_AGO, **nothing, **said}


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([], ""),
        (["items"], ", for items"),
        (["wakes", "page"], ", for signed wakes and the page"),
        (["wakes", "items", "page"], ", for signed wakes, items and the page"),
    ],
)
def test_status_says_what_an_address_is_for(kinds: list[str], told: str) -> None:
    """Signed wakes, items and the page, as each of them is taken in there."""
    assert taken_in(kinds) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"delivered": 14, "held": 2, "heldFor": ["approval waiting in a:1.2", "quiet hours"], "unknown": 1},
            "since you last looked (6 h ago): 14 delivered, 2 held (approval waiting in a:1.2; quiet hours), 1 unknown",
        ),
        ({}, "since you last looked (6 h ago): nothing new"),
        ({"since": None, "delivered": 1, "failed": 2}, "so far: 1 delivered, 2 failed"),
        ({"escalated": 2}, "since you last looked (6 h ago): 2 passed to you"),
        (
            {"held": 5, "heldFor": ["a", "b", "c", "d", "e"]},
            "since you last looked (6 h ago): 5 held (a; b; c; and 2 more reasons)",
        ),
    ],
)
def test_status_opens_with_what_happened_since_somebody_last_looked(said: dict[str, Any], told: str) -> None:
    """It opens with "since you last looked: 14 delivered, 2 held (why), 1 unknown"."""
    assert absence_words(absence(**said), NOW) == told


def test_a_row_of_the_live_table_has_a_cell_for_each_heading() -> None:
    """Identity, presence, since, held for, next look, last wake, budget."""
    agent = {
        "agentIdentity": "@a",
        "presence": "waitingOnApproval",
        "looksLike": "waitingOnApproval",
        "since": "2023-11-14T22:12:20.000Z",
        "waiting": 2,
        "needs": [],
        "holdReason": "waitingOnApproval",
        "heldFor": "approval waiting in a:1.2",
        "heldSince": "2023-11-14T22:12:40.000Z",
        "nextLook": "2023-11-14T22:13:25.000Z",
        "lastWake": None,
        "budget": {"this_hour": 3, "of_hour": 20, "today": 12, "of_day": 150},
    }
    told = ("@a", "waitingOnApproval", "1 min", "40 s: approval waiting in a:1.2", "in 5 s", "-", "3/20 h  12/150 d")

    assert dict(zip(HEADINGS, cells_of(agent, NOW), strict=True)) == dict(zip(HEADINGS, told, strict=True))
    unproven = {**agent, "presence": "unknown", "looksLike": "idle", "heldFor": None, "nextLook": agent["since"]}
    assert cells_of(unproven, NOW)[1:5] == ("idle?", "1 min", "2 waiting", "now")
    unwatched = {**agent, "presence": None, "looksLike": None, "since": None, "waiting": 0, "heldFor": None}
    assert cells_of(unwatched, NOW)[1:4] == ("-", "-", "-")
