"""Twelve agents in one tmux server, found by all kinds of names, and the book of who lives where.

The book is the person's own: it is written by who moves the agents, and never asks the bridge.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import libtmux

from tests.torture.rig import Agent, Rig
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux

STARTS_WITHIN: Final = 60.0
SHARED: Final = "shared"
BUSY_FOR: Final = ("--reply-after", "500")
FORMATS: Final = ("pane_id", "window_id", "session_id", "session_name", "window_index", "window_name", "pane_index")
SHELL: Final = "sh"
OUR_MARK: Final = "Wake: "
RUN_BY_SHELL: Final = re.compile(r"[#$] ?\[WAKE\]|sh: \d+: ")
"""A wake behind a prompt, or what a shell says of words that are no command."""


@dataclass(frozen=True, slots=True)
class Lodging:
    """How an identity is found at first.

    Attributes:
        name: what tmux calls it: `session`, `session:window`, `session:window.pane`.
        in_targets: the name stands in [targets], not in the subscription.
        shares: it works in the directory that six of them share.
    """

    name: str
    in_targets: bool = False
    shares: bool = False


LODGINGS: Final = {
    "ann": Lodging("team:0.0", shares=True),
    "bob": Lodging("team:0.1", shares=True),
    "cat": Lodging("team:1", in_targets=True, shares=True),
    "dan": Lodging("team:dan", shares=True),
    "eve": Lodging("team:eve", in_targets=True, shares=True),
    "fay": Lodging("fay", shares=True),
    "gus": Lodging("gus"),
    "hal": Lodging("hal", in_targets=True),
    "ida": Lodging("side:0.0"),
    "jim": Lodging("side:0.1"),
    "kim": Lodging("side:1.0", in_targets=True),
    "lou": Lodging("side:lou"),
}
"""Half of them with one harness in one directory; indexes, names of windows and of sessions; [targets] and subscriptions."""


@dataclass(slots=True)
class Tenant:
    """One identity by the book.

    Attributes:
        identity: `@ann`.
        fake: its agent; started anew it is another process with the same log.
        work: where the agent works.
        name: what [targets] says, or else the subscription.
        in_targets: whether [targets] says it.
        pane: the pane it lives in; empty while that is closed.
        is_up: whether the agent runs there; a shell has the pane otherwise.
    """

    identity: str
    fake: FakeHarness
    work: Path
    name: str
    in_targets: bool
    pane: str = ""
    is_up: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether its pane is closed, and nobody has started it anew."""
        return not self.pane

    def line(self) -> str:
        """What starts it in a pane, under a shell that takes over."""
        self.fake = FakeHarness(self.fake.log.parent, self.fake.name)
        return f"cd {shlex.quote(str(self.work))}; {self.fake.command_before_shell(*BUSY_FOR)}"

    def command(self) -> str:
        """What a person types in its shell."""
        self.fake = FakeHarness(self.fake.log.parent, self.fake.name)
        return shlex.join(self.fake.command(*BUSY_FOR))

    def starts(self) -> int:
        """How often it was started so far."""
        return len(self.fake.events("started"))


@dataclass(frozen=True, slots=True)
class Spot:
    """One pane as tmux lists it."""

    pane: str
    window: str
    session: str
    session_name: str
    index: str
    window_name: str
    pane_index: str

    def is_called(self, name: str) -> bool:
        """Whether a target means it, or it among others."""
        session, _, inside = name.partition(":")
        windows = {self.index, self.window_name}
        called = {"", *windows, *(f"{one}.{self.pane_index}" for one in windows)}
        return name == self.pane or (session == self.session_name and inside in called)


@dataclass(slots=True)
class Strangers:
    """Panes that are nobody's: shells, and agents that nobody asked for."""

    shells: set[str] = field(default_factory=set)
    agents: dict[str, FakeHarness] = field(default_factory=dict)
    all_agents: list[FakeHarness] = field(default_factory=list)


