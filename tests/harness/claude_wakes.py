"""What became of a wake that was sent to a real Claude Code: by the ledger, by its screen, and by the model's own log."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any, Final

from tests.harness.claude_house import ClaudeHouse
from tests.harness.house import PATIENCE
from tests.harness.model.asked import Asked

REST: Final = 3.0
"""Seconds."""


def settled(house: ClaudeHouse, message: str, timeout: float = PATIENCE) -> dict[str, Any]:
    """The one delivery that announces the message, once it is settled."""

    def look() -> dict[str, Any] | None:
        return next((one for one in house.deliveries_of(message) if one["settledAt"]), None)

    house.bridge.waits_for(look, timeout, f"a wake for {message}")
    (delivery,) = house.deliveries_of(message)
    return delivery


def told_natively(house: ClaudeHouse, message: str) -> dict[str, Any]:
    """The same, told through the monitor with the strongest proof."""
    delivery = settled(house, message)
    assert (delivery["adapter"], delivery["state"], delivery["outcome"]) == ("claude", "DELIVERED", "submitted")
    assert delivery["proof"] == 3
    return delivery


def held(house: ClaudeHouse, message: str, reason: str) -> None:
    """It waits for that reason."""
    house.bridge.waits_for(
        lambda: any(one["hold_reason"] == reason for one in house.deliveries_of(message)), PATIENCE, f"held: {reason}"
    )


def tellings(house: ClaudeHouse, mark: str, start: int) -> list[Asked]:
    """The requests since `start` whose conversation tells of the mark."""
    return [one.asked for one in house.model.requests(start) if one.asked.tools and one.asked.mentions(mark)]


def turns(house: ClaudeHouse, mark: str, start: int) -> int:
    """How many turns it began."""
    return sum(mark in asked.last and not asked.is_after_tool for asked in tellings(house, mark, start))


def conversations_with(house: ClaudeHouse, mark: str) -> int:
    """How often the wake stands as a message in Claude Code's own transcripts."""
    count = 0
    for file in (house.claude_directory / "projects").glob("*/*.jsonl"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if mark in line and line.endswith("}"):
                row = json.loads(line)
                count += row.get("type") == "user" or row.get("attachment", {}).get("type") == "queued_command"
    return count


def was_told_once(house: ClaudeHouse, delivery: dict[str, Any], start: int) -> None:
    """One turn was begun by it, and the conversation has it once, as an automated notice."""
    mark = str(delivery["id"])
    house.bridge.waits_for(lambda: tellings(house, mark, start), PATIENCE, f"{mark} in the model's log")
    house.waits_for_presence("idle")
    told = tellings(house, mark, start)
    assert [asked.mentions(mark) for asked in told] == [1] * len(told)
    assert turns(house, mark, start) == 1
    assert "not your user" in next(text for text in told[0].messages[-1] if mark in text)


def dialog(screen: str) -> str:
    """The dialog on a screen; above it a dot may blink."""
    return screen[screen.index("Bash command") :]


def composer(house: ClaudeHouse) -> str:
    """What stands in the composer."""
    lines = house.look().text.splitlines()
    return next(line for line in reversed(lines) if line.startswith("❯")).removeprefix("❯").strip("\xa0 ")


def seconds_to_turn(house: ClaudeHouse, adapter: str) -> float:
    """From the message's own time, right before its commit, to the model's being asked about it."""
    house.waits_for_presence("idle")
    # as a pane that has been at rest for a while, so that the screen needs no second look
    time.sleep(REST)
    start = len(house.model.requests())
    message = house.bridge.send(house.identity, "Review request")
    delivery = settled(house, message)
    assert delivery["adapter"] == adapter
    mark = str(delivery["id"])
    house.bridge.waits_for(lambda: tellings(house, mark, start), PATIENCE, "the model's being asked")
    first = next(one for one in house.model.requests(start) if one.asked.tools and one.asked.mentions(mark))
    asked_at = time.time() - (time.monotonic() - first.at)
    (mail,) = house.bridge.lines("read", house.identity, message)
    return float(asked_at - datetime.fromisoformat(str(mail["sentAt"])).timestamp())
