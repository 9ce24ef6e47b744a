"""The tail when the graph or the disk is in trouble: nothing lost, nothing silent, no tight loop."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from wake_bridge.domain.errors import LedgerUnwritable, SourceMissing, SourceNotAGraph
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Instant
from wake_bridge.engine.tail import tail as tail_module
from wake_bridge.ports.ledger_records import PageRecord
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.testing.memory_core import MemoryCore, MemoryCoreProcess
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio

A, B = "@a", "@b"
NEVER = "HEARTBEAT_PULSE:@a:never-committed"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.sqlite"
    with MemoryCore.create(path, [A, B]) as core:
        core.subscribe(A)
    return path


@pytest.fixture
def core(graph: Path) -> Iterator[MemoryCoreProcess]:
    with MemoryCoreProcess(graph) as core:
        yield core


class CountingGraph(SqliteGraph):
    """A graph that counts how often it is asked whether anything changed."""

    asked = 0

    def version(self) -> tuple[int, int, int]:
        self.asked += 1
        return super().version()


async def test_a_locked_graph_leaves_the_cursor_and_is_asked_twice_a_second_at_most(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """Unavailable → cursor unmoved, backoff, at most 2 attempts a second, resumes soon after."""
    core.do("sql", "PRAGMA journal_mode = DELETE")  # with a WAL, a reader is never locked out
    log = CountingGraph(graph)
    with capture_logs() as logs:
        async with TailRig(graph, tmp_path / "state", log=log) as rig:
            await rig.reaches(core.do("tip"))
            core.do("sql", "BEGIN EXCLUSIVE")
            core.do("send", B, A, "written under an exclusive lock")
            await rig.until(lambda: bool(rig.tail.away))
            cursor, asked, progressed = rig.tail.cursor, log.asked, rig.tail.progressed_at
            began = time.monotonic()
            await asyncio.sleep(3)
            assert rig.tail.cursor == cursor
            assert log.asked - asked <= 2 * (time.monotonic() - began) + 1
            assert rig.tail.progressed_at > progressed
            core.do("sql", "COMMIT")
            await rig.until(lambda: bool(rig.woken))
            assert rig.tail.away == ""
    away = [line for line in logs if line["event"] in {"graph_away", "graph_back"}]
    assert [line["event"] for line in away] == ["graph_away", "graph_back"]
    assert "locked" in str(away[0]["reason"])


async def test_a_graph_locked_at_the_start_is_waited_for(graph: Path, tmp_path: Path) -> None:
    """A lock is no reason to give up."""
    locker = MemoryCoreProcess(graph)
    locker.do("sql", "PRAGMA locking_mode = EXCLUSIVE")
    locker.do("send", B, A, "written under an exclusive lock")
    rig = TailRig(graph, tmp_path / "state")
    running = asyncio.create_task(rig.tail.run())
    await rig.until(lambda: bool(rig.tail.away))
    locker.close()
    await rig.until(lambda: bool(rig.woken))
    running.cancel()
    await asyncio.wait({running})
    await rig.close()


async def test_a_vanished_graph_is_waited_for_and_heard_again(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """A deleted file keeps answering from its old inode; only the path tells."""
    log = CountingGraph(graph)
    with capture_logs() as logs:
        async with TailRig(graph, tmp_path / "state", log=log) as rig:
            await rig.reaches(core.do("tip"))
            move(graph, tmp_path / "elsewhere.sqlite")
            await rig.until(lambda: bool(rig.tail.away))
            asked, began = log.asked, time.monotonic()
            await rig.until(lambda: log.asked > asked + 3)
            assert log.asked - asked <= 2 * (time.monotonic() - began) + 1
            move(tmp_path / "elsewhere.sqlite", graph)
            await rig.until(lambda: rig.tail.away == "")
            core.do("send", B, A, "heard again")
            await rig.until(lambda: bool(rig.woken))
            assert rig.tail.epoch == 1
    assert [line["event"] for line in logs if line["event"].startswith("graph_")] == [
        "graph_opened",
        "graph_away",
        "graph_back",
    ]


async def test_a_file_that_is_no_graph_in_its_place_is_waited_out(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """While running, whatever lies at the path is looked at again."""
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
        move(graph, tmp_path / "elsewhere.sqlite")
        letter(graph)
        await rig.until(lambda: "not a database" in rig.tail.away)
        move(tmp_path / "elsewhere.sqlite", graph)
        core.do("send", B, A, "heard again")
        await rig.until(lambda: bool(rig.woken))


def move(file: Path, to: Path) -> None:
    file.rename(to)


def letter(path: Path) -> Path:
    path.write_text("this is a letter, not a graph\n" * 100)
    return path


async def test_without_a_graph_the_start_fails(tmp_path: Path) -> None:
    """Exit 4, source graph missing or not a graph."""
    with pytest.raises(SourceMissing, match="there is no graph"):
        async with TailRig(tmp_path / "none.sqlite", tmp_path / "state"):
            pass
    with pytest.raises(SourceNotAGraph, match="not a database"):
        async with TailRig(letter(tmp_path / "letter"), tmp_path / "state"):
            pass


async def test_a_columns_change_while_running_breaks_nothing(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """Newer files have the event columns; they may come by ALTER at any time."""
    async with TailRig(graph, tmp_path / "state") as rig:
        core.do("send", B, A, "before")
        await rig.until(lambda: len(rig.woken) == 1)
        core.do("sql", "ALTER TABLE GraphLog ADD COLUMN event_id TEXT")
        core.do("sql", "ALTER TABLE GraphLog ADD COLUMN event_payload TEXT")
        core.do("subscribe", B, "TASK_STATE_CHANGED")
        task_id = core.do("give_task", B, A, "typed from now on")
        event_id = core.do("move_task", task_id, "Working", typed=True)
        await rig.until(lambda: len(rig.woken) == 3)
        assert rig.woken[-1].subject_key == f"{task_id}:Working:{event_id}"


async def test_a_reader_gone_deaf_is_healed_at_the_next_look_and_counted(graph: Path, tmp_path: Path) -> None:
    """Closing the file by path drops all locks of the process; the last writer then deletes the WAL."""
    other = SqliteGraph(graph)
    with capture_logs() as logs:
        async with TailRig(graph, tmp_path / "state") as rig:
            with MemoryCoreProcess(graph) as core:
                await rig.reaches(core.do("tip"))
                assert other.identities()
                deafen(graph)
            with MemoryCoreProcess(graph) as core:
                message_id = core.do("send", B, A, "spoken to the deaf")
                await rig.until(lambda: bool(rig.woken))
                assert other.node(message_id) is not None
            assert rig.tail.heals == 1
    other.close()
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["reader_healed"]


async def test_the_graph_is_opened_anew_now_and_then(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reopen every 60 s, for a deafness that leaves no trace."""
    monkeypatch.setattr(tail_module, "REOPEN_EVERY", 200)
    log = ReopeningGraph(graph)
    async with TailRig(graph, tmp_path / "state", log=log) as rig:
        await rig.until(lambda: log.reopenings >= 3)
        core.do("send", B, A, "still heard")
        await rig.until(lambda: bool(rig.woken))


