"""Where the tail begins: lost cursors, other epochs, pruned logs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from wake_bridge.domain.names import LogId
from wake_bridge.ports.change_log import LogEntry
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio

A, B = "@a", "@b"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def core(tmp_path: Path) -> Iterator[MemoryCore]:
    """A graph with some old mail, some of the last hour, and noise around it."""
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core:
        core.subscribe(A)
        core.send(B, A, "two hours old", sentAt=ago(hours=2))
        core.noise(50)
        core.send(B, A, "half an hour old", sentAt=ago(minutes=30))
        core.mark_read(core.send(B, A, "half an hour old and read", sentAt=ago(minutes=30)))
        core.noise(50)
        yield core


def ago(**span: float) -> str:
    return f"{datetime.now(UTC) - timedelta(**span):%Y-%m-%dT%H:%M:%S.000Z}"


def rig_on(tmp_path: Path) -> TailRig:
    return TailRig(tmp_path / "graph.sqlite", tmp_path / "state")


def woken(rig: TailRig) -> list[str]:
    return [str(getattr(event.detail, "subject", "")) for event in rig.woken]


def warnings(logs: list[EventDict]) -> list[str]:
    return [line["event"] for line in logs if line["log_level"] == "warning"]


class PagedGraph(SqliteGraph):
    """Remembers how much mail was asked for at once."""

    asked: list[int]

    def mail_edges(self, message_ids: Sequence[str]) -> list[LogEntry]:
        self.asked.append(len(message_ids))
        return super().mail_edges(message_ids)


async def test_mail_that_went_through_an_empty_log_between_two_lives_of_the_daemon_is_known(tmp_path: Path) -> None:
    """A log that was filled and emptied looks as it did, and what was sent is still there, unread."""
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core:
        core.subscribe(A)
        _begin_anew(core)
        first = rig_on(tmp_path)
        await first.tail.catch_up_once()
        await first.close()
        core.send(B, A, "in between")
        _begin_anew(core)

        second = rig_on(tmp_path)
        await second.tail.catch_up_once()
        await second.tail.catch_up_once()
        await second.close()

    assert woken(second) == ["in between"]
    assert (second.tail.epoch, second.tail.cursor) == (first.tail.epoch, 0), "nothing says that it is another life"


def _begin_anew(core: MemoryCore) -> None:
    """Empty the log, which counts from 1 again."""
    core.sql("DELETE FROM GraphLog")
    core.sql("DELETE FROM sqlite_sequence WHERE name = 'GraphLog'")


async def test_a_look_back_holds_one_page_of_mail_at_a_time(
    core: MemoryCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole pages, never the whole hour: 33,000 messages took 265 MB at once and take 45 MB by pages."""
    monkeypatch.setattr("wake_bridge.engine.tail.tail.PAGE", 4)
    for number in range(10):
        core.send(B, A, f"mail {number}", sentAt=ago(minutes=20 - number))
    graph = PagedGraph(tmp_path / "graph.sqlite")
    graph.asked = []
    async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state", log=graph) as rig:
        assert woken(rig) == ["half an hour old", *(f"mail {number}" for number in range(10))]
    assert graph.asked == [4, 4, 4]


async def test_a_first_start_is_at_the_tip_with_unread_mail_of_the_last_hour(core: MemoryCore, tmp_path: Path) -> None:
    """A missing cursor means the tip, with a look-back of at most an hour."""
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            assert rig.tail.cursor == core.tip()
            assert woken(rig) == ["half an hour old"]
    assert warnings(logs) == []


@pytest.mark.parametrize("content", ["", "  \n", "-5", "1e9", "12abc", "0", "99999999999999999999999", "\x00\xff"])
async def test_a_damaged_cursor_without_a_ledger_means_the_tip_and_one_warning(
    core: MemoryCore, tmp_path: Path, content: str
) -> None:
    """Empty, negative or corrupt → tip, with the look-back. Never from 0, never silent."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/lastSyncId").write_text(content, encoding="latin-1")
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            assert woken(rig) == ["half an hour old"]
            assert (tmp_path / "state/lastSyncId").read_text() == str(core.tip())
    assert warnings(logs) == ["cursor_lost"]


async def test_a_cursor_above_the_tip_means_the_tip_and_one_warning(core: MemoryCore, tmp_path: Path) -> None:
    """Above the tip → tip, same look-back."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/lastSyncId").write_text(str(core.tip() + 1000))
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            assert rig.tail.cursor == core.tip()
            assert woken(rig) == ["half an hour old"]
    assert warnings(logs) == ["cursor_lost"]


