"""Malformed requests at the entrance of signed wakes and items, and what the other entrances' requests are made of.

Judged are the answers, the process (does it live, how does its memory grow), and a good request that must be taken at the end,
also beside a crowd that sends its headers too slowly.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from tests.torture.report import Table, Verdict
from wake_bridge.config.source_tokens import TOKENS_FILE
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.system.files import make_private_directory
from wake_bridge.testing import HUNG
from wake_bridge.testing.wake_entrance import KEY, message_wake, neo_headers, standard_headers

AT_ONCE: Final = 8
GROWS_BY: Final = 24 * 1024 * 1024
"""Bytes that the daemon may grow by after its first tenth of the requests, logs and the ledger's cache included."""

REFUSED: Final = "refused"
TAKEN: Final = "taken"
ENDED: Final = "connection ended"
FAILED: Final = "5xx"

CONFIGURATION: Final = f"""{QUICK}
[http]
listen = "127.0.0.1:0"
[http.senders.up]
key = "{KEY}"
identities = ["@far"]
[targets."@far"]
pane = "nobody"
"""

ABOUT: Final = (
    "Requests of which nothing may come, over connections of their own: broken HTTP, bodies that are no JSON or another one,"
    " wrong lengths, stripped and false signatures, and signed bodies with fields of other kinds. *taken*: a signed body that"
    " is still a wake, or an item. The daemon must live, answer no 5xx, keep its memory, and take a good wake and a good item at the end."
)


