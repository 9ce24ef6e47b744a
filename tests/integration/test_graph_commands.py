"""Init, agent, subscribe, unsubscribe, update, list; the installed program on real files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.programs import needs
from wake_bridge.cli.app import cli
from wake_bridge.config.settings import load_settings
from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.storage.graph.forecast import Circumstances, ResolveTarget, judge_subscription
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.storage.graph.status import book_of
from wake_bridge.storage.ledger import LedgerStore

PROGRAM = Path(sys.executable).with_name("wake-bridge")
REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"


class Bridge:
    """The program, in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            # a tmux server of its own, never the default one
            "WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME": f"wake-bridge-test-{uuid.uuid4().hex}",
        }
        self.config = home / "config/wake-bridge/config.toml"
        self.graph = home / "data/wake-bridge/graph.sqlite"

    def run(self, *arguments: str, stdin: str = "") -> Result:
        """Run it in this process."""
        return CliRunner(env=self.environment).invoke(cli, arguments, input=stdin)

    def json(self, *arguments: str) -> dict[str, Any]:
        """Its one JSON answer; it must succeed."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """Its JSON lines; it must succeed."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def process(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the installed program, with nothing in its environment but its home."""
        variables = self.environment | {"PATH": os.environ["PATH"]} | environment
        return subprocess.run(
            [PROGRAM, *arguments], capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL, check=False
        )

    def properties(self, node_id: str) -> dict[str, Any]:
        """A node's inner object, read from outside."""
        with contextlib.closing(sqlite3.connect(self.graph)) as connection:
            (data,) = connection.execute("SELECT data FROM Nodes WHERE id = ?", (node_id,)).fetchone()
        properties: dict[str, Any] = json.loads(data)["properties"]
        return properties


@pytest.fixture
def bridge(tmp_path: Path) -> Bridge:
    """The program in an empty home."""
    return Bridge(tmp_path / "home")


@pytest.fixture
def ready(bridge: Bridge) -> Bridge:
    """The program with an embedded graph and two agents."""
    bridge.json("init")
    bridge.json("agent", "add", "@ada")
    bridge.json("agent", "add", "@bob")
    return bridge


@pytest.fixture
def foreign(tmp_path: Path) -> Bridge:
    """The program on a copy of a graph that the real services wrote."""
    bridge = Bridge(tmp_path / "home")
    bridge.graph = tmp_path / "real.sqlite"
    shutil.copy(REAL, bridge.graph)
    bridge.environment["NEO_MEMORY_DB_PATH"] = str(bridge.graph)
    return bridge


def judged(bridge: Bridge, resolve_target: ResolveTarget = lambda _: "") -> dict[str, tuple[bool, str]]:
    """Each subscription's verdict, with targets that are there unless `resolve_target` says otherwise."""
    settings = load_settings(str(bridge.config), {})
    with GraphFile(bridge.graph) as graph:
        book, circumstances = book_of(graph, settings), Circumstances(settings, ["tmux"], resolve_target)
        nodes = graph.nodes(SUBSCRIPTION_LABEL)
        rows = [judge_subscription(one, book, graph, circumstances) for one in nodes]
    return {one["subscriptionId"]: (one["deliverable"], one["why"]) for one in rows}


def ledger_cursor(bridge: Bridge) -> int:
    """Where the ledger stands."""
    ledger = LedgerStore.open(bridge.home / "state/wake-bridge")
    try:
        position = ledger.position()
        assert position is not None
        return position.cursor
    finally:
        ledger.close()


# -- init ------------------------------------------------------------------------------------------------------------


def test_init_makes_configuration_and_graph_once(bridge: Bridge) -> None:
    """`init`: `{"config","graph","created":bool}`; safe to repeat; both files are private."""
    first = bridge.json("init")
    assert first == {"config": str(bridge.config), "graph": str(bridge.graph), "created": True}
    assert {stat.S_IMODE(file.stat().st_mode) for file in (bridge.config, bridge.graph)} == {0o600}
    text = bridge.config.read_text()
    assert load_settings(str(bridge.config), {}).graph_place == load_settings(None, {}).graph_place
    assert bridge.json("init") == first | {"created": False}
    assert bridge.config.read_text() == text


