"""What every change log promises (`ports.change_log.ChangeLog`), on each engine: SQLite, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.postgres_graph import PostgresCore
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.ports.change_log import BrokenRow, ChangeLog, LogEntry, MailState
from wake_bridge.storage.graph import change_log
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.postgres import change_log as postgres_log
from wake_bridge.storage.graph.postgres.change_log import PostgresGraph
from wake_bridge.testing.memory_core import MemoryCore, now_text

A, B, C = Identity("@a"), Identity("@b"), Identity("@c")


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """What holds the graph."""
    return str(request.param)


@pytest.fixture
def core(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MemoryCore]:
    """Another program that writes it."""
    with (
        MemoryCore.create(tmp_path / "graph.sqlite", [A, B, C], with_events=True)
        if engine == "sqlite"
        else PostgresCore(request.getfixturevalue("postgres_url"), (A, B, C))
    ) as core:
        yield core


@pytest.fixture
def graph(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ChangeLog]:
    """The log, as the daemon reads it."""
    graph: ChangeLog = (
        SqliteGraph(tmp_path / "graph.sqlite")
        if engine == "sqlite"
        else PostgresGraph(GraphUrl(request.getfixturevalue("postgres_url")))
    )
    yield graph
    graph.close()


def read_all(graph: ChangeLog, since: int = 0, limit: int = 1000) -> tuple[list[LogEntry], list[BrokenRow]]:
    entries: list[LogEntry] = []
    broken: list[BrokenRow] = []
    cursor, snapshot = LogId(since), ""
    while (page := graph.read_after(cursor, limit, snapshot)).examined:
        assert page.examined <= limit
        entries += page.entries
        broken += page.broken
        cursor, snapshot = page.upto, page.snapshot
    return entries, broken


def test_a_page_says_how_far_it_reaches_and_what_stands_there(core: MemoryCore, graph: ChangeLog) -> None:
    """The row at the cursor is what an epoch is known by."""
    core.noise(10)
    page = graph.read_after(LogId(0), 1000)
    assert (page.upto, page.examined) == (core.tip(), core.tip())
    assert page.fingerprint == graph.fingerprint_at(page.upto)
    assert ":nodes:MEMORY:" in f":{page.fingerprint}"
    assert graph.read_after(page.upto, 1000, page.snapshot).examined == 0
    assert graph.fingerprint_at(LogId(page.upto + 1)) is None


def test_typed_rows_come_with_payload_and_message(core: MemoryCore, graph: ChangeLog) -> None:
    """`task_state_changed` carries a snapshot; filters look at the message beside it."""
    assert graph.bounds().highest > 0
    task_id = core.give_task("@a", "@b", "typed")
    event_id = core.move_task(task_id, "Working", typed=True)
    typed = [entry for entry in read_all(graph)[0] if entry.entity_type == "task_state_changed"]
    assert [(entry.entity_id, entry.event_id) for entry in typed] == [(task_id, event_id)]
    assert typed[0].payload is not None
    assert typed[0].payload["newState"] == "Working"
    assert typed[0].message is not None
    assert typed[0].message["subject"] == "typed"
    assert graph.typed_tasks_after(LogId(0)) == {task_id}
    assert graph.typed_tasks_after(typed[0].log_id) == frozenset()


def test_what_was_deleted_is_told_where_it_matters(core: MemoryCore, graph: ChangeLog) -> None:
    """A delete row points at what no longer exists; a removed subscription must still be heard of."""
    subscription_id = core.subscribe("@a")
    message_id = core.send("@b", "@a", "deleted later")
    core.identity("@gone")
    before = core.tip()
    core.sql("DELETE FROM Nodes WHERE id IN (?, ?, '@gone')", subscription_id, message_id)
    entries, broken = read_all(graph, since=before)
    assert broken == []
    assert {(entry.entity_id, entry.node, entry.edge) for entry in entries} == {
        (subscription_id, None, None),
        ("@gone", None, None),
    }


def test_the_census_is_of_one_instant(core: MemoryCore, graph: ChangeLog) -> None:
    """At a new epoch every task's state goes with the cursor."""
    core.send("@b", "@a", 'no task, though it says "task" and MESSAGE')
    task_id = core.give_task("@b", "@a", "a task")
    census = graph.census()
    assert [(found, properties["task"]["state"]) for found, properties in census.tasks] == [(task_id, "Submitted")]
    assert (census.tip, census.fingerprint) == (core.tip(), graph.fingerprint_at(census.tip))


def test_a_version_moves_with_commits_of_others_only(core: MemoryCore, graph: ChangeLog) -> None:
    """`PRAGMA data_version` on a held connection is the truth; a roll-back is no change."""
    seen = graph.version()
    graph.read_after(LogId(0), 10)
    assert graph.version() == seen
    core.sql("BEGIN IMMEDIATE")
    core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('x', 'nodes')")
    core.sql("ROLLBACK")
    assert graph.version() == seen
    core.noise(1)
    assert graph.version() != seen