def _head(body: bytes, headers: Mapping[str, str], length: int | None = None, path: str = "/api/wake") -> bytes:
    told = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if length is None else length),
    }
    lines = [f"{name}: {value}" for name, value in (told | dict(headers)).items()]
    return (f"POST {path} HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + body


def _signed(body: bytes, event_id: str) -> dict[str, str]:
    with suppress(UnicodeDecodeError):
        return standard_headers(body, event_id)
    return {"webhook-id": event_id, "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}


ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    10**40,
    1.5,
    "",
    "x" * 5000,
    [],
    {},
    [[[]]],
    "\ud800",
    "\0",
    "@",
    "é" * 99,
)


def _spoiled(chance: random.Random) -> dict[str, Any]:
    """A wake with something odd in one of its places."""
    wake = message_wake()
    place: dict[str, Any] = chance.choice([wake, wake["payload"]])
    name = chance.choice([*place, "new"])
    if chance.random() < 0.3:
        place.pop(name, None)
    else:
        place[name] = chance.choice(ODD)
    return wake


def broken_http(chance: random.Random) -> bytes:
    """Bytes that are no request, or half of one."""
    whole = _head(b"{}", {"X": "y" * chance.choice([1, 100, 20_000])})
    cut = whole[: chance.randrange(len(whole))]
    return chance.choice(
        [
            chance.randbytes(chance.randrange(1, 3000)),
            cut + b"\r\n\r\n",
            whole.replace(b"HTTP/1.1", b"HTTP/9.9"),
            whole.replace(b"\r\n", b"\n", 2),
            b"GET " + b"/" * chance.randrange(1, 30_000) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"POST /api/wake HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chance.randbytes(50),
            whole.replace(b"Host: 127.0.0.1", b"Host: " + chance.randbytes(9).hex().encode()),
        ]
    )


def broken_body(chance: random.Random) -> bytes:
    """A request whose body is no wake."""
    body = chance.choice(
        [
            chance.randbytes(chance.randrange(0, 5000)),
            b"[" * chance.randrange(1, 50_000),
            b'{"a":' * 5000,
            json.dumps(chance.choice(ODD)).encode(),
            b"{" + b'"a":1,' * 9000 + b'"b":1}',
        ]
    )
    return _head(body, _signed(body, "x") if chance.random() < 0.5 else {})


def broken_length(chance: random.Random) -> bytes:
    """A request with another length than it says, or far too long."""
    body = json.dumps(message_wake()).encode()
    length = chance.choice([0, 1, len(body) - 1, len(body) + 1, 10**9, -1])
    return _head(body + b"x" * chance.choice([0, 70_000]), {}, length)


def broken_signature(chance: random.Random) -> bytes:
    """A good wake with a signature that does not hold."""
    wake = message_wake()
    body = json.dumps(wake).encode()
    headers = _signed(body, wake["eventId"]) | neo_headers(body, wake)
    name = chance.choice([*headers])
    headers[name] = chance.choice(["", "v1,", "v1", "x" * 9000, headers[name][:-1], "nan", "-1", "1e400", "\xff"])
    return _head(body, headers)


def signed_nonsense(chance: random.Random) -> bytes:
    """A body that is signed, and has something odd in it."""
    wake = _spoiled(chance)
    body = json.dumps(wake).encode()
    return _head(body, _signed(body, str(wake.get("eventId", "x")).encode("ascii", "replace").decode()))


_PATHS: Final = ("", "", "", "/github", "/alertmanager", "/a2a")
_ITEM: Final[Mapping[str, Any]] = {
    "identity": "@far",
    "text": "built",
    "mode": "passive",
    "tier": "next",
    "priority": "low",
    "key": "k",
    "state": "open",
    "metadata": {"a": 1},
}


def item_by_nobody(chance: random.Random) -> bytes:
    """A good item, or a foreign body, with a token or a signature that is none."""
    token = chance.choice(
        ["", "x", "wbs_", "wbs_" + "A" * 43, "\xff", "x" * 9000, TOKEN[:-1], TOKEN + "A", TOKEN.lower()]
    )
    scheme = chance.choice(["Bearer ", "bearer ", "Basic ", "", "Bearer Bearer "])
    name = chance.choice(["Authorization", "Authorization", "X-Hub-Signature-256", "X-A2A-Notification-Token"])
    body = json.dumps(_ITEM).encode()
    return _head(body, {name: scheme + token}, path=f"/api/inbox{chance.choice(_PATHS)}")


def odd_item(chance: random.Random) -> bytes:
    """An item by the right token with something odd in it, or a body that is none."""
    item = dict(_ITEM)
    item[chance.choice([*item, "new"])] = chance.choice(ODD)
    spoiled = [
        json.dumps(item).encode(),
        chance.randbytes(chance.randrange(0, 3000)),
        b"[" * chance.randrange(1, 50_000),
    ]
    body = chance.choice(spoiled)
    return _head(body, {"Authorization": f"Bearer {TOKEN}"}, path=f"/api/inbox{chance.choice(_PATHS)}")


TOKEN: Final = "wbs_0123456789abcdefghijABCDEFGHIJ0123456789abc"
"""The token of the source ci, and of no other."""

KINDS: Final[Mapping[str, Callable[[random.Random], bytes]]] = {
    "broken HTTP": broken_http,
    "a body that is no wake": broken_body,
    "a wrong length": broken_length,
    "a signature that does not hold": broken_signature,
    "a signed body with something odd in it": signed_nonsense,
    "an item by nobody": item_by_nobody,
    "an item with something odd in it": odd_item,
}


UNFINISHED: Final = ("broken HTTP", "a wrong length")
"""Requests that may have no end: their sender says that nothing more comes, so that nobody waits for it."""


def answer_to(port: int, request: bytes, *, is_whole: bool = True) -> str:
    """What comes of a request."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), HUNG) as connection:
        connection.settimeout(HUNG)
        with suppress(OSError):
            connection.sendall(request)
            if not is_whole:
                connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(OSError):
            while chunk := connection.recv(4096):
                answer += chunk
        status = answer.split(b" ", 2)[1:2]
        if status:
            return {b"2": TAKEN, b"4": REFUSED}.get(status[0][:1], FAILED)
    return ENDED


CROWD: Final = 80
"""Connections of slow senders: more than there may be at once."""


def shoot(table: Table, process: psutil.Process, trial: Callable[[int], None], count: int, *, entrance: str) -> None:
    """Have so many trials, some at a time; the process must not grow after the first tenth."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first = count // 10
        [*pool.map(trial, range(first))]
        before = process.memory_info().rss
        [*pool.map(trial, range(first, count))]
    grown = process.memory_info().rss - before
    table.measures[f"{entrance} grew by"] = f"{grown / 1024 / 1024:.1f} MB"
    table.demand(grown < GROWS_BY, "memory", f"the process grew by {grown} bytes")


def beside_a_crowd(port: int, begun: bytes, ask: Callable[[], str]) -> str:
    """What a good request is answered while a crowd of others never ends its headers."""
    with ExitStack() as crowd:
        for _ in range(CROWD):
            with suppress(OSError):
                crowd.enter_context(socket.create_connection(("127.0.0.1", port), HUNG)).sendall(begun)
        return ask()


def knock(directory: Path, *, count: int, seed: int) -> Table:
    """Send so many malformed requests to a real daemon."""
    table = Table("What comes of malformed requests", ABOUT, "request", (REFUSED, ENDED, TAKEN, FAILED), KINDS)
    with Sandbox(directory) as box:
        box.configure(CONFIGURATION)
        box.config_file.chmod(0o600)
        make_private_directory(box.state_dir)
        tokens = box.state_dir / TOKENS_FILE
        tokens.write_text(json.dumps({"ci": TOKEN}))
        tokens.chmod(0o600)
        daemon = box.daemon(command="serve")
        port = int(daemon.waits_for_log("http_listening")[0]["where"].rpartition(":")[2])

        def trial(number: int) -> None:
            chance = random.Random(f"{seed}:{number}")
            name = [*KINDS][number % len(KINDS)]
            result = answer_to(port, KINDS[name](chance), is_whole=name not in UNFINISHED)
            violations = (f"trial {number} was answered with 5xx",) if result == FAILED else ()
            table.add(name, Verdict(result, violations))

        def good() -> str:
            wake = message_wake()
            body = json.dumps(wake).encode()
            return answer_to(port, _head(body, standard_headers(body, wake["eventId"]) | neo_headers(body, wake)))

        def good_item() -> str:
            body = json.dumps(dict(_ITEM) | {"text": f"built {time.time()}"}).encode()
            return answer_to(port, _head(body, {"Authorization": f"Bearer {TOKEN}"}, path="/api/inbox"))

        shoot(table, psutil.Process(daemon.pid), trial, count, entrance="signed wakes and items")
        table.demand((answer := good()) == TAKEN, "a good wake", f"at the end a good wake was {answer}")
        table.demand((answer := good_item()) == TAKEN, "a good item", f"at the end a good item was {answer}")
        answer = beside_a_crowd(port, b"POST /api/inbox HTTP/1.1\r\nX-Slow: ", good_item)
        table.demand(answer == TAKEN, "a crowd", f"beside {CROWD} slow senders a good item was {answer}")
        answer = beside_a_crowd(port, b"POST /api/wake HTTP/1.1\r\nX-Slow: ", good)
        table.demand(answer == TAKEN, "a crowd", f"beside {CROWD} slow senders a good wake was {answer}")
        table.demand(daemon.process.poll() is None, "the daemon", "it has ended")
        table.demand(not daemon.entries("job_fell"), "the daemon", "a job fell")
    return table
