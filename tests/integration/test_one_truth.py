"""Whoever is asked how an identity can be woken now, the answer is the same."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from wake_bridge_adapters.screens import load_profiles, profile_text
from wake_bridge_adapters.tmux.adapter import TmuxAdapter

from tests.integration.asked_house import (
    ADA,
    House,
    Lines,
    Prepare,
    Screens,
    SetUp,
    all_agree,
    answers,
    around_now,
    catalogue,
    leads,
    lined,
    posted_to,
    runs,
    sets,
    shows,
    subscribed,
    then,
    unsubscribes,
    written,
)
from wake_bridge.config.own_profiles import write_profile
from wake_bridge.config.settings import load_settings
from wake_bridge.control.graph_lock import GraphLock
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.control.serving import DaemonState, daemon_state
from wake_bridge.control.settings_in_force import write_settings
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.doctor.finding import Finding
from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.names import Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.memory_adapter import ImaginedAgent

PUSHED = "no adapter serves the harnessTarget mcp-notifications"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A house where nothing runs."""
    return House(tmp_path / "home")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a graph and both identities, to be copied."""
    return House(tmp_path_factory.mktemp("template") / "home").home


@pytest.fixture
def imagined(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A house whose panes and native lines are imagined: `work` is there, and its agent works."""
    for one in (Screens.panes, Screens.nowhere, Lines.open_lines):
        one.clear()
    Screens.panes["work"] = ImaginedAgent(PresenceState.ACTIVE)
    monkeypatch.setattr("wake_bridge.integrations.adapters.load_catalogue", lambda: catalogue(Screens))
    # looking through all that is installed would take most of the time
    installed = tuple(one.name for one in catalogue(Screens))
    monkeypatch.setattr("wake_bridge.config.settings.installed_adapters", lambda: installed)
    for module in ("domain.presence", "engine.presence.tracked_place", "engine.presence.watch"):
        # the time between two looks is not what is tried here
        monkeypatch.setattr(f"wake_bridge.{module}.SAMPLES_APART", 10)
    house = House(shutil.copytree(template, tmp_path / "home"))
    with house.ends:
        yield house


def keeps_its_state_elsewhere(house: House) -> None:
    house.state = house.home / "elsewhere"
    house.configure(f'[daemon]\nstate_dir = "{house.state}"')


def has_two(house: House) -> None:
    house.subscribe("--tmux", "work")
    house.subscribe("--tmux", "gone", "--priority", "high")


def has_given_up(house: House) -> None:
    """What the receiver has said is known."""
    house.state.mkdir(parents=True)
    house.said_by_send("--policy", "immediate")
    house.decides()


def is_due_again(house: House) -> None:
    """The time to try the receiver again has come, and nobody has."""
    with closing(LedgerStore.open(house.state)) as ledger:
        (standing,) = ledger.receiver_standings()
        ledger.note_receiver(replace(standing, next_try_at=Instant(1)))


