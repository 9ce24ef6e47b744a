"""Limits: agents that answer each other for ever are stopped, a burst obeys the storm guard, nothing is lost.

The stories take their time, most of it spent waiting: they are played side by side, each in a world of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.nursery import shell_program
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.memory_core import MemoryCoreProcess
from wake_bridge.testing.playground import Playground

DEFAULT_THREAD_WAKES: Final = 12
STORM: Final = 8
STORM_PERIOD: Final = 600
"""Seconds; ten times the default, so that a busy machine reaches the eighth wake within it."""
BURST: Final = 1000

ANSWER: Final = """#!/bin/sh
# reads its mail as the wake says, and answers whoever wrote
{environment}
me="@$WAKE_BRIDGE_TEST_FAKE_NAME"
if [ "$me" = @ping ]; then other=@pong; else other=@ping; fi
mail=$({program} --json inbox "$me" --consume --limit 50 | sed -n 's/.*"messageId":"\\([^"]*\\)".*/\\1/p' | tail -1)
exec {program} send "$other" --from "$me" --subject "your turn" --reply-to "$mail"
"""


@dataclass
class Loop:
    """Two agents that answer each other: how it stood when it was stopped, and after each remedy."""

    submits: list[int]
    holds: list[dict[str, Any]]
    notices: list[dict[str, Any]]
    status: dict[str, Any]
    open_deliveries: int


def _loop(world: Playground, limits: str, *, stops_after: int, is_heard_by_a_person: bool) -> Loop:
    sandbox = world.sandbox
    sandbox.configure(limits)
    sandbox.run("init")
    script = world.directory / "answer"
    settings = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in sandbox.environment.items())
    program = shell_program(world.directory / "bin") / "wake-bridge"
    script.write_text(ANSWER.format(environment=settings, program=shlex.quote(str(program))))
    script.chmod(0o755)
    pair = [world.enlisted(name, "--on-submit", str(script)) for name in ("ping", "pong")]
    daemon = sandbox.daemon()
    first = sandbox.send("@ping", "you begin", sender="@pong")
    loop = Loop([], [], [], {}, 0)

    def stands() -> dict[str, Any] | None:
        found = [one for one in sandbox.deliveries() if one["hold_reason"] == "loop"]
        return found[0] if found else None

    def submits() -> int:
        return sum(len(agent.fake.submits()) for agent in pair)

    def woken_past(count: int) -> bool:
        return submits() > count

    def stands_or_woken_past(count: int) -> bool:
        return woken_past(count) or stands() is not None

    def stopped() -> None:
        # each wake may be as slow as the machine; only one that does not come at all hangs
        for count in range(submits(), submits() + stops_after + 1):
            sandbox.waits_for(partial(stands_or_woken_past, count), what="a wake or the loop brake")
        loop.holds.append(sandbox.waits_for(stands, what="the loop brake"))
        loop.submits.append(submits())

    def goes_on(remedy: Callable[[str], object]) -> None:
        before = loop.submits[-1]
        remedy(loop.holds[-1]["target"])
        sandbox.waits_for(partial(woken_past, before), what="the next wake")
        stopped()

    stopped()
    loop.status = sandbox.ask("status")
    goes_on(lambda identity: sandbox.ask("resume", identity))
    if is_heard_by_a_person:
        sandbox.run("agent", "add", "@me", "--human")
        goes_on(lambda identity: sandbox.send(identity, "carry on", "--reply-to", first))
    loop.notices = daemon.entries("limit_reached")
    loop.open_deliveries = len([one for one in sandbox.deliveries() if not one["settledAt"]])
    return loop


@dataclass
class Burst:
    """A thousand messages for one agent: what was held, what was told, and when."""

    sent: list[str]
    held: dict[str, Any]
    in_events_while_held: list[str]
    submitted_at: list[float]
    told: list[str]


def _burst(world: Playground) -> Burst:
    sandbox = world.sandbox
    sandbox.configure(f"limits.storm_period = {STORM_PERIOD}\n")
    sandbox.run("init")
    agent = world.enlisted("crowd")
    daemon = sandbox.daemon()
    sent: list[str] = []

    def woken_past(count: int) -> bool:
        return len(agent.fake.events("submit")) > count

    with MemoryCoreProcess(sandbox.graph) as core:
        core.do("identity", "@herald")
        # not all at once: as long as more keeps coming, there is a reason to wake again and again
        while len(sent) < BURST:
            begun = len(agent.fake.events("submit"))
            sent += [core.do("send", "@herald", "@crowd", f"message {len(sent) + at}") for at in range(BURST // 40)]
            if begun < STORM:
                sandbox.waits_for(partial(woken_past, begun))
    held = sandbox.waits_for_delivery(hold_reason="storm")
    sandbox.waits_for(lambda: sandbox.ask("status")["lag"] == 0)
    in_events = [event["subject_key"] for one in sandbox.deliveries() for event in one["events"]]
    submitted_at = [record["at"] / 1000 for record in agent.fake.events("submit")]
    sandbox.configure(f"limits.storm = 1000\nlimits.storm_period = {STORM_PERIOD}\n")
    daemon.reload()
    sandbox.waits_for(lambda: all(one["settledAt"] for one in sandbox.deliveries()), what="the rest")
    told = [
        event["subject_key"] for one in sandbox.deliveries() if one["outcome"] == "submitted" for event in one["events"]
    ]
    return Burst(sent, held, in_events, submitted_at, told)


@dataclass(frozen=True)
class Stories:
    """What is being played."""

    short_loop: Future[Loop]
    default_loop: Future[Loop]
    burst: Future[Burst]


@pytest.fixture(scope="module")
def stories(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Iterator[Stories]:
    """All three, begun at the same time."""

    def in_a_world(name: str, play: Callable[[Playground], Any]) -> Any:
        directory: Path = tmp_path_factory.mktemp(name)
        with Playground(directory, program) as world:
            return play(world)

    # pytest makes it at the first call, and must not be asked by three threads at once
    tmp_path_factory.getbasetemp()
    short = f"{QUICK}limits.thread_wakes = 4\n"
    with ThreadPoolExecutor(3) as stage:
        yield Stories(
            stage.submit(
                in_a_world, "loop", lambda world: _loop(world, short, stops_after=4, is_heard_by_a_person=True)
            ),
            stage.submit(
                in_a_world,
                "loops",
                lambda world: _loop(world, "", stops_after=DEFAULT_THREAD_WAKES, is_heard_by_a_person=False),
            ),
            stage.submit(in_a_world, "burst", _burst),
        )


def test_two_agents_that_answer_each_other_for_ever_are_stopped_by_the_loop_brake(stories: Stories) -> None:
    """Agent-to-agent wakes per thread and hour without a human message; held `loop`, one notice."""
    loop = stories.short_loop.result()

    assert loop.submits[0] == 4
    assert loop.holds[0]["state"] == "DISPATCHED"
    assert f"`wake-bridge resume {loop.holds[0]['target']}` lets them go on" in loop.holds[0]["remedy"]
    assert loop.status["holds"] == {"loop": 1}
    assert {notice["reason"] for notice in loop.notices} == {"loop"}
    assert [notice["agent"] for notice in loop.notices] == [hold["target"] for hold in loop.holds]


def test_resume_lets_one_of_them_go_on(stories: Stories) -> None:
    """`resume` clears it for that identity; the other one's brake stands, and nothing is lost."""
    loop = stories.short_loop.result()

    assert loop.submits[:2] == [4, 5]
    assert loop.holds[0]["target"] != loop.holds[1]["target"]
    assert loop.open_deliveries == 1


