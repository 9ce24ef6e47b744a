"""A wake that is posted: by a real daemon, to a receiver in a process of its own."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing import HUNG
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.webhook_receiver import WebhookReceiver

SETTINGS = f'{QUICK}[adapters.webhook]\nallow = ["127.0.0.0/8"]\n'


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """An embedded graph with two agents, without any pane."""
    with Sandbox(tmp_path / "home", command=program) as home:
        home.configure(SETTINGS)
        home.run("init")
        for one in ("@me", "@ci"):
            home.run("agent", "add", one)
        yield home


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[WebhookReceiver]:
    """One that takes everything."""
    with WebhookReceiver(tmp_path / "receiver") as one:
        yield one


def subscribed(sandbox: Sandbox, receiver: WebhookReceiver, *options: str, identity: str = "@ci") -> dict[str, Any]:
    return sandbox.ask(
        "subscribe", identity, "--trigger", "SENT_TO_ME", "--webhook", receiver.url, "--window", "0", *options
    )


def posted(sandbox: Sandbox, receiver: WebhookReceiver, count: int = 1) -> list[dict[str, Any]]:
    return sandbox.waits_for(
        lambda: found if len(found := receiver.received()) >= count else None, what=f"{count} posted wakes"
    )


def written_by(sandbox: Sandbox) -> bytes:
    """All that a run writes but the graph, which holds the key."""
    files = [one for one in sandbox.home.rglob("*") if one.is_file() and "graph" not in one.name]
    return b"".join(one.read_bytes() for one in files)


def test_a_message_becomes_one_signed_post_and_its_key_is_told_once(
    sandbox: Sandbox, receiver: WebhookReceiver
) -> None:
    """One envelope, both header sets, verified by who did not write them; the key is nowhere but in the graph."""
    done = subscribed(sandbox, receiver)
    key = done["signingKey"]
    assert (done["harnessTarget"], key[:6]) == ("a2a-webhook", "whsec_")
    daemon = sandbox.daemon()

    message = sandbox.send("@ci", "the build is red", "--priority", "high")

    told = sandbox.waits_for_delivery(target="@ci", outcome="submitted")
    (post,) = posted(sandbox, receiver)
    body, headers = post["body"], post["headers"]
    Webhook(key).verify(body, headers)
    signed = subprocess.run(
        ["openssl", "dgst", "-sha256", "-hmac", key], input=body.encode(), capture_output=True, check=True
    ).stdout.decode()
    assert (
        headers["X-Neo-Wake-Signature"]
        == signed.split()[-1]
        == hmac.new(key.encode(), body.encode(), hashlib.sha256).hexdigest()
    )
    envelope = json.loads(body)
    assert envelope["payload"] == {
        "messageId": message,
        "from": "@me",
        "subject": "the build is red",
        "priority": "high",
        "taggedConcepts": [],
        "isReplyTo": None,
        "isBroadcast": False,
    }
    assert (envelope["schemaVersion"], envelope["eventType"], envelope["agentIdentity"]) == (
        "1.0",
        "wake/sent_to_me",
        "@ci",
    )
    assert headers["X-Neo-Wake-Event-Id"] == headers["webhook-id"] == envelope["eventId"]
    assert headers["X-Neo-Wake-Subscription-Id"] == envelope["subscriptionId"] == done["subscriptionId"]
    assert (told["adapter"], told["proof"], told["pane"]) == (
        "webhook",
        2,
        f"http://127.0.0.1:{receiver.port}/hooks/wake",
    )
    said = [
        sandbox.run(*command, expect=None)
        for command in (
            ("list",),
            ("list", "--json"),
            ("status",),
            ("status", "--json"),
            ("doctor",),
            ("why", message),
            ("deliveries", "--json"),
            ("routes", "@ci", "--explain"),
            ("routes", "@ci", "--json"),
            ("presence", "@ci"),
            ("push-capable",),
            ("logs",),
            ("diagnose",),
            ("update", done["subscriptionId"], "--window", "1"),
        )
    ]
    told_all = (
        b"".join(f"{one.stdout}{one.stderr}".encode() for one in said) + daemon.log().encode() + written_by(sandbox)
    )
    for secret in (key, key.removeprefix("whsec_"), "not-to-be-shown"):
        assert secret.encode() not in told_all


def test_an_emission_that_may_have_arrived_is_sent_again_as_it_was_also_after_a_kill(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Every duplicate has the same eventId and the same bytes; a receiver that hangs delays no other target."""
    sandbox.configure(f"{SETTINGS}[delivery]\nadapter_timeout = 5\n")
    sandbox.run("agent", "add", "@other")
    with (
        WebhookReceiver(tmp_path / "slow", ["hang", "reset", "503", "204"]) as slow,
        WebhookReceiver(tmp_path / "quick") as quick,
    ):
        subscribed(sandbox, slow)
        subscribed(sandbox, quick, identity="@other")
        first = sandbox.daemon()
        sandbox.send("@ci", "once")
        posted(sandbox, slow)
        sandbox.send("@other", "meanwhile")
        posted(sandbox, quick)
        assert len(slow.received()) == 1, "the other one was not posted while it hung"
        # killed before it knows of the answer, it would post that one again as well
        sandbox.waits_for_delivery(target="@other", outcome="submitted")
        first.kill()
        sandbox.daemon()
        sandbox.waits_for_delivery(target="@ci", outcome="submitted")

        tries = slow.received()
        assert len(tries) == 4
        assert len({(one["headers"]["webhook-id"], one["body"]) for one in tries}) == 1
        assert len({one["headers"]["webhook-timestamp"] for one in tries}) > 1, "a timestamp is fresh for each try"
        assert len(quick.received()) == 1


