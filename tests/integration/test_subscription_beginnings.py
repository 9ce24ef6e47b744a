"""A subscription is named by its id or a beginning that no other has; `list` shows such beginnings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from wake_bridge.cli.app import cli
from wake_bridge.domain.errors import NotFound
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.storage.graph.nodes import require_subscription, short_ids
from wake_bridge.testing.memory_core import MemoryCore


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    MemoryCore.create(tmp_path / "graph.sqlite", ["@bob", "@amy"]).close()
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME": f"wake-bridge-{tmp_path.name}",
    }


def run(environment: Mapping[str, str], *arguments: str) -> str:
    answer = CliRunner(env=environment).invoke(cli, arguments)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_what_list_shows_is_what_the_other_commands_take(environment: Mapping[str, str]) -> None:
    """A person copies an id from `list`: it is short enough for 80 columns, and means one subscription."""
    run(environment, "init")
    for who in ("@bob", "@amy"):
        run(environment, "agent", "add", who)
        run(environment, "subscribe", who, "--trigger", "SENT_TO_ME", "--tmux", "work")
    _, first, second = run(environment, "list").splitlines()
    assert [first.split()[1], second.split()[1]] == ["@amy", "@bob"]
    shown = second.split()[0]
    whole = {
        one["agentIdentity"]: one["subscriptionId"]
        for one in json.loads(run(environment, "--json", "list"))["subscriptions"]
    }
    assert len(shown) == 8 < len(whole["@bob"])

    run(environment, "send", "@bob", "--from", "@amy", "--subject", "hello")
    changed = json.loads(run(environment, "--json", "update", shown, "--window", "5"))
    again = json.loads(run(environment, "--json", "resync", shown, "--since", "0"))
    removed = json.loads(run(environment, "--json", "unsubscribe", f"WAKE_SUB:{shown}"))

    assert {one["subscriptionId"] for one in (changed, again, removed)} == {whole["@bob"]}


def test_a_beginning_that_two_have_means_neither(tmp_path: Path) -> None:
    """Exit 8: nothing is changed on a guess, and the whole id of one that begins another means itself."""
    core = MemoryCore.create(tmp_path / "graph.sqlite", ["@bob"])
    for name in ("WAKE_SUB:aa1", "WAKE_SUB:aa12", "sub-of-others"):
        core.put(name, "WAKE_SUBSCRIPTION", {"agentIdentity": "@bob"})
    core.close()
    with GraphFile(tmp_path / "graph.sqlite") as graph:
        for nothing in ("WAKE_SUB:aa", "aa", "", "bb", "@bob"):
            with pytest.raises(NotFound):
                require_subscription(graph, nothing)
        found = [require_subscription(graph, text).id for text in ("WAKE_SUB:aa1", "aa12", "sub-")]
    assert found == ["WAKE_SUB:aa1", "WAKE_SUB:aa12", "sub-of-others"]


def test_beginnings_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    """The shortest length at which all differ, and no less than a person recognises."""
    ids = ["WAKE_SUB:12345678-1", "WAKE_SUB:12345678-2", "other"]
    assert short_ids(ids) == {ids[0]: "12345678-1", ids[1]: "12345678-2", "other": "other"}
    assert short_ids(ids[:1]) == {ids[0]: "12345678"}
    assert short_ids([]) == {}
