"""`uninstall [--purge] [--dry-run]`: the installed program, real panes, a HOME of its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.config.hosts import HostsFile, note_agents_of_hosts
from wake_bridge.control.last_look import note_look
from wake_bridge.daemon.web import PAGE_FILE
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.http.tokens import KEY_FILE
from wake_bridge.integrations.agent_files import apply, plan_files
from wake_bridge.mcp.callers import token_of
from wake_bridge.system.files import make_private_directory
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.recorded_programs import RecordedPrograms

HARNESSES = ("claude", "codex", "gemini", "opencode", "qwen", "aider")
ODD = {
    "api/AGENTS.md": b"# House rules\r\n\r\nTabs.",
    "api/.claude/settings.local.json": b'{ "permissions" : {"allow":[ "Bash(ls:*)" ]\t},"env":{"A":"1"} }',
    "api/opencode.jsonc": b'{\n\t// careful\n\t"permission": "ask",\n}',
    ".codex/rules/default.rules": b"# mine\n",
}


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    """A playground whose tmux directory nobody else uses, and a service manager that writes down what it is asked."""
    programs = tmp_path / "programs"
    programs.mkdir()
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMUX_TMPDIR", directory)
        with Playground(tmp_path, program) as made:
            recorded = RecordedPrograms(programs, "systemctl", "loginctl", "launchctl")
            made.sandbox.environment["PATH"] = recorded.path(made.sandbox.environment)
            yield made


def settled(world: Playground) -> None:
    """An agent in a project with odd files, bound by hand; the project's CLAUDE.md is a link."""
    home = world.sandbox.home
    for name, content in ODD.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
        (home / name).chmod(0o640)
    (home / "api/CLAUDE.md").symlink_to("AGENTS.md")
    before = Path.cwd()
    os.chdir(home / "api")
    try:
        world.agent("api", session="agents")
    finally:
        os.chdir(before)


def set_up(world: Playground) -> str:
    """`setup`, the agents' files as for the real harnesses, and a binding; answers the identity."""
    box = world.sandbox
    answer = box.ask("setup", "--yes", "--write-instructions")
    (identity,) = [one["agentIdentity"] for one in answer["agents"]]
    agents = [SetupAgent(f"@{name}", name, box.home / "api", "agents:0.0") for name in HARNESSES]
    apply(plan_files(agents, box.home), box.state_dir)
    box.run("bind", identity, "--pane", world.agents["api"].id)
    return str(identity)


