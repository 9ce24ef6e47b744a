"""Checks who runs: our daemon, another one, upstream's; and whether ours sees the same tmux as this command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psutil

from wake_bridge.config.hosts import HostsFile
from wake_bridge.config.settings import Settings
from wake_bridge.control.client import ask
from wake_bridge.control.graph_lock import LOCK_DIRECTORY, daemon_of
from wake_bridge.control.instance_lock import Holder, holder, reload_command
from wake_bridge.control.serving import DaemonState, serving
from wake_bridge.control.settings_in_force import in_force, settings_of_daemon, where_the_daemon_is
from wake_bridge.doctor.finding import Finding, ill, untold, well
from wake_bridge.domain.errors import NotRunning, OperationFailed, SourceError, WakeBridgeError
from wake_bridge.domain.names import Instant
from wake_bridge.integrations.service import ServiceStanding, service_manager
from wake_bridge.integrations.service.launch import launch_of, other_tmux_server, tmux_directory
from wake_bridge.ports.leases import HostOnGraph
from wake_bridge.program_version import program_version
from wake_bridge.records import time_or_none
from wake_bridge.storage.graph.opened import open_host_desk
from wake_bridge.storage.graph.upstream import find_other_driver, upstream_processes
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock

TOLERATED: Final = 60_000
"""Milliseconds: a clock that is kept right is slewed, or set by less."""

_HINT: Final = "see that the time is right now"


def clock(settings: Settings) -> Finding:
    """Set while the daemon ran, or back since something was recorded."""
    drift = _drift_of_the_daemon(settings)
    if abs(drift) > TOLERATED:
        detail = (
            f"the clock was set {'back' if drift > 0 else 'forward'} by {abs(drift) // 1000} s while the daemon ran"
        )
        return ill("clock", detail, f"{_HINT}, and restart the daemon: its deadlines use the old clock")
    latest = _latest_record(settings)
    ahead = latest - SteadyClock().wall()
    if ahead > TOLERATED:
        detail = f"the ledger has records of {time_or_none(latest)}, which is {ahead // 1000} s ahead"
        return ill("clock", detail, f"{_HINT}; a daemon that starts now treats them as new")
    return well("clock", "has not jumped")


def _drift_of_the_daemon(settings: Settings) -> int:
    """Milliseconds by which the daemon's steady time is ahead of the wall; 0 if there is none to ask."""
    try:
        return int(ask(settings.state_dir, "status", timeout=3).get("clock_ahead") or 0)
    except (NotRunning, OperationFailed):
        return 0


def _latest_record(settings: Settings) -> Instant:
    try:
        ledger = LedgerStore.open(settings.state_dir, read_only=True)
        deliveries = ledger.deliveries(state=None, identity=None, limit=50)
        ledger.close()
    except WakeBridgeError:
        # the check of the ledger says what is wrong with it
        return Instant(0)
    return Instant(max((max(one.created_at, one.settled_at or 0) for one in deliveries), default=0))


def service(config_option: str | None, settings: Settings) -> list[Finding]:
    """How it stands, and whether it lingers."""
    try:
        manager = service_manager(os.environ)
    except OperationFailed as none:
        return [untold("service", str(none), none.hint)]
    standing = manager.standing()
    if not standing.installed:
        return [untold("service", "not installed: the daemon ends with its terminal", "`wake-bridge service install`")]
    wanted = manager.text(launch_of(config_option, os.environ, settings.state_dir))
    return [_installed(standing, is_current=standing.text == wanted), _lingering(standing)]


def _installed(standing: ServiceStanding, *, is_current: bool) -> Finding:
    detail = f"{standing.manager}, {standing.file}"
    if standing.active is None:
        return untold("service", f"{detail}: {standing.trouble}")
    if not standing.active:
        why = standing.trouble or "it does not run"
        return ill("service", f"{detail}: {why}", "`wake-bridge service install` starts it; `logs` shows why it ended")
    if not standing.starts_at_login:
        return ill("service", f"{detail}: it is not started at login", "`wake-bridge service install`")
    if not is_current:
        return untold(
            "service", f"{detail}: differs from what this version would install", "`wake-bridge service install`"
        )
    return well("service", f"{detail}, runs as pid {standing.pid}")


def _lingering(standing: ServiceStanding) -> Finding:
    if standing.lingers is None:
        return untold("linger", f"{standing.manager} does not say")
    if not standing.lingers:
        return ill("linger", "the service ends with your last session", "`loginctl enable-linger` keeps it running")
    return well("linger", "the service outlives your last session")


