"""Claude Code itself: a wake appears on the screen of the identity's pane, whichever conversation is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.harness.claude_house import ClaudeHouse
from tests.harness.claude_wakes import held, told_natively, was_told_once
from tests.harness.house import PATIENCE
from tests.harness.installed import executable
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY
from wake_bridge.demo.tmux_server import Look

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(600),
    pytest.mark.skipif("claude" not in ONLY, reason="another program is asked for"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...]) -> Iterator[ClaudeHouse]:
    if executable(PROGRAMS["claude"]) is None:
        pytest.fail("claude is not installed: `make harnesses` installs it", pytrace=False)
    with ClaudeHouse(tmp_path_factory.mktemp("claude"), program, hands_over=False) as house:
        house.waits_for_monitor()
        yield house


def shows(subject: str) -> re.Pattern[str]:
    """A wake on the screen: the line is cut there, so a subject is short."""
    return re.compile(rf"\[WAKE\].*{subject}")


def comes_onto_the_screen(house: ClaudeHouse, subject: str) -> None:
    """Send mail, and see its wake in the pane and told to the model once."""
    start = len(house.model.requests())
    delivery = told_natively(house, house.bridge.send(house.identity, subject))
    house.waits_until(lambda look: bool(shows(subject).search(look.text)), what="the wake, in the pane of the agent")
    was_told_once(house, delivery, start)


def test_a_wake_appears_on_the_screen_after_resume_and_waits_while_its_menu_is_open(house: ClaudeHouse) -> None:
    """The record follows the conversation, and says that a menu is open."""
    house.says("first talk")
    house.waits_until(lambda look: "Noted" in look.text, what="the answer")
    house.waits_for_presence("idle")
    before = house.record()["sessionId"]
    house.says("/clear")
    house.bridge.waits_for(lambda: house.record().get("sessionId", before) != before, PATIENCE, "another conversation")
    house.waits_for_presence("idle")
    house.says("/resume")
    house.waits_until(lambda look: "Resume session" in look.text and "first talk" in look.text, what="the menu")

    message = house.bridge.send(house.identity, "M1")
    held(house, message, "waitingOnApproval")
    house.presses("Enter")

    told_natively(house, message)
    house.waits_until(lambda look: bool(shows("M1").search(look.text)) and "first talk" in look.text, what="the wake")
    assert house.record()["sessionId"] == before


def test_a_wake_appears_on_the_screen_after_a_restart_in_the_same_pane(house: ClaudeHouse) -> None:
    """The conversation of the program that has quit is nobody's any more."""
    house.waits_for_presence("idle")
    house.says(house.manners.quit)
    house.waits_until(lambda look: "user$" in look.text, what="the shell's prompt")
    message = house.bridge.send(house.identity, "R1")
    held(house, message, "no_agent")
    house.starts()

    house.waits_until(lambda look: bool(shows("R1").search(look.text)), what="the wake, in the pane of the agent")
    house.waits_for_presence("idle")
    comes_onto_the_screen(house, "R2")


def test_of_two_in_one_directory_the_one_in_the_pane_is_woken(house: ClaudeHouse) -> None:
    """Hooks say in which pane a conversation is."""
    house.waits_for_presence("idle")
    other = house.opens_another(house.work)
    pane = house.tmux.server.panes.get(pane_id=other)
    assert pane is not None

    def is_up(look: Look) -> bool:
        return "manual mode" in look.text

    house.tmux.waits_until(pane, is_up, PATIENCE, "the second one")

    comes_onto_the_screen(house, "T1")

    assert "[WAKE]" not in house.tmux.look(pane).text
