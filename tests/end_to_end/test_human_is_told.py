"""A word to the human from a real daemon: by a command, by the terminal, once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.demo.tmux_server import Typist
from wake_bridge.testing.playground import Playground

RECORD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.fixture
def world(playground: Playground) -> Playground:
    """An embedded graph and nobody in it yet."""
    playground.sandbox.run("init")
    return playground


def _told(record: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def test_a_dialog_that_waits_is_told_once_by_the_command_also_after_a_kill_and_the_wake_comes_once(
    world: Playground,
) -> None:
    """`[human]`: one notice for a hold that lasts; a restart does not send twice; hostile text runs nothing."""
    sandbox, record, trap = world.sandbox, world.directory / "told", world.directory / "trap"
    command = json.dumps([sys.executable, "-c", RECORD, str(record), "{title}", "{body}"])
    sandbox.configure(f"{QUICK}human.notice_after = 2\nhuman.command = {command}\n")
    agent = world.enlisted("agent")
    agent.fake.shows("approval")
    daemon = sandbox.daemon()
    sandbox.send("@agent", f"$(touch {trap}) `touch {trap}` '; touch {trap}; ' \"; touch {trap}; --help")
    (told,) = sandbox.waits_for(lambda: _told(record), what="a notice")
    assert told["title"] == "wake-bridge: @agent cannot be woken (waitingOnApproval)"
    assert f"answer the dialog in {agent.label}" in told["body"]
    held = sandbox.waits_for_delivery(target="@agent", hold_reason="waitingOnApproval")
    assert told["subject"] == held["id"]
    (notice,) = sandbox.ask("status")["notices"]
    assert (notice["subject"], notice["title"]) == (held["id"], told["title"])
    assert "@agent cannot be woken (waitingOnApproval)" in sandbox.run("status").stdout
    assert [line["reason"] for line in daemon.entries("notice_given")] == ["waitingOnApproval"]
    doctor = {one["check"]: one for one in sandbox.lines("doctor", expect=None)}
    assert doctor["word to the human"]["detail"] == sys.executable

    daemon.kill()
    again = sandbox.daemon()
    # another agent's notice is due after the first one would have been told again
    other = world.enlisted("other")
    other.fake.shows("approval")
    sandbox.send("@other", "hello")
    sandbox.waits_for(lambda: len(_told(record)) == 2, what="the other's notice")
    assert [one["identity"] for one in _told(record)] == ["@agent", "@other"]

    agent.fake.shows("idle")
    sandbox.waits_for_delivery(id=held["id"], outcome="submitted")
    assert len(agent.fake.submits()) == 1
    assert len(sandbox.ask("status")["notices"]) == 1
    assert not trap.exists()
    assert again.entries("chore_failed") == []


def test_without_a_command_the_person_sees_a_line_in_the_terminal_they_used(world: Playground) -> None:
    """`[human]`: built in: `display-message` to the attached client that last was active."""
    sandbox = world.sandbox
    sandbox.configure(f"{QUICK}human.notice_after = 1\n")
    agent = world.enlisted("agent")
    agent.fake.shows("approval")
    world.add_bystander()
    command = ["tmux", "-u", "-L", world.tmux.socket_name, "-f", "/dev/null", "attach-session", "-t", "=bystander"]
    with Typist(command, width=160) as person:
        person.waits_until_shown()
        sandbox.daemon()
        sandbox.send("@agent", "hello")
        sandbox.waits_for(lambda: "@agent cannot be woken" in person.shown(), what="the line in the terminal")
    assert world.bystander_bytes() == b""


def test_a_command_that_hangs_or_fails_is_logged_once_and_wakes_go_on(world: Playground) -> None:
    """`[human]`: a failing command never blocks."""
    sandbox = world.sandbox
    sandbox.configure(
        f'{QUICK}human.notice_after = 1\nhuman.command = ["sleep", "600"]\ndelivery.adapter_timeout = 3.0\n'
    )
    waiting = [world.enlisted(name) for name in ("one", "two")]
    free = world.enlisted("free")
    for agent in waiting:
        agent.fake.shows("approval")
    daemon = sandbox.daemon()
    for name in ("one", "two"):
        sandbox.send(f"@{name}", "hello")
    daemon.waits_for_log("notice_given", 2)
    sandbox.send("@free", "hello")
    sandbox.waits_for_delivery(target="@free", outcome="submitted")
    assert free.fake.submits()
    (failed,) = daemon.waits_for_log("notice_failed")
    assert failed["reason"] == "it was ended after 3 s"
    assert daemon.stop() == 0
    assert len(daemon.entries("notice_failed")) == 1