def test_the_installed_program_does_the_same_without_a_terminal(bridge: Bridge) -> None:
    """Everything works without a terminal, with HOME and XDG_* pointing anywhere."""
    done = bridge.process("--json", "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["created"] is True
    done = bridge.process("list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "no subscriptions\n", "")
    done = bridge.process("list", WAKE_BRIDGE_GRAPH_PATH="/nowhere/graph.sqlite")
    assert done.returncode == 4
    assert done.stderr.splitlines()[0] == "error: there is no graph: /nowhere/graph.sqlite"


def test_init_writes_the_chosen_graph_into_the_configuration(bridge: Bridge, tmp_path: Path) -> None:
    """`init --graph FILE`: the configuration it makes names the file, whatever characters are in it."""
    chosen = tmp_path / 'a "b" é/g.sqlite'
    answer = bridge.json("init", "--graph", str(chosen))
    assert answer == {"config": str(bridge.config), "graph": str(chosen), "created": True}
    assert load_settings(str(bridge.config), {}).graph_place == chosen
    assert bridge.json("agent", "add", "@ada") == {"agentIdentity": "@ada"}


def test_init_with_another_graph_says_that_the_configuration_still_names_the_first(bridge: Bridge) -> None:
    """`init` changes no configuration that is there; it says what to set."""
    bridge.json("init")
    other = bridge.home / "other.sqlite"
    result = bridge.run("init", "--graph", str(other))
    assert result.exit_code == 0
    assert f"note: graph.path is {bridge.graph}; set it to {other}" in result.stderr


def test_init_makes_the_file_that_config_names(bridge: Bridge, tmp_path: Path) -> None:
    """`--config FILE` before `init` says where the configuration goes; elsewhere a missing file is exit 3."""
    file = tmp_path / "mine/config.toml"
    assert bridge.run("--config", str(file), "list").exit_code == 3
    assert bridge.json("--config", str(file), "init")["config"] == str(file)
    assert bridge.run("--config", str(file), "list").exit_code == 0


def test_init_uses_a_foreign_graph_and_never_changes_it(foreign: Bridge) -> None:
    """`init`: never touches a file that is not ours."""
    before = foreign.graph.read_bytes()
    result = foreign.run("init")
    assert result.exit_code == 0
    assert "another program's, used and not changed" in result.stdout
    assert foreign.graph.read_bytes() == before


def test_init_refuses_a_file_that_is_no_graph_and_leaves_nothing(bridge: Bridge, tmp_path: Path) -> None:
    """Exit 4, clear; the file stays, and no configuration points at it."""
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n" * 500)
    result = bridge.run("init", "--graph", str(notes))
    assert result.exit_code == 4
    assert result.stderr.startswith("error: this file is not a graph (file is not a database)")
    assert notes.read_text() == "mine\n" * 500
    assert not bridge.config.exists()


def test_init_says_when_it_may_not_write(bridge: Bridge, tmp_path: Path) -> None:
    """An unwritable place is exit 1 with the place's name."""
    blocker = tmp_path / "file"
    blocker.write_text("")
    result = bridge.run("init", "--graph", str(blocker / "g.sqlite"))
    assert result.exit_code == 1
    assert str(blocker) in result.stderr


def test_a_mistake_in_the_configuration_stops_every_command_and_all_are_shown(ready: Bridge) -> None:
    """Exit 3, with every mistake."""
    ready.config.write_text("[graph]\nwatch = 1\n[coalesc]\nwindow = 1\n")
    result = ready.run("list")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        f"error: the configuration has 2 mistakes: {ready.config}",
        f"  {ready.config}: graph.watch = 1: must be true or false",
        f"  {ready.config}: coalesc: unknown table; did you mean coalesce?",
        "hint: fix what is listed; config.example.toml explains every key",
    ]


def test_init_goes_on_where_an_upstream_daemon_stopped(foreign: Bridge, tmp_path: Path) -> None:
    """`init --from-neo DIR` takes over lastSyncId and woken-watermark.json, once."""
    upstream = tmp_path / "wake-daemon"
    upstream.mkdir()
    (upstream / "lastSyncId").write_text("60\n")
    (upstream / "woken-watermark.json").write_text('{"WAKE_SUB:d334f843-eca4-4d4a-b4f0-7eac8342df87": 60}')
    before = foreign.graph.read_bytes()
    answer = foreign.json("init", "--from-neo", str(upstream))
    assert answer["takenOver"]["cursor"] == 60
    assert ledger_cursor(foreign) == 60
    again = foreign.run("init", "--from-neo", str(upstream))
    assert (again.exit_code, ledger_cursor(foreign)) == (0, 60)
    assert "the ledger stands at log id 60 already; nothing was taken over" in again.stderr
    assert foreign.graph.read_bytes() == before


def test_init_from_a_directory_that_says_nothing_starts_at_the_tip_and_says_so(foreign: Bridge, tmp_path: Path) -> None:
    """Missing, empty or corrupt → tip; never from 0, never silent. No directory at all is an error."""
    assert foreign.run("init", "--from-neo", str(tmp_path / "nowhere")).exit_code == 1
    upstream = tmp_path / "wake-daemon"
    upstream.mkdir()
    (upstream / "woken-watermark.json").write_text("{broken")
    result = foreign.run("init", "--from-neo", str(upstream), "--json")
    assert json.loads(result.stdout)["takenOver"]["cursor"] == 116
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [" lastSyncId", " woken-watermark.json"]


def test_init_takes_nothing_over_from_under_a_running_daemon(foreign: Bridge, tmp_path: Path) -> None:
    """5 is another instance running."""
    state = foreign.home / "state/wake-bridge"
    state.mkdir(parents=True)
    with InstanceLock(state):
        assert foreign.run("init", "--from-neo", str(tmp_path)).exit_code == 5


# -- agents ----------------------------------------------------------------------------------------------------------


def test_agents_are_added_named_and_listed(ready: Bridge) -> None:
    """`agent add` answers `{"agentIdentity"}`, `agent list` lines."""
    assert ready.json("agent", "add", "@tobi", "--human", "--display-name", "Tobi") == {"agentIdentity": "@tobi"}
    assert ready.lines("agent", "list") == [
        {"agentIdentity": "@ada", "displayName": "ada", "accountType": "agent", "participationStatus": "active"},
        {"agentIdentity": "@bob", "displayName": "bob", "accountType": "agent", "participationStatus": "active"},
        {"agentIdentity": "@tobi", "displayName": "Tobi", "accountType": "human", "participationStatus": "active"},
    ]
    assert "@tobi     Tobi  human  active" in ready.run("agent", "list").stdout


def test_without_the_daemon_status_counts_whom_the_heartbeat_nudges(ready: Bridge) -> None:
    """`status`: who is left to the heartbeat can be woken, also when the ledger alone is asked."""
    assert "no identity can be woken" in ready.run("status").stdout
    ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--harness-target", "disabled")
    told = ready.run("status").stdout
    assert "0 active, 1 left to the heartbeat" in told
    assert "no identity can be woken" not in told
    ready.config.write_text(ready.config.read_text() + "\n[adapters.heartbeat]\nenabled = false\n")
    assert "no identity can be woken" in ready.run("status").stdout


@pytest.mark.parametrize("name", ["ada", "@", "@a b", "@-x", "@" + "a" * 65])
def test_what_is_no_identity_is_a_usage_mistake(ready: Bridge, name: str) -> None:
    """Identities match `@[A-Za-z0-9][A-Za-z0-9_.-]{0,63}`."""
    result = ready.run("agent", "add", "--", name)
    assert result.exit_code == 2
    assert "is not an identity such as @neo-gpt" in result.stderr


# -- subscriptions ---------------------------------------------------------------------------------------------------


def test_subscribing_with_tmux_writes_what_the_contract_says(ready: Bridge) -> None:
    """`--tmux P` writes bridge-daemon and adapter, tmuxSession, coalesceWindow; filters as given."""
    answer = ready.json(
        *("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "agents:1.0", "--window", "0"),
        *("--policy", "immediate", "--priority", "high", "--sender", "@bob", "--sender", "@cyd", "--tag", "concept:x"),
        *("--in-reply-to", "MESSAGE:1"),
    )
    assert answer.keys() == {"subscriptionId", "harnessTarget"}
    assert answer["harnessTarget"] == "bridge-daemon"
    stored = ready.properties(answer["subscriptionId"])
    assert stored["harnessTargetMetadata"] == {"adapter": "tmux", "tmuxSession": "agents:1.0", "coalesceWindow": 0}
    assert stored["wakePolicy"] == "immediate"
    assert stored["filters"] == {
        "senderFilter": ["@bob", "@cyd"],
        "taggedConcepts": ["concept:x"],
        "inReplyToFilter": ["MESSAGE:1"],
        "priority": "high",
    }


def test_subscribing_needs_somewhere_to_live(ready: Bridge) -> None:
    """Without `--tmux`, `--harness-target` or a `[targets]` entry `subscribe` is exit 2 with a hint."""
    bare = ready.run("subscribe", "@ada", "--trigger", "SENT_TO_ME")
    assert (bare.exit_code, bare.stdout) == (2, "")
    assert "hint: add --tmux PANE, --webhook URL or --harness-target, or a [targets] entry" in bare.stderr
    with ready.config.open("a") as file:
        file.write('\n[targets."@ada"]\npane = "agents:1.0"\n')
    answer = ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME")
    assert answer["harnessTarget"] == "bridge-daemon"
    assert ready.properties(answer["subscriptionId"])["harnessTargetMetadata"] == {}


def test_a_subscription_of_nobody_is_not_found(ready: Bridge) -> None:
    """`@ID` must exist (8)."""
    result = ready.run("subscribe", "@nobody", "--trigger", "SENT_TO_ME", "--tmux", "a")
    assert result.exit_code == 8
    assert "hint: add it: `wake-bridge agent add @nobody`" in result.stderr
    nearly = ready.run("subscribe", "@adda", "--trigger", "SENT_TO_ME", "--tmux", "a")
    assert "hint: did you mean @ada? add it: `wake-bridge agent add @adda`" in nearly.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--tmux", "a", "--harness-target", "a2a-webhook"),
        ("--tmux", "a", "--adapter", "osascript"),
        ("--tmux", " "),
        ("--tmux", "a\x1bb"),
        ("--tmux", "a", "--window", "301"),
        ("--tmux", "a", "--policy", "loud"),
        ("--tmux", "a", "--sender", "bob"),
        ("--harness-target", "bridge"),
    ],
)
def test_flags_that_cannot_be_meant_are_usage_mistakes(ready: Bridge, flags: tuple[str, ...]) -> None:
    """2 is usage; nothing is written."""
    result = ready.run("subscribe", "@ada", "--trigger", "SENT_TO_ME", *flags)
    assert result.exit_code == 2, result.output
    assert ready.json("list") == {"subscriptions": []}


