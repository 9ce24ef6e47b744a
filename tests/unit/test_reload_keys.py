"""Which changed keys a reload cannot take over, and says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wake_bridge.config.settings import NEEDS_RESTART, RELOADED, Settings, load_settings, needs_restart


def settings_of(directory: Path, text: str) -> Settings:
    file = directory / "config.toml"
    file.write_text(text)
    return load_settings(str(file), {})


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        ('graph.path = "/other.sqlite"', ["graph.path"]),
        ("graph.poll_interval = 2.0\ngraph.watch = false", ["graph.poll_interval", "graph.watch"]),
        ('daemon.state_dir = "/other"', ["daemon.state_dir"]),
        ('daemon.log_file = "/other.log"\ndaemon.log_level = "debug"', ["daemon.log_file"]),
        ('[adapters.tmux]\nsocket_path = "/other.sock"', ["adapters.tmux"]),
        ('daemon.log_level = "debug"', []),
        ('targets."@a".pane = "elsewhere"', []),
        ('policy.quiet_hours = "22:00-07:00"\nlimits.storm = 3\ncoalesce.window = 5', []),
        ('screens.directory = "/other"\npresence.typing_quiet = 20.0\ndelivery.adapter_timeout = 5.0', []),
    ],
)
def test_graph_daemon_and_sockets_need_a_restart_and_all_else_does_not(
    tmp_path: Path, changed: str, keys: list[str]
) -> None:
    """`graph.*`, `daemon.*` except `log_level`, and sockets; all else from the next decision."""
    assert needs_restart(settings_of(tmp_path, ""), settings_of(tmp_path, changed)) == keys


def test_the_page_lists_what_waits_for_a_restart() -> None:
    """Docs/settings.md has the code's own table."""
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    table = page.partition("| waits for a restart |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) ?\|$", table, re.MULTILINE)

    assert [name for name, _ in rows] == list(NEEDS_RESTART)
    assert [name for _, kept in rows for name in re.findall(r"`([\w.]+)`", kept)] == list(RELOADED)
