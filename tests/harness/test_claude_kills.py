"""The real Claude Code, and what is killed in the middle of its wake: nothing is lost, nothing comes twice.

`WAKE_BRIDGE_TEST_KILLS` says how often each is killed; 10 are the long form.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import psutil
import pytest

from tests.harness.claude_house import ClaudeHouse
from tests.harness.claude_wakes import conversations_with, settled, told_natively, turns, was_told_once
from tests.harness.house import STARTS_WITHIN
from tests.harness.installed import executable
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY

KILLS: Final = int(os.environ.get("WAKE_BRIDGE_TEST_KILLS", "2"))

LATEST: Final = 1.2
"""Seconds after the commit at which the last of them is killed; by then the agent has been told."""

CERTAIN: Final = 10.0
"""Seconds after which what is not in a transcript does not come."""

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(900),
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


def kill_monitor(house: ClaudeHouse) -> None:
    """As the system does that has no memory left."""
    for one in house.monitors():
        one.kill()


def kill_daemon(house: ClaudeHouse) -> None:
    """As a power cut does; it is started again."""
    house.bridge.daemons[-1].kill()
    house.bridge.daemon()


def kill_claude(house: ClaudeHouse) -> None:
    """As `kill -9` does; a person starts it again."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(house.record()["pid"]).kill()
    house.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
    # it has left the terminal as it needed it
    house.types("reset -Q")
    house.presses("Enter")
    house.starts()


VICTIMS: Final[dict[str, Callable[[ClaudeHouse], None]]] = {
    "monitor": kill_monitor,
    "daemon": kill_daemon,
    "claude": kill_claude,
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_whatever_is_killed_the_wake_comes_once_and_the_way_back_is_taken(victim: str, house: ClaudeHouse) -> None:
    """Kill monitor, daemon, harness in the middle of a wake: 0 lost, 0 double."""
    moments = [LATEST * number / max(1, KILLS - 1) for number in range(KILLS)]
    came: Counter[str] = Counter()
    for number, moment in enumerate(random.sample(moments, KILLS)):
        start = len(house.model.requests())
        message = house.bridge.send(house.identity, f"{victim} {number}")
        time.sleep(moment)
        VICTIMS[victim](house)
        delivery = settled(house, message, STARTS_WITHIN)
        house.waits_for_presence("idle", STARTS_WITHIN)
        came[_judged(house, delivery, start)] += 1
        house.waits_for_monitor(STARTS_WITHIN)
    print(f"\n{victim} killed {KILLS} times, 0-{LATEST} s after the commit: {dict(came)}")

    after = len(house.model.requests())
    was_told_once(house, told_natively(house, house.bridge.send(house.identity, "the way back")), after)
    allowed = {"once by claude", "once by tmux"}
    assert set(came) <= allowed | ({f"{one}, asked for twice" for one in allowed} if victim == "claude" else set())


def test_a_monitor_that_hangs_is_passed_over_and_comes_back(house: ClaudeHouse) -> None:
    """Refused before anything was sent, the wake falls to the screen; later ones come natively again."""
    (monitor,) = house.monitors()
    monitor.send_signal(signal.SIGSTOP)
    try:
        start = len(house.model.requests())
        delivery = settled(house, house.bridge.send(house.identity, "while the monitor hangs"))
        assert (delivery["adapter"], delivery["outcome"]) == ("tmux", "submitted")
        house.waits_for_presence("idle")
        assert turns(house, delivery["id"], start) == 1
    finally:
        monitor.send_signal(signal.SIGCONT)
    house.waits_for_monitor()
    time.sleep(1)

    assert turns(house, delivery["id"], start) == 1
    again = len(house.model.requests())
    was_told_once(house, told_natively(house, house.bridge.send(house.identity, "it goes on")), again)


def _judged(house: ClaudeHouse, delivery: dict[str, Any], start: int) -> str:
    """What became of one wake, in words to count.

    What a conversation has is what its agent knows, also when it is resumed: that must be once. The model may have been
    asked by a program that was killed before it wrote that down; then it was asked again by the one that came after.
    """
    mark = str(delivery["id"])
    if delivery["state"] != "DELIVERED":
        return f"{delivery['state']} {delivery['outcome']}"
    deadline = time.monotonic() + CERTAIN
    while (known := conversations_with(house, mark)) < 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    asked = turns(house, mark, start)
    also = "" if asked <= 1 else ", asked for twice"
    return f"{'once' if known == 1 else f'{known} times'} by {delivery['adapter']}{also}"
