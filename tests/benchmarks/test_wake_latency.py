"""From the commit of a row to the first byte in a pane, and on to Enter."""

from __future__ import annotations

import json
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import LIMITS, Office
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.domain.delivery import Step
from wake_bridge.domain.names import parse_instant
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.memory_core import MemoryCoreProcess

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

WAKES: Final = 200
COUNTED: Final = 5
PANES: Final = 10
UNCHANGED: Final = 3.0
"""Seconds for which a pane has shown the same when it is woken."""

TURN: Final = "700"
"""Milliseconds that an agent works on its wake: its last change is not ours, and comes at any phase of the watch."""

SETTLES: Final = 5.0
"""Seconds for which the daemon has run, and so known the panes, before the first wake."""

APART: Final = 0.5
"""Seconds between two wakes of the run: one ends before the next begins."""

GAP: Final = 300.0
"""Milliseconds between paste and Enter in the fake harness's profile."""

STEPS: Final = (Step.OPENED, Step.DISPATCHED, Step.LOCKED, Step.PROBED, Step.INTENT_STAGE)


@dataclass(frozen=True, slots=True)
class Wake:
    """One wake on one clock, in UTC milliseconds: when its row was committed, what the ledger wrote, what the pane got."""

    committed: float
    matched: float
    steps: dict[Step, float]
    first_byte: float
    enter: float
    holds: tuple[str, ...]

    def stages(self) -> dict[str, float]:
        """Milliseconds from each thing to the next."""
        moments = [
            ("commit → matched", self.matched),
            *((f"→ {step.value}", self.steps[step]) for step in STEPS),
            ("→ first byte", self.first_byte),
            ("first byte → staged", self.steps[Step.STAGED]),
            ("→ intent_submit", self.steps[Step.INTENT_SUBMIT]),
            ("→ Enter", self.enter),
            ("→ submitted", self.steps[Step.SUBMITTED]),
        ]
        before = self.committed
        durations = {}
        for name, moment in moments:
            durations[name] = moment - before
            before = moment
        return durations


def test_row_committed_to_first_byte(office: Office, figures: Figures) -> None:
    """Row committed → first byte in a pane idle and unchanged for 3 s: p50 ≤ 20 ms, p99 ≤ 60 ms over 200 wakes."""
    office.sandbox.configure(LIMITS)
    agents = office.agents(PANES, "--reply-after", TURN)
    daemon, _ = office.daemon()
    time.sleep(SETTLES)
    with MemoryCoreProcess(office.sandbox.graph) as core:
        core.do("identity", "@person", accountType="human")
        messages = [_wake_one_of(agents, number, core) for number in range(WAKES)]
        for number, agent in enumerate(agents):
            agent.waits_for("submit", len(messages[number::PANES]), timeout=60)
    daemon.stop()

    wakes = _wakes(office, agents, messages)
    total = [wake.first_byte - wake.committed for wake in wakes]
    figures.add("commit → first byte", total, "ms", at_most=20)
    figures.add("commit → first byte", total, "ms", at_most=60, quantile=0.99)
    figures.add("first byte → Enter", [wake.enter - wake.first_byte for wake in wakes], "ms", at_most=GAP + 50)
    figures.add(
        "first byte → Enter", [wake.enter - wake.first_byte for wake in wakes], "ms", at_most=GAP + 50, quantile=0.99
    )
    figures.add("wakes held at first", [sum(bool(wake.holds) for wake in wakes)], "")
    for hold in (hold for wake in wakes for hold in wake.holds):
        print(f"held: {hold}")
    stages = [wake.stages() for wake in wakes]
    for name in stages[0]:
        figures.add(f"  {name}", [one[name] for one in stages], "ms")


def _wake_one_of(agents: list[FakeHarness], number: int, core: MemoryCoreProcess) -> str:
    """Send one message to the next agent in turn, once its pane has been as it is for long enough."""
    agent = agents[number % len(agents)]
    # at any phase of the watch's rounds
    pause = UNCHANGED + random.uniform(0.05, 1.0)
    last = max(record["at"] for record in agent.records()) / 1000
    time.sleep(max(APART, last + pause - time.time()))
    return str(core.do("send", "@person", f"@{agent.name}", f"Review request {number}"))


