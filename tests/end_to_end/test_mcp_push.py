"""Wakes that an MCP client is pushed: the official SDK's client in both protocol eras, a real daemon, real panes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.domain.delivery import Step
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG
from wake_bridge.testing.mcp_entrance import McpEntrance
from wake_bridge.testing.playground import Playground
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
        # the call that reads it is the first sign, the mail that is read the next
        done = sandbox.waits_for_delivery(target="@mine", outcome="submitted", proof=3)
        assert done["adapter"] == "mcp"
        assert len(one.told("wake")) == 1
        # while a client takes them, pushes come first where nobody names a way
        assert (
            sandbox.ask("subscribe", "@mine", "--trigger", "TASK_STATE_CHANGED")["harnessTarget"] == "mcp-notifications"
        )
        assert [line["agentIdentity"] for line in sandbox.lines("push-capable")] == ["@mine"]
        routes = sandbox.ask("routes", "@mine", "--explain")
        assert (routes["decision"]["row"], routes["decision"]["route"]) == ("receiver", "mcp")
        found = {check["check"]: check for check in sandbox.lines("doctor", expect=None)}
        assert found["pushes to @mine"]["detail"] == "push-test 1"
    assert daemon.entries("delivery_pushed")[0]["proof"] == 1
    sandbox.waits_for(lambda: sandbox.lines("push-capable") == [], what="nobody to push to")
    whys = [line["why"] for line in sandbox.ask("list")["subscriptions"]]
    assert all("no MCP client of @mine takes wakes now" in why for why in whys)
    assert subscription in {line["subscriptionId"] for line in sandbox.ask("list")["subscriptions"]}


ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


@ERAS
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


@pytest.mark.parametrize(
    "wishes",
    [
        {"declares": False},
        {"declares": True, "version": "2.0"},
        {"declares": True, "level": "warning"},
        {"declares": True, "era": "auto"},
    ],
    ids=["declares nothing", "another version", "wants no info", "newest era, listens to nothing"],
)
def test_who_asks_for_no_wakes_is_no_route(sandbox: Sandbox, wishes: dict[str, Any]) -> None:
    """The wake waits and says what is missing; nothing is sent to a client that would not take it."""
    subscribed(sandbox)
    sandbox.daemon()
    with client(sandbox, **wishes) as one:
        (ready,) = told(sandbox, one, "ready")
        declared_back = "neo-wake-substrate" in (ready["experimental"] or {})
        assert declared_back == ("level" in wishes)
        assert wishes.get("era") == "auto" or bool(ready["resources"]) == declared_back
        sandbox.waits_for(lambda: "level" not in wishes or one.told("server"), what="its server")
        sandbox.send("@mine", "please look")
        held = sandbox.waits_for_delivery(target="@mine", cause="no-mcp-client")
        assert "takes wakes from `wake-bridge mcp`" in held["remedy"]
        assert one.told("wake") == one.told("updated") == []


def left_alone_after(home: Sandbox, delivery: str) -> float:
    """Seconds from the push to the moment when the wake was given to the next route, by the ledger's own times."""
    with closing(LedgerStore.open(home.state_dir, read_only=True)) as ledger:
        at = {entry.step: entry.at for entry in reversed(ledger.journal_of(delivery))}
    return (at[Step.RELEASED] - at[Step.INTENT_SUBMIT]) / 1000


def test_of_two_clients_that_drop_their_wakes_one_is_pushed_and_the_pane_is_woken_once(playground: Playground) -> None:
    """Its server killed between sent and proof; within 90 s the screen wakes the agent; a resync has it pushed again."""
    home = playground.sandbox
    agent = playground.agent("mine")
    home.configure(f'{QUICK}[targets."@mine"]\nmcp_push = true\npane = "{agent.session}"\n')
    home.run("init")
    for one in ("@me", "@mine"):
        home.run("agent", "add", one)
    subscription = subscribed(home)
    daemon = home.daemon()
    with client(home, "first", declares=True) as first, client(home, "second", declares=True) as second:
        both = (first, second)
        for each in both:
            told(home, each, "server")
        home.waits_for(lambda: home.ask("routes", "@mine")["decision"]["route"] == "mcp", what="a client")
        home.send("@mine", "dropped")
        pushed = home.waits_for(lambda: [one for one in both if one.told("wake")], what="a push", timeout=HUNG)
        pushed[0].kill_server()
        done = home.waits_for_delivery(target="@mine", outcome="submitted", adapter="tmux", timeout=2 * HUNG)
        assert 60 <= left_alone_after(home, done["id"]) <= 90
        assert len(agent.fake.submits()) == 1
        assert sum(len(one.told("wake")) for one in both) == 1
        assert daemon.entries("receiver_suspended")[0]["subscription"] == subscription
        home.send("@mine", "typed at once")
        home.waits_for(lambda: len(agent.fake.submits()) == 2, what="the second wake")
        assert done["id"] not in {one["id"] for one in home.deliveries() if one["adapter"] == "mcp"}
    calls = [["manage_wake_subscription", {"action": "resync", "subscriptionId": subscription, "sinceLogId": 0}]]
    with client(home, "third", declares=True, acts=True, calls=calls) as third:
        (answer,) = told(home, third, "answer")
        assert answer["eventsReplayed"] == 2
        daemon.waits_for_log("receiver_restored")
        (wake,) = told(home, third, "wake")
        assert wake["data"]["eventType"] == "wake/digest"
        assert sorted(told(home, third, "read")[0]) == ["dropped", "typed at once"]


