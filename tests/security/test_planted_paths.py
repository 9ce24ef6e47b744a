"""What others put at the names that we use: nothing is written through it, and nothing hangs on it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wake_bridge_adapters.pane_lock import PaneIsTaken, lock_path, pane_lock

from wake_bridge.config.fields import Configuration
from wake_bridge.config.file import write_first_config
from wake_bridge.config.hosts import HostsFile, note_agents_of_hosts
from wake_bridge.config.own_profiles import file_of_profile, write_profile
from wake_bridge.config.settings import Settings
from wake_bridge.config.source_tokens import SourceTokens
from wake_bridge.control.graph_lock import GraphLock, graph_key
from wake_bridge.control.instance_lock import InstanceLock, liveness
from wake_bridge.control.last_look import note_look
from wake_bridge.control.settings_in_force import settings_of_daemon, write_settings
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety, WakeBridgeError
from wake_bridge.domain.names import Identity, Instant, LogId
from wake_bridge.domain.receivers import Secret
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.http.tokens import PageTokens
from wake_bridge.integrations.agent_files import plan_files
from wake_bridge.integrations.agent_files.record import read_files_record, write_files_record
from wake_bridge.integrations.channels import _append
from wake_bridge.integrations.service.launch import replace_ours
from wake_bridge.integrations.setup_record import SetupRecord, read_record, write_record
from wake_bridge.mcp.callers import token_of
from wake_bridge.ports.change_log import Published
from wake_bridge.storage import logs
from wake_bridge.storage.graph.schema import create_embedded_graph
from wake_bridge.storage.graph.upstream import LastSyncId, find_other_driver
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.files import replace_file, touch_own_file
from wake_bridge.testing import HUNG

VICTIM = b"somebody's only copy\n"
BRIEFLY = HUNG / 2
"""Seconds: far more than any of this takes, far less than for ever."""


def _settings(directory: Path) -> Settings:
    return Settings(Configuration(), directory / "c.toml", (), directory / "g.sqlite", directory)


def _publish(directory: Path) -> None:
    LastSyncId(directory).write(Published(LogId(7), Instant(1_000_000)))


def _log(directory: Path) -> None:
    handler = logs._rotated(directory / "wake-bridge.log")
    handler.close()


def _lock_a_pane(directory: Path) -> None:
    with pane_lock(str(directory / "tmux.sock"), 1, "%1"):
        pass


def _hold(directory: Path) -> None:
    with InstanceLock(directory):
        pass


def _profile(directory: Path) -> None:
    file_of_profile(directory, "fake")
    write_profile(directory, "fake", "name = 1\n")


def _send_into_file(directory: Path) -> None:
    _append(directory / "messages.jsonl", "01X", b'{"id": "01X"}\n')


def _page_tokens(directory: Path) -> PageTokens:
    return PageTokens(directory, lambda: Instant(1_000_000))


def _graph_in(directory: Path) -> Path:
    graph = directory / "locked-graph"
    graph.touch()
    return graph


def _lock_a_graph(directory: Path) -> None:
    lock = GraphLock(_graph_in(directory), directory, directory)
    lock.acquire()
    lock.release()


PANE_LOCK = lock_path("/x/tmux.sock", 1, "%1").name

WRITERS: dict[str, tuple[tuple[str, ...], Callable[[Path], object]]] = {
    "ledger": (("state.sqlite", "state.sqlite-wal", "state.sqlite-shm"), lambda at: LedgerStore.open(at).close()),
    "published cursor": (("lastSyncId", ".lastSyncId.new"), _publish),
    "channel file": (("messages.jsonl",), _send_into_file),
    "sign of life": (("heartbeat.alive",), lambda at: touch_own_file(at / "heartbeat.alive")),
    "last look": (("last-look",), lambda at: note_look(at, Instant(5))),
    "instance lock": (("daemon.lock",), _hold),
    "log file": (("wake-bridge.log",), _log),
    "record of setup": (("setup.json",), lambda at: write_record(at, SetupRecord(config="x"))),
    "record of files": (("agent_files.json",), lambda at: write_files_record(at, ())),
    "settings in force": (("settings.json", ".settings.json.new"),
                          lambda at: write_settings(at, _settings(at))),
    "configuration": (("config.toml",), lambda at: write_first_config(at / "config.toml", None)),
    "screen profile": (("fake.toml", ".fake.toml.new"), _profile),
    "unit": (("wake-bridge.service", ".wake-bridge.service.new"),
             lambda at: replace_ours(at / "wake-bridge.service", "[Unit]\n", "x", force=True)),
    "embedded graph": (("graph.sqlite",), lambda at: create_embedded_graph(at / "graph.sqlite", "now")),
    "token of an MCP client": (("mcp@mine.token",), lambda at: token_of(at, "@mine")),
    "tokens of sources": (("sources.json", ".sources.json.new", "sources.lock"),
                          lambda at: SourceTokens(at).renew("build")),
    "linked hosts": (("hosts.json", ".hosts.json.new", "hosts.lock"),
                     lambda at: HostsFile(at).let_in("laptop", Secret("key"))),
    "agents of linked hosts": (("hosts-agents.json", ".hosts-agents.json.new"),
                               lambda at: note_agents_of_hosts(at, {"box": (Identity("@a"),)})),
    "key of the page": (("page.key", ".page.key.new"), lambda at: _page_tokens(at).forget_all()),
    "where the page is": (("page.listen", ".page.listen.new"),
                          lambda at: replace_file(at / "page.listen", "127.0.0.1:1\n")),
    "pane lock in a shared directory": (("PANE_LOCK",), _lock_a_pane),
    "lock of a graph": (("GRAPH_LOCK",), _lock_a_graph),
}  # fmt: skip
"""Every file that is written, with every name at which it can be awaited."""

CASES = [(what, name) for what, (names, _) in WRITERS.items() for name in names]


def _place(directory: Path, name: str) -> Path:
    if name == "PANE_LOCK":
        return lock_path(str(directory / "tmux.sock"), 1, "%1")
    if name == "GRAPH_LOCK":
        return directory / f"{graph_key(_graph_in(directory))}.lock"
    return directory / name


def _act(what: str, directory: Path) -> float:
    """Write, whether or not it is refused; answers the seconds it took."""
    began = time.monotonic()
    with contextlib.suppress(WakeBridgeError, PaneIsTaken, OSError):
        WRITERS[what][1](directory)
    return time.monotonic() - began


@pytest.mark.parametrize(("what", "name"), CASES)
@pytest.mark.parametrize("dangling", [False, True], ids=["to a file", "to nothing"])
def test_a_link_at_a_name_of_ours_leads_nowhere(tmp_path: Path, what: str, name: str, dangling: bool) -> None:
    """A planted link never makes us change, empty, create or open up another file."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    victim = tmp_path / "victim"
    if not dangling:
        victim.write_bytes(VICTIM)
        victim.chmod(0o644)
    _place(directory, name).symlink_to(victim)

    _act(what, directory)

    if dangling:
        assert not victim.exists()
    else:
        assert (victim.read_bytes(), victim.stat().st_mode & 0o777) == (VICTIM, 0o644)