def test_subscribing_again_updates_and_says_so(ready: Bridge) -> None:
    """Never two identical active subscriptions."""
    flags = ("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "a")
    first = ready.json(*flags)
    again = ready.run(*flags, "--window", "7", "--json")
    assert json.loads(again.stdout) == first
    assert "brought up to date" in again.stderr
    assert ready.properties(first["subscriptionId"])["harnessTargetMetadata"]["coalesceWindow"] == 7


def test_updating_answers_the_state_and_unsubscribing_removes_it(ready: Bridge) -> None:
    """`{"subscriptionId","currentState"}` and `{"subscriptionId","status":"removed"}`; unknown ones are 8."""
    made = ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "a")["subscriptionId"]
    changed = ready.json("update", made, "--tmux", "b", "--trigger", "TASK_STATE_CHANGED", "--sender", "")
    assert changed.keys() == {"subscriptionId", "currentState"}
    state = changed["currentState"]
    assert (state["trigger"], state["harnessTargetMetadata"]["tmuxSession"]) == ("TASK_STATE_CHANGED", "b")
    assert state["filters"] == {"senderFilter": []}
    nothing = ready.run("update", made)
    assert (nothing.exit_code, nothing.stdout) == (0, f"{made} is as it was\n")
    assert "`wake-bridge update --help`" in nothing.stderr
    assert ready.json("unsubscribe", made) == {"subscriptionId": made, "status": "removed"}
    for command in ("update", "unsubscribe"):
        assert ready.run(command, made).exit_code == 8