@pytest.fixture
def over_http(sandbox: Sandbox) -> Iterator[McpEntrance]:
    """The server over HTTP, for @mine."""
    with McpEntrance(sandbox, "@mine") as entrance:
        yield entrance


def http_client(home: Sandbox, entrance: McpEntrance, name: str = "client", **wishes: Any) -> PushClient:
    return client(home, name, "", url=entrance.url, token=entrance.token, **wishes)


@ERAS
def test_over_http_a_client_that_listens_is_told_and_another_inbox_is_refused(
    sandbox: Sandbox, over_http: McpEntrance, era: str
) -> None:
    """In either era; who holds the token may do no more; once it has gone nobody is pushed to."""
    subscribed(sandbox)
    sandbox.daemon()
    with http_client(sandbox, over_http, "spy", listens=["wake://inbox/@other"], era=era) as spy:
        (refusal,) = told(sandbox, spy, "refused")
        assert "is not yours: you are @mine" in refusal
        assert sandbox.lines("push-capable") == []
    with http_client(sandbox, over_http, listens=["wake://inbox/@mine"], era=era, acts=True) as one:
        told(sandbox, one, "listening")
        sandbox.waits_for(lambda: sandbox.lines("push-capable"), what="its stream")
        sandbox.send("@mine", "please look")
        (held,) = told(sandbox, one, "updated")
        assert [mail["subject"] for mail in held["messages"]] == ["please look"]
        assert sandbox.waits_for_delivery(target="@mine", outcome="submitted", proof=3)["adapter"] == "mcp"
    sandbox.waits_for(lambda: sandbox.lines("push-capable") == [], what="nobody to push to")


def test_over_http_each_session_declares_for_itself(sandbox: Sandbox, over_http: McpEntrance) -> None:
    """The envelope goes to the session that asked for it, and not to the one beside it that asks for nothing."""
    subscribed(sandbox)
    sandbox.daemon()
    with (
        http_client(sandbox, over_http, "declares", declares=True, acts=True) as one,
        http_client(sandbox, over_http, "silent", declares=False) as beside,
    ):
        (ready,) = told(sandbox, one, "ready")
        assert ready["experimental"]["neo-wake-substrate"]["version"] == "1.0"
        (other,) = told(sandbox, beside, "ready")
        assert "neo-wake-substrate" not in (other["experimental"] or {})
        sandbox.waits_for(lambda: sandbox.lines("push-capable"), what="its stream")
        sandbox.send("@mine", "please look")
        (wake,) = told(sandbox, one, "wake")
        assert wake["data"]["payload"]["subject"] == "please look"
        assert sandbox.waits_for_delivery(target="@mine", outcome="submitted", proof=3)["adapter"] == "mcp"
        assert beside.told("wake") == []


@ERAS
def test_over_http_a_client_that_comes_back_asks_for_what_it_missed(
    sandbox: Sandbox, over_http: McpEntrance, era: str
) -> None:
    """By resync with its last `logId`: one digest, new eventIds, the same logIds."""
    subscription = subscribed(sandbox)
    sandbox.daemon()
    inbox = ["wake://inbox/@mine"]
    with http_client(sandbox, over_http, listens=inbox, era=era) as first:
        told(sandbox, first, "listening")
        sandbox.waits_for(lambda: sandbox.lines("push-capable"), what="its stream")
        sandbox.send("@mine", "one")
        before = told(sandbox, first, "updated")[0]["wake"]
        sandbox.send("@mine", "two")
        told(sandbox, first, "updated", 2)
    resync = {"action": "resync", "subscriptionId": subscription, "sinceLogId": before["logId"] - 1}
    calls = [["manage_wake_subscription", resync]]
    with http_client(sandbox, over_http, "again", listens=inbox, era=era, calls=calls) as again:
        (answer,) = told(sandbox, again, "answer")
        assert answer["eventsReplayed"] == 2

        def digests() -> list[Any]:
            wakes = (one["wake"] for one in again.told("updated"))
            return [wake for wake in wakes if wake["eventType"] == "wake/digest"]

        (digest,) = sandbox.waits_for(digests, what="one digest of both")
        assert digest["eventId"] != before["eventId"]
        told_again = digest["payload"]["events"]
        assert [one["payload"]["subject"] for one in told_again] == ["one", "two"]
        assert told_again[0]["logId"] == before["logId"]