@pytest.mark.parametrize(("what", "name"), CASES)
@pytest.mark.parametrize("kind", ["pipe", "directory"])
@pytest.mark.timeout(60)
def test_a_pipe_or_a_directory_in_the_place_of_a_file_keeps_nobody_waiting(
    tmp_path: Path, what: str, name: str, kind: str
) -> None:
    """A directory in place, and a FIFO in place, do not hang, and stay what they are or go."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    place = _place(directory, name)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
        (place / "kept").write_bytes(VICTIM)

    assert _act(what, directory) < BRIEFLY
    if kind == "directory":
        assert (place / "kept").read_bytes() == VICTIM


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "published cursor": ("lastSyncId", lambda at: LastSyncId(at).read()),
    "instance lock": ("daemon.lock", liveness),
    "record of setup": ("setup.json", read_record),
    "record of files": ("agent_files.json", read_files_record),
    "settings in force": ("settings.json", settings_of_daemon),
    "tokens of sources": ("sources.json", lambda at: SourceTokens(at).now()),
    "key of the page": ("page.key", lambda at: _page_tokens(at).new_token()),
    "pid of another driver": ("wake-daemon.pid", find_other_driver),
    "ledger": ("state.sqlite", lambda at: LedgerStore.open(at, read_only=True).close()),
}


@pytest.mark.parametrize("what", READERS)
@pytest.mark.timeout(60)
def test_a_pipe_that_is_to_be_read_keeps_nobody_waiting(tmp_path: Path, what: str) -> None:
    """A FIFO in place does not hang, neither the daemon nor a command."""
    name, read = READERS[what]
    os.mkfifo(tmp_path / name)
    began = time.monotonic()

    with contextlib.suppress(WakeBridgeError, OSError):
        read(tmp_path)

    assert time.monotonic() - began < BRIEFLY


@pytest.mark.parametrize("at", ["config", "profile"])
def test_a_pipe_in_the_place_of_configuration_or_profile_is_a_mistake(sandbox: Sandbox, at: str) -> None:
    """Exit 3, at once."""
    place = sandbox.config_file if at == "config" else sandbox.config_file.parent / "screens" / "fake.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)

    answer = sandbox.run("run", "--once", expect=3, timeout=BRIEFLY)

    assert str(place) in answer.stderr
    assert "pipe" in answer.stderr or "is no file" in answer.stderr


def test_a_configuration_may_still_come_from_a_pipe_that_a_shell_made(sandbox: Sandbox) -> None:
    """`--config <(…)` has a writer, and is no trick."""
    line = f'exec {sandbox.command[0]} --config <(echo "coalesce.window = 7") config check'

    answer = subprocess.run(
        ["bash", "-c", line], env=sandbox.environment, capture_output=True, text=True, timeout=30, check=False
    )

    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("name", ["state.sqlite", "daemon.lock", "daemon.sock", "wake-bridge.log"])
def test_the_daemon_says_what_lies_in_the_way_and_ends(sandbox: Sandbox, name: str) -> None:
    """What failed, where, what to do; never a traceback, never a hang."""
    sandbox.run("init")
    sandbox.environment["WAKE_BRIDGE_DAEMON_LOG_FILE"] = str(sandbox.state_dir / "wake-bridge.log")
    sandbox.state_dir.mkdir(parents=True, exist_ok=True)
    for one in sandbox.state_dir.iterdir():
        one.unlink()
    (sandbox.state_dir / name).mkdir()
    (sandbox.state_dir / name / "kept").write_bytes(VICTIM)

    daemon = sandbox.daemon_under_way()
    code = daemon.process.wait(30)

    assert code == 1
    assert "Traceback" not in daemon.log()
    assert "error: " in daemon.log()
    assert (sandbox.state_dir / name / "kept").read_bytes() == VICTIM


# -- the agents' own files ---------------------------------------------------------------------------------------------


def _agent(directory: Path, harness: str = "claude") -> SetupAgent:
    return SetupAgent(identity=Identity("@a"), harness=harness, pane="work:a.0", directory=directory)


@pytest.mark.parametrize("target", [".bashrc", ".ssh/authorized_keys", "settings.json"])
def test_a_repository_cannot_lead_its_instructions_into_another_kind_of_file(tmp_path: Path, target: str) -> None:
    """A CLAUDE.md that is a link to a shell's start file is refused, and said."""
    room = tmp_path / "repository"
    room.mkdir()
    victim = tmp_path / target
    victim.parent.mkdir(exist_ok=True)
    victim.write_bytes(VICTIM)
    (room / "CLAUDE.md").symlink_to(victim)

    with pytest.raises(RefusedForSafety, match="another kind"):
        plan_files([_agent(room)], tmp_path)

    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize("link", [".claude", ".claude/settings.local.json"])
