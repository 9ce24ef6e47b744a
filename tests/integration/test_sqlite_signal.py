"""Hints: they come when something is written, cost nothing when not, and nobody depends on them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wake_bridge.ports.change_log import ChangeSignal
from wake_bridge.storage.graph import signal as inotify_signal
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.signal import InotifySignal, SilentSignal, WatchfilesSignal, signal_for
from wake_bridge.testing import HUNG
from wake_bridge.testing.memory_core import MemoryCore, MemoryCoreProcess
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
KINDS = [pytest.param(InotifySignal, marks=LINUX), WatchfilesSignal]
Make = Callable[[Path, Callable[[str], None]], ChangeSignal]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "graph.sqlite"
    MemoryCore.create(path, ["@a", "@b"]).close()
    return path


@pytest.mark.parametrize("make", KINDS)
async def test_a_commit_of_another_process_is_hinted_at(path: Path, make: Make) -> None:
    """Watch the directory; a commit appends to the WAL."""
    complaints: list[str] = []
    signal = make(path, complaints.append)
    with MemoryCoreProcess(path) as core:
        core.do("tip")
        await signal.wait(0.3)
        for _ in range(3):
            core.start("noise", 1)
            assert await signal.wait(5)
            core.finish()
            await signal.wait(0.3)
        assert not await signal.wait(0.2), "silence is no hint"
        touch(path.with_name("graph.sqlite.unrelated"))
        assert not await signal.wait(0.2), "other files are no hint"
    await signal.close()
    assert complaints == []


def touch(path: Path) -> None:
    path.write_text("x")


@pytest.mark.parametrize("make", KINDS)
async def test_reading_gives_no_hints(path: Path, make: Make) -> None:
    """A reader on a held connection must not wake itself."""
    graph = SqliteGraph(path)
    with MemoryCore(path) as core:
        core.noise(1)
        graph.version()
        signal = make(path, print)
        await signal.wait(0.3)
        for _ in range(20):
            graph.bounds()
            graph.version()
        assert not await signal.wait(0.2)
        await signal.close()
    graph.close()


@pytest.mark.parametrize("make", KINDS)
async def test_a_directory_that_cannot_be_watched_is_reported_once_and_never_hinted_at(
    tmp_path: Path, make: Make
) -> None:
    """Only a hint: without one the tail looks every `poll_interval`."""
    complaints: list[str] = []
    signal = make(tmp_path / "none/graph.sqlite", complaints.append)
    await signal.wait(0.1)
    for _ in range(3):
        assert not await signal.wait(0.05)
    await signal.close()
    assert len(complaints) == 1
    assert "none" in complaints[0]


@LINUX
async def test_a_directory_that_comes_back_is_watched_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph may be away for a while."""
    monkeypatch.setattr(inotify_signal, "RETRY_AFTER", 0.0)
    directory = tmp_path / "later"
    signal = InotifySignal(directory / "graph.sqlite", print)
    assert not await signal.wait(0.05)
    fill(path, directory)
    await signal.wait(0.05)
    with MemoryCore(directory / "graph.sqlite") as core:
        core.noise(1)
        assert await signal.wait(5)
    await signal.close()


def fill(path: Path, directory: Path) -> None:
    directory.mkdir()
    path.rename(directory / "graph.sqlite")


async def test_a_link_leads_to_the_files_own_directory(path: Path, tmp_path: Path) -> None:
    """SQLite keeps the WAL beside the file itself, not beside the link."""
    elsewhere = link_to(path, tmp_path / "elsewhere")
    signal = signal_for(elsewhere, print, enabled=True)
    with MemoryCore(path) as core:
        core.noise(1)
        await signal.wait(0.3)
        core.noise(1)
        assert await signal.wait(5) or isinstance(signal, SilentSignal)
    await signal.close()


def link_to(path: Path, directory: Path) -> Path:
    directory.mkdir()
    (directory / "graph.sqlite").symlink_to(path)
    return directory / "graph.sqlite"


async def test_hints_can_be_had_or_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`graph.watch` gives hints; macOS reports no WAL writes."""
    assert isinstance(signal_for(path, print, enabled=False), SilentSignal)
    for platform, kind in (("darwin", SilentSignal), ("linux", InotifySignal), ("freebsd14", WatchfilesSignal)):
        monkeypatch.setattr(sys, "platform", platform)
        assert isinstance(signal_for(path, print, enabled=True), kind)


async def test_without_hints_nothing_is_missed(path: Path, tmp_path: Path) -> None:
    """Watchfiles is only a hint and never gates a read."""
    with MemoryCoreProcess(path) as core:
        core.do("subscribe", "@a")
        async with TailRig(path, tmp_path / "state", hints=False, poll_interval=0.2) as rig:
            sent = []
            for number in range(10):
                sent.append(core.do("send", "@b", "@a", f"mail {number}"))
                await asyncio.sleep(0.05)
            await rig.until(lambda: len(rig.woken) == 10)
            assert [event.subject_key for event in rig.woken] == sent


@pytest.mark.parametrize("make", KINDS)
async def test_a_new_watch_hints_at_what_it_may_have_missed(path: Path, make: Make) -> None:
    """Between the last look and the start of the watch something may have been written."""
    signal = make(path, print)
    assert await signal.wait(5)
    assert not await signal.wait(0.2)
    await signal.close()


@LINUX
async def test_with_hints_nobody_waits_for_the_next_look(path: Path, tmp_path: Path) -> None:
    """After a hint look at once, and at 5, 20 and 60 ms."""
    with MemoryCoreProcess(path) as core:
        core.do("subscribe", "@a")
        async with TailRig(path, tmp_path / "state", poll_interval=10 * HUNG) as rig:
            await rig.reaches(core.do("tip"))
            for number in range(10):
                core.do("send", "@b", "@a", f"mail {number}")
                await rig.until(lambda number=number: len(rig.woken) == number + 1)  # type: ignore[misc]


async def test_a_poke_is_as_good_as_a_hint(path: Path, tmp_path: Path) -> None:
    """Commands that changed something poke the daemon."""
    with MemoryCoreProcess(path) as core:
        core.do("subscribe", "@a")
        async with TailRig(path, tmp_path / "state", hints=False, poll_interval=10 * HUNG) as rig:
            await rig.until(rig.is_at_the_tip)
            core.do("send", "@b", "@a", "mail")
            rig.tail.poke()
            await rig.until(lambda: bool(rig.woken))
