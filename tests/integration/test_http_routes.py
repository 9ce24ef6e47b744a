"""Every route of the web server, as the program lists them: who has no right is told nothing and changes nothing.

One daemon listens at a Unix socket, where all routes are: those of signed wakes, of items, and of the page.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from tests.programs import needs
from tests.torture.malformed_page import KINDS, try_once
from tests.torture.slow_listeners import connections, listen_slowly
from wake_bridge.config.senders import ConfiguredSender
from wake_bridge.config.source_tokens import SourceTokens
from wake_bridge.demo.sandbox import QUICK, DaemonProcess, Sandbox
from wake_bridge.domain.names import DAY, Identity, Instant
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.http import page
from wake_bridge.http.app import Application, application
from wake_bridge.http.intake import InboxRoutes
from wake_bridge.http.listener import HEADERS, Listener
from wake_bridge.http.page import FleetPage
from wake_bridge.http.signatures import Signatures
from wake_bridge.http.tokens import PageTokens
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import fresh_ledger
from wake_bridge.testing.wake_entrance import KEY, message_wake, standard_headers

OPEN = {"/", "/healthz", "/static/page.css", "/static/page.js", "/static/icon.svg"}
"""What anybody may read: it tells nothing. Every other route asks for a credential."""

PARAMETERS = {"{identity}": "@a", "{delivery}": "01NOTHING"}
ITEM = {"identity": "@a", "text": "let me in", "mode": "active"}
BODIES: Mapping[str, Any] = {
    "/api/act": {"act": "pause", "identity": "@a"},
    "/api/session": {"code": "x" * 43},
    "/api/wake": message_wake(agentIdentity="@a"),
}


class Answer:
    """What came back: status, headers in lower case with all their values, body."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers: dict[str, list[str]] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            self.headers.setdefault(name.lower(), []).append(value)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def talk(line: socket.socket, request: bytes) -> Answer:
    """Send a request, and read its answer; of a stream only its head."""
    with closing(line):
        line.settimeout(HUNG)
        line.sendall(request)
        raw = b""
        while chunk := line.recv(65536):
            raw += chunk
            if b"\r\n\r\n" in raw and b"text/event-stream" in raw:
                break
        return Answer(raw)


def request_of(method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b"") -> bytes:
    told = [*headers, ("Content-Length", str(len(body)))]
    if "host" not in {name.lower() for name, _ in headers}:
        told = [("Host", "localhost"), *told]
    lines = "".join(f"{name}: {value}\r\n" for name, value in told)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@dataclass(frozen=True)
class House:
    """A daemon at a Unix socket."""

    sandbox: Sandbox
    daemon: DaemonProcess
    place: Path
    token: str
    source_token: str
    routes: Sequence[Route]

    def asks(self, method: str, path: str, *headers: tuple[str, str], body: bytes | None = None) -> Answer:
        """The answer to a request, with the body that its route takes unless another is given."""
        sent = self.body_for(path) if body is None and method == "POST" else body or b""
        kind = [] if method != "POST" else [("Content-Type", "application/json")]
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(self.place))
        return talk(line, request_of(method, path, [*kind, *headers], sent))

    def body_for(self, path: str) -> bytes:
        return json.dumps(BODIES.get(path, ITEM)).encode()

    def right(self, path: str) -> list[tuple[str, str]]:
        """What lets a request in at this path."""
        if path == "/api/wake":
            body = self.body_for(path)
            return [*standard_headers(body, BODIES[path]["eventId"]).items()]
        return [("Authorization", f"Bearer {self.source_token if path.startswith('/api/inbox') else self.token}")]

    def calls(self) -> list[tuple[str, str]]:
        """Each method and path that there is."""
        found = []
        for route in self.routes:
            path = route.path
            for name, value in PARAMETERS.items():
                path = path.replace(name, value)
            assert "{" not in path, f"PARAMETERS lacks a value for {route.path}"
            found += [(method, path) for method in sorted(route.methods or ()) if method != "HEAD"]
        return found

    def taken(self) -> tuple[object, ...]:
        """All that a request could have changed."""
        status = self.sandbox.ask("status")
        items = self.sandbox.lines("inbox", "@a", "--floor", "later")
        return status["paused"], items, self.sandbox.deliveries(), self.sandbox.lines("activity", "--limit", "1")


