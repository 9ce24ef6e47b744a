"""The change log on real files: what a page holds, what questions answer, and what a file must be."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from wake_bridge.domain.errors import SourceError, SourceMissing, SourceNotAGraph, SourceUnavailable
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.ports.change_log import BrokenRow, LogEntry, MailState
from wake_bridge.storage.graph import change_log
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.testing.memory_core import EVENT_COLUMNS, MemoryCore, now_text

REAL = Path(__file__).parents[1] / "fixtures/neo-real.sqlite"
A, B, C = Identity("@a"), Identity("@b"), Identity("@c")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.sqlite"


@pytest.fixture
def core(path: Path) -> Iterator[MemoryCore]:
    with MemoryCore.create(path, [A, B, C]) as core:
        yield core


@pytest.fixture
def graph(path: Path) -> Iterator[SqliteGraph]:
    graph = SqliteGraph(path)
    yield graph
    graph.close()


def read_all(graph: SqliteGraph, since: int = 0, limit: int = 1000) -> tuple[list[LogEntry], list[BrokenRow]]:
    entries: list[LogEntry] = []
    broken: list[BrokenRow] = []
    cursor = LogId(since)
    while (page := graph.read_after(cursor, limit)).examined:
        assert page.examined <= limit
        entries += page.entries
        broken += page.broken
        cursor = page.upto
    return entries, broken


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_the_real_graph_reads_the_same_in_pages_of_any_size(tmp_path: Path, limit: int) -> None:
    """Gaps and page borders change nothing; irrelevant rows are dismissed inside SQLite."""
    shutil.copyfile(REAL, tmp_path / "real.sqlite")
    graph = SqliteGraph(tmp_path / "real.sqlite")
    entries, broken = read_all(graph, limit=limit)
    kinds: dict[str, int] = {}
    for entry in entries:
        kind = entry.edge.type if entry.edge else entry.label or entry.entity_type
        kinds[kind] = kinds.get(kind, 0) + 1
    assert broken == []
    assert kinds == {
        "AgentIdentity": 8,
        "WAKE_SUBSCRIPTION": 9,
        "MESSAGE": 17,
        "SENT_TO": 11,
        "DELIVERED_TO": 19,
        "CAN_REPLY_TO": 1,
        "CAN_READ_INBOX_OF": 1,
        "CAN_READ_MEMORIES_OF": 1,
        "CAN_READ_SESSIONS_OF": 1,
        "heartbeat_pulse": 2,
        "nodes": 2,
    }
    assert all(entry.message for entry in entries if entry.edge and entry.edge.type in {"SENT_TO", "DELIVERED_TO"})
    graph.close()


def test_a_page_says_how_far_it_reaches_and_what_stands_there(core: MemoryCore, graph: SqliteGraph) -> None:
    """The row at the cursor is what an epoch is known by."""
    core.noise(10)
    page = graph.read_after(LogId(0), 1000)
    assert (page.upto, page.examined) == (core.tip(), core.tip())
    assert page.fingerprint == graph.fingerprint_at(page.upto)
    assert page.fingerprint.startswith("nodes:MEMORY:")
    assert graph.read_after(page.upto, 1000).examined == 0
    assert graph.fingerprint_at(LogId(page.upto + 1)) is None


def test_bounds_remember_what_was_pruned(core: MemoryCore, graph: SqliteGraph) -> None:
    """AUTOINCREMENT goes on after deletes."""
    tip = core.tip()
    assert (graph.bounds().lowest, graph.bounds().highest) == (1, tip)
    core.prune(2)
    assert (graph.bounds().lowest, graph.bounds().highest) == (3, tip)
    core.prune(tip)
    assert (graph.bounds().lowest, graph.bounds().highest) == (0, tip)


def test_an_old_file_without_owners_and_events_is_read(path: Path, graph: SqliteGraph) -> None:
    """Older files lack `user_id`, newer ones have the event columns: probe."""
    old = sqlite3.connect(path)
    old.executescript(
        "CREATE TABLE Nodes(id TEXT PRIMARY KEY, data TEXT); CREATE TABLE Edges(id TEXT PRIMARY KEY, source TEXT,"
        " target TEXT, type TEXT, data TEXT); CREATE TABLE GraphLog(log_id INTEGER PRIMARY KEY, entity_id TEXT,"
        " entity_type TEXT);"
    )
    old.execute("INSERT INTO Nodes VALUES ('@a', ?)", (json.dumps({"label": "AGENT", "properties": {}}),))
    old.execute("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('@a', 'nodes')")
    old.commit()
    assert [entry.label for entry in read_all(graph)[0]] == ["AGENT"]
    assert list(graph.identities()) == [A]
    assert graph.bounds().highest == 1
    assert graph.typed_tasks_after(LogId(0)) == frozenset()
    old.close()


def test_typed_rows_come_with_payload_and_message(core: MemoryCore, graph: SqliteGraph) -> None:
    """`task_state_changed` carries a snapshot; filters look at the message beside it."""
    assert graph.bounds().highest > 0
    for statement in EVENT_COLUMNS.strip().splitlines():
        core.sql(statement)
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


def test_what_was_deleted_is_told_where_it_matters(core: MemoryCore, graph: SqliteGraph) -> None:
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


def test_the_census_is_of_one_instant(core: MemoryCore, graph: SqliteGraph) -> None:
    """At a new epoch every task's state goes with the cursor."""
    core.send("@b", "@a", 'no task, though it says "task" and MESSAGE')
    task_id = core.give_task("@b", "@a", "a task")
    census = graph.census()
    assert [(found, properties["task"]["state"]) for found, properties in census.tasks] == [(task_id, "Submitted")]
    assert (census.tip, census.fingerprint) == (core.tip(), graph.fingerprint_at(census.tip))


