"""A real Claude Code with our plugin in it, and a wake-bridge that may ring it."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from tests.harness.house import MANY_WAKES, House
from tests.harness.programs import PROGRAMS
from wake_bridge.control.client import SOCKET_NAME
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.names import Identity
from wake_bridge.storage.ledger import LedgerStore

HANDING_OVER: Final = frozenset({"PostToolBatch", "Stop"})

SOON: Final = 20.0
"""Seconds."""


class ClaudeHouse(House):
    """A house in which Claude Code has the plugin.

    Args:
        directory: an empty directory.
        command: what starts wake-bridge.
        hands_over: whether its hooks may take what is held at the end of a turn or of a tool, before the monitor can.
    """

    def __init__(self, directory: Path, command: tuple[str, ...], *, hands_over: bool = True) -> None:
        super().__init__(PROGRAMS["claude"], directory, command)
        self.claude_directory = self.home / ".claude"
        self.settings_before = ""
        self._hands_over = hands_over
        # the daemon is the same person's
        self.bridge.environment["CLAUDE_CONFIG_DIR"] = str(self.claude_directory)

    def furnish(self) -> None:
        """The plugin, by the command a person gives."""
        self.settings_before = (self.claude_directory / "settings.json").read_text(encoding="utf-8")
        self.bridge.run("--config", str(self.bridge.config_file), "claude", "install")
        if not self._hands_over:
            file = self.claude_directory / "skills" / "wake-bridge" / "hooks" / "hooks.json"
            hooks = json.loads(file.read_text(encoding="utf-8"))["hooks"]
            kept = {event: entry for event, entry in hooks.items() if event not in HANDING_OVER}
            file.write_text(json.dumps({"hooks": kept}), encoding="utf-8")

    def configure(self, *, natively: bool) -> None:
        """Say whether its own door is to be used, and start the daemon anew."""
        self.bridge.daemons[-1].stop()
        self.bridge.configure(f"{QUICK}{MANY_WAKES}adapters.claude.enabled = {str(natively).lower()}\n")
        self.bridge.daemon()
        if natively:
            self.waits_for_monitor()

    def starts(self) -> None:
        """Type its command line, in a pane that says which one it is."""
        socket = self.tmux.run("display-message", "-p", "-t", self.pane_id, "#{socket_path},#{pid},0").strip()
        state = f"WAKE_BRIDGE_DAEMON_STATE_DIR={shlex.quote(str(self.bridge.state_dir))}"
        self.types(f"clear; {state} TMUX={socket} TMUX_PANE={self.pane_id} {self.program.line}")
        self.presses("Enter")

    # -- what of Claude Code can be seen -------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """What the session says of itself; empty where there is none."""
        for file in (self.claude_directory / "sessions").glob("*.json"):
            with suppress(ValueError, OSError):
                found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
                if psutil.pid_exists(found["pid"]):
                    return found
        return {}

    def monitors(self) -> list[psutil.Process]:
        """Our monitors in it."""
        found = []
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                if one.cmdline()[-2:] == ["claude", "monitor"] and self._is_at_home(one):
                    found.append(one)
        return found

    def waits_for_monitor(self, timeout: float = SOON) -> psutil.Process:
        """The one monitor, once it waits at the daemon.

        Raises:
            TimeoutError: there is none.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = self.monitors()
            if len(found) == 1 and self.is_known() and self.is_listening():
                return found[0]
            if time.monotonic() > deadline:
                standing = f"known: {self.is_known()}, listening: {self.is_listening()}"
                raise TimeoutError(f"{len(found)} monitors, {standing}\n{self.look().text}")
            time.sleep(0.1)

    def is_known(self) -> bool:
        """Whether the daemon knows the session that runs now as the identity's."""
        with closing(LedgerStore.open(self.bridge.state_dir, read_only=True)) as ledger:
            known = {one.session_id for one in ledger.sessions_of(Identity(self.identity))}
        return self.record().get("sessionId") in known

    def is_listening(self) -> bool:
        """Whether somebody waits at the daemon for a line: a connection that stays."""
        seen = [self._connections()]
        time.sleep(0.1)
        return bool(seen[0] & self._connections())

    def _connections(self) -> set[int]:
        """The daemon's ends of what commands, hooks and monitors have opened."""
        daemon = self.bridge.daemons[-1]
        if daemon.process.poll() is not None:
            return set()
        with suppress(psutil.Error):
            open_ = [
                one
                for one in psutil.Process(daemon.pid).net_connections("unix")
                if str(one.laddr).endswith(SOCKET_NAME)
            ]
            # the lowest is what it listens on
            return set(sorted(one.fd for one in open_)[1:])
        return set()
