"""Wakes that an MCP client is pushed: the official SDK's client in both protocol eras, a real daemon, real panes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.push_client import PushClient

TARGET = '[targets."@mine"]\nmcp_push = true\n'


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """An embedded graph in which @mine asks to be pushed, without any pane."""
    with Sandbox(tmp_path / "home", command=program) as home:
        home.configure(QUICK + TARGET)
        home.run("init")
        for one in ("@me", "@mine", "@other"):
            home.run("agent", "add", one)
        yield home


def subscribed(home: Sandbox, identity: str = "@mine") -> str:
    options = ("--harness-target", "mcp-notifications", "--window", "0")
    return str(home.ask("subscribe", identity, "--trigger", "SENT_TO_ME", *options)["subscriptionId"])


def client(home: Sandbox, name: str = "client", identity: str = "@mine", **wishes: Any) -> PushClient:
    environment = {**home.environment, "WAKE_BRIDGE_AGENT": identity}
    return PushClient(home.home.parent / name, home.command, environment, **wishes)


def told(home: Sandbox, one: PushClient, kind: str, count: int = 1) -> list[Any]:
    return home.waits_for(lambda: found if len(found := one.told(kind)) >= count else None, what=f"{count} {kind}")


def test_a_client_that_declares_it_is_pushed_the_envelope_and_its_agent_reads(sandbox: Sandbox) -> None:
    """Declared back; one log message with the envelope; sent is proof 1, and the mail that is read proves the rest."""
    subscription = subscribed(sandbox)
    daemon = sandbox.daemon()
    with client(sandbox, declares=True, acts=True) as one:
        (ready,) = told(sandbox, one, "ready")
        assert ready["experimental"]["neo-wake-substrate"]["version"] == "1.0"
        assert "wake/digest" in ready["experimental"]["neo-wake-substrate"]["supportedEvents"]

        message = sandbox.send("@mine", "please look")
        (wake,) = told(sandbox, one, "wake")

        assert (wake["level"], wake["logger"]) == ("info", "neo-wake-substrate")
        envelope = wake["data"]
        assert (envelope["eventType"], envelope["agentIdentity"]) == ("wake/sent_to_me", "@mine")
        assert (envelope["subscriptionId"], envelope["payload"]["messageId"]) == (subscription, message)
        assert told(sandbox, one, "read") == [["please look"]]
        done = sandbox.waits_for_delivery(target="@mine", outcome="submitted")
        assert (done["adapter"], done["proof"]) == ("mcp", 3)
        assert len(one.told("wake")) == 1
    assert daemon.entries("delivery_pushed")[0]["proof"] == 1
    assert json.dumps(envelope)


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_client_that_listens_to_its_inbox_is_told_that_it_changed(sandbox: Sandbox, era: str) -> None:
    """Of whom no log message is expected, in either era; another's inbox is refused."""
    subscribed(sandbox)
    sandbox.daemon()
    with client(sandbox, "spy", listens=["wake://inbox/@other"], era=era) as spy:
        (refusal,) = told(sandbox, spy, "refused")
        assert "is not yours: you are @mine" in refusal
    with client(sandbox, listens=["wake://inbox/@mine"], era=era, acts=True) as one:
        told(sandbox, one, "listening")
        assert "neo-wake-substrate" not in (one.told("ready")[0]["experimental"] or {})
        sandbox.send("@mine", "please look")
        (held,) = told(sandbox, one, "updated")
        assert [mail["subject"] for mail in held["messages"]] == ["please look"]
        assert held["wake"]["eventType"] == "wake/sent_to_me"
        assert sandbox.waits_for_delivery(target="@mine", outcome="submitted")["adapter"] == "mcp"
        assert one.told("wake") == []
