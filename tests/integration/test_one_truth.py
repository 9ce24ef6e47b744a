"""Whoever is asked how an identity can be woken now, the answer is the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sqlite3
import uuid
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wake_bridge.cli.app import cli
from wake_bridge.config.settings import load_settings
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.doctor.agents import targets
from wake_bridge.doctor.finding import Finding
from wake_bridge.offline.inspection import Inspection

PUSHED = "no adapter serves the harnessTarget mcp-notifications"


class House:
    """The program in a home of its own, with `@ada` and `@bob`, whose tmux is a server that nobody has started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CODEX_HOME": str(home / "codex"),
        }
        self.environment |= {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state")}
        self.environment["WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME"] = f"wake-bridge-test-{uuid.uuid4().hex}"
        self.config = home / "config/wake-bridge/config.toml"
        self.graph = home / "data/wake-bridge/graph.sqlite"
        self.state = home / "state/wake-bridge"
        self.json("init")
        for one in ("@ada", "@bob"):
            self.json("agent", "add", one)

    def run(self, *arguments: str) -> Result:
        """Run it in this process."""
        return CliRunner(env=self.environment).invoke(cli, arguments)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """Its JSON lines; it must succeed."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def json(self, *arguments: str) -> dict[str, Any]:
        """Its one JSON answer."""
        (answer,) = self.lines(*arguments)
        return answer

    def subscribe(self, *flags: str, identity: str = "@ada") -> str:
        """Subscribe for mail; answers the id."""
        return str(self.json("subscribe", identity, "--trigger", "SENT_TO_ME", *flags)["subscriptionId"])

    def doctor(self) -> dict[str, Finding]:
        """What it says of each identity's place."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            settings = load_settings(None, os.environ)
            return {one.check: one for one in asyncio.run(targets(Inspection(settings), settings))}

    def said_by_send(self, *flags: str) -> str:
        """What `send` says will come of a message for `@ada`."""
        return self.run("send", "@ada", "--from", "@bob", "--subject", "x", *flags).stderr.splitlines()[0]


def around_now() -> str:
    """Quiet hours that have begun an hour ago and end in two."""
    now = datetime.now().astimezone()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A house where nothing runs."""
    return House(tmp_path / "home")


def test_of_a_push_on_a_graph_of_our_own_all_say_the_same_and_what_they_advise_helps(house: House) -> None:
    """Nobody pushes there: it is never woken; once it names a pane, only that is missing."""
    subscription = house.subscribe("--harness-target", "mcp-notifications")

    (listed,) = house.json("list")["subscriptions"]
    assert (listed["deliverable"], listed["why"]) == (False, PUSHED)
    decision = house.json("routes", "@ada")["decision"]
    assert (decision["holdReason"], decision["why"]) == ("no_adapter", PUSHED)
    assert "`wake-bridge update ID --tmux PANE`" in decision["remedy"]
    assert house.doctor()["target @ada"] == Finding("target @ada", ok=False, detail=PUSHED, hint=decision["remedy"])
    assert house.lines("push-capable") == []
    assert house.json("status")["active_routes"] == 0
    assert house.said_by_send("--policy", "immediate") == f"@ada is not woken ({PUSHED}): it waits in the inbox"

    house.json("update", subscription, "--tmux", "work")
    assert house.json("status")["active_routes"] == 1
    assert PUSHED not in (
        house.json("list")["subscriptions"][0]["why"],
        house.json("routes", "@ada")["decision"]["why"],
    )


@pytest.mark.parametrize(
    ("commands", "settings", "word", "remedy"),
    [
        ([("pause", "@ada")], {}, "paused", "`wake-bridge resume @ada`"),
        ([("pause", "--all")], {}, "paused", "`wake-bridge resume --all`"),
        ([("pause", "@ada"), ("pause", "--all")], {}, "paused", "`wake-bridge resume --all`"),
        ([("pause", "@ada", "--for", "2h")], {}, "paused", "`wake-bridge resume @ada`"),
        ([], {"POLICY_QUIET_HOURS": "QUIET"}, "quiet hours (until ", "quiet hours end by themselves (until "),
    ],
    ids=["paused", "paused --all", "both", "paused for a time", "quiet hours"],
)
def test_nobody_promises_a_time_while_something_holds(
    house: House, commands: list[tuple[str, ...]], settings: dict[str, str], word: str, remedy: str
) -> None:
    """`send`, `wake` and `routes` name what holds, the same first one with the same words, and what ends it."""
    house.subscribe("--tmux", "work")
    for name, value in settings.items():
        house.environment[f"WAKE_BRIDGE_{name}"] = around_now() if value == "QUIET" else value
    for one in commands:
        house.lines(*one)

    (first, *_) = house.json("routes", "@ada")["guards"]
    assert word in first["why"]
    assert remedy in first["remedy"]
    said = f"@ada is not woken now: {first['why']}; {first['remedy']}"
    assert house.said_by_send() == said
    assert house.run("wake", "@ada", "look").stderr.splitlines()[0] == said
    assert f"a wake is held now: {first['why']}; {first['remedy']}" in house.run("routes", "@ada").stdout

    for one in commands:
        house.lines("resume", one[1])
    if commands:
        assert house.json("routes", "@ada")["guards"] == []
        assert house.said_by_send() == "@ada is due in 30 s"


@pytest.mark.parametrize("state", ["not running", "starting", "running", "cannot tell"])
def test_all_judge_the_daemon_alike(house: House, state: str) -> None:
    """One that holds its lock and does not listen yet is starting; where the lock cannot be read nobody can tell."""
    house.subscribe("--tmux", "work")
    house.state.mkdir(parents=True, exist_ok=True)
    with ExitStack() as undo:
        if state in {"starting", "running"}:
            undo.enter_context(InstanceLock(house.state))
        if state == "running":
            listener = undo.enter_context(closing(socket.socket(socket.AF_UNIX)))
            with contextlib.chdir(house.state):
                listener.bind("daemon.sock")
            listener.listen()
        if state == "cannot tell":
            (house.state / "daemon.lock").mkdir()
        told = house.run("send", "@ada", "--from", "@bob", "--subject", "x").stderr.splitlines()[1:]
        pushed = house.lines("push-capable")

    words = {
        "not running": ["the daemon is not running: no wakes until you start it (`wake-bridge run`)"],
        "starting": ["the daemon is starting: it reads this as soon as it runs"],
        "running": [],
        "cannot tell": ["cannot tell whether the daemon runs: `wake-bridge doctor` shows why"],
    }
    assert told == words[state]
    # another heartbeat keeps away unless it is certain that nobody else drives
    assert bool(pushed) is (state != "not running")


def test_a_window_that_cannot_be_meant_is_told_and_keeps_nobody_from_being_woken(house: House) -> None:
    """The daemon takes the default for it; nobody has to change anything first."""
    subscription = house.subscribe("--tmux", "work")
    house.json("update", subscription, "--window", "300")
    with closing(sqlite3.connect(house.graph)) as connection, connection:
        connection.execute(
            "UPDATE Nodes SET data = json_set(data, '$.properties.harnessTargetMetadata.coalesceWindow', 301) WHERE id = ?",
            (subscription,),
        )
    (listed,) = house.json("list")["subscriptions"]
    assert "coalesceWindow" not in listed["why"]
    assert listed["note"].startswith("coalesceWindow 301 is no whole number of seconds")
    assert house.said_by_send() == "@ada is due in 30 s"
