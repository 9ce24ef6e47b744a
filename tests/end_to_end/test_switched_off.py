"""What people have switched off: quiet hours, a benched identity, another driver; nothing is typed, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import AgentPane, Playground


@pytest.fixture
def world(playground: Playground) -> Playground:
    """An embedded graph and nobody in it yet."""
    playground.sandbox.run("init")
    return playground


def _around_now() -> str:
    """Quiet hours, by the local clock, that began an hour ago and end in two."""
    now = datetime.now().astimezone()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"


def _held(world: Playground, identity: str, reason: str) -> dict[str, Any]:
    return world.sandbox.waits_for_delivery(target=identity, hold_reason=reason)


def _comes_once(world: Playground, agent: AgentPane, held: dict[str, Any]) -> None:
    agent.fake.waits_for("submit")
    world.sandbox.waits_for_delivery(id=held["id"], outcome="submitted")
    assert [held["id"] in text for text in agent.fake.submits()] == [True]


def test_quiet_hours_hold_everybody_and_a_benched_identity_waits_for_its_owner(world: Playground) -> None:
    """Paused, benched, quiet hours, in that order; each ends by its own switch, without a restart."""
    active, benched = world.enlisted("active"), world.enlisted("benched")
    world.sandbox.configure(f'{QUICK}policy.quiet_hours = "{_around_now()}"\n')
    _participates(world, "@benched", "operator_benched")
    daemon = world.sandbox.daemon()
    for identity in ("@active", "@benched"):
        world.sandbox.send(identity, "good night", "--priority", "high")
    quiet, bench = _held(world, "@active", "quiet_hours"), _held(world, "@benched", "benched")
    assert quiet["remedy"].startswith("nothing to do: quiet hours end by themselves (until ")
    assert bench["hold_detail"] == "participationStatus is operator_benched"

    world.sandbox.configure(QUICK)
    daemon.reload()
    _comes_once(world, active, quiet)
    assert benched.fake.bytes_received() == b""
    _held(world, "@benched", "benched")
    _participates(world, "@benched", "active")
    _comes_once(world, benched, bench)


def _participates(world: Playground, identity: str, status: str) -> None:
    with MemoryCore(world.sandbox.graph) as core:
        core.set(identity, "participationStatus", status)


def test_another_driver_of_the_same_directory_holds_everything(world: Playground) -> None:
    """While an upstream daemon lives on the same directory, all deliveries hold with `other_driver`."""
    agent = world.enlisted("a")
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "daemons/wake/daemon.mjs"], stdin=subprocess.PIPE
    ) as upstream:
        world.sandbox.state_dir.mkdir(parents=True, mode=0o700)
        (world.sandbox.state_dir / "wake-daemon.pid").write_text(str(upstream.pid))
        daemon = world.sandbox.daemon()
        world.sandbox.send("@a", "who drives?")
        held = _held(world, "@a", "other_driver")
        assert str(upstream.pid) in held["hold_detail"]
        assert str(upstream.pid) in world.sandbox.ask("status")["other_driver"]
        assert agent.fake.bytes_received() == b""
        daemon.stop()
        upstream.communicate(b"\n")
    world.sandbox.daemon()
    _comes_once(world, agent, held)