async def test_a_published_cursor_outlives_its_ledger(core: MemoryCore, tmp_path: Path) -> None:
    """Nothing beyond the published cursor was ever in the lost ledger, so all of it is read."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
    (tmp_path / "state/state.sqlite").unlink()
    core.send(B, A, "sent while down", sentAt=ago(hours=5))
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
        assert woken(rig) == ["half an hour old", "sent while down"]


async def test_a_damaged_copy_of_the_cursor_does_not_move_the_ledgers(core: MemoryCore, tmp_path: Path) -> None:
    """`lastSyncId` is written for the pruner; the ledger's cursor is the truth."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
    core.send(B, A, "sent while down", sentAt=ago(hours=5))
    (tmp_path / "state/lastSyncId").write_text("garbage")
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            await rig.reaches(core.tip())
            assert woken(rig) == ["sent while down"]
    assert warnings(logs) == ["cursor_lost"]
    assert (tmp_path / "state/lastSyncId").read_text() == str(core.tip())


async def test_a_log_pruned_past_the_cursor_is_read_from_its_first_row(core: MemoryCore, tmp_path: Path) -> None:
    """Cursor row gone and cursor below the lowest id is pruning: same epoch, one warning."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
    core.send(B, A, "pruned before it was seen")
    core.prune(core.tip())
    core.send(B, A, "still there")
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            await rig.reaches(core.tip())
            assert woken(rig) == ["still there"]
            assert rig.tail.epoch == 1
    assert warnings(logs) == ["cursor_below_log"]


async def test_a_log_pruned_to_nothing_is_no_new_epoch(core: MemoryCore, tmp_path: Path) -> None:
    """AUTOINCREMENT keeps the ids rising, so an empty log has a tip too."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
    core.noise(20)
    core.prune(core.tip())
    async with rig_on(tmp_path) as rig:
        await rig.until(rig.is_at_the_tip)
        core.send(B, A, "the log goes on")
        await rig.until(lambda: woken(rig) == ["the log goes on"])
        assert rig.tail.epoch == 1


async def test_pruning_while_running_is_no_event(core: MemoryCore, tmp_path: Path) -> None:
    """Gaps are normal."""
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            await rig.reaches(core.tip())
            core.prune(core.tip() - 3)
            core.sql("VACUUM")
            core.send(B, A, "after the pruning")
            await rig.until(lambda: "after the pruning" in woken(rig))
            assert rig.tail.epoch == 1
    assert warnings(logs) == []


async def test_a_rolled_back_write_is_never_seen(core: MemoryCore, tmp_path: Path) -> None:
    """Only what was committed counts."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
        before = core.tip()
        core.sql("BEGIN IMMEDIATE")
        core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('HEARTBEAT_PULSE:@a:never', 'heartbeat_pulse')")
        core.sql("ROLLBACK")
        pulse_id = core.pulse(A)
        await rig.until(lambda: bool(rig.woken))
        await rig.reaches(core.tip())
        assert [event.subject_key for event in rig.woken if event.log_id > before] == [pulse_id]


def replace_graph(tmp_path: Path, other: Path) -> None:
    """What a restore does: the file goes, with its WAL, and another takes its place."""
    for ending in ("-wal", "-shm"):
        Path(f"{tmp_path / 'graph.sqlite'}{ending}").unlink(missing_ok=True)
    other.replace(tmp_path / "graph.sqlite")


def other_graph(tmp_path: Path, rows: int) -> Path:
    path = tmp_path / "other.sqlite"
    with MemoryCore.create(path, [A, B]) as core:
        core.subscribe(A)
        core.send(B, A, "old mail of another graph", sentAt=ago(hours=3))
        core.send(B, A, "recent mail of another graph", sentAt=ago(minutes=10))
        core.noise(rows)
        core.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.mark.parametrize("rows", [0, 1000])
async def test_another_graph_in_its_place_begins_an_epoch_at_its_tip(
    core: MemoryCore, tmp_path: Path, rows: int
) -> None:
    """The row at the cursor differs, or the cursor is above the tip: a new epoch, look-back of an hour."""
    other = other_graph(tmp_path, rows)
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            await rig.reaches(core.tip())
            core.close()
            replace_graph(tmp_path, other)
            await rig.until(lambda: rig.tail.epoch == 2)
            with MemoryCore(tmp_path / "graph.sqlite") as now:
                now.send(B, A, "the new graph is heard")
                await rig.until(lambda: "the new graph is heard" in woken(rig))
            assert woken(rig) == ["half an hour old", "recent mail of another graph", "the new graph is heard"]
    # a writer of this very process closes the file: a look in that moment finds its lock gone
    told = [one for one in warnings(logs) if one != "reader_healed"]
    assert told == ["graph_replaced", "cursor_lost"]


async def test_the_same_graph_in_another_file_is_the_same_epoch(core: MemoryCore, tmp_path: Path) -> None:
    """A changed inode makes us reopen and check; only the log tells whether the epoch changed."""
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            await rig.reaches(core.tip())
            core.sql("VACUUM INTO ?", str(tmp_path / "other.sqlite"))
            core.close()
            replace_graph(tmp_path, tmp_path / "other.sqlite")
            with MemoryCore(tmp_path / "graph.sqlite") as now:
                now.sql("PRAGMA journal_mode = WAL")
                now.send(B, A, "in the copy")
                await rig.until(lambda: "in the copy" in woken(rig))
                now.send(B, A, "in the copy again")
                await rig.until(lambda: "in the copy again" in woken(rig))
            assert rig.tail.epoch == 1
    assert warnings(logs) == ["graph_replaced"]


async def test_a_graph_replaced_while_the_daemon_was_down_begins_an_epoch(core: MemoryCore, tmp_path: Path) -> None:
    """Ids compare only inside one epoch."""
    other = other_graph(tmp_path, 1000)
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
    core.close()
    replace_graph(tmp_path, other)
    with capture_logs() as logs:
        async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
            await rig.until(lambda: rig.tail.epoch == 2)
            assert woken(rig) == ["recent mail of another graph"]
    assert warnings(logs) == ["cursor_lost"]


async def test_a_log_that_starts_again_at_one_begins_an_epoch(core: MemoryCore, tmp_path: Path) -> None:
    """The cursor above the tip, in the same file."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
        core.sql("BEGIN IMMEDIATE")
        core.sql("DELETE FROM GraphLog")
        core.sql("DELETE FROM sqlite_sequence WHERE name = 'GraphLog'")
        core.sql("COMMIT")
        await rig.until(lambda: rig.tail.epoch == 2)
        core.send(B, A, "row ids of a new life")
        await rig.until(lambda: "row ids of a new life" in woken(rig))


