"""Every doctor check fails on a set-up that breaks it and passes on a sound one."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest

from wake_bridge.config.hosts import HostsFile, LinkedHost
from wake_bridge.doctor.finding import Finding
from wake_bridge.domain.names import Instant
from wake_bridge.domain.receivers import ReceiverStanding, Secret
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.integrations.agent_files import apply, plan_files
from wake_bridge.testing.ledger_samples import counted_ids, fresh_ledger, open_delivery, sample_event

if TYPE_CHECKING:
    from tests.integration.doctor.conftest import Setup, SoundWorld

FIXTURE = Path(__file__).parents[2] / "fixtures" / "neo-real.sqlite"
HOUR = 3_600_000


class Broken(NamedTuple):
    """A check, how it is broken, and what the doctor is to say then."""

    check: str
    how: Callable[[Setup], None]
    detail: str
    hint: str
    ok: bool | None = False


# -- how things break ------------------------------------------------------------------------------------------------


def a_mistake_in_the_configuration(setup: Setup) -> None:
    setup.configure("daemon.retention_days = 0")


def a_locale_without_utf_8(setup: Setup) -> None:
    setup.environment(LC_ALL="C")


def no_locale(setup: Setup) -> None:
    setup.environment(LC_ALL="", LC_CTYPE="", LANG="")


def no_graph(setup: Setup) -> None:
    setup.configure('graph.path = "/nowhere/graph.sqlite"')


def a_file_that_is_no_graph(setup: Setup) -> None:
    (setup.directory / "notes.txt").write_text("no database\n" * 100)
    setup.configure(f'graph.path = "{setup.directory}/notes.txt"')


def a_rollback_journal(setup: Setup) -> None:
    setup.graph_copy(setup.directory / "graph.sqlite", "PRAGMA journal_mode = DELETE")


def nobody_subscribed(setup: Setup) -> None:
    forget = "DELETE FROM Nodes WHERE json_extract(data, '$.label') = 'WAKE_SUBSCRIPTION'"
    setup.graph_copy(setup.directory / "graph.sqlite", forget)


def mounted(setup: Setup, directory: Path, kind: str) -> None:
    partitions = [
        SimpleNamespace(mountpoint="/", fstype="ext4"),
        SimpleNamespace(mountpoint=str(directory), fstype=kind),
    ]
    setup.monkeypatch.setattr(psutil, "disk_partitions", lambda **_: partitions)


def the_graph_on_a_network(setup: Setup) -> None:
    mounted(setup, setup.sandbox.graph.parent, "nfs4")


def the_state_on_a_network(setup: Setup) -> None:
    mounted(setup, setup.sandbox.state_dir, "fuse.sshfs")


def no_inotify_left(setup: Setup) -> None:
    def refuse(_: Path) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    setup.monkeypatch.setattr("wake_bridge.storage.graph.signal._watch", refuse)


def watching_switched_off(setup: Setup) -> None:
    setup.configure("graph.watch = false")


def foreign_graph(setup: Setup) -> None:
    graph = setup.directory / ".neo-ai-data/sqlite/memory.sqlite"
    graph.parent.mkdir(parents=True)
    shutil.copy(FIXTURE, graph)
    setup.configure(f'graph.path = "{graph}"')


def a_pruner_told_by_its_environment(setup: Setup) -> None:
    foreign_graph(setup)
    setup.environment(NEO_BRIDGE_LAST_SYNC_ID_PATH="/elsewhere/lastSyncId")


def a_pruner_nobody_knows(setup: Setup) -> None:
    shutil.copy(FIXTURE, setup.directory / "memory.sqlite")
    setup.configure(f'graph.path = "{setup.directory}/memory.sqlite"')


def open_to_others(setup: Setup, path: Path, mode: int) -> None:
    before = path.stat().st_mode
    setup.undo.callback(path.chmod, before)
    path.chmod(mode)


def a_state_directory_open_to_others(setup: Setup) -> None:
    open_to_others(setup, setup.sandbox.state_dir, 0o755)


def a_ledger_open_to_others(setup: Setup) -> None:
    open_to_others(setup, setup.sandbox.state_dir / "state.sqlite", 0o644)


def a_full_disk(setup: Setup) -> None:
    usage = SimpleNamespace(free=3 * 1024 * 1024)
    setup.monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


def a_log_file_below_a_file(setup: Setup) -> None:
    (setup.directory / "occupied").touch()
    setup.configure(f'daemon.log_file = "{setup.directory}/occupied/our.log"')


def a_log_file_that_is_a_directory(setup: Setup) -> None:
    setup.configure(f'daemon.log_file = "{setup.directory}"')


def a_ledger_of_a_later_version(setup: Setup) -> None:
    with fresh_ledger(setup.other_state()) as ledger:
        ledger._db.change("PRAGMA user_version = 99")


def a_damaged_ledger(setup: Setup) -> None:
    (setup.other_state() / "state.sqlite").write_bytes(b"no database" * 1000)
    (setup.directory / "state/state.sqlite").chmod(0o600)


def a_daemon_for_another_directory_only(setup: Setup) -> None:
    setup.other_state()


def a_change_of_its_own_file(setup: Setup, text: str) -> None:
    """The daemon's own configuration, changed while it runs, and put back afterwards."""
    file = setup.sandbox.config_file
    before = file.read_text()
    setup.undo.callback(file.write_text, before)
    file.write_text(f"{text}\n{before}")