def test_the_list_says_for_each_whether_it_can_be_delivered(ready: Bridge) -> None:
    """`list`: deliverable is false if someone must change something, and says what."""
    subscribe = ("subscribe", "@ada", "--trigger")
    good = ready.json(*subscribe, "SENT_TO_ME", "--tmux", "a")["subscriptionId"]
    alien = ready.json(*subscribe, "SENT_TO_ME", "--harness-target", "bridge-daemon", "--adapter", "carrier-pigeon")
    pushed = ready.json(*subscribe, "SENT_TO_ME", "--harness-target", "mcp-notifications")
    off = ready.json(*subscribe, "SENT_TO_ME", "--harness-target", "disabled")
    assert judged(ready)[good] == (True, "")
    why = {one["subscriptionId"]: (one["deliverable"], one["why"]) for one in ready.json("list")["subscriptions"]}
    assert why[alien["subscriptionId"]][0] is False
    assert "carrier-pigeon" in why[alien["subscriptionId"]][1]
    assert why[pushed["subscriptionId"]] == (False, "no adapter serves the harnessTarget mcp-notifications")
    assert why[off["subscriptionId"]][0] is False
    assert "disabled" in why[off["subscriptionId"]][1]
    assert ready.json("list", "@bob") == {"subscriptions": []}
    assert ready.run("list", "@nobody").exit_code == 8