async def test_a_new_epoch_knows_every_task_as_it_stands(core: MemoryCore, tmp_path: Path) -> None:
    """At a new epoch every task's state is copied in the same transaction as the cursor."""
    core.subscribe(B, "TASK_STATE_CHANGED")
    task_id = core.give_task(B, A, "begun before we came")
    core.move_task(task_id, "Working")
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
        core.touch(task_id)
        core.move_task(task_id, "Completed")
        await rig.until(lambda: any(event.kind == "task" for event in rig.woken))
        assert [event.subject_key.split(":")[2] for event in rig.woken if event.kind == "task"] == ["Completed"]


async def test_mail_of_an_earlier_epoch_is_not_announced_again(core: MemoryCore, tmp_path: Path) -> None:
    """A subject wakes an identity once, in whatever epoch it shows up."""
    async with rig_on(tmp_path) as rig:
        await rig.reaches(core.tip())
        core.sql("DELETE FROM GraphLog")
        core.sql("DELETE FROM sqlite_sequence WHERE name = 'GraphLog'")
        await rig.until(lambda: rig.tail.epoch == 2)
        assert woken(rig) == ["half an hour old"]


async def test_an_empty_graph_is_read_from_its_first_row_but_another_one_is_not(tmp_path: Path) -> None:
    """Never from 0. An empty log's cursor is 0, and counts for the file it was read in only."""
    with MemoryCore.create(tmp_path / "graph.sqlite") as empty:
        empty.prune(empty.tip())
        empty.sql("DELETE FROM sqlite_sequence")
        async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
            assert rig.tail.cursor == 0
        empty.identity(A)
        empty.identity(B)
        empty.subscribe(A)
        empty.send(B, A, "first mail ever")
        async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
            await rig.until(lambda: woken(rig) == ["first mail ever"])
            assert rig.tail.epoch == 1
    shutil.rmtree(tmp_path / "state")
    with MemoryCore.create(tmp_path / "second.sqlite") as second:
        second.prune(second.tip())
        second.sql("DELETE FROM sqlite_sequence")
        second.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    replace_graph(tmp_path, tmp_path / "second.sqlite")
    async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
        assert rig.tail.cursor == 0
    replace_graph(tmp_path, other_graph(tmp_path, 10))
    async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
        await rig.until(lambda: rig.tail.epoch == 2)
        assert woken(rig) == ["recent mail of another graph"]


async def test_the_published_cursor_follows_the_ledger_and_never_leads(core: MemoryCore, tmp_path: Path) -> None:
    """`lastSyncId` is a plain integer, written after the ledger's commit; the pruner trusts it."""
    async with rig_on(tmp_path) as rig:
        core.send(B, A, "moves the cursor")
        await rig.until(lambda: "moves the cursor" in woken(rig))
        position = rig.ledger.position()
        assert position is not None
        assert (tmp_path / "state/lastSyncId").read_text() == str(position.cursor)
        core.noise(5)
        await rig.reaches(core.tip())
    assert (tmp_path / "state/lastSyncId").read_text() == str(core.tip())
    assert (tmp_path / "state/lastSyncId").stat().st_mode & 0o777 == 0o600


async def test_pages_without_a_match_move_the_stored_cursor_at_most_once_a_second(
    core: MemoryCore, tmp_path: Path
) -> None:
    """Noise must not cost a synced write each."""
    async with rig_on(tmp_path) as rig:
        stored: set[LogId] = set()
        started = rig.tail.progressed_at
        for _ in range(40):
            core.noise(3)
            await rig.reaches(core.tip())
            stored.add(stored_cursor(rig))
        seconds = (rig.tail.progressed_at - started) / 1000
        assert len(stored) <= seconds + 2
        await rig.until(lambda: stored_cursor(rig) == core.tip())


def stored_cursor(rig: TailRig) -> LogId:
    position = rig.ledger.position()
    assert position is not None
    return position.cursor
