"""What tmux draws over a pane takes the client's keys and not ours: the pane below is woken all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from wake_bridge.ports.adapter import Delivered

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Scene


@dataclass(frozen=True)
class Overlay:
    """How it is called for; `{client}` and `{pane}` stand for the person's. `since` is the first version that has it."""

    name: str
    command: Sequence[str]
    since: tuple[int, int] = (3, 2)


OVERLAYS: Final = (
    Overlay("a command prompt", ("command-prompt", "-t", "{client}", "-I", "set -g @pressed yes")),
    Overlay("a question", ("confirm-before", "-t", "{client}", "set -g @pressed yes")),
    Overlay("a menu", ("display-menu", "-c", "{client}", "-t", "{pane}", "one", "o", "set -g @pressed yes")),
    Overlay("a popup", ("display-popup", "-c", "{client}", "-E", "sh", "-c", "read x && touch {pressed}; sleep 60")),
    Overlay("a prompt in a pane", ("command-prompt", "-P", "-t", "{client}", "-I", "set -g @pressed yes"), (3, 8)),
    Overlay("a modal pane", ("new-pane", "-O", "-t", "{pane}", "sh -c 'read x && touch {pressed}; sleep 60'"), (3, 8)),
)


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda overlay: overlay.name)
def test_what_lies_over_a_pane_is_neither_answered_nor_in_the_way(
    scene: Scene, tmux_version: tuple[int, int], overlay: Overlay
) -> None:
    """The pane is addressed by its id; Enter goes to the agent, and confirms nothing else."""
    if tmux_version < overlay.since:
        pytest.skip(f"tmux has it since {overlay.since}")
    agent = scene.resident()
    scene.watcher(agent.id)
    pressed = scene.directory / "pressed"
    names = {
        "{client}": scene.tmux.run("list-clients", "-F", "#{client_name}").strip(),
        "{pane}": agent.id,
        "{pressed}": str(pressed),
    }
    words = list(overlay.command)
    for name, value in names.items():
        words = [word.replace(name, value) for word in words]
    command = ["tmux", "-u", "-L", scene.tmux.socket_name, *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as asking:
        scene.waits_until_quiet()

        outcome = scene.deliver(agent.id, scene.wake())

        asking.kill()
        assert asking.stderr is not None
        assert asking.stderr.read() == ""

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1
    assert scene.tmux.run("show-options", "-g", "-q", "-v", "@pressed").strip() == ""
    assert not pressed.exists()
