"""How a running fake harness is told what to do: JSON lines through a FIFO or a Unix socket."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


class Channel:
    """JSON lines from a FIFO, or from clients of a Unix socket, which get an answer to each.

    Args:
        path: a FIFO that exists, or where to make the socket; None for no channel.
        obey: does what one message says, and answers.
    """

    def __init__(self, path: Path | None, obey: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self._path = path
        self._obey = obey
        self._server: asyncio.Server | None = None
        self._fifo: int | None = None
        self._pending = b""

    async def __aenter__(self) -> None:
        if self._path is None:
            return
        if self._path.exists() and stat.S_ISFIFO(self._path.stat().st_mode):
            self._fifo = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
            asyncio.get_running_loop().add_reader(self._fifo, self._read_fifo, self._fifo)
        else:
            self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def __aexit__(self, *_: object) -> None:
        if self._fifo is not None:
            asyncio.get_running_loop().remove_reader(self._fifo)
            os.close(self._fifo)
        if self._server is not None and self._path is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    def _read_fifo(self, fifo: int) -> None:
        self._pending += os.read(fifo, 65536)
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            self._answer(line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError, ConnectionError):  # it leaves, or the client has
            while line := await reader.readline():
                writer.write(self._answer(line))
                await writer.drain()
        writer.close()

    def _answer(self, line: bytes) -> bytes:
        try:
            answer = self._obey(json.loads(line))
        except (ValueError, TypeError, AttributeError) as error:
            answer = {"ok": False, "error": str(error)}
        return json.dumps(answer).encode() + b"\n"