def a_key_that_waits(setup: Setup) -> None:
    a_change_of_its_own_file(setup, "limits.storm = 3")


def a_place_that_waits(setup: Setup) -> None:
    a_change_of_its_own_file(setup, f'daemon.state_dir = "{setup.directory}/state"')


def a_typo_while_it_runs(setup: Setup) -> None:
    a_change_of_its_own_file(setup, "limits.storn = 3")


def a_program_of_another_version(setup: Setup) -> None:
    setup.monkeypatch.setattr("wake_bridge.doctor.daemons.program_version", lambda: "9.9.9")


def two_daemons_for_one_graph(setup: Setup) -> None:
    """Another one has the lock of the graph that is configured, and a state directory of its own."""
    elsewhere = setup.directory / "elsewhere.sqlite"
    shutil.copy(setup.sandbox.graph, elsewhere)
    setup.environment(WAKE_BRIDGE_GRAPH_PATH=str(elsewhere))
    a_daemon_of(setup, elsewhere, Path("/srv/of-its-own"))


def a_daemon_of(setup: Setup, graph: Path, state_dir: Path) -> None:
    hold = "from wake_bridge.control.graph_lock import GraphLock; from pathlib import Path; import sys; "
    lock = "lock = GraphLock(Path(sys.argv[1]), Path(sys.argv[2])); lock.acquire(); "
    a_process(setup, str(graph), str(state_dir), first=hold + lock)


def a_process(setup: Setup, *words: str, first: str = "") -> subprocess.Popen[str]:
    """A process with those words in its command line that does something first, and waits to be ended."""
    wait = f"{first}import sys; print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", wait, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    setup.undo.enter_context(process)
    setup.undo.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def an_upstream_daemon_on_our_directory(setup: Setup) -> None:
    process = a_process(setup, "ai/daemons/wake/daemon.mjs")
    (setup.other_state() / "wake-daemon.pid").write_text(str(process.pid))


def an_upstream_daemon_elsewhere(setup: Setup) -> None:
    a_process(setup, "ai/daemons/wake/daemon.mjs")


def another_directory_for_sockets(setup: Setup) -> None:
    setup.environment(TMUX_TMPDIR=str(setup.directory))


def a_shell_in_another_server(setup: Setup) -> None:
    setup.configure("", adapters=False)
    setup.environment(TMUX="/srv/agents.sock,1,0")


PRIVATE_TMP = """
import subprocess, sys
from pathlib import Path
from wake_bridge.control.instance_lock import InstanceLock
with InstanceLock(Path(sys.argv[1])):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp"], check=True)
    print("up", flush=True)
    sys.stdin.read()
"""


