"""A wake that nobody saw arrive: a real daemon, a real pane, a program that shows what it took long after (decision 11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import Playground

pytestmark = pytest.mark.timeout(180)

NEVER = 3_600_000


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Playground]:
    with Playground(tmp_path, program) as made:
        made.sandbox.run("init")
        yield made


def unknown_of(world: Playground) -> dict[str, Any]:
    """The first delivery, once nobody knows what became of it."""
    return world.sandbox.waits_for(
        lambda: next((one for one in world.sandbox.deliveries() if one["outcome"] == "unknown"), None), timeout=60
    )


def test_what_is_shown_late_has_arrived_and_every_command_says_so(world: Playground) -> None:
    """`unknown` 8 s after Enter although the mark stood in the transcript later."""
    sandbox = world.sandbox
    agent = world.enlisted("late", "--transcript-delay", str(NEVER))
    message = sandbox.send("@late", "a question")
    sandbox.daemon()
    unknown = unknown_of(world)
    assert (unknown["state"], unknown["proof"]) == ("FAILED", 0)
    assert "outcome unknown" in sandbox.run("why", message).stdout

    (text,) = agent.fake.submits()
    agent.fake.control(say=text)
    seen = sandbox.waits_for(lambda: next((one for one in sandbox.deliveries() if one["proof"] == 2), None))

    assert {**seen, "proof": 0} == unknown
    for command in (
        ("why", message),
        ("deliveries",),
        ("deliveries", "show", seen["id"]),
        ("logs", "--delivery", seen["id"]),
    ):
        assert "arrived, seen late" in sandbox.run(*command).stdout, command
    status = sandbox.run("status").stdout
    assert "1 delivered" in status
    assert "0 unknown" in status
    assert len(sandbox.deliveries()) == 1
    assert agent.fake.submits() == [text]


def test_what_never_came_in_is_announced_once_more_and_not_again(world: Playground) -> None:
    """An `unknown` at 01:00 must not silence an agent until morning."""
    sandbox = world.sandbox
    sandbox.configure(f"delivery.unknown_again = 2\n{QUICK}")
    agent = world.enlisted("deaf", "--transcript-delay", str(NEVER))
    sandbox.send("@deaf", "a question")
    daemon = sandbox.daemon()
    first = unknown_of(world)

    again = sandbox.waits_for(
        lambda: next((one for one in sandbox.deliveries() if one["id"] != first["id"] and one["outcome"]), None),
        timeout=60,
    )
    assert (again["outcome"], again["events"]) == ("unknown", first["events"])
    assert [one["id"] in text for one, text in zip((first, again), agent.fake.submits(), strict=True)] == [True, True]

    daemon.stop()
    agent.fake.turn(transcript_delay=0)
    for _ in range(2):
        sandbox.run("run", "--once", expect=None)
    assert len(agent.fake.submits()) == 2
    assert [one["outcome"] for one in sandbox.deliveries()] == ["unknown", "unknown"]
