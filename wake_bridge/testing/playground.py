"""A whole small world for a test: wake-bridge in a HOME of its own, a tmux server of its own, fake agents in it.

What stands behind such a name is the fake harness with its own screens, and a profile that reads those. So they prove
nothing about the real program's screens; captures and the real programs do.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self, TypeVar

import libtmux

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.testing import HUNG


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


BUNDLED: Final = Path(__file__).parents[2] / "adapters/wake_bridge_adapters/screens/fake.toml"
_PROGRAM: Final = """#!{python}
import sys

from wake_bridge.demo.fake_harness.__main__ import main

sys.argv[1:1] = {options!r}
raise SystemExit(main())
"""


class Impostors:
    """Programs to put on a PATH, and the directory of profiles that goes with them.

    Args:
        directory: an empty directory. `profiles` in it is what `screens.directory` must name, `logs` holds what each
            program received, by name and process.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.profiles = directory / "profiles"
        self.logs = directory / "logs"
        self.search_path: list[str] = []
        """What belongs on PATH."""
        for one in (self.profiles, self.logs):
            one.mkdir(parents=True)

    def node_program(self, name: str, package: str, version: str, *options: str) -> None:
        """A program as npm installs it: its version stands in the `package.json` beside it."""
        home = self._directory / "node_modules" / package
        home.mkdir(parents=True)
        (home / "package.json").write_text(json.dumps({"name": package, "version": version}), encoding="utf-8")
        self._write(home, name, options)
        self._profile(name, f"packages = [{json.dumps(package)}]")

    def python_program(self, name: str, distribution: str, version: str, *options: str) -> None:
        """A program as pip installs it: its version stands in the name of the directory that describes it."""
        prefix = self._directory / f"{name}-environment"
        described = f"{distribution.replace('-', '_')}-{version}.dist-info"
        (prefix / "lib/python3.12/site-packages" / described).mkdir(parents=True)
        (prefix / "bin").mkdir()
        self._write(prefix / "bin", name, options)
        self._profile(name, f"distributions = [{json.dumps(distribution)}]")

    def _write(self, home: Path, name: str, options: tuple[str, ...]) -> None:
        program = home / name
        received = [*options, "--name", name]
        program.write_text(_PROGRAM.format(python=sys.executable, options=received), encoding="utf-8")
        program.chmod(0o755)
        self.search_path.append(str(home))

    def _profile(self, name: str, recognised_besides: str) -> None:
        text = BUNDLED.read_text(encoding="utf-8")
        text = text.replace('name = "fake"', f"name = {json.dumps(name)}", 1)
        own = 'modules = ["wake_bridge.demo.fake_harness"]'
        text = text.replace(own, f"commands = [{json.dumps(name)}]\n{recognised_besides}", 1)
        (self.profiles / f"{name}.toml").write_text(text, encoding="utf-8")


AT_A_TIME: Final = 3
"""Commands that are run side by side where there are many; the machine may have two cores."""

Found = TypeVar("Found")


class Playground:
    """A sandbox and a tmux server; a context manager that ends all of it.

    The configuration is quick (`QUICK`), and there is a bystander: a pane that records every byte it gets, current in
    its session, which nothing must ever reach.

    Args:
        directory: an empty directory; everything lies below it.
        command: what starts the program.
    """

    def __init__(self, directory: Path, command: Sequence[str] = (sys.executable, "-m", "wake_bridge")) -> None:
        self.directory = directory
        self.tmux = PrivateTmux()
        self.sandbox = Sandbox(directory, self.tmux.socket_name, command)
        self.sandbox.configure(QUICK)
        self._bystander = directory / "bystander.bytes"
        self.agents: dict[str, AgentPane] = {}

    def agent(self, name: str, *options: str, session: str = "", under_shell: bool = False) -> AgentPane:
        """A fake agent in a pane of its own, drawn and idle; `options` as for its command line."""
        made = AgentPane(self.tmux, self.directory, name, *options, session=session, under_shell=under_shell)
        self.agents[name] = made
        return made

    def enlisted(self, name: str, *options: str, window: int = 0) -> AgentPane:
        """A fake agent whose identity, `@name`, is woken for mail within `window` seconds; in the embedded graph."""
        made = self.agent(name, *options)
        self.sandbox.enlist(f"@{name}", made.session, window=window)
        return made

    def together(self, act: Callable[[str], Found], names: Sequence[str]) -> dict[str, Found]:
        """Do something for each name, some at a time, and have what came of each.

        The first one comes alone: it may start the tmux server.
        """
        first, *others = names
        found = {first: act(first)}
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return found | dict(zip(others, pool.map(act, others), strict=True))

    def add_bystander(self) -> None:
        """Open the pane that records what it gets."""
        command = [sys.executable, "-m", "wake_bridge.testing.recorded_programs", str(self._bystander)]
        pane = self.tmux.new_pane(command, session="bystander")
        self.tmux.waits_until(pane, lambda look: "recording" in look.text, what="the recorder's first line")

    def bystander_bytes(self) -> bytes:
        """All the bystander ever got."""
        return self._bystander.read_bytes()

    def close(self) -> None:
        """End the daemons, then the tmux server with everything in it."""
        try:
            self.sandbox.close()
        finally:
            self.tmux.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
