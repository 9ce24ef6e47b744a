"""Wakers on one graph and one pane, one after the other, judged by what the program in the pane received.

docs/performance.md has the contract: what a waker is given, and how it is judged.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import psutil

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import Office
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import end_process_with_us
from wake_bridge.domain.names import parse_instant
from wake_bridge.testing.memory_core import MemoryCoreProcess

NAIVE: Final = shlex.join([sys.executable, str(Path(__file__).with_name("naive_waker.py"))])
"""The waker to compare with when none is named."""

ARRIVES_WITHIN: Final = 30.0
"""Seconds after which a message counts as one that woke nobody."""

DRAFT: Final = "half a thought"
LOOKED_AT_A_DRAFT: Final = 5.0
"""Seconds in which a waker may fall for a person's draft."""

ENDS_WITHIN: Final = 10.0
"""Seconds for a waker to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Course:
    """What each waker has to do: messages to an idle agent, messages to one with a person's draft, and nothing.

    `unchanged` are the seconds for which the pane has shown the same when a message is committed, `idle` those of doing
    nothing.
    """

    wakes: int = 40
    drafts: int = 3
    idle: float = 30.0
    unchanged: float = 3.0


@dataclass(slots=True)
class Result:
    """What came of it; times in milliseconds."""

    first_bytes: list[float] = field(default_factory=list)
    enters: list[float] = field(default_factory=list)
    nobody_woken: int = 0
    woken_again: int = 0
    drafts_typed_into: int = 0
    cpu_of_a_wake: float = 0.0
    idle_cpu: float = 0.0


def contest(office: Office, wakers: Sequence[Sequence[str]], course: Course) -> list[Result]:
    """Send each waker over the same course, on the same graph and pane; their results in that order.

    Args:
        office: where it happens.
        wakers: the argv that starts each.
        course: what each has to do.

    Raises:
        AssertionError: a waker ended, or woke nobody at its first message; with what it said.
    """
    (agent,) = office.agents(1, "--reply-after", "700")
    with MemoryCoreProcess(office.sandbox.graph) as core:
        core.do("identity", "@person", accountType="human")
        return [_run(office, agent, core, waker, course) for waker in wakers]


def compared(figures: Figures, ours: Result, others: Mapping[str, Result]) -> None:
    """Put all results and their ratios to ours into a table; `others` are called by their names there."""
    everybody = {"wake-bridge": ours, **others}
    for name, times, unit in (
        ("commit → first byte", attrgetter("first_bytes"), "ms"),
        ("first byte → Enter", attrgetter("enters"), "ms"),
        ("CPU of a wake", lambda one: [one.cpu_of_a_wake], "ms CPU"),
        ("idle CPU", lambda one: [one.idle_cpu], "% core"),
    ):
        for waker, result in everybody.items():
            figures.add(f"{name}: {waker}", times(result) or [float("nan")], unit)
        for waker, result in others.items():
            if times(ours) and times(result) and (median := statistics.median(times(ours))):
                ratio = statistics.median(times(result)) / median
                figures.add(f"{name}: {waker} / wake-bridge", [ratio], "×")
    for name, count in (
        ("messages that woke nobody", attrgetter("nobody_woken")),
        ("submits more than messages", attrgetter("woken_again")),
        ("drafts of a person typed into", attrgetter("drafts_typed_into")),
    ):
        for waker, result in everybody.items():
            figures.add(f"{name}: {waker}", [count(result)], "")


def _run(office: Office, agent: FakeHarness, core: MemoryCoreProcess, waker: Sequence[str], course: Course) -> Result:
    result = Result()
    with _started(office, agent, waker) as process:
        arrived = _send(agent, core, process, "the first one", course)
        assert arrived, f"{shlex.join(waker)} woke nobody:\n{_said(office)}"
        before = len(agent.submits())
        spent = _cpu_of(process)
        for number in range(course.wakes):
            times = _send(agent, core, process, f"Review request {number}", course)
            if times is None:
                result.nobody_woken += 1
                continue
            result.first_bytes.append(times[0])
            result.enters.append(times[1])
        _rest(agent, course)
        result.cpu_of_a_wake = 1000 * (_cpu_of(process) - spent) / max(course.wakes, 1)
        result.woken_again = len(agent.submits()) - before - len(result.enters)
        result.idle_cpu = _idle_cpu(process, course.idle)
        result.drafts_typed_into = sum(_types_into_a_draft(agent, core, course) for _ in range(course.drafts))
    return result


@contextmanager
def _started(office: Office, agent: FakeHarness, waker: Sequence[str]) -> Iterator[psutil.Process]:
    """A waker in a process group of its own, with what the contract promises it; its group is ended afterwards."""
    state = office.directory / f"state-{time.monotonic_ns()}"
    state.mkdir(mode=0o700)
    given = {
        "WAKE_GRAPH": str(office.sandbox.graph),
        "WAKE_TMUX_SOCKET": str(office.tmux.socket_path),
        "WAKE_PANE": office.panes[agent.name],
        "WAKE_IDENTITY": f"@{agent.name}",
        "WAKE_STATE_DIR": str(state),
    }
    with (office.directory / "waker.log").open("wb") as log:
        process = subprocess.Popen(
            waker,
            env={**office.sandbox.environment, **given},
            cwd=state,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        end_process_with_us(process.pid)
        try:
            yield psutil.Process(process.pid)
            assert process.poll() is None, f"{shlex.join(waker)} ended:\n{_said(office)}"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _send(
    agent: FakeHarness, core: MemoryCoreProcess, process: psutil.Process, subject: str, course: Course
) -> tuple[float, float] | None:
    """Milliseconds from the commit to the first byte, and on to Enter; None if nobody was woken in time."""
    _rest(agent, course)
    before = len(agent.submits())
    message = str(core.do("send", "@person", f"@{agent.name}", subject))
    (edge,) = core.do(
        "sql",
        "SELECT json_extract(data, '$.properties.timestamp') FROM Edges WHERE type = 'SENT_TO' AND source = ?",
        message,
    )
    committed = parse_instant(edge[0]) or 0
    deadline = time.monotonic() + ARRIVES_WITHIN
    while len(agent.submits()) == before:
        if time.monotonic() > deadline or _has_ended(process):
            return None
        time.sleep(0.02)
    records = agent.records()
    first = next(one["at"] for one in records if one["event"] == "bytes" and one["at"] >= committed)
    enter = next(one["at"] for one in records if one["event"] == "submit" and one["at"] >= committed)
    core.do("mark_read", message)
    return first - committed, enter - first


def _types_into_a_draft(agent: FakeHarness, core: MemoryCoreProcess, course: Course) -> bool:
    """Whether a key comes while a person's draft stands in the composer; the message is taken back afterwards."""
    _rest(agent, course)
    agent.shows("draft", DRAFT)
    _rest(agent, course)
    before = len(agent.events("bytes"))
    message = str(core.do("send", "@person", f"@{agent.name}", "while you were typing"))
    deadline = time.monotonic() + LOOKED_AT_A_DRAFT
    while (has_typed := len(agent.events("bytes")) > before) is False and time.monotonic() < deadline:
        time.sleep(0.05)
    core.do("mark_read", message)
    agent.shows("idle")
    return has_typed


def _rest(agent: FakeHarness, course: Course) -> None:
    """Wait until the pane has been as it is for long enough, at any phase of whoever watches it."""
    until = max(record["at"] for record in agent.records()) / 1000 + course.unchanged + random.uniform(0.05, 1.0)
    while (left := until - time.time()) > 0:
        time.sleep(left)


def _idle_cpu(process: psutil.Process, seconds: float) -> float:
    """Per cent of a core while nothing happens."""
    spent, began = _cpu_of(process), time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(left)
    return 100 * (_cpu_of(process) - spent) / max(time.monotonic() - began, 0.001)


def _has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _cpu_of(process: psutil.Process) -> float:
    """Seconds of processor time of a waker and of all that it started."""
    times: list[Any] = [process.cpu_times()]
    for one in process.children(recursive=True):
        # one that ends meanwhile counts in its parent's time from now on
        with suppress(psutil.NoSuchProcess):
            times.append(one.cpu_times())
    return float(sum(sum(one[:4]) for one in times))


def _said(office: Office) -> str:
    return (office.directory / "waker.log").read_text(encoding="utf-8", errors="replace")[-4000:]
