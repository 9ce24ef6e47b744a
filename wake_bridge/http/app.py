"""The HTTP routes: `POST /api/wake` for signed requests, the page for who has a token, `GET /healthz` for everybody."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.engine.tail.signed_wakes import NotHere
from wake_bridge.http.signatures import NEO, STANDARD, Signatures, Unsigned, require_recent
from wake_bridge.ports.ledger_records import Taken
from wake_bridge.schemas.incoming import Incoming, NotAWake, read_wake

WAKE: Final = "/api/wake"

MOST_BYTES: Final = 64 * 1024
"""Bytes of a body."""

READ_ON: Final = 256 * 1024
"""Bytes of a body that is too large which are read and thrown away, so that its sender sees the answer."""

BODY_TIME: Final = 10.0
"""Seconds from the last header to the last byte of the body."""

PATIENCE: Final = 10.0
"""Seconds that the daemon has to write a wake down."""

AGAIN: Final = "5"
"""Seconds after which a sender is asked to try again."""

LOGGED_EVERY: Final = 60.0
"""Seconds between two lines about the same refusal."""

KINDS_KEPT: Final = 100
"""Kinds of refusals that are counted; senders must not fill our memory with them."""

_EQUAL: Final = {
    STANDARD[0]: "event_id",
    f"{NEO}event-id": "event_id",
    f"{NEO}subscription-id": "subscription_id",
    f"{NEO}schema-version": "schema_version",
}
"""Headers that say what the body says, and must say the same."""


class TakeIn(Protocol):
    """Hands a verified wake to the daemon."""

    async def __call__(self, sender: str, wake: Incoming, body: str) -> Taken:
        """What it was; on disk. Raises `NotHere` or `LedgerError`."""


class _Refused(Exception):
    def __init__(self, status: int, error: str, field: str = "", again: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.field = field
        self.again = again


def application(
    signatures: Signatures | None,
    take_in: TakeIn,
    hosts: Collection[str],
    wall: Callable[[], Instant],
    page: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """The application.

    Args:
        signatures: tell who sent a request; without them no signed wake is taken in.
        take_in: hands a verified wake over.
        hosts: the names by which this host may be called, in lower case, without a port.
        wall: the wall clock.
        page: the routes of the page, where this address has it.
    """
    refusals = _Refusals()

    async def wake(request: Request) -> JSONResponse:
        if signatures is None:
            return JSONResponse({"error": "no signed wakes are taken in here"}, 404)
        try:
            return await _answer(request, signatures, take_in, wall)
        except _Refused as refused:
            refusals.note(refused)
            said = {"error": refused.error, **({"field": refused.field} if refused.field else {})}
            return JSONResponse(said, refused.status, {"Retry-After": refused.again} if refused.again else None)
        except ClientDisconnect:
            return JSONResponse({"error": "the sender has gone"}, 400)

    async def healthy(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    routes = [Route(WAKE, wake, methods=["POST"]), Route("/healthz", healthy, methods=["GET"]), *page]
    return _Guarded(Starlette(routes=routes), frozenset(hosts), has_page=bool(page))


class _Refusals:
    """Logs what was refused; the same again only once a minute, with how often it was."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str, str], tuple[float, int]] = {}
        self._log = structlog.get_logger("http")

    def note(self, refused: _Refused) -> None:
        """It was refused once more."""
        what = (refused.status, refused.error, refused.field)
        now = time.monotonic()
        told_at, count = self._counts.get(what, (-LOGGED_EVERY, 0))
        if now - told_at < LOGGED_EVERY:
            self._counts[what] = told_at, count + 1
            return
        if len(self._counts) >= KINDS_KEPT:
            self._counts.clear()
        self._counts[what] = now, 0
        self._log.info(
            "http_refused", status=refused.status, reason=refused.error, field=refused.field or None, besides=count
        )


class _Guarded:
    """Answers only who calls this host by its name, and no web page but its own."""

    def __init__(self, inner: ASGIApp, hosts: Collection[str], *, has_page: bool) -> None:
        self._inner = inner
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
        if not self._has_page or path == WAKE:
            return bool(origins)
        if origins not in ([], [f"{request.scope['scheme']}://{request.headers['host']}"]):
            return True
        # a link to the page may stand anywhere: it has nothing to show without a token
        is_link = (request.method, path, request.headers.get("sec-fetch-dest")) == ("GET", "/", "document")
        return request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not is_link


def _bare(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    is_port = bool(colon) and port.isdigit() and not (":" in name and not name.endswith("]"))
    return (name if is_port else host).strip("[]").lower()


async def _answer(
    request: Request, signatures: Signatures, take_in: TakeIn, wall: Callable[[], Instant]
) -> JSONResponse:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refused(415, "the body must be application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _Refused(415, "the body must not be compressed")
    body = await _body(request)
    try:
        sender = signatures.sender_of(request.headers, body)
        wake = read_wake(body)
        require_recent(request.headers, wake.emitted_at, wall())
    except Unsigned as why:
        raise _Refused(401, str(why)) from None
    except NotAWake as wrong:
        raise _Refused(422, wrong.why, wrong.field) from None
    for header, field in _EQUAL.items():
        if request.headers.get(header, said := getattr(wake, field)) != said:
            raise _Refused(422, "the header and the body disagree", header)
    identity = Identity(wake.agent_identity)
    if identity not in sender.identities:
        raise _Refused(403, f"{sender.name} may not wake {identity}", "agentIdentity")
    taken = await _taken(take_in(sender.name, wake, hashlib.sha256(body).hexdigest()), identity)
    if taken is Taken.OTHER_BODY:
        raise _Refused(409, "this eventId was used before with another body", "eventId")
    said = {"status": "accepted" if taken is Taken.NEW else "known", "eventId": wake.event_id}
    return JSONResponse(said, 202 if taken is Taken.NEW else 200)


async def _taken(work: Awaitable[Taken], identity: Identity) -> Taken:
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except NotHere as nobody:
        if nobody.is_starting:
            raise _Refused(503, "the daemon is starting", again=AGAIN) from None
        raise _Refused(404, f"{identity} is not on this host: it has no target and no pane", "agentIdentity") from None
    except LedgerError as trouble:
        raise _Refused(503, trouble.what, again=AGAIN) from None
    except TimeoutError:
        raise _Refused(503, "the daemon is busy", again=AGAIN) from None


async def _body(request: Request) -> bytes:
    """The whole body, in time. What is too large is read on for a while, and refused."""
    body = bytearray()
    read = 0
    try:
        async with asyncio.timeout(BODY_TIME):
            async for chunk in request.stream():
                read += len(chunk)
                if read <= MOST_BYTES:
                    body += chunk
                if read > READ_ON:
                    break
    except TimeoutError:
        raise _Refused(408, "the body did not arrive in time") from None
    if read > MOST_BYTES:
        raise _Refused(413, f"the body is larger than {MOST_BYTES} bytes")
    return bytes(body)
