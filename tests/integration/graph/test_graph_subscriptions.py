"""WAKE_SUBSCRIPTION nodes as the graph commands write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wake_bridge.domain.errors import (
    NotFound,
)
from wake_bridge.domain.names import Trigger, WakePolicy
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.graph_file import GraphWriter
from wake_bridge.storage.graph.nodes import Wish, subscribe, unsubscribe, update
from wake_bridge.testing.memory_core import GraphEye

NOW = "2026-11-27T21:53:52.502Z"
LATER = "2026-11-27T21:54:00.000Z"


def test_a_subscription_has_the_real_shape(graph: WritableGraph, eye: GraphEye, real: Path) -> None:
    """`--tmux P` is bridge-daemon with adapter, tmuxSession and coalesceWindow; the rest."""
    wish = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="agents:1.0", window=5)
    done = subscribe(graph, "@ada", wish, NOW)
    ours = eye.properties(done.subscription_id)
    theirs = GraphEye(real).properties("WAKE_SUB:a825c12e-d8c5-4081-98e6-793aa690835d")
    assert eye.names(ours) == eye.names(theirs)
    assert ours["harnessTargetMetadata"] == {"adapter": "tmux", "tmuxSession": "agents:1.0", "coalesceWindow": 5}
    assert ours | {"name": "", "harnessTargetMetadata": {}} == {
        "name": "",
        "description": "",
        "updatedAt": NOW,
        "agentIdentity": "@ada",
        "trigger": "SENT_TO_ME",
        "filters": {},
        "harnessTarget": "bridge-daemon",
        "harnessTargetMetadata": {},
        "createdAt": NOW,
        "userId": "ada",
        "sharedEntity": False,
        "status": "active",
    }
    edge, their_edge = eye.edge("SUBSCRIBES_TO", "@ada"), GraphEye(real).edge("SUBSCRIBES_TO", "@neo-opus-ada")
    assert eye.names(edge) == eye.names(their_edge)
    assert eye.names(edge["properties"]) == eye.names(their_edge["properties"])
    assert eye.log()[-2:] == ["WAKE_SUBSCRIPTION", "SUBSCRIBES_TO"]


def test_there_are_never_two_active_subscriptions_alike(graph: WritableGraph, eye: GraphEye) -> None:
    """Two alike would be one wake with two voices: the older is updated; another pane or filter is another one."""
    wish = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a", window=5, senders=("@bob", "@cyd"))
    first = subscribe(graph, "@ada", wish, NOW)
    again = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a", window=9, senders=("@cyd", "@bob"))
    second = subscribe(graph, "@ada", again, LATER)
    assert (second.subscription_id, second.created) == (first.subscription_id, False)
    stored = eye.properties(first.subscription_id)
    assert (stored["harnessTargetMetadata"]["coalesceWindow"], stored["updatedAt"], stored["createdAt"]) == (
        9,
        LATER,
        NOW,
    )
    elsewhere = subscribe(graph, "@ada", Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="b"), NOW)
    assert elsewhere.created


def test_an_update_changes_what_was_named_and_keeps_the_rest(graph: WritableGraph, eye: GraphEye) -> None:
    """`update`: same flags; a blank entry empties a filter; `--recover` makes it active again."""
    wish = Wish(Trigger.SENT_TO_ME, "bridge-daemon", "tmux", pane="a", tags=("x",), priority="high")
    done = subscribe(graph, "@ada", wish, NOW)
    update(graph, done.subscription_id, Wish(window=0, tags=("",), policy=WakePolicy.NEXT_TURN), LATER)
    stored = eye.properties(done.subscription_id)
    assert stored["filters"] == {"taggedConcepts": [], "priority": "high"}
    assert stored["harnessTargetMetadata"] == {"adapter": "tmux", "tmuxSession": "a", "coalesceWindow": 0}
    assert stored["wakePolicy"] == "next_turn"
    graph.set_property("Nodes", done.subscription_id, "status", "degraded")
    update(graph, done.subscription_id, Wish(recover=True), LATER)
    assert eye.properties(done.subscription_id)["status"] == "active"
    with pytest.raises(NotFound):
        update(graph, "WAKE_SUB:none", Wish(), LATER)


def test_a_new_pane_wins_over_an_old_instance_address(real: Path) -> None:
    """The instance address comes before the session, so `--tmux` must take it away."""
    route = "WAKE_SUB:4f7ac9bc-7c98-4378-a329-c4ab112fd911"
    with GraphWriter(real, allow_foreign=True) as graph:
        update(graph, route, Wish(pane="other"), LATER)
    metadata = GraphEye(real).properties(route)["harnessTargetMetadata"]
    assert metadata == {"appName": "Antigravity", "adapter": "tmux", "tmuxSession": "other"}


def test_unsubscribing_removes_edge_then_node_as_the_real_service_does(graph: WritableGraph, eye: GraphEye) -> None:
    """Status removed = node deleted; both deletions leave their rows."""
    done = subscribe(graph, "@ada", Wish(Trigger.SENT_TO_ME, "none"), NOW)
    tip = eye.tip()
    unsubscribe(graph, done.subscription_id)
    rows = eye.all("SELECT entity_type FROM GraphLog WHERE log_id > ? ORDER BY log_id", tip)
    assert rows == [("edges",), ("nodes",)]
    assert eye.all("SELECT count(*) FROM Edges WHERE type = 'SUBSCRIBES_TO'") == [(0,)]
    with pytest.raises(NotFound):
        unsubscribe(graph, done.subscription_id)
