"""Nodes and edges have the real services' shapes and commit order, judged against a file they wrote."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wake_bridge.domain.errors import (
    NotFound,
    OperationFailed,
)
from wake_bridge.domain.names import BROADCAST, Priority, WakePolicy
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.graph_file import GraphWriter
from wake_bridge.storage.graph.mailbox import Draft, grant, send
from wake_bridge.storage.graph.nodes import put_identity
from wake_bridge.testing.memory_core import GraphEye

NOW = "2026-11-27T21:53:52.502Z"
LATER = "2026-11-27T21:54:00.000Z"


def test_an_identity_has_the_real_shape(graph: WritableGraph, eye: GraphEye, real: Path) -> None:
    """AgentIdentity with label and properties as the real roster, owner null."""
    theirs = GraphEye(real)
    assert eye.properties("@tobi").keys() == theirs.properties("@tobiu").keys()
    assert (
        theirs.properties("@tobiu").keys()
        <= eye.properties("@ada").keys()
        <= theirs.properties("@neo-gemini-pro").keys()
    )
    assert eye.all("SELECT user_id, json_extract(data, '$.label') FROM Nodes WHERE id = '@ada'") == [
        (None, "AgentIdentity")
    ]
    tip = eye.tip()
    put_identity(graph, "@ada", LATER)
    assert eye.tip() == tip
    put_identity(graph, "@ada", LATER, display_name="Ada")
    assert (eye.properties("@ada")["displayName"], eye.properties("@ada")["createdAt"]) == ("Ada", NOW)


def test_a_message_has_exactly_the_real_keys(graph: WritableGraph, eye: GraphEye, real: Path) -> None:
    """MESSAGE, SENT_BY, SENT_TO, reply and tag edges, field by field."""
    first = send(graph, Draft("@ada", "@bob", "Review", "Please.", tags=("concept:wake-substrate", "a2a", "a2a")), NOW)
    answer = send(graph, Draft("@bob", "@ada", "Re: Review", "On it.", Priority.HIGH, reply_to=first), LATER)
    theirs = GraphEye(real)
    their_answer = "MESSAGE:52d0eb09-fff3-45e5-910f-f54b987020a0"
    assert eye.names(eye.properties(answer)) == eye.names(theirs.properties(their_answer))
    assert eye.properties(first) == {
        "name": "Review",
        "description": "",
        "subject": "Review",
        "bodyText": "Please.",
        "priority": "normal",
        "sentAt": NOW,
        "readAt": None,
        "from": "@ada",
        "to": "@bob",
        "inReplyTo": None,
        "partOfThread": None,
        "taggedConcepts": ["wake-substrate", "a2a"],
        "wakeSuppressed": False,
        "userId": "ada",
        "sharedEntity": True,
    }
    assert (eye.properties(answer)["inReplyTo"], eye.properties(answer)["partOfThread"]) == (first, first)
    assert eye.all("SELECT user_id FROM Nodes WHERE id = ?", answer) == [("bob",)]
    for kind in ("SENT_BY", "SENT_TO", "IN_REPLY_TO", "PART_OF_THREAD"):
        ours, real_edge = eye.edge(kind, answer), theirs.edge(kind, their_answer)
        assert eye.names(ours) == eye.names(real_edge)
        assert eye.names(ours["properties"]) == eye.names(real_edge["properties"])
    assert eye.names(eye.edge("TAGGED_CONCEPT", first)["properties"]) == eye.names(
        theirs.edge("TAGGED_CONCEPT", their_answer)["properties"]
    )
    assert eye.properties("a2a") == theirs.properties("a2a")


def test_an_answer_to_an_answer_stays_in_the_thread(graph: WritableGraph, eye: GraphEye) -> None:
    """A reply's partOfThread is its parent's, or the parent itself: one conversation, however long."""
    root = send(graph, Draft("@ada", "@bob", "1"), NOW)
    second = send(graph, Draft("@bob", "@ada", "2", reply_to=root), NOW)
    third = send(graph, Draft("@ada", "@bob", "3", reply_to=second), NOW)
    assert [eye.properties(one)["partOfThread"] for one in (root, second, third)] == [None, root, root]
    with pytest.raises(NotFound):
        send(graph, Draft("@ada", "@bob", "4", reply_to="MESSAGE:none"), NOW)


def test_a_send_commits_in_the_real_order_each_step_for_itself(graph: WritableGraph, eye: GraphEye, real: Path) -> None:
    """One send is 4–12 transactions; the log shows the order that the real services leave."""
    first = send(graph, Draft("@ada", "@bob", "Review"), NOW)
    tip = eye.tip()
    send(graph, Draft("@bob", "@ada", "Re", tags=("wake-substrate", "a2a"), reply_to=first), NOW)
    theirs = GraphEye(real).log(39)[:9]
    assert (
        eye.log(tip)
        == theirs
        == [
            "MESSAGE",
            "SENT_BY",
            "SENT_TO",
            "IN_REPLY_TO",
            "PART_OF_THREAD",
            "CONCEPT",
            "TAGGED_CONCEPT",
            "CONCEPT",
            "TAGGED_CONCEPT",
        ]
    )


def test_a_broadcast_is_delivered_to_every_agent_but_its_sender(
    graph: WritableGraph, eye: GraphEye, real: Path
) -> None:
    """DELIVERED_TO edges after SENT_TO, for accountType agent; people receive none."""
    tip = eye.tip()
    message = send(graph, Draft("@ada", BROADCAST, "All hands"), NOW)
    assert eye.log(tip) == ["MESSAGE", "SENT_BY", "SENT_TO", "DELIVERED_TO", "DELIVERED_TO"]
    recipients = eye.all("SELECT target FROM Edges WHERE type = 'DELIVERED_TO' AND source = ?", message)
    assert recipients == [("@bob",), ("@cyd",)]
    theirs = GraphEye(real).edge("DELIVERED_TO", "MESSAGE:e0e0f41a-e5c1-494a-ac60-49c541ba8e9f")["properties"]
    ours = eye.edge("DELIVERED_TO", message)["properties"]
    assert eye.names(ours) == eye.names(theirs)
    assert ours | {"userId": ""} == theirs | {"userId": "", "deliveredAt": NOW}


def test_what_is_said_about_the_wake_stands_on_the_message(graph: WritableGraph, eye: GraphEye) -> None:
    """MESSAGE.properties.wakePolicy; `wakeSuppressed` is silent; a window of its own."""
    loud = send(graph, Draft("@ada", "@bob", "x", policy=WakePolicy.IMMEDIATE, window=0), NOW)
    quiet = send(graph, Draft("@ada", "@bob", "x", suppress_wake=True), NOW)
    assert (eye.properties(loud)["wakePolicy"], eye.properties(loud)["wakeWindow"]) == ("immediate", 0)
    assert eye.properties(quiet)["wakeSuppressed"] is True
    assert "wakePolicy" not in eye.properties(quiet)


def test_nothing_is_written_when_an_end_is_missing(graph: WritableGraph, eye: GraphEye) -> None:
    """A message without a recipient would be an orphan: the ends are looked for before the first step."""
    tip = eye.tip()
    for sender, recipient in (("@ada", "@nobody"), ("@nobody", "@ada")):
        with pytest.raises(NotFound):
            send(graph, Draft(sender, recipient, "x", tags=(" ", "concept:")), NOW)
    with pytest.raises(OperationFailed, match="refuses the change"):
        grant(graph, "CAN_REPLY_TO", "@nobody", "@ada")
    assert eye.tip() == tip


def test_any_text_can_be_sent_and_is_stored_as_the_real_services_store_it(
    graph: WritableGraph, eye: GraphEye, engine: str
) -> None:
    """The graph keeps what was written, hostile or not; what is shown is made harmless elsewhere.

    Only what is no text for PostgreSQL is U+FFFD there: NUL, and half a character.
    """
    text = 'Zażółć 漢字 🚀 "quotes" \\ $(touch x) `id`\n\x1b[2J\x00 \udc80'
    message = send(graph, Draft("@ada", "@bob", text, text), NOW)
    if engine == "postgres":
        assert ascii(eye.properties(message)["subject"]) == ascii(
            text.replace("\0", "\ufffd").replace("\udc80", "\ufffd")
        )
        return
    assert eye.properties(message)["subject"] == text
    ((stored,),) = eye.all("SELECT data FROM Nodes WHERE id = ?", message)
    assert "Zażółć 漢字 🚀" in stored
    assert "\\udc80" in stored


def test_linking_the_same_pair_again_reinforces_the_edge(graph: WritableGraph, eye: GraphEye) -> None:
    """And the real linkNodes: no second edge, a heavier one, one more row in the log, at most 5."""
    first = grant(graph, "CAN_REPLY_TO", "@ada", "@bob")
    assert eye.edge("CAN_REPLY_TO", "@ada")["properties"] == {"weight": 1, "userId": "bob"}
    tip = eye.tip()
    assert grant(graph, "CAN_REPLY_TO", "@ada", "@bob") == first
    assert eye.log(tip) == ["CAN_REPLY_TO"]
    assert eye.edge("CAN_REPLY_TO", "@ada")["properties"]["weight"] == pytest.approx(1.1)
    for _ in range(50):
        grant(graph, "CAN_REPLY_TO", "@ada", "@bob")
    assert eye.edge("CAN_REPLY_TO", "@ada")["properties"]["weight"] == 5


def test_a_right_runs_from_grantee_to_granter_in_the_real_shape(
    graph: WritableGraph, eye: GraphEye, real: Path
) -> None:
    """Grantee → granter, owned by the granter, without a time."""
    grant(graph, "CAN_READ_INBOX_OF", "@ada", "@bob")
    ours, theirs = eye.edge("CAN_READ_INBOX_OF", "@ada"), GraphEye(real).edge("CAN_READ_INBOX_OF", "@neo-opus-ada")
    assert eye.names(ours) == eye.names(theirs)
    assert ours["target"] == "@bob"
    assert ours["properties"].keys() == theirs["properties"].keys()


def test_two_commands_that_link_the_same_pairs_at_once_make_one_edge_each(
    path: Path, graph: WritableGraph, eye: GraphEye
) -> None:
    """A link is looked for and made in one transaction: two writers cannot both find it missing."""
    names = [f"@agent{number}" for number in range(20)]
    for name in names:
        put_identity(graph, name, NOW)

    def give_all(_: int) -> list[str]:
        with GraphWriter(path) as writer:
            return [grant(writer, "CAN_REPLY_TO", name, "@bob") for name in names]

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(give_all, range(2))
    assert first == second
    assert eye.all("SELECT count(*) FROM Edges WHERE type = 'CAN_REPLY_TO'") == [(20,)]
