"""The fake harness as a process: terminal, timers, commands and the control channel around the agent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import termios
import threading
import tty
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from wake_bridge.demo.fake_harness.agent import Agent
from wake_bridge.demo.fake_harness.screen import (
    ENTER_SCREEN,
    LEAVE_SCREEN,
    Decoder,
    Input,
    Pasted,
    Picture,
    Terminal,
    draw,
)
from wake_bridge.demo.fake_harness.settings import Knobs, Mode, Record, StartSettings


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


BEAT: Final = 0.25
"""Seconds between two pictures of an animation."""

ESCAPE_WAIT: Final = 0.03
"""Seconds after which a lone Escape is a key."""

COMMAND_TIMEOUT: Final = 60.0
"""Seconds a command of `on_submit` or `inbox_command` may take."""


CRASHED: Final = 70
"""The exit status of a crash."""


class Program:
    """Runs one fake harness on the terminal at stdin and stdout until it is told to leave."""

    def __init__(self, start: StartSettings, record: Record) -> None:
        self._start = start
        self._agent = Agent(start.name, start.knobs, record, self._begin_turn, self._leave)
        self._decoder = Decoder()
        self._terminal = Terminal(sys.stdout.fileno())
        self._waiting: deque[tuple[float, Input]] = deque()
        self._turns: set[asyncio.Task[None]] = set()
        self._pictures = self._shown = 0
        self._left: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Until it leaves; the exit status. A crash ends the process here, and leaves its picture on the screen."""
        loop = asyncio.get_running_loop()
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setraw(descriptor)
        os.write(sys.stdout.fileno(), ENTER_SCREEN)
        loop.add_reader(descriptor, self._receive)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        for one in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(one, self._leave, False)  # noqa: FBT003
        width, height = _size()
        if self._start.client_of:
            from wake_bridge.demo.fake_harness.terminal import stay_connected  # noqa: PLC0415 - only then

            threading.Thread(target=stay_connected, args=(self._start.client_of,), daemon=True).start()
        self._agent.log("started", pid=os.getpid(), argv=sys.argv, width=width, height=height)
        self._agent.show(self._start.mode, self._start.text)
        crashed = True
        try:
            async with Channel(self._start.control, self._command):
                animation = asyncio.create_task(self._animate())
                self._redraw()
                crashed = await self._left
                animation.cancel()
                for turn in self._turns:
                    turn.cancel()
        finally:
            loop.remove_reader(descriptor)
            self._agent.log("exited", crashed=crashed)
            if not crashed:
                os.write(sys.stdout.fileno(), LEAVE_SCREEN)
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        if crashed:
            os._exit(CRASHED)
        return 0

    def _receive(self) -> None:
        """There is input: read it, or leave it in the terminal for as long as is set."""
        knobs, loop, descriptor = self._agent.knobs, asyncio.get_running_loop(), sys.stdin.fileno()
        delay = knobs.enter_read_delay if self._agent.view.editor.text else knobs.paste_read_delay
        if not delay:
            self._read()
            return
        loop.remove_reader(descriptor)
        loop.call_later(delay / 1000, self._read_late, descriptor)

    def _read_late(self, descriptor: int) -> None:
        if not self._left.done():
            asyncio.get_running_loop().add_reader(descriptor, self._receive)
            self._read()

    def _read(self) -> None:
        try:
            chunk = os.read(sys.stdin.fileno(), 65536)
        except OSError:
            chunk = b""
        if not chunk:
            self._leave(False)  # noqa: FBT003
            return
        self._agent.log("bytes", hex=chunk.hex())
        for item in self._decoder.feed(chunk):
            self._queue(item)
        if self._decoder.has_lone_escape:
            asyncio.get_running_loop().call_later(ESCAPE_WAIT, self._flush_escape)
        self._work_off()

    def _flush_escape(self) -> None:
        for item in self._decoder.flush_escape():
            self._queue(item)
        self._work_off()

    def _queue(self, item: Input) -> None:
        """Line an input up behind its delay and behind what came before it."""
        knobs = self._agent.knobs
        delay = (knobs.paste_delay if isinstance(item, Pasted) else knobs.echo_delay) / 1000
        due = asyncio.get_running_loop().time() + delay
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, item))

    def _work_off(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= loop.time():
            self._agent.take(self._waiting.popleft()[1])
        if self._waiting:
            loop.call_at(self._waiting[0][0], self._work_off)
        self._redraw()

    def _redraw(self) -> None:
        self._pictures += 1
        picture = draw(self._agent.view, *_size())
        if delay := self._agent.knobs.draw_delay:
            asyncio.get_running_loop().call_later(delay / 1000, self._show, self._pictures, picture)
        else:
            self._show(self._pictures, picture)

    def _show(self, number: int, picture: Picture) -> None:
        """Show a picture, unless a later one has overtaken it: the delay may be turned while some wait."""
        if self._left.done() or number < self._shown:
            return
        self._shown = number
        self._terminal.show(picture)
        self._agent.was_drawn()

    def _resized(self) -> None:
        self._agent.log("resized", size=_size())
        self._terminal.forget()
        self._redraw()

    async def _animate(self) -> None:
        view = self._agent.view
        beats = 0
        while True:
            await asyncio.sleep(BEAT)
            beats += 1
            if self._agent.knobs.ticks:
                view.ticks = beats
                self._redraw()
            if view.mode not in {Mode.BUSY, Mode.STREAMING}:
                continue
            view.beat += 1
            view.elapsed = beats // 4
            if view.mode is Mode.STREAMING and beats % 6 == 0:  # it streams in bursts, like the real ones
                view.transcript.append(f"  and then word {beats}")
            self._redraw()

    def _leave(self, crashed: bool) -> None:  # noqa: FBT001
        if not self._left.done():
            self._left.set_result(crashed)

    def _begin_turn(self, text: str) -> None:
        turn = asyncio.create_task(self._turn(text))
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)

    async def _turn(self, text: str) -> None:
        """Work on a submitted message: busy for the time that is set and until its commands are done, then answer."""
        knobs, view = self._agent.knobs, self._agent.view
        is_wake = text.startswith("[WAKE]")
        answer = "Noted."
        if knobs.transcript_delay:
            await asyncio.sleep(knobs.transcript_delay / 1000)
            self._agent.keep(text)
        if knobs.reply_after or knobs.on_submit or (knobs.inbox_command and is_wake):
            view.mode = Mode.BUSY
            self._redraw()
            await asyncio.sleep(knobs.reply_after / 1000)
            if knobs.on_submit:
                await self._execute("on-submit", knobs.on_submit, text)
            if knobs.inbox_command and is_wake:
                answer = await self._execute("inbox", knobs.inbox_command, text)
            if view.mode is Mode.BUSY:
                view.mode = Mode.IDLE
        self._agent.say(answer)
        self._agent.log("answered")
        self._redraw()

    async def _execute(self, event: str, command: str, text: str) -> str:
        """Run a command without the terminal; its output."""
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "WAKE_BRIDGE_TEST_FAKE_TEXT": text, "WAKE_BRIDGE_TEST_FAKE_NAME": self._agent.view.name},
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), COMMAND_TIMEOUT)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        shown = output.decode("utf-8", "replace")
        self._agent.log(event, status=process.returncode, output=shown)
        return shown

    def _command(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Obey one control message; the state after it."""
        agent = self._agent
        for name, value in message.get("set", {}).items():
            if name not in {field.name for field in fields(Knobs)}:
                return {"ok": False, "error": f"there is no knob {name!r}"}
            setattr(agent.knobs, name, value)
        if "mode" in message:
            try:
                mode = Mode(message["mode"])
            except ValueError:
                return {"ok": False, "error": f"there is no mode {message['mode']!r}"}
            agent.show(mode, message.get("text", ""), keep=message.get("keep", False))
        if "say" in message:
            agent.say(message["say"])
        self._redraw()
        editor = agent.view.editor
        return {
            "ok": True,
            "mode": agent.view.mode.value,
            "composer": editor.text,
            "cursor": editor.cursor,
            "submits": agent.submits,
        }


def _size() -> tuple[int, int]:
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns, size.lines
