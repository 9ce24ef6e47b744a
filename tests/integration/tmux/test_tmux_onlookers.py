"""Whose keys hold a wake: those that go to this pane, through whichever client they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from wake_bridge.demo.tmux_server import Typist
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports.adapter import Delivered, Refused

if TYPE_CHECKING:
    from tests.integration.tmux.conftest import Resident, Scene

KEY: Final = "\x1b[I"
"""A focus report: a key to tmux, nothing to any pane. So the screen does not tell of it, only the client does."""

Clients = Callable[["Scene", "Resident"], Typist]


@dataclass(frozen=True)
class Company:
    """Who is attached, the one whose key it is last, and whether that key holds the wake."""

    name: str
    comes: Clients
    holds: bool


def _attached(scene: Scene, session: str, *flags: str, size: tuple[int, int] = (80, 24)) -> Typist:
    command = ["tmux", "-u", "-L", scene.tmux.socket_name, "attach-session", *flags, "-t", f"={session}"]
    typist = Typist(command, *size)
    typist.waits_until_shown()
    return typist


def _before_it(scene: Scene, agent: Resident) -> Typist:
    return scene.attached(agent.id)


def _read_only(scene: Scene, _agent: Resident) -> Typist:
    return _attached(scene, "agents", "-r")


def _in_the_pane_beside(scene: Scene, agent: Resident) -> Typist:
    beside = scene.tmux.run("split-window", "-P", "-F", "#{pane_id}", "-t", agent.id, "cat").strip()
    return scene.attached(beside)


def _in_the_window_beside(scene: Scene, agent: Resident) -> Typist:
    other = scene.tmux.run("new-window", "-P", "-F", "#{pane_id}", "-t", "=agents:", "cat").strip()
    assert other != agent.id
    return scene.attached(other)


def _group(scene: Scene, agent: Resident) -> str:
    """A second session of the same group; its index of the agent's window."""
    scene.tmux.run("new-window", "-d", "-t", "=agents:", "cat")
    scene.tmux.run("new-session", "-d", "-t", "=agents", "-s", "twin")
    return scene.tmux.run("display-message", "-p", "-t", agent.id, "#{window_index}").strip()


def _by_a_session_of_its_group(scene: Scene, agent: Resident) -> Typist:
    index = _group(scene, agent)
    scene.tmux.run("select-window", "-t", f"=twin:{index}")
    return _attached(scene, "twin")


def _elsewhere_in_its_group(scene: Scene, agent: Resident) -> Typist:
    _group(scene, agent)
    scene.tmux.run("select-window", "-t", "=twin:1")
    return _attached(scene, "twin")


def _two_of_which_this_one_is_elsewhere(scene: Scene, agent: Resident) -> Typist:
    _group(scene, agent)
    scene.tmux.run("select-window", "-t", "=twin:1")
    scene.attached(agent.id)
    return _attached(scene, "twin")


def _two_of_which_this_one_is_before_it(scene: Scene, agent: Resident) -> Typist:
    _group(scene, agent)
    scene.tmux.run("select-window", "-t", "=twin:1")
    scene.tmux.attach("twin").waits_until_shown()
    return scene.attached(agent.id)


def _beside_in_a_synchronised_window(scene: Scene, agent: Resident) -> Typist:
    typist = _in_the_pane_beside(scene, agent)
    scene.tmux.run("set-option", "-w", "-t", agent.id, "synchronize-panes", "on")
    return typist


COMPANY: Final = (
    Company("before it", _before_it, holds=True),
    Company("read-only", _read_only, holds=True),
    Company("in the pane beside", _in_the_pane_beside, holds=False),
    Company("in the window beside", _in_the_window_beside, holds=False),
    Company("before it, by another session of its group", _by_a_session_of_its_group, holds=True),
    Company("elsewhere in its group", _elsewhere_in_its_group, holds=False),
    Company("two clients, the key of the one elsewhere", _two_of_which_this_one_is_elsewhere, holds=False),
    Company("two clients, the key of the one before it", _two_of_which_this_one_is_before_it, holds=True),
)