def snapshot(box: Sandbox, *besides: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything below HOME but for some places and what SQLite leaves beside a file that was only read."""
    seen: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(box.home.rglob("*")):
        if path.name.endswith(("-wal", "-shm")) or any(path.is_relative_to(place) for place in besides):
            continue
        content: bytes | str = "directory"
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        seen[str(path.relative_to(box.home))] = (stat.S_IMODE(path.lstat().st_mode), content)
    return seen


def options(world: Playground) -> list[str]:
    """What tmux knows of options, of the server, of sessions, windows and every pane."""
    panes = world.tmux.run("list-panes", "-a", "-F", "#{pane_id}").splitlines()
    return [
        *(world.tmux.run("show-options", scope) for scope in ("-s", "-g", "-gw")),
        *(world.tmux.run("show-options", "-p", "-t", pane) for pane in panes),
    ]


@pytest.mark.parametrize("is_in_two_steps", [False, True], ids=["at once", "in two steps"])
def test_setup_then_uninstall_with_purge_leaves_home_and_tmux_as_they_were(
    world: Playground, is_in_two_steps: bool
) -> None:
    """Must show: `setup` then `uninstall`: a diff of HOME, tmux options and config is empty."""
    settled(world)
    shutil.rmtree(world.sandbox.config_file.parent)
    world.sandbox.environment["WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME"] = world.tmux.socket_name
    before, marks = snapshot(world.sandbox), options(world)

    set_up(world)
    during = snapshot(world.sandbox)
    if is_in_two_steps:
        world.sandbox.run("uninstall")
    world.sandbox.run("uninstall", "--purge", "--yes")

    assert len(during) > len(before) + 8
    assert snapshot(world.sandbox) == before
    assert options(world) == marks


def test_purge_leaves_no_key_and_no_token_behind(world: Playground) -> None:
    """Every file that wake-bridge keeps in its state directory is known as its own."""
    box = world.sandbox
    box.run("init")
    box.run("sources", "token", "ci")
    HostsFile(box.state_dir).own_name("01")
    note_agents_of_hosts(box.state_dir, {"devbox": [Identity("@far")]})
    token_of(box.state_dir, "@mine")
    for name in (KEY_FILE, PAGE_FILE):
        (box.state_dir / name).write_text("x")

    said = box.ask("uninstall", "--purge", "--yes")

    assert not [line for line in said["stays"] if "not ours" in line]
    assert not box.state_dir.exists()


def test_setup_then_uninstall_gives_the_persons_files_back_and_says_what_stays(world: Playground) -> None:
    """User files byte-identical to before; lists what stays (state, graph, config)."""
    settled(world)
    box = world.sandbox
    box.run("init")
    box.state_dir.mkdir(parents=True)
    places = (box.state_dir, box.graph.parent)
    config, before, marks = box.config_file.read_bytes(), snapshot(box, *places), options(world)

    identity = set_up(world)
    said = box.ask("uninstall")

    assert snapshot(box, *places) == before
    assert options(world) == marks
    assert box.config_file.read_bytes() == config
    assert [line.split(":")[0] for line in said["stays"]] == [
        "state (deliveries, cursor, log)",
        "graph (identities, mail)",
        "configuration",
    ]
    assert box.lines("list") == [{"subscriptions": []}]
    assert identity in [one["agentIdentity"] for one in box.lines("agent", "list")]
    assert box.ask("uninstall")["done"] == []


def test_a_dry_run_says_the_same_and_changes_nothing(world: Playground) -> None:
    """`--dry-run`."""
    settled(world)
    set_up(world)
    box = world.sandbox
    before, marks = snapshot(box), options(world)

    would = box.ask("uninstall", "--dry-run", "--purge")
    unchanged = (snapshot(box), options(world))
    did = box.ask("uninstall", "--purge", "--yes")

    assert unchanged == (before, marks)
    assert len(would["done"]) == len(did["done"])
    assert any("CLAUDE.md" in line or "AGENTS.md" in line for line in would["done"])


def test_what_was_edited_since_loses_our_part_alone(world: Playground) -> None:
    """A file that the person edited keeps the edits."""
    settled(world)
    set_up(world)
    agents = world.sandbox.home / "api/AGENTS.md"
    agents.write_bytes(agents.read_bytes() + b"A word of mine.\r\n")

    world.sandbox.run("uninstall")

    assert agents.read_bytes() == ODD["api/AGENTS.md"] + b"\r\nA word of mine.\r\n"


def test_open_deliveries_are_listed(world: Playground) -> None:
    """Lists open deliveries."""
    settled(world)
    identity = set_up(world)
    box = world.sandbox
    world.agents["api"].fake.shows("busy")
    box.send(identity, "never to be read")
    box.run("run", "--once", timeout=90)

    said = box.ask("uninstall")

    (left,) = said["open"]
    assert (left["target"], left["state"]) == (identity, "DISPATCHED")
    assert world.agents["api"].fake.bytes_received() == b""


def test_a_daemon_in_a_terminal_is_not_stopped_but_named(world: Playground) -> None:
    """Refuses while a daemon runs; how to stop it is said."""
    settled(world)
    set_up(world)
    box = world.sandbox
    daemon = box.daemon()
    before = snapshot(box, box.state_dir, box.graph.parent)

    refused = box.run("uninstall", "--purge", "--yes", expect=5)

    assert "Ctrl-C" in refused.stderr
    assert str(daemon.process.pid) in refused.stderr
    assert daemon.process.poll() is None
    assert snapshot(box, box.state_dir, box.graph.parent) == before


def test_a_dry_run_shows_all_while_a_daemon_runs_and_says_that_it_has_to_be_stopped(world: Playground) -> None:
    """`uninstall --dry-run`: says what would be done; that needs nobody to stop anything."""
    settled(world)
    set_up(world)
    box = world.sandbox
    daemon = box.daemon()

    said = box.ask("uninstall", "--dry-run")

    assert any("targets" in line for line in said["done"])
    assert any(f"kill {daemon.pid}" in line for line in said["stays"])
    assert daemon.process.poll() is None


def test_the_mark_of_a_persons_last_look_is_ours_to_purge(world: Playground) -> None:
    """`--purge` removes the state directory, in which `status` in a terminal leaves a file."""
    box = world.sandbox
    box.run("init")
    make_private_directory(box.state_dir)
    note_look(box.state_dir, Instant(1))

    said = box.ask("uninstall", "--purge", "--yes")

    assert not box.state_dir.exists()
    assert said["stays"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the commands ask systemd on Linux alone")
def test_the_service_is_stopped_and_removed(world: Playground) -> None:
    """Stops and removes the service."""
    box = world.sandbox
    box.run("init")
    box.run("service", "install", "--force")
    unit = box.home / ".config/systemd/user/wake-bridge.service"
    assert unit.exists()

    said = box.ask("uninstall")

    assert not unit.exists()
    assert "stopped and disabled wake-bridge.service" in said["done"]


def test_marks_of_other_peoples_making_stay(world: Playground) -> None:
    """Only options that name identities bound here are removed."""
    settled(world)
    identity = set_up(world)
    pane = world.agents["api"].id
    world.tmux.run("set-option", "-p", "-t", pane, "@wake_identity", f"{identity} @elsewhere")

    world.sandbox.run("uninstall")

    assert world.tmux.run("show-options", "-pv", "-t", pane, "@wake_identity").strip() == "@elsewhere"


def test_purge_never_removes_a_foreign_graph_or_files_of_others(world: Playground) -> None:
    """Never a foreign graph, never a directory with foreign files in it."""
    box = world.sandbox
    box.run("init")
    graph = sqlite3.connect(box.graph)
    graph.execute("PRAGMA application_id = 0")
    graph.close()
    make_private_directory(box.state_dir)
    foreign = box.state_dir / "woken-watermark.json"
    foreign.write_text("{}")
    (box.state_dir / "lastSyncId").write_text("7")
    (box.config_file.parent / "notes.txt").write_text("mine")
    box.run("pause", "--all")

    said = box.ask("uninstall", "--purge", "--yes")

    assert box.graph.exists()
    assert sorted(path.name for path in box.state_dir.iterdir()) == ["lastSyncId", "woken-watermark.json"]
    assert [path.name for path in box.config_file.parent.iterdir()] == ["notes.txt"]
    assert any("another program made" in line for line in said["stays"])
    assert any("woken-watermark.json" in line for line in said["stays"])


def test_screen_profiles_of_a_persons_own_stay_and_are_named(world: Playground) -> None:
    """What `screens trust` taught was a person's word: it is theirs to remove, and they are told where it lies."""
    box = world.sandbox
    box.run("init")
    screens = box.config_file.parent / "screens"
    screens.mkdir()
    (screens / "README.txt").write_text("mine")

    said = box.ask("uninstall", "--purge", "--yes")

    assert said["stays"] == [f"your own screen profiles: {screens}"]
    assert (screens / "README.txt").exists()


def test_a_configuration_somewhere_else_stays(world: Playground, tmp_path: Path) -> None:
    """A file that the person chose is theirs to remove."""
    box = world.sandbox
    elsewhere = tmp_path / "mine.toml"
    elsewhere.write_bytes(box.config_file.read_bytes())

    said = box.ask("--config", str(elsewhere), "uninstall", "--purge", "--yes")

    assert elsewhere.exists()
    assert any(str(elsewhere) in line for line in said["stays"])


def test_what_cannot_be_taken_back_is_named_and_nothing_is_purged(world: Playground) -> None:
    """A broken file stays as it is, and the record with it, so that it can be tried again."""
    settled(world)
    set_up(world)
    box = world.sandbox
    settings = box.home / "api/.claude/settings.local.json"
    whole = settings.read_bytes()
    settings.write_bytes(b"{ broken")

    refused = box.run("--json", "uninstall", "--purge", "--yes", expect=1)

    assert str(settings) in refused.stderr
    assert json.loads(refused.stdout)["troubles"]
    assert settings.read_bytes() == b"{ broken"
    assert box.state_dir.exists()
    assert box.graph.exists()
    settings.write_bytes(whole)
    box.run("uninstall", "--purge", "--yes")
    assert settings.read_bytes() == ODD["api/.claude/settings.local.json"]
    assert not box.state_dir.exists()


def test_it_names_the_agents_to_restart(world: Playground) -> None:
    """An agent that runs has read its file at its start, and goes on calling what is gone."""
    settled(world)
    set_up(world)
    said = world.sandbox.ask("uninstall", "--dry-run")["restart"]
    assert world.sandbox.ask("uninstall")["restart"] == said
    (one,) = said
    assert one.startswith("fake in agents:")
    assert one.endswith(str(world.sandbox.home / "api"))
    assert world.sandbox.ask("uninstall")["restart"] == []
