"""Who is there, with real processes: wrappers, shells within shells, suspended, zombie and ended ones."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.programs import needs
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import Look
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import PresenceState

if TYPE_CHECKING:
    from pathlib import Path

    import libtmux

    from tests.integration.tmux.conftest import Scene

IDLE = PresenceState.IDLE


class _Terminal:
    """A person's interactive shell in a pane, and the fake harness to be started in it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.fake = FakeHarness(scene.directory, "fake")
        self.harness = shlex.join(self.fake.command())
        command = ["bash", "--norc", "--noprofile", "-i"]
        self.pane: libtmux.Pane = scene.tmux.new_pane(command, width=300)
        self.id = str(self.pane.pane_id)
        self.waits_until(lambda look: look.text.rstrip().endswith(("$", "#")))

    def types(self, line: str) -> None:
        self.scene.tmux.run("send-keys", "-t", self.id, "-l", line)
        self.scene.tmux.run("send-keys", "-t", self.id, "Enter")

    def starts(self, line: str) -> None:
        """Run a line that starts the harness, and wait until it is up."""
        starts = len(self.fake.events("started"))
        self.types(line)
        self.fake.waits_for("started", starts + 1)
        self.fake.control()

    @property
    def agent(self) -> int:
        return int(self.fake.events("started")[-1]["pid"])

    def waits_until(self, is_so: object) -> Look:
        return self.scene.tmux.waits_until(self.pane, is_so)  # type: ignore[arg-type]


@pytest.fixture
def terminal(scene: Scene) -> _Terminal:
    """A shell at its prompt."""
    return _Terminal(scene)


