"""Agents behind programs that only carry a terminal: woken where it can be proven who is there, else held (docs/carriers.md)."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from tests.integration.tmux.conftest import Resident, Scene
from tests.integration.tmux.far_terminal import SCRIPT
from tests.programs import cannot, needs
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.programs import CARRIERS, Carrier
from wake_bridge.ports.adapter import Delivered, Place, Refused
from wake_bridge.testing import until

ROOT = Path(__file__).parents[3]
ONE_LINE = "[WAKE] 1 event for @agent: a message   Wake: {mark}"

Wrap = Callable[[list[str]], list[str]]

SEEN: Mapping[str, Wrap] = {
    "script": lambda command: ["script", "-q", "-c", shlex.join(command), "/dev/null"],
    "unshare": lambda command: ["unshare", "--fork", "--map-root-user", *command],
    "nsenter": lambda command: ["nsenter", "--pid=/proc/self/ns/pid", *command],
    "bwrap": lambda command: ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", *command],
    "bwrap, a session of its own": lambda command: ["bwrap", "--new-session", "--dev-bind", "/", "/", *command],
    "sudo": lambda command: ["sudo", "-n", "--preserve-env", *command],
    "su": lambda command: ["su", "--pty", "-c", shlex.join(command), "root"],
    "su, a session of its own": lambda command: ["su", "-c", shlex.join(command), "root"],
    "runuser": lambda command: ["runuser", "-u", "root", "--", *command],
    "script, in script": lambda command: [
        "script", "-q", "-c", shlex.join(["script", "-q", "-c", shlex.join(command), "/dev/null"]), "/dev/null",
    ],
}  # fmt: skip
"""How a command is started behind each carrier whose processes can be seen."""


def behind(scene: Scene, wrap: Wrap, name: str = "fake", *, shell: bool = False) -> Resident:
    """A fake harness behind a carrier; with `shell` a shell takes over there when it ends."""
    fake = FakeHarness(scene.directory, name)
    command = ["sh", "-c", fake.command_before_shell()] if shell else fake.command()
    pane = scene.tmux.new_pane(wrap(command), session="agents", environment={"PYTHONPATH": str(ROOT)})
    fake.control()
    return Resident(fake, pane, scene.tmux)


def container(scene: Scene, name: str = "docker") -> Wrap:
    """What starts a command in a played container, of which no process here is a child."""
    program = scene.directory / name
    program.write_text(SCRIPT.format(python=sys.executable))
    program.chmod(0o755)
    return lambda command: [str(program), "exec", "-it", "box", *command]


@pytest.mark.parametrize("carrier", SEEN)
def test_behind_a_carrier_whose_processes_are_seen_all_is_as_in_a_pane(scene: Scene, carrier: str) -> None:
    """The agent's own process is the fence; once its shell has the terminal, a picture that was left is no agent."""
    program = carrier.partition(",")[0]
    needs(program)
    if program in {"su", "sudo", "runuser", "nsenter"} and os.getuid():
        cannot("only root may do so without a password")
    agent = behind(scene, SEEN[carrier], shell=True)

    assert scene.verdict(agent.id).vote is PresenceState.IDLE
    place = scene.place(agent.id)
    assert place.fence is not None
    assert place.fence.agent_pid == agent.pid
    wake = scene.wake()
    outcome = scene.deliver(agent.id, wake)
    assert isinstance(outcome, Delivered), outcome
    assert agent.fake.submits() == [wake.text]

    agent.fake.shows("crash")
    until(lambda: not psutil.pid_exists(agent.pid))
    until(lambda: "sh has the terminal" in scene.verdict(agent.id).saw)
    assert isinstance(scene.deliver(agent.id, scene.wake()), Refused)
    assert len(agent.fake.submits()) == 1


def test_an_agent_that_is_suspended_behind_a_carrier_is_no_agent(scene: Scene) -> None:
    """The pane goes on being called after its carrier, so nothing is remembered of who is behind it."""
    agent = behind(scene, SEEN["script"], shell=True)
    assert scene.verdict(agent.id).vote is PresenceState.IDLE

    os.kill(agent.pid, signal.SIGSTOP)
    until(lambda: scene.verdict(agent.id).why is Cause.SUSPENDED)

    os.kill(agent.pid, signal.SIGCONT)


