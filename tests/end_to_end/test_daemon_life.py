"""The daemon's life as a process: stop, `--once`, `--dry-run`, the service manager, `status`."""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.control.client import ask
from wake_bridge.daemon.life import STOP_LIMIT
from wake_bridge.demo import HUNG
from wake_bridge.demo.sandbox import QUICK, DaemonProcess, Sandbox
from wake_bridge.testing import stuck_tail
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.service_manager import NotifyListener

WATCHDOG = 4.0
"""Seconds of a watchdog that is fed twice in them: a busy machine has as many again."""


@pytest.fixture
def world(playground: Playground) -> Playground:
    """An embedded graph and nobody in it yet."""
    playground.sandbox.run("init")
    return playground


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new interpreter, as a person starts it; the others are born in the nursery, and differ in nothing."""
    monkeypatch.setattr(Sandbox, "daemon_processes", staticmethod(DaemonProcess))


def _steps(world: Playground, delivery: dict[str, Any]) -> list[str]:
    return [entry["step"] for entry in world.sandbox.ask("deliveries", "show", str(delivery["id"]))["journal"]]


def _bytes_of(directory: Path) -> dict[str, bytes]:
    """Ledger and cursor, byte for byte; what is not there is empty."""
    files = [directory / name for name in ("state.sqlite", "state.sqlite-wal", "lastSyncId")]
    return {file.name: file.read_bytes() if file.exists() else b"" for file in files}


# -- stopping --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("executed")
def test_a_stop_is_clean_and_the_next_start_goes_on_where_it_ended(world: Playground) -> None:
    """`run`: SIGTERM is a clean stop; `lastSyncId` is what was handled."""
    agent = world.enlisted("a")
    daemon = world.sandbox.daemon()
    world.sandbox.run("agent", "add", "@b")
    world.sandbox.waits_for(lambda: world.sandbox.ask("status")["lag"] == 0)
    code = daemon.stop()

    tip = world.sandbox.ask("status")["tip"]
    assert code == 0
    assert (world.sandbox.state_dir / "lastSyncId").read_text().strip() == str(tip)
    assert not (world.sandbox.state_dir / "daemon.sock").exists()
    world.sandbox.send("@a", "while nobody looked")
    world.sandbox.daemon()
    assert len(agent.fake.waits_for("submit")) == 1


def test_a_stop_in_the_middle_of_an_attempt_leaves_no_half_injection(world: Playground) -> None:
    """`run`: SIGTERM ≤ 5 s, no half injection; journal and screen agree, the next start finishes exactly once."""
    agents = {
        "slow": world.enlisted("slow", "--paste-delay", "1500"),
        "late": world.enlisted("late", "--paste-delay", "2900"),
        "stubborn": world.enlisted("stubborn", "--swallow-enter", "100"),
    }
    daemon = world.sandbox.daemon()
    for name in agents:
        world.sandbox.send(f"@{name}", f"mail for {name}")
    for name, event in {"slow": "bytes", "late": "bytes", "stubborn": "swallowed"}.items():
        agents[name].fake.waits_for(event)
    assert daemon.stop() == 0

    for name in ("slow", "late"):
        agents[name].fake.waits_for("paste")  # one that is under way shows after the harness's own delay
    for name, agent in agents.items():
        (one,) = world.sandbox.deliveries("--target", f"@{name}")
        steps = _steps(world, one)
        composer = agent.fake.state()["composer"]
        if "submitted" in steps:
            assert (len(agent.fake.submits()), composer) == (1, ""), name
        else:
            assert (agent.fake.submits(), composer) == ([], one["digest"]), (name, steps)
            assert one["state"] == "LOCKED"
    assert agents["stubborn"].fake.submits() == []

    agents["stubborn"].fake.turn(swallow_enter=0)
    world.sandbox.daemon()
    # it had its Enter, and whether that is only late nobody can see: a person presses the second
    world.sandbox.waits_for_delivery(target="@stubborn", hold_reason="staged")
    world.tmux.run("send-keys", "-t", agents["stubborn"].id, "Enter")
    for name, agent in agents.items():
        agent.fake.waits_for("submit")
        one = world.sandbox.waits_for_delivery(target=f"@{name}", state="DELIVERED", outcome="submitted")
        assert [one["id"] in text for text in agent.fake.submits()] == [True]
        assert agent.fake.events("paste") == agent.fake.events("paste")[:1]


def test_a_stop_ends_a_single_run_as_cleanly(world: Playground) -> None:
    """`run`: with `--once` as well, an attempt under way comes to its end first."""
    agent = world.enlisted("a", "--paste-delay", "1500")
    world.sandbox.send("@a", "in one go")
    once = world.sandbox.daemon_under_way("--once")
    agent.fake.waits_for("bytes")
    assert once.stop() == 0
    assert len(agent.fake.submits()) == 1
    (one,) = world.sandbox.deliveries()
    assert (one["state"], one["outcome"]) == ("DELIVERED", "submitted")


# -- once, dry run ---------------------------------------------------------------------------------------------------


def test_once_delivers_what_can_be_delivered_and_leaves_the_rest_open(world: Playground) -> None:
    """`run --once`: waits for windows, looks at each held delivery, exits 0; open ones stay."""
    free, windowed, drafting = world.enlisted("free"), world.enlisted("windowed", window=1), world.enlisted("drafting")
    drafting.fake.shows("draft", "wait")
    for name in ("free", "windowed", "drafting"):
        world.sandbox.send(f"@{name}", f"for {name}")

    world.sandbox.run("run", "--once")

    assert len(free.fake.submits()) == 1
    assert len(windowed.fake.submits()) == 1
    assert drafting.fake.bytes_received() == b""
    (held,) = world.sandbox.deliveries("--target", "@drafting")
    assert (held["state"], held["hold_reason"]) == ("DISPATCHED", "userTyping")
    drafting.fake.shows("idle")
    world.sandbox.run("run", "--once")
    assert len(drafting.fake.submits()) == 1
    assert [len(free.fake.submits()), len(windowed.fake.submits())] == [1, 1]


def test_once_exits_1_when_a_delivery_failed_in_this_run_and_retry_opens_it_again(world: Playground) -> None:
    """`run --once`, `deliveries retry`: 0 unless one FAILED; its events are not lost."""
    agent = world.enlisted("a")
    world.sandbox.configure(f"{QUICK}delivery.max_attempts = 1\n")
    world.sandbox.send("@a", "second time lucky")
    broken = {"PATH": f"{_tmux_that_cannot_paste(world)}:{world.sandbox.environment['PATH']}"}

    world.sandbox.run("run", "--once", expect=1, environment=broken)

    (failed,) = world.sandbox.deliveries("--state", "FAILED")
    assert (failed["outcome"], failed["attempts"]) == ("failed", 1)
    assert agent.fake.bytes_received() == b""
    assert world.sandbox.ask("status")["failed"] == 1
    world.sandbox.run("run", "--once")
    assert agent.fake.submits() == []
    again = world.sandbox.ask("deliveries", "retry", failed["id"])
    assert again["events"] == failed["events"]
    world.sandbox.run("run", "--once")
    assert [again["id"] in text for text in agent.fake.submits()] == [True]


def _tmux_that_cannot_paste(world: Playground) -> Path:
    """A directory with a `tmux` that does everything but load a buffer."""
    directory = world.directory / "broken"
    directory.mkdir()
    script = directory / "tmux"
    real = shutil.which("tmux")
    script.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = load-buffer ] && echo no buffers today >&2 && exit 1; done\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    return directory


def test_a_dry_run_types_nothing_and_leaves_ledger_and_cursor_byte_identical(world: Playground) -> None:
    """`run --dry-run`: decides and logs; also beside a running daemon, which it does not disturb."""
    agent = world.enlisted("a")
    first = world.sandbox.daemon()
    world.sandbox.send("@a", "before")
    agent.fake.waits_for("submit")
    world.sandbox.waits_for_delivery(state="DELIVERED")
    first.stop()
    world.sandbox.send("@a", "decide on this one")
    before, received = _bytes_of(world.sandbox.state_dir), agent.fake.bytes_received()

    once = world.sandbox.run("run", "--once", "--dry-run")
    going = world.sandbox.daemon("--dry-run")
    (decided,) = going.waits_for_log("would_deliver")
    code = going.stop()

    assert '"would_deliver"' in once.stdout
    assert '"decide on this one"' in "".join(decided["lines"])
    assert code == 0
    assert _bytes_of(world.sandbox.state_dir) == before
    assert agent.fake.bytes_received() == received


# -- the service manager ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("executed")
def test_the_service_manager_hears_ready_signs_of_life_a_reload_and_the_stop(world: Playground) -> None:
    """`Type=notify`, the watchdog fed at least twice in its interval."""
    with NotifyListener(watchdog=WATCHDOG) as manager:
        daemon = world.sandbox.daemon(environment=manager.environment)
        ready = manager.waits_for("READY=1")
        fed = manager.waits_for("WATCHDOG=1", count=3)
        daemon.reload()
        manager.waits_for("RELOADING=1")
        manager.waits_for("READY=1", count=2)
        assert manager.said("STOPPING=1") == []
        daemon.stop()

        assert fed - ready <= 3 * WATCHDOG
        assert len(manager.said("STOPPING=1")) == 1


@pytest.mark.usefixtures("executed")
def test_a_reload_that_a_stop_overtakes_is_not_said_to_be_ready(world: Playground) -> None:
    """What the service manager hears last is the stop."""
    with NotifyListener() as manager:
        daemon = world.sandbox.daemon(environment=manager.environment)
        manager.waits_for("READY=1")
        daemon.reload()
        assert daemon.stop() == 0

        assert len(manager.said("STOPPING=1")) == len(manager.said("READY=1")) == 1


def test_reloads_that_are_asked_for_while_one_waits_are_one(world: Playground) -> None:
    """Each takes a process and a moment: twenty would keep a processor busy for long after the last was asked for."""
    daemon = world.sandbox.daemon()
    with ThreadPoolExecutor(20) as clients:
        asked = [clients.submit(ask, world.sandbox.state_dir, "reload", timeout=HUNG) for _ in range(20)]
        assert [dict(one.result()) for one in asked] == [{"ok": True}] * 20

    assert 1 <= len(daemon.entries("config_reloaded")) < 10


def test_the_watchdog_starves_while_the_tail_is_stuck(world: Playground) -> None:
    """The watchdog is fed by the tail's progress, not by the process being there."""
    stuck = world.directory / "stuck"
    with NotifyListener(watchdog=0.6) as manager:
        world.sandbox.command = (sys.executable, *stuck_tail.COMMAND)
        daemon = world.sandbox.daemon(environment={**manager.environment, stuck_tail.STUCK: str(stuck)})
        manager.waits_for("WATCHDOG=1", count=2)
        stuck.touch()
        manager.waits_for("STATUS=the tail is stuck")
        silent_since = len(manager.said("WATCHDOG=1"))
        manager.waits_for("STATUS=the tail is stuck", count=4)
        assert len(manager.said("WATCHDOG=1")) == silent_since
        stuck.unlink()
        manager.waits_for("WATCHDOG=1", count=silent_since + 2)
        assert daemon.process.poll() is None