FORBIDDEN = "https://10.9.9.9/hooks/wake"
PRIVATE = '10.9.9.9 is private: `[adapters.webhook] allow = ["10.9.9.9"]` allows it'
IN_WORK = subscribed("--tmux", "work")
IN_NONE = subscribed("--tmux", "gone")
OFF = "the adapter tmux is switched off in the configuration"
GONE = "there is no agent named 'gone'"
TARGET = '[targets."@ada"]\nadapter = "tmux"\npane = "{}"'
SET_UPS: Final[Mapping[str, SetUp]] = {
    "push": SetUp(subscribed("--harness-target", "mcp-notifications"), "never", PUSHED),
    "a2a-webhook": SetUp(
        subscribed("--harness-target", "a2a-webhook"), "never", "it names no url: `wake-bridge update WAKE_SUB:"
    ),
    "no subscription": SetUp(lambda _: None, "never", "has no subscription"),
    "unsubscribed": SetUp(unsubscribes, "never", "has no subscription"),
    "retired": SetUp(written("status", "retired", "--tmux", "work"), "never", "its status is retired"),
    "pushed, with a target": SetUp(
        then(subscribed("--harness-target", "mcp-notifications"), lambda house: house.configure(TARGET.format("work"))),
        "look",
        "imagined",
        HoldReason.ACTIVE,
    ),
    "adapter off": SetUp(then(IN_WORK, sets("ADAPTERS_TMUX_ENABLED", "false")), "never", OFF),
    "target's adapter off": SetUp(
        then(
            subscribed("--harness-target", "bridge-daemon"),
            lambda house: house.configure(TARGET.format("work")),
            sets("ADAPTERS_TMUX_ENABLED", "false"),
        ),
        "never",
        OFF,
    ),
    "adapter not installed": SetUp(
        subscribed("--harness-target", "bridge-daemon", "--adapter", "pigeon"),
        "never",
        "no adapter named pigeon is installed",
    ),
    "heartbeat only": SetUp(subscribed("--harness-target", "disabled"), "heartbeat", "its harnessTarget is disabled"),
    "degraded": SetUp(written("status", "degraded", "--tmux", "work"), "heartbeat", "its status is degraded"),
    "pane gone": SetUp(IN_NONE, "place", GONE, HoldReason.UNREACHABLE),
    "pane moved": SetUp(
        then(leads("work", HoldReason.MOVED, "work leads to another agent"), IN_WORK),
        "place",
        "work leads to another agent",
        HoldReason.MOVED,
    ),
    "two panes": SetUp(
        then(leads("work", HoldReason.AMBIGUOUS, "2 panes are called work"), IN_WORK),
        "place",
        "2 panes are called work",
        HoldReason.AMBIGUOUS,
    ),
    "no place said": SetUp(
        subscribed("--harness-target", "bridge-daemon"), "place", "there is no agent named ''", HoldReason.UNREACHABLE
    ),
    "two subscriptions": SetUp(has_two, "place", GONE, HoldReason.UNREACHABLE),
    "target in a pane that is gone": SetUp(
        then(IN_WORK, lambda house: house.configure(TARGET.format("gone"))), "place", GONE, HoldReason.UNREACHABLE
    ),
    "line only seen": SetUp(
        then(IN_NONE, lined(PresenceState.IDLE, only_seen=True)), "place", GONE, HoldReason.UNREACHABLE, is_seen=True
    ),
    "paused": SetUp(then(IN_WORK, runs("pause", "@ada")), "guard", "until resumed", HoldReason.PAUSED),
    "all paused": SetUp(then(IN_WORK, runs("pause", "--all")), "guard", "all identities are paused", HoldReason.PAUSED),
    "both paused": SetUp(
        then(IN_WORK, runs("pause", "--all"), runs("pause", "@ada")),
        "guard",
        "this identity and all others are paused",
        HoldReason.PAUSED,
    ),
    "paused, and the state elsewhere": SetUp(
        then(keeps_its_state_elsewhere, IN_WORK, runs("pause", "@ada")), "guard", "until resumed", HoldReason.PAUSED
    ),
    "quiet hours": SetUp(then(IN_WORK, sets("POLICY_QUIET_HOURS", "")), "guard", "until ", HoldReason.QUIET_HOURS),
    "benched": SetUp(
        then(IN_WORK, lambda house: house.change("@ada", "participationStatus", "operator_benched")),
        "guard",
        "operator_benched",
        HoldReason.BENCHED,
    ),
    "budget": SetUp(
        then(IN_WORK, House.woke, sets("LIMITS_WAKES_PER_HOUR", "1"), sets("COALESCE_REFRACTORY", "0")),
        "guard",
        "1 wakes within an hour, until ",
        HoldReason.BUDGET,
    ),
    "storm": SetUp(
        then(
            IN_WORK,
            House.woke,
            sets("LIMITS_STORM", "1"),
            sets("LIMITS_STORM_PERIOD", "240"),
            sets("COALESCE_REFRACTORY", "0"),
        ),
        "guard",
        "1 wakes within 240 s",
        HoldReason.STORM,
    ),
    "paused, and gone": SetUp(
        then(IN_NONE, runs("pause", "@ada")), "guard", "until resumed", HoldReason.PAUSED, is_lost=True
    ),
    "working": SetUp(IN_WORK, "look", "imagined", HoldReason.ACTIVE),
    "approval": SetUp(
        then(IN_WORK, shows(PresenceState.WAITING_ON_APPROVAL)), "look", "imagined", HoldReason.WAITING_ON_APPROVAL
    ),
    "typing": SetUp(then(IN_WORK, shows(PresenceState.USER_TYPING)), "look", "imagined", HoldReason.USER_TYPING),
    "not recognised": SetUp(then(IN_WORK, shows(PresenceState.UNKNOWN)), "look", "imagined", HoldReason.UNKNOWN),
    "line busy": SetUp(
        then(IN_WORK, lined(PresenceState.ACTIVE)), "look", "the line says", HoldReason.ACTIVE, by="channel"
    ),
    "window that cannot be meant": SetUp(
        written("harnessTargetMetadata.coalesceWindow", 301, "--tmux", "work"), "look", "imagined", HoldReason.ACTIVE
    ),
    "resumed": SetUp(
        then(IN_WORK, runs("pause", "@ada"), runs("resume", "@ada")), "look", "imagined", HoldReason.ACTIVE
    ),
    "line, pane gone": SetUp(then(IN_NONE, lined(PresenceState.IDLE)), "woken", by="channel"),
    "line, adapter off": SetUp(
        then(IN_WORK, lined(PresenceState.IDLE), sets("ADAPTERS_TMUX_ENABLED", "false")),
        "woken",
        by="channel",
        by_line_alone=True,
    ),
    "idle": SetUp(then(IN_WORK, shows(PresenceState.IDLE)), "woken"),
    "receiver": SetUp(answers("204"), "woken", by="webhook"),
    "receiver, beside a pane with a dialog": SetUp(
        then(IN_WORK, shows(PresenceState.WAITING_ON_APPROVAL), answers("204")), "woken", by="webhook"
    ),
    "receiver, and its pane gone": SetUp(then(IN_NONE, answers("204")), "woken", by="webhook"),
    "receiver, and paused": SetUp(
        then(answers("204"), runs("pause", "@ada")), "guard", "until resumed", HoldReason.PAUSED
    ),
    "receiver where nothing may be posted": SetUp(posted_to(FORBIDDEN), "place", PRIVATE, HoldReason.UNREACHABLE),
    "the same, beside a pane": SetUp(then(IN_WORK, posted_to(FORBIDDEN)), "look", "imagined", HoldReason.ACTIVE),
    "receiver that is gone": SetUp(
        then(answers("410", "--window", "0"), has_given_up), "place", "degraded: HTTP 410", HoldReason.UNREACHABLE
    ),
    "receiver that refuses us, to be tried again by now": SetUp(
        then(answers("403", "--window", "0"), has_given_up, is_due_again),
        "place",
        "suspended: HTTP 403",
        HoldReason.UNREACHABLE,
    ),
    "receiver, webhooks off": SetUp(
        then(answers("204"), sets("ADAPTERS_WEBHOOK_ENABLED", "false")),
        "never",
        "webhooks are switched off ([adapters.webhook] enabled)",
    ),
    "bound, and left to the heartbeat": SetUp(
        then(subscribed("--harness-target", "disabled"), lambda house: house.configure(TARGET.format("work"))),
        "heartbeat",
        "its harnessTarget is disabled",
    ),
    "push, and a receiver": SetUp(
        then(subscribed("--harness-target", "mcp-notifications"), answers("204")), "woken", by="webhook"
    ),
}


