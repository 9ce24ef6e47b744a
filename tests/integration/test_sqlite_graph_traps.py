"""SQLite's measured traps, each shown to be real, and how the reader stays out of it (docs/sqlite-notes.md)."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.domain.names import Instant, LogId
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.testing.memory_core import MemoryCore, MemoryCoreProcess

TIP = "SELECT MAX(log_id) FROM GraphLog"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "graph.sqlite"
    MemoryCore.create(path, ["@a", "@b"]).close()
    return path


@pytest.fixture
def graph(path: Path) -> Iterator[SqliteGraph]:
    graph = SqliteGraph(path)
    yield graph
    graph.close()


def connect(path: Path, options: str = "mode=ro") -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?{options}", uri=True, isolation_level=None)


def tip_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute(TIP).fetchone()[0])


def test_an_immutable_connection_does_not_see_the_wal(path: Path, graph: SqliteGraph) -> None:
    """Never `immutable=1` on a live file."""
    with MemoryCoreProcess(path) as core:
        tip = core.do("noise", 10) or core.do("tip")
        blind = connect(path, "immutable=1")
        assert tip_of(blind) < tip
        assert graph.bounds().highest == tip
        blind.close()


def test_closing_the_file_by_path_makes_a_reader_deaf(path: Path) -> None:
    """POSIX drops all locks of the process on a file when any descriptor of it is closed."""
    reader = connect(path)
    with MemoryCoreProcess(path) as core:
        assert tip_of(reader) == core.do("tip")
        path.open("rb").close()
    with MemoryCoreProcess(path) as core:
        core.do("noise", 10)
        assert tip_of(reader) == core.do("tip") - 10
        sibling = connect(path)
        assert tip_of(sibling) == core.do("tip") - 10, "a second connection shares the deafness of the first"
        sibling.close()
        reader.close()
        fresh = connect(path)
        assert tip_of(fresh) == core.do("tip")
        fresh.close()


def test_our_reader_hears_again_with_all_its_siblings(path: Path, graph: SqliteGraph) -> None:
    """The index that our locks would protect is another one now, so both connections are opened anew."""
    sibling = SqliteGraph(path)
    with MemoryCoreProcess(path) as core:
        assert graph.bounds().highest == sibling.bounds().highest == core.do("tip")
        assert not graph.heal()
        path.open("rb").close()
    with MemoryCoreProcess(path) as core:
        core.do("noise", 10)
        assert graph.heal()
        assert not graph.heal()
        assert graph.bounds().highest == sibling.bounds().highest == core.do("tip")
    sibling.close()


def test_a_deafness_kept_alive_by_another_connection_is_tried_again(path: Path, graph: SqliteGraph) -> None:
    """What is outside the family keeps the deleted index mapped; Linux shows it."""
    outsider = connect(path)
    with MemoryCoreProcess(path) as core:
        assert graph.bounds().highest == tip_of(outsider) == core.do("tip")
        path.open("rb").close()
    with MemoryCoreProcess(path) as core:
        core.do("noise", 10)
        assert graph.heal()
        assert graph.bounds().highest == core.do("tip") - 10
        outsider.close()
        assert graph.heal()
        assert graph.bounds().highest == core.do("tip")


def test_a_replaced_file_keeps_answering_from_the_old_one(path: Path, graph: SqliteGraph, tmp_path: Path) -> None:
    """No error, ever; only the inode tells."""
    old = connect(path)
    before = graph.version()
    tip = tip_of(old)
    with MemoryCore.create(tmp_path / "other.sqlite") as other:
        other.noise(50)
        other.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    (tmp_path / "other.sqlite").replace(path)
    assert tip_of(old) == tip
    old.close()
    assert graph.version()[:2] != before[:2]
    assert graph.identities() == {}, "questions go to the file at the path"
    graph.reopen()
    assert graph.bounds().highest == 51


def test_a_backup_copied_over_the_file_is_another_version(
    path: Path, graph: SqliteGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inode is the old one and nothing was committed: only the file's own write tells, and opening it anew."""
    monkeypatch.setattr("wake_bridge.storage.graph.source.REOPEN_AGAIN_AFTER", -1)
    with MemoryCore.create(tmp_path / "other.sqlite") as other:
        other.noise(50)
        other.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    with MemoryCoreProcess(path) as core:
        core.do("sql", "PRAGMA wal_checkpoint(TRUNCATE)")
        before = graph.version()
        assert graph.version() == before, "what nobody wrote is not opened anew"
    subprocess.run(["cp", str(tmp_path / "other.sqlite"), str(path)], check=True)
    after = graph.version()
    assert after[:2] == before[:2]
    assert after != before
    assert graph.bounds().highest == 51


