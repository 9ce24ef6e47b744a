"""The fence tells a pane from another one with the same id."""

from __future__ import annotations

from dataclasses import replace

import pytest
from wake_bridge_adapters.tmux.occupants import breach

from wake_bridge.domain.routing import Binding

FENCE = Binding("/tmp/tmux-1/default", 10, "$1", "%5", 20, "111", 30, "222")


def test_a_fence_holds_while_nothing_changed() -> None:
    """The fence is socket, server, session, pane, its process and the agent's."""
    assert breach(FENCE, FENCE) == ""


@pytest.mark.parametrize(
    ("now", "what"),
    [
        (replace(FENCE, server_pid=11), "server"),
        (replace(FENCE, socket="/tmp/tmux-1/other"), "server"),
        (replace(FENCE, pane_id="%6"), "pane"),
        (replace(FENCE, pane_pid=21), "pane"),
        (replace(FENCE, pane_started="112"), "pane"),
        (replace(FENCE, agent_pid=31), "agent"),
        (replace(FENCE, agent_started="223"), "agent"),
        (replace(FENCE, agent_pid=0, agent_started=""), "agent"),
    ],
)
def test_any_change_breaks_the_fence(now: Binding, what: str) -> None:
    """Pane ids restart with the server, and pids come again; start times do not."""
    assert what in breach(FENCE, now)


def test_a_pane_moved_to_another_session_is_the_same_pane() -> None:
    """Whatever it is called and wherever it was moved to, the pane counts."""
    assert breach(FENCE, replace(FENCE, session_id="$2")) == ""


def test_a_fence_made_before_the_agent_started_says_nothing_about_it() -> None:
    """`bind` may be run in the pane's shell first."""
    assert breach(replace(FENCE, agent_pid=0, agent_started=""), FENCE) == ""