@pytest.mark.parametrize("name", SET_UPS)
def test_whoever_is_asked_says_the_same(imagined: House, name: str) -> None:
    """Every command, and what the daemon's own parts then do: can `@ada` be woken now, how, and if not, why not."""
    all_agree(imagined, SET_UPS[name])


@pytest.fixture
def in_tmux(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch, tmux: PrivateTmux) -> House:
    """A house whose tmux is a real one, with a window `agent` that nobody looks after."""
    Lines.open_lines.clear()
    tmux.new_pane(["sleep", "600"], session="work")
    tmux.run("rename-window", "-t", "work:", "agent")
    tmux.run("new-window", "-d", "-t", "work:", "-n", "other", "cat")
    monkeypatch.setattr("wake_bridge.integrations.adapters.load_catalogue", lambda: catalogue(TmuxAdapter))
    return House(shutil.copytree(template, tmp_path / "home"), tmux.socket_name)


def in_room(*arguments: str) -> Prepare:
    return lambda house: subprocess.run(
        ["tmux", "-L", house.environment["WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME"], "-f", os.devnull, *arguments],
        check=True,
    )


def started(name: str, *where: str) -> Prepare:
    """A fake agent in a pane of its own."""

    def start(house: House) -> None:
        agent = FakeHarness(house.home, name)
        in_room(*where, shlex.join(agent.command()))(house)
        agent.waits_for("started")

    return start


