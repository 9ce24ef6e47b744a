"""A private tmux server with fake harnesses in real panes, and the adapter looking at it."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import libtmux
import psutil
import pytest
from ulid import ULID
from wake_bridge_adapters.pane_lock import lock_path
from wake_bridge_adapters.tables import TmuxConfig
from wake_bridge_adapters.tmux import TmuxAdapter

from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import Look, PrivateTmux, Typist
from wake_bridge.domain.delivery import Progress, Step
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import Evidence, Observation, single_vote
from wake_bridge.domain.routing import Address, Binding
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Nowhere, Place, SendBy, Wake
from wake_bridge.testing import until

QUIET = 2.0
"""Seconds of `typing_quiet` in these tests: the least there is."""


class SystemClock:
    """The machine's own time."""

    def now(self) -> Instant:
        return Instant(int(time.time() * 1000))

    wall = now

    def local(self) -> object:
        raise NotImplementedError


@dataclass
class Journal:
    """Keeps every step in memory; `on` runs something in the moment a step is written.

    With `seconds` an intent to submit is good for so many seconds, from before `on` runs.
    """

    steps: list[tuple[Step, Mapping[str, str]]] = field(default_factory=list)
    times: dict[Step, float] = field(default_factory=dict)
    on: dict[Step, Callable[[], object]] = field(default_factory=dict)
    seconds: int = 0

    async def __call__(self, step: Step, evidence: Mapping[str, str]) -> SendBy | None:
        is_limited = self.seconds and step is Step.INTENT_SUBMIT
        send_by = SendBy.within(self.seconds, SystemClock()) if is_limited else None  # type: ignore[arg-type]
        self.steps.append((step, evidence))
        self.times[step] = time.monotonic()
        if step in self.on:
            await asyncio.to_thread(self.on[step])
        return send_by

    @property
    def names(self) -> list[str]:
        return [step.value for step, _ in self.steps]


