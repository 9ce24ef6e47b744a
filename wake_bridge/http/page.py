"""The fleet page: its routes. Nobody is told anything without a token, and no act types anything anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from wake_bridge.control.last_look import last_look, note_look
from wake_bridge.domain.errors import LedgerError, NotFound, RefusedForSafety, WakeBridgeError
from wake_bridge.domain.names import Identity, Instant, is_identity
from wake_bridge.engine.tail.entrance import RequestRefused
from wake_bridge.http.feed import Feed
from wake_bridge.http.listener import STAY
from wake_bridge.http.requests import json_body_of
from wake_bridge.http.tokens import PageTokens
from wake_bridge.http.views import Ask, Views
from wake_bridge.records import activity_record
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.database import identity_of
from wake_bridge.storage.ledger.ledger_file import FILE_NAME

MOST_BYTES: Final = 4096
"""Bytes of a request's body: an act is a few words."""

BODY_TIME: Final = 5.0
"""Seconds for the body."""

MOST_DIGITS: Final = 18
"""Of an id: SQLite holds no longer one."""

MOST_ENTRIES: Final = 500
ENTRIES: Final = 50

PING: Final = 15
"""Seconds between two comments on a stream."""

READ_WITHIN: Final = 30.0
"""Seconds that a client may take to read one event, before it is hung up on."""

_STATIC: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_STATUS: Final[Mapping[type[WakeBridgeError], int]] = {NotFound: 404, RefusedForSafety: 409, LedgerError: 409}

Answer = Callable[[Request], Awaitable[Response]]