def knows_older_screens(house: House) -> None:
    """A profile of its own, which is strict about versions; which one runs cannot be told."""
    strict = replace(load_profiles()["fake"], versions=("1.0.0",), strict_version=True)
    write_profile(house.config.parent / "screens", "fake", profile_text(strict))


IN_TMUX: Final[Mapping[str, SetUp]] = {
    "a shell": SetUp(subscribed("--tmux", "work:agent"), "look", "sleep", HoldReason.NO_AGENT),
    "forced harness": SetUp(
        then(
            subscribed("--harness-target", "bridge-daemon"),
            lambda house: house.configure(TARGET.format("work:other") + '\nharness = "claude"'),
        ),
        "look",
        "cat",
        HoldReason.NO_AGENT,
    ),
    "bound": SetUp(
        then(subscribed("--harness-target", "bridge-daemon"), runs("bind", "@ada", "--pane", "work:agent")),
        "look",
        "sleep",
        HoldReason.NO_AGENT,
    ),
    "closed": SetUp(
        then(subscribed("--tmux", "work:other"), in_room("kill-window", "-t", "work:other")),
        "place",
        "no pane is called exactly 'work:other'",
        HoldReason.UNREACHABLE,
    ),
    "renamed": SetUp(
        then(subscribed("--tmux", "work:agent"), in_room("rename-window", "-t", "work:agent", "mine")),
        "place",
        "no pane is called exactly 'work:agent'",
        HoldReason.UNREACHABLE,
    ),
    "renamed, with a line": SetUp(
        then(
            subscribed("--tmux", "work:agent"),
            in_room("rename-window", "-t", "work:agent", "mine"),
            lined(PresenceState.ACTIVE),
        ),
        "look",
        "the line says",
        HoldReason.ACTIVE,
    ),
    "moved": SetUp(
        then(
            started("one", "new-window", "-d", "-t", "work:", "-n", "pair"),
            started("two", "split-window", "-d", "-t", "work:pair"),
            subscribed("--tmux", "work:pair.0"),
            lambda house: house.subscribe("--tmux", "work:pair.1", identity="@bob"),
            House.has_looked,
            in_room("kill-pane", "-t", "work:pair.0"),
        ),
        "place",
        "'work:pair.0' leads to work:pair.0 now, which is @bob's",
        HoldReason.MOVED,
    ),
    "unknown version": SetUp(
        then(
            knows_older_screens,
            started("old", "new-window", "-d", "-t", "work:", "-n", "fake"),
            subscribed("--tmux", "work:fake"),
        ),
        "look",
        "the rules were read off 1.0.0",
        HoldReason.UNKNOWN,
    ),
    "no server": SetUp(
        then(subscribed("--tmux", "work:agent"), in_room("kill-server")),
        "place",
        "no server running",
        HoldReason.UNREACHABLE,
    ),
}


@pytest.mark.parametrize("name", IN_TMUX)
def test_of_a_real_pane_all_say_the_same(in_tmux: House, name: str) -> None:
    """A pane that is bound, renamed, closed, or not an agent's, and a server that is gone."""
    all_agree(in_tmux, IN_TMUX[name])


def test_of_a_push_on_a_graph_of_our_own_all_say_the_same_and_what_they_advise_helps(house: House) -> None:
    """Nobody pushes there: it is never woken; once it names a pane, only that is missing."""
    made = house.run("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--harness-target", "mcp-notifications")
    (listed,) = house.json("list")["subscriptions"]
    subscription = listed["subscriptionId"]
    assert made.stdout == f"@ada is subscribed for SENT_TO_ME ({subscription}), and not woken by it: {PUSHED}\n"

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


@pytest.mark.parametrize("name", ["no subscription", "retired"])
def test_what_is_told_of_one_that_nothing_wakes_helps_when_it_is_taken_literally(imagined: House, name: str) -> None:
    """The command that is named, typed as it stands: then only its own agent is in the way."""
    SET_UPS[name].prepare(imagined)
    decision = imagined.json("routes", "@ada")["decision"]
    told = f"{decision['why']}; {decision['remedy']}"
    _, command, *_ = told.replace("PANE", "work").split("`")

    imagined.lines(*shlex.split(command.removeprefix("wake-bridge ")))

    assert imagined.json("routes", "@ada")["decision"]["holdReason"] == HoldReason.ACTIVE


