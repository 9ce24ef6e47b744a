"""The server of one Copilot program: one JSON-RPC connection to it, framed as language servers frame theirs.

`copilot --ui-server --port N` listens on the loopback, in the process that shows the screen. Its flag is undocumented, its
protocol is that of its maker's SDK, version 3; seen on 1.0.102. Nothing is sent to whoever else may listen at that port. What
the server asks its clients is for the person's own program to answer, and is left unanswered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from wake_bridge_adapters.loopback import Listener, listens_alone
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere, Program

_PROTOCOL: Final = 3
_LENGTH: Final = b"content-length:"
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one answer: a conversation holds what its tools printed."""


class CopilotServer:
    """An open connection to a server that said who it is."""

    def __init__(
        self, program: Program, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait: float
    ) -> None:
        self.program = program
        self.attached: set[str] = set()
        self._reader = reader
        self._writer = writer
        self._wait = wait
        self._calls = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._life = asyncio.create_task(self._read(), name="copilot server")

    @property
    def is_open(self) -> bool:
        """Whether anything can still come through it."""
        return not self._life.done()

    async def call(self, method: str, **parameters: Any) -> Any:
        """Ask, and return what is answered.

        Raises:
            AnswerLost: no answer in time, or the connection ended.
            Declined: the answer is an error.
        """
        if not self.is_open:
            raise AnswerLost("the connection to its server has ended")
        self._calls += 1
        number, answer = self._calls, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}).encode()
        try:
            async with asyncio.timeout(self._wait):
                self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await self._writer.drain()
                return await answer
        except TimeoutError:
            self.close()
            raise AnswerLost(f"its server did not answer {method} in time") from None
        except OSError as ended:
            raise AnswerLost(f"the connection to its server has ended: {ended}") from ended
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """End it now; whoever waits for an answer is told that it is lost."""
        self._life.cancel()
        self._end()

    async def _read(self) -> None:
        try:
            with contextlib.suppress(OSError, ValueError, EOFError):
                while True:
                    self._take(await self._frame())
        finally:
            self._end()

    async def _frame(self) -> Any:
        """Raises `EOFError` at the end, `ValueError` where it makes no sense."""
        length = 0
        while (line := await self._reader.readline()).strip():
            if line.lower().startswith(_LENGTH):
                length = int(line[len(_LENGTH) :])
        if not line or not 0 < length <= _LARGEST:
            raise EOFError
        return json.loads(await self._reader.readexactly(length))

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict) or "method" in message:
            # a request has an id besides: its person's own program answers it
            return
        answer = self._waiting.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if isinstance(error := message.get("error"), dict):
            answer.set_exception(Declined(str(error.get("message", "")), int(error.get("code") or 0)))
        else:
            answer.set_result(message.get("result"))

    def _end(self) -> None:
        self._writer.transport.abort()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(AnswerLost("the connection to its server has ended"))


async def connect(program: Program, at: Listener, token: str, wait: float) -> CopilotServer:
    """Open a connection and ask who it is. Raises `NotThere`."""
    try:
        async with asyncio.timeout(wait):
            reader, writer = await asyncio.open_connection(*at)
    except (OSError, TimeoutError) as refused:
        raise NotThere(f"its server does not answer: {refused}") from refused
    # before the first byte: it must be to that program
    if not await asyncio.to_thread(listens_alone, program.pid, at):
        writer.transport.abort()
        raise NotThere(f"another program answers at {at[0]}:{at[1]}")
    server = CopilotServer(program, reader, writer, wait)
    try:
        told = await server.call("connect", **({"token": token} if token else {}))
        _require_known(told)
    except (AnswerLost, Declined) as no:
        server.close()
        raise NotThere(f"its server did not let us in: {no}") from no
    except BaseException:
        server.close()
        raise
    return server


def _require_known(told: Any) -> None:
    """Raises `NotThere`."""
    version = told.get("protocolVersion") if isinstance(told, Mapping) else None
    if version != _PROTOCOL:
        raise NotThere(f"its server speaks version {version} of the protocol, not {_PROTOCOL}")
