"""Import names of modules that were renamed since 0.2: the old names work until 0.4."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final = {
    "wake_bridge.domain.heartbeat": "wake_bridge.domain.nudges",
    "wake_bridge.domain.instants": "wake_bridge.domain.names",
    "wake_bridge.domain.phrases": "wake_bridge.domain.digest",
    "wake_bridge.domain.refusals": "wake_bridge.domain.reasons",
    "wake_bridge.domain.route_conditions": "wake_bridge.domain.route_table",
    "wake_bridge.edges": "wake_bridge.system",
    "wake_bridge.edges.steady_clock": "wake_bridge.system.clock",
    "wake_bridge.edges.timestamps": "wake_bridge.system.clock",
    "wake_bridge.ports.archive": "wake_bridge.ports.ledger",
    "wake_bridge.testing.agent_pane": "wake_bridge.testing.playground",
    "wake_bridge.testing.fake_harness": "wake_bridge.demo.fake_harness",
    "wake_bridge.testing.graph_eye": "wake_bridge.testing.memory_core",
    "wake_bridge.testing.impostors": "wake_bridge.testing.playground",
    "wake_bridge.testing.memory_channel": "wake_bridge.testing.memory_adapter",
    "wake_bridge.testing.reaper": "wake_bridge.demo.sandbox",
    "wake_bridge.testing.sandbox": "wake_bridge.demo.sandbox",
    "wake_bridge.testing.tmux_server": "wake_bridge.demo.tmux_server",
    "wake_bridge.testing.typist": "wake_bridge.demo.tmux_server",
}


def spec_of(name: str) -> ModuleSpec | None:
    """How to load a module by its former name; None where it never was one."""
    new = MOVED.get(name, "")
    if name == "adapters" or name.startswith("adapters."):
        # the wheel takes a name of its own in site-packages: another library is called `adapters`
        new = f"wake_bridge_{name}"
    return ModuleSpec(name, _Alias(new)) if new else None


class _Alias(Loader):
    """Loads a module by being another one."""

    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> None:
        """The import system's own module will do; it is replaced at once."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in its place."""
        warnings.warn(f"{module.__name__} is {self._new} now", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(self._new)
