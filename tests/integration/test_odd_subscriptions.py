"""Rows of the graph that say what no subscription says: they hide nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing.memory_core import MemoryCore


@pytest.mark.parametrize("odd", [{"agentIdentity": None}, {"trigger": 7}], ids=["nobody's", "a number"])
def test_an_odd_row_hides_no_other_subscription(tmp_path: Path, program: tuple[str, ...], odd: dict[str, Any]) -> None:
    """`list` shows all of them."""
    with Sandbox(tmp_path, command=program) as here:
        here.run("init")
        here.run("agent", "add", "@a")
        here.run("subscribe", "@a", "--trigger", "sent_to_me", "--tmux", "work:0.0")
        with MemoryCore(here.graph) as core:
            core.subscribe("@a", **odd)

        said = here.run("list")

        assert "@a" in said.stdout
        assert len(here.ask("list")["subscriptions"]) == 2


def test_a_pause_of_no_length_is_refused(tmp_path: Path, program: tuple[str, ...]) -> None:
    """It would be one without an end."""
    with Sandbox(tmp_path, command=program) as here:
        here.run("init")
        here.run("agent", "add", "@a")
        said = here.run("pause", "@a", "--for", "0s", expect=2)
        assert "no length" in said.stderr
