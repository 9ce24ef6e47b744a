"""The listener by itself: how long a connection may take, where answers may be streams and where not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.http import listener
from wake_bridge.testing import HUNG

HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n"


async def streams(_: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Answers a whole request with a stream that goes on beyond every limit."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"connection", b"keep-alive")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for _ in range(8):
        await send({"type": "http.response.body", "body": b"tick ", "more_body": True})
        await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"end"})


def answers(monkeypatch: pytest.MonkeyPatch, requests: list[bytes], *, has_streams: bool) -> list[bytes]:
    """What each of some clients is answered, side by side, where 0.4 s is the limit."""
    monkeypatch.setattr(listener, "LONGEST", 0.4)

    def client(port: int, request: bytes) -> bytes:
        found = b""
        with socket.create_connection(("127.0.0.1", port), HUNG) as connection:
            connection.sendall(request)
            try:
                while chunk := connection.recv(4096):
                    found += chunk
            except ConnectionResetError:
                pass
        return found

    async def play() -> list[bytes]:
        here = listener.Listener(ListenAddress.parse("127.0.0.1:0"), None, has_streams=has_streams)
        port = here.bind().port
        serving = asyncio.create_task(here.serve(streams))
        try:
            async with asyncio.timeout(HUNG):
                return await asyncio.gather(*(asyncio.to_thread(client, port, one) for one in requests))
        finally:
            serving.cancel()
            await asyncio.wait({serving})
            here.close()

    return asyncio.run(play())


def test_a_stream_may_last_and_a_request_that_never_ends_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends its body byte by byte is ended; whoever listens is not; after its answer each connection ends."""
    whole, slow = answers(monkeypatch, [HEAD + b"{}", HEAD + b"{"], has_streams=True)
    assert whole.endswith(b"3\r\nend\r\n0\r\n\r\n")
    assert b"connection: close" in whole.lower()
    assert b"keep-alive" not in whole
    assert slow == b""


def test_without_streams_no_connection_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the entrance of signed wakes an answer has its time as well."""
    (cut,) = answers(monkeypatch, [HEAD + b"{}"], has_streams=False)
    assert b"tick" in cut
    assert b"end" not in cut


def test_who_listens_and_does_not_read_any_more_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its stream is given up, what is left of it has its time to leave; then the connection ends, read or not."""
    monkeypatch.setattr(listener, "LONGEST", 0.2)
    given_up = asyncio.Event()

    async def gives_up(scope: Any, _: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        scope["state"][listener.STAY]()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with suppress(TimeoutError):
            async with asyncio.timeout(HUNG):
                while True:
                    # what cannot leave holds the next one up
                    async with asyncio.timeout(0.3):
                        await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
        given_up.set()

    async def play() -> None:
        here = listener.Listener(ListenAddress.parse("127.0.0.1:0"), None)
        port = here.bind().port
        serving = asyncio.create_task(here.serve(gives_up))
        with socket.create_connection(("127.0.0.1", port), HUNG) as client:
            client.sendall(HEAD + b"{}")
            async with asyncio.timeout(HUNG):
                await given_up.wait()
                (guest,) = here._guests
                await guest.over
            assert not here._guests
        serving.cancel()
        await asyncio.wait({serving})
        here.close()

    asyncio.run(play())
