"""The server over HTTP: one identity, known by a bearer token alone; loopback only."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.names import Identity
from wake_bridge.domain.ownership import Invoker, require_own
from wake_bridge.mcp.callers import token_of
from wake_bridge.mcp.server import ToolServer
from wake_bridge.offline.owner import invoker
from wake_bridge.offline.workplace import Workplace
from wake_bridge.storage.graph.nodes import require_identity

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH: Final = "/mcp"
LOOPBACK: Final = "127.0.0.1"

_LARGEST_BODY: Final = 256 * 1024
_AT_ONCE: Final = 64


class OnlyWithToken:
    """Lets through what carries the token; everything else is answered here.

    Args:
        app: what is behind it.
        token: the token.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        said = Headers(scope=scope).get("authorization", "")
        if scope["type"] != "http" or not hmac.compare_digest(said.encode(), self._expected):
            answer = PlainTextResponse(
                "unauthorized: send the token as `Authorization: Bearer TOKEN`\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


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
    with work.open_graph() as graph:
        require_identity(graph, identity)
    who = Identity(identity)
    require_own(invoker(work), "mcp --http", who, lambda *_: False)
    token, file = token_of(work.places.state_dir, identity)
    told = Invoker("a client over HTTP", 0, frozenset({who}), "it has the token")

    def recognise(desk: Workplace, _: Mapping[str, Any] | None) -> Identity:
        desk.invoker = told
        return who

    tools = ToolServer(work.config_option, foreign=foreign, recognise=recognise, takes_messages=False)
    app = tools.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_LARGEST_BODY,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[f"{LOOPBACK}:*", "localhost:*"],
            allowed_origins=[f"http://{LOOPBACK}:*", "http://localhost:*"],
        ),
    )
    listener = _listen(port)
    announce(
        f"http://{LOOPBACK}:{listener.getsockname()[1]}{PATH} serves {identity} to whoever sends the token in {file}"
    )
    settings = uvicorn.Config(
        OnlyWithToken(app, token),
        log_level="warning",
        access_log=False,
        limit_concurrency=_AT_ONCE,
        timeout_keep_alive=30,
        server_header=False,
    )
    uvicorn.Server(settings).run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as refusal:
        listener.close()
        raise OperationFailed(
            f"the port cannot be used ({refusal.strerror})",
            f"{LOOPBACK}:{port}",
            hint="choose another, or 0 for a free one",
        ) from refusal
    return listener
