"""The real Claude Code, offline, woken through its own door: a line to the monitor that our plugin has in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.harness.claude_house import ClaudeHouse
from tests.harness.house import PATIENCE
from tests.harness.installed import executable
from tests.harness.model.scenes import PLAY
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY

DRAFT = "half a thought, not sent"

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(300),
    pytest.mark.skipif("claude" not in ONLY, reason="another program is asked for"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...]) -> Iterator[ClaudeHouse]:
    if executable(PROGRAMS["claude"]) is None:
        pytest.fail("claude is not installed: `make harnesses` installs it", pytrace=False)
    house = ClaudeHouse(tmp_path_factory.mktemp("claude"), program)
    try:
        with house:
            house.waits_for_monitor()
            yield house
    finally:
        with suppress(TimeoutError):
            house.close()


def test_an_idle_session_is_woken_at_once(house: ClaudeHouse) -> None:
    """Issue "native first": idle; one wake, proof 3, one request that tells of it."""
    start = len(house.model.requests())

    delivery = settled(house, house.bridge.send(house.identity, "idle"))

    was_told_once(house, delivery, start)


def test_a_streaming_answer_is_not_cut(house: ClaudeHouse) -> None:
    """Issue "native first": streaming; the wake is held until the turn has ended, then comes once."""
    start = len(house.model.requests())
    house.model.stage.holds()
    house.says(PLAY.format("streaming"))
    house.waits_for_presence("active")

    message = house.bridge.send(house.identity, "while streaming")
    held(house, message, "active")
    assert not tells_of(house, house.deliveries_of(message)[0]["id"], start)
    house.model.stage.goes_on()

    was_told_once(house, settled(house, message), start)


def test_a_dialog_is_left_as_it_is(house: ClaudeHouse) -> None:
    """Issue "native first": at an approval; untouched while it is open, and the wake comes once it is answered."""
    start = len(house.model.requests())
    house.model.stage.holds()
    house.says(PLAY.format("tool"))
    house.waits_for_presence("waitingOnApproval")
    before = house.waits_until(lambda look: bool(house.manners.approval.search(look.text)))

    message = house.bridge.send(house.identity, "at an approval")
    held(house, message, "waitingOnApproval")
    time.sleep(2)
    assert house.look().text == before.text
    house.presses("Enter")
    house.bridge.waits_for((house.work / "started").exists, PATIENCE, "the command")
    (house.work / "go").touch()

    was_told_once(house, settled(house, message), start)


def test_a_half_typed_draft_stays_to_the_byte(house: ClaudeHouse) -> None:
    """Issue "native first": a draft is in nobody's way, and is afterwards what it was."""
    start = len(house.model.requests())
    house.types(DRAFT)
    house.waits_until(lambda look: DRAFT in look.text)

    delivery = settled(house, house.bridge.send(house.identity, "behind a draft"))

    was_told_once(house, delivery, start)
    assert composer(house) == DRAFT
    house.presses("Enter")
    house.bridge.waits_for(
        lambda: any(one.asked.last == DRAFT for one in house.model.requests(start)), PATIENCE, "the draft, sent by hand"
    )


def settled(house: ClaudeHouse, message: str) -> dict[str, Any]:
    """The one delivery that announces the message, told natively with the strongest proof."""

    def look() -> dict[str, Any] | None:
        return next((one for one in house.deliveries_of(message) if one["settledAt"]), None)

    house.bridge.waits_for(look, PATIENCE, f"a wake for {message}")
    (delivery,) = house.deliveries_of(message)
    assert (delivery["adapter"], delivery["state"], delivery["outcome"]) == ("claude", "DELIVERED", "submitted")
    assert delivery["proof"] == 3
    return delivery


def held(house: ClaudeHouse, message: str, reason: str) -> None:
    """It waits for that reason."""
    house.bridge.waits_for(
        lambda: any(one["hold_reason"] == reason for one in house.deliveries_of(message)), PATIENCE, f"held: {reason}"
    )


def tells_of(house: ClaudeHouse, mark: str, start: int) -> list[Any]:
    """The requests since `start` whose conversation tells of the mark."""
    return [one.asked for one in house.model.requests(start) if one.asked.tools and one.asked.mentions(mark)]


def was_told_once(house: ClaudeHouse, delivery: dict[str, Any], start: int) -> None:
    """One turn was begun by it, and the conversation has it once."""
    mark = str(delivery["id"])
    house.bridge.waits_for(lambda: tells_of(house, mark, start), PATIENCE, f"{mark} in the model's log")
    house.waits_for_presence("idle")
    told = tells_of(house, mark, start)
    assert [asked.mentions(mark) for asked in told] == [1] * len(told)
    assert len([asked for asked in told if mark in asked.last and not asked.is_after_tool]) == 1
    assert "not your user" in next(text for text in told[0].messages[-1] if mark in text)


def composer(house: ClaudeHouse) -> str:
    """What stands in the composer."""
    lines = house.look().text.splitlines()
    return next(line for line in reversed(lines) if line.startswith("❯")).removeprefix("❯").strip("\xa0 ")