def test_a_receiver_that_hangs_keeps_no_other_target_of_the_same_identity_waiting(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Neither in its first post, nor when more comes for it meanwhile: each subscription is a target of its own."""
    sandbox.configure(f"{SETTINGS}[delivery]\nadapter_timeout = {HUNG / 2}\n")
    with WebhookReceiver(tmp_path / "slow", ["hang"]) as slow, WebhookReceiver(tmp_path / "quick") as quick:
        subscribed(sandbox, slow)
        right = ("--trigger", "PERMISSION_GRANTED", "--webhook", quick.url, "--window", "0")
        sandbox.ask("subscribe", "@ci", *right)
        daemon = sandbox.daemon()
        sandbox.send("@ci", "hangs")
        posted(sandbox, slow)
        sandbox.send("@ci", "waits for the first")
        sandbox.run("grant", "CAN_REPLY_TO", "--to", "@ci", "--as", "@me")
        (post,) = posted(sandbox, quick)
        assert json.loads(post["body"])["eventType"] == "wake/permission_granted"
        assert daemon.entries("receiver_failed") == [], "it came after the time-out"
        assert len(slow.received()) == 1


def test_a_receiver_that_is_down_loses_nothing_and_what_waited_comes_as_a_digest(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Suspended, told everywhere, tried again when its subscription is recovered; never two wakes for one fact."""
    with WebhookReceiver(tmp_path / "gone") as gone:
        done = subscribed(sandbox, gone)
    daemon = sandbox.daemon()
    sandbox.send("@ci", "first")
    daemon.waits_for_log("receiver_suspended")
    sandbox.send("@ci", "second")
    held = sandbox.waits_for(
        lambda: [one for one in sandbox.deliveries() if one["cause"] == "receiver-suspended"], what="a hold"
    )
    assert held[0]["remedy"].startswith("nothing to do: the receiver http://127.0.0.1")
    (listed,) = sandbox.ask("list")["subscriptions"]
    assert (listed["deliverable"], "suspended" in listed["why"]) == (False, True)
    assert sandbox.lines("push-capable") == []
    assert sandbox.ask("routes", "@ci")["decision"]["cause"] == "receiver-suspended"

    with WebhookReceiver(tmp_path / "back", port=gone.port) as back:
        sandbox.run("update", done["subscriptionId"], "--recover")
        sandbox.waits_for_delivery(target="@ci", outcome="submitted")
        (post,) = back.received()
        digest = json.loads(post["body"])
        assert digest["eventType"] == "wake/digest"
        assert [one["payload"]["subject"] for one in digest["payload"]["events"]] == ["first", "second"]
    assert [one["agentIdentity"] for one in sandbox.lines("push-capable")] == ["@ci"]


def test_a_receiver_that_is_gone_is_given_up_until_a_person_recovers_it(sandbox: Sandbox, tmp_path: Path) -> None:
    """The remedy, taken literally with its subscription's id, ends the hold."""
    with WebhookReceiver(tmp_path / "gone", ["410", "204"]) as receiver:
        done = subscribed(sandbox, receiver)
        sandbox.daemon()
        sandbox.send("@ci", "first")
        held = sandbox.waits_for_delivery(cause="receiver-degraded")
        command = re.search(r"`wake-bridge (update ID --recover)`", held["remedy"])
        assert command is not None
        sandbox.run(*command[1].replace("ID", done["subscriptionId"]).split())
        sandbox.waits_for_delivery(id=held["id"], outcome="submitted")


def test_a_row_of_another_programs_graph_is_posted_with_its_own_key_where_the_configuration_says_so(
    tmp_path: Path, program: tuple[str, ...], receiver: WebhookReceiver
) -> None:
    """`[graph] serve` names the target; else its own server has it, and nothing is posted."""
    key = "whsec_QSBrZXkgdGhhdCB1cHN0cmVhbSBtYWRl"
    with Sandbox(tmp_path / "home", command=program) as home:
        home.configure(SETTINGS)
        home.graph.parent.mkdir(parents=True, exist_ok=True)
        with MemoryCore.create(home.graph, ["@ci", "@me"]) as core:
            metadata = {"url": receiver.url, "signingKey": key, "coalesceWindow": 0}
            core.subscribe("@ci", harnessTarget="a2a-webhook", harnessTargetMetadata=metadata)
            first = home.daemon()
            message = core.send("@me", "@ci", "for its own server")
            first.waits_for_log("caught_up")
            assert "the graph's own server serves a2a-webhook" in home.run("why", message, expect=None).stdout
            first.stop()

            home.configure(f'{SETTINGS}[graph]\nserve = ["a2a-webhook"]\n')
            home.daemon()
            taken = core.send("@me", "@ci", "for us")
            home.waits_for_delivery(target="@ci", outcome="submitted")
            (post,) = receiver.received()
            Webhook(key).verify(post["body"], post["headers"])
            assert json.loads(post["body"])["payload"]["messageId"] == taken
        assert key.encode() not in written_by(home)


def test_where_the_receiver_is_not_welcome_the_pane_of_the_same_identity_is_woken(
    playground: Playground, tmp_path: Path
) -> None:
    """The first route that serves: a suspended receiver leaves the wake to the next one, once."""
    home = playground.sandbox
    home.configure(SETTINGS)
    home.run("init")
    agent = playground.agent("both")
    home.enlist("@both", agent.session)
    with WebhookReceiver(tmp_path / "unwelcoming", ["401"]) as receiver:
        home.ask("subscribe", "@both", "--trigger", "SENT_TO_ME", "--webhook", receiver.url, "--window", "0")
        home.daemon()
        home.send("@both", "for either")
        told = home.waits_for_delivery(target="@both", outcome="submitted")
        assert told["adapter"] == "tmux"
        assert len(agent.fake.submits()) == 1
        assert len(receiver.received()) == 1


def test_a_key_is_changed_without_a_gap_and_a_private_address_is_refused_with_the_line_that_allows_it(
    sandbox: Sandbox, receiver: WebhookReceiver
) -> None:
    """For a day both keys sign; where nothing is allowed nothing is posted."""
    done = subscribed(sandbox, receiver)
    changed = sandbox.ask("update", done["subscriptionId"], "--rotate-key")
    assert changed["signingKey"] != done["signingKey"]
    first = sandbox.daemon()
    sandbox.send("@ci", "signed twice")
    (post,) = posted(sandbox, receiver)
    for key in (done["signingKey"], changed["signingKey"]):
        Webhook(key).verify(post["body"], post["headers"])
    first.stop()

    sandbox.configure(QUICK)
    sandbox.daemon()
    sandbox.send("@ci", "not sent")
    held = sandbox.waits_for(
        lambda: [one for one in sandbox.deliveries() if one["cause"] == "receiver-forbidden"], what="a refusal"
    )
    assert 'asked without TLS: `[adapters.webhook] allow = ["127.0.0.1"]` allows it' in held[0]["hold_detail"]
    assert len(receiver.received()) == 1
    # taken literally
    (table, key) = re.findall(r"`(\[[^]`]+\]) ([^`]+)`", held[0]["remedy"])[0]
    sandbox.configure(f"{QUICK}{table}\n{key}\n")
    sandbox.daemons[-1].stop()
    sandbox.daemon()
    sandbox.waits_for_delivery(id=held[0]["id"], outcome="submitted")
