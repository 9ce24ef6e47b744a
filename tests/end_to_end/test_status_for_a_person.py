"""`status` for a person who comes back, and `status --watch` in a real terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import libtmux
import pytest

from wake_bridge.demo.tmux_server import Look
from wake_bridge.testing import HUNG
from wake_bridge.testing.playground import Playground


class Person:
    """Somebody at a shell in a pane of their own."""

    def __init__(self, world: Playground, width: int = 140) -> None:
        self.world = world
        self.pane: libtmux.Pane = world.tmux.new_pane(
            ["sh"], session="me", width=width, height=30, environment=world.sandbox.environment
        )
        world.tmux.run("send-keys", "-t", str(self.pane.pane_id), "unset COLUMNS LINES; PS1='ready> '; clear", "Enter")
        self.sees("ready>", without="PS1")

    def runs(self, *arguments: str, after: str = "") -> None:
        """Type a command of ours."""
        command = shlex.join([*self.world.sandbox.command, *arguments])
        self.world.tmux.run("send-keys", "-t", str(self.pane.pane_id), f"clear; {command}{after}", "Enter")

    def presses(self, key: str) -> None:
        self.world.tmux.run("send-keys", "-t", str(self.pane.pane_id), key)

    def sees_agents(self, *agents: str) -> Look:
        """Wait until the table shows these agents and no others, from the top."""

        def shows(look: Look) -> bool:
            rows = look.text.partition("budget")[2].splitlines()
            return [row.split()[0] for row in rows if row.strip().startswith("@")] == [*agents]

        return self.world.tmux.waits_until(self.pane, shows, what=f"{agents}")

    def sees(self, *texts: str, without: str = "\0") -> Look:
        def shows(look: Look) -> bool:
            return all(text in look.text for text in texts) and without not in look.text

        return self.world.tmux.waits_until(self.pane, shows, what=f"{texts}")


@pytest.fixture
def world(playground: Playground) -> Playground:
    """One agent that was woken, and one at a dialog with a wake waiting; a daemon runs."""
    playground.sandbox.run("init")
    woken, asked = playground.enlisted("woken"), playground.enlisted("asked")
    asked.fake.shows("approval")
    playground.sandbox.daemon()
    playground.sandbox.send("@woken", "hello")
    playground.sandbox.send("@asked", "hello")
    woken.fake.waits_for("submit")
    playground.sandbox.waits_for_delivery(outcome="submitted")
    playground.sandbox.waits_for_delivery(hold_reason="waitingOnApproval")
    return playground


def test_status_tells_what_happened_since_a_person_last_looked(world: Playground) -> None:
    """A look is words on a terminal; a script with --json, or a pipe, looks for nobody."""
    sandbox = world.sandbox
    approval = f"1 held (approval waiting in {world.agents['asked'].label})"
    person = Person(world)
    assert sandbox.run("status").stdout.startswith(f"so far: 1 delivered, {approval}")
    assert sandbox.ask("status")["sinceYouLeft"]["since"] is None

    person.runs("status")
    person.sees(f"so far: 1 delivered, {approval}", "daemon     running", "held for   waitingOnApproval (1)")
    sandbox.waits_for(lambda: sandbox.ask("status")["sinceYouLeft"]["since"])
    again = sandbox.ask("status")["sinceYouLeft"]
    assert (again["delivered"], again["held"], again["unknown"], again["failed"]) == (0, 1, 0, 0)

    world.agents["asked"].fake.shows("idle")
    sandbox.waits_for(lambda: sandbox.ask("status")["sinceYouLeft"]["delivered"] == 1)
    person.runs("status")
    person.sees("since you last looked (", " ago): 1 delivered", without=approval)


def test_the_live_table_shows_every_identity_and_leaves_the_terminal_as_it_was(
    world: Playground, tmp_path: Path
) -> None:
    """Identity, presence, since, held for, next look, last wake, budget; through the daemon, then without it."""
    person = Person(world)
    before, after = tmp_path / "before", tmp_path / "after"
    world.tmux.run("send-keys", "-t", str(person.pane.pane_id), f"stty -a > {before}", "Enter")
    person.runs("status", "--watch", after=f"; echo ended $?; stty -a > {after}")
    waiting = f"approval waiting in {world.agents['asked'].label}"

    look = person.sees("identity", "presence", "held for", "@woken", "1/20 h", "@asked", "waitingOnApproval", waiting)
    assert look.flags["alternate_on"] == "1"
    assert "daemon     running" in look.text
    # what it shows is alive: the dialog is answered, the wake arrives
    world.agents["asked"].fake.shows("idle")
    person.sees("@asked", without=waiting)
    world.sandbox.daemons[-1].stop()
    look = person.sees("daemon     not running", "@woken", "1/20 h  1/150 d")
    assert "waitingOnApproval" not in look.text

    person.presses("C-c")
    look = person.sees("ended 0", "ready>", without="Ctrl-C  end")
    assert (look.flags["alternate_on"], look.cursor_visible) == ("0", True)
    assert "Traceback" not in look.text
    world.sandbox.waits_for(lambda: after.exists() and after.read_bytes())
    assert after.read_text() == before.read_text()
    assert world.sandbox.ask("status")["sinceYouLeft"]["since"] is not None


def test_a_watch_is_sorted_filtered_and_opened_by_keys_that_it_names(world: Playground) -> None:
    """Who needs a person comes first; Enter tells one agent's story, with what happened; q ends it."""
    world.sandbox.run("notify", "@woken", "--source", "ci", "built")
    person = Person(world)
    person.runs("status", "--watch", after="; echo ended $?")
    person.sees("1 item for its next turn")
    person.sees("j k  choose   Enter  open   s  sort: who needs you   /  filter   q  Ctrl-C  end", "needs you:")
    person.sees_agents("@asked", "@woken")

    person.presses("s")
    person.presses("s")
    person.sees("sort: last wake")
    person.sees_agents("@woken", "@asked")

    person.presses("/")
    for key in "wok":
        person.presses(key)
    person.sees("filter: wok_")
    person.sees_agents("@woken")
    person.presses("Enter")
    person.presses("j")
    person.presses("Enter")
    person.sees("what happened", "@woken", "woken in", '"hello" from @me', "Esc  back to all")
    person.presses("Escape")
    person.sees("(wok)", "budget")
    person.presses("Escape")
    person.sees_agents("@woken", "@asked")
    person.presses("Down")
    person.presses("Down")
    person.presses("Enter")
    person.sees("needs you: waits for an approval", "answer the dialog in", "held: approval waiting")
    person.presses("q")
    person.sees("budget")
    person.presses("q")
    look = person.sees("ended 0", "ready>")
    assert (look.flags["alternate_on"], look.cursor_visible) == ("0", True)