def test_a_repository_cannot_have_something_allowed_outside_of_it(tmp_path: Path, link: str) -> None:
    """An allow rule for one directory is not written into another one's settings."""
    room = tmp_path / "repository"
    (room / link).parent.mkdir(parents=True)
    elsewhere = tmp_path / ".claude"
    elsewhere.mkdir()
    (elsewhere / "settings.json").write_text("{}")
    (room / link).symlink_to(elsewhere if link == ".claude" else elsewhere / "settings.json")

    with pytest.raises(RefusedForSafety, match="somewhere else"):
        plan_files([_agent(room)], tmp_path)


@pytest.mark.timeout(60)
def test_an_instruction_file_that_is_a_pipe_or_huge_is_refused(tmp_path: Path) -> None:
    """A repository can bring neither down `setup`."""
    for name in ("pipe", "huge"):
        room = tmp_path / name
        room.mkdir()
        if name == "pipe":
            os.mkfifo(room / "AGENTS.md")
        else:
            (room / "AGENTS.md").touch()
            os.truncate(room / "AGENTS.md", 1 << 34)
        with pytest.raises(OperationFailed, match="not a regular file"):
            plan_files([_agent(room, "codex")], tmp_path)


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    with Sandbox(tmp_path, command=program) as made:
        yield made


