"""What one failed operation used to leave behind for good; each test is a fault that was found by failing every operation."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.errors import LedgerUnwritable
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, LogId
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.engine.deliver import delivery_loop as deliver_module
from wake_bridge.engine.deliver.delivery_loop import Deliverer
from wake_bridge.engine.presence.adapter_calls import AdapterCalls
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.ports.adapter import AdapterContext, Nowhere, Place
from wake_bridge.ports.change_log import Published
from wake_bridge.ports.ledger_records import PageRecord, Position
from wake_bridge.storage.graph.upstream import LastSyncId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.database import Database
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import advance, counted_ids, fresh_ledger, sample_event
from wake_bridge.testing.memory_adapter import ImaginedAgent, MemoryAdapter, MemoryConfig
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tail_rig import TailRig

A = "@a"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A graph in which one identity is woken for mail."""
    path = tmp_path / "graph.sqlite"
    with MemoryCore.create(path, [A, "@b"]) as core:
        core.subscribe(A)
    return path


def _away(*_: object) -> Any:
    raise LedgerUnwritable("the disk is gone", "state.sqlite", hint="wait")


# -- the ledger is away --------------------------------------------------------------------------------------------------


def test_a_ledger_that_cannot_even_be_read_after_a_failed_commit_loses_no_row(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """README, the promise: rows whose commit failed are read again, also where the stored place cannot be asked for."""

    async def scenario() -> int:
        async with TailRig(graph, tmp_path / "state") as rig:
            with monkeypatch.context() as trouble:
                trouble.setattr(rig.ledger, "advance", _away)
                trouble.setattr(rig.ledger, "position", _away)
                with MemoryCore(graph) as core:
                    core.send("@b", A, "while the disk is gone")
                await rig.until(lambda: bool(rig.tail.away))
            await rig.until(lambda: not rig.tail.away)
            with MemoryCore(graph) as core:
                core.send("@b", A, "afterwards")
            with suppress(TimeoutError):
                await rig.until(lambda: len(rig.woken) == 2, 5)
            return len(rig.woken)

    assert asyncio.run(scenario()) == 2


def test_events_of_a_commit_that_was_reported_as_failed_are_delivered_all_the_same(graph: Path, tmp_path: Path) -> None:
    """README, the promise: whoever delivers is told of what is in the ledger, though nobody heard of its commit."""

    async def scenario() -> int:
        async with TailRig(graph, tmp_path / "state") as rig:
            advance_of = rig.ledger.advance

            def unsaid(page: PageRecord, now: Instant) -> list[WakeEvent]:
                done = advance_of(page, now)
                if page.events:
                    rig.ledger.advance = advance_of  # type: ignore[method-assign]
                    _away()
                return done

            rig.ledger.advance = unsaid  # type: ignore[method-assign]
            with MemoryCore(graph) as core:
                core.send("@b", A, "stored, and said to have failed")
            await rig.until(lambda: bool(rig.tail.away))
            await rig.until(lambda: not rig.tail.away)
            return rig.nudges

    assert asyncio.run(scenario()) >= 1


def test_an_event_that_nobody_told_of_is_gathered_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """README, the promise: a poke that was lost, of a command or of the tail, only delays."""
    monkeypatch.setattr(deliver_module, "LONGEST_SLEEP", 0.1)

    async def scenario(ledger: LedgerStore) -> int:
        no_gate: Any = None
        deliverer = Deliverer(ledger, no_gate, Current(EngineSettings()), SteadyClock(), counted_ids())
        loop = asyncio.create_task(deliverer.run())
        await asyncio.sleep(0.05)
        advance(ledger, sample_event(1, window=300, matched_at=SteadyClock().now()))
        async with asyncio.timeout(HUNG):
            while not ledger.unsettled():  # noqa: ASYNC110 - what is waited for is in a file
                await asyncio.sleep(0.02)
        loop.cancel()
        return len(ledger.unsettled())

    with fresh_ledger(tmp_path) as ledger:
        assert asyncio.run(scenario(ledger)) == 1


class OnceWithoutRollback:
    """A connection that refuses one COMMIT, and the ROLLBACK after it."""

    def __init__(self, path: Path) -> None:
        self._origin = sqlite3.connect(path, isolation_level=None)
        self._origin.row_factory = sqlite3.Row
        self.refuses = {"COMMIT", "ROLLBACK"}

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        if statement in self.refuses:
            self.refuses.discard(statement)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return self._origin.execute(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._origin, name)


def test_a_rollback_that_fails_as_well_stops_no_later_transaction(tmp_path: Path) -> None:
    """Short transactions; one whose end was refused twice must not keep the file locked for ever."""
    connection: Any = OnceWithoutRollback(tmp_path / "any.sqlite")
    database = Database(connection, "any.sqlite")
    database.change("CREATE TABLE thing (name TEXT)")
    with pytest.raises(LedgerUnwritable), database.transaction():
        database.change("INSERT INTO thing VALUES ('refused')")
    assert database.rows("SELECT name FROM thing") == [], "read in a transaction that was never committed"
    with database.transaction():
        database.change("INSERT INTO thing VALUES ('kept')")
    assert [row["name"] for row in database.rows("SELECT name FROM thing")] == ["kept"]
    database.close()


# -- lastSyncId ----------------------------------------------------------------------------------------------------------


def test_a_cursor_that_could_not_be_published_is_published_without_a_new_row(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pruner reads our cursor from lastSyncId; one refused write must not leave it behind all night."""

    async def scenario() -> tuple[Published | str | None, LogId]:
        async with TailRig(graph, tmp_path / "state") as rig:
            with monkeypatch.context() as trouble:
                trouble.setattr(rig.cursor_file, "write", _away)
                with MemoryCore(graph) as core:
                    core.send("@b", A, "the last of the day")
                await rig.until(lambda: bool(rig.woken))
                await rig.reaches(rig.tail.tip)
                cursor = rig.tail.cursor

            def is_published() -> bool:
                published = rig.cursor_file.read()
                return isinstance(published, Published) and published.cursor == cursor

            await rig.until(is_published, 5)
            return rig.cursor_file.read(), cursor

    published, cursor = asyncio.run(scenario())
    assert isinstance(published, Published)
    assert published.cursor == cursor


@pytest.mark.parametrize("content", ["", "no number", "1", None], ids=["empty", "noise", "behind", "missing"])
def test_a_published_cursor_that_was_spoiled_is_put_right_without_a_new_row(
    graph: Path, tmp_path: Path, content: str | None
) -> None:
    """The pruner goes by lastSyncId, so a restart leaves no wrong one behind (found by `FollowedLog`)."""

    async def scenario() -> str:
        for spoil in (False, True):
            path = tmp_path / "state" / "lastSyncId"
            if spoil and content is None:
                path.unlink()
            elif spoil and content is not None:
                path.write_text(content)
            rig = TailRig(graph, tmp_path / "state", hints=False)
            try:
                await rig.tail.catch_up_once()
            finally:
                cursor = rig.tail.cursor
                await rig.close()
        return f"{path.read_text()} of {int(cursor)}"

    said = asyncio.run(scenario())
    published, _, cursor = said.partition(" of ")
    assert published == cursor


def test_half_a_cursor_is_never_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may take a part of a number; what was published before stays."""
    file = LastSyncId(tmp_path)
    file.write(Published(LogId(1234), EPOCH_START))
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[: len(text) // 2]))
    with pytest.raises(LedgerUnwritable):
        file.write(Published(LogId(5678), EPOCH_START))
    monkeypatch.undo()
    published = file.read()
    assert isinstance(published, Published)
    assert published.cursor == 1234


# -- an adapter that breaks its promise ------------------------------------------------------------------------------------


class Broken(MemoryAdapter):
    """Does whatever it is told instead of looking."""

    instead: Callable[[], Any]

    async def resolve(self, address: Address) -> Place | Nowhere:
        await self.instead()
        return await super().resolve(address)

    async def survey(self, places: Sequence[Place]) -> Any:
        await self.instead()
        return await super().survey(places)

    async def observe(self, place: Place, address: Address) -> Any:
        await self.instead()
        return await super().observe(place, address)


async def _hangs() -> None:
    await asyncio.Event().wait()


async def _raises() -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("instead", "told"), [(_hangs, "did not answer in time"), (_raises, "a bug")], ids=["hangs", "raises"]
)
def test_an_adapter_that_breaks_its_promise_holds_its_own_wakes_and_stops_nobody(
    instead: Callable[[], Any], told: str
) -> None:
    """Ports, adapter: every call is bounded and never raises; one that does not keep it is unreachable, and no more."""
    clock = SteadyClock()
    adapter = Broken(MemoryConfig(), AdapterContext(10, 10, "", {}, clock))
    adapter.agents["a"] = ImaginedAgent()
    adapter.instead = instead
    address = Address(Identity(A), suggested="a")

    async def scenario() -> tuple[Any, Any, Any]:
        looks = AdapterCalls(Current(EngineSettings(lease_ms=50)), clock)
        place = Place(key="a", label="a", fence=None)
        async with asyncio.timeout(HUNG):
            return (
                await looks.resolve(adapter, address),
                await looks.survey(adapter, [place]),
                await looks.observe(adapter, place, address),
            )

    found, pulses, seen = asyncio.run(scenario())
    assert isinstance(found, Nowhere)
    assert found.reason is HoldReason.UNREACHABLE
    assert told in found.detail
    assert pulses == {}
    vote = single_vote(seen.evidence)
    assert (vote.vote, vote.hold) == (PresenceState.UNKNOWN, HoldReason.UNREACHABLE)


def test_the_place_before_the_first_row_is_gone_back_to_as_well(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart the stored place is the ledger's, whatever fails next."""

    async def place_after_trouble() -> tuple[Position | None, int]:
        async with TailRig(graph, tmp_path / "state") as rig:
            await rig.reaches(rig.tail.tip)
        async with TailRig(graph, tmp_path / "state") as rig:
            with monkeypatch.context() as trouble:
                trouble.setattr(rig.ledger, "advance", _away)
                with MemoryCore(graph) as core:
                    core.send("@b", A, "right after the start")
                await rig.until(lambda: bool(rig.tail.away))
            await rig.until(lambda: bool(rig.woken))
            return rig.ledger.position(), len(rig.woken)

    place, woken = asyncio.run(place_after_trouble())
    assert place is not None
    assert woken == 1