def a_daemon_with_a_private_tmp(setup: Setup) -> None:
    isolated = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    if shutil.which("unshare") is None or subprocess.run([*isolated, "true"], check=False).returncode:
        pytest.skip("this kernel lets us make no mount namespace")
    process = subprocess.Popen(
        [*isolated, sys.executable, "-c", PRIVATE_TMP, str(setup.other_state())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=setup.sandbox.environment,
    )
    setup.undo.enter_context(process)
    setup.undo.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"


def the_service_is(setup: Setup, shown: str) -> None:
    setup.undo.callback(setup.world.service_runs, setup.world.service_runs(shown))


def a_service_that_failed(setup: Setup) -> None:
    the_service_is(setup, "ActiveState=failed\nUnitFileState=enabled\nMainPID=0\nResult=exit-code\nExecMainStatus=3\n")


def a_service_that_is_disabled(setup: Setup) -> None:
    the_service_is(setup, "ActiveState=active\nUnitFileState=disabled\nMainPID=7\n")


def no_service(setup: Setup) -> None:
    setup.environment(XDG_CONFIG_HOME=str(setup.directory))
    setup.configure("")


def a_unit_of_another_version(setup: Setup) -> None:
    unit = setup.sandbox.home / ".config/systemd/user/wake-bridge.service"
    setup.undo.callback(unit.write_text, unit.read_text())
    unit.write_text(unit.read_text().replace("WatchdogSec=60", "WatchdogSec=600"))


def no_lingering(setup: Setup) -> None:
    setup.undo.callback(setup.world.programs.answer, "loginctl show-user", "Linger=yes\n")
    setup.world.programs.answer("loginctl show-user", "Linger=no\n")


def a_clock_that_was_set_back(setup: Setup) -> None:
    with fresh_ledger(setup.other_state()) as ledger:
        tomorrow = int(time.time() * 1000) + 24 * HOUR
        open_delivery(ledger, sample_event(1), new_id=counted_ids(), now=tomorrow)


def a_clock_that_was_set_while_the_daemon_ran(setup: Setup) -> None:
    setup.monkeypatch.setattr("wake_bridge.doctor.daemons.ask", lambda *_, **__: {"clock_ahead": -3 * HOUR})


def night(setup: Setup) -> None:
    now = datetime.now().astimezone()
    begin, end = now - timedelta(minutes=30), now + timedelta(minutes=30)
    setup.configure(f'policy.quiet_hours = "{begin:%H:%M}-{end:%H:%M}"')


def a_profile_with_a_mistake(setup: Setup) -> None:
    (setup.directory / "screens").mkdir()
    (setup.directory / "screens/mine.toml").write_text('name = "mine"\nversion = 3\n')
    setup.configure(f'screens.directory = "{setup.directory}/screens"')


def a_version_nobody_has_seen(setup: Setup) -> None:
    (setup.directory / "screens").mkdir()
    bundled = files("wake_bridge_adapters.screens").joinpath("fake.toml").read_text(encoding="utf-8")
    own = bundled.replace("[recognise]", 'versions = ["99.0"]\nstrict_version = true\n[recognise]', 1)
    (setup.directory / "screens/fake.toml").write_text(own, encoding="utf-8")
    setup.configure(f'screens.directory = "{setup.directory}/screens"')


def no_heartbeat(setup: Setup) -> None:
    setup.configure("adapters.heartbeat.enabled = false")


def a_word_that_nobody_says(setup: Setup) -> None:
    setup.configure('human.command = ["nowhere-to-be-found", "{title}"]')


def an_own_channel_that_is_shut(setup: Setup) -> None:
    setup.configure('[targets."@a"]\nharness = "qwen"\n')


def channels_that_cannot_send(setup: Setup) -> None:
    (setup.directory / "taken").write_text("")
    setup.configure(
        """
        [channels.pager]
        kind = "command"
        command = ["nowhere-to-be-found", "{title}"]
        [channels.desk]
        kind = "desktop"
        [channels.phone]
        kind = "apprise"
        recipient = "nosuchservice://token-that-nobody-sees"
        [channels.ops]
        kind = "webhook"
        recipient = "https://hooks.example.org/token-that-nobody-sees"
        [adapters.webhook]
        enabled = false
        [channels.log]
        kind = "file"
        recipient = "taken/messages.jsonl"
        """
    )
    (setup.directory / "config.toml").chmod(0o600)
    programs = setup.directory / "without-notify-send"
    programs.mkdir()
    for one in ("tmux", "systemctl", "loginctl", "ps"):
        if found := shutil.which(one):
            (programs / one).symlink_to(found)
    setup.monkeypatch.setenv("PATH", str(programs))


def an_adapter_whose_file_is_another_packages(setup: Setup) -> None:
    info = setup.directory / "stray-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stray\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[wake_bridge.adapters]\nstray = wake_bridge_adapters.tmux:TmuxAdapter\n")
    (info / "RECORD").write_text("stray-1.0.dist-info/METADATA,,\nstray_adapter.py,,\n")
    setup.monkeypatch.syspath_prepend(str(setup.directory))


