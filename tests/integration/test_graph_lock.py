"""One daemon per graph, whatever its environment and state directory: an OS lock beside all of them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wake_bridge.control.graph_lock import LOCK_DIRECTORY, GraphLock, daemon_of, graph_key
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.errors import AlreadyRunning, OperationFailed, RefusedForSafety

HOLDER = """
import sys
from pathlib import Path
from wake_bridge.control.graph_lock import GraphLock
lock = GraphLock(Path(sys.argv[1]), Path("/srv/first"), Path(sys.argv[2]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""
NOBODY = 65534


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A file to be locked: what is in it is no matter."""
    path = tmp_path / "graph.sqlite"
    path.write_bytes(b"")
    return path


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    """Where the locks lie; not made yet."""
    return tmp_path / "locks"


@contextmanager
def another_daemon(graph: Path, locks: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the lock until its stdin ends."""
    command = [sys.executable, "-c", HOLDER, str(graph), str(locks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_place_of_the_locks_depends_on_the_user_alone() -> None:
    """A directory that does not depend on the environment; tests use it too, for each graph has its own key."""
    asked = "from wake_bridge.control.graph_lock import LOCK_DIRECTORY; print(LOCK_DIRECTORY)"
    odd = {"HOME": "/", "TMPDIR": "/var/tmp", "XDG_RUNTIME_DIR": "/nowhere", "XDG_STATE_HOME": "/nowhere"}
    for environment in ({}, odd):
        answer = subprocess.run(
            [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True
        )
        assert answer.stdout.strip() == str(LOCK_DIRECTORY) == f"/tmp/wake-bridge-{os.geteuid()}"


@pytest.mark.parametrize("way", ["the same path", "a link", "a hard link"])
def test_a_second_daemon_is_refused_whatever_path_leads_to_the_graph(graph: Path, locks: Path, way: str) -> None:
    """The lock is the graph's, by device and inode; the error names pid and state directory, exit 5."""
    other = graph.with_name("other.sqlite")
    if way == "a link":
        other.symlink_to(graph)
    elif way == "a hard link":
        other.hardlink_to(graph)
    else:
        other = graph
    with GraphLock(graph, Path("/srv/first"), locks):
        with pytest.raises(
            AlreadyRunning, match=rf"pid {os.getpid()} on .* with the state directory /srv/first"
        ) as told:
            GraphLock(other, Path("/srv/second"), locks).acquire()
        assert told.value.exit_code == 5
        found = daemon_of(other, locks)
        assert found is not None
        assert (found.pid, found.state_dir, found.control_socket) == (
            os.getpid(),
            "/srv/first",
            "/srv/first/daemon.sock",
        )
    assert daemon_of(other, locks) is None


def test_a_lock_is_private_and_leaves_nothing_behind(graph: Path, locks: Path) -> None:
    """0700 and 0600; files do not pile up."""
    before = os.umask(0)
    try:
        with GraphLock(graph, Path("/srv/first"), locks):
            assert stat.S_IMODE(locks.stat().st_mode) == 0o700
            assert [stat.S_IMODE(one.stat().st_mode) for one in locks.iterdir()] == [0o600]
    finally:
        os.umask(before)
    assert list(locks.iterdir()) == []


def test_after_a_kill_the_next_daemon_starts_at_once_and_sweeps_what_others_left(graph: Path, locks: Path) -> None:
    """The kernel drops the lock with its process; a stale file is harmless."""
    gone = graph.with_name("gone.sqlite")
    gone.write_bytes(b"")
    with another_daemon(graph, locks) as first, another_daemon(gone, locks) as second:
        serving = [daemon_of(one, locks) for one in (graph, gone)]
        assert [one.pid for one in serving if one] == [first.pid, second.pid]
    assert [daemon_of(one, locks) for one in (graph, gone)] == [None, None]
    assert len(list(locks.iterdir())) == 2
    with GraphLock(graph, Path("/srv/second"), locks):
        assert [one.name for one in locks.iterdir()] == [f"{graph_key(graph)}.lock"]


def test_a_sweep_leaves_a_lock_that_is_held(graph: Path, locks: Path) -> None:
    """Two daemons for two graphs are welcome."""
    other = graph.with_name("other.sqlite")
    other.write_bytes(b"")
    with another_daemon(other, locks) as process, GraphLock(graph, Path("/srv/second"), locks):
        found = daemon_of(other, locks)
        assert found is not None
        assert found.pid == process.pid


def test_a_replaced_graph_is_locked_again_and_the_old_one_given_up(graph: Path, locks: Path) -> None:
    """Locked again when the inode changes."""
    with GraphLock(graph, Path("/srv/first"), locks) as lock:
        shutil.copy(graph, graph.with_name("new.sqlite"))
        graph.with_name("new.sqlite").replace(graph)
        assert daemon_of(graph, locks) is None
        assert lock.rival() is None
        assert daemon_of(graph, locks) is not None
        assert [one.name for one in locks.iterdir()] == [f"{graph_key(graph)}.lock"]


def test_whoever_was_first_at_a_replaced_graph_is_the_rival_until_it_ends(graph: Path, locks: Path) -> None:
    """Two drivers never serve one graph, however they came to it."""
    with GraphLock(graph, Path("/srv/first"), locks) as lock:
        shutil.copy(graph, graph.with_name("new.sqlite"))
        graph.with_name("new.sqlite").replace(graph)
        with another_daemon(graph, locks) as process:
            rival = lock.rival()
            assert rival is not None
            assert rival.told.startswith(f"another wake-bridge: pid {process.pid} ")
            assert rival.cause is Cause.ANOTHER_WAKE_BRIDGE
        assert lock.rival() is None


def test_whoever_was_refused_is_told_so_again_without_waiting(
    graph: Path, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked before each wake, on the event loop: a thousand held wakes must not stop it for a minute."""
    lock = GraphLock(graph, Path("/srv/second"), locks)
    with another_daemon(graph, locks):
        assert lock.rival()
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
            assert lock.rival()
    assert lock.rival() is None
    lock.release()


def test_a_lock_that_was_cleaned_away_is_taken_again(graph: Path, locks: Path) -> None:
    """Systems remove old files from /tmp."""
    with GraphLock(graph, Path("/srv/first"), locks) as lock:
        lock.stay()
        shutil.rmtree(locks)
        assert daemon_of(graph, locks) is None
        assert lock.rival() is None
        assert daemon_of(graph, locks) is not None


def test_a_graph_that_comes_later_is_locked_when_it_does(tmp_path: Path, locks: Path) -> None:
    """What is not there cannot be locked, and need not be."""
    graph = tmp_path / "later.sqlite"
    with GraphLock(graph, Path("/srv/first"), locks) as lock:
        assert lock.rival() is None
        graph.write_bytes(b"")
        assert lock.rival() is None
        assert daemon_of(graph, locks) is not None


def test_a_directory_for_locks_that_others_could_write_is_refused_and_left_as_it_is(graph: Path, locks: Path) -> None:
    """SECURITY.md: whoever could take a lock away, or keep one, decides which daemons run."""
    elsewhere = locks.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)

    def refused(why: str) -> None:
        with pytest.raises(RefusedForSafety, match=why) as told:
            GraphLock(graph, Path("/srv/first"), locks).acquire()
        assert told.value.hint
        assert list(elsewhere.iterdir()) == []

    locks.symlink_to(elsewhere)
    refused("is a link or a file")
    locks.unlink()
    locks.mkdir()
    locks.chmod(0o770)
    refused("is open to others")
    assert stat.S_IMODE(locks.stat().st_mode) == 0o770
    if os.geteuid() == 0:
        locks.chmod(0o700)
        os.chown(locks, NOBODY, NOBODY)
        refused("belongs to another user")


def test_a_link_at_the_name_of_a_lock_leads_nowhere(graph: Path, locks: Path) -> None:
    """SECURITY.md: a planted link is not written through."""
    victim = locks.with_name("victim")
    victim.write_text("somebody's only copy")
    locks.mkdir(mode=0o700)
    (locks / f"{graph_key(graph)}.lock").symlink_to(victim)
    with pytest.raises(OperationFailed, match="cannot be locked"):
        GraphLock(graph, Path("/srv/first"), locks).acquire()
    assert victim.read_text() == "somebody's only copy"


def test_where_nothing_can_be_locked_it_says_so(graph: Path, locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system without locks no daemon starts, for it could be the second one."""

    def none_here(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    lock = GraphLock(graph, Path("/srv/first"), locks)
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", none_here)
        with pytest.raises(OperationFailed, match=r"cannot be locked \(No locks available\)") as told:
            lock.acquire()
        assert "/tmp is a local directory" in told.value.hint
        rival = lock.rival()
        assert rival is not None
        assert rival.told.startswith("the graph cannot be locked: ")
        assert rival.cause is Cause.GRAPH_NOT_LOCKED
    lock.acquire()
    assert lock.rival() is None
    lock.release()


def test_a_lock_that_cannot_be_signed_is_no_lock(graph: Path, locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of /tmp is full: that holds the wakes and is said, and ends no job; with room again it is taken."""

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    lock = GraphLock(graph, Path("/srv/first"), locks)
    with monkeypatch.context() as patch:
        patch.setattr("wake_bridge.control.graph_lock.write_holder", no_room)
        with pytest.raises(OperationFailed, match=r"cannot be locked \(No space left on device\)"):
            lock.acquire()
        rival = lock.rival()
        assert rival is not None
        assert "No space left" in rival.told
    assert daemon_of(graph, locks) is None
    assert lock.rival() is None
    lock.release()
