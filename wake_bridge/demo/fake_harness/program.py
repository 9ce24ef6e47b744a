"""The fake harness as a process: terminal, timers, commands and the control channel around the agent."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from wake_bridge.demo.fake_harness.agent import Agent
from wake_bridge.demo.fake_harness.loop import Command, Loop
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
from wake_bridge.demo.fake_harness.settings import KNOBS, Mode, Record, StartSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class Channel:
    """JSON lines from a FIFO, or from clients of a Unix socket, which get an answer to each.

    Args:
        loop: calls it when a line comes.
        path: a FIFO that exists, or where to make the socket; empty for no channel.
        obey: does what one message says, and answers.
    """

    def __init__(self, loop: Loop, path: str, obey: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self._loop = loop
        self._path = path
        self._obey = obey
        self._server: socket.socket | None = None
        self._clients: dict[socket.socket, bytes] = {}
        self._fifo: int | None = None
        self._pending = b""

    def __enter__(self) -> Self:
        if not self._path:
            return self
        if _is(stat.S_ISFIFO, self._path):
            self._fifo = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
            self._loop.reads(self._fifo, self._read_fifo)
            return self
        # what one that was killed has left there
        if _is(stat.S_ISSOCK, self._path):
            os.unlink(self._path)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self._path)
        self._server.listen()
        self._loop.reads(self._server.fileno(), self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        if self._fifo is not None:
            self._loop.forgets(self._fifo)
            os.close(self._fifo)
        for client in [*self._clients]:
            self._drop(client)
        if self._server is not None:
            self._loop.forgets(self._server.fileno())
            self._server.close()
            if _is(stat.S_ISSOCK, self._path):
                os.unlink(self._path)

    def _read_fifo(self) -> None:
        if self._fifo is not None:
            self._pending += os.read(self._fifo, 65536)
            *lines, self._pending = self._pending.split(b"\n")
            for line in lines:
                self._answer(line)

    def _accept(self) -> None:
        if self._server is not None:
            client, _ = self._server.accept()
            self._clients[client] = b""
            self._loop.reads(client.fileno(), lambda: self._serve(client))

    def _serve(self, client: socket.socket) -> None:
        try:
            chunk = client.recv(65536)
            *lines, self._clients[client] = (self._clients[client] + chunk).split(b"\n")
            for line in lines:
                client.sendall(self._answer(line))
        except OSError:
            chunk = b""
        if not chunk:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        self._loop.forgets(client.fileno())
        del self._clients[client]
        client.close()

    def _answer(self, line: bytes) -> bytes:
        try:
            answer = self._obey(json.loads(line))
        except (ValueError, TypeError, AttributeError) as error:
            answer = {"ok": False, "error": str(error)}
        return json.dumps(answer).encode() + b"\n"


def _is(kind: Callable[[int], bool], path: str) -> bool:
    """Whether a file of that kind lies there."""
    try:
        return kind(os.stat(path).st_mode)
    except OSError:
        return False


BEAT = 0.25
"""Seconds between two pictures of an animation."""

ESCAPE_WAIT = 0.03
"""Seconds after which a lone Escape is a key."""

CRASHED = 70
"""The exit status of a crash."""


class Program:
    """Runs one fake harness on the terminal at stdin and stdout until it is told to leave."""

    def __init__(self, start: StartSettings, record: Record) -> None:
        self._start = start
        self._agent = Agent(start.name, start.knobs, record, self._begin_turn, self._leave)
        self._decoder = Decoder()
        self._terminal = Terminal(sys.stdout.fileno())
        self._waiting: deque[tuple[float, Input]] = deque()
        self._pictures = self._shown = 0
        self._loop = Loop()
        self._born = time.monotonic()
        self._is_animated = False
        self._has_left: bool | None = None
        """Whether it crashed, once it has left."""

    def run(self) -> int:
        """Until it leaves; the exit status. A crash ends the process here, and leaves its picture on the screen."""
        loop = self._loop
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setraw(descriptor)
        os.write(sys.stdout.fileno(), ENTER_SCREEN)
        loop.reads(descriptor, self._receive)
        loop.on_signal(signal.SIGWINCH, self._resized)
        for one in (signal.SIGTERM, signal.SIGHUP):
            loop.on_signal(one, lambda: self._leave(False))  # noqa: FBT003
        width, height = _size()
        if self._start.client_of:
            import threading  # noqa: PLC0415 - only then

            from wake_bridge.demo.fake_harness.terminal import stay_connected  # noqa: PLC0415 - the same

            threading.Thread(target=stay_connected, args=(self._start.client_of,), daemon=True).start()
        crashed = True
        try:
            with Channel(loop, self._start.control, self._command):
                # who waits for this may take the channel's directory away at once
                self._agent.log("started", pid=os.getpid(), argv=sys.argv, width=width, height=height)
                self._agent.show(self._start.mode, self._start.text)
                self._redraw()
                loop.run_until(lambda: self._has_left is not None)
                crashed = bool(self._has_left)
                loop.close()
        finally:
            self._agent.log("exited", crashed=crashed)
            if not crashed:
                os.write(sys.stdout.fileno(), LEAVE_SCREEN)
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        if crashed:
            os._exit(CRASHED)
        return 0

    def _receive(self) -> None:
        """There is input: read it, or leave it in the terminal for as long as is set."""
        knobs, descriptor = self._agent.knobs, sys.stdin.fileno()
        delay = knobs.enter_read_delay if self._agent.view.editor.text else knobs.paste_read_delay
        if not delay:
            self._read()
            return
        self._loop.forgets(descriptor)
        self._loop.later(delay / 1000, self._read_late)

    def _read_late(self) -> None:
        self._loop.reads(sys.stdin.fileno(), self._receive)
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
            self._loop.later(ESCAPE_WAIT, self._flush_escape)
        self._work_off()

    def _flush_escape(self) -> None:
        for item in self._decoder.flush_escape():
            self._queue(item)
        self._work_off()

    def _queue(self, item: Input) -> None:
        """Line an input up behind its delay and behind what came before it."""
        knobs = self._agent.knobs
        delay = (knobs.paste_delay if isinstance(item, Pasted) else knobs.echo_delay) / 1000
        due = time.monotonic() + delay
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, item))

    def _work_off(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            self._agent.take(self._waiting.popleft()[1])
        if self._waiting:
            self._loop.at(self._waiting[0][0], self._work_off)
        self._redraw()

    def _redraw(self) -> None:
        self._pictures += 1
        try:
            picture = draw(self._agent.view, *_size())
        except OSError:
            # the terminal is gone, and SIGHUP on its way
            return
        if delay := self._agent.knobs.draw_delay:
            number = self._pictures
            self._loop.later(delay / 1000, lambda: self._show(number, picture))
        else:
            self._show(self._pictures, picture)
        if not self._is_animated and self._has_animation():
            self._is_animated = True
            self._loop.at(self._born + (self._beats() + 1) * BEAT, self._animate)

    def _show(self, number: int, picture: Picture) -> None:
        """Show a picture, unless a later one has overtaken it: the delay may be turned while some wait."""
        if self._has_left is not None or number < self._shown:
            return
        self._shown = number
        try:
            self._terminal.show(picture)
        except OSError:
            return
        self._agent.was_drawn()

    def _resized(self) -> None:
        self._agent.log("resized", size=_size())
        self._terminal.forget()
        self._redraw()

    def _has_animation(self) -> bool:
        return self._agent.knobs.ticks or self._agent.view.mode in {Mode.BUSY, Mode.STREAMING}

    def _beats(self) -> int:
        return int((time.monotonic() - self._born) / BEAT)

    def _animate(self) -> None:
        """The next picture; an idle one without a clock has none, and sleeps."""
        self._is_animated = False
        view, beats = self._agent.view, self._beats()
        if self._agent.knobs.ticks:
            view.ticks = beats
        if view.mode in {Mode.BUSY, Mode.STREAMING}:
            view.beat += 1
            view.elapsed = beats // 4
            if view.mode is Mode.STREAMING and beats % 6 == 0:  # it streams in bursts, like the real ones
                view.transcript.append(f"  and then word {beats}")
        self._redraw()

    def _leave(self, crashed: bool) -> None:  # noqa: FBT001
        if self._has_left is None:
            self._has_left = crashed

    def _begin_turn(self, text: str) -> None:
        self._loop.later(0, lambda: self._loop.goes_through(self._turn(text)))

    def _turn(self, text: str) -> Iterator[float | Command]:
        """Work on a submitted message: busy for the time that is set and until its commands are done, then answer."""
        knobs, view = self._agent.knobs, self._agent.view
        is_wake = text.startswith("[WAKE]")
        answer = "Noted."
        if knobs.transcript_delay:
            yield knobs.transcript_delay / 1000
            self._agent.keep(text)
        if knobs.reply_after or knobs.on_submit or (knobs.inbox_command and is_wake):
            view.mode = Mode.BUSY
            self._redraw()
            yield knobs.reply_after / 1000
            if knobs.on_submit:
                yield (command := self._prepared(knobs.on_submit, text))
                self._shown_by("on-submit", command)
            if knobs.inbox_command and is_wake:
                yield (command := self._prepared(knobs.inbox_command, text))
                answer = self._shown_by("inbox", command)
            if view.mode is Mode.BUSY:
                view.mode = Mode.IDLE
        self._agent.say(answer)
        self._agent.log("answered")
        self._redraw()

    def _prepared(self, line: str, text: str) -> Command:
        told = {"WAKE_BRIDGE_TEST_FAKE_TEXT": text, "WAKE_BRIDGE_TEST_FAKE_NAME": self._agent.view.name}
        return Command(line, {**os.environ, **told})

    def _shown_by(self, event: str, command: Command) -> str:
        """What a command printed, recorded."""
        shown = command.output.decode("utf-8", "replace")
        self._agent.log(event, status=command.status, output=shown)
        return shown

    def _command(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Obey one control message; the state after it."""
        agent = self._agent
        for name, value in message.get("set", {}).items():
            if name not in KNOBS:
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
