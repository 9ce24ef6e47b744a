"""A harness that was stopped from outside and resumed."""

from __future__ import annotations

import os
import shlex
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens.profile import Profile
from wake_bridge_adapters.screens.profile_file import load_profiles
from wake_bridge_adapters.tmux.occupants import NoAgent, Occupants, PaneAgent

from tests.integration.tmux.conftest import Scene
from tests.integration.tmux.test_tmux_carriers import behind, container
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux


def _fake(*, lost_when_stopped: bool) -> Profile:
    fake = load_profiles()["fake"]
    return replace(fake, paste=replace(fake.paste, lost_when_stopped=lost_when_stopped))


@pytest.mark.parametrize("is_lost", [True, False], ids=["loses bracketed paste", "keeps it"])
def test_a_harness_that_its_shell_had_stopped_is_trusted_only_if_it_keeps_bracketed_paste(
    tmux: PrivateTmux, tmp_path: Path, is_lost: bool
) -> None:
    """Only a framed paste is safe; after `kill -STOP` and `fg` Gemini took the digest's lines for keys."""
    fake = FakeHarness(tmp_path, "agent")
    pane = tmux.new_pane("exec bash --norc --noprofile -i")
    target, shell_pid = str(pane.pane_id), int(tmux.look(pane).flags["pane_pid"])
    occupants = Occupants({"fake": _fake(lost_when_stopped=is_lost)})

    def occupant() -> PaneAgent | NoAgent:
        command = tmux.look(pane).flags["pane_current_command"]
        return occupants.of(str(tmux.socket_path), target, shell_pid, command)

    tmux.run("send-keys", "-t", target, "-l", f" {shlex.join(fake.command())}")
    tmux.run("send-keys", "-t", target, "Enter")
    fake.waits_for("started", 1)
    first = occupant()
    assert isinstance(first, PaneAgent)

    os.killpg(os.getpgid(first.process.pid), signal.SIGSTOP)
    tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] == "bash", what="the shell")
    assert isinstance(occupant(), NoAgent)
    tmux.run("send-keys", "-t", target, "-l", "fg")
    tmux.run("send-keys", "-t", target, "Enter")
    tmux.waits_until(pane, lambda look: look.flags["pane_current_command"] != "bash", what="the agent in front")

    back = occupant()

    assert isinstance(back, NoAgent) is is_lost, back
    if isinstance(back, NoAgent):
        assert "was stopped" in back.why


def test_who_asks_without_the_configured_harness_sets_no_hidden_agent_aside(scene: Scene) -> None:
    """`wake-bridge panes` asks so; a Qwen Code in a container was taken for stopped after it, and never woken again."""
    agent = behind(scene, container(scene))
    occupants = Occupants({"fake": _fake(lost_when_stopped=True)})
    flags = agent.look().flags
    place = (str(scene.tmux.socket_path), agent.id, int(flags["pane_pid"]), flags["pane_current_command"])

    said = [occupants.of(*place, harness) for harness in ("fake", "", "fake")]

    assert [isinstance(one, PaneAgent) for one in said] == [True, False, True], said