def _wakes(office: Office, agents: list[FakeHarness], messages: list[str]) -> list[Wake]:
    """The wakes of those messages, put together from graph, ledger and what the agents received."""
    with office.core() as core:
        sent = core.sql("SELECT source, json_extract(data, '$.properties.timestamp') FROM Edges WHERE type = 'SENT_TO'")
    committed = {message: parse_instant(at) or 0 for message, at in sent}
    received = {agent.name: agent.records() for agent in agents}
    ledger = LedgerStore.open(office.sandbox.state_dir, read_only=True)
    wakes = []
    for delivery in ledger.deliveries(state=None, identity=None, limit=10 * WAKES):
        event, *others = ledger.events_of(delivery.id)
        assert not others, "every wake stands alone"
        journal = ledger.journal_of(delivery.id)
        first_byte, enter = _keys_of(delivery.id, received[delivery.identity.removeprefix("@")])
        wakes.append(
            Wake(
                committed=committed[event.subject_key],
                matched=event.matched_at,
                steps={entry.step: float(entry.at) for entry in journal},
                first_byte=first_byte,
                enter=enter,
                holds=tuple(
                    f"{entry.at - journal[0].at} ms: {dict(entry.detail)}"
                    for entry in journal
                    if entry.step is Step.HELD
                ),
            )
        )
    ledger.close()
    assert len(wakes) == len(messages), "each message is one wake"
    return wakes


def _keys_of(delivery_id: str, records: list[dict[str, object]]) -> tuple[float, float]:
    """When the agent got the first byte of a digest, and when its Enter."""
    begins = b"\x1b[200~[WAKE]".hex()
    first_byte = 0.0
    for record in records:
        if record["event"] == "bytes" and str(record["hex"]).startswith(begins):
            first_byte = float(str(record["at"]))
        if record["event"] == "submit" and delivery_id in str(record["text"]):
            return first_byte, float(str(record["at"]))
    raise AssertionError(f"{delivery_id} was not submitted: {json.dumps(records)[-2000:]}")


def test_calls_of_one_wake(office: Office, figures: Figures) -> None:
    """How many tmux calls one wake takes, the watch's own included: before its first byte, and until it is proven."""
    calls = office.directory / "calls"
    _count_calls(office, calls)
    office.sandbox.configure(LIMITS)
    (agent,) = office.agents(1)
    daemon, _ = office.daemon()
    before, after = [], []
    for number in range(COUNTED):
        time.sleep(SETTLES)
        calls.write_bytes(b"")
        with office.core() as core:
            core.identity("@person", accountType="human")
            core.send("@person", f"@{agent.name}", f"Review request {number}")
        agent.waits_for("submit", number + 1)
        office.sandbox.waits_for_delivery(state="DELIVERED")
        made = calls.read_text(encoding="utf-8").splitlines()
        paste = next(index for index, call in enumerate(made) if "load-buffer" in call)
        proven = max(index for index, call in enumerate(made) if "send-keys" in call)
        before.append(paste + 1)
        after.append(proven + 1)
    daemon.stop()
    figures.add("tmux calls up to and with the paste", before, "")
    figures.add("tmux calls up to and with Enter", after, "")


def _count_calls(office: Office, calls: Path) -> None:
    """Put a program called tmux before the real one, which writes down how it was called."""
    real = shutil.which("tmux")
    shim = office.directory / "shim"
    shim.mkdir()
    (shim / "tmux").write_text(f'#!/bin/sh\necho "$*" | tr "\\n" " " >> {calls}\necho >> {calls}\nexec {real} "$@"\n')
    (shim / "tmux").chmod(0o755)
    office.sandbox.environment["PATH"] = f"{shim}:{office.sandbox.environment['PATH']}"
