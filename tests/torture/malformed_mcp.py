"""Malformed requests to the MCP server over HTTP, without its token and with it."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.torture.malformed import (
    ENDED,
    FAILED,
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
from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing import HUNG
from wake_bridge.testing.mcp_entrance import McpEntrance

SESSION: Final = "Mcp-Session-Id"
NEWEST: Final = "2026-07-28"
HOST: Final = b"Host: 127.0.0.1\r\n"
WHOLE: Final = b"Content-Type: application/json\r\n"

ABOUT: Final = (
    "Requests of which nothing may come, over connections of their own: without the token or with another one; with it broken"
    " HTTP, bodies that are no message, wrong lengths, messages of both eras with fields of other kinds, and headers, methods"
    " and sessions that nobody has. *taken*: it is still a message. The process must live, answer no 5xx and keep its memory;"
    " at the end the official client calls a tool, in both eras, also beside a crowd of slow senders."
)


def _asked(body: bytes, headers: Mapping[str, str], method: str = "POST") -> bytes:
    told = {"Host": "127.0.0.1:1", "Content-Length": str(len(body))} | dict(headers)
    lines = "\r\n".join(f"{name}: {value}" for name, value in told.items())
    return f"{method} /mcp HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1", "replace") + body


def _messages() -> list[dict[str, Any]]:
    """Good ones, of both eras."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {
            "experimental": {"neo-wake-substrate": {"version": "1.0", "supportedEvents": ["wake/digest"]}}
        },
        "clientInfo": {"name": "x", "version": "1"},
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    calls = {"name": "check_inbox", "arguments": {"limit": 1}, "_meta": meta}
    listens = {"notifications": {"resourceSubscriptions": ["wake://inbox/@mine"]}, "_meta": meta}
    asked = {
        "initialize": hello,
        "notifications/initialized": {},
        "tools/list": {"_meta": meta},
        "tools/call": calls,
        "resources/read": {"uri": "wake://inbox/@mine", "_meta": meta},
        "resources/subscribe": {"uri": "wake://inbox/@mine"},
        "subscriptions/listen": listens,
        "logging/setLevel": {"level": "info"},
        "server/discover": {"_meta": meta},
    }
    return [{"jsonrpc": "2.0", "id": 1, "method": method, "params": params} for method, params in asked.items()]


@dataclass(frozen=True, slots=True)
class Key:
    """What lets a client in: the token; and a session of the older era that lasts."""

    token: str
    session: str = ""


def _headers(token: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }


def without_token(chance: random.Random, key: Key) -> bytes:
    """A good message of somebody who does not have the token."""
    message, token = chance.choice(_messages()), key.token
    said = chance.choice(
        ["", token, f"Basic {token}", f"bearer {token}", f"Bearer {token}x", f"Bearer {token[:-1]}", "\xff"]
    )
    headers = _headers("") | {"Authorization": said}
    if chance.random() < 0.3:
        del headers["Authorization"]
    return _asked(json.dumps(message).encode(), headers)


def _let_in(make: Callable[[random.Random], bytes]) -> Callable[[random.Random, Key], bytes]:
    """What was made for the other entrance, sent here with the token."""

    def made(chance: random.Random, key: Key) -> bytes:
        told = "".join(f"{name}: {value}\r\n" for name, value in _headers(key.token).items()).encode()
        return make(chance).replace(b"/api/wake", b"/mcp").replace(WHOLE, told).replace(HOST, HOST[:-2] + b":1\r\n")

    return made


def odd_message(chance: random.Random, key: Key) -> bytes:
    """A message of either era with something odd in one of its places."""
    message = chance.choice(_messages())
    places: list[dict[str, Any]] = [message]
    for place in places:
        places += [one for one in place.values() if isinstance(one, dict)]
    place = chance.choice(places)
    name = chance.choice([*place, "new"])
    if chance.random() < 0.3:
        place.pop(name, None)
    else:
        place[name] = chance.choice(ODD)
    headers = _headers(key.token)
    if chance.random() < 0.5:
        headers[SESSION] = key.session
    else:
        headers |= {"MCP-Protocol-Version": NEWEST, "Mcp-Method": str(message.get("method"))[:99]}
    return _asked(json.dumps(message).encode(), headers)


