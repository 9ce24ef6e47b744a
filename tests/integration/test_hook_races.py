"""One driver: hook, screen and a daemon that dies race for a delivery, and it arrives once, or is known to be unknown."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing import HUNG
from wake_bridge.testing.crash_points import COMMAND, CRASH
from wake_bridge.testing.hook_caller import HookCaller
from wake_bridge.testing.playground import Playground

ROUNDS = 12
HOOKS = 2

pytestmark = pytest.mark.timeout(300)

UNLIMITED = "limits.storm = 1000\nlimits.wakes_per_hour = 1000\nlimits.wakes_per_day = 1000\n"


def test_hooks_and_the_screen_race_and_each_message_arrives_once(playground: Playground) -> None:
    """Whoever takes the lease first delivers; two hooks and a pane at rest, 0 lost and 0 double."""
    sandbox = playground.sandbox
    sandbox.configure(QUICK + UNLIMITED)
    sandbox.run("init")
    agent = playground.enlisted("agent")
    sandbox.daemon()
    chance = random.Random(11)
    printed: list[str] = []

    def calls(wait: float, number: int) -> None:
        hook = HookCaller(sandbox, claims="@agent", session_id=f"s-{number}")
        time.sleep(wait)
        offer = hook.asks("tool")
        if offer is not None and hook.takes(offer):
            printed.append(str(offer["block"]))
            assert hook.has_printed(offer)

    for turn in range(ROUNDS):
        sandbox.send("@agent", f"message {turn:02}.")
        # the screen needs two looks 1.5 s apart, or one when it was quiet before
        hooks = [threading.Thread(target=calls, args=(chance.uniform(0, 1.2), n)) for n in range(HOOKS)]
        for one in hooks:
            one.start()
        for one in hooks:
            one.join()
        sandbox.waits_for(lambda: all(one["state"] == "DELIVERED" for one in sandbox.deliveries()), what="all settled")

    typed = "".join(agent.fake.submits())
    for turn in range(ROUNDS):
        told = [text.count(f"message {turn:02}.") for text in (*printed, typed)]
        assert sum(told) == 1, (turn, told)
    assert {one["outcome"] for one in sandbox.deliveries()} == {"submitted"}
    print(f"{len(printed)} by hook, {ROUNDS - len(printed)} on the screen")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """An agent who is reached by its hooks alone."""
    with Sandbox(tmp_path, "no-such-server") as made:
        made.configure(QUICK)
        made.run("init")
        made.enlist("@agent", "nowhere")
        yield made


@pytest.fixture
def watched(sandbox: Sandbox, tmp_path: Path) -> Iterator[Sandbox]:
    """The same, with daemons that can be made to die at a step; its hooks would load all that those need."""
    with Sandbox(tmp_path, "no-such-server", (sys.executable, *COMMAND)) as made:
        made.configure(QUICK)
        assert made.graph == sandbox.graph
        yield made


@pytest.mark.parametrize(
    ("point", "prints_first", "ends"),
    [
        ("locked:before", False, "submitted"),
        ("locked:after", False, "submitted"),
        ("intent_submit:before", False, "submitted"),
        ("intent_submit:after", False, "unknown"),
        ("submitted:before", True, "unknown"),
        ("submitted:after", True, "submitted"),
        ("settled:before", True, "submitted"),
        ("settled:after", True, "submitted"),
    ],
)
def test_a_daemon_that_dies_while_a_hook_calls_loses_and_doubles_nothing(
    sandbox: Sandbox, watched: Sandbox, point: str, prints_first: bool, ends: str
) -> None:
    """The journal tells what can have happened; what cannot be decided is unknown and never handed again."""
    dying = watched.daemon(environment={CRASH: point})
    hook = HookCaller(sandbox)
    sandbox.send("@agent", "hello")
    sandbox.waits_for_delivery(state="DISPATCHED")
    if prints_first:
        assert hook.waits_for_block("PostToolUse")
    else:
        # on a busy machine one may give up before it has asked: the next tool calls again
        while dying.process.poll() is None:
            assert hook.prints("PostToolUse") == ""
    assert dying.process.wait(HUNG) != 0
    sandbox.daemon()
    again = ""
    if not prints_first and ends == "submitted":
        again = hook.waits_for_block("PostToolUse")
    settled = sandbox.waits_for(
        lambda: next((one for one in sandbox.deliveries() if one["outcome"] not in {None, "empty"}), None), 60
    )
    assert settled["outcome"] == ends
    assert settled["proof"] == (1 if ends == "submitted" else 0), "a stop in between makes no proof stronger"
    assert bool(again) is (not prints_first and ends == "submitted")
    assert hook.prints("PostToolUse") == ""
