"""The HTTP routes: `POST /api/wake` for signed requests, the page for who has a token, `GET /healthz` for everybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wake_bridge.domain.names import Instant
from wake_bridge.engine.tail.entrance import RequestRefused, TakeIn, accepted, incoming
from wake_bridge.http.intake import INBOX, InboxRoutes
from wake_bridge.http.requests import Refusals, json_body_of
from wake_bridge.http.signatures import NEO, STANDARD, Signatures, Unsigned, require_recent

WAKE: Final = "/api/wake"

_HOST: Final = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]+)?")
"""A Host header, as RFC 9110 section 7.2 has it."""

_EQUAL: Final = {
    STANDARD[0]: "event_id",
    f"{NEO}event-id": "event_id",
    f"{NEO}subscription-id": "subscription_id",
    f"{NEO}schema-version": "schema_version",
}
"""Headers that say what the body says, and must say the same."""


def application(
    signatures: Signatures | None,
    take_in: TakeIn,
    hosts: Collection[str],
    wall: Callable[[], Instant],
    page: Sequence[BaseRoute] = (),
    inbox: InboxRoutes | None = None,
) -> Application:
    """The application.

    Args:
        signatures: tell who sent a request; without them no signed wake is taken in.
        take_in: hands a verified wake over.
        hosts: the names by which this host may be called, in lower case, without a port.
        wall: the wall clock.
        page: the routes of the page, where this address has it.
        inbox: takes items from outside in, where this address does.
    """
    refusals = Refusals()

    async def wake(request: Request) -> JSONResponse:
        if signatures is None:
            return JSONResponse({"error": "no signed wakes are taken in here"}, 404)
        return await _answer(request, signatures, take_in, wall)

    async def healthy(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    routes = [
        Route(WAKE, refusals.answered(wake), methods=["POST"]),
        Route("/healthz", healthy, methods=["GET"]),
        *(inbox.routes(refusals.answered) if inbox is not None else ()),
        *page,
    ]
    return Application(routes, frozenset(hosts), has_page=bool(page))


class Application:
    """Answers only who calls this host by its name, and no web page but its own.

    Attributes:
        routes: all that it answers.
    """

    def __init__(self, routes: Sequence[BaseRoute], hosts: Collection[str], *, has_page: bool) -> None:
        self.routes = routes
        self._inner = Starlette(routes=routes, exception_handlers=_ANSWERS)
        # a path with a slash at its end is another one
        self._inner.router.redirect_slashes = False
        self._hosts = hosts
        self._has_page = has_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        why = ""
        if [_bare(one) in self._hosts for one in request.headers.getlist("host")] != [True]:
            why = "this host does not have that name: add it to [http] hosts"
        elif self._is_from_elsewhere(request):
            why = "requests of other web pages are refused"
        answer: ASGIApp = JSONResponse({"error": why}, 403) if why else self._inner
        await answer(scope, receive, send)

    def _is_from_elsewhere(self, request: Request) -> bool:
        """Whether a web page has it sent that is not ours; what a browser says of the sender no script can change."""
        origins, path = request.headers.getlist("origin"), request.scope["path"]
        if not self._has_page or path == WAKE or path.startswith(INBOX):
            return bool(origins)
        if origins not in ([], [f"{request.scope['scheme']}://{request.headers['host']}"]):
            return True
        # a link to the page may stand anywhere: it has nothing to show without a token
        is_link = (request.method, path, request.headers.get("sec-fetch-dest")) == ("GET", "/", "document")
        return request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not is_link


async def _no_route(_: Request, wrong: Exception) -> JSONResponse:
    """The answer to another path or another method."""
    if not isinstance(wrong, HTTPException):
        raise wrong
    return JSONResponse({"error": wrong.detail}, wrong.status_code, wrong.headers)


async def _broken(request: Request, fault: Exception) -> JSONResponse:
    """The answer where a handler fails: one bad request ends no other."""
    structlog.get_logger("http").error("http_failed", reason=str(fault), where=request.url.path, exc_info=fault)
    return JSONResponse({"error": "wake-bridge has a fault here; its log says more"}, 500)


async def _gone(_: Request, __: Exception) -> JSONResponse:
    """What nobody hears any more."""
    return JSONResponse({"error": "the sender has gone"}, 400)


_ANSWERS: Final = {HTTPException: _no_route, ClientDisconnect: _gone, Exception: _broken}
"""What is answered where no handler answers."""


def _bare(host: str) -> str:
    """A Host header without its port; empty where it is none. An IPv6 address stands in brackets."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower() if found else ""


async def _answer(
    request: Request, signatures: Signatures, take_in: TakeIn, wall: Callable[[], Instant]
) -> JSONResponse:
    body = await json_body_of(request)
    try:
        sender = signatures.sender_of(request.headers, body)
        wake = incoming(body)
        require_recent(request.headers, wake.emitted_at, wall())
    except Unsigned as why:
        raise RequestRefused(401, str(why)) from None
    for header, field in _EQUAL.items():
        if request.headers.get(header, said := getattr(wake, field)) != said:
            raise RequestRefused(422, "the header and the body disagree", header)
    taken = await accepted(wake, body, sender.name, lambda who: who in sender.identities, take_in)
    return JSONResponse(taken.record, taken.status)