def whole_application(directory: Path, ask: Any = None) -> Application:
    """The application with everything that an address can have."""
    sender = ConfiguredSender("up", frozenset({Identity("@a")}), legacy=False, key=KEY)
    fleet = FleetPage(directory, PageTokens(directory, lambda: Instant(0)), ask, lambda: Instant(0))
    inbox = InboxRoutes(SourceTokens(directory), ask, ask)
    return application(Signatures([sender]), ask, {"127.0.0.1"}, lambda: Instant(0), fleet.routes(), inbox)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...]) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("s")
    with Sandbox(directory, command=program) as sandbox:
        place = sandbox.home / "http.sock"
        sandbox.configure(
            f'{QUICK}[http]\nlisten = "unix:{place}"\n[http.senders.up]\nkey = "{KEY}"\nidentities = ["@a"]\n'
            + "".join(f'[sources.{one}]\nidentities = ["@a"]\n' for one in ("ci", "github", "alertmanager", "a2a"))
        )
        sandbox.config_file.chmod(0o600)
        sandbox.run("init")
        for one in ("@a", "@mine"):
            sandbox.run("agent", "add", one)
        source_token = sandbox.ask("sources", "token", "ci")["token"]
        for one in ("github", "alertmanager", "a2a"):
            sandbox.run("sources", "token", one)
        daemon = sandbox.daemon()
        token = sandbox.ask("open", "--token")["token"]
        known = whole_application(directory).routes
        routes = [one for one in known if isinstance(one, Route)]
        assert len(routes) == len(known)
        yield House(sandbox, daemon, place, token, source_token, routes)


def wrong_credentials(house: House) -> list[list[tuple[str, str]]]:
    """40 that let nobody in: none, shortened, lengthened, of another scheme, of another time, in another place, and two."""
    head, _, signature = house.token.rpartition(".")
    end, _, rest = head.partition(".")
    words = [
        "",
        " ",
        "x",
        "null",
        "a" * 5000,
        "é",
        house.token[:-1],
        f"{house.token}0",
        f"{house.token}.0",
        house.token[1:],
    ]
    words += [f"{head}.", f".{signature}", f"{int(end) + DAY}.{rest}.{signature}", f"{house.token},{house.token}"]
    words += [house.source_token[:-1], f"{house.source_token}x", house.source_token[4:], "wbs_", f"x {house.token}"]
    words += [f"{head}.{signature[:at]}{'0' if signature[at] != '0' else '1'}{signature[at + 1 :]}" for at in range(8)]
    wrong = [[("Authorization", f"Bearer {one}")] for one in words]
    wrong += [
        [("Authorization", f"{scheme} {house.token}")] for scheme in ("Basic", "Token", "Digest", "Bearer:", "Bearer\t")
    ]
    wrong += [
        [],
        [("Cookie", f"wake-bridge-token={house.token}")],
        [("X-Token", house.token)],
        [("X-A2A-Notification-Token", "wbs_x")],
        [("X-Hub-Signature-256", "sha256=" + "0" * 64)],
        [("webhook-id", "x"), ("webhook-timestamp", "0"), ("webhook-signature", "v1,AAAA")],
        [("Proxy-Authorization", f"Bearer {house.token}")],
        [("Authorization", "Bearer x"), ("Authorization", f"Bearer {house.token}")],
    ]
    assert len(wrong) >= 40
    return wrong


ORIGINS = (
    *(
        "null",
        "file://",
        "about:blank",
        "http://evil.example",
        "https://evil.example",
        "http://localhost:3000",
        "x",
        "*",
    ),
    *("https://localhost", "http://localhost.evil.example", "http://evil.localhost", "http://127.0.0.1:1", "localhost"),
    *(
        "http://localhost:80",
        "http://localhost/",
        "http://localhost#",
        "http://localhost?",
        "http://x@localhost",
        "http:",
    ),
    *("HTTP://LOCALHOST", "http://Localhost", "http:localhost", "//localhost", "http://localhost.", "http://[::1]:9"),
    *(
        "ws://localhost",
        "data:text/html,x",
        "javascript:1",
        "chrome-extension://x",
        "moz-extension://x",
        "capacitor://x",
    ),
    *("http://localhost http://localhost", "http://localhost,http://localhost", "http://127.1", "http://2130706433"),
    *("http://0.0.0.0", "http://[::]", "http://local\x7fhost", "blob:http://localhost/x", "http://lôcalhost"),
)
HOSTS = (
    *(
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "evil.localhost",
        "localhost.",
        "localhos",
        "xlocalhost",
    ),
    *("127.0.0.1.evil.example", "127.0.0.1.nip.io", "127.1", "127.0.0.2", "2130706433", "0.0.0.0", "0", "0x7f000001"),
    *(
        "[::]",
        "[::2]",
        "::",
        "[::1",
        "[::1]x",
        "localhost:x",
        "localhost:80:80",
        "localhost:-1",
        "localhost@evil.example",
    ),
    *(
        "evil.example@localhost",
        "http://localhost",
        "localhost/",
        "localhost?x",
        "localhost#x",
        "localhost\\x",
        "*",
        "null",
    ),
    *(
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "a" * 5000,
        "localhost, evil.example",
        "local host",
        ".",
        "lôcalhost",
    ),
)


