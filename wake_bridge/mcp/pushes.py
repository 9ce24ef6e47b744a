"""Wakes that the client is pushed: its handshake asks for them, or it listens to its inbox; the daemon hands them over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wake_bridge.control.client import reachable
from wake_bridge.control.peer import is_ours
from wake_bridge.mcp.sdk import CallNext, MCPError, Server, ServerRequestContext, types

CAPABILITY: Final = "neo-wake-substrate"
"""What a client declares as experimental, and the logger that its wakes are messages of."""

VERSION: Final = "1.0"

EVENT_TYPES: Final = (
    "wake/sent_to_me",
    "wake/task_state_changed",
    "wake/permission_granted",
    "wake/heartbeat_pulse",
    "wake/digest",
)

INBOX: Final = "wake://inbox/"

WAIT: Final = 30.0
"""Seconds for the daemon to have something; it answers earlier."""

PATIENCE: Final = 1.5
"""Seconds for an answer that is there at once, and for a line to leave."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between two calls to a daemon that is not there, or while nobody knows whose client this is."""

_LOUDER: Final = frozenset({"notice", "warning", "error", "critical", "alert", "emergency"})
_LONGEST: Final = 4 * 1024 * 1024

Whose = Callable[[], tuple[str, Path] | None]
"""Tells whose client it is, and where the daemon of the graph keeps its state; None where nobody knows."""

Reader = Callable[[str], Mapping[str, Any]]
"""Answers the unread mail of an identity, which thereby counts neither as shown nor as read."""


MOST_CLIENTS: Final = 256
"""Clients of the older era whose wishes are kept; one that has gone makes room for the next."""


@dataclass(slots=True)
class _Client:
    """What one client of the older era asks for: by its handshake messages, by a subscription to hear that its inbox changed."""

    session: Any
    told: str = "its MCP client"
    events: tuple[str, ...] = ()
    is_muted: bool = False
    is_subscribed: bool = False

    @property
    def takes_messages(self) -> bool:
        return bool(self.events) and not self.is_muted


