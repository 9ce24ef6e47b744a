"""OpenCode itself, woken past its composer by the server in its own program, in each state and each conversation."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.harness.cells import arrived_once
from tests.harness.house import PATIENCE
from tests.harness.installed import executable
from tests.harness.model.scenes import PLAY
from tests.harness.native import WakesNatively
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(900),
    pytest.mark.skipif("opencode" not in ONLY, reason="another program was asked for"),
]

PROGRAM: Final = "opencode"
SOURCE: Final = "opencode-server"
HOME_SCREEN: Final = "Ask anything"


class OpenCodeHouse(WakesNatively):
    """OpenCode with its server, in a conversation that has begun."""

    adapter = PROGRAM

    def __init__(self, directory: Path, command: Sequence[str], *arguments: str) -> None:
        super().__init__(replace(PROGRAMS[PROGRAM], arguments=arguments or ("--port", "0")), directory, command)
        self.configure()

    def waits_for_its_server(self) -> None:
        """Until presence is the server's word."""
        self.bridge.waits_for(lambda: self.presence()["source"] == SOURCE or None, PATIENCE, "its server")
        self.waits_for_presence("idle")

    def begins(self, text: str = "hello there") -> None:
        """Have the program's first turn behind it, so that it shows a conversation."""
        self.takes_a_turn(text)
        self.waits_for_its_server()


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[OpenCodeHouse]:
    _is_installed()
    with OpenCodeHouse(tmp_path_factory.mktemp("opencode-natively"), program) as house:
        house.begins()
        yield house


def _is_installed() -> None:
    if executable(PROGRAMS[PROGRAM]) is None:
        pytest.fail("opencode is not installed: `make harnesses` installs it", pytrace=False)


def test_an_idle_one_is_woken_ten_times_and_its_record_is_the_proof(house: OpenCodeHouse) -> None:
    """Ten of ten, each once, exactly as frozen, with proof 3."""
    house.is_woken_ten_times()


def test_a_half_typed_draft_stays_as_it_is_to_the_byte(house: OpenCodeHouse) -> None:
    """One wake, the draft byte-identical; what the person then sends is exactly it."""
    house.keeps_a_draft()


def test_a_streaming_one_is_woken_when_its_turn_has_ended(house: OpenCodeHouse) -> None:
    """The wake waits, the answer is not cut, and then comes one wake."""
    house.waits_for_a_streams_end()


def test_a_dialog_is_not_touched_and_the_wake_comes_after_it(house: OpenCodeHouse) -> None:
    """At an approval and while the tool runs: held, the dialog as it was; then one wake."""
    house.leaves_a_dialog()


def test_a_question_is_the_persons_and_the_wake_comes_after_it(house: OpenCodeHouse) -> None:
    """What it asks its person is never answered by us."""
    house.says(PLAY.format("question"))
    house.waits_until(lambda look: house.manners.question.search(look.text) is not None, what="the question")
    start = len(house.model.requests())

    message = house.bridge.send(house.identity, "Review request")
    house.is_held(message, "waitingOnApproval")
    assert house.manners.question.search(house.look().text)
    house.presses(*house.manners.leave_question)

    delivery = house.is_settled(message)
    assert (delivery["adapter"], delivery["proof"]) == (PROGRAM, 3)
    arrived_once(house, delivery, start)
    house.waits_for_presence("idle")


def test_behind_a_menu_no_turn_begins(house: OpenCodeHouse) -> None:
    """From a menu another conversation may be begun: the wake waits until it is closed."""
    house.presses(house.manners.menu[1:])
    house.waits_until(lambda look: house.manners.menu_shows.search(look.text) is not None, what="the menu")
    start = len(house.model.requests())

    message = house.bridge.send(house.identity, "Review request")
    house.is_held(message, "unknown")
    assert house.model.requests(start) == []
    house.presses(*house.manners.leave_menu)

    assert house.is_settled(message)["adapter"] == PROGRAM
    house.waits_for_presence("idle")


def test_a_suspended_one_gets_nothing_and_then_one_wake(house: OpenCodeHouse) -> None:
    """Ctrl-Z: nothing is sent. The window has no title then, until it shows another conversation: so long by screen."""
    house.presses("C-z")
    house.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
    start = len(house.model.requests())
    message = house.bridge.send(house.identity, "Review request")
    house.is_held(message, "no_agent", "unreachable")
    house.types("fg")
    house.presses("Enter")

    delivery = house.is_settled(message)
    assert (delivery["adapter"], delivery["outcome"]) == ("tmux", "submitted")
    arrived_once(house, delivery, start)
    house.waits_for_presence("idle")
    house.says("/new")
    house.waits_until(lambda look: HOME_SCREEN in look.text, what="the first screen")
    house.begins("after the break")


def test_a_daemon_killed_at_any_moment_of_a_wake_neither_loses_nor_doubles_it(house: OpenCodeHouse) -> None:
    """0 lost, 0 double; and its screen is as it was: its streams of events would spoil it."""
    house.outlives_daemons()
    assert "Warning" not in house.look().text


