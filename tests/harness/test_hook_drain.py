"""An item that arrives while a tool runs is in the model's context at the next tool boundary, once: the real programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.hook_house import HookHouse, SharedHouse
from tests.harness.house import PATIENCE
from tests.harness.installed import executable
from tests.harness.manners import MANNERS
from tests.harness.model.scenes import PLAY
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY

SAID_AT_STOP = {"claude": 2}
"""Claude Code itself puts the reason of one block into one request twice: as feedback, and as the hook's error."""

pytestmark = [pytest.mark.harness, pytest.mark.timeout(400)]


@pytest.fixture(params=[one for one in ("gemini", "codex", "claude", "qwen", "copilot") if one in ONLY])
def house(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[HookHouse]:
    """One program with our hooks, idle."""
    if executable(PROGRAMS[request.param]) is None:
        pytest.fail(f"{request.param} is not installed: `make harnesses` installs it", pytrace=False)
    with HookHouse(request.param, tmp_path, program) as made:
        yield made


def runs_a_tool(house: HookHouse) -> None:
    """Bring it to where its tool runs, until `go` is there."""
    manners = MANNERS[house.program.name]
    house.says(PLAY.format("tool"))
    house.waits_until(lambda look: manners.approval.search(look.text) is not None, what="the approval")
    time.sleep(0.3)  # some ignore keys that come with the dialog
    house.presses(*manners.approve)
    _until((house.work / "started").exists, "the command never ran", house)


def test_what_arrives_while_a_tool_runs_is_in_the_context_at_its_end_once(house: HookHouse) -> None:
    """Mid-turn, at the next tool boundary, once, as data with its source; nothing is typed for it."""
    runs_a_tool(house)
    message = house.bridge.send(house.identity, "Stop the release <now>", "--priority", "high")
    held = house.bridge.waits_for_delivery(PATIENCE, state="DISPATCHED", hold_reason="active")

    (house.work / "go").touch()

    told = house.bridge.waits_for_delivery(PATIENCE, state="DELIVERED")
    assert (told["id"], told["adapter"], told["proof"]) == (held["id"], "hook", 1)
    _until(lambda: house.requests_with(message), "the model was never told", house)
    first = house.requests_with(message)[0]
    assert first.asked.is_after_tool
    assert first.body.count(message) == 1
    assert "[message from @me, high]" in first.body
    assert "Stop the release ‹now›" in first.body
    house.waits_for_presence("idle")
    assert house.requests_with(message)[-1].body.count(message) == 1
    assert "[WAKE]" not in house.requests_with(message)[-1].body
    assert len(house.bridge.deliveries()) == 1


def test_what_waits_for_the_next_turn_is_in_the_next_prompt_once(house: HookHouse) -> None:
    """`next_turn` is picked up at the turn's start; no turn begins for it."""
    message = house.bridge.send(house.identity, "Whenever you like", "--policy", "next_turn")
    house.bridge.daemons[0].waits_for_log("event_matched")
    before = len(house.model.requests())

    house.says("hello there")

    _until(lambda: house.requests_with(message), "the model was never told", house)
    told = house.requests_with(message)
    assert "hello there" in told[0].body
    assert told[0].body.count(message) == 1
    assert all("hello there" in one.body for one in house.model.requests(before) if message in one.body)
    assert house.bridge.waits_for_delivery(PATIENCE, state="DELIVERED")["adapter"] == "hook"


def test_what_arrives_while_the_model_speaks_prolongs_its_turn_once(house: HookHouse) -> None:
    """At the end of a turn what is to be told at once prolongs it; the agent's own end follows, and no screen is typed at."""
    house.model.stage.holds()
    house.says(PLAY.format("streaming"))
    house.waits_until(lambda look: "of a long answer" in look.text, what="the first line of the answer")
    message = house.bridge.send(house.identity, "Tests fail on main")
    house.bridge.waits_for_delivery(PATIENCE, state="DISPATCHED", hold_reason="active")

    house.model.stage.goes_on()

    told = house.bridge.waits_for_delivery(PATIENCE, state="DELIVERED")
    assert told["adapter"] == "hook"
    _until(lambda: house.requests_with(message), "the model was never told", house)
    house.waits_for_presence("idle")
    last = house.requests_with(message)[-1]
    assert last.body.count(message) == SAID_AT_STOP.get(house.program.name, 1)
    assert "[WAKE]" not in last.body


@pytest.mark.skipif("codex" not in ONLY, reason="another program was asked for")
def test_a_shared_server_hands_nothing_of_one_terminal_to_another(
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> None:
    """Its hooks all have the environment, pane included, of the terminal that started it first."""
    if executable(PROGRAMS["codex"]) is None:
        pytest.fail("codex is not installed: `make harnesses` installs it", pytrace=False)
    with SharedHouse(tmp_path, program) as house:
        other = house.opens_another(house.home / "other")
        pane = house.tmux.server.panes.get(pane_id=other)
        assert pane is not None
        house.tmux.waits_until(pane, lambda look: "Yes, continue" in look.text or "Ask Codex" in look.text, 60)
        if "Yes, continue" in house.tmux.look(pane).text:
            house.tmux.run("send-keys", "-t", other, "Enter")
            house.tmux.waits_until(pane, lambda look: "Ask Codex" in look.text, 60, "the composer")
        house.bridge.send(house.identity, "For the first terminal", "--policy", "next_turn")
        house.bridge.daemons[0].waits_for_log("event_matched")

        house.tmux.run("send-keys", "-t", other, "-l", "--", "who are you")
        time.sleep(0.6)
        house.tmux.run("send-keys", "-t", other, "Enter")
        _until(lambda: house.requests_with("who are you"), "the model was not asked", house)
        house.tmux.waits_until(pane, lambda look: "Noted." in look.text, 60, "the answer")
        assert house.requests_with("For the first terminal") == []

        house.says("go on")
        _until(lambda: house.requests_with("For the first terminal"), "the model was never told", house)
        assert "go on" in house.requests_with("For the first terminal")[0].body
        assert "who are you" not in house.requests_with("For the first terminal")[0].body


def _until(condition: object, complaint: str, house: HookHouse) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{complaint}\n{house.look().text}\n{house.bridge.deliveries()}")
        time.sleep(0.05)