def test_what_a_program_behind_a_carrier_has_not_read_is_seen(scene: Scene) -> None:
    """The carrier reads at once; the key lies in the terminal behind it."""
    fake = FakeHarness(scene.directory, "deaf")
    pane = scene.tmux.new_pane(SEEN["script"](fake.command("--deaf")))
    scene.tmux.waits_until(pane, lambda look: "fake harness" in look.text)
    scene.tmux.run("send-keys", "-t", str(pane.pane_id), "-l", "x")

    until(lambda: scene.verdict(str(pane.pane_id)).rule == "unread-input")


def test_two_terminals_behind_one_carrier_are_no_agent(scene: Scene) -> None:
    """Which of them is shown cannot be told."""
    both = "setsid sleep 60 & setsid sleep 60 & exec -a sudo sleep 60"
    pane = scene.tmux.new_pane(["bash", "-c", both])

    until(lambda: scene.verdict(str(pane.pane_id)).saw == "sudo has the terminal; 2 sessions are behind it")


def test_what_cannot_be_seen_behind_a_carrier_is_woken_by_its_screen_once_the_configuration_names_it(
    scene: Scene,
) -> None:
    """Until then the hold prints the line that is missing; the wake is one line, which no shell runs when it is pasted."""
    agent = behind(scene, container(scene), shell=True)

    held = scene.verdict(agent.id)
    assert held.why is Cause.HIDDEN_BY_CARRIER
    said = re.findall(r'`harness = "(\w+)"`', held.saw)
    assert said == ["fake"]
    assert scene.verdict(agent.id, harness="fake").vote is PresenceState.IDLE
    assert deliver(scene, agent, ONE_LINE, said[0]) == Delivered
    assert len(agent.fake.submits()) == 1
    assert place_of(scene, agent).paper.max_lines == 1


def crash(agent: Resident) -> None:
    agent.fake.shows("crash")
    until(lambda: not psutil.pid_exists(agent.pid))


def stop(agent: Resident) -> None:
    os.kill(agent.pid, signal.SIGSTOP)


@pytest.mark.parametrize("end", [crash, stop])
def test_a_shell_that_has_the_hidden_terminal_shows_its_prompt_and_gets_no_byte(
    scene: Scene, end: Callable[[Resident], None]
) -> None:
    """No process can be seen there: the prompt on the screen, which the composer does not have, is what tells."""
    agent = behind(scene, container(scene), shell=True)
    before = agent.look().text

    end(agent)
    agent.tmux.waits_until(agent.pane, lambda look: look.text != before)

    assert scene.verdict(agent.id, harness="fake").vote is not PresenceState.IDLE
    assert deliver(scene, agent, ONE_LINE, "fake") == Refused
    assert agent.is_untouched()
    if psutil.pid_exists(agent.pid):
        os.kill(agent.pid, signal.SIGCONT)


def test_an_agent_that_stands_still_in_a_hidden_terminal_gets_no_enter(scene: Scene) -> None:
    """Stopped with nobody in its place its picture is whole: the text never shows, so Enter is never pressed."""
    agent = behind(scene, container(scene))
    assert scene.verdict(agent.id, harness="fake").vote is PresenceState.IDLE
    agent.stops()

    assert deliver(scene, agent, ONE_LINE, "fake") == Refused

    os.kill(agent.pid, signal.SIGCONT)
    until(lambda: "[WAKE]" in agent.composer())
    assert (agent.fake.submits(), agent.enters()) == ([], 0)


def test_a_carrier_that_was_started_anew_is_another_agent(scene: Scene) -> None:
    """The carrier stands for what it hides: its process is the fence."""
    agent = behind(scene, container(scene))
    place = place_of(scene, agent)
    wake = scene.wake(ONE_LINE)
    other = FakeHarness(scene.directory, "other")
    command = shlex.join(container(scene)(other.command()))
    scene.tmux.run("set-option", "-g", "remain-on-exit", "on")
    scene.tmux.run("respawn-pane", "-k", "-t", agent.id, f"exec env PYTHONPATH={ROOT} {command}")
    until(lambda: scene.verdict(agent.id, harness="fake").vote is PresenceState.IDLE)

    address = scene.address(agent.id, harness="fake")
    outcome = asyncio.run(scene.adapter.deliver(place, address, wake, scene.journal))

    assert isinstance(outcome, Refused)
    assert "another" in outcome.detail or "not the one it was" in outcome.detail
    assert other.bytes_received() == b""


