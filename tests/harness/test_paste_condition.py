"""What tmux itself checks in the step that pastes, where a program does not place the terminal's cursor."""

from __future__ import annotations

import asyncio
import os

import pytest
from wake_bridge_adapters.screens.profile_file import load_profiles
from wake_bridge_adapters.tmux.command import TmuxServer
from wake_bridge_adapters.tmux.guarded import condition
from wake_bridge_adapters.tmux.occupants import Occupants
from wake_bridge_adapters.tmux.view import Observer, PaneView, placeholder_of

from tests.harness.house import House
from tests.harness.states import be_alone, lose_focus
from tests.harness.tenancy import ONLY, Tenancy
from wake_bridge.domain.presence import PresenceState

pytestmark = [
    pytest.mark.harness,
    pytest.mark.timeout(600),
    pytest.mark.skipif("gemini" not in ONLY, reason="another program was asked for"),
    pytest.mark.parametrize("tenancy", ["gemini"], indirect=True, scope="module"),
]


@pytest.mark.parametrize("focused", [True, False], ids=["with the focus", "without it"])
def test_a_letter_in_geminis_composer_makes_the_condition_false(tenancy: Tenancy, focused: bool) -> None:
    """Where the real cursor is parked elsewhere, the placeholder's presence is part of the condition."""
    house = tenancy.house
    house.waits_for_presence("idle")
    if not focused:
        lose_focus(house)
        house.waits_for_presence("idle")
    view = _look(house)
    assert view.verdict.vote is PresenceState.IDLE, view.verdict
    assert placeholder_of(view)
    guard = condition(view.look, view.look, placeholder_of(view), driver="")
    assert _holds(house, guard)

    house.types("x")
    house.waits_until(lambda look: "Type your message" not in look.text, what="the letter")
    without_sight = condition(view.look, view.look, driver="")
    print(f"focused {focused}: the cursor alone would {'not ' if _holds(house, without_sight) else ''}have told")

    assert not _holds(house, guard)
    house.presses("BSpace")
    house.waits_for_presence("idle")
    if not focused:
        be_alone(house)


def _look(house: House) -> PaneView:
    server = TmuxServer(str(house.tmux.socket_path), 10, os.environ)
    view = asyncio.run(Observer(server, Occupants(load_profiles()), 10).view(house.pane_id, ""))
    assert isinstance(view, PaneView)
    return view


def _holds(house: House, guard: str) -> bool:
    """What tmux makes of the condition now."""
    return house.tmux.run("display-message", "-p", "-t", house.pane_id, f"#{{?{guard},yes,no}}").strip() == "yes"
