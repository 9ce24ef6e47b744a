"""A fake agent and the pane it lives in, as one thing."""

from __future__ import annotations

import shlex
from pathlib import Path

import libtmux

from wake_bridge.testing import HUNG
from wake_bridge.testing.fake_harness import FakeHarness
from wake_bridge.testing.tmux_server import PrivateTmux


class AgentPane:
    """One fake harness in a pane of its own.

    `fake` tells what to show and what was received, `pane` is libtmux's view of it.

    Args:
        tmux: the server it lives in.
        directory: where its log lies.
        name: of the harness, and of its session unless `session` says otherwise.
        options: for the harness's command line.
        session: the tmux session; a new window where it exists already.
        under_shell: started by a shell that takes over when the harness ends.
    """

    def __init__(
        self,
        tmux: PrivateTmux,
        directory: Path,
        name: str,
        *options: str,
        session: str = "",
        under_shell: bool = False,
    ) -> None:
        self.name = name
        self.session = session or name
        self.fake = FakeHarness(directory, name)
        self._tmux = tmux
        self._command = self.fake.command_before_shell(*options) if under_shell else self.fake.command(*options)
        self.pane = self._new_pane()

    def moves_in(self) -> None:
        """Start the harness again, in a new pane; what it received before stays in its log."""
        self.pane = self._new_pane()

    def _new_pane(self) -> libtmux.Pane:
        starts = len(self.fake.events("started"))
        pane = self._tmux.new_pane(self._command, session=self.session)
        self._waits_until_up(starts + 1)
        return pane

    def respawns(self) -> None:
        """Start the harness once more, in the same pane, whatever else runs there."""
        starts = len(self.fake.events("started"))
        line = self._command if isinstance(self._command, str) else f"exec {shlex.join(self._command)}"
        self._tmux.run("respawn-pane", "-k", "-t", self.id, line)
        self._waits_until_up(starts + 1)

    def _waits_until_up(self, starts: int) -> None:
        self.fake.waits_for("started", starts, HUNG)
        self.fake.control(HUNG)

    @property
    def id(self) -> str:
        """The pane's id, `%3`."""
        return str(self.pane.pane_id)

    @property
    def label(self) -> str:
        """The pane as a person reads it, `session:window.pane`."""
        return self._tmux.run(
            "display-message", "-p", "-t", self.id, "#{session_name}:#{window_index}.#{pane_index}"
        ).strip()

    def screen(self) -> str:
        """What the pane shows."""
        return self._tmux.look(self.pane).text