def place_of(scene: Scene, agent: Resident) -> Place:
    found = scene.resolve(scene.address(agent.id, harness="fake"))
    assert isinstance(found, Place)
    return found


def deliver(scene: Scene, agent: Resident, text: str, harness: str) -> type:
    """One attempt, the harness configured; the kind of its outcome."""
    address = scene.address(agent.id, harness=harness)
    return type(asyncio.run(scene.adapter.deliver(place_of(scene, agent), address, scene.wake(text), scene.journal)))


@pytest.mark.parametrize("harness", ["", "fake"])
def test_a_pane_that_shows_another_tmux_is_no_agent_and_the_one_inside_is(scene: Scene, harness: str) -> None:
    """The inner pane is an address of its own, whatever `harness` says of the outer one."""
    with PrivateTmux() as outer:
        agent = scene.resident()
        attach = ["env", "-u", "TMUX", "tmux", "-L", scene.tmux.socket_name, "attach-session", "-t", "agents"]
        shown = str(outer.new_pane(attach, environment={"TERM": "screen-256color"}).pane_id)
        outside = Scene(outer, scene.directory)

        until(lambda: outside.verdict(shown, harness=harness).why is Cause.OWN_PANES)
        until(lambda: scene.verdict(agent.id).vote is PresenceState.IDLE)


IN_A_POPUP = """
import asyncio, os, sys
from wake_bridge_adapters.tmux import TmuxAdapter
from wake_bridge_adapters.tables import TmuxConfig
from wake_bridge.domain.errors import NotFound
from wake_bridge.ports.adapter import AdapterContext
from tests.integration.tmux.conftest import SystemClock

context = AdapterContext(10.0, 2.0, "", dict(os.environ), SystemClock())
try:
    said = asyncio.run(TmuxAdapter(TmuxConfig(), context).binding_for(None, os.environ)).label
except NotFound as error:
    said = str(error)
open(sys.argv[1], "w").write(said + "\\n")
"""


def test_bind_in_a_popup_does_not_mean_the_pane_below(scene: Scene) -> None:
    """A popup has no pane, and `$TMUX_PANE` only from where its server was started; in the pane itself `bind` means it."""
    below = scene.tmux.new_pane(["sh"], environment={"PYTHONPATH": str(ROOT)})
    scene.attached(str(below.pane_id))
    script, popup, heir, pane = (scene.directory / name for name in ("bind.py", "popup", "heir", "pane"))
    script.write_text(IN_A_POPUP)
    bind = f"PYTHONPATH={ROOT} {sys.executable} {script}"
    client = scene.tmux.run("list-clients", "-F", "#{client_name}").strip()

    scene.tmux.run("display-popup", "-E", "-c", client, f"{bind} {popup}")
    scene.tmux.run("display-popup", "-E", "-c", client, f"TMUX_PANE={below.pane_id} {bind} {heir}")
    scene.tmux.run("send-keys", "-t", str(below.pane_id), f"{bind} {pane}", "Enter")
    until(lambda: all(one.exists() and one.read_text() for one in (popup, heir, pane)))

    assert popup.read_text() == "this is no tmux pane\n"
    assert "popup" in heir.read_text()
    assert pane.read_text() == "agents:0.0\n"


def test_the_page_has_every_carrier_and_what_is_done_about_it() -> None:
    """docs/carriers.md is the table of `CARRIERS`."""
    page = (ROOT / "docs/carriers.md").read_text(encoding="utf-8")
    rows = [re.findall(r"`([\w-]+)`", first) for first in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)]
    kinds = re.findall(r"^\| `.*\| \*\*(.+?)\*\*", page, re.MULTILINE)

    assert len(rows) == len(kinds)
    assert {name: Carrier(kind) for names, kind in zip(rows, kinds, strict=True) for name in names} == CARRIERS