def test_a_persons_word_in_the_thread_lets_both_go_on(stories: Stories) -> None:
    """The count begins anew with a human's message: its wake, and as many after it as are allowed."""
    loop = stories.short_loop.result()

    assert loop.submits == [4, 5, 10]
    assert len(loop.holds) == 3


def test_with_the_default_limits_the_loop_ends_after_twelve_wakes(stories: Stories) -> None:
    """`limits.thread_wakes`: 12, two agents must not talk all night at their owner's cost."""
    assert stories.default_loop.result().submits == [DEFAULT_THREAD_WAKES, DEFAULT_THREAD_WAKES + 1]


def test_a_burst_of_a_thousand_messages_obeys_the_storm_guard(stories: Stories) -> None:
    """`limits.storm` wakes per rolling `limits.storm_period` per pane, also at window 0."""
    burst = stories.burst.result()

    assert burst.held["hold_reason"] == "storm"
    assert len(burst.submitted_at) == STORM
    for at in burst.submitted_at:
        assert sum(at <= other < at + STORM_PERIOD for other in burst.submitted_at) <= STORM


def test_a_burst_loses_nothing_and_tells_nothing_twice(stories: Stories) -> None:
    """A matched event is never lost from the ledger; a wake is never knowingly submitted twice."""
    burst = stories.burst.result()

    assert len(set(burst.sent)) == BURST
    assert sorted(burst.in_events_while_held) == sorted(burst.sent)
    assert sorted(burst.told) == sorted(burst.sent)
