"""Reading the log once more for one subscription, and going on where an upstream daemon stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.errors import NotFound, UsageMistake
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.engine.tail.resync import ResyncResult, resync
from wake_bridge.engine.tail.takeover import AdoptedCursor, UpstreamState, adopt_upstream
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.upstream import read_upstream_state
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.memory_core import EVENT_COLUMNS, MemoryCore
from wake_bridge.testing.tail_rig import TailRig

A, B = "@a", "@b"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def core(tmp_path: Path) -> Iterator[MemoryCore]:
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core:
        yield core


def ago(**span: float) -> str:
    return f"{datetime.now(UTC) - timedelta(**span):%Y-%m-%dT%H:%M:%S.000Z}"


def again(tmp_path: Path, subscription_id: str, since: int = 0) -> ResyncResult:
    graph = SqliteGraph(tmp_path / "graph.sqlite")
    clock = SteadyClock()
    try:
        return resync(
            graph,
            subscription_id,
            LogId(since),
            rules=MatchingRules(),
            epoch=Epoch(1),
            now=clock.now(),
            wall=clock.wall(),
            new_id=new_ulid,
        )
    finally:
        graph.close()


def test_a_resync_finds_what_the_filters_want_now(core: MemoryCore, tmp_path: Path) -> None:
    """`resync`: the log from `since`, for one subscription, as its filters stand now; read mail is left out."""
    subscription_id = core.subscribe(A, filters={"priority": "high"})
    core.subscribe(A)
    old = core.send(B, A, "a month old", priority="high", sentAt=ago(days=30))
    core.send(B, A, "not wanted")
    core.mark_read(core.send(B, A, "read", priority="high"))
    core.touch_edges(old)
    wanted = core.send(B, A, "wanted", priority="high")
    found = again(tmp_path, subscription_id)
    assert [event.subject_key for event in found.events] == [old, wanted]
    assert {event.status for event in found.events} == {EventStatus.OPEN}
    assert {event.subscription_id for event in found.events} == {subscription_id}
    assert (found.last_log_id, found.first_available) == (core.tip(), None)


def test_a_resync_begins_after_the_row_it_is_given(core: MemoryCore, tmp_path: Path) -> None:
    """`resync --since N`: N is a cursor, what it stands for was seen."""
    subscription_id = core.subscribe(A)
    core.send(B, A, "before")
    since = core.tip()
    after = core.send(B, A, "after")
    assert [event.subject_key for event in again(tmp_path, subscription_id, since).events] == [after]
    assert again(tmp_path, subscription_id, core.tip()).events == ()


def test_a_resync_says_where_a_pruned_log_begins(core: MemoryCore, tmp_path: Path) -> None:
    """`firstAvailableLogId`."""
    subscription_id = core.subscribe(A)
    core.send(B, A, "pruned")
    core.prune(core.tip())
    kept = core.send(B, A, "kept")
    found = again(tmp_path, subscription_id, 1)
    assert [event.subject_key for event in found.events] == [kept]
    assert found.first_available == core.tip() - 2
    assert again(tmp_path, subscription_id, core.tip() - 3).first_available is None


def test_a_resync_from_beyond_the_end_of_the_log_is_a_mistake(core: MemoryCore, tmp_path: Path) -> None:
    """`resync --since N`: an id that was never given out means nothing; the last one means nothing new."""
    subscription_id = core.subscribe(A)
    assert again(tmp_path, subscription_id, core.tip()).events == ()
    with pytest.raises(UsageMistake, match=f"the log ends at {core.tip()}: --since {core.tip() + 1}"):
        again(tmp_path, subscription_id, core.tip() + 1)


def test_a_resync_finds_the_moves_that_typed_rows_tell(core: MemoryCore, tmp_path: Path) -> None:
    """What a task was before cannot be derived a second time."""
    for statement in EVENT_COLUMNS.strip().splitlines():
        core.sql(statement)
    subscription_id = core.subscribe(A, "TASK_STATE_CHANGED")
    task_id = core.give_task(A, B, "a task")
    moves = [core.move_task(task_id, state, typed=True) for state in ("Working", "Completed")]
    found = again(tmp_path, subscription_id)
    assert [event.subject_key.rsplit(":", 1)[1] for event in found.events] == moves


def test_a_resync_of_nothing_is_an_error(core: MemoryCore, tmp_path: Path) -> None:
    """Exit 8."""
    assert core.tip()
    with pytest.raises(NotFound, match="no such subscription"):
        again(tmp_path, "WAKE_SUB:none")


@pytest.mark.anyio
async def test_replayed_events_are_open_once_more(core: MemoryCore, tmp_path: Path) -> None:
    """`resync`: the ledger takes them although it knows their subjects."""
    subscription_id = core.subscribe(A)
    message_id = core.send(B, A, "announced before")
    async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
        await rig.until(lambda: bool(rig.woken))
        rig.ledger.announce(Identity(A), [message_id], "inbox", Instant(1))
        replayed = rig.ledger.replay(again(tmp_path, subscription_id).events, Instant(2))
        assert [event.subject_key for event in replayed] == [message_id]
        assert [event.status for event in rig.ledger.find_events(subject_key=message_id)].count(EventStatus.OPEN) == 1


# -- an upstream daemon's directory ------------------------------------------------------------------------------


def inherit(tmp_path: Path, upstream_state: UpstreamState) -> AdoptedCursor:
    graph = SqliteGraph(tmp_path / "graph.sqlite")
    ledger = LedgerStore.open(tmp_path / "state")
    try:
        return adopt_upstream(graph, ledger, upstream_state, MatchingRules(), SteadyClock(), new_ulid)
    finally:
        graph.close()
        ledger.close()


async def woken_after(tmp_path: Path, core: MemoryCore) -> list[str]:
    async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
        await rig.reaches(core.tip())
        delivered = [event.subject_key for event in rig.woken]
    reader = LedgerStore.open(tmp_path / "state", read_only=True)
    taken = [
        event.subject_key for log_id in range(core.tip() + 1) for event in reader.find_events(log_id=LogId(log_id))
    ]
    reader.close()
    assert set(delivered) <= set(taken)
    return taken


@pytest.mark.anyio
async def test_what_upstream_had_read_but_not_announced_is_not_lost(core: MemoryCore, tmp_path: Path) -> None:
    """`init --from-neo` takes over cursor and watermark; upstream moves its cursor before it delivers."""
    subscription_id = core.subscribe(A)
    core.send(B, A, "announced")
    woken_upto = core.tip()
    core.send(B, A, "announced too late to matter", sentAt=ago(hours=3))
    queued = core.send(B, A, "queued in memory when it was stopped")
    cursor = core.tip()
    beyond = core.send(B, A, "never read by upstream", sentAt=ago(hours=3))
    taken = inherit(tmp_path, UpstreamState(LogId(cursor), {subscription_id: LogId(woken_upto)}))
    assert (taken.cursor, taken.unannounced) == (cursor, 1)
    assert await woken_after(tmp_path, core) == [queued, beyond]


@pytest.mark.anyio
async def test_messages_upstream_told_of_count_as_announced(core: MemoryCore, tmp_path: Path) -> None:
    """Newer upstreams keep the ids they told each identity of."""
    core.subscribe(A)
    told = core.send(B, A, "told")
    cursor = core.tip()
    taken = inherit(tmp_path, UpstreamState(LogId(cursor), {}, {Identity(A): (told,)}))
    assert (taken.cursor, taken.unannounced) == (cursor, 0)


@pytest.mark.parametrize("cursor", [None, 10_000])
def test_without_a_usable_cursor_the_takeover_begins_at_the_tip(
    core: MemoryCore, tmp_path: Path, cursor: int | None
) -> None:
    """Missing or above the tip → tip, with the look-back."""
    core.subscribe(A)
    core.send(B, A, "recent")
    taken = inherit(tmp_path, UpstreamState(None if cursor is None else LogId(cursor)))
    assert (taken.cursor, taken.unannounced) == (core.tip(), 1)


def test_a_whole_upstream_directory_is_read(tmp_path: Path) -> None:
    """`lastSyncId` and `woken-watermark.json`."""
    (tmp_path / "lastSyncId").write_text("347\n")
    marks: dict[str, Any] = {"WAKE_SUB:1": 335, "WAKE_SUB:2": 12, "__messageIdsByIdentity": {"@a": ["M1", "M2"]}}
    (tmp_path / "woken-watermark.json").write_text(json.dumps(marks))
    upstream_state, problems = read_upstream_state(tmp_path)
    assert problems == ()
    assert upstream_state.cursor == 347
    assert upstream_state.woken_upto == {"WAKE_SUB:1": 335, "WAKE_SUB:2": 12}
    assert upstream_state.messages == {"@a": ("M1", "M2")}


@pytest.mark.parametrize(
    "marks",
    [
        "{",
        "[]",
        "7",
        '{"WAKE_SUB:1":"x","WAKE_SUB:2":true,"__messageIdsByIdentity":[]}',
        "\x00",
        '{"__messageIdsByIdentity":{"a":1}}',
    ],
)
def test_a_damaged_upstream_directory_is_read_as_far_as_it_goes(tmp_path: Path, marks: str) -> None:
    """Corruption is said, and stops nothing."""
    (tmp_path / "lastSyncId").write_text("-3")
    (tmp_path / "woken-watermark.json").write_text(marks)
    upstream_state, problems = read_upstream_state(tmp_path)
    assert upstream_state == UpstreamState()
    assert problems[0].startswith("lastSyncId: it holds no number")


def test_an_empty_upstream_directory_says_so(tmp_path: Path) -> None:
    """Never silent."""
    assert read_upstream_state(tmp_path) == (UpstreamState(), ("lastSyncId: it is missing",))
    assert read_upstream_state(tmp_path / "none")[1] == ("lastSyncId: it is missing",)