def test_who_is_only_seen_is_woken_in_its_pane_after_what_is_advised(in_tmux: House) -> None:
    """Its subscription names the channel alone, where a pane means nothing; the remedy is taken literally."""
    subscription = in_tmux.subscribe("--harness-target", "bridge-daemon", "--adapter", "channel")
    lined(PresenceState.IDLE, only_seen=True)(in_tmux)
    decision = in_tmux.json("routes", "@ada")["decision"]
    assert decision["cause"] == "only-seen"

    _, _, _, update, _, bind, *_ = decision["remedy"].split("`")
    in_tmux.json(*update.replace("ID", subscription).split()[1:])
    in_tmux.json(*bind.split()[1:], "--pane", "work:agent")

    assert in_tmux.json("routes", "@ada")["decision"]["holdReason"] == HoldReason.NO_AGENT


def test_what_the_graphs_own_server_serves_is_taken_over_by_the_key_that_is_named(imagined: House) -> None:
    """On a foreign graph its own server wakes some; the remedy, taken literally, makes them ours."""
    subscription = imagined.subscribe("--tmux", "work")
    imagined.change(subscription, "harnessTarget", "mcp-notifications")
    with closing(sqlite3.connect(imagined.graph)) as connection, connection:
        connection.execute("PRAGMA application_id = 0")
    decision = imagined.json("routes", "@ada")["decision"]
    assert decision["cause"] == "own-server"
    _, key, rest = decision["remedy"].split("`")
    assert rest.startswith(" in the configuration")

    imagined.environment[f"WAKE_BRIDGE_{key.upper().replace('.', '_')}"] = "mcp-notifications"

    assert imagined.json("routes", "@ada")["decision"]["holdReason"] == HoldReason.ACTIVE


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


