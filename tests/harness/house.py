"""One real program at home: a pane, a throw-away HOME, a mock model, and a wake-bridge that is to wake it."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Self

import libtmux
import psutil

from tests.harness.installed import search_path
from tests.harness.manners import MANNERS
from tests.harness.model.server import MockModel
from tests.harness.programs import Program, Setting
from wake_bridge.control.client import ask
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.demo.tmux_server import Look, PrivateTmux, Typist
from wake_bridge.domain.names import Identity
from wake_bridge.records import delivery_record
from wake_bridge.storage.ledger import LedgerStore

SESSION: Final = "agents"
SIZE: Final = (80, 24)

STARTS_WITHIN: Final = 120.0
"""Seconds for a program to be up and idle; some build their caches first, and the machine may be busy."""

PATIENCE: Final = 60.0
"""Seconds for a program to do what it was asked for; all waits are for something seen, none for time to pass."""

MANY_WAKES: Final = """
limits.storm = 100
limits.wakes_per_hour = 1000
limits.wakes_per_day = 1000
"""

HAND_SPEED: Final = 0.5
"""Seconds between the last letter and Enter: sooner, programs take both for a paste, in which Enter is a line break."""


class House:
    """Everything around one program. A context manager that ends all of it.

    Args:
        program: who lives there.
        directory: an empty directory; everything lies below it.
        command: what starts wake-bridge.
    """

    has_plan = False

    def __init__(self, program: Program, directory: Path, command: Sequence[str]) -> None:
        self.program = program
        self.manners = MANNERS[program.name]
        self.identity = f"@{program.name}"
        self.home = directory / "agent-home"
        self.work = self.home / "project"
        self.work.mkdir(parents=True)
        self.model = MockModel(directory / "requests.jsonl")
        self.tmux = PrivateTmux()
        self.bridge = Sandbox(directory, self.tmux.socket_name, command)
        self.bridge.configure(QUICK + MANY_WAKES)
        self.pane: libtmux.Pane

    def __enter__(self) -> Self:
        self.moves_in()
        self.bridge.run("init")
        self.bridge.enlist(self.identity, self.pane_id)
        where = ("--tmux", self.pane_id, "--window", "0")
        self.bridge.run("subscribe", self.identity, "--trigger", "TASK_STATE_CHANGED", *where)
        self.starts()
        self.bridge.daemon()
        self.waits_for_presence("idle", STARTS_WITHIN)
        return self

    def moves_in(self) -> None:
        """The model answers, HOME is furnished, and a shell waits in a pane; no wake-bridge and no program yet."""
        self.model.start()
        setting = Setting(self.model.url, self.work, self.has_plan)
        for name, text in self.program.files(setting).items():
            file = self.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        _make_project(self.work)
        self.furnish()
        self.pane = self.tmux.new_pane(
            f"cd {shlex.quote(str(self.work))}; exec {shlex.join(self._shell(setting))}",
            session=SESSION,
            width=SIZE[0],
            height=SIZE[1],
        )
        self.waits_until(lambda look: "user$" in look.text, what="the shell's prompt")

    def furnish(self) -> None:
        """Put more into HOME before the program starts; here nothing."""

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End wake-bridge, the program with its tmux server, and the model."""
        try:
            self.bridge.close()
        finally:
            self.tmux.close()
            self.model.close()
            self._leaves_nobody_behind()

    def _leaves_nobody_behind(self) -> None:
        """End what the program has put into the background, such as the server of Codex: whatever has this HOME."""
        left = [one for one in psutil.process_iter() if self._is_at_home(one)]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)

    def _is_at_home(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("HOME") == str(self.home)
        except psutil.Error:
            return False

    def _shell(self, setting: Setting) -> list[str]:
        environment = {
            "PATH": search_path(),
            "HOME": str(self.home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "PS1": "user$ ",
            "NO_PROXY": "127.0.0.1,localhost",
            **self.program.environment(setting),
        }
        settings = [f"{name}={value}" for name, value in environment.items()]
        return ["env", "-i", *settings, "bash", "--norc", "--noprofile", "-i"]

    # -- the person ----------------------------------------------------------------------------------------------

    @property
    def pane_id(self) -> str:
        """The pane, `%0`."""
        return str(self.pane.pane_id)

    def starts(self) -> None:
        """Type the program's command line."""
        self.types(f"clear; {self.program.line}")
        self.presses("Enter")

    def opens_another(self, work: Path) -> str:
        """The same program of the same person in another pane and directory; answers the pane."""
        work.mkdir(exist_ok=True)
        start = f"exec {shlex.join(self._shell(Setting(self.model.url, work, self.has_plan)))}"
        pane = self.tmux.run("new-window", "-d", "-P", "-F", "#{pane_id}", "-c", str(work), start).strip()
        socket = self.tmux.run("display-message", "-p", "-t", pane, "#{socket_path},#{pid},0").strip()
        state = f"WAKE_BRIDGE_DAEMON_STATE_DIR={shlex.quote(str(self.bridge.state_dir))}"
        line = f"cd {shlex.quote(str(work))}; clear; {state} TMUX={socket} TMUX_PANE={pane} {self.program.line}"
        self.tmux.run("send-keys", "-t", pane, "-l", "--", line)
        self.tmux.run("send-keys", "-t", pane, "Enter")
        return pane

    def types(self, text: str) -> None:
        """Type letters."""
        self.tmux.run("send-keys", "-t", self.pane_id, "-l", "--", text)

    def presses(self, *keys: str) -> None:
        """Press keys, by tmux's names, as fast as a hand."""
        for number, key in enumerate(keys):
            if number:
                time.sleep(HAND_SPEED)
            self.tmux.run("send-keys", "-t", self.pane_id, key)

    def says(self, text: str) -> None:
        """Type a line, see it stand there, and press Enter."""
        self.types(text)
        self.waits_until(lambda look: _bare(text) in _bare(look.text), what=repr(text))
        time.sleep(HAND_SPEED)
        self.presses("Enter")

    def resize(self, width: int, height: int) -> None:
        """Give the window another size, whatever client looks at it."""
        self.tmux.run("resize-window", "-t", self.pane_id, "-x", str(width), "-y", str(height))

    def attach(self, width: int, height: int) -> Typist:
        """Attach a client whose terminal the window takes its size from, and wait until it has gone quiet."""
        self.tmux.run("set-option", "-w", "-t", self.pane_id, "window-size", "latest")
        typist = self.tmux.attach(SESSION, width, height)
        typist.waits_until_shown()
        return typist

    def look(self) -> Look:
        """What the pane shows."""
        return self.tmux.look(self.pane)

    def waits_until(self, condition: Callable[[Look], bool], timeout: float = PATIENCE, what: str = "") -> Look:
        """The first look that satisfies `condition`.

        Raises:
            TimeoutError: none did.
        """
        return self.tmux.waits_until(self.pane, condition, timeout, what)

    # -- wake-bridge ---------------------------------------------------------------------------------------------

    def explained(self) -> dict[str, Any]:
        """What the command `presence --explain` says of the program now."""
        return self.bridge.ask("presence", self.identity, "--explain")

    def presence(self) -> dict[str, Any]:
        """The same, asked of the daemon itself: a command costs more than it is worth where one asks again and again."""
        return dict(ask(self.bridge.state_dir, "presence", PATIENCE, identity=self.identity))

    def deliveries_of(self, message: str) -> list[dict[str, Any]]:
        """What the command `deliveries` would say of those that announce the message."""
        with closing(LedgerStore.open(self.bridge.state_dir, read_only=True)) as ledger:
            found = ledger.deliveries(state=None, identity=Identity(self.identity), limit=1000)
            records = [delivery_record(one, ledger.events_of(one.id)) for one in found]
        return [one for one in records if any(event["subject_key"] == message for event in one["events"])]

    def story_of(self, message: str) -> list[str]:
        """What the journal says of the deliveries that announce the message, a line each step."""
        with closing(LedgerStore.open(self.bridge.state_dir, read_only=True)) as ledger:
            return [
                f"{line.step} {dict(line.detail)}"
                for one in self.deliveries_of(message)
                for line in ledger.journal_of(one["id"])
            ]

    def waits_for_presence(self, state: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """The first presence with that state.

        Raises:
            TimeoutError: there was none; says what was found instead, and what the pane shows.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = self.presence()
            if found["state"] == state:
                return found
            if time.monotonic() > deadline:
                seen = [(one["vote"], one["rule"], one["saw"]) for one in found["evidence"]]
                raise TimeoutError(f"never {state}: {found['state']}, {found['why']} {seen}\n{self.look().text}")


def _make_project(work: Path) -> None:
    """A repository with one commit, for programs that want to work in one."""
    (work / "README.md").write_text("hello\n", encoding="utf-8")
    (work / ".gitignore").write_text(".aider*\nstarted\ngo\n", encoding="utf-8")
    git = ["git", "-c", "user.name=agent", "-c", "user.email=agent@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *command], cwd=work, check=True, capture_output=True)
    for name, value in (("user.name", "agent"), ("user.email", "agent@example.org")):
        subprocess.run(["git", "config", name, value], cwd=work, check=True, capture_output=True)


def _bare(text: str) -> str:
    """Text without what wrapping and framing add."""
    return re.sub(r"[\s\u2500-\u259f]+", "", text)
