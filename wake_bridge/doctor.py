"""What `doctor` looks at: each thing that must be right for wakes to arrive, with what to do when it is not."""

from __future__ import annotations

import shutil
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from wake_bridge.domain.errors import ConfigurationInvalid, WakeBridgeError
from wake_bridge.domain.heartbeat import HEARTBEAT
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.ledger_store import LedgerStore
from wake_bridge.edges.service.instance_lock import holder, liveness
from wake_bridge.edges.service.other_driver import find_other_driver
from wake_bridge.ports.adapter import Herald
from wake_bridge.viewpoint import Viewpoint, standing
from wake_bridge.wiring import checked_settings

PRIVATE: Final = 0o077
"""Permission bits nobody but the owner may have."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `ok` None: it does not apply, or cannot be told."""

    check: str
    ok: bool | None
    detail: str
    hint: str = ""


async def examine(config_option: str | None) -> list[Finding]:
    """Run every check; none of them changes anything. A configuration that cannot be used ends it at the first."""
    try:
        settings = checked_settings(config_option)
    except ConfigurationInvalid as error:
        return [Finding("configuration", ok=False, detail="; ".join(error.problems) or str(error), hint=error.hint)]
    findings = [_configuration(settings), *_graph(settings), _state_directory(settings), _ledger(settings)]
    findings += [_daemon(settings), _other_driver(settings)]
    view = Viewpoint(settings)
    findings += [one async for one in _adapters(view)]
    findings += [one async for one in _targets(view)]
    findings += [_heartbeat(view), _human(settings, view)]
    return findings


def _configuration(settings: Settings) -> Finding:
    read = ", ".join(str(path) for path in settings.source_files)
    return Finding("configuration", ok=True, detail=read or f"defaults; there is no {settings.config_file}")


def _graph(settings: Settings) -> list[Finding]:
    seen = standing(settings)
    if seen.trouble:
        return [Finding("graph", ok=False, detail=seen.trouble, hint=seen.hint or "`wake-bridge init` makes one")]
    kind = "embedded" if seen.embedded else "foreign (another program's)"
    findings = [Finding("graph", ok=True, detail=f"{settings.graph_path}, {kind}, log at {seen.tip}")]
    is_wal = seen.journal_mode == "wal"
    findings.append(
        Finding(
            "graph journal",
            ok=is_wal,
            detail=f"journal_mode={seen.journal_mode}",
            hint="" if is_wal else "its writer should use WAL: without it a reader and a writer block each other",
        )
    )
    routes = seen.active_routes
    hint = "" if routes else "`wake-bridge subscribe @you --trigger SENT_TO_ME --tmux PANE`"
    return [*findings, Finding("active routes", ok=routes > 0, detail=str(routes), hint=hint)]


def _state_directory(settings: Settings) -> Finding:
    directory = settings.state_dir
    if not directory.exists():
        return Finding(
            "state directory", None, f"{directory} does not exist yet", "the first `wake-bridge run` makes it"
        )
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & PRIVATE:
        return Finding(
            "state directory", ok=False, detail=f"{directory} has mode {mode:04o}", hint=f"chmod 700 {directory}"
        )
    return Finding("state directory", ok=True, detail=f"{directory}, mode {mode:04o}")


def _ledger(settings: Settings) -> Finding:
    try:
        ledger = LedgerStore.open(settings.state_dir, read_only=True)
    except WakeBridgeError as error:
        return Finding("ledger", ok=False, detail=str(error), hint=error.hint)
    tally = ledger.tally()
    ledger.close()
    detail = f"{tally.open} open, {tally.held} held, {tally.unknown} unknown, {tally.failed} failed"
    hint = "`wake-bridge deliveries --state FAILED`" if tally.unknown or tally.failed else ""
    return Finding("ledger", ok=True, detail=detail, hint=hint)


def _daemon(settings: Settings) -> Finding:
    running = liveness(settings.state_dir)
    if running == "yes":
        return Finding("daemon", ok=True, detail=f"running: {holder(settings.state_dir)}")
    if running == "no":
        return Finding("daemon", ok=False, detail="not running", hint="`wake-bridge run`, or install the service file")
    return Finding("daemon", None, "cannot tell whether it runs", f"see who may read {settings.state_dir}")


def _other_driver(settings: Settings) -> Finding:
    found = find_other_driver(settings.state_dir)
    if found:
        return Finding(
            "upstream daemon", ok=False, detail=found, hint="stop it, or give wake-bridge its own daemon.state_dir"
        )
    return Finding("upstream daemon", ok=True, detail="none drives this directory")


async def _adapters(view: Viewpoint) -> AsyncIterator[Finding]:
    for entry in view.bench.catalogue:
        is_well = entry.kind is not None and not entry.trouble
        yield Finding(
            f"adapter {entry.name}",
            ok=is_well,
            detail=entry.trouble or entry.module,
            hint="" if is_well else "reinstall it",
        )
    if not view.bench.catalogue:
        yield Finding(
            "adapters",
            ok=False,
            detail="none is installed",
            hint="install the package: a bare checkout has no entry points",
        )
    for adapter in view.bench.adapters.values():
        for check, ok, detail, hint in await adapter.probe():
            yield Finding(check, ok, detail, hint)


def _heartbeat(view: Viewpoint) -> Finding:
    if HEARTBEAT not in view.bench.adapters:
        return Finding("heartbeat", None, "switched off", "`[adapters.heartbeat] enabled` switches it on")
    served = ", ".join(view.nudged()) or "nobody: every identity has another driver, or no place"
    return Finding("heartbeat", ok=True, detail=f"nudges {served}")


def _human(settings: Settings, view: Viewpoint) -> Finding:
    command = settings.config.human.command
    if not command and not any(isinstance(one, Herald) for one in view.bench.adapters.values()):
        return Finding("word to the human", None, "only in the log and in `status`", "set [human] command")
    if not command:
        return Finding("word to the human", ok=True, detail="a line in the tmux client that was used last")
    found = shutil.which(command[0])
    hint = "" if found else "give its whole path in [human] command: a service has another PATH than your shell"
    return Finding("word to the human", ok=bool(found), detail=found or f"there is no {command[0]}", hint=hint)


async def _targets(view: Viewpoint) -> AsyncIterator[Finding]:
    for identity in view.identities():
        trouble = await view.trouble_with(identity)
        yield Finding(f"target {identity}", ok=not trouble.why, detail=trouble.why or trouble.where, hint=trouble.hint)
