"""State directory, embedded graph and configuration: removed so far as they are ours, and never anything of others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import OperationFailed, SourceError
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.configuration.paths import APPLICATION, default_config_file
from wake_bridge.edges.graph.graph_file import GraphFile
from wake_bridge.edges.service.last_look import LAST_LOOK_FILE
from wake_bridge.edges.service.setup_record import SetupRecord, read_record
from wake_bridge.leaving.account import Account

OURS: Final = (
    "state.sqlite*",
    "daemon.lock",
    "daemon.sock",
    "wake-bridge.log*",
    "service.stderr.log",
    "setup.json",
    "agent_files.json",
    "settings.json",
    LAST_LOOK_FILE,
)
"""What only wake-bridge puts into a state directory."""

SHARED: Final = ("lastSyncId", "heartbeat.alive")
"""What the upstream daemon names alike: in a directory that holds files of others it may be theirs."""


def purge(settings: Settings, account: Account) -> None:
    """Remove what is ours; what is not, or may not be, stays and is named."""
    record = read_record(settings.state_dir)
    with account.step():
        _graph(settings.graph_path, account)
    with account.step():
        _configuration(settings, record, account)
    if settings.own_screens.is_dir():
        account.stays.append(f"your own screen profiles: {settings.own_screens}")
    # the record lies in it: it goes last
    with account.step():
        _state(settings.state_dir, account)
    if not account.dry_run:
        _leave_empty(map(Path, reversed(record.directories)))


def remaining(settings: Settings) -> list[str]:
    """What stays where nothing is purged."""
    places = {
        "state (deliveries, cursor, log)": settings.state_dir,
        "graph (identities, mail)": settings.graph_path,
        "configuration": settings.config_file,
    }
    return [f"{what}: {path}" for what, path in places.items() if path.exists()]


def _graph(path: Path, account: Account) -> None:
    if not path.exists():
        return
    if not _is_embedded(path):
        account.stays.append(f"the graph, for another program made it: {path}")
        return
    _remove([path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))], account)
    account.done.append(f"{'remove' if account.dry_run else 'removed'} the graph with all mail: {path}")
    _leave_ours(path.parent, account)


def _is_embedded(path: Path) -> bool:
    try:
        with GraphFile(path) as graph:
            return bool(graph.is_embedded)
    except SourceError:
        return False


def _configuration(settings: Settings, record: SetupRecord, account: Account) -> None:
    file = settings.config_file
    if not file.exists():
        return
    if file != default_config_file() and not (record.config_made and str(file) == record.config):
        account.stays.append(f"the configuration, for you chose its place: {file}")
        return
    _remove([file], account)
    account.done.append(f"{'remove' if account.dry_run else 'removed'} the configuration: {file}")
    _leave_ours(file.parent, account)


def _state(directory: Path, account: Account) -> None:
    if not directory.is_dir():
        return
    there = sorted(directory.iterdir())
    ours = [file for file in there if any(fnmatch(file.name, pattern) for pattern in OURS)]
    shared = [file for file in there if file.name in SHARED]
    foreign = [file.name for file in there if file not in ours and file not in shared]
    _remove([*ours, *([] if foreign else shared)], account)
    account.done.append(f"{'remove' if account.dry_run else 'removed'} the state: {directory}")
    if foreign:
        left = ", ".join([*foreign[:3], *(["…"] if len(foreign) > 3 else [])])  # noqa: PLR2004 - enough to recognise it
        account.stays.append(f"the state directory, for it holds what is not ours ({left}): {directory}")
    elif not account.dry_run:
        _leave_empty([directory])


def _remove(files: Iterable[Path], account: Account) -> None:
    if account.dry_run:
        return
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as refusal:
            raise OperationFailed(f"the file cannot be removed ({refusal.strerror})", str(file)) from refusal


def _leave_ours(directory: Path, account: Account) -> None:
    """A directory called after us goes when nothing is left in it."""
    if directory.name == APPLICATION and not account.dry_run:
        _leave_empty([directory])


def _leave_empty(directories: Iterable[Path]) -> None:
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()
