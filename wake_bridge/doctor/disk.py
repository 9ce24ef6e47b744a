"""Checks configuration, graph and state directory: readable, private, on a disk with space, and up to date."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psutil

from wake_bridge.config.settings import HTTP_NEEDS, Settings, listen_address, senders_of
from wake_bridge.config.source_tokens import SourceTokens
from wake_bridge.control.serving import serving
from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.domain.errors import ConfigurationInvalid, WakeBridgeError
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.guards import QuietHours
from wake_bridge.domain.signed_wakes import NO_GRAPH
from wake_bridge.storage.daemon_log import FILE_SIZE, FILES, LOG_FILE_NAME
from wake_bridge.storage.graph.signal import why_it_cannot_be_watched
from wake_bridge.storage.graph.status import graph_status
from wake_bridge.storage.graph.upstream import CURSOR_FILE
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.database import NO_ROOM

NETWORK: Final = frozenset(
    {
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "afpfs",
        "webdav",
        "davfs",
        "ceph",
        "glusterfs",
        "lustre",
    }
    | {"beegfs", "afs", "drvfs", "fuse.sshfs", "fuse.rclone", "fuse.glusterfs", "fuse.davfs2", "fuse.s3fs", "macfuse"}
)


def network_file_system(path: Path) -> str:
    """Name the network file system a path lies, or would lie, on, with its mount point; empty for a local one."""
    real = path.resolve()
    holding = [one for one in psutil.disk_partitions(all=True) if real.is_relative_to(one.mountpoint)]
    mount = max(holding, key=lambda one: len(one.mountpoint), default=None)
    if mount is None or mount.fstype.lower() not in NETWORK:
        return ""
    return f"{mount.fstype}, mounted at {mount.mountpoint}"


def nearest_that_exists(path: Path) -> Path:
    """The path, or the first of its parents that is there."""
    return next(one for one in (path, *path.parents) if one.exists())


def configuration(settings: Settings) -> Finding:
    """Which file is in force. That it is valid was seen before."""
    read = ", ".join(str(path) for path in settings.source_files)
    return well("configuration", read or f"defaults; there is no {settings.config_file}")


def locale_in_force() -> Finding:
    """Agents that were started in another locale than a UTF-8 one draw other signs than their profiles know."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = os.environ.get(name)
        if value:
            if value.lower().replace("-", "").endswith("utf8"):
                return well("locale", f"{name}={value}")
            return ill(
                "locale", f"{name}={value} is not a UTF-8 locale", "set LANG to one such as C.UTF-8, and restart agents"
            )
    return untold("locale", "none is set; tmux chooses a UTF-8 one by itself", "set LANG to one such as C.UTF-8")


def screen_profiles(settings: Settings, error: ConfigurationInvalid | None = None) -> Finding:
    """Whether every profile can be used; `error` is what an adapter said of them."""
    if error is None:
        return well(
            "profiles",
            f"the bundled ones and {settings.screens_directory}" if settings.screens_directory else "the bundled ones",
        )
    return ill("profiles", "; ".join(error.problems) or str(error), error.hint)


def quiet_hours(settings: Settings) -> Finding:
    """Whether wakes are held now because it is night."""
    text = settings.config.policy.quiet_hours
    span = QuietHours.parse(text)
    local = datetime.now(UTC).astimezone()
    left = span.minutes_left(local.hour * 60 + local.minute) if span else 0
    if left:
        hint = "nothing is lost; policy.quiet_hours says when"
        return untold("quiet hours", f"every wake is held for {left} more minutes ({text}, it is {local:%H:%M})", hint)
    return well("quiet hours", f"not now ({text})" if text else "none")


UPSTREAM_DATA: Final = ".neo-ai-data"
PRUNERS_VARIABLES: Final = ("NEO_BRIDGE_LAST_SYNC_ID_PATH", "NEO_AI_DAEMON_DIR")


