"""Malformed requests to the page and the feed, without a token and with one; then clients that are slow in every way."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil

from tests.torture.malformed import (
    CROWD,
    ENDED,
    FAILED,
    GROWS_BY,
    ODD,
    REFUSED,
    TAKEN,
    beside_a_crowd,
    broken_body,
    broken_http,
    broken_length,
    shoot,
)
from tests.torture.report import Table, Verdict
from tests.torture.slow_listeners import Connect, connections, listen_slowly
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.http.feed import MOST_SUBSCRIBERS
from wake_bridge.testing.hostile import HAZARDS

ABOUT: Final = (
    "Requests of which nothing may come, over connections of their own: without the token or with another one; with it broken"
    " HTTP, bodies that are no act, wrong lengths, acts with fields of other kinds, and ids, cursors, queries, headers and"
    " methods that nobody has. *taken*: it is still a question, or an act. The daemon must live, answer no 5xx and keep its"
    " memory. Then crowds that send headers or bodies too slowly, and listeners that stop reading while the feed grows: others"
    " are answered, a listener that reads gets every entry once, and one that reads again is told how many were dropped."
)

VIEWS: Final = ("/page/fleet", "/page/agent/@mine", "/page/wake/x", "/api/activity", "/api/events", "/api/act")
ACT: Final[Mapping[str, Any]] = {
    "act": "pause",
    "identity": "@mine",
    "seconds": 60,
    "delivery": "01K9Z3NDEKTSV4RRFFQ69G5FAV",
    "looked": True,
    "code": "x" * 43,
}
ACTS: Final = ("pause", "resume", "ack", "retry", "look", "type", None, ["pause"], "\ud800", "x" * 3000)
WHOLE: Final = b"Content-Type: application/json\r\n"

_HOST: Final = "127.0.0.1"


def _asked(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    told = {"Host": _HOST, "Content-Type": "application/json", "Content-Length": str(len(body))} | dict(headers)
    lines = "\r\n".join(f"{name}: {value}" for name, value in told.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1", "replace") + body


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def by_nobody(chance: random.Random, token: str) -> bytes:
    """A good question or act of somebody who has no token."""
    wrong = chance.choice(
        ["", "x", token[:-1], f"{token}0", token[1:], "\xff", "x" * 9000, token.replace(".", "..", 1)]
    )
    headers = _bearer(wrong) if chance.random() < 0.8 else {"Cookie": f"token={token}"}
    path = chance.choice([*VIEWS, "/api/session"])
    if path in {"/api/act", "/api/session"}:
        return _asked("POST", path, headers, json.dumps(ACT).encode())
    return _asked("GET", path, headers)


def _let_in(make: Callable[[random.Random], bytes]) -> Callable[[random.Random, str], bytes]:
    """What was made for the entrance of wakes, sent with the token to a path of the page."""

    def made(chance: random.Random, token: str) -> bytes:
        path = chance.choice(["/api/act", "/api/act", "/api/session", *VIEWS]).encode()
        told = WHOLE + f"Authorization: Bearer {token}\r\n".encode()
        return make(chance).replace(b"/api/wake", path).replace(WHOLE, told)

    return made


def odd_act(chance: random.Random, token: str) -> bytes:
    """An act with something odd in it."""
    act = dict(ACT) | {"act": chance.choice(ACTS)}
    for _ in range(chance.randrange(3)):
        act[chance.choice([*act, "new"])] = chance.choice([*ODD, *HAZARDS])
    for _ in range(chance.randrange(3)):
        act.pop(chance.choice([*ACT]), None)
    return _asked("POST", chance.choice(["/api/act", "/api/session"]), _bearer(token), json.dumps(act).encode())


def _odd_text(chance: random.Random) -> str:
    text = chance.choice(
        [
            chance.choice(HAZARDS),
            str(chance.choice(ODD)),
            "../" * chance.randrange(1, 30),
            "@mine" + chance.choice(HAZARDS),
            "-" * chance.randrange(40) + "9" * chance.randrange(30),
            "<script>alert(1)</script>",
            "' OR 1=1 --",
            "{{7*7}}${7*7}%s%n",
            "\x00",
            "%",
        ]
    )
    return chance.choice([quote(text, errors="surrogatepass"), quote(text, safe="", errors="surrogatepass")])


def odd_address(chance: random.Random, token: str) -> bytes:
    """An id, a cursor or a query that nobody has."""
    odd = _odd_text(chance)
    path = chance.choice(
        [
            f"/page/agent/{odd}",
            f"/page/wake/{odd}",
            f"/page/{odd}",
            f"/static/{odd}",
            f"/{odd}",
            *(f"/api/activity?{name}={odd}" for name in ("after", "before", "limit", "agent", odd)),
            f"/api/activity?after=0&after={odd}&limit=500",
            f"/api/events?after={odd}",
        ]
    )
    return _asked(chance.choice(["GET", "GET", "HEAD"]), path, _bearer(token))


def odd_headers(chance: random.Random, token: str) -> bytes:
    """A good question with a method or headers that nobody has."""
    headers = _bearer(token)
    for _ in range(chance.randrange(1, 4)):
        name = chance.choice(
            [
                "Last-Event-ID",
                "Last-Event-ID",
                "Accept",
                "Content-Type",
                "Origin",
                "Host",
                "Sec-Fetch-Site",
                "Range",
                "Cookie",
            ]
        )
        headers[name] = chance.choice(
            ["", "x" * 5000, "-1", "9" * 19, "0", "1", "\xff", "null", "http://evil.example", "*/*"]
        )
    method = chance.choice(["GET", "GET", "GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD", "TRACE", "X"])
    return _asked(method, chance.choice(VIEWS), headers, chance.choice([b"", b"{}"]))


KINDS: Final[Mapping[str, Callable[[random.Random, str], bytes]]] = {
    "without the token": by_nobody,
    "broken HTTP": _let_in(broken_http),
    "a body that is no act": _let_in(broken_body),
    "a wrong length": _let_in(broken_length),
    "an act with something odd in it": odd_act,
    "an id, a cursor or a query that nobody has": odd_address,
    "odd headers and methods": odd_headers,
}

UNFINISHED: Final = ("broken HTTP", "a wrong length")


def _answer_to(connect: Connect, request: bytes, *, is_whole: bool = True) -> tuple[str, bytes]:
    """What comes of a request, and the beginning of its answer: a stream is left at once."""
    answer = b""
    with suppress(OSError), connect() as connection:
        with suppress(OSError):
            connection.sendall(request)
            if not is_whole:
                connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(4096):
            answer += chunk
            if b"\r\n\r\n" in answer and b"text/event-stream" in answer:
                break
    status = answer.split(b" ", 2)[1:2]
    return {b"2": TAKEN, b"4": REFUSED}.get(status[0][:1], FAILED) if status else ENDED, answer


def try_once(connect: Connect, token: str, seed: int, number: int) -> tuple[str, Verdict]:
    """One malformed request: of which kind, and what came of it."""
    chance = random.Random(f"{seed}:{number}")
    name = [*KINDS][number % len(KINDS)]
    request = KINDS[name](chance, token)
    result, answer = _answer_to(connect, request, is_whole=name not in UNFINISHED)
    # whoever has no token may load what tells nothing, and nothing else
    is_let_in = name == "without the token" and result not in {REFUSED, ENDED}
    wrong = f"trial {number} was answered with {answer[:200]!r}: {request[:300]!r}"
    return name, Verdict(result, (wrong,) if result == FAILED or is_let_in else ())


def knock(directory: Path, *, count: int, seed: int) -> Table:
    """Send so many malformed requests to a real daemon, then be slow."""
    table = Table(
        "What comes of malformed requests to the page", ABOUT, "request", (REFUSED, ENDED, TAKEN, FAILED), KINDS
    )
    with Sandbox(directory) as box:
        box.configure(QUICK)
        box.run("init")
        box.run("agent", "add", "@mine")
        daemon = box.daemon()
        told = box.ask("open", "--token")
        port, token = int(told["listen"].rstrip("/").rpartition(":")[2]), str(told["token"])

        connect = connections(lambda line: line.connect((_HOST, port)))

        def trial(number: int) -> None:
            table.add(*try_once(connect, token, seed, number))

        def good() -> str:
            return _answer_to(connect, _asked("GET", "/page/fleet", _bearer(token)))[0]

        process = psutil.Process(daemon.pid)
        shoot(table, process, trial, count, entrance="the page")
        table.demand((said := good()) == TAKEN, "the fleet", f"at the end the fleet was {said}")
        before = process.memory_info().rss
        begun = b"GET /page/fleet HTTP/1.1\r\nX-Slow: "
        said = beside_a_crowd(port, begun, good)
        table.demand(said == TAKEN, "a crowd", f"beside {CROWD} slow senders of headers the fleet was {said}")
        for path in ("/api/act", "/api/session"):
            begun = _asked("POST", path, _bearer(token) | {"Content-Length": "4000"}, b"{")
            said = beside_a_crowd(port, begun, good)
            table.demand(
                said == TAKEN, "a crowd", f"beside {CROWD} slow senders of bodies to {path} the fleet was {said}"
            )
        found = listen_slowly(
            box,
            daemon.pid,
            token,
            connect,
            slow=MOST_SUBSCRIBERS - 2,
            # the system keeps some megabytes for each connection that is not read
            entries=max(count // 5, 12_000),
            meanwhile=lambda: good() == TAKEN,
        )
        table.violations += [f"slow listeners: {one}" for one in found.violations]
        grown = process.memory_info().rss - before
        table.measures["beside slow clients the page grew by"] = f"{grown / 2**20:.1f} MB"
        table.measures["entries that a slow listener lost, and was told of"] = str(found.dropped)
        table.demand(grown < GROWS_BY, "memory", f"beside slow clients the process grew by {grown} bytes")
        table.demand((said := good()) == TAKEN, "the fleet", f"after slow clients the fleet was {said}")
        table.demand(daemon.process.poll() is None, "the daemon", "it has ended")
        table.demand(not daemon.entries("job_fell"), "the daemon", "a job fell")
        table.demand(not (faults := daemon.entries("http_failed")), "the daemon", f"it has a fault: {faults[:1]}")
    return table
