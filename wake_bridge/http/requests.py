"""What every entrance does with a request: reads its body in time, hands over what it tells, and answers what it refuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wake_bridge.engine.tail.entrance import MOST_BYTES, RequestRefused

Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request, or raises `RequestRefused`."""

READ_ON: Final = 256 * 1024
"""Bytes of a body that is too large which are read and thrown away, so that its sender sees the answer."""

BODY_TIME: Final = 10.0
"""Seconds from the last header to the last byte of the body."""

LOGGED_EVERY: Final = 60.0
"""Seconds between two lines about the same refusal."""

KINDS_KEPT: Final = 100
"""Kinds of refusals that are counted; senders must not fill our memory with them."""


class Refusals:
    """Logs what was refused; the same again only once a minute, with how often it was."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str, str], tuple[float, int]] = {}
        self._log = structlog.get_logger("http")

    def note(self, refused: RequestRefused) -> None:
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

    def answered(self, handler: Handler) -> Handler:
        """The handler, with an answer for what it refuses."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except RequestRefused as refused:
                self.note(refused)
                said = {"error": refused.error, **({"field": refused.field} if refused.field else {})}
                return JSONResponse(said, refused.status, {"Retry-After": refused.again} if refused.again else None)

        return answer


async def json_body_of(request: Request, most: int = MOST_BYTES, within: float = BODY_TIME) -> bytes:
    """The whole body of a request that says that it is JSON: at most so many bytes, that come within so many seconds.

    Raises `RequestRefused`.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, "the body must be application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused(415, "the body must not be compressed")
    return await _body(request, most, within)


async def _body(request: Request, most: int, within: float) -> bytes:
    """The whole body, in time. What is too large is read on for a while, and refused."""
    body = bytearray()
    read = 0
    try:
        async with asyncio.timeout(within):
            async for chunk in request.stream():
                read += len(chunk)
                if read <= most:
                    body += chunk
                if read > READ_ON:
                    break
    except TimeoutError:
        raise RequestRefused(408, "the body did not arrive in time") from None
    if read > most:
        raise RequestRefused(413, f"the body is larger than {most} bytes")
    return bytes(body)