class FleetPage:
    """Answers the requests of the page, and of programs that have a token.

    Used on the server's thread.

    Args:
        state_dir: where the ledger lies, and when a person looked last.
        tokens: know who may ask.
        ask: the daemon.
        wall: the wall clock.
    """

    def __init__(self, state_dir: Path, tokens: PageTokens, ask: Ask, wall: Callable[[], Instant]) -> None:
        self._state_dir = state_dir
        self._tokens = tokens
        self._ask = ask
        self._wall = wall
        self._reader: tuple[str, LedgerStore] | None = None
        self._views = Views(self._ledger, ask, state_dir, wall)
        self._feed = Feed(self._ledger, self._presences, lambda: last_look(state_dir))

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/", self._shell, methods=["GET"]),
            *(Route(f"/static/{name}", _static(name, kind), methods=["GET"]) for name, kind in _STATIC.items()),
            Route("/api/session", self._session, methods=["POST"]),
            Route("/api/activity", self._guarded(self._activity), methods=["GET"]),
            Route("/api/events", self._guarded(self._events), methods=["GET"]),
            Route("/api/act", self._guarded(self._act), methods=["POST"]),
            Route("/page/fleet", self._guarded(self._fleet), methods=["GET"]),
            Route("/page/agent/{identity}", self._guarded(self._agent), methods=["GET"]),
            Route("/page/wake/{delivery}", self._guarded(self._wake), methods=["GET"]),
        ]

    def close(self) -> None:
        """Give up the ledger."""
        if self._reader is not None:
            self._reader[1].close()
            self._reader = None

    def _ledger(self) -> LedgerStore:
        """The ledger that lies there now, opened by this thread."""
        lies_there = identity_of(str(self._state_dir / FILE_NAME))
        if self._reader is None or self._reader[0] != lies_there:
            self.close()
            self._reader = lies_there, LedgerStore.open(self._state_dir, read_only=True)
        return self._reader[1]

    async def _presences(self) -> Mapping[str, Mapping[str, Any]]:
        with suppress(TimeoutError, WakeBridgeError):
            return dict(await self._ask("presences", {}))
        return {}

    def _guarded(self, answer: Answer) -> Answer:
        """Asks for a token first, and says in words what went wrong."""

        async def guarded(request: Request) -> Response:
            if not self._tokens.is_valid(_token_of(request)):
                return said(401, "no valid token: `wake-bridge open` makes one")
            try:
                return await answer(request)
            except RequestRefused as wrong:
                return said(wrong.status, wrong.error)
            except WakeBridgeError as error:
                status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
                return said(status, error.what, error.hint)
            except TimeoutError:
                return said(503, "the daemon is busy")

        return guarded

    async def _shell(self, _: Request) -> Response:
        return HTMLResponse(self._views.shell())

    async def _session(self, request: Request) -> Response:
        try:
            code = (await _object_in(request)).get("code")
            token = self._tokens.token_for(code) if isinstance(code, str) else None
        except RequestRefused as wrong:
            return said(wrong.status, wrong.error)
        except OSError as trouble:
            return said(503, f"the key of the page cannot be read: {trouble.strerror}")
        if token is None:
            return said(401, "this link was used or is too old: `wake-bridge open` makes another")
        return JSONResponse({"token": token})

    async def _activity(self, request: Request) -> Response:
        query = request.query_params
        after, before = _number(query.get("after"), "after"), _number(query.get("before"), "before")
        limit = _number(query.get("limit"), "limit")
        limit = ENTRIES if limit is None else limit
        if not 1 <= limit <= MOST_ENTRIES:
            raise RequestRefused(422, f"limit: 1 to {MOST_ENTRIES}")
        if after is not None and before is not None:
            raise RequestRefused(422, "after and before exclude each other")
        agent = query.get("agent", "")
        if agent and not is_identity(agent):
            raise RequestRefused(422, "agent: not an identity such as @api")
        ledger = self._ledger()
        oldest, last = ledger.activity_span()
        if after is not None:
            found = ledger.activity_after(after, limit, identity=agent)
        else:
            found = ledger.latest_activity(limit, before=before, identity=agent)
        seen_until = last_look(self._state_dir)
        entries = [activity_record(one, seen_until) for one in found]
        more = found[-1].id if len(found) == limit else None
        return JSONResponse({"entries": entries, "next": more, "oldest": oldest, "last": last})

    async def _events(self, request: Request) -> Response:
        asked = request.headers.get("last-event-id", request.query_params.get("after"))
        after = _number(asked, "Last-Event-ID")
        if self._feed.is_crowded:
            return said(503, "too many listen already")
        request.scope["state"].get(STAY, lambda: None)()
        told = self._told_while_valid(_token_of(request), after)
        return _Stream(told, ping=PING, send_timeout=READ_WITHIN)

    async def _told_while_valid(self, token: str, after: int | None) -> AsyncIterator[ServerSentEvent]:
        """The feed, until its client is signed out."""
        async with aclosing(self._feed.events(after)) as events:
            async for event in events:
                if not self._tokens.is_valid(token):
                    return
                yield event

    async def _act(self, request: Request) -> Response:
        body = await _object_in(request)
        if body.get("act") == "look":
            note_look(self._state_dir, self._wall())
            return JSONResponse({"said": "noted"})
        return JSONResponse(await self._ask("act", body))

    async def _fleet(self, _: Request) -> Response:
        return HTMLResponse(await self._views.fleet())

    async def _agent(self, request: Request) -> Response:
        identity = str(request.path_params["identity"])
        if not is_identity(identity):
            raise RequestRefused(422, "not an identity such as @api")
        return HTMLResponse(await self._views.agent(Identity(identity)))

    async def _wake(self, request: Request) -> Response:
        return HTMLResponse(await self._views.wake(str(request.path_params["delivery"])))


class _Stream(EventSourceResponse):
    """The answer to who listens. That a client no longer reads, or the ledger is away, ends it, and is no fault."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        with suppress(SendTimeoutError, LedgerError):
            await super().__call__(scope, receive, send)

    @staticmethod
    async def _listen_for_exit_signal() -> None:
        """The listener ends its streams; the library would look twice a second, from the first stream on for ever."""
        await asyncio.Event().wait()


def said(status: int, error: str, hint: str = "") -> JSONResponse:
    """A refusal in words."""
    return JSONResponse({"error": error, **({"hint": hint} if hint else {})}, status)


def _token_of(request: Request) -> str:
    """What a program or the page sends; empty where it sends none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _static(name: str, kind: str) -> Answer:
    content = files("wake_bridge.http").joinpath("static", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _number(text: str | None, name: str) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise RequestRefused(422, f"{name}: not the id of an entry")
    return int(text)


async def _object_in(request: Request) -> Mapping[str, Any]:
    """The JSON object of the body; raises `RequestRefused`."""
    try:
        said_there = json.loads(await json_body_of(request, MOST_BYTES, BODY_TIME))
    except (ValueError, RecursionError):
        raise RequestRefused(422, "the body is no JSON") from None
    if not isinstance(said_there, dict):
        raise RequestRefused(422, "the body is no JSON object")
    return said_there