def test_a_version_moves_with_commits_of_others_only(core: MemoryCore, graph: SqliteGraph) -> None:
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


def test_two_openings_never_look_like_one_version(core: MemoryCore, graph: SqliteGraph) -> None:
    """`data_version` starts anew on each connection; two of them may agree by chance."""
    versions = set()
    for _ in range(5):
        graph.reopen()
        versions.add(graph.version())
        core.noise(1)
    assert len(versions) == 5


def test_read_state_is_the_edges_first_and_the_nodes_second(core: MemoryCore, graph: SqliteGraph) -> None:
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


def test_unread_mail_is_listed_oldest_first(core: MemoryCore, graph: SqliteGraph) -> None:
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


def test_recent_mail_is_found_by_its_own_time(core: MemoryCore, graph: SqliteGraph) -> None:
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


def test_which_edges_are_left(core: MemoryCore, graph: SqliteGraph) -> None:
    """A permission withdrawn meanwhile needs no wake."""
    kept, gone = core.grant("@a", "@b"), core.grant("@a", "@c")
    core.sql("DELETE FROM Edges WHERE id = ?", gone)
    assert graph.edges_present([kept, gone, "never"]) == {kept}
    assert graph.edges_present([]) == set()


def test_subscriptions_and_identities_are_found_by_label(core: MemoryCore, graph: SqliteGraph) -> None:
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
    person = identities[Identity("@person")]
    assert (person.account_type, person.participation, person.display_name) == ("human", "operator_benched", "A Person")


def test_only_a_graph_of_our_own_is_embedded(tmp_path: Path, core: MemoryCore, graph: SqliteGraph) -> None:
    """Embedded means made by `wake-bridge init`, told by the application_id."""
    assert core.tip()
    assert not graph.is_embedded()
    create_embedded_graph(tmp_path / "own.sqlite", now_text())
    own = SqliteGraph(tmp_path / "own.sqlite")
    assert own.is_embedded()
    own.close()


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    """The URI is percent-encoded."""
    directory = tmp_path / "a b?c#d%41&e=ü;'"
    directory.mkdir()
    MemoryCore.create(directory / "graph ?mode=rw.sqlite", ["@a"]).close()
    graph = SqliteGraph(directory / "graph ?mode=rw.sqlite")
    assert list(graph.identities()) == [A]
    assert list(tmp_path.iterdir()) == [directory]
    graph.close()


def test_nothing_can_be_written(core: MemoryCore, graph: SqliteGraph) -> None:
    """`mode=ro` and `query_only`."""
    assert core.tip()
    with pytest.raises(SourceUnavailable, match="readonly"):
        graph._source.query("DELETE FROM GraphLog")


# -- what a file must be -----------------------------------------------------------------------------------------


def complaint(path: Path) -> SourceError:
    graph = SqliteGraph(path)
    with pytest.raises(SourceError) as caught:
        graph.subscriptions()
    graph.close()
    return caught.value


