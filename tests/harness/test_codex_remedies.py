"""Remedies that Codex alone needs, taken literally: a transcript that is browsed, a server that is gone, a lost conversation."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.harness.house import MANY_WAKES, PATIENCE, House
from tests.harness.installed import executable, search_path
from tests.harness.programs import KEY, PROGRAMS
from tests.harness.tenancy import ONLY
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.causes import Cause

COMPOSER: Final = "Ask Codex"

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(600),
    pytest.mark.skipif("codex" not in ONLY, reason="another program was asked for"),
]


@pytest.fixture
def house(
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[House]:
    """Codex in a pane, which is the only way to wake it."""
    if executable(PROGRAMS["codex"]) is None:
        pytest.fail("codex is not installed: `make harnesses` installs it", pytrace=False)
    made = House(PROGRAMS["codex"], tmp_path, program)
    made.bridge.configure(f"{QUICK}{MANY_WAKES}[adapters.codex]\nenabled = false\n")
    with made as house:
        yield house


def held_by(house: House, message: str, cause: Cause) -> str:
    """What is advised, once the message waits for that cause."""

    def waits() -> dict[str, Any] | None:
        return next((one for one in house.deliveries_of(message) if one["cause"] == cause), None)

    return str(house.bridge.waits_for(waits, PATIENCE, f"a hold by {cause}")["remedy"])


def comes_once(house: House, message: str) -> None:
    """It is submitted, and the model reads it once."""

    def over() -> dict[str, Any] | None:
        return next((one for one in house.deliveries_of(message) if one["settledAt"]), None)

    delivery = house.bridge.waits_for(over, 2 * PATIENCE, "the delivery")
    assert delivery["outcome"] == "submitted"
    mark = str(delivery["id"])
    house.bridge.waits_for(lambda: told(house, mark) or None, PATIENCE, "the model's being asked")
    assert set(told(house, mark)) == {1}


def told(house: House, mark: str) -> list[int]:
    """How often the mark stands in each request of a conversation."""
    return [one.asked.mentions(mark) for one in house.model.requests() if one.asked.tools and mark in one.body]


def loses_its_server(house: House) -> None:
    """The app-server dies, as when the system is short of memory."""

    def servers() -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if is_server_of(one, house)]

    for one in house.bridge.waits_for(lambda: servers() or None, PATIENCE, "the app-server"):
        one.kill()
    house.waits_until(lambda look: "Reconnecting to server" in look.text, what="that it was noticed")


def is_server_of(process: psutil.Process, house: House) -> bool:
    """Whether it is the app-server of the house's Codex."""
    try:
        return "app-server" in process.cmdline() and process.environ().get("HOME") == str(house.home)
    except psutil.Error:
        return False


def runs(house: House, remedy: str) -> None:
    """The command that is named, in a shell of the agent's person."""
    (command,) = re.findall(r"`([^`]+)`", remedy)
    shell = {"HOME": str(house.home), "PATH": search_path(), "OPENAI_API_KEY": KEY, "LANG": "C.UTF-8"}
    subprocess.run(["sh", "-c", command], env=shell, check=True, capture_output=True, timeout=PATIENCE)


def takes_a_turn(house: House) -> None:
    """Something is said, so that the conversation is on disk."""
    house.says("hello there")
    house.waits_until(lambda look: "Noted" in look.text, what="the answer")
    house.waits_for_presence("idle")


def test_a_transcript_that_is_browsed_is_left_with_escape(house: House) -> None:
    """The composer is to be seen, and keys go elsewhere."""
    takes_a_turn(house)
    house.presses("Escape", "Escape")
    house.waits_until(lambda look: "Browsing ·" in look.text, what="the transcript browser")

    message = house.bridge.send(house.identity, "while somebody reads")
    assert "press Esc there" in held_by(house, message, Cause.TRANSCRIPT)
    house.presses("Escape")

    comes_once(house, message)


def test_a_server_that_is_gone_comes_back_by_the_command_that_is_named(house: House) -> None:
    """The program goes on to reconnect, for as long as it takes."""
    takes_a_turn(house)
    loses_its_server(house)
    message = house.bridge.send(house.identity, "while its server is away")
    runs(house, held_by(house, message, Cause.RECONNECTING))

    comes_once(house, message)


def test_after_a_conversation_was_lost_with_its_server_the_agent_is_started_anew(house: House) -> None:
    """Before anything was said a conversation is on no disk."""
    loses_its_server(house)
    message = house.bridge.send(house.identity, "into a conversation that is lost")
    runs(house, held_by(house, message, Cause.RECONNECTING))
    assert "restart the agent there" in held_by(house, message, Cause.CONVERSATION_LOST)

    house.presses("C-c")
    time.sleep(1)
    if COMPOSER in house.look().text:
        house.presses("C-c")
    house.waits_until(lambda look: "user$" in look.text, what="the shell's prompt")
    house.starts()

    comes_once(house, message)
