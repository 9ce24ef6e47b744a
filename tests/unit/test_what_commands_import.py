"""Most of a short command's time is imports: what each may import is counted here, for counts do not depend on the load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = {
    "wake_bridge_adapters",
    "apscheduler",
    "asyncio",
    "libtmux",
    "logging",
    "psutil",
    "rich",
    "structlog",
    "watchfiles",
}
"""What only the daemon needs, or who looks at panes: see docs/performance.md for what each costs."""

JUDGING = {"pydantic", "pydantic_core", "importlib.metadata"}
"""What judges the whole configuration."""

LOADED = (
    "import sys; from wake_bridge.cli.start import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
)

SOMETHING_TO_DO = {
    "--help": SLOW | JUDGING | {"sqlite3", "wake_bridge.storage", "wake_bridge.config", "wake_bridge.engine"},
    "deliveries": SLOW | JUDGING | {"wake_bridge.wiring"},
    "ack 01M8FQXY1DZ6BPD2SHH367VR0Y": SLOW | JUDGING | {"wake_bridge.wiring"},
    "inbox @agent": SLOW | JUDGING | {"wake_bridge.wiring"},
    "send @agent --from @me --subject x": SLOW | {"wake_bridge.wiring"},
    "status": SLOW | {"wake_bridge.wiring"},
    "pause @agent": SLOW | {"wake_bridge.wiring"},
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A HOME with an embedded graph and one agent without mail."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for command in (["init"], ["agent", "add", "@agent"]):
        subprocess.run(
            [sys.executable, "-m", "wake_bridge", *command], env=environment, check=True, capture_output=True
        )
    return environment


def loaded_by(command: str, environment: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command.split()], env=environment, capture_output=True, text=True, check=False
    )
    assert "error: internal" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_the_version_is_told_before_anything_is_imported() -> None:
    """The start costs hardly more than the interpreter's own; not even `typing` is worth its time."""
    loaded = loaded_by("--version", dict(os.environ))

    ours = {name for name in loaded if name.startswith("wake_bridge")}
    started = {"wake_bridge.cli", "wake_bridge.cli.start", "wake_bridge.cli.streams", "wake_bridge.program_version"}
    assert ours == {"wake_bridge", *started}
    assert not loaded & {"click", "enum", "re", "typing", *SLOW, *JUDGING}


@pytest.mark.parametrize("command", SOMETHING_TO_DO)
def test_a_quick_command_imports_nothing_slow(command: str, environment: dict[str, str]) -> None:
    """Agents call these at every turn; what they do not need is not imported."""
    assert loaded_by(command, environment) & SOMETHING_TO_DO[command] == set()