def odd_headers(chance: random.Random, key: Key) -> bytes:
    """A good message with a method, a session, an era or a kind that nobody has."""
    message = chance.choice(_messages())
    headers = _headers(key.token)
    for _ in range(chance.randrange(1, 4)):
        name = chance.choice(
            [
                "MCP-Protocol-Version",
                SESSION,
                "Accept",
                "Content-Type",
                "Last-Event-ID",
                "Origin",
                "Host",
                "Mcp-Method",
            ]
        )
        headers[name] = chance.choice(
            ["", "x" * 5000, "2025-11-25", NEWEST, "*/*", "\xff", "null", "http://evil.example", "0"]
        )
    return _asked(
        json.dumps(message).encode(), headers, chance.choice(["POST", "GET", "DELETE", "PUT", "OPTIONS", "HEAD", "X"])
    )


KINDS: Final[Mapping[str, Callable[[random.Random, Key], bytes]]] = {
    "without the token": without_token,
    "broken HTTP": _let_in(broken_http),
    "a body that is no message": _let_in(broken_body),
    "a wrong length": _let_in(broken_length),
    "a message with something odd in it": odd_message,
    "odd headers": odd_headers,
}

UNFINISHED: Final = ("broken HTTP", "a wrong length")


def _answer_to(port: int, request: bytes, key: Key, *, is_whole: bool = True) -> tuple[str, bytes]:
    """What comes of a request, and the beginning of its answer: a stream is not listened to. A session that began ends."""
    answer = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), HUNG) as connection:
        connection.settimeout(HUNG)
        with suppress(OSError):
            connection.sendall(request)
            if not is_whole:
                connection.shutdown(socket.SHUT_WR)
        while b"\r\n\r\n" not in answer and (chunk := connection.recv(4096)):
            answer += chunk
    head = answer.partition(b"\r\n\r\n")[0]
    status = head.split(b" ", 2)[1:2]
    session = _session_in(head)
    if session not in {"", key.session} and not request.startswith(b"DELETE"):
        _answer_to(port, _asked(b"", _headers(key.token) | {SESSION: session}, "DELETE"), key)
    result = {b"2": TAKEN, b"4": REFUSED}.get(status[0][:1], FAILED) if status else ENDED
    return result, answer


def _session_in(head: bytes) -> str:
    named = (one.partition(b":") for one in head.split(b"\r\n"))
    return next((value.strip().decode() for name, _, value in named if name.lower() == SESSION.lower().encode()), "")


def _key_of(entrance: McpEntrance) -> Key:
    """The token, and a session that has begun."""
    body = json.dumps(_messages()[0]).encode()
    with socket.create_connection(("127.0.0.1", entrance.port), HUNG) as connection:
        connection.sendall(_asked(body, _headers(entrance.token)))
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    return Key(entrance.token, _session_in(answer))


async def _calls(entrance: McpEntrance, mode: Any) -> str:
    async with (
        create_mcp_http_client({"Authorization": f"Bearer {entrance.token}"}) as http,
        Client(streamable_http_client(entrance.url, http_client=http), mode=mode) as client,
    ):
        answer = await client.call_tool("check_inbox", {})
    return REFUSED if answer.is_error else TAKEN


def knock(directory: Path, *, count: int, seed: int) -> Table:
    """Send so many malformed requests to a real server of MCP over HTTP."""
    table = Table(
        "What comes of malformed requests to MCP over HTTP", ABOUT, "request", (REFUSED, ENDED, TAKEN, FAILED), KINDS
    )
    with Sandbox(directory) as box:
        box.configure(QUICK)
        box.run("init")
        box.run("agent", "add", "@mine")
        box.daemon()
        with McpEntrance(box, "@mine") as entrance:
            key = _key_of(entrance)

            def trial(number: int) -> None:
                chance = random.Random(f"{seed}:{number}")
                name = [*KINDS][number % len(KINDS)]
                request = KINDS[name](chance, key)
                result, answer = _answer_to(entrance.port, request, key, is_whole=name not in UNFINISHED)
                told = f"trial {number} was answered with {answer[:200]!r}: {request[:300]!r}"
                is_let_in = name == "without the token" and result not in {REFUSED, ENDED}
                table.add(name, Verdict(result, (told,) if result == FAILED or is_let_in else ()))

            shoot(table, psutil.Process(entrance.process.pid), trial, count, entrance="MCP")
            for mode in ("legacy", "auto"):

                def good(mode: str = mode) -> str:
                    return asyncio.run(_calls(entrance, mode))

                table.demand((said := good()) == TAKEN, "a good client", f"at the end its call was {said} ({mode})")
                said = beside_a_crowd(entrance.port, b"POST /mcp HTTP/1.1\r\nX-Slow: ", good)
                table.demand(said == TAKEN, "a crowd", f"beside slow senders its call was {said} ({mode})")
            table.demand(entrance.process.poll() is None, "the server", "it has ended")
    return table