def test_read_state_is_the_edges_first_and_the_nodes_second(core: MemoryCore, graph: ChangeLog) -> None:
    """A broadcast is read per recipient, direct mail by its node; archived counts as read."""
    direct = core.send("@b", "@a", "direct")
    broadcast = core.send("@b", "AGENT:*", "broadcast", ["@a", "@c"])
    bare = core.send("@b", "AGENT:*", "audience not recorded")
    core.mark_read(broadcast, "@a")
    core.set(broadcast, "readAt", now_text())
    ask = [(message, identity) for message in (direct, broadcast, bare, "MESSAGE:none") for identity in (A, B, C)]
    states = graph.mail_states(ask)
    unread, read = MailState(True, True, False), MailState(True, True, True)
    assert states[direct, A] == unread
    assert states[direct, C].addressed is False
    assert states[broadcast, A] == read
    assert states[broadcast, C] == unread
    assert states[broadcast, B].addressed is False
    assert (states[bare, A], states[bare, B].addressed) == (unread, False)
    assert states["MESSAGE:none", A].exists is False
    core.mark_read(direct)
    core.set(bare, "archivedAt", now_text())
    assert graph.mail_states([(direct, A), (bare, A)]) == {(direct, A): read, (bare, A): read}
    assert (graph.has_audience(broadcast), graph.has_audience(bare)) == (True, False)


def test_unread_mail_is_listed_oldest_first(core: MemoryCore, graph: ChangeLog) -> None:
    """What `inbox` prints and a wake counts are the same messages."""
    late = core.send("@b", "@a", "late", sentAt="2026-03-01T00:00:00.000Z")
    early = core.send("@b", "@a", "early", sentAt="2026-02-01T00:00:00.000+01:00")
    broadcast = core.send("@b", "AGENT:*", "broadcast", ["@a"], sentAt="2026-04-01T00:00:00.000Z")
    bare = core.send("@b", "AGENT:*", "bare", sentAt="2026-05-01T00:00:00.000Z")
    core.send("@a", "AGENT:*", "own broadcast")
    core.send("@b", "@c", "for somebody else")
    core.mark_read(core.send("@b", "@a", "read"))
    assert [mail[0] for mail in graph.unread_mail(A, None)] == [early, late, broadcast, bare]
    since = Instant(int(datetime(2026, 3, 15, tzinfo=UTC).timestamp() * 1000))
    assert [mail[0] for mail in graph.unread_mail(A, since)] == [broadcast, bare]
    core.mark_read(broadcast, "@a")
    assert broadcast not in [mail[0] for mail in graph.unread_mail(A, None)]


def test_recent_mail_is_found_by_its_own_time(core: MemoryCore, graph: ChangeLog) -> None:
    """A look-back goes by `sentAt`, not by where the row stands."""
    now = datetime.now(UTC)
    core.send("@b", "@a", "old", sentAt=f"{now - timedelta(hours=2):%Y-%m-%dT%H:%M:%S.000Z}")
    zoned = (now - timedelta(minutes=5)).astimezone().isoformat()
    recent = core.send("@b", "@a", "recent", sentAt=zoned)
    core.send("@b", "@a", "timeless", sentAt=None)
    since = Instant(int((now - timedelta(hours=1)).timestamp() * 1000))
    assert graph.recent_mail(since) == [recent]
    found = graph.mail_edges([recent, "MESSAGE:gone"])
    assert [(entry.edge.source, entry.log_id) for entry in found if entry.edge] == [(recent, 0)]


def test_which_edges_are_left(core: MemoryCore, graph: ChangeLog) -> None:
    """A permission withdrawn meanwhile needs no wake."""
    kept, gone = core.grant("@a", "@b"), core.grant("@a", "@c")
    core.sql("DELETE FROM Edges WHERE id = ?", gone)
    assert graph.edges_present([kept, gone, "never"]) == {kept}
    assert graph.edges_present([]) == set()


def test_subscriptions_and_identities_are_found_by_label(core: MemoryCore, graph: ChangeLog) -> None:
    """Nodes carry `label`; what merely mentions one is none."""
    subscription_id = core.subscribe("@a")
    core.put("NOTE:1", "NOTE", {"text": "WAKE_SUBSCRIPTION"})
    core.put("@note", "NOTE", {})
    core.identity("@person", accountType="human", participationStatus="operator_benched", displayName="A Person")
    assert [found for found, _ in graph.subscriptions()] == [subscription_id]
    assert graph.subscription(subscription_id) is not None
    assert graph.subscription("NOTE:1") is None
    identities = graph.identities()
    assert list(identities) == [A, B, C, "@person"]
    assert graph.identities(A) == {A: identities[A]}
    assert graph.identities(Identity("@note")) == graph.identities(Identity("NOTE:1")) == {}
    person = identities[Identity("@person")]
    assert (person.account_type, person.participation, person.display_name) == ("human", "operator_benched", "A Person")


def test_a_page_of_endless_messages_is_cut_short(
    core: MemoryCore, graph: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole pages, and yet bounded memory: a cut page says that there is more."""
    sent = [core.send("@b", "@a", "s" * 100_000) for _ in range(10)]
    monkeypatch.setattr(change_log, "PAGE_BYTES", 250_000)
    monkeypatch.setattr(postgres_log, "PAGE_BYTES", 250_000)
    page = graph.read_after(LogId(0), 1000)
    assert page.examined == 1000
    assert page.fingerprint.endswith(f"edges:{page.entries[-1].entity_id}")
    found = [entry.edge.source for entry in read_all(graph)[0] if entry.edge]
    assert found == sent
    assert len(page.entries) < len(read_all(graph)[0])


def test_presence_rows_are_read_while_they_are_recent(graph: ChangeLog, core: MemoryCore) -> None:
    """Each start of a server leaves one, most of them of long ago."""
    old, new = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:09.000Z"
    for boot, seen in (("1", old), ("2", new)):
        core.put(f"HARNESS_PRESENCE:@a:{boot}", "HARNESS_PRESENCE", {"agentIdentity": "@a", "lastSeenAt": seen})

    found = graph.presences(Instant(1_767_225_605_000))

    assert [one["lastSeenAt"] for one in found] == [new]