def a_server_registered_without_its_sdk(setup: Setup) -> None:
    a_server_that_is_registered(setup)
    setup.monkeypatch.setattr("wake_bridge.doctor.agents.find_spec", lambda _: None)


def a_server_that_is_registered(setup: Setup) -> None:
    """As `setup --mcp` does it for an agent of Claude Code."""
    agent = SetupAgent("@a", "claude", setup.directory, "a:0.0")
    apply(plan_files([agent], setup.directory, ("wake-bridge",)), setup.other_state())


def a_rule_of_an_earlier_release(setup: Setup) -> None:
    """As `setup` wrote it for an agent of Qwen Code."""
    agent = SetupAgent("@a", "qwen", setup.directory, "a:0.0")
    apply(plan_files([agent], setup.directory, ("wake-bridge",)), setup.other_state())
    settings = setup.directory / ".qwen" / "settings.json"
    before = json.loads(settings.read_text(encoding="utf-8"))
    before["permissions"]["allow"].append("Bash(wake-bridge inbox *)")
    settings.write_text(json.dumps(before), encoding="utf-8")


LISTENS = '[http]\nlisten = "127.0.0.1:8787"\n'
SENDER = """[http.senders.up]
key = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
identities = ["@a"]
"""


def signed_wakes_are_taken_in(setup: Setup) -> None:
    setup.configure(LISTENS + SENDER)
    (setup.directory / "config.toml").chmod(0o600)


def an_entrance_without_its_server(setup: Setup) -> None:
    signed_wakes_are_taken_in(setup)
    setup.monkeypatch.setattr("wake_bridge.doctor.disk.find_spec", lambda _: None)


def pushed_to(setup: Setup, graph: Path, more: str = "") -> None:
    """@a asks for pushes and may have them."""
    asks = "UPDATE Nodes SET data = json_set(data, '$.properties.harnessTarget', 'mcp-notifications')"
    setup.graph_copy(graph, f"{asks} WHERE json_extract(data, '$.label') = 'WAKE_SUBSCRIPTION'")
    setup.configure(f'graph.path = "{graph}"\n{more}[targets."@a"]\nmcp_push = true\n')


def no_client_for_pushes(setup: Setup) -> None:
    pushed_to(setup, setup.directory / "graph.sqlite")


def no_daemon_for_pushes(setup: Setup) -> None:
    state = setup.other_state()
    pushed_to(setup, setup.directory / "unserved.sqlite", f'daemon.state_dir = "{state}"\n')


def a_linked_host_without_a_daemon(setup: Setup) -> None:
    no_daemon_for_pushes(setup)
    HostsFile(setup.directory / "state").put(LinkedHost("devbox", "devbox", "laptop-1", Secret("whsec_YQ==")))


def a_list_of_hosts_that_is_none(setup: Setup) -> None:
    a_linked_host_without_a_daemon(setup)
    (setup.directory / "state/hosts.json").write_text("[]", encoding="utf-8")