def test_a_stop_ends_also_a_daemon_whose_graph_hangs(world: Playground) -> None:
    """`run`: SIGTERM ≤ 5 s, whatever does not answer; exit 1 says that it was no clean end."""
    assert STOP_LIMIT < 5
    stuck = world.directory / "stuck"
    world.sandbox.command = (sys.executable, *stuck_tail.COMMAND)
    daemon = world.sandbox.daemon(environment={stuck_tail.STUCK: str(stuck)})
    stuck.touch()
    world.sandbox.waits_for(lambda: "stuck" in daemon.log())

    assert daemon.stop() == 1
    assert "error: something hung" in daemon.log()


# -- status ----------------------------------------------------------------------------------------------------------


def test_status_tells_running_not_running_and_cannot_tell(world: Playground) -> None:
    """`status`: `yes|no|cannot_tell`, exit 0 in each; without the daemon the ledger tells."""
    sandbox = world.sandbox
    never = sandbox.ask("status")
    assert (never["running"], never["cursor"], never["pid"]) == ("no", None, None)
    world.enlisted("a")
    daemon = sandbox.daemon()
    up = sandbox.waits_for(lambda: now if (now := sandbox.ask("status"))["lag"] == 0 else None)
    assert (up["running"], up["pid"], up["active_routes"], up["epoch"]) == ("yes", daemon.pid, 1, 1)
    assert up["cursor"] == up["tip"] > 0
    daemon.stop()

    down = sandbox.ask("status")
    assert (down["running"], down["pid"], down["cursor"], down["epoch"]) == ("no", None, up["cursor"], 1)
    lock = sandbox.state_dir / "daemon.lock"
    lock.unlink()
    lock.symlink_to(lock.name)
    unclear = sandbox.ask("status")
    assert (unclear["running"], unclear["cursor"]) == ("cannot_tell", up["cursor"])
    assert "cannot tell" in sandbox.run("status").stdout