def test_an_adapter_that_is_switched_off_delivers_nothing(ready: Bridge) -> None:
    """`[adapters.tmux] enabled`."""
    ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "a")
    ready.environment["WAKE_BRIDGE_ADAPTERS_TMUX_ENABLED"] = "false"
    (one,) = ready.json("list")["subscriptions"]
    assert (one["deliverable"], one["why"]) == (False, "the adapter tmux is switched off in the configuration")


def test_a_retired_subscription_is_undeliverable_until_it_is_recovered(ready: Bridge) -> None:
    """`update --recover`: the status stands in the way, and the list says how to put it right."""
    made = ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "a")["subscriptionId"]
    with contextlib.closing(sqlite3.connect(ready.graph)) as connection, connection:
        connection.execute(
            "UPDATE Nodes SET data = json_set(data, '$.properties.status', 'degraded') WHERE id = ?", (made,)
        )
    (one,) = ready.json("list")["subscriptions"]
    assert one["deliverable"] is False
    assert f"wake-bridge update {made} --recover" in one["why"]
    assert ready.json("update", made, "--recover")["currentState"]["status"] == "active"
    assert judged(ready)[made] == (True, "")


def test_the_target_itself_is_asked_last(ready: Bridge) -> None:
    """An absent or ambiguous target makes it undeliverable; whoever wires the adapters asks them."""
    ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "a")
    (verdict,) = judged(ready, lambda one: f"there is no pane named {one.pane}").values()
    assert verdict == (False, "there is no pane named a")


def test_the_list_asks_tmux_for_the_pane_itself(ready: Bridge) -> None:
    """`list`: target absent or ambiguous is undeliverable; one that is there is not."""
    needs("tmux")
    tmux = ["tmux", "-L", ready.environment["WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME"], "-f", os.devnull]
    made = ready.json("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "agents")["subscriptionId"]
    (absent,) = ready.json("list")["subscriptions"]
    assert (absent["subscriptionId"], absent["deliverable"]) == (made, False)
    assert absent["why"]
    subprocess.run([*tmux, "new-session", "-d", "-s", "agents", "sleep", "600"], check=True)
    try:
        (present,) = ready.json("list")["subscriptions"]
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
    assert (present["deliverable"], present["why"]) == (True, None)


def test_a_foreign_graph_is_listed_truly_and_its_keys_are_withheld(foreign: Bridge) -> None:
    """On a foreign graph only bridge-daemon rows are ours; its own server serves the rest (`list` says so)."""
    rows = foreign.json("list")["subscriptions"]
    text = json.dumps(rows)
    assert len(rows) == 7
    assert "1d2db909" not in text
    why = {(one["agentIdentity"], one["trigger"], one["harnessTarget"]): one["why"] for one in rows}
    own_server = why["@neo-gpt", "TASK_STATE_CHANGED", "mcp-notifications"]
    assert own_server == "the graph's own server serves mcp-notifications, not wake-bridge"
    assert why["@neo-gemini-pro", "SENT_TO_ME", "bridge-daemon"] == "@neo-gemini-pro is operator_benched"
    assert "codex-app-server" in why["@neo-gpt", "SENT_TO_ME", "bridge-daemon"]


@pytest.mark.parametrize(
    "command",
    [
        ("agent", "add", "@new"),
        ("subscribe", "@neo-gpt", "--trigger", "SENT_TO_ME", "--tmux", "a"),
        ("update", "WAKE_SUB:d334f843-eca4-4d4a-b4f0-7eac8342df87", "--window", "3"),
        ("unsubscribe", "WAKE_SUB:d334f843-eca4-4d4a-b4f0-7eac8342df87"),
    ],
)
def test_writing_a_foreign_graph_needs_to_be_said(foreign: Bridge, command: tuple[str, ...]) -> None:
    """A foreign graph needs `--foreign`, else exit 7."""
    before = foreign.graph.read_bytes()
    refused = foreign.run(*command)
    assert refused.exit_code == 7
    assert "hint: add --foreign" in refused.stderr
    assert foreign.graph.read_bytes() == before
    assert foreign.run(*command, "--foreign").exit_code == 0


def test_people_read_the_same_in_words(ready: Bridge) -> None:
    """Without `--json` every command says in words what it did."""
    said: Callable[..., str] = lambda *arguments: ready.run(*arguments).stdout  # noqa: E731 - read below as words
    assert said("agent", "add", "@ada") == "@ada is there\n"
    assert "@ada is woken for SENT_TO_ME (WAKE_SUB:" in said(
        "subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "a"
    )
    assert "deliverable" in said("list")