def test_the_wake_follows_the_person_from_one_conversation_to_the_next(house: OpenCodeHouse) -> None:
    """`/new`: on the first screen no conversation is known, and the screen is used; in each then begun, natively."""
    old = house.is_woken("in the old one")
    house.says("/new")
    house.waits_until(lambda look: HOME_SCREEN in look.text, what="the first screen")
    delivery = house.is_settled(house.bridge.send(house.identity, "on the first screen"))
    assert (delivery["adapter"], delivery["outcome"]) == ("tmux", "submitted")
    house.waits_for_its_server()

    house.is_woken("in the new one")

    (asked,) = {one.asked.mentions(old) for one in house.conversations_about(str(delivery["id"]))}
    assert asked == 0


def test_after_a_restart_in_the_same_pane_the_resumed_conversation_is_woken(house: OpenCodeHouse) -> None:
    """Away: held. With `--continue` the server has another port and process, and the same conversation."""
    before = house.is_woken("before")
    house.quits()
    message = house.bridge.send(house.identity, "while it is away")
    house.is_held(message, "no_agent", "unreachable")
    start = len(house.model.requests())
    house.types(f"clear; {house.program.line} --continue")
    house.presses("Enter")

    delivery = house.is_settled(message)
    arrived_once(house, delivery, start)
    house.waits_for_its_server()
    mark = house.is_woken("after the restart")
    assert {one.asked.mentions(before) for one in house.conversations_about(mark)} == {1}


def test_of_two_in_one_directory_the_one_in_the_pane_is_woken(house: OpenCodeHouse) -> None:
    """Both know all conversations of the directory; whose screen shows which tells them apart."""
    other = house.opens_another(house.work)
    pane = house.tmux.server.panes.get(pane_id=other)
    assert pane is not None
    house.tmux.waits_until(pane, lambda look: HOME_SCREEN in look.text, PATIENCE, "the other one")
    house.tmux.run("send-keys", "-t", other, "-l", "--", "quite another matter")
    time.sleep(1)
    house.tmux.run("send-keys", "-t", other, "Enter")
    house.tmux.waits_until(pane, lambda look: "Noted" in look.text, PATIENCE, "its answer")

    mark = house.is_woken("for the first one")

    assert mark not in house.tmux.look(pane).text
    assert mark in house.look().text
    house.tmux.run("kill-pane", "-t", other)


def test_a_program_killed_after_it_was_told_is_not_told_again(house: OpenCodeHouse) -> None:
    """SIGKILL 0 to 60 ms after the wake: it stands once in the record at most, and comes once in all."""
    for moment in (0.0, 0.02, 0.06):
        message = house.bridge.send(house.identity, f"killed after {moment}")
        deadline = time.monotonic() + PATIENCE
        while not any(one["state"] in {"LOCKED", "DELIVERED"} for one in house.deliveries_of(message)):
            assert time.monotonic() < deadline
        time.sleep(moment)
        (pid,) = house.programs(PROGRAM)
        os.kill(pid, signal.SIGKILL)
        house.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
        house.types(f"reset; clear; {house.program.line} --continue")
        house.presses("Enter")
        delivery = house.is_settled(message)
        house.waits_for_its_server()
        told = house.is_woken("and then")
        seen = {one.asked.mentions(str(delivery["id"])) for one in house.conversations_about(told)}
        print(
            f"\nkilled {moment * 1000:.0f} ms later: {delivery['adapter']} {delivery['outcome']}, in the record {seen}"
        )
        assert seen == {1}


def test_with_authority_a_running_turn_is_added_to(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> None:
    """`steer = true`: what arrives while a tool runs is in the next request to the model, once."""
    del tmux_program
    _is_installed()
    made = OpenCodeHouse(tmp_path, program)
    made.configure("steer = true")
    with made as house:
        house.begins()
        house.comes_to_an_approval()
        start = len(house.model.requests())
        house.approves()
        message = house.bridge.send(house.identity, "Stop the release")
        delivery = house.is_settled(message)
        assert (delivery["adapter"], delivery["proof"]) == (PROGRAM, 3)
        (house.work / "go").touch()
        house.waits_for_presence("idle")
        told = house.conversations_about(str(delivery["id"]), start)
        assert told
        assert {one.asked.mentions(str(delivery["id"])) for one in told} == {1}


def test_a_password_is_given_to_its_own_server_only(
    tmp_path: Path, program: tuple[str, ...], tmux_program: str
) -> None:
    """Without the password the screen is used and says why; with it, in the daemon's environment, the server."""
    del tmux_program
    _is_installed()
    made = OpenCodeHouse(tmp_path, program)
    with made as house:
        house.quits()
        house.types(f"clear; OPENCODE_SERVER_PASSWORD=hush {house.program.line}")
        house.presses("Enter")
        house.waits_until(lambda look: HOME_SCREEN in look.text, what="the program")
        house.takes_a_turn()
        delivery = house.is_settled(house.bridge.send(house.identity, "Review request"))
        assert delivery["adapter"] == "tmux"
        house.bridge.daemons[-1].stop()
        house.bridge.environment["OPENCODE_SERVER_PASSWORD"] = "hush"
        house.bridge.daemon()
        house.waits_for_its_server()
        house.is_woken()


def test_without_a_port_its_screen_is_used(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> None:
    """As before."""
    del tmux_program
    _is_installed()
    with OpenCodeHouse(tmp_path, program, "--print-logs=false") as house:
        house.takes_a_turn()
        delivery = house.is_settled(house.bridge.send(house.identity, "Review request"))
        assert (delivery["adapter"], delivery["outcome"]) == ("tmux", "submitted")
