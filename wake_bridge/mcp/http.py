"""The server over HTTP: one identity, known by a bearer token alone; loopback only."""

from __future__ import annotations

import asyncio
import hmac
import logging
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from wake_bridge.domain.names import Identity
from wake_bridge.domain.ownership import Invoker, require_own
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.http.listener import Listener
from wake_bridge.mcp.callers import token_of
from wake_bridge.mcp.pushes import ClientPushes
from wake_bridge.mcp.server import ToolServer
from wake_bridge.offline.owner import invoker, is_known
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph.nodes import require_identity

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH: Final = "/mcp"
LOOPBACK: Final = "127.0.0.1"

_OK: Final = 200
_LARGEST_BODY: Final = 256 * 1024

MOST_SESSIONS: Final = 256
"""Sessions of clients of the older protocol era at once; one that is idle for half an hour ends."""


SESSION: Final = "mcp-session-id"
"""The header that names a session of the older protocol era."""


class OnlyWithToken:
    """Lets through what carries the token; everything else is answered here.

    Args:
        app: what is behind it.
        token: the token.
        pushes: are told which sessions have a stream open.
    """

    def __init__(self, app: ASGIApp, token: str, pushes: ClientPushes) -> None:
        self._app = app
        self._pushes = pushes
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        said = Headers(scope=scope).get("authorization", "")
        if scope["type"] != "http" or not hmac.compare_digest(said.encode(), self._expected):
            answer = PlainTextResponse(
                "unauthorized: send the token as `Authorization: Bearer TOKEN`\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await answer(scope, receive, send)
            return
        session = Headers(scope=scope).get(SESSION)
        if scope["method"] == "GET" and session:
            await self._stream(session, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _stream(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """The one stream on which a session hears what it did not ask for."""
        is_open = False

        async def begun(message: Message) -> None:
            nonlocal is_open
            await send(message)
            if message["type"] == "http.response.start" and message["status"] == _OK:
                is_open = True
                self._pushes.opened(session)

        try:
            await self._app(scope, receive, begun)
        finally:
            if is_open:
                self._pushes.closed(session)


def run(work: Workplace, port: int, identity: str, *, foreign: bool, announce: Callable[[str], None]) -> None:
    """Serve one identity over HTTP until the process is told to end.

    Args:
        work: where the command runs.
        port: on 127.0.0.1; 0 for a free one.
        identity: whose tools these are.
        foreign: whether another program's graph may be written.
        announce: is told address and token file.

    Raises:
        NotFound: there is no such identity.
        RefusedForSafety: an agent asks for another's.
        OperationFailed: the port is taken, or the token cannot be kept.
    """
    if not (work.has_no_graph() and is_known(work, identity)):
        with work.open_graph() as graph:
            require_identity(graph, identity)
    who = Identity(identity)
    require_own(invoker(work), "mcp --http", who, lambda *_: False)
    token, file = token_of(work.places.state_dir, identity)
    told = Invoker("a client over HTTP", 0, frozenset({who}), "it has the token")

    def recognise(desk: Workplace, _: Mapping[str, Any] | None) -> Identity:
        desk.invoker = told
        return who

    tools = ToolServer(work.config_option, foreign=foreign, recognise=recognise, over_http=True)
    app = tools.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_LARGEST_BODY,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[f"{LOOPBACK}:*", "localhost:*"],
            allowed_origins=[f"http://{LOOPBACK}:*", "http://localhost:*"],
        ),
    )
    # what a client sends wrongly, or breaks off, is no matter for whoever started us; what our tools meet is
    logging.getLogger("mcp").setLevel(logging.ERROR)
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)
    listener = Listener(ListenAddress(host=LOOPBACK, port=port), None, option="--http", has_streams=True)
    where = listener.bind()
    announce(f"http://{where}{PATH} serves {identity} to whoever sends the token in {file}")
    try:
        asyncio.run(_serve(listener, app, OnlyWithToken(app, token, tools.pushes), tools.pushes))
    finally:
        listener.close()


async def _serve(listener: Listener, app: Starlette, answer: ASGIApp, pushes: ClientPushes) -> None:
    """Answer until SIGTERM."""
    async with app.router.lifespan_context(app):
        serving = asyncio.ensure_future(listener.serve(answer))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        try:
            await asyncio.wait({serving})
        finally:
            await pushes.close()
    if not serving.cancelled():
        await serving