def _hangs_up(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()


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
            # one that is stuck would be waited for
            threading.Thread(target=_hangs_up, args=[listener], daemon=True).start()
        if state == "cannot tell":
            (house.state / "daemon.lock").mkdir()
        told = house.run("send", "@ada", "--from", "@bob", "--subject", "x").stderr.splitlines()[1:]
        pushed, status = house.lines("push-capable"), house.json("status")
        why = house.json("why", "@ada")["verdict"] if state != "running" else ""

    words = {
        "not running": ["the daemon is not running: no wakes until you start it (`wake-bridge run`)"],
        "starting": ["the daemon is starting: it reads this as soon as it runs"],
        "running": [],
        "cannot tell": ["cannot tell whether the daemon runs: `wake-bridge doctor` shows why"],
    }
    assert told == words[state]
    # another heartbeat keeps away unless it is certain that nobody else drives
    assert bool(pushed) is (state != "not running")
    runs = {"not running": False, "cannot tell": None}.get(state, True)
    assert (status["isRunning"], status["starting"]) == (runs, state == "starting")
    ends = {
        "not running": "; the daemon is not running",
        "starting": "; the daemon is just starting",
        "cannot tell": "; whether the daemon runs, nobody can tell",
    }
    assert why.endswith(ends.get(state, ""))


@pytest.mark.parametrize(
    ("answer", "skipped"),
    [
        ({"where": "a line", "key": "k", "adapter": "channel", "hold": None, "overruled": ""}, True),
        (
            {"where": "", "key": "", "adapter": "", "hold": {"reason": "no_adapter", "detail": ""}, "overruled": ""},
            False,
        ),
        (None, True),
    ],
    ids=["the daemon has a line", "it has none", "it does not say"],
)
def test_whose_adapter_is_not_there_is_skipped_by_other_heartbeats_unless_the_daemon_reaches_it_nowhere(
    house: House, answer: dict[str, Any] | None, skipped: bool
) -> None:
    """`push-capable` cannot tell by itself who is woken by a native channel; a daemon that is stuck leaves it in doubt."""
    house.subscribe("--tmux", "work")
    house.environment["WAKE_BRIDGE_ADAPTERS_TMUX_ENABLED"] = "false"
    house.state.mkdir(parents=True)
    with InstanceLock(house.state), closing(socket.socket(socket.AF_UNIX)) as listener:
        with contextlib.chdir(house.state):
            listener.bind("daemon.sock")
        listener.listen()
        said = {"error": "stuck"} if answer is None else {ADA: answer}
        threading.Thread(target=_says, args=[listener, said], daemon=True).start()
        found = house.lines("push-capable")
    assert found == ([{"agentIdentity": "@ada", "driver": "bridge"}] if skipped else [])


def _says(listener: socket.socket, answer: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        while True:
            caller, _ = listener.accept()
            # who only looks whether somebody listens takes no answer
            with contextlib.suppress(BrokenPipeError), caller, caller.makefile("rb") as question:
                if question.readline():
                    caller.sendall(json.dumps(answer).encode() + b"\n")


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
    assert listed["note"].startswith("coalesceWindow 301 is not a whole number of seconds")


@pytest.mark.parametrize(
    "command",
    [
        ("send", "@adda", "--from", "@bob", "--subject", "x"),
        ("wake", "@adda", "x"),
        ("routes", "@adda"),
        ("presence", "@adda"),
        ("list", "@adda"),
        ("why", "@adda"),
        ("pause", "@adda"),
        ("subscribe", "@adda", "--trigger", "SENT_TO_ME", "--harness-target", "disabled"),
        ("inbox", "@adda"),
    ],
    ids=lambda command: command[0],
)
def test_an_identity_that_nobody_knows_is_refused_alike(imagined: House, command: tuple[str, ...]) -> None:
    """Exit code 8, and who may be meant."""
    result = imagined.run(*command)
    assert (result.exit_code, "did you mean @ada?" in result.stderr) == (8, True), result.stderr


def test_a_graph_that_the_daemon_does_not_serve_is_told_of(imagined: House) -> None:
    """`graph.path` was edited while the daemon runs: mail in the new graph wakes nobody before a restart."""
    house = imagined
    house.subscribe("--tmux", "work")
    house.state.mkdir(parents=True)
    with house.inside():
        old = load_settings(None, os.environ)
    new = house.home / "new.sqlite"
    house.environment["WAKE_BRIDGE_GRAPH_PATH"] = str(new)
    with InstanceLock(house.state), GraphLock(house.graph, house.state):
        write_settings(house.state, old)
        house.json("init")
        told = house.run("agent", "add", "@ada").stderr
    assert f"note: the daemon that runs serves {house.graph}, not {new}, " in told
    assert "wakes nobody until the daemon is started again" in told


@pytest.mark.parametrize("edited", [False, True], ids=["taken out since", "put in since"])
def test_what_holds_is_told_by_the_settings_of_the_daemon_that_runs(imagined: House, *, edited: bool) -> None:
    """A file that was edited and not read yet changes nothing: `send`, `wake`, `routes` and `why` say what the daemon does."""
    house, before = imagined, imagined.config.read_text()
    house.subscribe("--tmux", "work")
    quiet = f'{before}\n[policy]\nquiet_hours = "{around_now()}"\n'
    house.config.write_text(before if edited else quiet)
    house.state.mkdir(parents=True)
    with house.inside():
        running = load_settings(None, os.environ)
    house.config.write_text(quiet if edited else before)
    with InstanceLock(house.state):
        write_settings(house.state, running)
        sent = house.run("send", "@ada", "--from", "@bob", "--subject", "x")
        message = sent.stdout.split()[1]
        told = [
            sent.stderr.splitlines()[0],
            house.run("wake", "@ada", "look").stderr.splitlines()[0],
            house.run("routes", "@ada").stdout,
            house.run("why", "@ada").stdout,
            house.run("why", message, "@ada").stdout,
        ]
        held = [one for check, one in house.doctor().items() if check == "hold @ada" and not one.ok]
    assert ["quiet hours (until " in one for one in told] == [not edited] * len(told)
    assert bool(held) is not edited


def test_a_daemon_that_loads_what_it_is_made_of_is_starting(imagined: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its imports take most of a second; by then it has its lock, and gives it up with the process."""
    seen: list[DaemonState] = []

    class Loading(ModuleType):
        """Says how the daemon stands while it is imported."""

        def __getattr__(self, name: str) -> Any:
            seen.append(daemon_state(imagined.state))
            return lambda *_, early, **__: early is not None and early.release() is None

    imagined.state.mkdir(parents=True, mode=0o700)
    monkeypatch.setitem(sys.modules, "wake_bridge.daemon.life", Loading("wake_bridge.daemon.life"))
    assert imagined.run("run").exit_code == 0
    assert set(seen) == {DaemonState.STARTING}
    assert daemon_state(imagined.state) is DaemonState.NOT_RUNNING
