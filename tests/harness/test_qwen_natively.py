"""Qwen Code itself, woken past its composer through the inbox of its session, in each state and each conversation."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.harness.cells import arrived_once
from tests.harness.house import PATIENCE
from tests.harness.installed import executable, search_path
from tests.harness.native import WakesNatively
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(900),
    pytest.mark.skipif("qwen" not in ONLY, reason="another program was asked for"),
]

PROGRAM: Final = "qwen"
COMPOSER: Final = "Type your message"
_HEADS: Final = re.compile(r"(?:<system-reminder>.*?</system-reminder>\n)?(?:<cross_session_message [^>]*>\n)?")
_ADDS: Final = re.compile(r"(?:\n</cross_session_message>\n.*)?", re.DOTALL)
"""What Qwen Code puts around a message from outside, and before the first of a day."""


class QwenHouse(WakesNatively):
    """Qwen Code, with a controller's token that its person has minted."""

    adapter = PROGRAM

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        super().__init__(PROGRAMS[PROGRAM], directory, command)
        self.token_file = directory / "qwen.token"
        self.tables = f'[adapters.qwen]\nhome = "{self.home}/.qwen"\ntoken_file = "{self.token_file}"\n'
        self.configure()
        self.manners = replace(self.manners, heads=_HEADS, adds=_ADDS)

    def furnish(self) -> None:
        """Mint the token, as the page says."""
        made = subprocess.run(
            ["qwen", "sessions", "controllers", "add", "--label", "wake-bridge"],
            env={"HOME": str(self.home), "PATH": search_path(), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        self.token_file.touch(0o600)
        self.token_file.write_text(made.stdout, encoding="utf-8")

    def session_id(self) -> str:
        """The conversation that its record names."""
        records = self.home / ".qwen/sessions"
        (file,) = (one for pid in self.programs("node") if (one := records / f"{pid}.json").exists())
        return str(json.loads(file.read_text(encoding="utf-8"))["sessionId"])


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[QwenHouse]:
    if executable(PROGRAMS[PROGRAM]) is None:
        pytest.fail("qwen is not installed: `make harnesses` installs it", pytrace=False)
    with QwenHouse(tmp_path_factory.mktemp("qwen-natively"), program) as house:
        house.waits_for_its_door()
        yield house


def test_an_idle_one_is_woken_ten_times_and_its_transcript_is_the_proof(house: QwenHouse) -> None:
    """Ten of ten, from the first screen on, each once, with proof 3."""
    house.is_woken_ten_times()


def test_a_half_typed_draft_stays_as_it_is_to_the_byte(house: QwenHouse) -> None:
    """One wake, the draft byte-identical; what the person then sends is exactly it."""
    house.keeps_a_draft()


def test_a_streaming_one_is_woken_when_its_turn_has_ended(house: QwenHouse) -> None:
    """The wake waits, the answer is not cut, and then comes one wake."""
    house.waits_for_a_streams_end()


def test_a_dialog_is_not_touched_and_the_wake_comes_after_it(house: QwenHouse) -> None:
    """At an approval and while the tool runs: held, the dialog as it was; then one wake."""
    house.leaves_a_dialog()


def test_behind_a_menu_no_turn_begins(house: QwenHouse) -> None:
    """From a menu another conversation may be begun: the wake waits until it is closed."""
    house.says(house.manners.menu)
    house.waits_until(lambda look: house.manners.menu_shows.search(look.text) is not None, what="the menu")
    start = len(house.model.requests())
    message = house.bridge.send(house.identity, "Review request")
    house.is_held(message, "unknown", "waitingOnApproval")
    assert house.model.requests(start) == []
    house.presses(*house.manners.leave_menu)
    house.is_woken_by(message, start)


def test_a_daemon_killed_at_any_moment_of_a_wake_neither_loses_nor_doubles_it(house: QwenHouse) -> None:
    """0 lost, 0 double."""
    house.outlives_daemons()


def test_the_wake_follows_the_person_from_one_conversation_to_the_next(house: QwenHouse) -> None:
    """`/clear` gives the same process another conversation; the old one hears nothing more."""
    old, before = house.is_woken("in the old one"), house.session_id()
    house.says("/clear")
    house.bridge.waits_for(lambda: house.session_id() != before or None, PATIENCE, "another conversation")
    house.waits_for_presence("idle")
    mark = house.is_woken("in the new one")
    assert {one.asked.mentions(old) for one in house.conversations_about(mark)} == {0}


def test_after_a_restart_in_the_same_pane_the_resumed_conversation_is_woken(house: QwenHouse) -> None:
    """Away: held. With `--continue` another process has the same conversation."""
    before, session = house.is_woken("before"), house.session_id()
    house.quits()
    message = house.bridge.send(house.identity, "while it is away")
    house.is_held(message, "no_agent", "unreachable")
    start = len(house.model.requests())
    house.types(f"clear; {house.program.line} --continue")
    house.presses("Enter")
    delivery = house.is_settled(message)
    arrived_once(house, delivery, start)
    house.waits_for_its_door()
    mark = house.is_woken("after the restart")
    assert house.session_id() == session
    assert {one.asked.mentions(before) for one in house.conversations_about(mark)} == {1}


def test_of_two_in_one_directory_the_one_in_the_pane_is_woken(house: QwenHouse) -> None:
    """Each has a record; the process in the pane tells which."""
    session, other = house.session_id(), house.opens_another(house.work)
    pane = house.tmux.server.panes.get(pane_id=other)
    assert pane is not None
    house.tmux.waits_until(pane, lambda look: COMPOSER in look.text, PATIENCE, "the other one")
    mark = house.is_woken("for the first one")
    # the screen shows the beginning of a message alone
    assert "[WAKE]" not in house.tmux.look(pane).text
    (told,) = [file for file in (house.home / ".qwen/projects").rglob("*.jsonl") if mark in file.read_text()]
    assert told.stem == session
    house.tmux.run("kill-pane", "-t", other)


def test_a_program_killed_after_it_was_told_is_not_told_twice(house: QwenHouse) -> None:
    """SIGKILL 0 to 60 ms after the wake: it comes once in all, to the conversation that follows."""
    for moment in (0.0, 0.02, 0.06):
        message = house.bridge.send(house.identity, f"killed after {moment}")
        deadline = time.monotonic() + PATIENCE
        while not any(one["state"] in {"LOCKED", "DELIVERED"} for one in house.deliveries_of(message)):
            assert time.monotonic() < deadline
        time.sleep(moment)
        for pid in house.programs("node"):
            os.kill(pid, signal.SIGKILL)
        house.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
        house.types(f"reset; clear; {house.program.line} --continue")
        house.presses("Enter")
        delivery = house.is_settled(message)
        house.waits_for_its_door()
        told = house.is_woken("and then")
        seen = {one.asked.mentions(str(delivery["id"])) for one in house.conversations_about(told)}
        print(
            f"\nkilled {moment * 1000:.0f} ms later: {delivery['adapter']} {delivery['outcome']}, in the record {seen}"
        )
        assert seen == {1}
