"""A place that does not answer: its calls are ended with all they started, and nobody else waits for it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from tests.torture.machine import waited_for_processor
from tests.torture.oracle import RESULTS, reckon, waits_until_at_rest
from tests.torture.report import Table
from tests.torture.rig import Agent, Rig
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.tmux_server import PrivateTmux

LONGEST_CALL: Final = 10.0
"""Seconds; `delivery.adapter_timeout`."""

SLOWER_AT_MOST: Final = 1.0
ABOUT: Final = (
    "One of four identities lives on a tmux server that is stopped (SIGSTOP), and has mail. Messages go on to the others, who"
    " live elsewhere: from commit to submit, the slowest of a hundred may take a second more than before. No call to tmux may"
    " be older than 10 s. Afterwards the server goes on, and that mail arrives once, too."
)


def hang(directory: Path, tmux: PrivateTmux, *, messages: int) -> Table:
    """So many messages before, and as many while it hangs."""
    table = Table("A tmux server that does not answer", ABOUT, "messages", RESULTS)
    began = time.monotonic()
    with ExitStack() as stack:
        other = stack.enter_context(PrivateTmux())
        stuck = _elsewhere(directory, other)
        rig = stack.enter_context(Rig(directory / "hung", tmux, ["hung0", "hung1", "hung2"], guests=[stuck]))
        daemon = rig.daemon()
        others = rig.agents[:3]
        oldest: list[float] = []
        before = _delays(rig, others, messages, daemon.pid, oldest)
        server = other.server_pid
        os.kill(server, signal.SIGSTOP)
        try:
            rig.send(stuck, "for who hangs")
            during = _delays(rig, others, messages, daemon.pid, oldest)
        finally:
            os.kill(server, signal.SIGCONT)
        row = f"{messages} before, {messages} meanwhile"
        rests = waits_until_at_rest(rig, 90)
        reckon(rig).into(table, row)
        table.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
        slower = _p99(during) - _p99(before)
        table.demand(
            slower <= SLOWER_AT_MOST, row, f"the others' p99 went from {_p99(before):.2f} to {_p99(during):.2f} s"
        )
        table.demand(max(oldest) <= LONGEST_CALL + 1, row, f"a call to tmux was {max(oldest):.1f} s old")
        table.measures |= {
            "the others' p99, before and meanwhile": f"{_p99(before):.2f} and {_p99(during):.2f} s",
            "oldest call to tmux": f"{max(oldest):.1f} s",
        }
    table.seconds = time.monotonic() - began
    return table


def _elsewhere(directory: Path, server: PrivateTmux) -> Agent:
    fake = FakeHarness(directory, "stuck")
    pane = server.new_pane(fake.command(), session="stuck", width=100, height=24)
    fake.state()
    return Agent("@stuck", "stuck", fake, pane, str(server.socket_path))


def _delays(rig: Rig, agents: list[Agent], messages: int, pid: int, oldest: list[float]) -> list[float]:
    """Seconds from commit to the end, for each of so many messages, without those in which the daemon waited for a processor."""
    found = []
    for number in range(messages):
        sent, waited = time.monotonic(), waited_for_processor(pid)
        message = rig.send(agents[number % len(agents)], f"message {number}")
        rig.waits_until_settled(message, 60)
        found.append(time.monotonic() - sent - (waited_for_processor(pid) - waited))
        oldest.append(_oldest_call(pid))
    return found


def _oldest_call(pid: int) -> float:
    """Seconds that the oldest child of the daemon has been running, 0 without any."""
    ages = [0.0]
    for child in psutil.Process(pid).children(recursive=True):
        try:
            ages.append(time.time() - child.create_time())
        except psutil.NoSuchProcess:
            continue
    return max(ages)


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]
