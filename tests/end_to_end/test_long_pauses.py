"""A daemon that lives long: stopped for a while, given other profiles, and its ledger kept short."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from wake_bridge.demo.sandbox import QUICK, DaemonProcess
from wake_bridge.testing import until
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import Playground

BUNDLED = Path(__file__).parents[2] / "adapters/wake_bridge_adapters/screens/fake.toml"
BUSY = '\n[[rules]]\nname = "never-at-rest"\nstate = "active"\nregion = "title"\nregex = "."\n'


@pytest.fixture
def world(playground: Playground) -> Playground:
    playground.sandbox.run("init")
    return playground


def reloaded(daemon: DaemonProcess, event: str = "config_reloaded") -> dict[str, object]:
    """Reload, and have the log line that answers it."""
    before = len(daemon.entries(event))
    daemon.reload()
    answer: dict[str, object] = daemon.waits_for_log(event, before + 1)[-1]
    return answer


def test_what_came_while_the_process_was_stopped_is_one_wake(world: Playground) -> None:
    """SIGSTOP, here for seconds (ten minutes: on the turned clock): one catch-up digest."""
    agent = world.enlisted("a")
    world.sandbox.run("agent", "add", "@me", "--human")
    daemon = world.sandbox.daemon()
    with MemoryCore(world.sandbox.graph) as core:
        daemon.process.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(daemon.pid).status() == psutil.STATUS_STOPPED, "the standstill")
        try:
            for number in range(30):
                core.send("@me", "@a", f"mail {number}")
            time.sleep(4)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        world.sandbox.waits_for(agent.fake.submits, what="the digest")

        core.send("@me", "@a", "afterwards")
        world.sandbox.waits_for(lambda: len(agent.fake.submits()) > 1, what="the next one")
        first, second = agent.fake.events("submit")
    assert "30 new messages" in first["text"]
    assert "1 new message" in second["text"]
    assert len(agent.fake.submits()) == 2


def test_panes_names_a_daemon_that_does_not_answer_and_looks_without_it(world: Playground) -> None:
    """SIGSTOP: the command says after seconds why what it shows is less than what the daemon would show."""
    world.enlisted("a")
    daemon = world.sandbox.daemon()
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        seen = world.sandbox.run("panes")
    finally:
        daemon.process.send_signal(signal.SIGCONT)

    assert "the daemon did not answer" in seen.stderr
    assert "`wake-bridge logs`" in seen.stderr
    assert "@a" in seen.stdout


def test_a_reload_takes_over_profiles_and_a_broken_one_changes_nothing(world: Playground) -> None:
    """Targets, profiles, log level without a restart; a bad file keeps the old one."""
    agent = world.enlisted("a")
    screens = world.directory / "screens"
    screens.mkdir()
    world.sandbox.configure(f'{QUICK}screens.directory = "{screens}"')
    daemon = world.sandbox.daemon()
    (screens / "fake.toml").write_text(BUNDLED.read_text() + BUSY)
    reloaded(daemon)
    world.sandbox.send("@a", "held by the new profile")
    held = world.sandbox.waits_for_delivery(hold_reason="active")
    assert agent.fake.bytes_received() == b""

    (screens / "fake.toml").write_text('name = "fake"\nnonsense = 1\n')
    refused = reloaded(daemon, "config_refused")
    assert "fake.toml" in str(refused["problems"])
    assert agent.fake.bytes_received() == b""
    assert world.sandbox.ask("deliveries", "show", held["id"])["state"] == "DISPATCHED"

    (screens / "fake.toml").unlink()
    reloaded(daemon)
    assert len(agent.fake.waits_for("submit")) == 1
    assert daemon.entries("config_needs_restart") == []


def test_a_start_deletes_what_is_older_than_the_retention(world: Playground) -> None:
    """`daemon.retention_days`: also on a machine that is never up for six hours."""
    agent = world.enlisted("a")
    first = world.sandbox.daemon()
    world.sandbox.send("@a", "long ago")
    agent.fake.waits_for("submit")
    told = world.sandbox.waits_for_delivery(state="DELIVERED")
    first.stop()
    with closing(sqlite3.connect(world.sandbox.state_dir / "state.sqlite")) as ledger:
        _age(ledger, days=91)

    second = world.sandbox.daemon()

    assert second.waits_for_log("pruned")[0]["deliveries"] >= 1
    world.sandbox.run("deliveries", "show", str(told["id"]), expect=8)


def _age(ledger: sqlite3.Connection, days: int) -> None:
    """Make everything in the ledger older, as time would."""
    by = days * 24 * 3_600_000
    triggers = ledger.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        ledger.execute(f"DROP TRIGGER {name}")
    ledger.execute("UPDATE delivery SET created_at = created_at - ?, settled_at = settled_at - ?", (by, by))
    ledger.execute("UPDATE wake_event SET matched_at = matched_at - ?, status_at = status_at - ?", (by, by))
    for _, sql in triggers:
        ledger.execute(sql)
    ledger.commit()
