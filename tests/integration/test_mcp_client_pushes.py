"""The server's end of a push, in this process: whose client it is is asked before anything is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")

from wake_bridge.mcp.pushes import ClientPushes
from wake_bridge.mcp.sdk import MCPError, types
from wake_bridge.mcp.server import ToolServer
from wake_bridge.testing import HUNG

ENVELOPE = json.dumps({"eventId": "01K9Z3NDEKTSV4RRFFQ69G5FAV", "eventType": "wake/sent_to_me"})


class Session:
    """What the server writes to its client."""

    def __init__(self, said: Mapping[str, Any] | None = None) -> None:
        self.client_params = None if said is None else types.InitializeRequestParams.model_validate(said)
        self.written: list[Any] = []
        self.leaves: Callable[[Mapping[str, Any]], None] = lambda _: None

    async def send_notification(self, notification: types.ServerNotification) -> None:
        message = notification.model_dump(by_alias=True, mode="json")
        self.written.append(message)
        self.leaves(message)


class Context:
    """A client's request, as far as it is looked at."""

    def __init__(self, session: Session, method: str = "", params: Mapping[str, Any] | None = None) -> None:
        self.session, self.method, self.params, self.request_id = session, method, params, 1
        self.request = None


@asynccontextmanager
async def daemon(state_dir: Path, asked: list[str]) -> Any:
    """A daemon that has one wake, for whoever waits for it."""
    done = asyncio.Event()
    served: list[Any] = []

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        request = json.loads(await reader.readline())
        asked.append(request["command"])
        if request["command"] == "push" and asked.count("push") > 1:
            done.set()
            await reader.read()
        answer = {"mark": "M", "envelope": ENVELOPE} if request["command"] == "push" else {"ok": True}
        with suppress(OSError):
            writer.write(json.dumps(answer).encode() + b"\n")
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(answers, str(state_dir / "daemon.sock"))
    try:
        yield done
    finally:
        server.close()
        await asyncio.gather(*served)


async def played(state_dir: Path, whose: list[str]) -> tuple[list[str], list[Any]]:
    """A client that declares itself; who it is called at each question; what the daemon was asked, and what was written."""
    asked: list[str] = []
    capabilities = {"experimental": {"neo-wake-substrate": {"version": "1.0", "supportedEvents": ["wake/sent_to_me"]}}}
    said = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "x", "version": "1"}}
    session = Session(said)
    pushes = ClientPushes(lambda: (whose.pop(0) if len(whose) > 1 else whose[0], state_dir), lambda _: {})
    session.leaves = pushes.has_left

    async def goes_on(_: Any) -> dict[str, Any]:
        return {"capabilities": {}}

    async with daemon(state_dir, asked) as done:
        hello: Any = Context(session, "initialize", said)
        await pushes._handshake(hello, goes_on)
        await pushes._initialized(hello, None)
        async with asyncio.timeout(HUNG):
            await done.wait()
        await pushes.close()
    return asked, session.written


def test_a_wake_is_written_between_the_two_words_of_the_daemon(tmp_path: Path) -> None:
    """Nothing is written before the daemon said that it may be, and it is told when that has left."""
    asked, written = asyncio.run(played(tmp_path, ["@mine"]))
    assert asked == ["push", "pushing", "pushed", "push"]
    assert [one["method"] for one in written] == ["notifications/message"]


def test_what_was_meant_for_another_identity_is_not_written(tmp_path: Path) -> None:
    """As after `bind`: it was @mine when the server began to wait, and is somebody else's when a wake comes."""
    asked, written = asyncio.run(played(tmp_path, ["@mine", "@other"]))
    assert asked == ["push", "push"]
    assert written == []


def test_the_inbox_of_another_is_refused(tmp_path: Path) -> None:
    """Whichever way it is asked for: reading, subscribing and listening."""
    pushes = ClientPushes(lambda: ("@mine", tmp_path), lambda _: {})
    context: Any = Context(Session())
    other = "wake://inbox/@other"
    filters = types.SubscriptionFilter(resource_subscriptions=[other])

    async def asks() -> None:
        match = "is not yours: you are @mine"
        with pytest.raises(MCPError, match=match):
            await pushes._read(context, types.ReadResourceRequestParams(uri=other))
        with pytest.raises(MCPError, match=match):
            await pushes._subscribe(context, types.SubscribeRequestParams(uri=other))
        with pytest.raises(MCPError, match=match):
            await pushes._listen(context, types.SubscriptionsListenRequestParams(notifications=filters))

    asyncio.run(asks())


def test_a_call_is_told_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wake that is pushed while a tool works has not brought the call about: it must not count as an act upon the wake."""
    tools = ToolServer(None, foreign=False)
    order: list[str] = []

    async def resynced() -> None:
        order.append("resync told")

    def done(*_: object) -> tuple[types.CallToolResult, None]:
        order.append("done")
        return types.CallToolResult(content=[]), None

    monkeypatch.setattr(tools.pushes, "called", lambda: order.append("told"))
    monkeypatch.setattr(tools.pushes, "before_resync", resynced)
    monkeypatch.setattr(tools, "_called", done)
    context: Any = Context(Session())
    context.meta = None

    async def calls() -> None:
        for arguments in ({"action": "list"}, {"action": "resync"}):
            params = types.CallToolRequestParams(name="manage_wake_subscription", arguments=dict(arguments))
            await tools._call_tool(context, params)

    asyncio.run(calls())
    assert order == ["told", "done", "resync told", "done"]
