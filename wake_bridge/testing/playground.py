"""A whole small world for a test: wake-bridge in a HOME of its own, a tmux server of its own, fake agents in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self, TypeVar

from wake_bridge.testing.agent_pane import AgentPane
from wake_bridge.testing.sandbox import QUICK, Sandbox
from wake_bridge.testing.tmux_server import PrivateTmux

AT_A_TIME: Final = 3
"""Commands that are run side by side where there are many; the machine may have two cores."""

Found = TypeVar("Found")


class Playground:
    """A sandbox and a tmux server; a context manager that ends all of it.

    The configuration is quick (`QUICK`), and there is a bystander: a pane that records every byte it gets, current in
    its session, which nothing must ever reach.

    Args:
        directory: an empty directory; everything lies below it.
        command: what starts the program.
    """

    def __init__(self, directory: Path, command: Sequence[str] = (sys.executable, "-m", "wake_bridge")) -> None:
        self.directory = directory
        self.tmux = PrivateTmux()
        self.sandbox = Sandbox(directory, self.tmux.socket_name, command)
        self.sandbox.configure(QUICK)
        self._bystander = directory / "bystander.bytes"
        self.agents: dict[str, AgentPane] = {}

    def agent(self, name: str, *options: str, session: str = "", under_shell: bool = False) -> AgentPane:
        """A fake agent in a pane of its own, drawn and idle; `options` as for its command line."""
        made = AgentPane(self.tmux, self.directory, name, *options, session=session, under_shell=under_shell)
        self.agents[name] = made
        return made

    def enlisted(self, name: str, *options: str, window: int = 0) -> AgentPane:
        """A fake agent whose identity, `@name`, is woken for mail within `window` seconds; in the embedded graph."""
        made = self.agent(name, *options)
        self.sandbox.enlist(f"@{name}", made.session, window=window)
        return made

    def together(self, act: Callable[[str], Found], names: Sequence[str]) -> dict[str, Found]:
        """Do something for each name, some at a time, and have what came of each.

        The first one comes alone: it may start the tmux server.
        """
        first, *others = names
        found = {first: act(first)}
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return found | dict(zip(others, pool.map(act, others), strict=True))

    def add_bystander(self) -> None:
        """Open the pane that records what it gets."""
        command = [sys.executable, "-m", "wake_bridge.testing.recorder", str(self._bystander)]
        pane = self.tmux.new_pane(command, session="bystander")
        self.tmux.waits_until(pane, lambda look: "recording" in look.text, what="the recorder's first line")

    def bystander_bytes(self) -> bytes:
        """All the bystander ever got."""
        return self._bystander.read_bytes()

    def close(self) -> None:
        """End the daemons, then the tmux server with everything in it."""
        try:
            self.sandbox.close()
        finally:
            self.tmux.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
