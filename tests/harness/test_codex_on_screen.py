"""Codex itself: a wake appears on the screen of the identity's pane, whichever conversation the person has begun or taken up."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.hook_house import SharedHouse
from tests.harness.house import MANY_WAKES, PATIENCE
from tests.harness.installed import executable
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.names import Identity
from wake_bridge.storage.ledger import LedgerStore

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(900),
    pytest.mark.skipif("codex" not in ONLY, reason="another program was asked for"),
]

COMPOSER = "Ask Codex"
NEW_MENU = "Where should the new conversation run?"


@pytest.fixture
def house(
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[SharedHouse]:
    """Codex with a conversation that its hooks have named, and that was woken natively once."""
    if executable(PROGRAMS["codex"]) is None:
        pytest.fail("codex is not installed: `make harnesses` installs it", pytrace=False)
    made = SharedHouse(tmp_path, program)
    made.bridge.configure(f'{QUICK}{MANY_WAKES}[adapters.codex]\nhome = "{made.codex_home}"\n')
    with made as house:
        house.says("hello there")
        house.waits_until(lambda look: "Noted" in look.text, what="the answer")
        house.bridge.waits_for(lambda: house.presence()["source"] == "codex-app-server" or None, PATIENCE, "its thread")
        assert comes_onto_the_screen(house, "before")["adapter"] == "codex"
        yield house


def settled(house: SharedHouse, message: str) -> dict[str, Any]:
    """The delivery of a message, once it is over."""

    def over() -> dict[str, Any] | None:
        return next((one for one in house.deliveries_of(message) if one["settledAt"]), None)

    return house.bridge.waits_for(over, 2 * PATIENCE, "the delivery")


def is_on_the_screen(house: SharedHouse, message: str) -> dict[str, Any]:
    """The delivery of a message, once its mark stands in the pane; the model was told of it once."""
    delivery = settled(house, message)
    mark = str(delivery["id"])
    house.waits_until(lambda look: mark in look.text, what="the wake, in the pane of the agent")
    house.bridge.waits_for(lambda: told(house, mark) or None, PATIENCE, "the model's being asked")
    assert set(told(house, mark)) == {1}
    house.waits_until(lambda look: COMPOSER in look.text and mark in look.text, what="the end of its turn")
    return delivery


def told(house: SharedHouse, mark: str) -> list[int]:
    """How often the mark stands in each request of the conversation that has it."""
    return [one.asked.mentions(mark) for one in house.requests_with(mark) if one.asked.tools]


def comes_onto_the_screen(house: SharedHouse, subject: str) -> dict[str, Any]:
    """The same of a message that is sent now."""
    return is_on_the_screen(house, house.bridge.send(house.identity, subject))


def recorded(house: SharedHouse) -> str:
    """The conversation that is known to be the agent's."""
    with closing(LedgerStore.open(house.bridge.state_dir, read_only=True)) as ledger:
        (one, *_) = ledger.sessions_of(Identity(house.identity))
        return one.session_id


def record_of(house: SharedHouse, thread: str) -> str:
    """All that Codex has written down of a conversation."""
    (file,) = (house.codex_home / "sessions").rglob(f"*{thread}.jsonl")
    return file.read_text(encoding="utf-8")


def quits(house: SharedHouse) -> None:
    """As a person does, back to the shell."""
    house.says(house.manners.quit)
    house.waits_until(lambda look: "user$" in look.text, what="the shell's prompt")


def test_a_wake_appears_on_the_screen_after_new_and_waits_while_its_menu_is_open(house: SharedHouse) -> None:
    """It ran in the old thread, also with the menu open, and the screen stayed empty."""
    old = recorded(house)
    house.types("/new")
    house.waits_until(lambda look: "start a new chat" in look.text, what="the command")
    house.presses("Enter")
    house.waits_until(lambda look: NEW_MENU in look.text, what="the menu")

    message = house.bridge.send(house.identity, "with the menu open")
    house.bridge.waits_for(
        lambda: any(one["hold_reason"] for one in house.deliveries_of(message)) or None, PATIENCE, "a hold"
    )
    assert NEW_MENU in house.look().text
    house.presses("Enter")

    first = is_on_the_screen(house, message)
    second = comes_onto_the_screen(house, "after new")
    for mark in (first["id"], second["id"]):
        assert mark not in record_of(house, old)


def test_a_wake_appears_on_the_screen_after_a_restart_in_the_same_pane(house: SharedHouse) -> None:
    """The thread of the program that has quit is loaded for a minute more."""
    old = recorded(house)
    quits(house)
    message = house.bridge.send(house.identity, "while it is away")
    house.bridge.waits_for(
        lambda: any(one["hold_reason"] for one in house.deliveries_of(message)) or None, PATIENCE, "a hold"
    )
    house.starts()
    house.waits_until(lambda look: COMPOSER in look.text, what="the composer")

    first = is_on_the_screen(house, message)
    second = comes_onto_the_screen(house, "after the restart")
    for mark in (first["id"], second["id"]):
        assert mark not in record_of(house, old)


def test_a_wake_appears_on_the_screen_of_a_resumed_conversation(house: SharedHouse) -> None:
    """Another one was recorded last; the one that is shown is woken, natively."""
    older = recorded(house)
    quits(house)
    house.starts()
    house.waits_until(lambda look: COMPOSER in look.text, what="the composer")
    house.says("something else")
    house.waits_until(lambda look: "Noted" in look.text, what="the answer")
    house.bridge.waits_for(lambda: recorded(house) != older or None, PATIENCE, "another conversation")
    quits(house)
    house.types(f"clear; codex resume {older} {shlex.join(house.program.arguments)}")
    house.presses("Enter")
    house.waits_until(lambda look: COMPOSER in look.text and "hello there" in look.text, what="the conversation")

    delivery = comes_onto_the_screen(house, "after resume")

    assert str(delivery["id"]) in record_of(house, older)


def test_of_two_in_one_directory_the_one_in_the_pane_is_woken(house: SharedHouse) -> None:
    """While two could be meant, the screen says."""
    other = house.opens_another(house.work)
    pane = house.tmux.server.panes.get(pane_id=other)
    assert pane is not None
    house.tmux.waits_until(pane, lambda look: COMPOSER in look.text, PATIENCE, "the composer")

    delivery = comes_onto_the_screen(house, "for the first one")

    assert str(delivery["id"]) not in house.tmux.look(pane).text