def test_forty_wrong_credentials_let_nothing_in_and_nothing_out_on_any_route(house: House) -> None:
    """Whatever is not in `OPEN` asks for its own credential first: a new route cannot be forgotten here."""
    before = house.taken()
    closed = [(method, path) for method, path in house.calls() if path not in OPEN]
    assert len(closed) >= 12
    assert {path for _, path in house.calls()} >= OPEN
    for method, path in closed:
        for headers in wrong_credentials(house):
            answer = house.asks(method, path, *headers)
            assert answer.status == 401, (method, path, headers)
            assert set(answer.json) == {"error"}
            assert not any(one in answer.body for one in (b"@a", b"wbs_", house.token.encode())), answer.body
    assert house.taken() == before


@pytest.mark.parametrize(("name", "values"), [("Origin", ORIGINS), ("Host", HOSTS)])
def test_forty_wrong_origins_and_hosts_get_nothing_from_any_route(
    house: House, name: str, values: Sequence[str]
) -> None:
    """Another page, or another name of this host, is refused on every route, also with the right credential."""
    assert len(set(values)) >= 40
    before = house.taken()
    for method, path in house.calls():
        for value in values:
            answer = house.asks(method, path, *house.right(path), (name, value))
            assert answer.status == 403, (method, path, value)
            assert set(answer.json) == {"error"}
    assert house.taken() == before


