"""Apprise, the desktop and tmux as real ones: a server like ntfy, a notification daemon on a bus, an attached client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from wake_bridge.config.fields import Configuration
from wake_bridge.demo.tmux_server import PrivateTmux, Typist
from wake_bridge.domain.channels import Send, text_message
from wake_bridge.domain.names import Instant
from wake_bridge.integrations.channels import ChannelSenders
from wake_bridge.ports.human import Told
from wake_bridge.testing import HUNG, until
from wake_bridge.testing.webhook_receiver import WebhookReceiver

TOPIC = "t0pic-of-mine"
NTFY_ANSWERS = ("200", "500", "403")

DAEMON = """
import json, sys
from jeepney import HeaderFields, MessageType, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

connection = open_dbus_connection(bus="SESSION")
connection.send_and_get_reply(message_bus.RequestName("org.freedesktop.Notifications"))
print("ready", flush=True)
while True:
    asked = connection.receive()
    if asked.header.message_type is not MessageType.method_call:
        continue
    member = asked.header.fields.get(HeaderFields.member)
    if member == "Notify":
        name, _, _, title, body, *_ = asked.body
        print(json.dumps({"name": name, "title": title, "body": body}), flush=True)
        connection.send(new_method_return(asked, "u", (7,)))
    elif member == "GetServerInformation":
        connection.send(new_method_return(asked, "ssss", ("test", "test", "1", "1.2")))
    elif member == "GetCapabilities":
        connection.send(new_method_return(asked, "as", (["body", "body-markup"],)))
"""


def message(text: str) -> Send:
    return text_message(text, "way", "@api", "S1", Instant(1_795_910_400_000))


def told(table: dict[str, Any], send: Send, adapters: list[object] | None = None) -> Told:
    async def story() -> Told:
        config = Configuration.model_validate({"channels": {"way": table}})
        return await ChannelSenders(config, Path("/config.toml"), HUNG, adapters or []).tell(send)

    return asyncio.run(story())


def test_apprise_posts_to_a_server_like_ntfy_and_its_refusal_names_no_topic(tmp_path: Path) -> None:
    """`apprise`: accepted only where the service took it; recipients stay in its own process."""
    pytest.importorskip("apprise")
    with WebhookReceiver(tmp_path, NTFY_ANSWERS) as server:
        table = {"kind": "apprise", "recipient": f"ntfy://127.0.0.1:{server.port}/{TOPIC}"}
        assert told(table, message("the build is green")) == Told("way")
        (posted,) = server.received()
        said = json.loads(posted["body"]) if posted["body"].startswith("{") else posted["body"]
        assert "the build is green" in str(said)
        assert TOPIC in posted["path"] + str(said)
        for _ in NTFY_ANSWERS[1:]:
            refused = told(table, message("again"))
            assert refused.trouble == "the service did not take it, or cannot be reached"
            assert not refused.is_unknown
    gone = told(table, message("offline"))
    assert gone.trouble
    nonsense = told({"kind": "apprise", "recipient": f"no-such-service://{TOPIC}"}, message("x"))
    assert TOPIC not in f"{gone.trouble}{nonsense.trouble}{refused.trouble}"
    assert nonsense.trouble == "its program ended with status 2"


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A session bus of its own, and nobody on it."""
    needs("dbus-daemon", "notify-send")
    address = f"unix:path={tmp_path}/bus"
    command = ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("unix:")
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        yield address
        process.kill()


def test_a_desktop_shows_it_as_text_and_without_one_it_is_refused(bus: str) -> None:
    """`desktop`: a notification daemon on the bus takes it; markup is shown and not obeyed; none there: refused."""
    environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": bus}
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True, env=environment) as shown:
        assert shown.stdout is not None
        assert shown.stdout.readline() == "ready\n"
        hostile = '--help <b>bold</b> <a href="https://example.org">click</a> & more'
        assert told({"kind": "desktop"}, message(hostile)) == Told("way")
        bubble = json.loads(shown.stdout.readline())
        documented = ["notify-send", "--", "{title}", "{body}"]
        assert told({"kind": "command", "command": documented}, message(hostile)) == Told("way")
        plain = json.loads(shown.stdout.readline())
        shown.kill()
    assert (bubble["name"], bubble["title"]) == ("wake-bridge", "wake-bridge: @api says")
    assert "<" not in bubble["body"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in bubble["body"]
    assert bubble["body"].startswith("--help ")
    assert plain["body"].startswith("--help ")
    refused = told({"kind": "desktop"}, message("nobody is there"))
    assert refused.trouble.startswith("its program ended with status")


def test_tmux_shows_it_where_a_person_is_and_says_where_nobody_is(tmux_program: str) -> None:  # noqa: ARG001 - asked for what it demands
    """`tmux`: the client that was used last; accepted only where one is attached."""
    from wake_bridge_adapters.tables import TmuxConfig
    from wake_bridge_adapters.tmux import TmuxAdapter

    from wake_bridge.ports.adapter import AdapterContext
    from wake_bridge.system.clock import SteadyClock

    with PrivateTmux() as tmux:
        tmux.new_pane(["cat"], session="work")
        context = AdapterContext(HUNG, 10.0, "", dict(os.environ), SteadyClock())
        adapter = TmuxAdapter(TmuxConfig(socket_name=tmux.socket_name), context)
        assert told({"kind": "tmux"}, message("hello"), [adapter]) == Told("")
        command = ["tmux", "-u", "-L", tmux.socket_name, "-f", "/dev/null", "attach-session", "-t", "=work"]
        with Typist(command, width=120) as person:
            person.waits_until_shown()
            assert told({"kind": "tmux"}, message("come and look"), [adapter]) == Told("terminal")
            until(lambda: "come and look" in person.shown(), "the line in the client")
