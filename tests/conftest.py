"""What tests share: a tmux server, and wake-bridge as a person has it, each of their own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.testing.playground import Playground
from wake_bridge.testing.tmux_server import PrivateTmux


@pytest.fixture(scope="session")
def program() -> tuple[str, ...]:
    """The installed console script."""
    return (str(Path(sys.executable).with_name("wake-bridge")),)


@pytest.fixture(scope="session")
def tmux_program() -> str:
    """Where tmux is. A laptop may lack it, and skips; where CI is set its tests must run."""
    found = shutil.which("tmux")
    if found:
        return found
    if os.environ.get("CI"):
        pytest.fail("tmux is not installed, and CI is set")
    pytest.skip("tmux is not installed")


@pytest.fixture
def tmux(tmux_program: str) -> Iterator[PrivateTmux]:  # noqa: ARG001 - asked for what it demands
    """A tmux server on a socket of its own; it starts with the first pane."""
    with PrivateTmux() as server:
        yield server


@pytest.fixture
def playground(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    """wake-bridge in a HOME of its own, and a tmux server to put agents in; nothing of it is started yet."""
    with Playground(tmp_path, program) as world:
        yield world
