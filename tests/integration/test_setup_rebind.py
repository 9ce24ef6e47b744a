"""`setup --rebind`: one question for all whose pane nobody can tell."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import AgentPane, Playground

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    """A graph, and a tmux directory that nobody else uses."""
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMUX_TMPDIR", directory)
        with Playground(tmp_path, program) as made:
            made.sandbox.run("init")
            yield made


def settled(world: Playground, *targets: str) -> None:
    """Both are remembered where they are."""
    world.sandbox.configure(QUICK + "\n".join(targets))
    a = world.agent("a", session="work")
    beside(world, a, "b")
    for number, one in enumerate("ab"):
        world.sandbox.enlist(f"@{one}", f"work:0.{number}")
    daemon = world.sandbox.daemon()
    for one in "ab":
        world.sandbox.send(f"@{one}", "before")
        world.agents[one].fake.waits_for("submit", 1)
    world.sandbox.waits_for(lambda: all(one["settledAt"] for one in world.sandbox.deliveries()))
    daemon.stop()


def beside(world: Playground, first: AgentPane, name: str) -> AgentPane:
    added = world.agent(name, session=f"for-{name}")
    world.tmux.run("join-pane", "-d", "-s", added.id, "-t", first.id)
    return added


def restarted(world: Playground) -> tuple[AgentPane, AgentPane]:
    world.tmux.close()
    first = world.agent("first", session="work")
    return first, beside(world, first, "second")


def reachable(world: Playground) -> dict[str, Any]:
    return {one["agentIdentity"]: one["pane"] for one in world.sandbox.ask("list")["subscriptions"]}


def test_on_a_terminal_it_asks_for_each_who_lives_where_and_the_holds_end(world: Playground) -> None:
    """It lists identities and live agents, proposes, and what a person answers counts from then on."""
    settled(world)
    first, second = restarted(world)
    world.sandbox.daemon()
    for one in "ab":
        world.sandbox.send(f"@{one}", f"for {one}")
    world.sandbox.waits_for(
        lambda: [one["hold_reason"] for one in world.sandbox.deliveries() if not one["settledAt"]] == ["moved"] * 2, 60
    )
    command = " ".join(world.sandbox.command)
    pane = world.tmux.new_pane("exec sh", session="person", width=160, environment=world.sandbox.environment)

    world.tmux.run("send-keys", "-t", str(pane.pane_id), f"cd; {command} setup --rebind", "Enter")
    world.tmux.waits_until(pane, lambda look: "Where does @a live now?" in look.text, 60, "the question for @a")
    world.tmux.run("send-keys", "-t", str(pane.pane_id), "2", "Enter")
    world.tmux.waits_until(pane, lambda look: "Where does @b live now?" in look.text, 60, "the question for @b")
    world.tmux.run("send-keys", "-t", str(pane.pane_id), "Enter")
    world.tmux.waits_until(pane, lambda look: "@b lives in work:0.0 from now on" in look.text, 60, "what was done")

    second.fake.waits_for("submit", 1)
    first.fake.waits_for("submit", 1)
    assert ["for a" in text for text in second.fake.submits()] == [True]
    assert ["for b" in text for text in first.fake.submits()] == [True]


def test_yes_takes_only_what_is_certain(world: Playground) -> None:
    """`--yes` takes only the unambiguous ones; twins are left, and nothing is guessed."""
    settled(world)
    restarted(world)

    seen = world.sandbox.ask("setup", "--rebind", "--dry-run")
    answer = world.sandbox.ask("setup", "--rebind", "--yes")

    assert (
        seen
        == answer
        == {
            "written": False,
            "rebound": [],
            "left": [
                {"agentIdentity": "@a", "mayLiveIn": ["work:0.0", "work:0.1"]},
                {"agentIdentity": "@b", "mayLiveIn": ["work:0.1", "work:0.0"]},
            ],
        }
    )
    assert reachable(world) == {"@a": None, "@b": None}
    told = world.sandbox.run("setup", "--rebind", "--yes").stdout
    assert "@a is not pinned: it could be in work:0.0, work:0.1; run `wake-bridge setup --rebind` in a terminal" in told


def test_where_everybody_lives_where_they_were_found_there_is_nothing_to_ask(world: Playground) -> None:
    """It may be run at any time."""
    settled(world)

    assert "no identity is lost" in world.sandbox.run("setup", "--rebind", "--yes").stdout
    assert world.sandbox.run("setup", "--rebind", expect=2).stderr.count("there is no terminal for the question") == 1