class ClientPushes:
    """What the clients of this server take, and who hands it over.

    Args:
        whose: whose clients they are.
        inbox: what lies in the inbox.
        over_http: whether each session is a client of its own, which hears only while its stream is open; else there is one.
    """

    def __init__(self, whose: Whose, inbox: Reader, *, over_http: bool = False) -> None:
        self._whose = whose
        self._inbox = inbox
        self._over_http = over_http
        self._connection = uuid.uuid4().hex
        self._clients: dict[str, _Client] = {}
        self._streams: set[str] = set()
        self._listeners: dict[object, tuple[str, asyncio.Queue[str]]] = {}
        self._latest: Mapping[str, Any] | None = None
        self._written: dict[str, asyncio.Event] = {}
        self._link: asyncio.Task[None] | None = None
        self._words: set[asyncio.Task[None]] = set()
        self._served: tuple[str, Path] | None = None
        self._waits = asyncio.Event()

    def serve(self, server: Server[Any]) -> None:
        """Have a server tell its clients of the inbox, and of pushes who asks for them."""
        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read)
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen)
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        server.middleware.append(self._handshake)

    async def close(self) -> None:
        """End what goes on beside the client's requests."""
        for task in [*([self._link] if self._link is not None else []), *self._words]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    # -- what the client asks for ----------------------------------------------------------------------------------

    async def _handshake(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Declare back what a client declares, and mind the level of messages that it asks for."""
        if ctx.method == "initialize":
            result = await call_next(ctx)
            events = _declared(ctx.params)
            if not events and isinstance(result, dict):
                # a harness that sees resources asks for them in every turn; who listens knows the inbox without being told
                result.get("capabilities", {}).pop("resources", None)
            elif isinstance(result, dict):
                ours = {"version": VERSION, "supportedEvents": list(events)}
                capabilities = result.setdefault("capabilities", {})
                capabilities["experimental"] = {**capabilities.get("experimental", {}), CAPABILITY: ours}
                capabilities["logging"] = {}
            return result
        client = self._clients.get(_session_of(ctx))
        if ctx.method == "logging/setLevel" and client is not None and client.events:
            client.is_muted = (ctx.params or {}).get("level") in _LOUDER
            self._look_for_work()
            return {}
        return await call_next(ctx)

    async def _initialized(self, context: ServerRequestContext[Any], _: Any) -> None:
        params = context.session.client_params
        said = params.model_dump(by_alias=True, mode="json") if params is not None else {}
        if events := _declared(said):
            client = self._client_of(context)
            client.events, client.told = events, _name_of(said) or client.told
            self._look_for_work()

    def _client_of(self, context: ServerRequestContext[Any]) -> _Client:
        """Who asks; known from now on."""
        key = _session_of(context)
        if key not in self._clients and len(self._clients) >= MOST_CLIENTS:
            gone = next((one for one in self._clients if one not in self._streams), next(iter(self._clients)))
            del self._clients[gone]
        client = self._clients.setdefault(key, _Client(context.session))
        client.session = context.session
        return client

    def opened(self, session_id: str) -> None:
        """Over HTTP: the stream has begun on which a session hears what it did not ask for."""
        self._streams.add(session_id)
        self._look_for_work()

    def closed(self, session_id: str) -> None:
        """That stream has ended; its client may open another one."""
        self._streams.discard(session_id)
        self._look_for_work()

    async def _list(self, _: ServerRequestContext[Any], __: Any) -> types.ListResourcesResult:
        found = await asyncio.to_thread(self._whose)
        mine = [types.Resource(uri=f"{INBOX}{found[0]}", name="inbox", mime_type="application/json")] if found else []
        return types.ListResourcesResult(resources=mine)

    async def _read(
        self, _: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        identity = await self._require_own(str(params.uri))
        held = {**await asyncio.to_thread(self._inbox, identity), "wake": self._latest}
        text = json.dumps(held, ensure_ascii=False)
        content = types.TextResourceContents(uri=str(params.uri), mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[content])

    async def _subscribe(self, context: ServerRequestContext[Any], params: types.SubscribeRequestParams) -> Any:
        await self._require_own(str(params.uri))
        self._client_of(context).is_subscribed = True
        self._look_for_work()
        return types.EmptyResult()

    async def _unsubscribe(self, context: ServerRequestContext[Any], params: types.UnsubscribeRequestParams) -> Any:
        await self._require_own(str(params.uri))
        self._client_of(context).is_subscribed = False
        self._look_for_work()
        return types.EmptyResult()

    async def _listen(
        self, context: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """One stream of the newest era: it is told that the inbox changed, until the client ends it."""
        uris = [str(one) for one in params.notifications.resource_subscriptions or ()]
        for uri in uris:
            await self._require_own(uri)
        meta: dict[str, Any] = {_SUBSCRIPTION_ID: context.request_id}
        honored = types.SubscriptionFilter(resource_subscriptions=uris or None)
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
        await context.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=context.request_id
        )
        queue: asyncio.Queue[str] = asyncio.Queue()
        token = object()
        if uris:
            self._listeners[token] = (uris[0], queue)
            self._look_for_work()
        try:
            while True:
                changed = types.ResourceUpdatedNotificationParams(uri=await queue.get(), _meta=meta)
                await context.session.send_notification(
                    types.ResourceUpdatedNotification(params=changed), related_request_id=context.request_id
                )
                self._note_written("")
        finally:
            self._listeners.pop(token, None)
            self._look_for_work()

    async def _require_own(self, uri: str) -> str:
        """Whose inbox it is. Raises `MCPError` for another's, and for what is none."""
        found = await asyncio.to_thread(self._whose)
        if found is None:
            raise MCPError(
                types.INVALID_PARAMS, "nobody knows whose agent asks: `wake-bridge bind @ID` in its own pane"
            )
        if uri != f"{INBOX}{found[0]}":
            raise MCPError(types.INVALID_PARAMS, f"{uri} is not yours: you are {found[0]}, with {INBOX}{found[0]}")
        return found[0]

    # -- the daemon's side -------------------------------------------------------------------------------------------

    def called(self) -> None:
        """The agent has called a tool: the daemon is told, which may wait for a sign that a push had an effect."""
        word = asyncio.create_task(self._say_acted(is_resync=False))
        self._words.add(word)
        word.add_done_callback(self._words.discard)

    async def before_resync(self) -> None:
        """The client asks for what it missed: what comes of that is pushed, so the daemon must know of the client first."""
        if self._link is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._waits.wait()
        await self._say_acted(is_resync=True)

    async def _say_acted(self, *, is_resync: bool) -> None:
        if self._link is not None and self._served is not None:
            identity, state_dir = self._served
            await _ask(state_dir, {"command": "push_act", "identity": identity, "resync": is_resync}, PATIENCE)

    def has_left(self, message: Mapping[str, Any]) -> None:
        """A message to the client has left this process."""
        if message.get("method") == "notifications/message":
            data = message.get("params", {}).get("data")
            self._note_written(data.get("eventId", "") if isinstance(data, Mapping) else "")
        elif message.get("method") == "notifications/resources/updated":
            self._note_written("")

    def _note_written(self, event_id: str) -> None:
        for known, written in self._written.items():
            if event_id in {known, ""}:
                written.set()

    def _who_takes(self) -> _Client | None:
        """The client of the older era that came last, of those that take pushes now; None where there is none."""
        there = (one for key, one in reversed(self._clients.items()) if not self._over_http or key in self._streams)
        return next((one for one in there if one.takes_messages or one.is_subscribed), None)

    @property
    def _takes_pushes(self) -> bool:
        return bool(self._listeners) or self._who_takes() is not None

    def _look_for_work(self) -> None:
        """Wait at the daemon while the client takes pushes, and only then."""
        if self._takes_pushes and self._link is None:
            self._link = asyncio.create_task(self._wait_for_wakes())
        elif not self._takes_pushes and self._link is not None:
            self._link.cancel()
            self._link = None

    async def _wait_for_wakes(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._served = await asyncio.to_thread(self._whose)
            if self._served is not None and await self._wait_once(*self._served):
                pause = FIRST_PAUSE
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _wait_once(self, identity: str, state_dir: Path) -> bool:
        """Call the daemon once, and push what it has; False where there is none."""
        client = self._who_takes()
        events = client.events if client is not None and client.takes_messages else EVENT_TYPES
        answer = await _ask(
            state_dir,
            {
                "command": "push",
                "identity": identity,
                "connection": self._connection,
                "pid": os.getpid(),
                "client": client.told if client is not None else "its MCP client",
                "events": list(events),
            },
            WAIT,
            self._waits,
        )
        mark, text = (answer or {}).get("mark"), (answer or {}).get("envelope")
        if not isinstance(mark, str) or not isinstance(text, str):
            return answer is not None and "error" not in answer
        # it may be somebody else's client by now, as after `bind`
        if await asyncio.to_thread(self._whose) != (identity, state_dir):
            return True
        # only after this may it be written: until then the daemon may send it elsewhere
        taken = await _ask(state_dir, {"command": "pushing", "identity": identity, "mark": mark}, PATIENCE)
        if taken is not None and taken.get("ok") is True and await self._write(identity, json.loads(text)):
            await _ask(state_dir, {"command": "pushed", "mark": mark}, PATIENCE)
        return True

    async def _write(self, identity: str, envelope: Mapping[str, Any]) -> bool:
        """Notify the client, one way; whether the notification has left."""
        self._latest = envelope
        event_id, uri = str(envelope["eventId"]), f"{INBOX}{identity}"
        written = self._written[event_id] = asyncio.Event()
        try:
            async with asyncio.timeout(PATIENCE):
                client = self._who_takes()
                if client is not None and client.takes_messages:
                    params = types.LoggingMessageNotificationParams(
                        level="info", logger=CAPABILITY, data=dict(envelope)
                    )
                    await client.session.send_notification(types.LoggingMessageNotification(params=params))
                elif client is not None:
                    await client.session.send_resource_updated(uri)
                else:
                    # of several streams one, so that one wake is one
                    listens, queue = next(reversed(self._listeners.values()), ("", None))
                    if queue is None or listens != uri:
                        return False
                    queue.put_nowait(uri)
                if client is not None and self._over_http:
                    # nobody tells when a stream's chunk has left: its client must act on it anyway
                    written.set()
                await written.wait()
        except TimeoutError:
            return False
        finally:
            del self._written[event_id]
        return True


_SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"


def _session_of(context: ServerRequestContext[Any]) -> str:
    """Which session a request belongs to; empty where a process serves one client."""
    headers = getattr(context.request, "headers", None)
    return headers.get("mcp-session-id", "") if headers is not None else ""


def _declared(params: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The types of events that a handshake asks for; empty where it does not ask, or for a version that we do not speak."""
    capabilities = (params or {}).get("capabilities")
    experimental = capabilities.get("experimental") if isinstance(capabilities, Mapping) else None
    said = experimental.get(CAPABILITY) if isinstance(experimental, Mapping) else None
    if not isinstance(said, Mapping) or str(said.get("version", "")).partition(".")[0] != VERSION.partition(".")[0]:
        return ()
    wanted = said.get("supportedEvents")
    return tuple(one for one in EVENT_TYPES if one in wanted) if isinstance(wanted, list) else ()


def _name_of(params: Mapping[str, Any] | None) -> str:
    """What a client calls itself."""
    info = (params or {}).get("clientInfo")
    said = [info.get("name"), info.get("version")] if isinstance(info, Mapping) else []
    return " ".join(one for one in said if isinstance(one, str))


async def _ask(
    state_dir: Path, request: Mapping[str, Any], patience: float, asked: asyncio.Event | None = None
) -> Mapping[str, Any] | None:
    """The daemon's answer; None where there is none in time. It hears at once when nobody waits for it any more.

    `asked` is set while the daemon has the question.
    """
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(patience):
            with reachable(state_dir) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST)
            if not is_ours(writer.get_extra_info("socket")):
                return None
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            if asked is not None:
                asked.set()
            answer = json.loads(await reader.readline())
    except (OSError, ValueError, TimeoutError, RecursionError):
        return None
    finally:
        if asked is not None:
            asked.clear()
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return answer if isinstance(answer, dict) else None
