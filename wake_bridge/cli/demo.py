"""`demo`: one wake from send to read, in a tmux server, a HOME and a graph of its own."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import CommandContext, pass_run

if TYPE_CHECKING:
    from wake_bridge.demo.sandbox import Sandbox
    from wake_bridge.demo.tmux_server import PrivateTmux

SUBJECT: Final = "Review request: the cursor fix"
ANSWER: Final = "Noted."
"""What the fake agent says to a wake."""

PATIENCE: Final = 40.0
"""Seconds within which the wake must have arrived."""


@click.command()
@click.option("--harness", default="fake", show_default=True, help="The bundled fake harness, or a real one on PATH.")
@click.option("--keep", is_flag=True, help="Keep the demo's directory and tmux server for a closer look.")
@pass_run
def demo(run: CommandContext, harness: str, keep: bool) -> None:
    """Play one wake from start to end: a message is committed, the daemon sees it, the idle agent is woken.

    Nothing of yours is touched: the demo has its own graph, configuration, state and tmux server.
    """
    from wake_bridge.demo.sandbox import Sandbox
    from wake_bridge.demo.tmux_server import PrivateTmux
    from wake_bridge.domain.errors import OperationFailed

    if shutil.which("tmux") is None:
        raise OperationFailed(
            "tmux is not on PATH", hint="install tmux 3.2 or later (apt install tmux, brew install tmux)"
        )
    directory = Path(tempfile.mkdtemp(prefix="wake-bridge-demo-"))
    tmux = PrivateTmux()
    sandbox = Sandbox(directory, tmux.socket_name)
    try:
        outcome = _Demo(run, sandbox, tmux, directory, harness).play()
    finally:
        sandbox.close()
        if keep:
            run.console.say(f"\nkept: {directory}\n      tmux -L {tmux.socket_name} attach")
        else:
            tmux.close()
            shutil.rmtree(directory, ignore_errors=True)
    if not outcome:
        raise click.exceptions.Exit(1)


class _Demo:
    def __init__(self, run: CommandContext, sandbox: Sandbox, tmux: PrivateTmux, directory: Path, harness: str) -> None:
        from wake_bridge.demo.fake_harness import FakeHarness

        self._console = run.console
        self._sandbox = sandbox
        self._tmux = tmux
        self._harness = harness
        self._fake = FakeHarness(directory) if harness == "fake" else None

    def play(self) -> bool:
        """Whether the wake was seen submitted, once."""
        pane = self._tmux.new_pane(self._command(), session="agents", width=100, height=16)
        identity = f"@{self._harness}"
        self._tmux.waits_until(pane, lambda look: bool(look.text.strip()), PATIENCE, "the agent's first screen")
        self._prepare(identity)
        self._title(f"1  before: the agent {self._harness} is idle in its pane")
        self._show(self._tmux.look(pane).text)
        self._sandbox.daemon()
        # after two looks that agree nothing holds the wake
        self._sandbox.run("presence", identity, expect=None)

        self._title("2  a message is committed to the graph")
        message = self._sandbox.send(identity, SUBJECT, "--body", "Please look at it today.")
        self._console.say(f'   wake-bridge send {identity} --from @me --subject "{SUBJECT}"   → {message}')
        delivery = self._wait_for_end()
        if self._fake is not None and delivery["outcome"]:
            self._tmux.waits_until(pane, lambda look: ANSWER in look.text, PATIENCE, "the agent's answer")

        self._title("3  after: wake-bridge woke the agent")
        self._show(self._tmux.look(pane).text)
        self._title("4  the journal: each step was on disk before its key")
        story = self._sandbox.ask("deliveries", "show", str(delivery["id"]))
        for entry in story["journal"]:
            self._console.say(f"   {entry['at']}  {entry['step']}")
        submits = self._submits(delivery)
        is_well = delivery["outcome"] in {"submitted", "acknowledged"} and submits == 1
        record = {**story, "submits": submits, "ok": is_well}
        words = f"\nthe wake was {'submitted once' if is_well else 'NOT submitted once'}: {_standing(delivery)}"
        self._console.object(record, words)
        return is_well

    def _command(self) -> list[str]:
        from wake_bridge.domain.errors import NotFound

        if self._fake is not None:
            return self._fake.command("--reply-after", "600")
        program = shutil.which(self._harness)
        if program is None:
            raise NotFound(
                "no such program on PATH", self._harness, hint="leave out --harness to use the bundled fake harness"
            )
        return [program]

    def _prepare(self, identity: str) -> None:
        self._sandbox.configure()
        self._sandbox.run("init")
        self._sandbox.run("agent", "add", "@me", "--human")
        self._sandbox.run("agent", "add", identity)
        self._sandbox.run("subscribe", identity, "--trigger", "SENT_TO_ME", "--tmux", "agents", "--window", "0")

    def _wait_for_end(self) -> dict[str, Any]:
        """The delivery once it is settled, or as it is held when patience ends."""

        def settled() -> dict[str, Any] | None:
            return next((one for one in self._sandbox.deliveries() if one["settledAt"]), None)

        try:
            return self._sandbox.waits_for(settled, PATIENCE)
        except TimeoutError:
            return self._sandbox.deliveries()[0]

    def _submits(self, delivery: dict[str, Any]) -> int:
        """How often the wake was submitted: the fake's own record, or what the journal saw of a real program."""
        if self._fake is not None:
            return sum(str(delivery["id"]) in text for text in self._fake.submits())
        return int(delivery["proof"] >= 2)  # noqa: PLR2004 - proof level 2: seen leaving the composer

    def _title(self, text: str) -> None:
        self._console.say(f"\n── {text}")

    def _show(self, screen: str) -> None:
        lines = screen.rstrip().splitlines()
        self._console.say("\n".join(f"   │ {line}" for line in lines))


def _standing(delivery: dict[str, Any]) -> str:
    if delivery["outcome"]:
        return f"{delivery['outcome']}, proof {delivery['proof']}"
    return f"held: {delivery['remedy']}"
