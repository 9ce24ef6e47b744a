"""The change log on real files: what a page holds, what questions answer, and what a file must be."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.domain.errors import SourceError, SourceMissing, SourceNotAGraph, SourceUnavailable
from wake_bridge.domain.names import Identity, LogId
from wake_bridge.ports.change_log import BrokenRow, LogEntry
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.testing.memory_core import MemoryCore, now_text

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


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_what_is_dismissed_together_hides_nothing(core: MemoryCore, graph: SqliteGraph, limit: int) -> None:
    """News between noise, old nodes and edges written again, what is gone, what is broken, and a node without an id."""
    since = core.tip()
    core.noise(3)
    core.identity("@d")
    core.noise(3)
    core.sql("INSERT INTO Nodes(id, data) VALUES ('MEMORY:broken', '{broken'), ('MEMORY:list', '[]')")
    core.link(A, B, "KNOWS", {})
    granted = core.grant(A, B)
    core.link(B, A, "KNOWS", {})
    core.noise(3)
    core.touch(A)
    core.touch("MEMORY:broken")
    core.touch_edges(A)
    # the log's column refuses NULL
    core.sql("DROP TRIGGER node_insert")
    core.sql("INSERT INTO Nodes(id, data) VALUES (NULL, '{}'), ('@e', '{\"label\": \"AGENT\"}')")
    core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('WAKE_SUB:gone', 'nodes'), ('@e', 'nodes')")
    entries, broken = read_all(graph, since, limit)
    assert [entry.entity_id for entry in entries] == ["@d", granted, A, granted, "WAKE_SUB:gone", "@e"]
    assert [row.entity_id for row in broken] == ["MEMORY:broken", "MEMORY:list", "MEMORY:broken"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a process's reads")
def test_a_backlog_is_not_looked_for_row_by_row(core: MemoryCore, graph: SqliteGraph) -> None:
    """What was added lies side by side; looked for by its scattered id, each row would cost more reads of the file."""
    core.sql("BEGIN")
    for _ in range(5_000):
        # so long that the ids fill more than SQLite keeps in memory
        core.put(f"MEMORY:{uuid.uuid4()}{'.' * 800}", "AGENT_MEMORY", {})
    core.sql("COMMIT")
    core.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    read_all(graph, core.tip())
    before = reads_of_this_process()
    read_all(graph)
    assert reads_of_this_process() - before < 8_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a process's reads")
@pytest.mark.parametrize(("written", "limit"), [("node", 1000), ("edge", 200)])
def test_a_page_does_not_read_what_others_added(core: MemoryCore, graph: SqliteGraph, written: str, limit: int) -> None:
    """A row alone, behind an old node that is written again and again; a full page of which only the last row is of a node."""
    for number in range(100):
        core.put(f"MEMORY:{number}", "AGENT_MEMORY", {"text": "." * 50_000})
    core.link(A, B, "KNOWS", {})
    for _ in range(8 if written == "node" else limit + 7):
        core.touch(A) if written == "node" else core.touch_edges(A)
    core.identity("@d")
    since = core.tip() - (1 if written == "node" else limit)
    before = reads_of_this_process()
    entries, _ = read_all(graph, since, limit)
    assert reads_of_this_process() - before < 200
    assert [entry.entity_id for entry in entries] == ["@d"]


def test_a_log_that_ignores_case_hides_nobody(core: MemoryCore, graph: SqliteGraph) -> None:
    """A node that is no news does not dismiss another one, whose name differs in case only."""
    core.sql("DROP TABLE GraphLog")
    core.sql(
        "CREATE TABLE GraphLog(log_id INTEGER PRIMARY KEY, entity_id TEXT COLLATE NOCASE NOT NULL, entity_type TEXT NOT NULL)"
    )
    core.noise(1)
    since = core.tip()
    core.identity("@D")
    core.put("@d", "AGENT_MEMORY", {})
    entries, _ = read_all(graph, since, limit=2)
    assert [entry.entity_id for entry in entries] == ["@D"]


def reads_of_this_process() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["syscr"])


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


def test_two_openings_never_look_like_one_version(core: MemoryCore, graph: SqliteGraph) -> None:
    """`data_version` starts anew on each connection; two of them may agree by chance."""
    versions = set()
    for _ in range(5):
        graph.reopen()
        versions.add(graph.version())
        core.noise(1)
    assert len(versions) == 5


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
    assert said["directory"].what == "this is a directory, not a graph"
    assert said["pipe"].what == "this is not a file"


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