def test_a_missing_file_is_said_to_be(tmp_path: Path) -> None:
    """Exit 4 with what to do."""
    for path in (tmp_path / "none.sqlite", tmp_path / "none/none.sqlite"):
        error = complaint(path)
        assert isinstance(error, SourceMissing)
        assert "`init` makes one" in error.hint
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_graph_is_said_to_be(tmp_path: Path) -> None:
    """A text file, an empty file, a directory, a pipe, a database of something else."""
    (tmp_path / "text").write_text("dear graph\n" * 100)
    (tmp_path / "empty").touch()
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with sqlite3.connect(tmp_path / "half.sqlite") as half:
        half.execute("CREATE TABLE Nodes(id)")
        half.execute("CREATE TABLE Edges(id)")
    half.close()
    said = {name: complaint(tmp_path / name) for name in ("text", "empty", "directory", "pipe", "half.sqlite")}
    assert all(isinstance(error, SourceNotAGraph) for error in said.values())
    assert said["text"].what == "this file is not a database"
    assert said["empty"].what.endswith("it has no Nodes, Edges, GraphLog")
    assert said["half.sqlite"].what.endswith("it has no GraphLog")
    assert said["directory"].what == said["pipe"].what == "this is not a file"


def test_a_damaged_file_is_unreadable_for_now(tmp_path: Path) -> None:
    """It may be a copy under way, so it is looked at again."""
    shutil.copyfile(REAL, tmp_path / "damaged.sqlite")
    with (tmp_path / "damaged.sqlite").open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(8192))
    assert isinstance(complaint(tmp_path / "damaged.sqlite"), SourceUnavailable)


LOOK = """
import os, sys
from pathlib import Path
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.domain.errors import SourceError
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
graph = SqliteGraph(Path(sys.argv[1]))
try:
    print(len(graph.identities()))
except SourceError as error:
    print(type(error).__name__, error.hint)
graph.close()
"""


def look_as_somebody_else(path: Path) -> str:
    nobody = pwd.getpwnam("nobody").pw_uid
    call = [sys.executable, "-c", LOOK, str(path), str(nobody)]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()


def test_a_read_only_directory_without_an_index_says_what_is_needed(tmp_path: Path) -> None:
    """`mode=ro` needs an existing `-shm` or a writable directory: say so in the error."""
    for parent in (tmp_path, *tmp_path.parents[:3]):  # parallel workers have one directory more
        parent.chmod(0o755)
    path = tmp_path / "closed" / "graph.sqlite"
    path.parent.mkdir()
    core = MemoryCore.create(path, ["@a"])
    core.sql("PRAGMA wal_checkpoint")
    path.parent.chmod(0o555)
    Path(f"{path}-shm").chmod(0o444)
    assert look_as_somebody_else(path) == "1"
    path.parent.chmod(0o755)
    core.close()
    path.parent.chmod(0o555)
    said = look_as_somebody_else(path)
    path.parent.chmod(0o755)
    assert said.startswith("SourceUnavailable")
    assert "-shm" in said
    assert "write the directory" in said


def test_a_page_of_endless_messages_is_cut_short(
    core: MemoryCore, graph: SqliteGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole pages, and yet bounded memory: a cut page says that there is more."""
    sent = [core.send("@b", "@a", "s" * 100_000) for _ in range(10)]
    monkeypatch.setattr(change_log, "PAGE_BYTES", 250_000)
    page = graph.read_after(LogId(0), 1000)
    assert page.examined == 1000
    assert page.fingerprint == f"edges:{page.entries[-1].entity_id}"
    found = [entry.edge.source for entry in read_all(graph)[0] if entry.edge]
    assert found == sent
    assert len(page.entries) < len(read_all(graph)[0])


def test_presence_rows_are_read_while_they_are_recent(graph: SqliteGraph, core: MemoryCore) -> None:
    """Each start of a server leaves one, most of them of long ago; a broken one harms nobody."""
    old, new = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:09.000Z"
    for boot, seen in (("1", old), ("2", new)):
        core.put(f"HARNESS_PRESENCE:@a:{boot}", "HARNESS_PRESENCE", {"agentIdentity": "@a", "lastSeenAt": seen})
    core.sql("INSERT INTO Nodes (id, data) VALUES ('HARNESS_PRESENCE:@a:3', '{')")

    found = graph.presences(Instant(1_767_225_605_000))

    assert [one["lastSeenAt"] for one in found] == [new]