_STATE: Final = (
    "free some space, or see who deleted the state directory: the daemon goes on by itself when it can write"
)
_LOCKS: Final = f"check who may read {LOCK_DIRECTORY}"


def as_the_daemon_has_them(configured: Settings) -> Settings:
    """What the daemon of the configured graph goes by; the configuration, and its state directory, where it has not said.

    Raises:
        OperationFailed: one serves the graph, and does not say where it keeps its state.
    """
    here = where_the_daemon_is(configured)
    theirs = settings_of_daemon(here.state_dir)
    return theirs if theirs is not None and theirs.config_file == configured.config_file else here


def settings_of_the_daemon(config_option: str | None, configured: Settings, settings: Settings) -> list[Finding]:
    """Whether what is configured is what runs."""
    told = serving(settings.state_dir, settings.graph_place).told
    stand = in_force(settings.state_dir, config_option, os.environ, refused=str(told.get("settings_refused") or ""))
    if stand is None:
        return []
    if stand.refused:
        hint = f"correct it, then `{reload_command(settings.state_dir)}`; meanwhile the last good ones are in force"
        return [ill("settings", f"the daemon refused {stand.file}: {stand.refused}", hint)]
    if stand.for_restart:
        hint = "restart the daemon: until then it uses their old values"
        return [untold("settings", f"these wait for a restart: {', '.join(stand.for_restart)}", hint)]
    if stand.for_reload:
        hint = f"`{reload_command(settings.state_dir)}` makes the daemon read the file"
        return [untold("settings", f"these wait for a reload: {', '.join(stand.for_reload)}", hint)]
    if stand.file != configured.config_file:
        return [
            untold(
                "settings",
                f"the daemon uses another file: {stand.file}",
                "name that file with --config, or restart the daemon",
            )
        ]
    return [well("settings", "the daemon uses the current configuration")]


def program_version_of_the_daemon(settings: Settings) -> list[Finding]:
    """Whether the program that runs is the one that is installed."""
    ours, told = program_version(), serving(settings.state_dir, settings.graph_place).told
    theirs = told.get("version")
    if not told:
        return [well("version", f"{ours}; no daemon answers")]
    if theirs == ours:
        return [well("version", f"{ours}, as the daemon")]
    hint = "restart the daemon: it still runs the program that it was started with"
    return [untold("version", f"the daemon is {theirs or 'older'}, this command {ours}", hint)]


def daemon(settings: Settings) -> Finding:
    """Whether one serves the state directory."""
    found = serving(settings.state_dir, settings.graph_place)
    if found.trouble:
        return ill("daemon", f"running, and cannot write: {found.trouble}", _STATE)
    if found.state is DaemonState.STARTING:
        return well("daemon", f"starting: {found.holder}")
    if found.running == "yes":
        return well("daemon", f"running: {found.holder}")
    if found.running == "no":
        return ill("daemon", "not running", "`wake-bridge run`, or `wake-bridge service install`")
    return untold("daemon", "cannot tell whether it runs", f"check who may read {settings.state_dir}")


def other_daemons(configured: Settings) -> list[Finding]:
    """Whether a wake-bridge of another configuration, with a state directory of its own, wakes for the same graph."""
    try:
        found = daemon_of(configured.graph_place)
    except OSError as refusal:
        return [untold("other daemons", f"cannot tell who serves this graph ({refusal.strerror})", _LOCKS)]
    is_ours = found is None or _serves(found, configured)
    theirs = None if found is None or is_ours else settings_of_daemon(Path(found.state_dir))
    if is_ours or (theirs is not None and theirs.config_file == configured.config_file):
        return [well("other daemons", "none serves this graph")]
    hint = "stop it: no other daemon can start beside it, because both would wake the same agents for the same mail"
    return [ill("other daemons", f"another one serves this graph: {found}", hint)]


def _serves(found: Holder, settings: Settings) -> bool:
    """Whether that is our own daemon, however its state directory is spelt."""
    is_there = bool(found.state_dir) and Path(found.state_dir).resolve() == settings.state_dir.resolve()
    return is_there or found.pid == _pid(settings)


def upstream_daemon(settings: Settings) -> Finding:
    """Two drivers must never serve one identity."""
    found = find_other_driver(settings.state_dir)
    if found:
        hint = "stop it, or give wake-bridge its own daemon.state_dir"
        return ill("upstream daemon", found.told, hint)
    elsewhere = upstream_processes()
    if elsewhere:
        hint = "see that it serves no identity of yours: each would wake the same agents"
        return untold("upstream daemon", f"{', '.join(elsewhere)}, with another directory", hint)
    return well("upstream daemon", "none runs")