def graph(settings: Settings) -> list[Finding]:
    """Readable, in WAL mode, with somebody who is to be woken."""
    seen = graph_status(settings)
    if not settings.has_graph:
        return [well("graph", NO_GRAPH)]
    if seen.trouble:
        return [ill("graph", seen.trouble, seen.hint or "`wake-bridge setup` or `init` makes one")]
    kind = "embedded" if seen.embedded else "foreign (another program's)"
    findings = [well("graph", f"{settings.graph_place}, {kind}, log at {seen.tip}")]
    if isinstance(settings.graph_place, GraphUrl):
        findings.append(well("graph server", "answers"))
    elif seen.journal_mode == "wal":
        findings.append(well("graph journal", "journal_mode=wal"))
    else:
        hint = "its writer should use WAL: without it a reader and a writer block each other"
        findings.append(ill("graph journal", f"journal_mode={seen.journal_mode}", hint))
    if seen.active_routes:
        return [*findings, well("active routes", str(seen.active_routes))]
    if seen.nudged:
        return [*findings, well("active routes", f"0, and {seen.nudged} left to the heartbeat")]
    return [
        *findings,
        ill(
            "active routes",
            "0",
            "`wake-bridge setup`, or `wake-bridge subscribe @you --trigger SENT_TO_ME --tmux PANE`",
        ),
    ]


def graph_file_system(settings: Settings) -> Finding:
    """SQLite's WAL needs memory shared with the writer, which no network gives."""
    if isinstance(settings.graph_place, GraphUrl):
        return well("graph file system", "the server's")
    network = network_file_system(settings.graph_place)
    if network:
        hint = "run wake-bridge on the machine that has the disk: WAL does not work over a network"
        return ill("graph file system", f"{settings.graph_place} lies on {network}", hint)
    return well("graph file system", "local")


def file_hints(settings: Settings) -> Finding:
    """Whether changes of the graph's directory are told by the kernel; without, wakes come a look later."""
    if not settings.config.graph.watch:
        return untold("file events", "switched off (graph.watch)")
    if isinstance(settings.graph_place, GraphUrl):
        return well("file events", "not needed: the server notifies")
    if sys.platform != "linux":
        return untold("file events", "reported as far as this platform can")
    if not settings.graph_place.resolve().parent.is_dir():
        return untold("file events", "nothing to watch: the graph does not exist yet")
    why = why_it_cannot_be_watched(settings.graph_place)
    if not why:
        return well("file events", f"{settings.graph_place.resolve().parent} can be watched")
    hint = (
        "raise fs.inotify.max_user_instances and max_user_watches by sysctl;"
        f" till then wake-bridge looks every {settings.config.graph.poll_interval:g} s"
    )
    return ill("file events", why, hint)


def signed_wakes(settings: Settings) -> list[Finding]:
    """Whether signed wakes can be taken in, where they are to be."""
    where = listen_address(settings)
    if where is None:
        return []
    missing = [one for one in HTTP_NEEDS if find_spec(one) is None]
    if missing:
        hint = "run `pip install 'wake-bridge[http]'`"
        return [ill("signed wakes", f"{', '.join(missing)} is not installed", hint)]
    senders = senders_of(settings)
    whom = ", ".join(f"{one.name} ({', '.join(sorted(one.identities))})" for one in senders)
    sources = _sources_with_tokens(settings)
    if not senders and not sources:
        hint = "name a sender: [http.senders.NAME], or run `wake-bridge sources token NAME`"
        return [ill("signed wakes", "nobody may send any", hint)]
    found = [well("signed wakes", f"{where}, from {whom}")] if senders else []
    return [*found, *([well("items from outside", f"{where}, from {', '.join(sources)}")] if sources else [])]


def _sources_with_tokens(settings: Settings) -> list[str]:
    try:
        return sorted(SourceTokens(settings.state_dir).now())
    except OSError:
        return []


def pruner(settings: Settings) -> Finding:
    """A foreign graph's pruner deletes rows below the cursor it reads: it has to be ours."""
    if graph_status(settings).embedded:
        return untold("pruner", "the embedded graph is never pruned")
    ours = settings.state_dir / CURSOR_FILE
    reads = _pruners_file(settings)
    if reads is None:
        return untold("pruner", f"cannot tell which {CURSOR_FILE} it reads; we write {ours}")
    if reads.resolve() == ours.resolve():
        return well("pruner", f"reads what we write, {ours}")
    hint = f"stop the upstream daemon and set daemon.state_dir to {reads.parent}, or let the pruner read ours"
    return ill("pruner", f"the pruner reads {reads}, we write {ours}", hint)