class House(Rig):
    """The rig with these agents, and their book: `tenants` by name."""

    def __init__(self, directory: Path, tmux: PrivateTmux, *, unknown_again: int) -> None:
        self.tenants: dict[str, Tenant] = {}
        self.strangers = Strangers()
        self.shells_told: list[str] = []
        tmux.new_pane(f"exec {SHELL}", session="keeper", width=200, height=60)
        tmux.run("set-option", "-g", "default-size", "200x60")
        tmux.run("set-option", "-g", "history-limit", "500")
        super().__init__(directory, tmux, [*LODGINGS], lease=10, unknown_again=unknown_again)

    # -- what the rig asks -----------------------------------------------------------------------------------------

    def _agent(self, name: str, options: Sequence[str], *, before_shell: bool) -> Agent:  # noqa: ARG002
        lodging = LODGINGS[name]
        work = self.directory / (SHARED if lodging.shares else f"of-{name}")
        work.mkdir(exist_ok=True)
        tenant = Tenant(f"@{name}", FakeHarness(self.directory, name), work, lodging.name, lodging.in_targets)
        self.tenants[tenant.identity] = tenant
        tenant.pane = self.opened(lodging.name, tenant.line())
        self.comes_up(tenant, 0)
        pane = self.tmux.server.panes.get(pane_id=tenant.pane)
        assert isinstance(pane, libtmux.Pane)
        return Agent(tenant.identity, name, tenant.fake, pane)

    def target_of(self, agent: Agent) -> str:
        """The table of who is found by it."""
        tenant = self.tenants[agent.identity]
        expected = "" if tenant.work.name == SHARED else f'agent = "fake"\ndirectory = "{tenant.work}"\n'
        return f'[targets."{agent.identity}"]\npane = "{tenant.name}"\n{expected}' if tenant.in_targets else ""

    def metadata_of(self, agent: Agent) -> Mapping[str, str]:
        """The name of who is found by its subscription."""
        tenant = self.tenants[agent.identity]
        return {} if tenant.in_targets else {"tmuxSession": tenant.name}

    # -- panes -----------------------------------------------------------------------------------------------------

    def spots(self) -> list[Spot]:
        """All panes, as they are called now."""
        between = "\t"
        lines = self.tmux.run("list-panes", "-a", "-F", between.join(f"#{{{one}}}" for one in FORMATS)).splitlines()
        return [Spot(*line.split(between)) for line in lines]

    def spot(self, pane: str) -> Spot:
        """How a pane is called now."""
        return next(one for one in self.spots() if one.pane == pane)

    def opened(self, name: str, line: str) -> str:
        """A new pane that has that name, where it can be had; its id."""
        session, _, inside = name.partition(":")
        window, _, index = inside.partition(".")
        spots = [one for one in self.spots() if one.session_name == session]
        made = ("-d", "-P", "-F", "#{pane_id}")
        if not spots:
            pane = self.tmux.run("new-session", *made, "-x", "200", "-y", "60", "-s", session, line).strip()
        elif index not in {"", "0"}:
            pane = self.tmux.run("split-window", *made, "-t", f"={session}:{window}", line).strip()
            self.tmux.run("select-layout", "-t", pane, "tiled")
        else:
            place = f"={session}:{window}" if window.isdecimal() else f"={session}:"
            pane = self.tmux.run("new-window", *made, "-t", place, line).strip()
        if window and not window.isdecimal():
            self.tmux.run("rename-window", "-t", pane, window)
        return pane

    def comes_up(self, tenant: Tenant, before: int) -> None:
        """Wait until its agent, started `before` times so far, has drawn its screen."""
        tenant.fake.waits_for("started", before + 1, STARTS_WITHIN)
        tenant.fake.control(STARTS_WITHIN)
        tenant.is_up = True

    def starts_in_shell(self, tenant: Tenant) -> None:
        """The person types the agent's command into the shell of its pane."""
        self.waits_for_shell(tenant.pane)
        self.looks_at_shell(tenant.pane)
        before = tenant.starts()
        self.tmux.run("send-keys", "-t", tenant.pane, "-l", f"cd {shlex.quote(str(tenant.work))}; {tenant.command()}")
        self.tmux.run("send-keys", "-t", tenant.pane, "Enter")
        self.comes_up(tenant, before)

    def waits_for_shell(self, pane: str) -> None:
        """Wait until a shell has the pane."""
        deadline = time.monotonic() + STARTS_WITHIN
        while self.tmux.run("display-message", "-p", "-t", pane, "#{pane_current_command}").strip() != SHELL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no shell in {pane}:\n{self.tmux.run('capture-pane', '-p', '-t', pane)}")
            time.sleep(0.02)

    def looks_at_shell(self, pane: str) -> None:
        """No shell may ever have got a wake; what its agent had drawn may be left on the screen."""
        shown = self.tmux.run("capture-pane", "-p", "-S", "-", "-t", pane)
        if RUN_BY_SHELL.search(shown):
            self.shells_told.append(f"the shell in {pane} shows\n{shown}")

    def moves(self, tenant: Tenant, name: str) -> None:
        """What [targets] says of it is another name from now on."""
        tenant.name = name
        self.configure()

    def empty_panes(self) -> list[str]:
        """Panes that are nobody's and have a shell."""
        return [one.pane for one in self.spots() if one.pane in self.strangers.shells]