def tmux_as_the_daemon_sees_it(settings: Settings) -> list[Finding]:
    """Whether the daemon looks for tmux's sockets where we do, and sees the same files there."""
    pid = _pid(settings)
    if not pid:
        return []
    try:
        environment = psutil.Process(pid).environ()
    except psutil.Error as refusal:
        return [untold("daemon's tmux", f"pid {pid} does not report where it looks ({refusal})")]
    return [_compared(environment, pid, settings)]


def _compared(environment: Mapping[str, str], pid: int, settings: Settings) -> Finding:
    theirs, ours = tmux_directory(environment), tmux_directory(os.environ)
    table = settings.config.adapters.get("tmux", {})
    if not table.get("socket_path"):
        if Path(theirs).resolve() != Path(ours).resolve():
            hint = "install the service again from this shell, or set socket_path in [adapters.tmux]"
            return ill("daemon's tmux", f"the daemon looks for sockets below {theirs}, this shell below {ours}", hint)
        server, here = other_tmux_server(environment), other_tmux_server(os.environ)
        if not table.get("socket_name") and server != here:
            detail = f"the daemon's server is {server or 'the default one'}, this shell's {here or 'the default one'}"
            return ill("daemon's tmux", detail, "set socket_path in [adapters.tmux] to the one you mean")
    if not _sees_the_same(pid, Path(ours)):
        hint = "take PrivateTmp out of the unit: tmux's sockets lie there"
        return ill("daemon's tmux", f"the daemon has a {ours} of its own", hint)
    return well("daemon's tmux", f"looks where this shell does, below {ours}")


def _sees_the_same(pid: int, directory: Path) -> bool:
    """Whether that path is one directory for both; where it cannot be told, nothing speaks against it."""
    try:
        return os.path.samestat(Path(f"/proc/{pid}/root{directory}").stat(), directory.stat())
    except OSError:
        return True


def _pid(settings: Settings) -> int:
    """Of the daemon that serves the state directory; 0 if none does, or nobody can tell."""
    try:
        who = holder(settings.state_dir)
    except OSError:
        return 0
    return who.pid if who else 0


def hosts(settings: Settings) -> list[Finding]:
    """Each link to another host, as the daemon keeps it, and who has a place on both."""
    try:
        known = HostsFile(settings.state_dir).known().linked
    except OperationFailed as unusable:
        return [ill("hosts", str(unusable), unusable.hint)]
    if not known:
        return []
    try:
        told = {str(one["host"]): one for one in ask(settings.state_dir, "hosts")["hosts"]}
    except (NotRunning, OperationFailed):
        told = {}
    return [_of_host(name, told.get(name)) for name in known]


def _of_host(name: str, told: Mapping[str, Any] | None) -> Finding:
    check = f"host {name}"
    if told is None:
        return untold(check, "no daemon keeps the link", "start it: `wake-bridge run`")
    if told["conflicts"]:
        whom = ", ".join(told["conflicts"])
        hint = f"`wake-bridge unbind {told['conflicts'][0]}`, or take its [targets] entry away, on one of the two hosts"
        return ill(check, f"{whom}: here is a place for it as well; this host wakes it", hint)
    if told["why"]:
        return ill(
            check, str(told["why"]), f"docs/many-hosts.md says what helps; `ssh {told['ssh']} wake-bridge --version`"
        )
    return well(check, f"linked, wake-bridge {told['version']}: {', '.join(told['agents']) or 'no agents'}")


def hosts_on_graph(settings: Settings) -> list[Finding]:
    """Each other host that shares the graph; nothing for a graph in a file."""
    try:
        desk = open_host_desk(settings.graph_place)
        if desk is None:
            return []
        with closing(desk):
            found = desk.hosts()
        own = HostsFile(settings.state_dir).known().own
    except (SourceError, OperationFailed) as away:
        # the check of the graph says what is the matter with it
        return [untold("hosts on the graph", str(away))]
    return [_sharing(one) for one in found if one.host != own and not one.is_gone]


def _sharing(host: HostOnGraph) -> Finding:
    check = f"host {host.host}"
    whom = ", ".join(host.identities) or "no agents"
    if host.is_alive:
        return well(check, f"shares the graph, wake-bridge {host.version}: {whom}")
    ago = f"not heard of for {host.seen_ago // 1000} s: {whom}"
    return untold(check, ago, f"start its daemon; if it will not come back: `wake-bridge hosts gone {host.host}`")
