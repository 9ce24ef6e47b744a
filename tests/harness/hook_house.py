"""A real program with our hooks in its settings, and a wake-bridge that they tell how it stands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.harness.house import House
from tests.harness.model.server import Request
from tests.harness.programs import PROGRAMS
from wake_bridge.integrations.agent_files.hook_settings import INTO
from wake_bridge.integrations.hook.caller import EVENTS

TRUST: Final = "Trust all and continue"
CHOSEN: Final = re.compile(rf"›[^\n]*{TRUST}")

EXTRA: Final = {"codex": ("--dangerously-bypass-hook-trust",)}
"""Codex asks a person once whether it trusts a hook; nobody is there to answer."""


class HookHouse(House):
    """A house whose program runs `wake-bridge hook` at its events.

    Args:
        name: the program.
        directory: an empty directory.
        command: what starts wake-bridge.
        extra: arguments for the program, where not the usual ones.
    """

    def __init__(self, name: str, directory: Path, command: Sequence[str], extra: Sequence[str] | None = None) -> None:
        program = PROGRAMS[name]
        arguments = (*program.arguments, *(EXTRA.get(name, ()) if extra is None else extra))
        super().__init__(replace(program, arguments=arguments), directory, command)

    def furnish(self) -> None:
        """Our hooks: by the command a person gives, where the program has a settings file for them."""
        if self.program.name in INTO:
            self.bridge.run("hook", "install", self.program.name, environment={"HOME": str(self.home)})
            return
        entry = {"type": "command", "command": shlex.join((*self.bridge.command, "hook", "claude")), "timeout": 5}
        file = self.home / ".claude/settings.json"
        hooks = {event: [{"hooks": [entry]}] for event in EVENTS["claude"]}
        file.write_text(json.dumps({**json.loads(file.read_text()), "hooks": hooks}), encoding="utf-8")

    def starts(self) -> None:
        """Type its command line, in a pane that says which one it is."""
        socket = self.tmux.run("display-message", "-p", "-t", self.pane_id, "#{socket_path},#{pid},0").strip()
        state = f"WAKE_BRIDGE_DAEMON_STATE_DIR={shlex.quote(str(self.bridge.state_dir))}"
        self.types(f"clear; {state} TMUX={socket} TMUX_PANE={self.pane_id} {self.program.line}")
        self.presses("Enter")

    def requests_with(self, text: str) -> list[Request]:
        """What the model was asked that has this text anywhere, oldest first."""
        return [one for one in self.model.requests() if text in one.body]


class SharedHouse(HookHouse):
    """Codex as most people have it: hooks trusted once, conversations in a server that all terminals share.

    Args:
        directory: an empty directory.
        command: what starts wake-bridge.
    """

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        super().__init__("codex", directory, command, ())
        self.codex_home = self.home / ".codex"
        self._is_trusted = False

    def starts(self) -> None:
        """Type its command line; the first time say that the hooks are trusted."""
        super().starts()
        if not self._is_trusted:
            self.waits_until(lambda look: TRUST in look.text, what="the question about the hooks")
            self._trusts()
            self._is_trusted = True

    def _trusts(self) -> None:
        """Choose the answer until it stands there chosen: the question is drawn before keys are read, and the first may go nowhere."""
        for _ in range(10):
            self.presses("2")
            with suppress(TimeoutError):
                look = self.waits_until(lambda look: TRUST not in look.text or bool(CHOSEN.search(look.text)), 1.0)
                if TRUST in look.text:
                    self.presses("Enter")
                return
        raise TimeoutError(f"{TRUST} cannot be chosen")
