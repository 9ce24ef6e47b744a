"""`list` beside a daemon goes by the daemon's word, and says what it says by looks of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import Playground

BLIND: Final = {"PATH": "/nowhere"}
"""Surroundings in which no tmux is found: whoever looks for itself finds no agent."""

STRANGE: Final = {"TMUX": "/nowhere/else,1,0"}
"""Surroundings in which the daemon might see other panes than the command, so that it looks for itself."""


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[Playground]:
    """Subscriptions that are served, broken, overruled, posted, left alone and odd, and a daemon."""
    with Playground(Path(tmp_path_factory.mktemp("listed")), program) as made:
        for name in ("served", "moved", "other", "gone", "first", "second", "third"):
            made.agent(name)
        run = made.sandbox.run
        run("init")
        for name in ("served", "moved", "gone"):
            made.sandbox.enlist(f"@{name}", name)
        run("bind", "@moved", "--pane", "other")
        for name in ("unplaced", "posted", "pushed", "left"):
            run("agent", "add", f"@{name}")
        run("agent", "add", "@person", "--human")
        sent_to_me = ("--trigger", "SENT_TO_ME")
        run("subscribe", "@unplaced", *sent_to_me, "--harness-target", "bridge-daemon", "--adapter", "nobodys")
        run("subscribe", "@posted", *sent_to_me, "--webhook", "https://example.org/wake?key=secret")
        run("subscribe", "@pushed", *sent_to_me, "--harness-target", "mcp-notifications")
        run("subscribe", "@left", *sent_to_me, "--harness-target", "disabled")
        run("subscribe", "@person", *sent_to_me, "--tmux", "served")
        with MemoryCore(made.sandbox.graph) as core:
            core.subscribe("@left", agentIdentity=None)
            core.subscribe("@served", status="retired")
        made.tmux.run("kill-session", "-t", "gone")
        made.sandbox.daemon()
        yield made


def said(world: Playground, *arguments: str, environment: dict[str, str] | None = None) -> tuple[str, str, int]:
    """All that a command says."""
    answer = world.sandbox.run(*arguments, environment=environment)
    return answer.stdout, answer.stderr, answer.returncode


@pytest.mark.parametrize("how", [["--json", "list"], ["list"], ["list", "@moved"], ["--json", "list", "@gone"]])
def test_it_says_the_same_by_looks_of_its_own(world: Playground, how: list[str]) -> None:
    """Byte for byte, in JSON and as a table, with the remarks beside it."""
    by_daemon = said(world, *how, environment=BLIND)

    assert by_daemon == said(world, *how)
    assert by_daemon == said(world, *how, environment=STRANGE)


def test_the_rows_differ_in_what_they_say(world: Playground) -> None:
    """What is compared above has something to say of each kind."""
    rows = {
        one["agentIdentity"]: one for one in world.sandbox.ask("list")["subscriptions"] if one["status"] == "active"
    }

    assert rows["@served"]["pane"] == "served:0.0"
    assert rows["@served"]["deliverable"]
    assert "is bound to other:0.0" in rows["@moved"]["note"]
    assert "gone" in rows["@gone"]["why"]
    assert "nobodys" in rows["@unplaced"]["why"]
    assert rows["@posted"]["pane"] == "https://example.org/wake"
    assert not rows["@pushed"]["deliverable"]
    assert "heartbeat" in rows["@left"]["why"]
    assert rows["@person"]["deliverable"]


def test_a_change_is_shown_straight_after_it(world: Playground) -> None:
    """The daemon may be a moment behind the graph: its word counts once it has read the change."""
    sandbox = world.sandbox

    def shown() -> dict[str, Any]:
        (one,) = sandbox.lines("list", "@late")
        return {row["subscriptionId"]: row for row in one["subscriptions"]}

    sandbox.run("agent", "add", "@late")
    where = ("--trigger", "SENT_TO_ME", "--tmux")
    made = sandbox.ask("subscribe", "@late", *where, "first")["subscriptionId"]
    assert (shown()[made]["pane"], shown()[made]["deliverable"]) == ("first:0.0", True)

    sandbox.run("update", made, "--tmux", "second")
    assert shown()[made]["pane"] == "second:0.0"

    sandbox.run("unsubscribe", made)
    assert shown() == {}


def test_a_pane_that_goes_is_missed_at_once(world: Playground) -> None:
    """The daemon looks again for who asks, and does not answer by what it saw before."""
    world.agent("brief")
    made = world.sandbox.enlist("@brief", "brief")
    assert world.sandbox.ask("list", "@brief")["subscriptions"][0]["deliverable"]

    world.tmux.run("kill-session", "-t", "brief")

    (one,) = world.sandbox.ask("list", "@brief")["subscriptions"]
    assert not one["deliverable"]
    world.sandbox.run("unsubscribe", made)


def test_it_looks_for_itself_where_the_configuration_differs(world: Playground) -> None:
    """A file that the daemon has not taken over yet is judged as it stands."""
    before = world.sandbox.config_file.read_text(encoding="utf-8")
    try:
        world.sandbox.config_file.write_text(f'{before}\n[targets."@left"]\npane = "third"\n', encoding="utf-8")
        (one,) = world.sandbox.ask("list", "@left")["subscriptions"]
    finally:
        world.sandbox.config_file.write_text(before, encoding="utf-8")
    assert one["pane"] == "third:0.0"
