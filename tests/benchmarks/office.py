"""One person's set-up: agents in panes of a tmux server of its own, a graph that another program writes, a daemon."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing.memory_core import MemoryCore

PATIENCE: Final = 60.0
"""Seconds to wait for what must come."""

LIMITS: Final = """
[coalesce]
refractory = 0
[limits]
storm = 1000
wakes_per_hour = 1000
wakes_per_day = 1000
thread_wakes = 1000
"""
"""Settings under which nothing but the wakes themselves takes time."""


class Office:
    """One person's set-up: agents in panes, a foreign graph written by its own server, a daemon."""

    def __init__(self, directory: Path, tmux: PrivateTmux, program: Sequence[str]) -> None:
        self.directory = directory
        self.tmux = tmux
        self.sandbox = Sandbox(directory, tmux.socket_name, program)
        self.sandbox.graph.parent.mkdir(parents=True)
        self.sandbox.state_dir.mkdir(parents=True, mode=0o700)
        MemoryCore.create(self.sandbox.graph).close()
        self.panes: dict[str, str] = {}
        """The pane of each agent by its name."""

    def core(self) -> MemoryCore:
        """The graph's writer; close it."""
        return MemoryCore(self.sandbox.graph)

    def agent(self, name: str, *options: str) -> FakeHarness:
        """An idle agent `@name` in a window of its own, subscribed to its mail with window 0; `options` as it takes."""
        harness = FakeHarness(self.directory, name)
        pane = self.tmux.new_pane(harness.command(*options), session="agents", width=100, height=30)
        self.panes[name] = str(pane.pane_id)
        self.tmux.run("set-option", "-p", "-t", str(pane.pane_id), "@wake_identity", f"@{name}")
        harness.waits_for("started", timeout=PATIENCE)
        with self.core() as core:
            core.identity(f"@{name}")
            # also other wakers than ours find the pane by it
            address = {"appName": "Claude", "adapter": "tmux", "tmuxSession": str(pane.pane_id), "coalesceWindow": 0}
            core.subscribe(f"@{name}", harnessTargetMetadata=address)
        return harness

    def agents(self, count: int, *options: str) -> list[FakeHarness]:
        """Several of them."""
        return [self.agent(f"agent{number}", *options) for number in range(count)]

    def daemon(self) -> tuple[DaemonProcess, float]:
        """A daemon that has reached the tip, and when it was started, in UTC seconds."""
        started = time.time()
        daemon = self.sandbox.daemon()
        assert daemon.process.poll() is None, daemon.log()
        return daemon, started

    def close(self) -> None:
        self.sandbox.close()
