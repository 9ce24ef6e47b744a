"""An MCP client in a process of its own, by the official SDK: it takes wakes, and acts on them or drops them, as it is told.

`python -m wake_bridge.testing.push_client LOG WISHES PROGRAM…`: what it is told of goes to LOG as JSON lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Self

import mcp_types as types
import psutil
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from wake_bridge.testing import HUNG

CAPABILITY: Final = "neo-wake-substrate"
EVENTS: Final = (
    "wake/sent_to_me",
    "wake/task_state_changed",
    "wake/permission_granted",
    "wake/heartbeat_pulse",
    "wake/digest",
)


class PushClient:
    """Starts such a client, and tells what it was told.

    Args:
        directory: where its log lies.
        program: `wake-bridge`, as it is called.
        environment: what the client is started with; its server inherits it.
        wishes: `declares` (with `version` and `events`), `listens` (uris), `era` (`legacy` or `auto`), `acts` (reads its mail
            when it is pushed a wake), `level` (of messages that it asks for), `calls` (tools, with their arguments, that it
            calls when it is there), `url` and `token` (of a server over HTTP, instead of one that it starts).
    """

    def __init__(self, directory: Path, program: Sequence[str], environment: Mapping[str, str], **wishes: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "told.jsonl"
        self._log.touch()
        command = [
            sys.executable,
            "-m",
            "wake_bridge.testing.push_client",
            str(self._log),
            json.dumps(wishes),
            *program,
        ]
        with (directory / "errors").open("wb") as errors:
            self._process = subprocess.Popen(command, env=dict(environment), stdin=subprocess.PIPE, stderr=errors)

    def told(self, kind: str) -> list[Any]:
        """What it was told of one kind, in order: `ready`, `server`, `wake`, `updated`, `refused`, `answer`."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
        return [one[kind] for one in lines if kind in one]

    def kill_server(self) -> None:
        """Kill the MCP server that it has started, and nothing else."""
        os.kill(self.told("server")[-1], 9)

    def close(self) -> None:
        """End it, and thereby its server."""
        self._process.kill()
        self._process.communicate(timeout=HUNG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Player:
    """What the process does: it connects, notes what it is told, and acts where it is to."""

    def __init__(self, log: Path, wishes: Mapping[str, Any], program: Sequence[str]) -> None:
        self._log = log
        self._wishes = wishes
        self._program = program
        self._background: set[asyncio.Task[None]] = set()
        self._session: Any = None

    def note(self, **told: Any) -> None:
        """Write down what happened."""
        with self._log.open("a") as file:
            file.write(json.dumps(told) + "\n")

    def _server(self) -> AbstractAsyncContextManager[Any]:
        """Where it connects."""
        if url := self._wishes.get("url"):
            client = create_mcp_http_client({"Authorization": f"Bearer {self._wishes['token']}"})
            return streamable_http_client(url, http_client=client)
        program = self._program
        return stdio_client(StdioServerParameters(command=program[0], args=[*program[1:], "mcp"], env=dict(os.environ)))

    async def play(self) -> None:
        """In the era that is wished for, until it is ended."""
        await (self._play_newest() if self._wishes.get("era") == "auto" else self._play_handshake())
        await asyncio.sleep(10 * HUNG)

    async def _play_newest(self) -> None:
        async with Client(self._server(), mode="auto") as client:
            self._session = client
            can = client.server_capabilities.model_dump(by_alias=True)
            self.note(ready={"protocol": client.protocol_version, **can})
            try:
                async with client.listen(resource_subscriptions=self._wishes.get("listens", [])) as changes:
                    self.note(listening=self._wishes.get("listens"))
                    await self._call()
                    async for change in changes:
                        if isinstance(change, ResourceUpdated):
                            await self._changed(change.uri)
            except MCPError as refusal:
                self.note(refused=str(refusal))
                await asyncio.sleep(10 * HUNG)

    async def _play_handshake(self) -> None:
        async with (
            self._server() as (reading, writing),
            _Declaring(
                self._wishes,
                reading,
                writing,
                logging_callback=self._hears,
                message_handler=self._incoming,
                client_info=types.Implementation(name="push-test", version="1"),
            ) as session,
        ):
            self._session = session
            begun = await session.initialize()
            self.note(ready={"protocol": begun.protocol_version, **begun.capabilities.model_dump(by_alias=True)})
            for child in psutil.Process().children():
                self.note(server=child.pid)
            if level := self._wishes.get("level"):
                params = types.SetLevelRequestParams(level=level)
                await session.send_request(types.SetLevelRequest(params=params), types.EmptyResult)
            for uri in self._wishes.get("listens", ()):
                asked = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
                try:
                    await session.send_request(asked, types.EmptyResult)
                except MCPError as refusal:
                    self.note(refused=str(refusal))
                else:
                    self.note(listening=uri)
            await self._call()
            await asyncio.sleep(10 * HUNG)

    async def _call(self) -> None:
        for name, arguments in self._wishes.get("calls", ()):
            self.note(answer=(await self._session.call_tool(name, arguments)).structured_content)

    async def _hears(self, message: types.LoggingMessageNotificationParams) -> None:
        self.note(wake={"level": message.level, "logger": message.logger, "data": message.data})
        self._goes_on(self._acts())

    async def _incoming(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self._goes_on(self._changed(str(message.params.uri)))

    def _goes_on(self, work: Coroutine[None, None, None]) -> None:
        # what hears the answers must not wait for one
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _changed(self, uri: str) -> None:
        read = await self._session.read_resource(uri)
        self.note(updated=json.loads(read.contents[0].text))
        await self._acts()

    async def _acts(self) -> None:
        if self._wishes.get("acts"):
            answer = await self._session.call_tool("check_inbox", {"consume": True})
            self.note(read=[one["subject"] for one in answer.structured_content["messages"]])


class _Declaring(ClientSession):
    """The SDK's own session declares nothing experimental."""

    def __init__(self, wishes: Mapping[str, Any], *streams: Any, **options: Any) -> None:
        super().__init__(*streams, **options)
        self._wishes = wishes

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        built = super()._build_capabilities(version)
        if self._wishes.get("declares"):
            said = {
                "version": self._wishes.get("version", "1.0"),
                "supportedEvents": self._wishes.get("events", EVENTS),
            }
            built.experimental = {CAPABILITY: said}
        return built


if __name__ == "__main__":
    asyncio.run(_Player(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]).play())
