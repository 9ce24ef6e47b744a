"""Copilot CLI itself, woken past its composer by the server in its own program, in each state and each conversation."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.harness.cells import arrived_once
from tests.harness.house import PATIENCE
from tests.harness.installed import executable
from tests.harness.native import WakesNatively
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(900),
    pytest.mark.skipif("copilot" not in ONLY, reason="another program was asked for"),
]

PROGRAM: Final = "copilot"


class CopilotHouse(WakesNatively):
    """Copilot CLI with its server."""

    adapter = PROGRAM
    shows_streams = False

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        super().__init__(replace(PROGRAMS[PROGRAM], arguments=("--ui-server", "--port", "0")), directory, command)
        self.tables = f'[adapters.copilot]\nhome = "{self.home}/.copilot"\n'
        self.configure()

    def quits(self) -> None:
        """`/exit` leaves the session in front first, for the one that was open before."""
        for _ in range(6):
            self.says(self.manners.quit)
            with suppress(TimeoutError):
                self.waits_until(lambda look: look.flags["pane_current_command"] == "bash", 6.0, "the shell's prompt")
                return
        raise TimeoutError("it never quits")

    def records(self, mark: str) -> list[str]:
        """The sessions whose record has a mark."""
        files = (self.home / ".copilot/session-state").glob("*/events.jsonl")
        return [file.parent.name for file in files if mark in file.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[CopilotHouse]:
    if executable(PROGRAMS[PROGRAM]) is None:
        pytest.fail("copilot is not installed: `make harnesses` installs it", pytrace=False)
    with CopilotHouse(tmp_path_factory.mktemp("copilot-natively"), program) as house:
        house.waits_for_its_door()
        yield house


def test_an_idle_one_is_woken_ten_times_and_its_record_is_the_proof(house: CopilotHouse) -> None:
    """Ten of ten, from the first screen on, each once, with proof 3."""
    house.is_woken_ten_times()


def test_a_half_typed_draft_stays_as_it_is_to_the_byte(house: CopilotHouse) -> None:
    """One wake, the draft byte-identical; what the person then sends is exactly it."""
    house.keeps_a_draft()


def test_a_streaming_one_is_woken_when_its_turn_has_ended(house: CopilotHouse) -> None:
    """The wake waits, the answer is not cut, and then comes one wake."""
    house.waits_for_a_streams_end()


def test_a_dialog_is_not_touched_and_the_wake_comes_after_it(house: CopilotHouse) -> None:
    """At an approval and while the tool runs: held, the dialog as it was; then one wake."""
    house.leaves_a_dialog()


def test_a_daemon_killed_at_any_moment_of_a_wake_neither_loses_nor_doubles_it(house: CopilotHouse) -> None:
    """0 lost, 0 double."""
    house.outlives_daemons()


def test_the_wake_follows_the_person_from_one_conversation_to_the_next(house: CopilotHouse) -> None:
    """`/new`: the server says which session is in front; the one that was left hears nothing more."""
    old = house.is_woken("in the old one")
    house.says("/new")
    time.sleep(2)
    house.waits_for_its_door()
    mark = house.is_woken("in the new one")
    assert house.records(mark) != house.records(old)
    assert {one.asked.mentions(old) for one in house.conversations_about(mark)} == {0}


def test_after_a_restart_in_the_same_pane_the_resumed_conversation_is_woken(house: CopilotHouse) -> None:
    """Away: held. With `--resume` the server has another port and process, and the same session."""
    before = house.is_woken("before")
    (session,) = house.records(before)
    house.quits()
    message = house.bridge.send(house.identity, "while it is away")
    house.is_held(message, "no_agent", "unreachable")
    start = len(house.model.requests())
    house.types(f"clear; {house.program.line} --resume={session}")
    house.presses("Enter")
    delivery = house.is_settled(message)
    arrived_once(house, delivery, start)
    house.waits_for_its_door()
    mark = house.is_woken("after the restart")
    assert house.records(mark) == [session]


def test_of_two_in_one_directory_the_one_in_the_pane_is_woken(house: CopilotHouse) -> None:
    """Each has a server of its own; the process in the pane tells which."""
    other = house.opens_another(house.work)
    pane = house.tmux.server.panes.get(pane_id=other)
    assert pane is not None
    house.tmux.waits_until(pane, lambda look: "/ commands" in look.text, PATIENCE, "the other one")
    house.is_woken("for the first one")
    assert "[WAKE]" not in house.tmux.look(pane).text
    house.tmux.run("kill-pane", "-t", other)


def test_a_program_killed_after_it_was_told_is_not_told_twice(house: CopilotHouse) -> None:
    """SIGKILL 0 to 60 ms after the wake: it comes once in all."""
    for moment in (0.0, 0.02, 0.06):
        message = house.bridge.send(house.identity, f"killed after {moment}")
        deadline = time.monotonic() + PATIENCE
        while not any(one["state"] in {"LOCKED", "DELIVERED"} for one in house.deliveries_of(message)):
            assert time.monotonic() < deadline
        time.sleep(moment)
        for pid in (*house.programs("node"), *house.programs("MainThread")):
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
