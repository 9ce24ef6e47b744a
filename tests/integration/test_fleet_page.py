"""The page and the feed by HTTP: a real daemon, real connections, and those who have no token."""

from __future__ import annotations

import asyncio
import http.client
import json
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.control.client import SOCKET_NAME
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.domain.names import Instant
from wake_bridge.http.feed import MOST_SUBSCRIBERS, QUEUE, Feed, Subscriber
from wake_bridge.http.tokens import CODE_LASTS, KEY_FILE, MOST_CODES, TOKEN_LASTS, PageTokens
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import (
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)
from wake_bridge.testing.playground import Playground


class Client:
    """A program with a token, or without one."""

    def __init__(self, listen: str, token: str = "") -> None:
        self.host = listen.removeprefix("http://").rstrip("/")
        self.token = token

    def asks(
        self, path: str, method: str = "GET", body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer; an underscore in a header's name is a hyphen."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        with closing(http.client.HTTPConnection(self.host, timeout=HUNG)) as line:
            line.request(method, path, data, sent)
            answer = line.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            # a stream has no end
            is_stream = told.get("content-type", "").startswith("text/event-stream")
            return answer.status, told, b"{}" if is_stream else answer.read()

    def json(self, path: str, method: str = "GET", body: object = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of an answer."""
        status, _, said = self.asks(path, method, body, **headers)
        return status, json.loads(said)

    @contextmanager
    def listens(self, after: int | None = None) -> Iterator[Stream]:
        """The stream of events, from an entry on."""
        host, _, port = self.host.rpartition(":")
        with socket.create_connection((host, int(port)), HUNG) as line:
            cursor = "" if after is None else f"Last-Event-ID: {after}\r\n"
            head = (
                f"GET /api/events HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n{cursor}\r\n"
            )
            line.sendall(head.encode())
            yield Stream(line)


class Stream:
    """Events as they come."""

    def __init__(self, line: socket.socket) -> None:
        self._file = line.makefile("r", encoding="utf-8", newline="")
        self.status = int(self._file.readline().split()[1])

    def begins(self) -> None:
        """Wait until the daemon says that it listens."""
        while self._file.readline().strip() != ": listening":
            pass

    def next(self, *kinds: str) -> dict[str, Any]:
        """The next event of these kinds, of any entry without them: its id, kind and data."""
        event: dict[str, Any] = {}
        deadline = time.monotonic() + HUNG
        # a comment comes every 15 s, so this ends
        while time.monotonic() < deadline:
            raw = self._file.readline()
            if not raw:
                raise AssertionError("the stream ended")
            line = raw.strip()
            if line.startswith("event: "):
                event["kind"] = line[7:]
            elif line.startswith("id: "):
                event["id"] = int(line[4:])
            elif line.startswith("data: "):
                event["data"] = json.loads(line[6:])
            elif not line and event:
                if event.get("kind") in kinds or (not kinds and "id" in event):
                    return event
                event = {}
        raise AssertionError(f"no such event within {HUNG:g} s")


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """A daemon with two agents that have no pane."""
    with Sandbox(tmp_path, command=program) as made:
        made.run("init")
        for name in ("a", "b"):
            made.run("agent", "add", f"@{name}")
        made.daemon()
        yield made


def client_of(sandbox: Sandbox) -> Client:
    told = sandbox.ask("open", "--token")
    return Client(told["listen"], told["token"])


def test_the_feed_is_read_by_http_with_cursors(sandbox: Sandbox) -> None:
    """Forward from an id, or backward from the end; `next` is where to go on."""
    client = client_of(sandbox)
    for name in ("@a", "@b", "@a"):
        sandbox.run("pause", name)

    status, told = client.json("/api/activity?after=0&limit=2")
    assert (status, [one["id"] for one in told["entries"]]) == (200, [1, 2])
    assert (told["next"], told["oldest"], told["last"]) == (2, 1, 3)
    status, told = client.json("/api/activity?after=2&limit=2")
    assert ([one["id"] for one in told["entries"]], told["next"]) == ([3], None)
    status, told = client.json("/api/activity?agent=@a&limit=1")
    assert ([one["id"] for one in told["entries"]], told["next"]) == ([3], 3)
    status, told = client.json("/api/activity?agent=@a&limit=1&before=3")
    assert [one["id"] for one in told["entries"]] == [1]
    assert told["entries"][0] == sandbox.lines("activity", "--limit", "3")[0]
    for wrong in (
        "limit=0",
        "limit=501",
        "after=x",
        "after=-1",
        "after=1&before=2",
        "agent=nobody",
        f"after={'9' * 19}",
    ):
        assert client.json(f"/api/activity?{wrong}")[0] == 422, wrong


def test_the_stream_replays_from_an_id_and_goes_on_with_what_other_processes_do(sandbox: Sandbox) -> None:
    """Event ids are entries of the feed; nothing is missed or told twice between the replay and what is new."""
    client = client_of(sandbox)
    for name in ("@a", "@b"):
        sandbox.run("pause", name)
    with client.listens(after=1) as stream:
        first = stream.next()
        assert (first["id"], first["kind"], first["data"]["outcome"]) == (2, "activity.message", "paused")
        with client.listens() as other:
            other.begins()
            sandbox.run("resume", "--all")
            for one in (stream, other):
                told = one.next()
                assert (told["id"], told["data"]["outcome"], told["data"]["agentIdentity"]) == (3, "resumed", "*")


def test_what_is_forgotten_or_was_never_written_begins_anew(sandbox: Sandbox) -> None:
    """Beyond retention a `reset` event says so, with the id from which on the client is whole again."""
    client = client_of(sandbox)
    for name in ("@a", "@b"):
        sandbox.run("pause", name)
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        assert ledger.prune(Instant(2**60), 1000)
    for after in (0, 1, 99):
        with client.listens(after=after) as stream:
            told = stream.next("reset")
            assert (told["id"], told["data"]) == (2, {"oldest": 3, "last": 2})
    with client.listens(after=2) as stream:
        sandbox.run("pause", "@a")
        assert stream.next()["id"] == 3


def test_a_slow_subscriber_loses_the_oldest_and_is_told() -> None:
    """At most 256 events wait for one client; what was dropped can be read from where it was."""
    from sse_starlette.event import ServerSentEvent

    subscriber = Subscriber(10)
    for number in range(11, 11 + QUEUE + 3):
        subscriber.put(number, ServerSentEvent("{}", event="wake.held", id=str(number)))

    taken = asyncio.run(subscriber.take())
    assert len(taken) == QUEUE + 1
    assert (taken[0].event, json.loads(str(taken[0].data))) == ("dropped", {"count": 3, "after": 10})
    assert (taken[1].id, taken[-1].id) == ("14", str(10 + QUEUE + 3))
    assert subscriber.cursor == 10 + QUEUE + 3


def test_of_an_agent_a_slow_subscriber_gets_what_it_shows_now() -> None:
    """Presence is no entry: an older one is replaced by a newer one, and takes no entry's place."""
    from sse_starlette.event import ServerSentEvent

    subscriber = Subscriber(0)
    for number in range(1, QUEUE + 1):
        subscriber.put(number, ServerSentEvent("{}", event="wake.held", id=str(number)))
        subscriber.show("@a", ServerSentEvent(str(number), event="presence"))
        subscriber.show("@b", ServerSentEvent(str(number), event="presence"))

    *entries, first, second = asyncio.run(subscriber.take())
    assert [one.id for one in entries] == [str(number) for number in range(1, QUEUE + 1)]
    assert [(one.event, one.data) for one in (first, second)] == [("presence", str(QUEUE))] * 2


def test_a_long_replay_makes_nobody_wait_and_counts_as_a_listener(tmp_path: Path) -> None:
    """A client that takes all at once, or has gone, is sent its replay entry by entry, and others have their turn between."""
    ledger = LedgerStore.open(tmp_path)
    for number in range(10):
        ledger.pause(f"@{number}", None, Instant(number + 1))

    async def nobody() -> dict[str, dict[str, Any]]:
        return {}

    async def replayed() -> list[int]:
        feed = Feed(lambda: ledger, nobody, lambda: None)
        turns = 0

        async def has_its_turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(has_its_turn())
        streams = [feed.events(0) for _ in range(MOST_SUBSCRIBERS)]
        seen, crowded = [], [feed.is_crowded]
        for stream in streams:
            await anext(stream)
            crowded.append(feed.is_crowded)
        for _ in range(10):
            assert (await anext(streams[0])).id is not None
            seen.append(turns)
        other.cancel()
        for stream in streams:
            await stream.aclose()
        assert [*crowded, feed.is_crowded] == [False] * MOST_SUBSCRIBERS + [True, False]
        return seen

    turns = asyncio.run(replayed())
    ledger.close()
    assert all(after > before for before, after in pairwise(turns)), turns


def test_the_daemon_says_presence_to_who_listens(sandbox: Sandbox) -> None:
    """What each agent shows is sent when somebody begins to listen; it has no id, for it is no entry."""
    sandbox.run("subscribe", "@a", "--trigger", "SENT_TO_ME", "--tmux", "nowhere")
    client = client_of(sandbox)
    with client.listens() as stream:
        told = stream.next("presence")
        assert "id" not in told
        assert told["data"]["agentIdentity"] in {"@a", "@b"}
        assert set(told["data"]) == {"agentIdentity", "presence", "looksLike", "since", "route", "where", "host"}


def test_a_web_page_of_another_port_and_another_name_of_this_host_get_nothing(sandbox: Sandbox) -> None:
    """Origin, Host and Sec-Fetch-Site are checked before a token counts: an agent's dev server is on localhost too."""
    client = client_of(sandbox)
    own = f"http://{client.host}"
    port = client.host.rpartition(":")[2]
    act = ("/api/act", "POST", {"act": "pause", "identity": "@a"})
    for origin in (
        "http://127.0.0.1:1",
        f"https://{client.host}",
        "null",
        f"http://evil.example:{port}",
        own + ".evil",
    ):
        assert client.asks(*act, Origin=origin)[0] == 403, origin
        assert client.asks("/api/activity", Origin=origin)[0] == 403, origin
        assert client.asks("/", Origin=origin)[0] == 403, origin
        assert client.asks("/api/act", "OPTIONS", None, Origin=origin)[0] == 403, origin
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "0.0.0.0", f"[::]:{port}"):
        assert client.asks("/api/activity", Host=host)[0] == 403, host
        assert client.asks("/", Host=host)[0] == 403, host
    for where in ("cross-site", "same-site"):
        assert client.asks(*act, Sec_Fetch_Site=where)[0] == 403
        assert client.asks("/api/activity", Sec_Fetch_Site=where)[0] == 403
        assert client.asks("/", Sec_Fetch_Site=where, Sec_Fetch_Dest="iframe")[0] == 403
        assert client.asks("/", Sec_Fetch_Site=where, Sec_Fetch_Dest="document")[0] == 200
    assert sandbox.ask("status")["paused"] == []
    assert client.asks(*act, Origin=own, Sec_Fetch_Site="same-origin")[0] == 200
    assert [one["agentIdentity"] for one in sandbox.ask("status")["paused"]] == ["@a"]


@pytest.mark.parametrize(
    ("act", "status"),
    [
        ({"act": "pause", "identity": "@nobody"}, 404),
        ({"act": "resume", "identity": "@nobody"}, 404),
        ({"act": "pause", "identity": "a"}, 400),
        ({"act": "pause", "identity": "@a", "seconds": True}, 400),
        ({"act": "pause", "identity": "@a", "seconds": 0}, 400),
        ({"act": "type", "identity": "@a"}, 400),
    ],
)
def test_a_button_takes_what_its_command_takes(sandbox: Sandbox, act: dict[str, Any], status: int) -> None:
    """Nobody is paused who is not here, and for no length that is none."""
    assert client_of(sandbox).asks("/api/act", "POST", act)[0] == status
    assert sandbox.ask("status")["paused"] == []


def test_the_page_tells_nothing_before_it_has_a_token(sandbox: Sandbox) -> None:
    """Anybody may load it: it names nobody, and has no script and no style of its own in it."""
    shell = client_of(sandbox).asks("/")[2].decode()
    assert "wake-bridge" in shell
    assert not any(one in shell for one in ("@a", "<script>", "style=", "onclick"))


def test_a_link_opens_the_page_once(sandbox: Sandbox) -> None:
    """Its fragment is a code, which no server log ever sees; it is exchanged for a token, and then worthless."""
    link = sandbox.ask("open")
    client = Client(link["listen"])
    code = link["url"].partition("#k=")[2]
    assert len(code) > 40

    status, told = client.json("/api/session", "POST", {"code": code})
    assert status == 200
    assert Client(link["listen"], told["token"]).asks("/page/fleet")[0] == 200
    for wrong in ({"code": code}, {"code": code[:-1]}, {"code": 1}, {}, {"code": ""}):
        assert client.json("/api/session", "POST", wrong)[0] == 401
    bodies: tuple[object, ...] = ([], "x", None)
    for body in bodies:
        assert client.asks("/api/session", "POST", body)[0] in {415, 422}

    sandbox.run("open", "--sign-out")
    assert Client(link["listen"], told["token"]).asks("/page/fleet")[0] == 401


def test_a_stream_ends_with_its_session(sandbox: Sandbox) -> None:
    """Who was signed out while they listened is told nothing any more."""
    client = client_of(sandbox)
    with client.listens() as stream:
        stream.begins()
        sandbox.run("open", "--sign-out")
        sandbox.run("pause", "@a")
        with pytest.raises(AssertionError, match="the stream ended"):
            stream.next("activity.message")


def test_the_page_is_where_it_was_after_a_restart_and_knows_its_sessions(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    """Tokens are signed by a key on disk, and the address is remembered: a page that is open goes on."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        daemon = sandbox.daemon()
        client = client_of(sandbox)
        daemon.stop()
        sandbox.daemon()
        assert client.asks("/page/fleet")[0] == 200
        assert sandbox.ask("open", "--token")["listen"] == f"http://{client.host}/"
        assert (sandbox.state_dir / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_the_buttons_do_what_the_commands_do_and_nothing_else(sandbox: Sandbox) -> None:
    """Pause, resume, acknowledge, retry: each as the command of that name; what is wrong is said."""
    client = client_of(sandbox)

    def act(**body: object) -> tuple[int, dict[str, Any]]:
        return client.json("/api/act", "POST", body)

    assert act(act="pause", identity="@a", seconds=3600) == (200, {"said": "@a is paused for 1 h"})
    assert sandbox.ask("status")["paused"][0]["agentIdentity"] == "@a"
    assert act(act="resume", identity="*") == (200, {"said": "every identity is resumed"})
    assert sandbox.ask("status")["paused"] == []
    for wrong in (
        {"act": "pause", "identity": "a"},
        {"act": "pause", "identity": "@a", "seconds": -1},
        {"act": "pause", "identity": "@a", "seconds": "9"},
        {"act": "pause"},
        {"act": "ack"},
        {"act": "wake", "identity": "@a", "text": "rm -rf /"},
        {"act": ["pause"], "identity": "@a"},
        {},
    ):
        assert act(**wrong)[0] == 400, wrong
    assert act(act="ack", delivery="01NOTHING")[0] == 404
    assert act(act="retry", delivery="01NOTHING")[0] == 404
    assert client.asks("/api/act", "GET")[0] == 405
    assert client.asks("/api/act", "POST", {"act": "x" * 5000})[0] == 413


def test_a_wake_that_may_have_arrived_is_retried_only_after_somebody_looked(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    """The page and the command have one rule: 409 and 7 without that word."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        now = Instant(SteadyClock().now() - 60_000)
        with fresh_ledger(sandbox.state_dir) as ledger:
            event = sample_event(0, "@a", subject_key="MESSAGE:lost", matched_at=now)
            delivery = ledger.dispatch(open_delivery(ledger, event, new_id=counted_ids(), now=now), now)
            ledger.settle(lock_with_its_events(ledger, delivery, now), Outcome.UNKNOWN, Proof.NONE, {}, now)
        sandbox.daemon()
        client = client_of(sandbox)

        status, told = client.json("/api/act", "POST", {"act": "retry", "delivery": delivery.id})
        assert (status, told.get("error")) == (409, "the wake may have been submitted already")
        assert client.json("/api/act", "POST", {"act": "retry", "delivery": delivery.id, "looked": "yes"})[0] == 409
        assert "may or may not have arrived" in client.asks("/page/fleet")[2].decode()
        status, told = client.json("/api/act", "POST", {"act": "retry", "delivery": delivery.id, "looked": True})
        assert (status, told["said"]) == (200, "@a is told again, when that is safe")


def test_without_the_extra_a_daemon_starts_as_before_and_says_what_the_page_needs(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    """Also where the page was open before: it is no reason not to wake anybody."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        daemon = sandbox.daemon()
        client_of(sandbox)
        daemon.stop()
        absent = tmp_path / "absent"
        absent.mkdir()
        (absent / "sitecustomize.py").write_text(
            "import importlib.util as util\n"
            "found = util.find_spec\n"
            "util.find_spec = lambda name, *more: None if name == 'jinja2' else found(name, *more)\n"
        )
        daemon = sandbox.daemon(environment={"PYTHONPATH": str(absent)})
        assert daemon.entries("http_listening") == []
        refused = sandbox.run("open", expect=1)
        assert (
            "error: there is no page: the extra `http` is not installed (jinja2 is missing): daemon\n" in refused.stderr
        )
        assert "pip install 'wake-bridge[http]'" in refused.stderr


def test_an_agent_gets_no_link(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buttons act for every agent: the page is for a person."""
    from wake_bridge.cli import page
    from wake_bridge.cli.app import cli
    from wake_bridge.domain.ownership import Invoker

    for name, value in sandbox.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wake_bridge.offline.owner.invoker", lambda _: Invoker("claude", 1, why="it runs below it"))
    assert page.open_page.name == "open"
    with pytest.raises(SystemExit) as ended:
        cli.main(["open", "--token"])
    assert ended.value.code == 7


def test_an_agent_gets_no_token_by_the_control_socket_either(playground: Playground) -> None:
    """The daemon looks who asks, by the kernel's word: a program of the agent's own is no way past `open`."""
    sandbox = playground.sandbox
    told, script = playground.directory / "told", playground.directory / "asks"
    asks = (
        "import os, socket, sys; os.chdir(sys.argv[1]); s = socket.socket(socket.AF_UNIX);"
        f" s.connect({SOCKET_NAME!r});"
        ' s.sendall(b\'{"command": "page", "token": true}\\n\'); open(sys.argv[2], "wb").write(s.makefile("rb").readline())'
    )
    command = shlex.join([sys.executable, "-c", asks, str(sandbox.state_dir), str(told)])
    script.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    script.chmod(0o755)
    sandbox.run("init")
    playground.enlisted("api", "--on-submit", str(script))
    sandbox.daemon()
    sandbox.send("@api", "hello")
    answer = json.loads(str(sandbox.waits_for(lambda: told.exists() and told.read_text(encoding="utf-8"))))
    assert set(answer) == {"error", "hint", "exit_code"}
    assert "the page is for a person" in answer["error"]
    assert sandbox.ask("open", "--token")["token"]


def test_codes_and_tokens_end(tmp_path: Path) -> None:
    """A code counts for five minutes, a token for a week, and only so many codes wait."""
    now = [1_700_000_000_000]
    tokens = PageTokens(tmp_path, lambda: Instant(now[0]))
    late, first = tokens.new_code(), tokens.new_code()
    token = tokens.token_for(first)
    assert token is not None
    now[0] += CODE_LASTS
    assert tokens.token_for(late) is None
    assert tokens.is_valid(token)
    assert PageTokens(tmp_path, lambda: Instant(now[0])).is_valid(token)
    now[0] += TOKEN_LASTS
    assert not tokens.is_valid(token)
    oldest, *others = [tokens.new_code() for _ in range(MOST_CODES + 1)]
    assert tokens.token_for(oldest) is None
    assert all(tokens.token_for(one) for one in others)
    (tmp_path / KEY_FILE).write_text("damaged")
    assert tokens.is_valid(tokens.new_token())
