"""One instance by an OS lock held for life; a second says who holds it and exits; it kills nobody."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wake_bridge.control.instance_lock import InstanceLock, daemon_is_running, holder, liveness
from wake_bridge.domain.errors import AlreadyRunning, LedgerUnwritable

HOLDER = """
import sys
from pathlib import Path
from wake_bridge.control.instance_lock import InstanceLock
lock = InstanceLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_instance_names_the_first_and_leaves_it_alone(tmp_path: Path) -> None:
    """The error names pid and host, exit 5."""
    with InstanceLock(tmp_path):
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()} on {socket.gethostname()} since ") as caught:
            InstanceLock(tmp_path).acquire()
        assert caught.value.exit_code == 5
        assert daemon_is_running(tmp_path)


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    """After SIGKILL the next instance starts; a stale name in the file stops nobody."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == process.pid
        process.kill()
    assert holder(tmp_path) is None
    assert json.loads((tmp_path / "daemon.lock").read_text())["pid"] == process.pid
    with InstanceLock(tmp_path):
        now = holder(tmp_path)
        assert now is not None
        assert now.pid == os.getpid()


def test_an_empty_lock_file_stops_nobody(tmp_path: Path) -> None:
    """An OS lock held for life; a crash while the file was written leaves only a name."""
    (tmp_path / "daemon.lock").touch()

    assert liveness(tmp_path) == "no"
    with InstanceLock(tmp_path):
        assert liveness(tmp_path) == "yes"


def test_asking_who_holds_it_never_takes_it(tmp_path: Path) -> None:
    """A command's question must not make a starting daemon believe in a rival."""
    assert holder(tmp_path) is None
    assert not (tmp_path / "daemon.lock").exists()
    with InstanceLock(tmp_path):
        pass
    assert liveness(tmp_path) == "no"
    with InstanceLock(tmp_path):
        assert liveness(tmp_path) == "yes"


def test_a_lock_whose_file_was_deleted_is_taken_anew_as_soon_as_it_can_be(tmp_path: Path) -> None:
    """One refusal is not the last word."""
    with InstanceLock(tmp_path) as lock:
        (tmp_path / "daemon.lock").unlink()
        with InstanceLock(tmp_path), pytest.raises(AlreadyRunning):
            lock.stay()
        assert not daemon_is_running(tmp_path)
        lock.stay()
        assert daemon_is_running(tmp_path)
    assert not daemon_is_running(tmp_path)


def test_the_lock_file_is_private(tmp_path: Path) -> None:
    """0600, under any umask."""
    old = os.umask(0)
    try:
        with InstanceLock(tmp_path):
            assert stat.S_IMODE((tmp_path / "daemon.lock").stat().st_mode) == 0o600
    finally:
        os.umask(old)


def test_a_state_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """An unwritable state directory is told, with what to do."""
    file = tmp_path / "not-a-directory"
    file.write_text("")
    with pytest.raises(LedgerUnwritable, match="cannot be written"):
        InstanceLock(file).acquire()


def test_what_cannot_be_told_is_not_claimed(tmp_path: Path) -> None:
    """`status`: running is yes, no or cannot_tell."""
    (tmp_path / "daemon.lock").symlink_to("daemon.lock")
    assert liveness(tmp_path) == "cannot_tell"
    assert not daemon_is_running(tmp_path)