@dataclass
class Resident:
    """A fake harness in a pane."""

    fake: FakeHarness
    pane: libtmux.Pane
    tmux: PrivateTmux

    @property
    def id(self) -> str:
        return str(self.pane.pane_id)

    @property
    def pid(self) -> int:
        return int(self.fake.events("started")[-1]["pid"])

    def look(self) -> Look:
        return self.tmux.look(self.pane)

    def is_untouched(self) -> bool:
        return self.fake.bytes_received() == b""

    def enters(self) -> int:
        return self.fake.bytes_received().count(b"\r")

    def composer(self) -> str:
        return str(self.fake.state()["composer"])

    def has_been_drawn_in_its_size(self) -> bool:
        """Whether the agent knows how large its pane is: tmux tells a second change a quarter of a second later."""
        sizes = [
            one.get("size", [one.get("width"), one.get("height")])
            for one in self.fake.records()
            if one["event"] in {"started", "resized"}
        ]
        size = self.tmux.run("display-message", "-p", "-t", self.id, "#{pane_width} #{pane_height}").split()
        # it answers when it has drawn
        return size == [str(one) for one in sizes[-1]] and bool(self.fake.state())

    def stops(self) -> None:
        """Stop it from outside; a signal is obeyed when the process is next given a processor."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)


class Scene:
    """One private server, its panes, and an adapter for it."""

    def __init__(self, tmux: PrivateTmux, directory: Path) -> None:
        self.tmux = tmux
        self.directory = directory
        self.journal = Journal()
        self.adapter = self.new_adapter()

    def new_journal(self) -> Journal:
        return Journal()

    def new_adapter(
        self,
        *,
        timeout: float = 10.0,
        typing_quiet: float = QUIET,
        socket_name: str = "",
        screens_directory: str = "",
        **environment: str,
    ) -> TmuxAdapter:
        context = AdapterContext(
            timeout=timeout,
            typing_quiet=typing_quiet,
            screens_directory=screens_directory,
            environment={**os.environ, **environment},
            clock=SystemClock(),  # type: ignore[arg-type]
        )
        return TmuxAdapter(TmuxConfig(socket_name=socket_name or self.tmux.socket_name), context)

    def resident(
        self,
        name: str = "fake",
        *options: str,
        session: str = "agents",
        shell: bool = False,
        script: bool = False,
        width: int = 80,
        height: int = 24,
    ) -> Resident:
        """A fake harness in a new window, up and idle.

        With `shell` a shell takes over when it ends; with `script` a script runs it in its own process group.
        """
        fake = FakeHarness(self.directory, name)
        command: list[str] | str = fake.command(*options)
        if shell:
            command = fake.command_before_shell(*options)
        if script:
            path = self.directory / f"start-{name}"
            path.write_text(f"#!/bin/sh\n{shlex.join(fake.command(*options))}\nexit 0\n")
            path.chmod(0o755)
            command = [str(path)]
        pane = self.tmux.new_pane(command, session=session, width=width, height=height)
        fake.control()
        return Resident(fake, pane, self.tmux)

    def address(
        self,
        pane: str = "",
        *,
        harness: str = "",
        socket: str = "",
        suggested: str = "",
        binding: Binding | None = None,
        identity: str = "@agent",
    ) -> Address:
        return Address(Identity(identity), pane, socket, harness, suggested, binding)

    def resolve(self, address: Address) -> Place | Nowhere:
        return asyncio.run(self.adapter.resolve(address))

    def place(self, pane: str) -> Place:
        found = self.resolve(self.address(pane))
        assert isinstance(found, Place), found
        return found

    def observe(self, pane: str, *, harness: str = "") -> Observation:
        return asyncio.run(self.adapter.observe(self.place(pane), self.address(pane, harness=harness)))

    def verdict(self, pane: str, *, harness: str = "") -> Evidence:
        return single_vote(self.observe(pane, harness=harness).evidence)

    def wake(self, text: str = "") -> Wake:
        """A wake nobody has tried yet; `{mark}` in `text` stands for its mark."""
        mark = str(ULID())
        return Wake("delivery", (text or DIGEST).replace("{mark}", mark), mark)

    def deliver(self, pane: str, wake: Wake) -> AttemptOutcome:
        return self.deliver_at(self.place(pane), wake)

    def deliver_at(self, place: Place, wake: Wake) -> AttemptOutcome:
        async def attempt() -> AttemptOutcome:
            return await self.adapter.deliver(place, self.address(), wake, self.journal)

        return asyncio.run(attempt())

    def go_on(self, pane: str, wake: Wake, progress: Progress) -> AttemptOutcome:
        """A later attempt in the same place, after an earlier one got that far."""
        place = self.place(pane)
        return self.deliver_at(place, replace(wake, progress=progress, fence=wake.fence or place.fence))

    def attached(self, pane: str, *, session: str = "agents") -> Typist:
        """A person attached to the session, the pane their current one."""
        typist = self.tmux.attach(session)
        typist.waits_until_shown()
        self.tmux.run("select-window", "-t", pane, ";", "select-pane", "-t", pane)
        return typist

    def watcher(self, pane: str, *, session: str = "agents") -> Typist:
        """The same, quiet for long enough."""
        typist = self.attached(pane, session=session)
        self.waits_until_quiet()
        return typist

    def waits_until_quiet(self) -> None:
        """Until no client pressed a key within the quiet time: tmux tells it in whole seconds."""
        until(lambda: all(age > QUIET for age in self._ages_of_keys()))

    def waits_until_told_of_a_key(self) -> None:
        """Until some client's activity is no more than a second old: a key takes its time through the terminal."""
        until(lambda: any(age <= 1 for age in self._ages_of_keys()))

    def _ages_of_keys(self) -> list[int]:
        """Seconds since each client's last key."""
        now, *keys = self.tmux.run(
            "display-message", "-p", "%s", ";", "list-clients", "-F", "#{client_activity}"
        ).split()
        return [int(now) - int(key) for key in keys]

    def leftovers(self) -> list[str]:
        """Buffers and locks of ours that somebody forgot; nothing when the server ended with its last pane."""
        try:
            server_pid, socket = self.tmux.server_pid, str(self.tmux.socket_path)
            buffers = self.tmux.run("list-buffers", "-F", "#{buffer_name}").split()
            panes = self.tmux.run("list-panes", "-a", "-F", "#{pane_id}").split()
        except RuntimeError:
            return []
        locks = [lock_path(socket, server_pid, pane) for pane in panes]
        return [name for name in buffers if name.startswith("wake-bridge-")] + [
            str(one) for one in locks if one.exists()
        ]


DIGEST = (
    '[WAKE] 2 events for @agent: 2 new messages (latest: "Review `$(id)` #1; ok" from @neo-opus)\n'
    "Automated notice, not your user. Check your mailbox.\n"
    "Subscription: WAKE_SUB:1 (+1)   Window: 31s   Wake: {mark}"
)
"""A wake as a terminal gets it."""


@pytest.fixture
def scene(tmp_path: Path, tmux_program: str) -> Iterator[Scene]:  # noqa: ARG001 - asked for what it demands
    """A server of its own; afterwards nothing of ours may lie around in it."""
    with PrivateTmux() as tmux:
        scene = Scene(tmux, tmp_path)
        yield scene
        assert scene.leftovers() == []
