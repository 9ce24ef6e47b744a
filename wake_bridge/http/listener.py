"""Limits connections: how many there may be, and how long each may take; uvicorn has no such limit.

It also gives every answer the headers that protect a browser, whoever made the answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.system.files import PRIVATE_FILE

MOST_CONNECTIONS: Final = 64
"""Connections at once. One more ends the oldest that has not sent its headers yet, else the oldest that has not sent its body
yet, else itself."""

HEAD_TIME: Final = 5.0
"""Seconds from the connection to the end of its headers, TLS included."""

LONGEST: Final = 30.0
"""Seconds that a connection may last, whatever happens on it, unless it was let become a stream; where all answers may be
streams, until its request is whole. It is also the time in which the rest of an answer must leave: whoever does not read keeps
no place."""

STAY: Final = "stay"
"""In the state of a request: call it to let its connection last."""

_ANSWERED: Final = "answered"
"""In the state of a request: called when its answer is made."""

MOST_HEAD: Final = 16 * 1024
"""Bytes of a request's line and headers."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}
"""What every answer says. Nothing in it runs, stands in a frame or is kept; and no connection, which could be kept busy, goes on."""

_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

REFUSED_FOR: Final = 0.2
"""Seconds to wait when the system has no descriptor left for a connection."""


class _Connection(H11Protocol):
    """One connection: a request, an answer, the end."""

    def __init__(self, config: Config, state: ServerState, guest: _Guest) -> None:
        super().__init__(config=config, server_state=state, app_state={STAY: guest.stay, _ANSWERED: guest.is_answered})
        self._over = guest.is_over

    @property
    def has_head(self) -> bool:
        """Whether the headers of its request are there."""
        return self.cycle is not None

    @property
    def has_request(self) -> bool:
        """Whether its request is there to the last byte."""
        return self.has_head and not self.cycle.more_body

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless an answer is under way already; then end."""
        if not (self.has_head and self.cycle.response_started):
            body = json.dumps({"error": msg}).encode()
            told = [*_HEADERS, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            head = b"".join(b"%s: %s\r\n" % one for one in told)
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%s\r\n%s" % (head, body))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self._over()


class _Guest:
    """A connection from its acceptance to its end, TLS handshake included."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket) -> None:
        self.connected = connected
        self.connection: _Connection | None = None
        self.has_begun = False
        self.is_stream = False
        self.work: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.over = loop.create_future()

    def stay(self) -> None:
        """Let it last: it is a stream, whose end is its client's business."""
        self.is_stream = True
        for timer in self.timers:
            timer.cancel()

    def is_answered(self) -> None:
        """Nothing more is written to it; what was written may leave."""
        if not self.over.done():
            self.timers.append(asyncio.get_running_loop().call_later(LONGEST, self.end))

    @property
    def owes_its_head(self) -> bool:
        return self.connection is None or not self.connection.has_head

    @property
    def owes_its_request(self) -> bool:
        return self.connection is None or not self.connection.has_request

    def end(self) -> None:
        """Close it, whatever is going on."""
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
            return
        if self.work is not None:
            self.work.cancel()
        if not self.has_begun:
            # what is cancelled before its first step runs nothing that would close it; later its transport does
            self.connected.close()
            self.is_over()

    def is_over(self) -> None:
        """It has ended by itself."""
        for timer in self.timers:
            timer.cancel()
        if not self.over.done():
            self.over.set_result(None)