class ReopeningGraph(SqliteGraph):
    """A graph that counts its reopenings."""

    reopenings = 0

    def reopen(self) -> None:
        self.reopenings += 1
        super().reopen()


def deafen(graph: Path) -> None:
    """What nobody may do inside the daemon."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{graph}{ending}").open("rb").close()


class FullDisk:
    """Makes a rig's ledger refuse to be written for a while."""

    def __init__(self, rig: TailRig) -> None:
        self._real = rig.ledger.advance
        self.is_full = True
        self.refusals = 0
        rig.ledger.advance = self.advance  # type: ignore[method-assign]

    def advance(self, page: PageRecord, now: Instant) -> list[WakeEvent]:
        if self.is_full:
            self.refusals += 1
            raise LedgerUnwritable("the disk is full", "state.sqlite", hint="free some space")
        return self._real(page, now)


async def test_a_full_disk_loses_nothing(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """Cursor and events are one transaction; what was not written is read again."""
    with capture_logs() as logs:
        async with TailRig(graph, tmp_path / "state") as rig:
            await rig.reaches(core.do("tip"))
            disk = FullDisk(rig)
            sent = [core.do("send", B, A, f"mail {number}") for number in range(5)]
            await rig.until(lambda: disk.refusals >= 2)
            assert rig.woken == []
            disk.is_full = False
            await rig.until(lambda: len(rig.woken) == len(sent))
            assert [event.subject_key for event in rig.woken] == sent
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["ledger_away"]


async def test_writers_in_disorder_lose_no_row_and_double_none(graph: Path, tmp_path: Path) -> None:
    """Never skips an entry inside an epoch: four writers, checkpoints, VACUUM, roll-backs."""
    with MemoryCoreProcess(graph) as first:
        async with TailRig(graph, tmp_path / "state") as rig:
            sent = await asyncio.to_thread(disorder, graph)
            await rig.reaches(first.do("tip"))
            woken = [event.subject_key for event in rig.woken]
    assert sorted(woken) == sorted(sent)


def disorder(graph: Path) -> Sequence[str]:
    dice = random.Random(7)
    cores = [MemoryCoreProcess(graph) for _ in range(4)]
    sent: list[str] = []
    for round_number in range(25):
        for core in cores:
            core.start("send", B, A, f"round {round_number}")
        sent += [core.finish() for core in cores]
        chosen = dice.choice(cores)
        chosen.do("sql", dice.choice(["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(PASSIVE)", "VACUUM"]))
        chosen.do("sql", "BEGIN IMMEDIATE")
        chosen.do("sql", "INSERT INTO GraphLog(entity_id, entity_type) VALUES (?, 'heartbeat_pulse')", NEVER)
        chosen.do("sql", "ROLLBACK")
    for core in cores:
        core.close()
    return sent


async def test_a_kill_between_pages_repeats_nothing_and_loses_nothing(
    graph: Path, core: MemoryCoreProcess, tmp_path: Path
) -> None:
    """Advancing the cursor and inserting the matched events is one transaction."""
    core.do("noise", 10)
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.reaches(core.do("tip"))
    sent = []
    for number in range(40):
        core.do("noise", 97)
        sent.append(core.do("send", B, A, f"mail {number}"))
    seen: list[str] = []
    for _ in range(200):
        rig = TailRig(graph, tmp_path / "state")
        running = asyncio.create_task(rig.tail.run())
        reached = len(seen)
        await rig.until(lambda rig=rig: len(rig.woken) > 0 or rig.tail.cursor >= core.do("tip"))  # type: ignore[misc]
        # as a SIGKILL would leave it: nothing more is written
        rig.ledger.advance = refuse  # type: ignore[method-assign]
        running.cancel()
        await asyncio.wait({running})
        seen += [event.subject_key for event in rig.woken]
        await rig.close()
        if len(seen) == reached:
            break
    assert seen == sent


def refuse(page: PageRecord, now: Instant) -> list[WakeEvent]:
    raise LedgerUnwritable("killed", str((page.position, now)))


async def test_no_read_transaction_stays_open(graph: Path, core: MemoryCoreProcess, tmp_path: Path) -> None:
    """Whole pages are fetched at once; a held one would keep the WAL growing."""
    async with TailRig(graph, tmp_path / "state") as rig:
        for number in range(20):
            core.do("send", B, A, f"mail {number}")
        await rig.reaches(core.do("tip"))
        await rig.until(lambda: core.do("sql", "PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0)
        assert len(rig.woken) == 20


def test_the_graph_is_left_as_it_was(graph: Path, tmp_path: Path) -> None:
    """Read-only: no row written, nothing checkpointed."""
    writer = sqlite3.connect(graph)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    before = "\n".join(writer.iterdump())
    sizes = [Path(f"{graph}{ending}").stat().st_size for ending in ("", "-wal")]
    asyncio.run(follow_for_a_while(graph, tmp_path))
    assert [Path(f"{graph}{ending}").stat().st_size for ending in ("", "-wal")] == sizes
    assert "\n".join(writer.iterdump()) == before
    writer.close()


async def follow_for_a_while(graph: Path, tmp_path: Path) -> None:
    async with TailRig(graph, tmp_path / "state") as rig:
        await rig.until(rig.is_at_the_tip)
        await asyncio.sleep(0.3)
