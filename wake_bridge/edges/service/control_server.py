"""The daemon's end of its control socket: answers one JSON object a line with one answer a line (DESIGN §9)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.edges.service.control_socket import SOCKET_NAME, reachable

Answer = Mapping[str, Any]
Handler = Callable[[Mapping[str, Any]], Awaitable[Answer]]


class ControlServer:
    """Answers commands on the socket; only the own user can reach it.

    Args:
        state_dir: where the socket lies, mode 0600.
        handlers: what to do for each `command`.
    """

    def __init__(self, state_dir: Path, handlers: Mapping[str, Handler]) -> None:
        self._state_dir = state_dir
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._log = structlog.get_logger("control")

    async def start(self) -> None:
        """Listen. A socket left by a dead daemon is replaced: the instance lock is ours."""
        with contextlib.suppress(FileNotFoundError):
            (self._state_dir / SOCKET_NAME).unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with reachable(self._state_dir) as path:
            listener.bind(path)
            os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)  # noqa: PTH101 - one quick call, at start
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=64 * 1024)

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(FileNotFoundError):
            (self._state_dir / SOCKET_NAME).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(30):
                request = await reader.readline()
                answer = await self._answer(request)
                writer.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError) as trouble:
            self._log.debug("control_dropped", reason=str(trouble))
        finally:
            writer.close()

    async def _answer(self, request: bytes) -> Answer:
        try:
            message = json.loads(request)
            handler = self._handlers[message["command"]]
        except (ValueError, KeyError, TypeError):
            return {"error": "unknown command", "hint": f"known: {', '.join(sorted(self._handlers))}"}
        try:
            return await handler(message)
        except WakeBridgeError as error:
            return {"error": str(error), "hint": error.hint, "exit_code": error.exit_code}