def a_client_that_drops_its_pushes(setup: Setup) -> None:
    no_daemon_for_pushes(setup)
    with closing(sqlite3.connect(setup.directory / "unserved.sqlite")) as graph:
        ((subscription,),) = graph.execute(
            "SELECT id FROM Nodes WHERE json_extract(data, '$.label') = 'WAKE_SUBSCRIPTION'"
        ).fetchall()
    suspended = ReceiverStanding(
        subscription, "2999-01-01T00:00:00.000Z", 1, suspended_at=Instant(1), why="its agent did nothing for 60 s"
    )
    with fresh_ledger(setup.directory / "state") as ledger:
        ledger.note_receiver(suspended)


def no_adapters(setup: Setup) -> None:
    setup.configure("", adapters=False)
    setup.monkeypatch.setattr("wake_bridge.integrations.adapters.load_catalogue", list)


def no_tmux(setup: Setup) -> None:
    setup.environment(PATH=str(setup.world.programs.directory))


def an_old_tmux(setup: Setup) -> None:
    setup.program("tmux", f'[ "$1" = -V ] && echo "tmux 3.1c" && exit; exec {shutil.which("tmux")} "$@"')


def a_tmux_without_utf_8(setup: Setup) -> None:
    ascii_only = 'case "$*" in *display-message*) echo "17 _____"; exit;; esac'
    setup.program("tmux", f'{ascii_only}; exec {shutil.which("tmux")} "$@"')


def nobody_at_the_socket(setup: Setup) -> None:
    setup.configure('[adapters.tmux]\nsocket_name = "nobody-there"', adapters=False)


def a_socket_of_another_user(setup: Setup) -> None:
    # a Unix socket's path has room for about a hundred bytes
    path = Path(setup.undo.enter_context(tempfile.TemporaryDirectory(prefix="wbs-"))) / "s"
    listener = setup.undo.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(str(path))
    setup.configure(f'[adapters.tmux]\nsocket_path = "{path}"', adapters=False)
    setup.monkeypatch.setattr("wake_bridge_adapters.tmux.command.os.getuid", lambda: 4711)


def lives_in(setup: Setup, pane: str) -> None:
    setup.configure(f'[targets."@a"]\npane = "{pane}"')


def a_name_that_no_pane_has(setup: Setup) -> None:
    lives_in(setup, "nowhere")


def a_session_with_two_shells(setup: Setup) -> None:
    for _ in range(2):
        setup.world.tmux.new_pane("exec sh", session="pair")
    setup.undo.callback(setup.world.tmux.run, "kill-session", "-t", "=pair")
    lives_in(setup, "pair")


def a_pane_named_by_indexes(setup: Setup) -> None:
    setup.configure('[targets."@a"]\npane = "a:0.0"')


def a_pane_with_a_shell(setup: Setup) -> None:
    setup.world.tmux.new_pane("exec sh", session="shell")
    setup.undo.callback(setup.world.tmux.run, "kill-session", "-t", "=shell")
    lives_in(setup, "shell")


def a_budget_that_is_spent(setup: Setup) -> None:
    setup.configure("limits.wakes_per_hour = 1")