def test_the_list_of_writers_names_every_module_that_opens_for_writing() -> None:
    """Every file we write; a new writer takes its line here, or says why not."""
    root = Path(sys.modules[WakeBridgeError.__module__].__file__ or "").parents[2]
    marks = (
        "os.O_CREAT",
        "begin_draft(",
        "replace_file(",
        "touch_own_file(",
        ".write_text(",
        ".write_bytes(",
        "mkstemp(",
    )
    writers = {
        str(path.relative_to(root))
        for tree in ("wake_bridge", "adapters")
        for path in (root / tree).rglob("*.py")
        if not any(tool in str(path) for tool in ("wake_bridge/testing", "wake_bridge/demo"))
        and any(mark in path.read_text(encoding="utf-8") for mark in marks)
    }

    assert (
        writers
        == {
            "adapters/wake_bridge_adapters/osascript/scripting.py",  # mkstemp: exclusive, 0600, a name nobody can guess
            "adapters/wake_bridge_adapters/pane_lock.py",
            "wake_bridge/cli/screens.py",  # `screens capture --output FILE` and `report`: a person's own choice of place
            "wake_bridge/config/hosts.py",
            "wake_bridge/offline/screen_profiles.py",  # into a directory that is made for it
            "wake_bridge/integrations/agent_files/text_file.py",  # a name nobody can guess, exclusively, then a rename
            "wake_bridge/config/own_profiles.py",
            "wake_bridge/config/private_file.py",  # a name nobody can guess, exclusively, then a rename; its lock follows no link
            "wake_bridge/daemon/web.py",  # a name nobody can guess, exclusively, then a rename
            "wake_bridge/http/tokens.py",  # a name nobody can guess, exclusively, then a rename
            "wake_bridge/config/file.py",  # a name nobody can guess, exclusively, then a rename
            "wake_bridge/schemas/envelope.py",  # `make docs`, in a checkout
            "wake_bridge/integrations/channels.py",
            "wake_bridge/storage/graph/schema.py",
            "wake_bridge/storage/ledger/ledger_file.py",  # unlinked, then exclusively, then a rename
            "wake_bridge/storage/logs.py",
            "wake_bridge/system/files.py",
            "wake_bridge/storage/graph/upstream.py",
            "wake_bridge/control/graph_lock.py",
            "wake_bridge/control/instance_lock.py",
            "wake_bridge/control/last_look.py",
            "wake_bridge/mcp/callers.py",
            "wake_bridge/integrations/service/launch.py",
            "wake_bridge/control/settings_in_force.py",  # unlinked, then exclusively, then a rename
            "wake_bridge/integrations/setup_record.py",  # a name nobody can guess, exclusively, then a rename
        }
    )
