"""One ssh with `wake-bridge relay` at its other end, from the hello until it ends."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, Self

from wake_bridge.config.hosts import LinkedHost
from wake_bridge.ports.hosts import NotSentThere, UnansweredThere
from wake_bridge.program_version import program_version
from wake_bridge.schemas.relay import (
    ALIVE,
    ALIVE_EVERY,
    ANSWER,
    DEAD_AFTER,
    HELLO,
    LONGEST,
    OLDEST,
    PASSED_OVER,
    PROTOCOL,
    STATE,
    Frame,
    NotAFrame,
    hello_in,
    read,
    why_not_spoken,
    written,
)

GREETED_WITHIN: Final = 30.0
"""Seconds from the start of ssh to the hello of the relay."""

ANSWERED_WITHIN: Final = 15.0
"""Seconds for the answer to one frame; longer than the daemon over there takes for it."""

ENDS_WITHIN: Final = 1.0
"""Seconds that ssh has to end by itself."""

SAID_NOTHING: Final = (
    "what was started there has ended: it is no wake-bridge that has links, or its link was ended there"
)

_NOT_FOUND: Final = 127
_COMPLAINTS: Final = 4096
_OPTIONS: Final = (
    "BatchMode=yes",
    # a connection that is there already is used, but none is left behind for others to use
    "ControlMaster=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
)


class LinkBroken(Exception):
    """The link is down; the text says why, in one clause."""


def command_line(host: LinkedHost) -> list[str]:
    """How ssh is called: the user's own configuration says all else, the checks of host keys above all."""
    if host.program:
        there = f"exec {host.program} relay"
    else:
        # a shell that is no login shell often lacks where programs of a person are installed
        there = 'PATH="$PATH:$HOME/.local/bin:/usr/local/bin:/opt/homebrew/bin"; export PATH; exec wake-bridge relay'
    options = [word for one in _OPTIONS for word in ("-o", one)]
    return ["ssh", "-T", *options, "--", host.destination, f"exec sh -c {shlex.quote(there)}"]


class OtherEnd(Protocol):
    """What carries a connection."""

    async def why_ended(self) -> str:
        """Why it has ended, one clause."""

    @property
    def complaint(self) -> str:
        """What it complained of last, after a colon; empty where it did not."""

    async def end(self) -> None:
        """End it, however it stands."""


