"""The machine on which the documents are taken at their word."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.nursery import shell_program
from wake_bridge.testing.playground import Impostors

AGENTS = ("api", "web", "core", "docs", "tools")
READS_ITS_MAIL = (
    "--reply-after",
    "300",
    "--inbox-command",
    'wake-bridge inbox "$(echo "$WAKE_BRIDGE_TEST_FAKE_TEXT" | sed -n "s/.* for \\(@[a-z-]*\\).*/\\1/p")" --bodies --consume',
)


@pytest.fixture
def clean_machine(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Mapping[str, str]]:
    """The environment of a person who has nothing yet: no configuration, no graph, a tmux server of its own."""
    home = tmp_path / "home"
    for name in AGENTS:
        (home / name).mkdir(parents=True)
    troupe = Impostors(tmp_path / "programs")
    troupe.node_program("claude", "@anthropic-ai/claude-code", "2.1.332", *READS_ITS_MAIL)
    troupe.node_program("codex", "@openai/codex", "0.171.0", *READS_ITS_MAIL)
    troupe.node_program("gemini", "@google/gemini-cli", "0.61.0", *READS_ITS_MAIL)
    troupe.python_program("aider", "aider-chat", "0.86.2", *READS_ITS_MAIL)
    with tempfile.TemporaryDirectory(prefix="wbt-") as sockets:
        environment = {
            "HOME": str(home),
            "PATH": os.pathsep.join(
                [
                    *troupe.search_path,
                    str(shell_program(tmp_path / "bin")),
                    str(Path(program[0]).parent),
                    os.environ["PATH"],
                ]
            ),
            "TMUX_TMPDIR": sockets,
            "SHELL": "/bin/sh",
            "TERM": "screen-256color",
            "LANG": "C.UTF-8",
            "WAKE_BRIDGE_SCREENS_DIRECTORY": str(troupe.profiles),
        }
        try:
            yield environment
        finally:
            subprocess.run([tmux_program, "kill-server"], env=environment, capture_output=True, check=False)
