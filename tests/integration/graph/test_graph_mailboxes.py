"""Read state: on the recipient's own edge for a broadcast, else on the message."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.integration.graph.mail import unread_mail_of
from wake_bridge.domain.errors import (
    NotFound,
)
from wake_bridge.domain.names import BROADCAST
from wake_bridge.storage.graph import rows as bounds
from wake_bridge.storage.graph.access import WritableGraph
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.storage.graph.mailbox import Draft, mark_read, require_mail, send
from wake_bridge.storage.graph.nodes import put_identity
from wake_bridge.testing.memory_core import GraphEye

NOW = "2026-11-27T21:53:52.502Z"
LATER = "2026-11-27T21:54:00.000Z"


def test_direct_mail_is_marked_on_the_message(graph: WritableGraph, eye: GraphEye) -> None:
    """`MESSAGE.properties.readAt`; nothing else of the node changes, and one row tells it."""
    message = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    before, tip = eye.properties(message), eye.tip()
    (mail,) = unread_mail_of(graph, "@bob")
    mark_read(graph, [mail], LATER)
    assert eye.properties(message) == before | {"readAt": LATER}
    assert eye.log(tip) == ["MESSAGE"]
    assert unread_mail_of(graph, "@bob") == []
    mark_read(graph, [require_mail(graph, "@bob", message)], NOW)
    assert eye.properties(message)["readAt"] == LATER


def test_a_broadcast_is_marked_on_the_recipients_own_edge(graph: WritableGraph, eye: GraphEye) -> None:
    """`DELIVERED_TO.properties.readAt` per recipient; the others still have it unread."""
    message = send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    mark_read(graph, unread_mail_of(graph, "@bob"), LATER)
    states = eye.all(
        "SELECT target, json_extract(data, '$.properties.readAt') FROM Edges WHERE type = 'DELIVERED_TO' AND source = ?",
        message,
    )
    assert states == [("@bob", LATER), ("@cyd", None)]
    assert eye.properties(message)["readAt"] is None
    assert [mail.message.id for mail in unread_mail_of(graph, "@cyd")] == [message]


def test_nobody_finds_mail_that_is_not_theirs(graph: WritableGraph) -> None:
    """A mailbox holds what is addressed to it; own broadcasts are not mail."""
    direct = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    assert unread_mail_of(graph, "@ada") == unread_mail_of(graph, "@tobi") == []
    with pytest.raises(NotFound):
        require_mail(graph, "@cyd", direct)


def test_an_old_broadcast_without_recorded_recipients_is_everybodys_but_its_senders(graph: WritableGraph) -> None:
    """SENT_TO → AGENT:* without any DELIVERED_TO; own broadcasts never."""
    for other in ("@bob", "@cyd"):
        put_identity(graph, other, NOW, human=True)
    message = send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    assert [mail.message.id for mail in unread_mail_of(graph, "@bob")] == [message]
    assert unread_mail_of(graph, "@ada") == []


def test_what_was_put_away_is_not_unread(graph: WritableGraph, eye: GraphEye) -> None:
    """Upstream's archive is per recipient, where the read state lies: done with, though never marked read."""
    direct = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    everyone = send(graph, Draft("@ada", BROADCAST, "All"), NOW)
    graph.set_property("Nodes", direct, "archivedAt", LATER)
    graph.set_property("Edges", eye.edge("DELIVERED_TO", everyone)["id"], "archivedAt", LATER)
    assert unread_mail_of(graph, "@bob") == []
    assert [mail.message.id for mail in unread_mail_of(graph, "@cyd")] == [everyone]


def test_the_real_mailboxes_are_read_as_the_real_services_left_them(real: Path) -> None:
    """`fixtures/neo-real.sqlite`: read and archived mail is gone, broadcasts are found by their edges."""
    with GraphFile(real) as graph:
        assert not graph.is_embedded
        assert not graph.has_events
        subjects = [mail.message.properties["subject"][:20] for mail in unread_mail_of(graph, "@neo-opus-ada")]
    assert subjects == [
        "[lane-claim] taking ",
        'Unicode ✓ "quotes" \\',
        "[sunset] handover",
        "x" * 20,
        "Task: review",
        "Task: open to anyone",
        "Task: short-lived",
    ]


def test_a_mailbox_of_many_thousands_costs_no_more_than_its_mail(
    graph: WritableGraph, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that takes the square of them is ended by its budget: the inbox would fail for good."""
    one = send(graph, Draft("@ada", "@bob", "Hello"), NOW)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " INSERT INTO Edges (id, source, target, type, data)"
            " SELECT 'copy ' || i, source, target, type, data FROM Edges, n WHERE source = ? AND type = 'SENT_TO'",
            (one,),
        )
        connection.execute("UPDATE Edges SET source = 'gone, ' || id WHERE id LIKE 'copy %'")
    monkeypatch.setattr(bounds, "SECONDS_AT_LEAST", 0.5)
    monkeypatch.setattr(bounds, "SECONDS_A_GIGABYTE", 0.0)

    with GraphFile(path) as reader:
        assert [mail.message.id for mail in unread_mail_of(reader, "@bob")] == [one]
