"""Conditions hold every value to its alphabet, so that nothing can speak tmux's format language."""

from __future__ import annotations

import pytest
from wake_bridge_adapters.tmux.guarded import NotExpressible, can_be_sight, condition
from wake_bridge_adapters.tmux.pane_facts import Client, PaneFacts, PaneReading

VALUES = {
    "pane_id": "%5",
    "pid": "4711",
    "session_id": "$1",
    "window_id": "@2",
    "pane_pid": "99",
    "pane_dead": "0",
    "pane_in_mode": "0",
    "pane_input_off": "0",
    "pane_synchronized": "0",
    "pane_active": "1",
    "window_active_clients": "0",
    "cursor_x": "2",
    "cursor_y": "20",
    "cursor_flag": "1",
    "alternate_on": "1",
    "pane_width": "80",
    "pane_height": "24",
    "pane_current_command": "claude",
    "#{S:#{session_id}/#{window_id}/#{session_activity} }": "$1/@2/1700000000 $3/@9/1700000050 ",
    "pane_title": "#{pid} } , title",
}


def look(clients: tuple[Client, ...] = (), **changed: str) -> PaneReading:
    return PaneReading(PaneFacts({**VALUES, **changed}), clients, "", 1700000100, is_moving=False)


def client(*, pane: str = "%5", window: str = "@2", flags: str = "attached") -> Client:
    return Client(1700000000, window, pane, frozenset(flags.split(",")))


@pytest.mark.parametrize("command", ["a#{pid}", "a,b", "a}b", "a b ", "a'b", "a;b", "", "x" * 80, "naïve", "a\nb"])
def test_a_command_with_an_odd_name_is_never_written_into_a_condition(command: str) -> None:
    """No text that others choose goes into a condition; an odd one is refused, not escaped."""
    seen = look(pane_current_command=command)

    with pytest.raises(NotExpressible):
        condition(seen, seen, driver="")


@pytest.mark.parametrize("command", ["claude", "node", "python3.11", "Kimi CLI", "gcc-c++", "codex_1"])
def test_the_names_real_programs_have_can_be_held_to(command: str) -> None:
    """The condition holds `pane_current_command`."""
    seen = look(pane_current_command=command)

    assert f"|{command}|}}" in condition(seen, seen, driver="")


def test_the_title_is_no_part_of_a_condition() -> None:
    """No text from graph or title ever goes into a condition."""
    seen = look()

    assert "title" not in condition(seen, seen, driver="")


def test_without_a_client_that_could_type_only_the_count_of_clients_is_held() -> None:
    """None active in the window, or `session_activity` unchanged."""
    nobody = look()
    elsewhere = look((client(pane="%6"),), pane_active="0", window_active_clients="1")

    assert "session_activity" not in condition(nobody, nobody, driver="")
    assert "session_activity" not in condition(elsewhere, elsewhere, driver="")
    assert "#{window_active_clients}" in condition(nobody, nobody, driver="")


@pytest.mark.parametrize(
    "who",
    [client(), client(pane="%6", flags="attached,active-pane")],
    ids=["the pane is its current one", "it has a pane of its own that tmux does not tell"],
)
def test_a_client_whose_keys_may_go_to_the_pane_is_held_to_the_first_looks_activity(who: Client) -> None:
    """`session_activity` still as at the first look."""
    first = look((who,), window_active_clients="1")
    later = look(
        (who,),
        window_active_clients="1",
        **{"#{S:#{session_id}/#{window_id}/#{session_activity} }": "$1/@2/1700000099 "},
    )

    guard = condition(later, first, driver="")

    assert "$1=1700000000/" in guard
    assert "1700000099" not in guard
    assert "$3" not in guard


@pytest.mark.parametrize("sight", ["#{pid}", "[Pasted", "01J,ABC", "short", "a" * 70, " 01JABCDEFG"])
def test_only_letters_digits_and_blanks_are_searched_for(sight: str) -> None:
    """A search in a condition is a part of our mark or of a chip, and cannot be a pattern."""
    assert not can_be_sight(sight)
    with pytest.raises(NotExpressible):
        condition(look(), look(), sight, driver="")


def test_only_sessions_that_show_the_window_can_type_into_it() -> None:
    """A session whose current window is another one sends it no key."""
    assert look().facts.sessions_showing_it() == {"$1": 1700000000}