def test_one_broken_row_fails_an_unguarded_query_and_not_ours(path: Path, graph: SqliteGraph) -> None:
    """SQLite evaluates `json_extract` for the whole statement."""
    with MemoryCore(path) as core:
        core.sql("INSERT INTO Nodes(id, data) VALUES ('MESSAGE:broken', '{broken')")
        core.send("@a", "@b", "whole")
        with pytest.raises(sqlite3.OperationalError, match="malformed JSON"):
            core.sql("SELECT id FROM Nodes WHERE json_extract(data, '$.label') = 'MESSAGE'")
    page = graph.read_after(LogId(0), 1000)
    assert [row.entity_id for row in page.broken] == ["MESSAGE:broken"]
    assert [entry.edge.type for entry in page.entries if entry.edge] == ["SENT_TO"]
    (whole,) = graph.recent_mail(Instant(0))
    assert len(graph.mail_edges([whole, "MESSAGE:broken"])) == 1


def test_a_text_that_is_not_utf8_fails_a_plain_fetch_and_not_ours(path: Path, graph: SqliteGraph) -> None:
    """A broken row is one entry, never the whole page."""
    with MemoryCore(path) as core:
        core.sql(
            "INSERT INTO Nodes(id, data) VALUES ('MESSAGE:latin', CAST(? AS TEXT))", b'{"label":"MESSAGE","x":"\xe9"}'
        )
        core.put("@c", "AgentIdentity", {})
        with pytest.raises(sqlite3.OperationalError, match="decode"):
            core.sql("SELECT data FROM Nodes")
        core.link("MESSAGE:latin", "@c", "SENT_TO", {})
    page = graph.read_after(LogId(0), 1000)
    assert [(row.entity_id != "", row.why) for row in page.broken] == [(True, "it is not UTF-8")]
    assert "@c" in graph.identities()


def test_a_half_read_cursor_blocks_checkpoints_and_ours_does_not(path: Path, graph: SqliteGraph) -> None:
    """Whole pages are fetched at once; `in_transaction` would not show a held one."""
    with MemoryCoreProcess(path) as core:
        core.do("noise", 100)
        holder = connect(path)
        half_read = holder.execute("SELECT log_id FROM GraphLog ORDER BY log_id")
        half_read.fetchone()
        core.do("noise", 100)
        assert not holder.in_transaction
        _, in_log, done = core.do("sql", "PRAGMA wal_checkpoint(PASSIVE)")[0]
        assert done < in_log
        half_read.close()
        holder.close()
        graph.read_after(LogId(0), 10)
        graph.census()
        busy, in_log, done = core.do("sql", "PRAGMA wal_checkpoint(PASSIVE)")[0]
        assert (busy, in_log) == (0, done)


def test_a_new_connections_data_version_may_equal_the_last_ones(path: Path, graph: SqliteGraph) -> None:
    """It is comparable on a held connection only."""
    first = connect(path)
    first.execute(TIP).fetchone()
    version = first.execute("PRAGMA data_version").fetchone()
    first.close()
    with MemoryCore(path) as core:
        core.noise(1)
    second = connect(path)
    second.execute(TIP).fetchone()
    assert second.execute("PRAGMA data_version").fetchone() == version
    second.close()
    seen = graph.version()
    graph.reopen()
    assert graph.version() != seen


def test_a_crashed_writers_wal_is_read_and_left_alone(path: Path, tmp_path: Path) -> None:
    """A read-only connection neither checkpoints nor deletes what a crash left."""
    with MemoryCore(path) as core:
        core.noise(20)
        for ending in ("", "-wal"):
            shutil.copyfile(f"{path}{ending}", f"{tmp_path / 'crashed.sqlite'}{ending}")
        tip = core.tip()
    left = Path(f"{tmp_path / 'crashed.sqlite'}-wal").read_bytes()
    crashed = SqliteGraph(tmp_path / "crashed.sqlite")
    assert crashed.bounds().highest == tip
    crashed.close()
    assert Path(f"{tmp_path / 'crashed.sqlite'}-wal").read_bytes() == left
