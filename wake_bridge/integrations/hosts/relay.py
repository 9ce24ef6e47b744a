"""The relay, which another host starts here by ssh: hands its wakes to the daemon of this host, and tells how the agents stand.

It is no daemon: it keeps nothing and decides nothing. What it says of a wake the daemon has said.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.hosts import HostsFile
from wake_bridge.control.client import ask
from wake_bridge.domain.errors import NotRunning, OperationFailed, WakeBridgeError
from wake_bridge.domain.hosts import is_host_name
from wake_bridge.domain.receivers import Secret, why_no_key
from wake_bridge.program_version import program_version
from wake_bridge.schemas.relay import (
    ALIVE,
    ALIVE_EVERY,
    ANSWER,
    ASK,
    DEAD_AFTER,
    HELLO,
    ITSELF,
    JOIN,
    LEAVE,
    LONGEST,
    OLDEST,
    PROTOCOL,
    STATE,
    WAKE,
    Frame,
    NotAFrame,
    hello_in,
    read,
    why_not_spoken,
    written,
)
from wake_bridge.system.garbage import collect_as_usual

LOOKED_EVERY: Final = 2.0
"""Seconds between two looks at how the agents stand."""

ANSWERED_WITHIN: Final = 12.0
"""Seconds that the daemon has for a wake or a question: a little more than it needs to be busy, less than the other side waits."""

AT_ONCE: Final = 8
"""Frames that are worked on at the same time; one more is not read before."""

ASKED: Final = frozenset({"relay_activity", "relay_answered", "relay_answers", "relay_outcome", "relay_panes"})
"""What may be asked of the daemon over a link."""

_UNAVAILABLE: Final = 503


class _Ended(Exception):
    """The other side has gone."""


class Relay:
    """Serves one link over two pipes, until the other side ends it.

    Args:
        state_dir: of the daemon of this host.
        reader: what the other side says.
        writer: what it is told.
    """

    def __init__(self, state_dir: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._state_dir = state_dir
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._permits = asyncio.Semaphore(AT_ONCE)
        self._looks = asyncio.Event()
        self._link = ""
        # a daemon that hangs must keep nobody from hearing that it does
        self._at_work = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="relay")
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="relay-look")

    async def run(self) -> None:
        """From the hello to the end."""
        try:
            # a shell may have printed half a line before
            hello = written(
                HELLO, protocol=PROTOCOL, oldest=OLDEST, version=program_version(), host=socket.gethostname()
            )
            await self._write(b"\n" + hello)
            theirs = hello_in(await self._line())
            if theirs is None or why_not_spoken(theirs):
                return
            self._link = str(theirs.get("link", ""))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tell_state())
                group.create_task(self._stay_alive())
                await self._serve(group)
        except* _Ended:
            pass

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                frame = read(await self._line())
            except NotAFrame as wrong:
                raise _Ended from wrong
            if frame["frame"] in {WAKE, ASK, JOIN, LEAVE}:
                # while all hands are full nothing more is read
                await self._permits.acquire()
                group.create_task(self._work(frame))

    async def _work(self, frame: Frame) -> None:
        try:
            said = await asyncio.get_running_loop().run_in_executor(self._at_work, partial(self._answer, frame))
        finally:
            self._permits.release()
        await self._write(written(ANSWER, id=frame.get("id"), **said))
        if frame["frame"] != ASK:
            self._looks.set()

    def _answer(self, frame: Frame) -> Mapping[str, Any]:
        try:
            match frame["frame"]:
                case "join":
                    return self._join(str(frame.get("link", "")), str(frame.get("key", "")))
                case "leave":
                    return {"status": 200, "was": HostsFile(self._state_dir).shut_out(self._link)}
                case "wake":
                    told = {"link": self._link, "body": frame.get("body"), "signature": frame.get("signature")}
                    return dict(ask(self._state_dir, "relay_wake", timeout=ANSWERED_WITHIN, **told))
            command = str(frame.get("command"))
            if command not in ASKED:
                return {"status": 404, "why": f"this release does not answer {command}"}
            request = frame.get("request")
            fields = request if isinstance(request, dict) else {}
            return {
                "status": 200,
                "said": ask(self._state_dir, command, timeout=ANSWERED_WITHIN, link=self._link, **fields),
            }
        except WakeBridgeError as trouble:
            return {"status": _UNAVAILABLE, "why": str(trouble)}
        except (TypeError, ValueError) as wrong:
            return {"status": 400, "why": str(wrong)}

    def _join(self, link: str, key: str) -> Mapping[str, Any]:
        if not is_host_name(link) or why_no_key(key):
            return {"status": 400, "why": "a link needs a name and a key"}
        file = HostsFile(self._state_dir)
        if link == file.known().own:
            return {"status": ITSELF, "why": "it is the host that asks"}
        file.let_in(link, Secret(key))
        self._link = link
        return {"status": 200, **self._state()}

    async def _tell_state(self) -> None:
        """Whenever something is different."""
        told: Mapping[str, Any] | None = None
        while True:
            self._looks.clear()
            state = await asyncio.get_running_loop().run_in_executor(self._looking, self._state)
            if state != told:
                try:
                    await self._write(written(STATE, **state))
                except NotAFrame as wrong:
                    await self._write(written(STATE, trouble=f"it has too many agents to tell ({wrong})"))
                told = state
            try:
                async with asyncio.timeout(LOOKED_EVERY):
                    await self._looks.wait()
            except TimeoutError:
                pass

    def _state(self) -> Mapping[str, Any]:
        try:
            return ask(self._state_dir, "relay_state", timeout=ANSWERED_WITHIN, link=self._link)
        except NotRunning:
            return {"trouble": "no daemon runs there: `wake-bridge run` or `wake-bridge serve` starts one"}
        except OperationFailed as stuck:
            return {"trouble": f"its daemon does not answer: {stuck.what}"}

    async def _stay_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_EVERY)
            await self._write(written(ALIVE))

    async def _line(self) -> bytes:
        try:
            async with asyncio.timeout(DEAD_AFTER):
                line = await self._reader.readline()
        except (TimeoutError, ValueError, OSError) as gone:
            raise _Ended from gone
        if not line.endswith(b"\n"):
            raise _Ended
        return line

    async def _write(self, line: bytes) -> None:
        try:
            async with asyncio.timeout(DEAD_AFTER), self._writing:
                self._writer.write(line)
                await self._writer.drain()
        except (TimeoutError, OSError, RuntimeError) as gone:
            raise _Ended from gone


def run_relay(state_dir: Path) -> None:
    """Serve the link on stdin and stdout, until it ends; leaves at once, whatever a thread still waits for."""
    collect_as_usual()
    asyncio.run(_run(state_dir))
    os._exit(0)


async def _run(state_dir: Path) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    # nothing is kept for a reader that does not read
    transport.set_write_buffer_limits(high=0)
    await Relay(state_dir, reader, asyncio.StreamWriter(transport, protocol, None, loop)).run()
