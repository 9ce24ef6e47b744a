"""Everything that wake-bridge creates is its owner's alone, with the widest umask there is."""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.storage import logs
from wake_bridge.storage.daemon_log import FILES, LOG_FILE_NAME
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.ledger_file import MIGRATIONS
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.recorded_programs import RecordedPrograms

FOR_ALL_TO_READ = {"AGENTS.md", "wake-bridge.service"}
"""What other programs must find: nobody but the owner may write it."""


@pytest.fixture
def wide_open() -> Iterator[None]:
    """A umask that takes nothing away, for this process and all that it starts."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def world(
    wide_open: None,  # noqa: ARG001 - asked for what it does
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[Playground]:
    """A playground whose tmux directory nobody else uses, with no configuration yet."""
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMUX_TMPDIR", directory)
        with Playground(tmp_path, program) as made:
            made.sandbox.config_file.unlink()
            made.sandbox.config_file.parent.rmdir()
            made.sandbox.config_file.parent.parent.rmdir()
            made.sandbox.environment |= {
                "WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME": made.tmux.socket_name,
                "WAKE_BRIDGE_COALESCE_REFRACTORY": "0",
                "WAKE_BRIDGE_DAEMON_LOG_FILE": str(made.sandbox.state_dir / LOG_FILE_NAME),
            }
            yield made


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def created(home: Path, before: set[Path]) -> dict[Path, int]:
    """What is new below `home`, with its permission bits; the test's own log of the daemon is not."""
    found = {path: mode_of(path) for path in home.rglob("*") if path not in before and not path.is_symlink()}
    return {path: mode for path, mode in found.items() if path.parent != home or path.suffix != ".log"}


def too_open(found: dict[Path, int]) -> dict[str, str]:
    """Those that others may do more with than they must."""
    public = {path for path in found if path.name in FOR_ALL_TO_READ}
    on_the_way = {parent for path in public for parent in path.parents}
    wrong: dict[str, str] = {}
    for path, mode in found.items():
        allowed = 0o755 if path in on_the_way else 0o644 if path in public else 0o700 if path.is_dir() else 0o600
        if mode & ~allowed:
            wrong[str(path)] = f"{mode:04o}"
    return wrong


def test_all_that_a_whole_day_creates_is_its_owners_alone_under_umask_000(world: Playground, tmp_path: Path) -> None:
    """0600/0700 under umask 000, for every file of every command that makes one."""
    if sys.platform != "linux":
        pytest.skip("the service is installed for systemd")
    box = world.sandbox
    room = box.home / "room"
    room.mkdir()
    programs_directory = tmp_path / "bin"
    programs_directory.mkdir()
    programs = RecordedPrograms(programs_directory, "systemctl", "loginctl")
    before = set(box.home.rglob("*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(room)
        agent = world.agent("agent")
    box.run("init")
    box.run("setup", "--yes", "--write-instructions")
    identity = box.lines("panes")[0]["agentIdentity"]
    box.daemon()
    box.run("wake", identity, "look")
    box.waits_for_delivery(state="DELIVERED")
    box.waits_for((box.state_dir / "heartbeat.alive").exists, what="a sign of life")
    box.run("screens", "capture", agent.id, "--output", str(box.home / "capture.json"))
    box.run("status")
    (box.state_dir / "last-look").unlink(missing_ok=True)
    box.run("service", "install", "--force", environment={"PATH": programs.path(box.environment)}, expect=None)

    found = created(box.home, before)

    names = {path.name for path in found}
    expected = {
        "config.toml",
        "graph.sqlite",
        "graph.sqlite-wal",
        "state.sqlite",
        "state.sqlite-wal",
        "state.sqlite-shm",
    }
    expected |= {"lastSyncId", "heartbeat.alive", "daemon.lock", "daemon.sock", "setup.json", "agent_files.json"}
    expected |= {"wake-bridge.log", "AGENTS.md", "capture.json"}
    assert expected - names == set()
    assert too_open(found) == {}


def test_rotated_logs_copies_of_the_ledger_and_profiles_are_private_too(
    wide_open: None,  # noqa: ARG001 - asked for what it does
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rotations, backups before a migration and damaged ledgers set aside as well."""
    monkeypatch.setattr(logs, "FILE_SIZE", 200)
    handler = logs._rotated(tmp_path / "logs" / "wake-bridge.log")
    for number in range(40):
        handler.emit(logging.LogRecord("x", logging.INFO, "x", 1, f"line {number} " + "x" * 40, None, None))
    handler.close()
    LedgerStore.open(tmp_path / "old", migrations=MIGRATIONS[:1]).close()
    LedgerStore.open(tmp_path / "old").close()
    LedgerStore.open(tmp_path / "damaged").close()
    (tmp_path / "damaged" / "state.sqlite").write_bytes(b"no ledger" * 1000)
    LedgerStore.open(tmp_path / "damaged").close()

    found = {path: mode_of(path) for path in tmp_path.rglob("*")}

    assert len([path for path in found if path.parent.name == "logs"]) == FILES
    assert len([path for path in found if ".before-v" in path.name]) == 1
    assert len([path for path in found if ".corrupt-" in path.name]) == 1
    assert too_open(found) == {}