class Listener:
    """Takes connections on a socket and has their requests answered, one on each.

    Args:
        where: the address.
        tls: what TLS is done with; None without TLS.
        option: where the address was chosen, for a person.
        has_streams: whether an answer may go on as long as its client listens.
    """

    def __init__(
        self,
        where: ListenAddress,
        tls: ssl.SSLContext | None,
        *,
        option: str = "[http] listen",
        has_streams: bool = False,
    ) -> None:
        self._where = where
        self._tls = tls
        self._option = option
        self._has_streams = has_streams
        self._socket: socket.socket | None = None
        self._guests: dict[_Guest, None] = {}

    def bind(self) -> ListenAddress:
        """Take the address; answers it with the port that was chosen. Raises `OperationFailed`."""
        try:
            self._socket = _unix(Path(self._where.path)) if self._where.path else _internet(self._where)
        except OSError as refusal:
            raise OperationFailed(
                f"the HTTP listener cannot start ({refusal.strerror or refusal})",
                str(self._where),
                hint=f"find the program that uses this address, or choose another one for {self._option}",
            ) from refusal
        if self._where.path:
            return self._where
        return ListenAddress(host=self._where.host, port=self._socket.getsockname()[1])

    def close(self) -> None:
        """Give the address up."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        if self._where.path:
            with suppress(OSError):
                os.unlink(self._where.path)  # noqa: PTH108 - no link is followed

    async def serve(self, answer: ASGIApp) -> None:
        """Take connections until cancelled; those that are there then may end."""
        config = Config(
            _with_headers(answer),
            loop="none",
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MOST_HEAD,
        )
        # what a stranger sends wrongly is no matter for our log
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        if self._socket is None:
            raise AssertionError("bound before")
        self._socket.setblocking(False)  # noqa: FBT003 - its signature
        try:
            while True:
                try:
                    connected, _ = await loop.sock_accept(self._socket)
                except OSError:
                    await asyncio.sleep(REFUSED_FOR)
                    continue
                self._welcome(connected, config, state)
                # many that are waiting are accepted without a pause
                await asyncio.sleep(0)
        finally:
            if ending := [one.over for one in self._guests if not one.is_stream]:
                await asyncio.wait(ending, timeout=1)
            for guest in [*self._guests]:
                guest.end()

    def _welcome(self, connected: socket.socket, config: Config, state: ServerState) -> None:
        loop = asyncio.get_running_loop()
        if len(self._guests) >= MOST_CONNECTIONS:
            owing = (one for one in self._guests if one.owes_its_request)
            slow = next((one for one in self._guests if one.owes_its_head), None) or next(owing, None)
            if slow is None:
                connected.close()
                return
            self._forget(slow)
            slow.end()
        guest = _Guest(loop, connected)
        self._guests[guest] = None
        guest.over.add_done_callback(lambda _: self._forget(guest))
        guest.timers = [
            loop.call_later(HEAD_TIME, lambda: guest.end() if guest.owes_its_head else None),
            loop.call_later(LONGEST, lambda: guest.end() if guest.owes_its_request or not self._has_streams else None),
        ]
        guest.work = loop.create_task(self._connect(guest, config, state))

    def _forget(self, guest: _Guest) -> None:
        self._guests.pop(guest, None)

    async def _connect(self, guest: _Guest, config: Config, state: ServerState) -> None:
        def made() -> _Connection:
            guest.connection = _Connection(config, state, guest)
            return guest.connection

        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {"ssl": self._tls, "ssl_handshake_timeout": HEAD_TIME, "ssl_shutdown_timeout": 1.0}
        guest.has_begun = True
        is_connected = False
        try:
            await asyncio.get_running_loop().connect_accepted_socket(made, guest.connected, **options)
            is_connected = True
        except (OSError, ssl.SSLError, TimeoutError):
            return
        finally:
            if not is_connected:
                guest.connected.close()
                guest.is_over()


def _with_headers(answer: ASGIApp) -> ASGIApp:
    """Gives each answer the headers that all have; its own ones of these names do not count."""
    names = {name for name, _ in _HEADERS}

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [one for one in message.get("headers", ()) if one[0].lower() not in names]
                message = {**message, "headers": [*own, *_HEADERS]}
            await send(message)

        try:
            await answer(scope, receive, send_more)
        finally:
            scope["state"][_ANSWERED]()

    return answered


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What TLS is done with. Raises `OperationFailed`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as wrong:
        raise OperationFailed(
            f"certificate and key cannot be used ({wrong})",
            str(certificate),
            hint="check [http] tls_certificate_file and tls_key_file: they must be two PEM files that belong together",
        ) from wrong
    return context


def _internet(where: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((where.host, where.port))
        made.listen(MOST_CONNECTIONS)
    except OSError:
        made.close()
        raise
    return made


def _unix(path: Path) -> socket.socket:
    """A socket of our own; one that a former daemon left is taken away, nothing else."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError("something else lies there")
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(PRIVATE_FILE)
        made.listen(MOST_CONNECTIONS)
    except OSError:
        made.close()
        raise
    return made