def test_a_watch_that_is_terminated_gives_the_screen_back(world: Playground) -> None:
    """SIGTERM ends it as Ctrl-C does; a narrow terminal shows it all the same."""
    person = Person(world, width=80)
    person.runs("status", "--watch", after="; echo ended $?")
    # 80 columns: what belongs together shares a column
    person.sees(
        "presence",
        "since",
        "waitingOnApproval",
        "needs you: waits for",
        "0/20 h",
        "0/150 d",
    )
    shell = int(world.tmux.run("display-message", "-p", "-t", str(person.pane.pane_id), "#{pane_pid}"))
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(shell)], capture_output=True, text=True, check=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGTERM)

    look = person.sees("ended 0", "ready>")

    assert (look.flags["alternate_on"], look.cursor_visible) == ("0", True)


def test_without_a_terminal_a_watch_is_refused_or_prints_a_line_each_second(playground: Playground) -> None:
    """Without a terminal refuse with a hint; with --json one line each second, until the reader is gone."""
    sandbox = playground.sandbox
    sandbox.run("init")
    sandbox.enlist("@agent", "nowhere")

    refused = sandbox.run("status", "--watch", expect=2)
    assert "--watch needs a terminal" in refused.stderr
    assert "hint: `wake-bridge status --watch --json`" in refused.stderr

    lines = subprocess.Popen(
        [*sandbox.command, "status", "--watch", "--json"], env=sandbox.environment, stdout=subprocess.PIPE, text=True
    )
    assert lines.stdout is not None
    told = [json.loads(lines.stdout.readline()) for _ in range(2)]
    # not SIGINT, which what runs in the background was told to ignore
    lines.send_signal(signal.SIGTERM)

    # a reader that is gone already would be met as a broken pipe now and then
    assert lines.wait(HUNG) == 0
    lines.stdout.close()
    assert [[one["agentIdentity"] for one in line["agents"]] for line in told] == [["@agent"], ["@agent"]]
    assert told[0]["running"] == "no"
    assert not (sandbox.state_dir / "last-look").exists()
