"""Channels from a real daemon: what agents need a person for goes out by them, and nobody is shown where they lead."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.webhook_receiver import WebhookReceiver

TOKEN = "tok-3n-not-to-be-shown"
RECORD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[WebhookReceiver]:
    with WebhookReceiver(tmp_path / "receiver") as one:
        yield one


def _private(playground: Playground, text: str) -> None:
    playground.sandbox.configure(text)
    playground.sandbox.config_file.chmod(0o600)


def _approvals(sandbox: Sandbox) -> list[str | None]:
    """What became of the messages about the approval."""
    return [one["outcome"] for one in sandbox.lines("channels", "sent") if one["reason"] == "approval"]


def test_an_approval_reaches_the_desk_and_then_the_phone_and_no_recipient_is_shown_anywhere(
    playground: Playground, receiver: WebhookReceiver
) -> None:
    """Near at once, off the host later; a test greps everything a run writes for recipients and tokens."""
    sandbox, record = playground.sandbox, playground.directory / "told"
    sandbox.run("init")
    command = json.dumps([sys.executable, "-c", RECORD, str(record), TOKEN])
    url = receiver.url.replace("not-to-be-shown", TOKEN)
    _private(
        playground,
        f"{QUICK}attention.after = 1\nattention.after_off_host = 3\n"
        f'adapters.webhook.allow = ["127.0.0.1"]\n'
        f'channels.desk = {{kind = "command", label = "my desk", command = {command}}}\n'
        f'channels.phone = {{kind = "webhook", label = "my phone", recipient = "{url}", key = "whsec_{"a2" * 16}"}}\n'
        f'channels.lost = {{kind = "webhook", recipient = "http://127.0.0.1:1/{TOKEN}"}}\n'
        f'channels.broken = {{kind = "command", command = ["sh", "-c", "echo {TOKEN} >&2; exit 1"]}}\n',
    )
    asks = playground.enlisted("asks")
    daemon = sandbox.daemon()
    asks.fake.shows("approval")
    (posted,) = sandbox.waits_for(receiver.received, what="the phone")
    body = json.loads(posted["body"])
    assert body["title"] == "wake-bridge: @asks waits for an approval (approval)"
    assert body["body"] == ""
    sandbox.waits_for(lambda: record.exists() and record.read_text().endswith("\n"), what="the desk")
    (desk,) = [json.loads(line) for line in record.read_text().splitlines()]
    assert (desk["channel"], desk["reason"], desk["identity"]) == ("desk", "approval", "@asks")
    assert f"answer the dialog in {asks.label}" in desk["body"]

    listed = {one["channel"]: one for one in sandbox.lines("channels", "list")}
    assert [*listed] == ["desk", "phone", "lost", "broken"]
    assert (listed["phone"]["label"], listed["desk"]["isDefault"]) == ("my phone", True)
    assert sandbox.ask("channels", "test", "phone")["outcome"] == "sent"
    assert sandbox.ask("channels", "send", "--channel", "phone", "come and look")["outcome"] == "sent"
    assert json.loads(receiver.received()[-1]["body"])["body"] == "come and look"
    for name in ("lost", "broken"):
        failed = sandbox.run("channels", "test", name, expect=1)
        assert "did not accept it" in failed.stderr
    waiting = sandbox.run("channels", "send", "--channel", "lost", "hello")
    assert "tried again for 24 hours" in waiting.stderr
    unknown = sandbox.run("channels", "send", "--channel", "fone", "hello", expect=8)
    assert "desk, phone, lost, broken" in unknown.stderr
    sandbox.waits_for(lambda: _approvals(sandbox) == ["sent", "sent"], what="both channels' answers")
    sent = sandbox.lines("channels", "sent")
    told = [sandbox.run("why", sent[0]["messageId"]).stdout, sandbox.run("why", "@asks").stdout]
    assert "intent_send" in told[0]
    assert "message" in told[1]

    said = [
        one.stdout
        for one in (sandbox.run("status"), sandbox.run("doctor", expect=None), sandbox.run("config", "check"))
    ]
    said += [sandbox.run("channels", "list").stdout, sandbox.run("channels", "sent").stdout, *told]
    said += [failed.stderr, waiting.stderr, unknown.stderr, daemon.log()]
    said += [json.dumps(sandbox.lines("why", one["messageId"])) for one in sent]
    assert daemon.stop() == 0
    written = [one for one in sandbox.home.rglob("*") if one.is_file() and one != sandbox.config_file]
    for secret in (TOKEN, TOKEN.encode().hex(), f":{receiver.port}", "/hooks/wake", "a2a2a2"):
        assert [text for text in said if secret in text] == []
        assert [str(one) for one in written if secret.encode() in one.read_bytes()] == []
    assert daemon.entries("chore_failed") == []


def test_a_text_is_sent_without_a_daemon_and_kept_without_a_channel(playground: Playground) -> None:
    """The command sends it itself; with no channel it is kept, with a warning, and the first daemon with one sends it."""
    sandbox, file = playground.sandbox, playground.directory / "messages.jsonl"
    sandbox.run("init")
    sandbox.configure(QUICK)
    assert sandbox.lines("channels", "list") == []
    kept = sandbox.run("channels", "send", "keep this")
    assert "no channel is configured" in kept.stderr
    sandbox.configure(f'{QUICK}channels.log = {{kind = "file", recipient = "{file}"}}\n')
    assert sandbox.ask("channels", "send", "at once")["outcome"] == "sent"
    assert [json.loads(line)["body"] for line in file.read_text().splitlines()] == ["at once"]
    sandbox.daemon()
    sandbox.waits_for(lambda: len(file.read_text().splitlines()) == 2, what="what was kept")
    assert json.loads(file.read_text().splitlines()[1])["body"] == "keep this"


def test_a_mistake_in_a_channel_names_the_key_and_not_the_recipient(playground: Playground) -> None:
    """Errors withhold what was written, also behind a name that was mistyped, and where others may read the file."""
    sandbox = playground.sandbox
    for text in (
        f'channels.phone = {{kind = "webhook", recipent = "https://example.org/{TOKEN}"}}',
        f'channels.phone = {{kind = "webhook", recipient = "https://{TOKEN}@example.org/"}}',
        f'channels.phone = {{kind = "fax", recipient = "https://example.org/{TOKEN}"}}',
        f'channels.phone = {{kind = "command", command = ["sh", "-c", "{{title}} {TOKEN}"]}}',
    ):
        _private(playground, f"{QUICK}{text}\n")
        wrong = sandbox.run("config", "check", expect=3)
        assert "channels.phone" in wrong.stdout + wrong.stderr
        assert TOKEN not in wrong.stdout + wrong.stderr
    sandbox.configure(f'{QUICK}channels.phone = {{kind = "webhook", recipient = "https://example.org/{TOKEN}"}}\n')
    sandbox.config_file.chmod(0o644)
    wrong = sandbox.run("config", "check", expect=3)
    assert "chmod 600" in wrong.stdout + wrong.stderr
    assert TOKEN not in wrong.stdout + wrong.stderr
