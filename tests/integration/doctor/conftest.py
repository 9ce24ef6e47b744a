"""A set-up in which everything is as it should be, to break one thing of it at a time."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.doctor import Finding, examine
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.recorded_programs import RecordedPrograms


class SoundWorld:
    """A daemon that runs as a service, an embedded graph, one agent that has been woken once."""

    def __init__(self, directory: Path, program: tuple[str, ...]) -> None:
        self.playground = Playground(directory, program)
        self.sandbox = self.playground.sandbox
        self.tmux = self.playground.tmux
        (directory / "bin").mkdir()
        self.programs = RecordedPrograms(directory / "bin", "systemctl", "loginctl")
        self.programs.answer("loginctl show-user", "Linger=yes\n")
        self.sandbox.environment |= {
            "PATH": self.programs.path(self.sandbox.environment),
            "LANG": "C.UTF-8",
            "LC_ALL": "",
        }
        self.sandbox.run("init")
        agent = self.playground.enlisted("a")
        self.sandbox.run("service", "install", "--force")
        daemon = self.sandbox.daemon()
        self.service_runs(f"ActiveState=active\nUnitFileState=enabled\nMainPID={daemon.pid}\n")
        self.sandbox.send("@a", "good morning")
        agent.fake.waits_for("submit")
        self.sandbox.waits_for_delivery(state="DELIVERED")

    def service_runs(self, shown: str) -> str:
        """What the manager says of the service from now on; answers what it said before."""
        before = getattr(self, "_shown", "")
        self._shown = shown
        self.programs.answer("systemctl --user show wake-bridge.service", shown)
        return before


class Setup:
    """The sound world as one test sees it, and may break it."""

    def __init__(self, world: SoundWorld, directory: Path, monkeypatch: pytest.MonkeyPatch, undo: ExitStack) -> None:
        self.world = world
        self.sandbox = world.sandbox
        self.directory = directory
        self.monkeypatch = monkeypatch
        self.undo = undo
        self._config: str | None = None

    def environment(self, **variables: str) -> None:
        """Have the person's shell say so."""
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def configure(self, text: str, *, adapters: bool = True) -> None:
        """Another configuration for the person who asks; what runs, runs on as it was."""
        server = f'[adapters.tmux]\nsocket_name = "{self.world.tmux.socket_name}"\n' if adapters else ""
        file = self.directory / "config.toml"
        file.write_text(f"{QUICK}\n{text}\n{server}")
        self._config = str(file)

    def other_state(self) -> Path:
        """An empty state directory, configured, for a graph that no daemon serves."""
        directory, graph = self.directory / "state", self.directory / "unserved.sqlite"
        directory.mkdir(mode=0o700)
        shutil.copy(self.sandbox.graph, graph)
        self.configure(f'daemon.state_dir = "{directory}"\ngraph.path = "{graph}"')
        return directory

    def graph_copy(self, path: Path, *statements: str) -> None:
        """A copy of the graph, changed by the statements, configured."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.sandbox.graph)) as graph, closing(sqlite3.connect(path)) as copy:
            graph.backup(copy)
            for statement in statements:
                copy.execute(statement)
            copy.commit()
        self.configure(f'graph.path = "{path}"')

    def program(self, name: str, script: str) -> None:
        """A program that comes before all of that name."""
        directory = self.directory / "bin"
        directory.mkdir(exist_ok=True)
        file = directory / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        self.environment(PATH=f"{directory}:{self.sandbox.environment['PATH']}")

    def examined(self) -> list[Finding]:
        """What the doctor finds."""
        return asyncio.run(examine(self._config))


@pytest.fixture(scope="module")
def sound_world(
    tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...], tmux_program: str
) -> Iterator[SoundWorld]:
    assert tmux_program
    if sys.platform != "linux":
        pytest.skip("the sound set-up is one of Linux: a systemd service, inotify, /proc")
    directory = tmp_path_factory.mktemp("sound")
    world = SoundWorld(directory, program)
    yield world
    world.playground.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def setup(sound_world: SoundWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    for name in ("TMUX", "TMUX_PANE", "NEO_AI_DAEMON_DIR", "NEO_MEMORY_DB_PATH", "NEO_BRIDGE_LAST_SYNC_ID_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in sound_world.sandbox.environment.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as undo:
        yield Setup(sound_world, tmp_path, monkeypatch, undo)