class HostConnection:
    """See `open`. Frames may be asked while `serve` runs.

    `hello` is what the relay said of itself.

    Args:
        reader: what the relay says.
        writer: what it is told.
        other_end: what carries both.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other_end: OtherEnd) -> None:
        self._reader = reader
        self._writer = writer
        self._other_end = other_end
        self._asked: dict[int, asyncio.Future[Frame]] = {}
        self._last_id = 0
        self._writing = asyncio.Lock()
        self._is_open = True
        self.hello: Frame = {}

    @classmethod
    async def open(cls, host: LinkedHost) -> Self:
        """Start ssh and greet the relay. Raises `LinkBroken`."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command_line(host), stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LONGEST, start_new_session=True
            )
        except OSError as refusal:
            raise LinkBroken(f"ssh cannot be started ({refusal.strerror})") from refusal
        if process.stdin is None or process.stdout is None:
            raise AssertionError("it was started with pipes")
        made = cls(process.stdout, process.stdin, SshProcess(process))
        await made.greet(host.link)
        return made

    async def greet(self, link: str) -> None:
        """Wait for the hello of the relay, and say ours; `link` is the name by which it knows us. Raises `LinkBroken`."""
        try:
            await self._greet(link)
        except BaseException:
            await self.close()
            raise

    async def _greet(self, link: str) -> None:
        passed = 0
        try:
            async with asyncio.timeout(GREETED_WITHIN):
                while passed <= PASSED_OVER:
                    line = await self._line()
                    if (hello := hello_in(line)) is not None:
                        break
                    passed += len(line)
                else:
                    raise LinkBroken(
                        "what the shell over there prints is no hello: wake-bridge is older there, or none"
                    )
        except TimeoutError:
            raise LinkBroken(f"no hello within {GREETED_WITHIN:g} s{self._other_end.complaint}") from None
        if why := why_not_spoken(hello):
            raise LinkBroken(why)
        self.hello = hello
        await self._write(written(HELLO, protocol=PROTOCOL, oldest=OLDEST, version=program_version(), link=link))

    async def serve(self, on_state: Callable[[Frame], None]) -> None:
        """Take frames until the link breaks, which this raises (`LinkBroken`); `on_state` is told of each state."""
        alive = asyncio.create_task(self._stay_alive())
        try:
            while True:
                try:
                    async with asyncio.timeout(DEAD_AFTER):
                        line = await self._line()
                except TimeoutError:
                    raise LinkBroken(f"nothing was heard for {DEAD_AFTER:g} s") from None
                try:
                    frame = read(line)
                except NotAFrame as wrong:
                    raise LinkBroken(f"what came is no frame: {wrong}") from None
                if frame["frame"] == STATE:
                    on_state(frame)
                elif frame["frame"] == ANSWER:
                    asked = self._asked.pop(_id_of(frame), None)
                    # who asked may have given up in this very turn
                    if asked is not None and not asked.done():
                        asked.set_result(frame)
        finally:
            alive.cancel()
            self._give_up()

    async def ask(self, kind: str, **fields: Any) -> Frame:
        """Send a frame that is answered, and wait for the answer. Raises `NotSentThere` or `UnansweredThere`."""
        if not self._is_open:
            raise NotSentThere("the link is down")
        self._last_id += 1
        number = self._last_id
        try:
            line = written(kind, id=number, **fields)
        except NotAFrame as wrong:
            raise NotSentThere(str(wrong)) from None
        asked: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                await self._write(line)
                return await asked
        except TimeoutError:
            raise UnansweredThere(f"no answer within {ANSWERED_WITHIN:g} s") from None
        except LinkBroken as broken:
            raise UnansweredThere(f"the link broke ({broken})") from broken
        finally:
            self._asked.pop(number, None)

    async def close(self) -> None:
        """End it, however it stands."""
        self._give_up()
        self._writer.close()
        await self._other_end.end()
        # what was not read over there is thrown away
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN):
                await self._writer.wait_closed()

    def _give_up(self) -> None:
        self._is_open = False
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(LinkBroken("it ended before the answer came"))
                # who asked may have been cancelled
                asked.exception()

    async def _stay_alive(self) -> None:
        with suppress(LinkBroken):
            while True:
                await asyncio.sleep(ALIVE_EVERY)
                await self._write(written(ALIVE))

    async def _write(self, line: bytes) -> None:
        try:
            async with asyncio.timeout(DEAD_AFTER), self._writing:
                self._writer.write(line)
                await self._writer.drain()
        except TimeoutError:
            raise LinkBroken(f"nothing was read over there for {DEAD_AFTER:g} s") from None
        except (OSError, RuntimeError) as broken:
            raise LinkBroken(str(broken) or "it broke off") from broken

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except (ValueError, OSError) as wrong:
            raise LinkBroken("a line is longer than a frame may be") from wrong
        if not line.endswith(b"\n"):
            raise LinkBroken(await self._other_end.why_ended())
        return line


class SshProcess:
    """See `OtherEnd`: one ssh.

    Args:
        process: started with pipes, in a session of its own.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._complaints = b""
        self._listening = asyncio.create_task(self._listen())

    async def why_ended(self) -> str:
        """Its exit code, and what it complained of."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN):
                await self._process.wait()
                await self._listening
        code = self._process.returncode
        if code == _NOT_FOUND:
            return f"wake-bridge was not found there{self.complaint}"
        return f"ssh ended with {code}{self.complaint}" if code or self.complaint else SAID_NOTHING

    @property
    def complaint(self) -> str:
        """The line of its stderr that says most."""
        lines = [one.strip() for one in self._complaints.decode("utf-8", "replace").splitlines() if one.strip()]
        # an older wake-bridge says what it does not know before it says where help is
        told = next((one for one in lines if one.startswith("error:")), lines[-1] if lines else "")
        return f": {told[:200]}" if told else ""

    async def end(self) -> None:
        """Ask it to end, then make it; and what it has started, such as a ProxyCommand."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.returncode is not None:
                break
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDS_WITHIN):
                    await self._process.wait()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        if self._process.stderr is None:
            raise AssertionError("it was started with a pipe")
        while piece := await self._process.stderr.read(_COMPLAINTS):
            self._complaints = (self._complaints + piece)[-_COMPLAINTS:]


def _id_of(frame: Frame) -> int:
    number = frame.get("id")
    return number if type(number) is int else 0
