"""The graph: whether it can be read, well and in time, and whether its pruner knows how far we are (DESIGN §2)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from wake_bridge.doctor.file_systems import network_file_system
from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.edges.change_log.inotify_signal import why_it_cannot_be_watched
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.graph.glance import standing
from wake_bridge.edges.service.cursor_file import CURSOR_FILE

UPSTREAM_DATA: Final = ".neo-ai-data"
PRUNERS_VARIABLES: Final = ("NEO_BRIDGE_LAST_SYNC_ID_PATH", "NEO_AI_DAEMON_DIR")


def graph(settings: Settings) -> list[Finding]:
    """Readable, in WAL mode, with somebody who is to be woken."""
    seen = standing(settings)
    if seen.trouble:
        return [ill("graph", seen.trouble, seen.hint or "`wake-bridge setup` or `init` makes one")]
    kind = "embedded" if seen.embedded else "foreign (another program's)"
    findings = [well("graph", f"{settings.graph_path}, {kind}, log at {seen.tip}")]
    if seen.journal_mode == "wal":
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
    network = network_file_system(settings.graph_path)
    if network:
        hint = "run wake-bridge on the machine that has the disk: WAL does not work over a network"
        return ill("graph file system", f"{settings.graph_path} lies on {network}", hint)
    return well("graph file system", "local")


def file_hints(settings: Settings) -> Finding:
    """Whether changes of the graph's directory are told by the kernel; without, wakes come a look later."""
    if not settings.config.graph.watch:
        return untold("file events", "switched off (graph.watch)")
    if sys.platform != "linux":
        return untold("file events", "told by this platform as it can")
    if not settings.graph_path.resolve().parent.is_dir():
        return untold("file events", "nothing to watch as long as there is no graph")
    why = why_it_cannot_be_watched(settings.graph_path)
    if not why:
        return well("file events", f"{settings.graph_path.resolve().parent} can be watched")
    hint = (
        "raise fs.inotify.max_user_instances and max_user_watches by sysctl;"
        f" till then each {settings.config.graph.poll_interval:g} s is looked"
    )
    return ill("file events", why, hint)


def pruner(settings: Settings) -> Finding:
    """A foreign graph's pruner deletes rows below the cursor it reads: it has to be ours (DESIGN §2)."""
    if standing(settings).embedded:
        return untold("pruner", "an embedded graph is not pruned")
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
    for directory in settings.graph_path.absolute().parents:
        if directory.name == UPSTREAM_DATA:
            return directory / "wake-daemon" / CURSOR_FILE
    return None
