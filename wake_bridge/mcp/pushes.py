"""Wakes that the client is pushed: its handshake asks for them, or it listens to its inbox; the daemon hands them over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
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


class ClientPushes:
    """What one client of this server takes, and who hands it over.

    Args:
        whose: whose client it is.
        inbox: what lies in the inbox.
        takes_messages: whether this process serves one client, so that a handshake speaks for all of its connection.
    """

    def __init__(self, whose: Whose, inbox: Reader, *, takes_messages: bool) -> None:
        self._whose = whose
        self._inbox = inbox
        self._takes_messages = takes_messages
        self._connection = uuid.uuid4().hex
        self._events: tuple[str, ...] = ()
        self._is_muted = False
        self._session: Any = None
        self._subscribed: Any = None
        self._listeners: dict[object, tuple[str, asyncio.Queue[str]]] = {}
        self._latest: Mapping[str, Any] | None = None
        self._written: dict[str, asyncio.Event] = {}
        self._told = "its MCP client"
        self._link: asyncio.Task[None] | None = None
        self._words: set[asyncio.Task[None]] = set()
        self._served: tuple[str, Path] | None = None
        self._waits = asyncio.Event()

    def serve(self, server: Server[Any]) -> None:
        """Have a server tell its clients of the inbox, and of pushes who asks for them."""
        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read)
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen)
        if self._takes_messages:
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
            self._events = _declared(ctx.params)
            if not self._events and isinstance(result, dict):
                # a harness that sees resources asks for them in every turn; who listens knows the inbox without being told
                result.get("capabilities", {}).pop("resources", None)
            elif isinstance(result, dict):
                self._told = _name_of(ctx.params) or self._told
                ours = {"version": VERSION, "supportedEvents": list(self._events)}
                capabilities = result.setdefault("capabilities", {})
                capabilities["experimental"] = {**capabilities.get("experimental", {}), CAPABILITY: ours}
                capabilities["logging"] = {}
            return result
        if ctx.method == "logging/setLevel" and self._events:
            self._is_muted = (ctx.params or {}).get("level") in _LOUDER
            self._look_for_work()
            return {}
        return await call_next(ctx)

    async def _initialized(self, context: ServerRequestContext[Any], _: Any) -> None:
        if self._events:
            self._session = context.session
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
        self._subscribed = context.session
        self._look_for_work()
        return types.EmptyResult()

    async def _unsubscribe(self, _: ServerRequestContext[Any], params: types.UnsubscribeRequestParams) -> Any:
        await self._require_own(str(params.uri))
        self._subscribed = None
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

    @property
    def _takes_pushes(self) -> bool:
        is_told = self._session is not None and not self._is_muted
        return is_told or self._subscribed is not None or bool(self._listeners)

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
        events = self._events if self._session is not None and not self._is_muted else EVENT_TYPES
        answer = await _ask(
            state_dir,
            {
                "command": "push",
                "identity": identity,
                "connection": self._connection,
                "pid": os.getpid(),
                "client": self._told,
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
                if self._session is not None and not self._is_muted:
                    params = types.LoggingMessageNotificationParams(
                        level="info", logger=CAPABILITY, data=dict(envelope)
                    )
                    await self._session.send_notification(types.LoggingMessageNotification(params=params))
                elif self._subscribed is not None:
                    await self._subscribed.send_resource_updated(uri)
                else:
                    # of several streams one, so that one wake is one
                    listens, queue = next(reversed(self._listeners.values()), ("", None))
                    if queue is None or listens != uri:
                        return False
                    queue.put_nowait(uri)
                await written.wait()
        except TimeoutError:
            return False
        finally:
            del self._written[event_id]
        return True


_SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"


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