@pytest.mark.parametrize("company", COMPANY, ids=lambda one: one.name)
def test_a_key_holds_the_pane_it_goes_to_and_no_other(scene: Scene, company: Company) -> None:
    """A key of an attached client whose current pane is this one; keys in other panes do not count."""
    agent = scene.resident()
    typist = company.comes(scene, agent)
    try:
        scene.waits_until_quiet()
        quiet = scene.verdict(agent.id)
        typist.types(KEY)
        scene.waits_until_told_of_a_key()

        outcome = scene.deliver(agent.id, scene.wake())
    finally:
        typist.close()

    assert quiet.vote is PresenceState.IDLE
    if company.holds:
        assert isinstance(outcome, Refused)
        assert outcome.reason is HoldReason.USER_TYPING
        assert agent.is_untouched()
    else:
        assert isinstance(outcome, Delivered)
        assert len(agent.fake.submits()) == 1


def test_a_key_holds_for_as_long_as_the_setting_says(scene: Scene) -> None:
    """`typing_quiet`: seconds that a person's keys must lie back, however quiet the session is by then."""
    agent = scene.resident()
    typist = scene.watcher(agent.id)
    try:
        quiet = scene.verdict(agent.id)
        scene.adapter = scene.new_adapter(typing_quiet=60)
        held = scene.verdict(agent.id)
    finally:
        typist.close()

    assert quiet.vote is PresenceState.IDLE
    assert (held.vote, held.rule) == (PresenceState.USER_TYPING, "client-key")


def test_a_key_beside_a_synchronised_pane_goes_to_it_as_well(scene: Scene) -> None:
    """All panes of the window when synchronised; such a pane is refused anyway."""
    agent = scene.resident()
    typist = _beside_in_a_synchronised_window(scene, agent)
    scene.waits_until_quiet()
    before = {one.rule for one in scene.observe(agent.id).evidence}
    typist.types(KEY)
    scene.waits_until_told_of_a_key()

    after = {one.rule for one in scene.observe(agent.id).evidence}

    assert "client-key" not in before
    assert "client-key" in after


def test_a_control_client_that_looks_on_hinders_nothing(scene: Scene) -> None:
    """A program may be attached for ever; of its keys only the composer tells."""
    agent = scene.resident()
    with Typist(["tmux", "-u", "-L", scene.tmux.socket_name, "-C", "attach-session", "-t", "=agents"]) as client:
        client.waits_until_shown()
        scene.waits_until_quiet()

        outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Delivered)
    assert len(agent.fake.submits()) == 1


def test_what_a_control_client_typed_is_a_draft(scene: Scene) -> None:
    """A draft anywhere in the composer, whoever typed it."""
    agent = scene.resident()
    with Typist(["tmux", "-u", "-L", scene.tmux.socket_name, "-C", "attach-session", "-t", "=agents"]) as client:
        client.waits_until_shown()
        scene.waits_until_quiet()
        client.types(f"send-keys -t {agent.id} -l x\n")
        agent.tmux.waits_until(agent.pane, lambda look: "➤ x" in look.text)

        outcome = scene.deliver(agent.id, scene.wake())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.USER_TYPING
    assert agent.fake.bytes_received() == b"x"


def test_who_left_holds_nothing_and_who_comes_is_heeded(scene: Scene) -> None:
    """Clients that are attached count, and one that has just come may type at once."""
    agent = scene.resident()
    scene.attached(agent.id).close()
    assert scene.verdict(agent.id).vote is PresenceState.IDLE

    scene.attached(agent.id)

    assert scene.verdict(agent.id).rule in {"client-key", "session-touched"}


@pytest.mark.parametrize(("typing_quiet", "holds"), [(0.1, False), (2, False), (30, True)])
def test_keys_must_lie_back_as_long_as_is_configured(scene: Scene, typing_quiet: float, *, holds: bool) -> None:
    """`presence.typing_quiet` counts, two seconds at the least: tmux tells of keys in whole seconds."""
    agent = scene.resident()
    typist = scene.watcher(agent.id)
    typist.types(KEY)
    scene.waits_until_told_of_a_key()
    scene.adapter = scene.new_adapter(typing_quiet=typing_quiet)
    at_once = scene.verdict(agent.id)
    scene.waits_until_quiet()

    later = scene.verdict(agent.id)

    assert at_once.rule == "client-key"
    assert (later.rule == "client-key") is holds