def _pruners_file(settings: Settings) -> Path | None:
    """By its environment, which may be ours; else the usual place in the directory the graph lies in."""
    for name in PRUNERS_VARIABLES:
        if value := os.environ.get(name):
            return Path(value) if name == PRUNERS_VARIABLES[0] else Path(value) / CURSOR_FILE
    if isinstance(settings.graph_place, GraphUrl):
        return None
    for directory in settings.graph_place.absolute().parents:
        if directory.name == UPSTREAM_DATA:
            return directory / "wake-daemon" / CURSOR_FILE
    return None


OF_OTHERS: Final = 0o077
"""Permission bits nobody but the owner may have."""

LEAST_FREE: Final = 200 * 1024 * 1024
"""Bytes: the logs at their longest, and room for a ledger to grow and be copied at an update."""

_MEGABYTE: Final = 1024 * 1024


def state_directory(settings: Settings) -> Finding:
    """Its owner's alone, with all that lies in it: what is announced to whom is nobody else's business."""
    directory = settings.state_dir
    if not directory.exists():
        return untold("state directory", f"{directory} does not exist yet", "the first `wake-bridge run` makes it")
    for path in (directory, *sorted(directory.iterdir())):
        mode = _mode(path)
        if mode & OF_OTHERS:
            hint = f"chmod {'700' if path.is_dir() else '600'} {path}"
            return ill("state directory", f"{path} has mode {mode:04o}, it is open to others", hint)
    if not os.access(directory, os.W_OK | os.X_OK):
        return ill("state directory", f"{directory} cannot be written", "give this user write access there")
    return well("state directory", f"{directory}, for its owner alone")


def _mode(path: Path) -> int:
    """Its permission bits; none for a link, and for what a running daemon has removed meanwhile."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return 0
    return 0 if stat.S_ISLNK(found) else stat.S_IMODE(found)


def state_file_system(settings: Settings) -> Finding:
    """Locks and WAL of the ledger need a local disk."""
    network = network_file_system(settings.state_dir)
    if network:
        return ill(
            "state file system", f"{settings.state_dir} lies on {network}", "set daemon.state_dir to a local disk"
        )
    return well("state file system", "local")


def free_disk(settings: Settings) -> Finding:
    """Room for ledger and logs."""
    free = shutil.disk_usage(nearest_that_exists(settings.state_dir)).free
    detail = f"{free // _MEGABYTE} MB for {settings.state_dir}"
    if free < NO_ROOM:
        return ill(
            "free disk", f"the disk is full: {detail}", "free some space; waiting wakes then continue by themselves"
        )
    if free < LEAST_FREE:
        return ill("free disk", detail, f"free some space: {LEAST_FREE // _MEGABYTE} MB are needed")
    return well("free disk", detail)


def log_file(settings: Settings) -> Finding:
    """Whether the file that is logged to can be written; a daemon in a terminal has none unless the settings name one."""
    file = settings.log_file or settings.state_dir / LOG_FILE_NAME
    if file.is_dir():
        return ill("log file", f"{file} is a directory", "set daemon.log_file to a file")
    there = nearest_that_exists(file)
    if (there != file and not there.is_dir()) or not os.access(there, os.W_OK):
        return ill("log file", f"{file} cannot be written", "give this user write access there, or set daemon.log_file")
    size = f"{file}, at most {FILES * FILE_SIZE // _MEGABYTE} MB"
    if settings.log_file is not None or _is_written(file, settings):
        return well("log file", size)
    return untold(
        "log file", f"only a service writes {size}; a daemon in a terminal logs there (or to `daemon.log_file`)"
    )


def _is_written(file: Path, settings: Settings) -> bool:
    """Whether the daemon that runs has it open."""
    running = serving(settings.state_dir, settings.graph_place).holder
    if running is None:
        return False
    try:
        return str(file.resolve()) in {one.path for one in psutil.Process(running.pid).open_files()}
    except psutil.Error:
        return False


def ledger(settings: Settings) -> Finding:
    """Whether it can be read, and what in it waits for a person."""
    try:
        store = LedgerStore.open(settings.state_dir, read_only=True)
        tally = store.tally()
        store.close()
    except WakeBridgeError as error:
        return ill("ledger", str(error), error.hint)
    detail = f"{tally.open} open, {tally.held} held, {tally.unknown} unknown, {tally.failed} failed"
    hint = "`wake-bridge deliveries --state FAILED`" if tally.unknown or tally.failed else ""
    return Finding("ledger", ok=True, detail=detail, hint=hint)
