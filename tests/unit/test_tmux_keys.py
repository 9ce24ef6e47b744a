"""The block in a person's tmux configuration: what stands in it, and that it is taken back to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.integrations import agent_files
from wake_bridge.integrations.agent_files.tmux_keys import plan_tmux_keys, tmux_configuration

PROGRAM = ("/opt/my tools/wake-bridge",)


def test_the_file_that_tmux_reads_is_taken_and_else_the_one_in_the_home(tmp_path: Path) -> None:
    """`~/.tmux.conf` first, as tmux reads it; `XDG_CONFIG_HOME` is obeyed; none is made beside one that is there."""
    assert tmux_configuration(tmp_path, {}) == tmp_path / ".tmux.conf"
    own = tmp_path / "xdg" / "tmux" / "tmux.conf"
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert tmux_configuration(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) == own
    (tmp_path / ".tmux.conf").write_text("")
    assert tmux_configuration(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) == tmp_path / ".tmux.conf"


@pytest.mark.parametrize("content", ["set -g mouse on\n", "set -g mouse on", "", None])
def test_what_is_written_is_taken_back_to_the_byte(tmp_path: Path, content: str | None) -> None:
    """A repeated set-up changes nothing; `uninstall` leaves the file as it was, and none where there was none."""
    file, state = tmp_path / ".tmux.conf", tmp_path / "state"
    if content is not None:
        file.write_text(content)
    agent_files.apply([plan_tmux_keys(PROGRAM, tmp_path, {})], state)
    written = file.read_text()
    assert written.startswith(content or "")
    assert "wake-bridge' next --client '#{client_name}'" in written
    assert "next --back --client '#{client_name}'" in written
    assert not plan_tmux_keys(PROGRAM, tmp_path, {}).changes

    (removal,) = agent_files.remove(state)
    assert removal.trouble == ""
    assert (file.read_text() if file.exists() else None) == content


def test_a_path_that_tmux_would_read_as_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing is written that a shell or tmux could expand."""
    with pytest.raises(RefusedForSafety):
        plan_tmux_keys(("/opt/#{pane_title}/wake-bridge",), tmp_path, {})
    assert not (tmp_path / ".tmux.conf").exists()
