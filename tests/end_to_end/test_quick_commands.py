"""Commands that agents run many times a day cost little, above all before they have done anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wake_bridge.testing.playground import Playground

HEAVY = {"asyncio", "structlog", "rich", "watchfiles", "apscheduler", "libtmux"}


@pytest.mark.parametrize("command", [("send", "@agent", "--from", "@me", "--subject=x"), ("pause", "@agent")])
def test_a_command_that_pokes_a_running_daemon_loads_nothing_that_only_the_daemon_needs(
    playground: Playground, command: tuple[str, ...]
) -> None:
    """Agents call `send` and its like in every turn: asking the daemon needs a socket, no event loop and no logging."""
    sandbox = playground.sandbox
    sandbox.run("init")
    sandbox.enlist("@agent", "nowhere")
    sandbox.daemon()

    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "wake_bridge", *command],
        env=sandbox.environment,
        cwd=sandbox.home,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    loaded = {line.rpartition("|")[2].strip() for line in said.stderr.splitlines() if line.startswith("import time:")}
    assert "wake_bridge.control.client" in loaded
    assert loaded & HEAVY == set()
