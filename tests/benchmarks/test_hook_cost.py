"""What an agent waits at each of its hooks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import LIMITS, Office
from wake_bridge.testing.hook_caller import HookCaller

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

CALLS: Final = 50
HAND_OVERS: Final = 20
HARNESSES: Final = ("claude", "codex", "gemini")
NOTHING_PENDING: Final = 15.0
"""Milliseconds."""


def test_hooks(office: Office, figures: Figures) -> None:
    """The whole process of a hook: nothing pending ≤ 15 ms; beside it an interpreter that does nothing, a hand-over, no daemon."""
    office.sandbox.configure(LIMITS)
    office.agents(1)
    # somebody in no pane: nothing but a hook can tell them
    with office.core() as core:
        core.identity("@nowhere")
        core.subscribe("@nowhere", harnessTargetMetadata={"adapter": "tmux", "coalesceWindow": 0})
    daemon, _ = office.daemon()
    callers = [HookCaller(office.sandbox, name, "@nowhere", f"5e55-{name}") for name in HARNESSES]
    for caller in callers:
        assert caller.prints("PostToolUse") == ""
    floor: list[float] = []
    quiet: dict[str, list[float]] = {name: [] for name in HARNESSES}
    for _ in range(CALLS):
        # in one round each once: what else the machine does falls on all alike
        floor.append(_milliseconds([sys.executable, "-c", "pass"]))
        for caller in callers:
            taken, printed = _call(caller)
            assert printed == ""
            quiet[caller.harness].append(taken)
    figures.add("`python -c pass`", floor, "ms")
    for name, times in quiet.items():
        figures.add(f"`wake-bridge hook {name}`, nothing pending", times, "ms", at_most=NOTHING_PENDING)
    figures.add("`wake-bridge hook codex`, one message handed over", _hand_overs(office, callers[1]), "ms")
    daemon.stop()
    figures.add("`wake-bridge hook codex`, no daemon", [_call(callers[1])[0] for _ in range(CALLS)], "ms")


def _hand_overs(office: Office, caller: HookCaller) -> list[float]:
    taken = []
    for number in range(HAND_OVERS):
        with office.core() as core:
            core.identity("@somebody")
            message = core.send("@somebody", "@nowhere", f"Review request {number}")
        office.sandbox.waits_for(lambda: any(one["state"] == "DISPATCHED" for one in office.sandbox.deliveries()))
        milliseconds, printed = _call(caller)
        assert message in printed
        taken.append(milliseconds)
    return taken


def _call(caller: HookCaller) -> tuple[float, str]:
    began = time.monotonic()
    printed = caller.prints("PostToolUse", {"tool_name": "shell"})
    return (time.monotonic() - began) * 1000, printed


def _milliseconds(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, cwd=Path("/"))
    return (time.monotonic() - began) * 1000
