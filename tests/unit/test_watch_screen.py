"""`status --watch` on terminals of every size: whoever is chosen is in sight, and so is what holds its wake."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from wake_bridge.cli.watch import WatchScreen

HEAD = [
    "so far: 1 delivered, 1 held",
    "daemon     running",
    "settings   config.toml",
    "graph      graph.sqlite",
    "log        at 9 of 9",
    "routes     3 active",
    "deliveries 1 open",
    "held for   paused (1)",
    "paused     @core, until tomorrow",
    "attention  the ledger cannot be written",
]


def agent(name: str, **more: Any) -> dict[str, Any]:
    """What is told of an agent that looks idle."""
    told = dict.fromkeys(("since", "heldFor", "heldSince", "nextLook", "lastWake", "holdReason", "where", "deliveryId"))
    budget = {"this_hour": 0, "of_hour": 20, "today": 0, "of_day": 150}
    shown = {"agentIdentity": name, "presence": "unknown", "looksLike": "idle", "route": "tmux"}
    return told | shown | {"budget": budget, "waiting": 0, "items": 0, "needs": [], "isPaused": False} | more


AGENTS = [
    agent(
        "@a-very-long-name-of-an-agent-on-the-index", waiting=1, heldFor="quiet hours " * 20, holdReason="quietHours"
    ),
    *(agent(f"@{number:03}", waiting=1, heldFor="paused by a person", holdReason="paused") for number in range(200)),
]


def lines(width: int, height: int, chosen: str = "", agents: list[dict[str, Any]] = AGENTS) -> list[str]:
    """What stands on a terminal of that size, from the top."""
    shown = WatchScreen({"agents": agents}, lambda _: "\n".join(HEAD), lambda _: [], chosen=chosen)
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as drawn:
        console.print(shown.drawn(width, height))
    return drawn.get().rstrip().split("\n")


@pytest.mark.parametrize("width", [40, 59, 60, 80, 119, 120, 200])
@pytest.mark.parametrize("height", [12, 24, 50])
@pytest.mark.parametrize("chosen", ["@a-very-long-name-of-an-agent-on-the-index", "@007", "@199"])
def test_whoever_is_chosen_is_in_sight_with_what_holds_its_wake(width: int, height: int, chosen: str) -> None:
    """200 agents, names and reasons of any length: no line is too long, no row below the end, the keys are named."""
    shown = lines(width, height, chosen)
    assert len(shown) <= height
    assert max(map(len, shown)) <= width
    (row,) = (one for one in shown if one.strip().startswith(chosen[:12]))
    assert ("quiet" if "long" in chosen else "paused") in row
    assert shown[0] == HEAD[0]
    keys = " ".join(" ".join(shown).split())
    assert "j k choose Enter open" in keys
    assert "q Ctrl-C end" in keys


def test_above_many_agents_stands_what_is_urgent_and_above_few_all_of_it() -> None:
    """The table of a small terminal is not pushed off it by paths and counts."""
    few = lines(80, 24, agents=AGENTS[:3])
    assert few[: len(HEAD)] == HEAD
    many = lines(80, 24)
    assert many[:3] == [HEAD[0], HEAD[-1], HEAD[-2]]
    assert sum(one.strip().startswith("@") for one in many) >= 7
    assert sum(one.strip().startswith("@") for one in lines(80, 8)) == 1
