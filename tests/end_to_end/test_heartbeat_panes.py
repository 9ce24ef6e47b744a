"""The heartbeat in real panes, by a real daemon: whom nothing else wakes is nudged, and nobody else."""

from __future__ import annotations

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import Playground

SETTINGS = f"{QUICK}heartbeat.interval = 1\nheartbeat.cooldown = 3600\n"


@pytest.fixture
def world(playground: Playground) -> Playground:
    """An embedded graph and a heartbeat that looks every second."""
    playground.sandbox.configure(SETTINGS)
    playground.sandbox.run("init")
    return playground


def test_the_disabled_and_the_bound_are_nudged_in_their_panes_and_the_push_capable_is_not(world: Playground) -> None:
    """One line, once, through the same composer; two drivers never meet."""
    sandbox = world.sandbox
    names = ("disabled", "bound", "push", "bridge")
    agents = {name: world.agent(name) for name in names}
    subscriptions = {name: sandbox.enlist(f"@{name}", agents[name].session) for name in ("disabled", "push", "bridge")}
    sandbox.run("agent", "add", "@bound")
    sandbox.run("bind", "@bound", "--pane", agents["bound"].id)
    with MemoryCore(sandbox.graph) as core:
        core.set(subscriptions["disabled"], "harnessTarget", "disabled")
        core.set(subscriptions["push"], "harnessTarget", "a2a-webhook")
    assert sandbox.lines("push-capable") == [], "on a graph of our own nobody pushes"

    daemon = sandbox.daemon()
    for name in names:
        sandbox.send(f"@{name}", f"for {name}")
    for name in ("disabled", "bound"):
        told = sandbox.waits_for_delivery(target=f"@{name}", outcome="submitted")
        assert (told["adapter"], told["proof"]) == ("heartbeat", 2)
        (text,) = agents[name].fake.submits()
        assert text.startswith(f'[WAKE] 1 unread message (latest: "for {name}" from @me) for @{name}.')
        assert text.endswith(f"Wake: {told['id']}")
        assert "\n" not in text
    sandbox.waits_for_delivery(target="@bridge", outcome="submitted", adapter="tmux")
    assert agents["bridge"].fake.submits()[0].startswith("[WAKE] 1 event for @bridge:")

    daemon.waits_for_log("heartbeat_nudged", 2)
    assert agents["push"].fake.bytes_received() == b""
    assert {one["agentIdentity"]: one["driver"] for one in sandbox.lines("push-capable")} == {
        "@bridge": "bridge",
        "@disabled": "heartbeat",
        "@bound": "heartbeat",
    }
    assert "@bound  wake-bridge's own heartbeat nudges it\n" in sandbox.run("push-capable").stdout
    doctor = {one["check"]: one for one in sandbox.lines("doctor", expect=None)}
    assert doctor["heartbeat"]["detail"] == "nudges @bound, @disabled"
    assert doctor["adapter heartbeat"]["ok"]
    assert {one["name"] for one in sandbox.lines("adapters") if one["usable"]} >= {"heartbeat", "tmux"}
    assert daemon.entries("chore_failed") == []


def test_a_nudge_never_goes_over_a_draft_and_a_kill_makes_no_second(world: Playground) -> None:
    """The same gate; the cooldown and the delivery outlive the daemon."""
    sandbox = world.sandbox
    agent = world.agent("quiet")
    subscription = sandbox.enlist("@quiet", agent.session)
    with MemoryCore(sandbox.graph) as core:
        core.set(subscription, "harnessTarget", "none")
    agent.fake.shows("draft", "half a thought")
    before = agent.fake.bytes_received()
    daemon = sandbox.daemon()
    sandbox.send("@quiet", "hello")
    held = sandbox.waits_for_delivery(target="@quiet", hold_reason="userTyping")
    assert agent.fake.bytes_received() == before

    daemon.kill()
    second = sandbox.daemon()
    agent.fake.shows("idle")
    told = sandbox.waits_for_delivery(target="@quiet", outcome="submitted")
    assert told["id"] == held["id"]
    second.kill()
    third = sandbox.daemon()
    third.waits_for_log("caught_up")
    sandbox.send("@quiet", "again")
    world.sandbox.waits_for(lambda: sandbox.ask("status")["lag"] == 0)
    assert len(agent.fake.submits()) == 1
    assert [one["id"] for one in sandbox.deliveries()] == [told["id"]]


def test_a_heartbeat_that_is_switched_off_says_nothing(world: Playground) -> None:
    """`[adapters.NAME] enabled`: off is off, and `doctor` says so."""
    sandbox = world.sandbox
    sandbox.configure(f"{SETTINGS}[adapters.heartbeat]\nenabled = false\n")
    agent, other = world.agent("quiet"), world.enlisted("other")
    subscription = sandbox.enlist("@quiet", agent.session)
    with MemoryCore(sandbox.graph) as core:
        core.set(subscription, "harnessTarget", "disabled")
    daemon = sandbox.daemon()
    sandbox.send("@quiet", "hello")
    sandbox.send("@other", "hello")
    sandbox.waits_for_delivery(target="@other", outcome="submitted")
    assert other.fake.submits()
    assert agent.fake.bytes_received() == b""
    assert daemon.entries("heartbeat_nudged") == []
    doctor = {one["check"]: one for one in sandbox.lines("doctor", expect=None)}
    assert doctor["heartbeat"]["detail"] == "switched off"
    assert [one["agentIdentity"] for one in sandbox.lines("push-capable")] == ["@other"]