TABLE: Sequence[Broken] = (
    Broken("configuration", a_mistake_in_the_configuration, "retention_days", "fix what is listed"),
    Broken("locale", a_locale_without_utf_8, "LC_ALL=C is not a UTF-8 locale", "C.UTF-8"),
    Broken("locale", no_locale, "none is set", "C.UTF-8", ok=None),
    Broken("graph", no_graph, "/nowhere/graph.sqlite", "init"),
    Broken("graph", a_file_that_is_no_graph, "notes.txt", "graph"),
    Broken("graph journal", a_rollback_journal, "journal_mode=delete", "WAL"),
    Broken("active routes", nobody_subscribed, "0", "wake-bridge subscribe"),
    Broken("graph file system", the_graph_on_a_network, "lies on nfs4, mounted at", "WAL does not work over a network"),
    Broken("file events", no_inotify_left, "Too many open files", "max_user_instances"),
    Broken("file events", no_graph, "the graph does not exist", "", ok=None),
    Broken("file events", watching_switched_off, "switched off", "", ok=None),
    Broken("pruner", foreign_graph, ".neo-ai-data/wake-daemon/lastSyncId, we write ", "daemon.state_dir"),
    Broken("pruner", a_pruner_told_by_its_environment, "reads /elsewhere/lastSyncId, we write", "daemon.state_dir"),
    Broken("pruner", a_pruner_nobody_knows, "cannot tell which lastSyncId it reads", "", ok=None),
    Broken("state directory", a_state_directory_open_to_others, "mode 0755", "chmod 700 "),
    Broken("state directory", a_ledger_open_to_others, "state.sqlite has mode 0644", "chmod 600 "),
    Broken("state file system", the_state_on_a_network, "fuse.sshfs", "daemon.state_dir"),
    Broken("free disk", a_full_disk, "3 MB for", "free some space"),
    Broken("log file", a_log_file_below_a_file, "occupied/our.log cannot be written", "daemon.log_file"),
    Broken("log file", a_log_file_that_is_a_directory, "is a directory", "daemon.log_file"),
    Broken("ledger", a_ledger_of_a_later_version, "the ledger has version 99, this wake-bridge knows up to", "install"),
    Broken("ledger", a_damaged_ledger, "the ledger is damaged", "restart the daemon"),
    Broken("daemon", a_daemon_for_another_directory_only, "not running", "wake-bridge run"),
    Broken("settings", a_key_that_waits, "these wait for a reload: limits.storm", "kill -HUP", ok=None),
    Broken("settings", a_place_that_waits, "these wait for a restart: daemon.state_dir", "restart the daemon", ok=None),
    Broken("settings", a_typo_while_it_runs, "storn", "last good ones"),
    Broken("version", a_program_of_another_version, "this command 9.9.9", "restart the daemon", ok=None),
    Broken("other daemons", two_daemons_for_one_graph, "with the state directory /srv/of-its-own", "stop it"),
    Broken("upstream daemon", an_upstream_daemon_on_our_directory, "(wake-daemon.pid)", "stop it"),
    Broken("upstream daemon", an_upstream_daemon_elsewhere, "with another directory", "no identity of yours", ok=None),
    Broken(
        "daemon's tmux", another_directory_for_sockets, "the daemon looks for sockets below /tmp", "install the service"
    ),
    Broken("daemon's tmux", a_shell_in_another_server, "this shell's /srv/agents.sock", "socket_path"),
    Broken("daemon's tmux", a_daemon_with_a_private_tmp, "has a /tmp of its own", "PrivateTmp"),
    Broken("service", no_service, "not installed", "service install", ok=None),
    Broken("service", a_service_that_failed, "it failed: exit-code, exit status 3", "logs"),
    Broken("service", a_service_that_is_disabled, "not started at login", "service install"),
    Broken(
        "service", a_unit_of_another_version, "differs from what this version would install", "service install", ok=None
    ),
    Broken("linger", no_lingering, "ends with your last session", "loginctl enable-linger"),
    Broken("clock", a_clock_that_was_set_back, "the ledger has records of", "see that the time is right"),
    Broken("clock", a_clock_that_was_set_while_the_daemon_ran, "set forward by 10800 s", "restart the daemon"),
    Broken("quiet hours", night, "every wake is held for", "nothing is lost", ok=None),
    Broken("profiles", a_profile_with_a_mistake, "mine.toml", "correct the file"),
    Broken(
        "adapter stray", an_adapter_whose_file_is_another_packages, "its file does not belong to stray", "reinstall it"
    ),
    Broken("rules", a_rule_of_an_earlier_release, ".qwen/settings.json", "delete the lines `Bash(wake-bridge …)`"),
    Broken("MCP server", a_server_registered_without_its_sdk, "mcp, mcp_types is not installed", "wake-bridge[mcp]"),
    Broken(
        "hosts", a_list_of_hosts_that_is_none, "the list of hosts cannot be used", "what is no JSON must be removed"
    ),
    Broken("host devbox", a_linked_host_without_a_daemon, "no daemon keeps the link", "wake-bridge run", ok=None),
    Broken("signed wakes", an_entrance_without_its_server, "is not installed", "wake-bridge[http]"),
    Broken("pushes to @a", no_client_for_pushes, "no MCP client takes wakes now", "", ok=None),
    Broken("pushes to @a", no_daemon_for_pushes, "the daemon", "", ok=None),
    Broken("pushes to @a", a_client_that_drops_its_pushes, "its agent did nothing for 60 s", "--recover"),
    Broken("adapters", no_adapters, "none is installed", "install the package"),
    Broken("tmux", no_tmux, "tmux is not on PATH", "install tmux 3.2"),
    Broken("tmux", an_old_tmux, "tmux 3.1c", "install tmux 3.2"),
    Broken("tmux socket", nobody_at_the_socket, "no tmux server at", "start the agents in tmux"),
    Broken("tmux socket", another_directory_for_sockets, "no tmux server at", "start the agents in tmux"),
    Broken("tmux socket", a_socket_of_another_user, "belongs to another user", "[adapters.tmux]"),
    Broken("tmux UTF-8", a_tmux_without_utf_8, "_____", "UTF-8 locale"),
    Broken("target @a", a_name_that_no_pane_has, "no pane is called exactly 'nowhere'", "nowhere"),
    Broken("target @a", a_session_with_two_shells, "has 2 panes", "wake-bridge bind @a"),
    Broken("target @a", a_pane_with_a_shell, "no-agent", "start the agent in shell:"),
    Broken("version @a", a_version_nobody_has_seen, "its profile is strict", "take strict_version out of its profile"),
    Broken("names", a_pane_named_by_indexes, "@a by 'a:0.0' (its window is named after", "rename-window -t @", ok=None),
    Broken("heartbeat", no_heartbeat, "switched off", "[adapters.heartbeat]", ok=None),
    Broken(
        "own channel @a",
        an_own_channel_that_is_shut,
        "qwen: no session of Qwen Code runs",
        "its screen is used",
        ok=None,
    ),
    Broken("word to the human", a_word_that_nobody_says, "there is no nowhere-to-be-found", "whole path"),
    Broken("channel pager", channels_that_cannot_send, "its program is not found", "channels test pager"),
    Broken("channel desk", channels_that_cannot_send, "there is no notify-send here", "channels test desk"),
    Broken("channel phone", channels_that_cannot_send, "knows no service of such a URL", "channels test phone"),
    Broken("channel ops", channels_that_cannot_send, "webhooks need an extra", "channels test ops"),
    Broken("channel log", channels_that_cannot_send, "its file cannot be made", "channels test log"),
    Broken("budget @a", a_budget_that_is_spent, "spent: 1 wakes within an hour", "wake-bridge resume @a"),
)