WRAPPERS = {
    "env": "env -u NOBODY A=1 {harness}",
    "nice": "nice -n 1 stdbuf -oL {harness}",
    "exec": "(exec {harness})",
    "a script": "sh {directory}/start",
    "shells within shells": "bash -c 'sh -c \"{harness}; true\"; true'",
    "an ended first process of the pipe": "true | {harness} </dev/tty",
    "a variable": "A=1 B=2 {harness}",
    "and": "true && {harness}",
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_an_agent_is_found_behind_whatever_started_it(terminal: _Terminal, wrapper: str) -> None:
    """The foreground process group's argv; wrappers are looked through."""
    directory = terminal.scene.directory
    (directory / "start").write_text(f"#!/bin/sh\n{terminal.harness}\nexit 0\n")
    terminal.starts(WRAPPERS[wrapper].format(harness=terminal.harness, directory=directory))

    observed = terminal.scene.observe(terminal.id)

    assert observed.capabilities == ("fake",)
    assert terminal.scene.verdict(terminal.id).vote is IDLE


def test_an_agent_in_a_shell_within_a_shell_comes_and_goes(terminal: _Terminal) -> None:
    """It is the group that has the terminal that counts, however deep the shells lie."""
    terminal.types("PS1='inner$ ' sh -i")
    terminal.waits_until(lambda look: "inner$" in look.text)
    assert terminal.scene.verdict(terminal.id).hold is HoldReason.NO_AGENT
    terminal.starts(terminal.harness)
    assert terminal.scene.verdict(terminal.id).vote is IDLE

    terminal.fake.shows("exit")
    terminal.waits_until(lambda look: look.flags["pane_current_command"] in {"sh", "dash", "bash"})

    gone = terminal.scene.verdict(terminal.id)
    assert (gone.rule, gone.hold) == ("no-agent", HoldReason.NO_AGENT)


def test_an_agent_that_a_person_suspended_is_told_from_one_that_ended(terminal: _Terminal) -> None:
    """Stopped = no agent; what is to be done is another thing: `fg`, and then it is there again."""
    terminal.starts(terminal.harness)
    os.kill(terminal.agent, signal.SIGSTOP)  # the fake reads Ctrl-Z as a key; to its shell it is all the same
    terminal.waits_until(lambda look: look.flags["pane_current_command"] == "bash")

    suspended = terminal.scene.verdict(terminal.id)
    terminal.types("fg")
    terminal.waits_until(lambda look: look.flags["pane_current_command"] != "bash")
    terminal.fake.control()
    back = terminal.scene.observe(terminal.id)

    assert (suspended.rule, suspended.hold) == ("suspended", HoldReason.NO_AGENT)
    assert suspended.saw == "fake is stopped, and bash has the terminal"
    assert back.capabilities == ("fake",)


def test_an_agent_running_behind_its_shell_is_not_there(terminal: _Terminal) -> None:
    """An agent that a person sent into the background does not get what is typed."""
    program = terminal.scene.directory / "aider"
    program.write_text(f"#!{sys.executable}\nprint('up and idle', flush=True)\n__import__('time').sleep(600)\n")
    program.chmod(0o755)
    terminal.types(f"{program} &")
    terminal.waits_until(lambda look: "up and idle" in look.text)

    behind = terminal.scene.verdict(terminal.id)
    terminal.types("fg")
    terminal.waits_until(lambda look: look.flags["pane_current_command"] != "bash")

    assert (behind.rule, behind.saw) == ("no-agent", "bash has the terminal")
    assert terminal.scene.observe(terminal.id).capabilities == ("aider",)


ZOMBIE_LEADER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
leader = subprocess.Popen(["sleep", "600"], process_group=0)
agent = subprocess.Popen(sys.argv[1:], process_group=leader.pid, preexec_fn=lambda: signal.signal(signal.SIGTTOU, signal.SIG_DFL))
os.tcsetpgrp(0, leader.pid)
leader.kill()  # and nobody asks what became of it
time.sleep(600)
"""


def test_an_agent_whose_group_leader_is_a_zombie_is_found(terminal: _Terminal) -> None:
    """Zombies are nobody; the oldest of the group that lives stands in for its leader."""
    starter = terminal.scene.directory / "starter.py"
    starter.write_text(ZOMBIE_LEADER)
    terminal.starts(f"{shlex.quote(sys.executable)} {starter} {terminal.harness}")
    group = os.getpgid(terminal.agent)
    # the agent may be up before its leader is killed
    terminal.waits_until(lambda _: _status(group) == "Z")

    assert terminal.scene.observe(terminal.id).capabilities == ("fake",)
    os.kill(terminal.agent, signal.SIGKILL)
    # nobody asks what became of it either
    terminal.waits_until(lambda _: _status(terminal.agent) == "Z")
    gone = terminal.scene.verdict(terminal.id)
    assert gone.hold is HoldReason.NO_AGENT


def _status(pid: int) -> str:
    import psutil

    return "Z" if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE else psutil.Process(pid).status()


@pytest.fixture
def packages(scene: Scene) -> Path:
    """A directory with an npm package that is called as Codex is, and does nothing."""
    needs("node", "npx")
    script = scene.directory / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\nprocess.stdout.write('up and idle\\n'); setInterval(() => {}, 1000);\n")
    script.chmod(0o755)
    package = {"name": "@openai/codex", "version": "0.171.3", "bin": {"codex": "bin/codex.js"}}
    (script.parents[1] / "package.json").write_text(json.dumps(package))
    (scene.directory / "package.json").write_text('{"name": "mine", "version": "1.0.0"}')
    link = scene.directory / "node_modules" / ".bin" / "codex"
    link.parent.mkdir()
    link.symlink_to("../@openai/codex/bin/codex.js")
    return scene.directory


@pytest.mark.parametrize(
    "line",
    [
        "node node_modules/@openai/codex/bin/codex.js",
        "node --max-old-space-size=512 {directory}/node_modules/.bin/codex",
        "npx --offline codex",
        "npx --offline @openai/codex",
        "env PATH=$PWD/node_modules/.bin:$PATH codex",
    ],
)
def test_a_program_of_node_is_found_behind_its_runners(terminal: _Terminal, packages: Path, line: str) -> None:
    """`node`, `npx`, links and packages are looked through, with the real programs; so is its version."""
    terminal.types(f"cd {packages} && " + line.format(directory=packages))
    terminal.waits_until(lambda look: "up and idle" in look.text)

    observed = terminal.scene.observe(terminal.id)

    assert observed.capabilities == ("codex",)
    told = [one.saw for one in observed.evidence if one.rule == "version"]
    if not line.startswith("node node_modules"):  # a relative path says nothing of where it began
        assert told == []
