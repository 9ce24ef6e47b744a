"""`why`, asked of the installed program while a real daemon wakes a real pane, and without it."""

from __future__ import annotations

import re

from wake_bridge.testing.playground import Playground


def test_a_wake_is_told_while_it_is_held_once_it_is_announced_and_when_it_is_acknowledged(
    playground: Playground,
) -> None:
    """It says what a person asks: "held 6 h: approval waiting in agents:1.2", "announced 01:12, submitted"."""
    sandbox = playground.sandbox
    sandbox.run("init")
    agent = playground.enlisted("agent")
    agent.fake.shows("approval")
    sandbox.daemon()
    message = sandbox.send("@agent", "please look")
    sandbox.waits_for_delivery(hold_reason="waitingOnApproval")

    held = sandbox.ask("why", message, "@agent")

    assert re.fullmatch(rf"held \d+ s: approval waiting in {re.escape(agent.label)}", held["verdict"])
    assert held["next"] == f"answer the dialog in {agent.label}"
    assert {"messageId", "logIds", "subscriptions", "guards", "deliveries", "verdict", "next"} <= held.keys()
    assert held["messageId"] == message
    assert [(one["matched"], one["refusedBy"]) for one in held["subscriptions"]] == [(True, None)]
    assert held["deliveries"][0]["hold_reason"] == "waitingOnApproval"

    agent.fake.shows("idle")
    agent.fake.waits_for("submit")
    sandbox.waits_for_delivery(outcome="submitted")
    told = sandbox.ask("why", str(held["logIds"][-1]))
    assert re.fullmatch(r"announced \d\d:\d\d, submitted, not acknowledged", told["verdict"])
    assert told["readAs"].startswith(f"row {held['logIds'][-1]} of the log")

    sandbox.daemons[-1].stop()
    sandbox.run("ack", told["deliveries"][0]["id"])
    words = sandbox.run("why", message).stdout
    assert re.search(r"@agent: announced \d\d:\d\d, submitted, acknowledged \d\d:\d\d \(ack\)", words)


def test_what_is_not_found_is_exit_8_and_v_says_what_an_error_means(playground: Playground) -> None:
    """8 not found; with -v an error says what it means for the wakes that wait."""
    sandbox = playground.sandbox
    no_graph = sandbox.run("-v", "why", "MESSAGE:none", expect=4)
    assert "meaning: without a graph wake-bridge matches nothing and wakes nobody" in no_graph.stderr
    sandbox.run("init")
    sandbox.run("why", "MESSAGE:none", expect=8)
    sandbox.run("why", "12345", expect=8)