CHANNELS = {f"channel {name}" for name in ("pager", "desk", "phone", "ops", "log")}
ONLY_WHEN_BROKEN = {"adapters", "adapter stray", "rules", *CHANNELS}
"""Checks that say nothing where nothing is wrong, or nothing is configured."""

ONLY_WHERE_WANTED = {"MCP server", "own channel @a", "signed wakes", "pushes to @a", "hosts", "host devbox"}
"""Checks of what the sound set-up does not have."""

OF_ADAPTERS = {f"adapter {one.name}" for one in entry_points(group="wake_bridge.adapters")} | {
    "codex app-server",
    "osascript",
}
"""What is said of each installed adapter; that one may be broken the stray one shows."""

ALWAYS_UNTOLD = {"pruner", "codex app-server", "adapter osascript", "osascript", "log file"}
"""Checks that do not apply to the sound set-up: nobody prunes an embedded graph, no Codex runs, this is no Mac, and its
daemon logs to its terminal."""


def by_name(findings: Sequence[Finding]) -> dict[str, Finding]:
    return {one.check: one for one in findings}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.check}-{row.how.__name__}")
def test_a_check_fails_on_a_set_up_that_breaks_it(setup: Setup, row: Broken) -> None:
    """Each check named there, with a hint what to do."""
    row.how(setup)

    found = by_name(setup.examined())[row.check]

    assert (found.ok, row.detail in found.detail, row.hint in found.hint) == (row.ok, True, True), found


