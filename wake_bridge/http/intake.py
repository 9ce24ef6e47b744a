"""The routes of `/api/inbox`: items from outside, each by the token of its source. A path exists only with a token for it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from wake_bridge.config.source_tokens import SourceTokens
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.events import ItemMode
from wake_bridge.domain.items import ME, Contradiction, ItemDraft, mode_and_tier
from wake_bridge.domain.names import Identity, is_identity
from wake_bridge.engine.settings import EngineSettings
from wake_bridge.engine.tail.entrance import RequestRefused, taken_in_time
from wake_bridge.http.requests import Handler, json_body_of
from wake_bridge.ports.items import TakenItem
from wake_bridge.schemas.incoming import NotAWake
from wake_bridge.schemas.intake import (
    items_of_a2a,
    items_of_alertmanager,
    items_of_github,
    read_item,
    read_object,
)

INBOX: Final = "/api/inbox"
GITHUB: Final = "github"
ALERTMANAGER: Final = "alertmanager"
A2A: Final = "a2a"

_SIGNATURE: Final = "x-hub-signature-256"
_A2A_TOKEN: Final = "x-a2a-notification-token"  # noqa: S105 - the name of a header

TakeItems = Callable[[Sequence[ItemDraft]], Awaitable[Sequence[TakenItem]]]
"""Hands items to the daemon; answers what became of each. Raises `NotHere`, `NotFound`, `Contradiction` or `LedgerError`."""


class InboxRoutes:
    """What is posted to `/api/inbox` and below.

    Args:
        tokens: the tokens of sources.
        settings: the engine's settings in force, those of sources among them.
        take: hands items over.
    """

    def __init__(
        self,
        tokens: SourceTokens,
        settings: Callable[[], EngineSettings],
        take: TakeItems,
    ) -> None:
        self._tokens = tokens
        self._settings = settings
        self._take = take

    def routes(self, answered: Callable[[Handler], Handler]) -> Sequence[Route]:
        """The routes; `answered` turns what a handler refuses into an answer."""
        paths = {
            INBOX: self._item,
            f"{INBOX}/{GITHUB}": self._github,
            f"{INBOX}/{ALERTMANAGER}": self._alertmanager,
            f"{INBOX}/{A2A}": self._a2a,
        }
        return [Route(path, answered(handler), methods=["POST"]) for path, handler in paths.items()]

    async def _item(self, request: Request) -> JSONResponse:
        if not self._known():
            raise RequestRefused(404, "there is no token for this path")
        source = self._whose(_bearer(request))
        try:
            item = read_item(await json_body_of(request))
        except NotAWake as wrong:
            raise RequestRefused(422, wrong.why, wrong.field) from None
        if item.source not in {"", source}:
            raise RequestRefused(403, f"this token is {source}'s", "source")
        return await self._taken([item.draft(source)], source)

    async def _github(self, request: Request) -> JSONResponse:
        secret = self._token_of(GITHUB)
        body = await json_body_of(request)
        signatures = request.headers.getlist(_SIGNATURE)
        right = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
        if len(signatures) != 1 or not hmac.compare_digest(right.encode(), signatures[0].encode("utf-8", "replace")):
            raise RequestRefused(401, "the signature is missing or not valid")
        event = request.headers.get("x-github-event", "")
        if not event:
            raise RequestRefused(422, "there is no such header", "X-GitHub-Event")
        if event == "ping":
            return JSONResponse({"status": "pong"})
        to, delivery = self._recipient(request, GITHUB), request.headers.get("x-github-delivery", "")
        return await self._taken(_made(lambda: items_of_github(event, delivery, read_object(body), to, GITHUB)), GITHUB)

    async def _alertmanager(self, request: Request) -> JSONResponse:
        self._require(ALERTMANAGER, _bearer(request))
        body, to = await json_body_of(request), self._recipient(request, ALERTMANAGER)
        drafts = _made(lambda: items_of_alertmanager(read_object(body), to, ALERTMANAGER))
        return await self._taken(drafts, ALERTMANAGER)

    async def _a2a(self, request: Request) -> JSONResponse:
        self._require(A2A, request.headers.get(_A2A_TOKEN) or _bearer(request))
        body, to = await json_body_of(request), self._recipient(request, A2A)
        return await self._taken(_made(lambda: items_of_a2a(read_object(body), to, A2A)), A2A)

    # -- who may ------------------------------------------------------------------------------------------------

    def _known(self) -> dict[str, str]:
        try:
            return dict(self._tokens.now())
        except OSError as trouble:
            raise RequestRefused(503, f"the tokens cannot be read ({trouble.strerror})") from None

    def _whose(self, token: str) -> str:
        self._known()
        source = self._tokens.source_of(token) if token else None
        if source is None:
            raise RequestRefused(401, "the token is missing or not valid")
        return source

    def _token_of(self, source: str) -> str:
        token = self._known().get(source)
        if token is None:
            raise RequestRefused(404, "there is no token for this path")
        return token

    def _require(self, source: str, token: str) -> None:
        self._token_of(source)
        if self._whose(token) != source:
            raise RequestRefused(401, "the token is missing or not valid")

    def _recipient(self, request: Request, source: str) -> Identity:
        """Whom a foreign body is for: `?to=@x`, else the first identity of the source."""
        asked = request.query_params.getlist("to")
        known = self._settings().sources.of(source).identities
        to = asked[0] if asked else known[0] if known else ""
        if len(asked) > 1 or not is_identity(to):
            raise RequestRefused(422, f"say whom: [sources.{source}] identities, or ?to=@x", "to")
        return Identity(to)

    # -- what comes in --------------------------------------------------------------------------------------------

    async def _taken(self, drafts: Sequence[ItemDraft], source: str) -> JSONResponse:
        rules = self._settings().sources.of(source)
        for draft in drafts:
            if not rules.reaches(draft.recipient):
                raise RequestRefused(403, f"{source} may send nothing to {draft.recipient}", "identity")
            try:
                mode, tier = mode_and_tier(draft, rules)
            except Contradiction as wrong:
                raise RequestRefused(422, wrong.why, wrong.field) from None
            if tier not in rules.tiers:
                raise RequestRefused(403, f"{source} may send nothing for {tier}", "tier")
            if mode is ItemMode.PROMPT and not rules.reaches(ME):
                raise RequestRefused(403, f"{source} may send nothing to {ME}", "mode")
        if not drafts:
            return JSONResponse({"status": "ignored", "items": []})
        try:
            taken = await taken_in_time(self._take(drafts), drafts[0].recipient, "identity")
        except Contradiction as wrong:
            raise RequestRefused(422, wrong.why, wrong.field) from None
        except NotFound as nothing:
            raise RequestRefused(422, f"{nothing.what}: {nothing.hint}", "channel_id") from None
        said = [{"id": one.event.id, "was": one.was.value, "isStorm": one.is_storm} for one in taken]
        is_kept = any(one.was.is_kept for one in taken)
        return JSONResponse({"status": "accepted" if is_kept else "known", "items": said}, 202 if is_kept else 200)


def _made(make: Callable[[], Sequence[ItemDraft]]) -> Sequence[ItemDraft]:
    try:
        return make()
    except NotAWake as wrong:
        raise RequestRefused(422, wrong.why, wrong.field) from None


def _bearer(request: Request) -> str:
    """The token that a request bears; empty where it has none, or several."""
    found = request.headers.getlist("authorization")
    scheme, _, token = found[0].partition(" ") if len(found) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""
