"""The daemon's side of its control socket: answers each line with one line of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Container, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import structlog

from wake_bridge.control.client import SOCKET_NAME, reachable
from wake_bridge.control.peer import is_ours, pid_of_peer
from wake_bridge.domain.errors import LedgerUnwritable, WakeBridgeError

LONGEST_REQUEST: Final = 512 * 1024
"""Bytes: the relay hands a signed wake over, of at most 64 KiB before it is written as JSON."""

AT_ONCE: Final = 32
"""Clients that are served at the same time; one more is hung up on."""

WAITING_AT_ONCE: Final = 256
"""Clients that wait at the same time for something to happen: each is one harness's own program."""

ASKING: Final[ContextVar[int]] = ContextVar("ASKING", default=0)
"""The process whose command is answered; 0 where that cannot be told."""

ASKING_TIME: Final = 5.0
"""Seconds a client has to send its line."""

ANSWERING_TIME: Final = 30.0
"""Seconds for the answer, the look at a pane included."""

Answer = Mapping[str, Any]
Handler = Callable[[Mapping[str, Any]], Awaitable[Answer]]


class ControlServer:
    """Answers commands on the socket; only the own user can reach it, and the kernel is asked who it is.

    Args:
        state_dir: where the socket lies, mode 0600.
        handlers: what to do for each `command`.
        patient: those of them that answer when something happens, and bound themselves. Their clients count apart, and
            one that hangs up is not waited for any longer.
    """

    def __init__(self, state_dir: Path, handlers: Mapping[str, Handler], patient: Container[str] = ()) -> None:
        self._state_dir = state_dir
        self._handlers = handlers
        self._patient = patient
        self._server: asyncio.Server | None = None
        self._served = 0
        self._waiting = 0
        self._log = structlog.get_logger("control")

    async def start(self) -> None:
        """Listen. A socket left by a dead daemon is replaced: the instance lock is ours.

        Raises:
            LedgerUnwritable: something else lies in its place, or the state directory refuses.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            (self._state_dir / SOCKET_NAME).unlink(missing_ok=True)
            with reachable(self._state_dir) as path:
                listener.bind(path)
                os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)  # noqa: PTH101 - one quick call, at start
        except OSError as refusal:
            listener.close()
            raise LedgerUnwritable(
                f"the control socket cannot be made ({refusal.strerror})",
                str(self._state_dir / SOCKET_NAME),
                hint="remove what lies there, and give this user write access to the state directory",
            ) from refusal
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=LONGEST_REQUEST)

    async def stay(self) -> None:
        """Listen anew if the socket was deleted; raises as `start` does."""
        if not (self._state_dir / SOCKET_NAME).exists():
            if self._server is not None:
                self._server.close()
            await self.start()

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(FileNotFoundError):
            (self._state_dir / SOCKET_NAME).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._take(reader, writer)
            if request is not None:
                await self._wait_with(request, reader, writer)
        except (OSError, TimeoutError, ValueError) as trouble:
            self._log.debug("control_dropped", reason=str(trouble))
            writer.transport.abort()
        finally:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Answer one client; what it asks, if that is something it is to wait for."""
        self._served += 1
        try:
            if not is_ours(writer.get_extra_info("socket")):
                self._log.warning("control_refused", reason="another user")
                return None
            if self._served > AT_ONCE:
                self._log.warning("control_refused", reason=f"more than {AT_ONCE} at once")
                return None
            ASKING.set(pid_of_peer(writer.get_extra_info("socket")))
            # `drain` returns when all of it was taken: nothing is kept for a client that does not read
            writer.transport.set_write_buffer_limits(high=0)
            async with asyncio.timeout(ASKING_TIME):
                request = await reader.readline()
            if _command_of(request) in self._patient:
                return request
            async with asyncio.timeout(ANSWERING_TIME):
                await _say(writer, await self._answer(request))
            return None
        finally:
            self._served -= 1

    async def _wait_with(self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._waiting >= WAITING_AT_ONCE:
            self._log.warning("control_refused", reason=f"more than {WAITING_AT_ONCE} wait")
            return
        self._waiting += 1
        answering = asyncio.ensure_future(self._answer(request))
        hung_up = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                async with asyncio.timeout(ASKING_TIME):
                    await _say(writer, await answering)
        finally:
            self._waiting -= 1
            for task in (answering, hung_up):
                task.cancel()
            await asyncio.gather(answering, hung_up, return_exceptions=True)

    async def _answer(self, request: bytes) -> Answer:
        try:
            message = json.loads(request)
            handler = self._handlers[message["command"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": "unknown command", "hint": f"known: {', '.join(sorted(self._handlers))}"}
        try:
            return await handler(message)
        except WakeBridgeError as error:
            return {"error": str(error), "hint": error.hint, "exit_code": error.exit_code}


def _command_of(request: bytes) -> str:
    """What is asked for; empty where that cannot be told."""
    try:
        return str(json.loads(request)["command"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


async def _say(writer: asyncio.StreamWriter, answer: Answer) -> None:
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    writer.write(text.encode("utf-8", "replace") + b"\n")
    await writer.drain()