def test_a_spent_budget_ends_by_the_clock_of_this_machine(setup: Setup) -> None:
    """As `send` says it."""
    a_budget_that_is_spent(setup)

    assert re.search(r", until \d\d:\d\d( tomorrow)?$", by_name(setup.examined())["budget @a"].detail)


def test_every_check_passes_on_a_sound_set_up(setup: Setup) -> None:
    """And says nothing to do; the table has a row for every check there is."""
    findings = setup.examined()

    assert [one for one in findings if one.ok is False] == []
    assert {one.check for one in findings if one.ok is None} == ALWAYS_UNTOLD
    assert {one.check for one in findings} | ONLY_WHEN_BROKEN | ONLY_WHERE_WANTED == {
        row.check for row in TABLE
    } | OF_ADAPTERS
    assert [one.check for one in findings if one.ok and one.hint] == []


def test_what_is_wanted_besides_is_well_where_nothing_is_missing(setup: Setup) -> None:
    """The registered MCP server can start, and signed wakes have an address and a sender."""
    a_server_that_is_registered(setup)
    assert by_name(setup.examined())["MCP server"].ok is True
    signed_wakes_are_taken_in(setup)
    found = by_name(setup.examined())["signed wakes"]
    assert (found.ok, found.detail) == (True, "127.0.0.1:8787, from up (@a)")


def test_the_log_file_is_well_where_the_settings_name_one_and_nobody_s_where_a_terminal_has_the_log(
    setup: Setup,
) -> None:
    """Of a daemon in the foreground "log file ok" was said, and there was none."""
    setup.configure("")
    assert "a daemon in a terminal logs there" in by_name(setup.examined())["log file"].detail

    setup.configure(f'daemon.log_file = "{setup.directory}/our.log"')
    assert by_name(setup.examined())["log file"].ok is True


def test_a_foreign_graph_whose_pruner_reads_our_cursor_is_well(setup: Setup) -> None:
    """Where the pruner reads the file that we write, nothing is wrong."""
    foreign_graph(setup)
    setup.environment(NEO_AI_DAEMON_DIR=str(setup.sandbox.state_dir))

    assert by_name(setup.examined())["pruner"].ok is True


def test_the_command_prints_every_check_and_ends_with_1_if_one_fails(sound_world: SoundWorld) -> None:
    """`doctor`: lines of check, ok, detail, hint; exit 0 only if none is false."""
    sandbox = sound_world.sandbox
    well = sandbox.lines("doctor")
    assert {tuple(line) for line in well} == {("check", "ok", "detail", "hint")}
    assert {line["ok"] for line in well} == {True, None}

    ill = sandbox.run("doctor", expect=1, environment={"LC_ALL": "POSIX"})
    assert "NOT OK" in ill.stdout
    assert "set LANG to one such as C.UTF-8" in ill.stdout


def test_a_dry_run_beside_the_daemon_is_no_second_one(setup: Setup) -> None:
    """Another daemon: a dry run types nothing."""
    beside = setup.sandbox.daemon("--dry-run")
    setup.undo.callback(beside.stop)

    assert by_name(setup.examined())["other daemons"].ok is True


def test_a_daemon_whose_state_directory_was_deleted_is_no_second_one(setup: Setup) -> None:
    """It is our own, and running; whoever stopped it as another one would lose what it knows."""
    elsewhere = setup.directory / "elsewhere.sqlite"
    shutil.copy(setup.sandbox.graph, elsewhere)
    setup.environment(WAKE_BRIDGE_GRAPH_PATH=str(elsewhere))
    a_daemon_of(setup, elsewhere, setup.other_state())

    found = by_name(setup.examined())
    assert found["other daemons"].ok is True
    assert found["daemon"].detail.startswith("running, and cannot write: ")


def test_the_doctor_changes_nothing(setup: Setup) -> None:
    """Also where there is no state yet."""
    state = setup.other_state()
    setup.examined()
    assert list(state.iterdir()) == []
    state.rmdir()
    found = by_name(setup.examined())["state directory"]
    assert (found.ok, state.exists()) == (None, False)
