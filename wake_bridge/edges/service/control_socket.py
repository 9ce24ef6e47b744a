"""The daemon's control socket: one JSON object a line, one answer a line (DESIGN §9)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from wake_bridge.domain.errors import NotRunning, OperationFailed, WakeBridgeError

SOCKET_NAME: Final = "daemon.sock"
LONGEST_PATH: Final = 100
"""Bytes; the system's own limit lies a little above, on every platform."""

Answer = Mapping[str, Any]
Handler = Callable[[Mapping[str, Any]], Awaitable[Answer]]


@contextlib.contextmanager
def _reachable(state_dir: Path) -> Iterator[str]:
    """A path to the socket that is short enough for the system, however deep the directory lies."""
    path = str(state_dir / SOCKET_NAME)
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    directory = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET_NAME}"
    finally:
        os.close(directory)


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
        with _reachable(self._state_dir) as path:
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


def ask(state_dir: Path, command: str, /, timeout: float = 5.0, **arguments: Any) -> Mapping[str, Any]:
    """Ask the daemon and wait at most `timeout` seconds for its answer.

    Raises:
        NotRunning: nobody listens.
        OperationFailed: it answered with an error, or not in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout)
        try:
            with _reachable(state_dir) as path:
                channel.connect(path)
            channel.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            answer = json.loads(channel.makefile("rb").readline())
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as absent:
            raise NotRunning(
                "the daemon is not running", str(state_dir), hint="start it: `wake-bridge run`"
            ) from absent
        except (OSError, ValueError) as broken:
            raise OperationFailed(
                "the daemon did not answer", str(state_dir), hint="see `wake-bridge logs`"
            ) from broken
    if "error" in answer:
        raise OperationFailed(str(answer["error"]), "daemon", hint=str(answer.get("hint", "")))
    return dict(answer)


def poke(state_dir: Path) -> None:
    """Tell the daemon, if there is one, that something changed; never fails."""
    with contextlib.suppress(NotRunning, OperationFailed):
        ask(state_dir, "poke", timeout=0.5)