def test_every_answer_on_every_route_has_the_headers_that_protect_a_browser(house: House) -> None:
    """Also of an unknown path, another method, a refusal, and what is no HTTP: each header once, and never a cookie."""
    paths = [path for _, path in house.calls()]
    methods = ("GET", "POST", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "TRACE", "X")
    answers = [
        house.asks(method, path)
        for path in (*paths, "/nowhere", "/api/", "/page/", "/static/", "/healthz/", "/%2e%2e/")
        for method in methods
    ]
    answers += [house.asks("GET", path, *house.right(path)) for path in paths]
    answers += [house.asks("GET", path, ("Host", "evil.example")) for path in ("/", "/nowhere")]
    token = house.right("/api/act")
    answers += [
        house.asks("GET", "/page/agent/nobody", *token),
        house.asks("GET", "/api/activity?limit=0", *token),
        house.asks("POST", "/api/act", *token, body=b"{" * 5000),
        house.asks("POST", "/api/act", *token, body=b"[]"),
    ]
    for broken in (b"\0\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"):
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(house.place))
        answers.append(talk(line, broken))
    assert {one.status for one in answers} >= {200, 400, 401, 403, 404, 405, 413, 422}
    assert not any(300 <= one.status < 400 for one in answers)
    for answer in answers:
        found = {name: answer.headers.get(name.lower()) for name in HEADERS}
        assert found == {name: [value] for name, value in HEADERS.items()}
        assert "set-cookie" not in answer.headers
        if answer.status >= 400 and answer.body:
            assert answer.headers["content-type"] == ["application/json"]
            assert "error" in answer.json
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "script-src 'self'" in HEADERS["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert (HEADERS["X-Content-Type-Options"], HEADERS["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert HEADERS["Cache-Control"] == "no-store"


def asked_of(directory: Path, ask: Any, client: Callable[[socket.socket, bytes], Any], *paths: str) -> list[Any]:
    """What a client gets from a server of this process, one path after the other, with a token; `ask` stands for the daemon."""

    async def play() -> list[Any]:
        with fresh_ledger(directory):
            listener = Listener(ListenAddress.parse("127.0.0.1:0"), None)
            port = listener.bind().port
            serving = asyncio.create_task(listener.serve(whole_application(directory, ask)))
            token = PageTokens(directory, lambda: Instant(0)).new_token()
            head = [("Host", "127.0.0.1"), ("Authorization", f"Bearer {token}")]
            answers = []
            for path in paths:
                line = socket.create_connection(("127.0.0.1", port), HUNG)
                answers.append(await asyncio.to_thread(client, line, request_of("GET", path, head)))
            # whoever has gone leaves nothing behind that runs on
            left = asyncio.all_tasks() - {serving, asyncio.current_task()}
            assert not left or not (await asyncio.wait(left, timeout=HUNG))[1]
            serving.cancel()
            await asyncio.wait({serving})
            listener.close()
            return answers

    return asyncio.run(play())


def test_a_stream_that_is_quiet_has_a_comment_every_15_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client can tell a quiet feed from a connection that is dead; proxies keep it open."""
    assert page.PING == 15
    monkeypatch.setattr(page, "PING", 0.1)

    async def nobody(*_: object) -> Mapping[str, Any]:
        return {}

    def listens(line: socket.socket, request: bytes) -> list[str]:
        with closing(line), line.makefile("r") as stream:
            line.settimeout(HUNG)
            line.sendall(request)
            return [next(one for one in stream if one.startswith(": ping")) for _ in range(2)]

    (comments,) = asked_of(tmp_path, nobody, listens, "/api/events")
    assert len(comments) == 2


def test_without_agents_the_page_says_how_to_find_some(tmp_path: Path) -> None:
    """There is nothing to filter yet."""

    async def knows_nobody(command: str, _: object) -> Mapping[str, Any]:
        around = {"host": "here", "channels": [], "senders": [], "receivers": [], "hosts": []}
        daemon = {"since": None, "graph_trouble": "", "state_trouble": ""}
        return {"agents": []} if command == "overview" else around | {"daemon": daemon}

    (answer,) = asked_of(tmp_path, knows_nobody, talk, "/page/fleet")
    assert answer.status == 200
    assert b"<code>wake-bridge setup</code> finds them" in answer.body
    assert b'id="filter"' not in answer.body


def test_a_handler_that_fails_is_a_500_with_the_same_headers(tmp_path: Path) -> None:
    """It says nothing of what went wrong, and the server goes on."""

    async def fails(*_: object) -> Any:
        raise ZeroDivisionError("a secret")

    answer, healthy = asked_of(tmp_path, fails, talk, "/page/fleet", "/healthz")
    assert (answer.status, answer.json) == (500, {"error": "wake-bridge has a fault here; its log says more"})
    assert {name: answer.headers[name.lower()] for name in HEADERS} == {name: [one] for name, one in HEADERS.items()}
    assert healthy.status == 200


def test_curl_reads_and_acts_over_the_unix_socket_and_the_page_has_a_port_of_its_own(house: House) -> None:
    """No browser opens a Unix socket: `open` prints a link to this host's loopback; its token counts at both."""
    needs("curl")

    def curl(path: str, *more: str) -> Any:
        through = ["--unix-socket", str(house.place), "-H", f"Authorization: Bearer {house.token}"]
        command = ["curl", "-sS", "--fail-with-body", *through, *more, f"http://localhost{path}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    told = house.sandbox.ask("open")
    assert told["listen"].startswith("http://127.0.0.1:")
    assert (
        "JavaScript"
        in subprocess.run(["curl", "-sS", told["listen"]], capture_output=True, text=True, check=True).stdout
    )

    act = ("-H", "Content-Type: application/json", "-d")
    assert json.loads(curl("/api/act", *act, '{"act": "pause", "identity": "@a", "seconds": 60}'))["said"]
    assert "@a" in {one["agentIdentity"] for one in house.sandbox.ask("status")["paused"]}
    curl("/api/act", *act, '{"act": "resume", "identity": "@a"}')
    entries = json.loads(curl("/api/activity?limit=2"))["entries"]
    assert [one["outcome"] for one in entries] == ["resumed", "paused"]
    assert "@a" in curl("/page/fleet")
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(house.place))
    with closing(line), line.makefile("rb") as stream:
        line.settimeout(HUNG)
        head = [("Authorization", f"Bearer {house.token}"), ("Last-Event-ID", str(entries[1]["id"]))]
        line.sendall(request_of("GET", "/api/events", head))
        assert any(one.strip() == f"id: {entries[0]['id']}".encode() for one in iter(stream.readline, b""))


def test_malformed_requests_to_the_page_and_the_feed_are_refused(house: House) -> None:
    """Hostile ids, cursors, queries, bodies, headers and broken HTTP: no 5xx, and nothing without a token; 100,000 in `make torture`."""
    connect = connections(lambda line: line.connect(str(house.place)), socket.AF_UNIX)
    tried = [try_once(connect, house.token, 17, number) for number in range(60 * len(KINDS))]
    assert [one for _, verdict in tried for one in verdict.violations] == []
    assert house.daemon.entries("http_failed") == []
    assert house.daemon.process.poll() is None


def test_a_listener_that_stops_reading_is_told_what_it_lost_and_the_others_lose_nothing(house: House) -> None:
    """Over a real connection: 256 wait for it, then the oldest are dropped; memory is bounded; `Last-Event-ID` brings all."""
    found = listen_slowly(
        house.sandbox,
        house.daemon.pid,
        house.token,
        connections(lambda line: line.connect(str(house.place)), socket.AF_UNIX),
        slow=2,
        entries=1_000,
        meanwhile=lambda: house.asks("GET", "/page/fleet", *house.right("/page/fleet")).status == 200,
    )
    assert found.violations == []
    assert found.dropped > 0, found
