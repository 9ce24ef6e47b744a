"""The fake harness as a process that only sleeps in `read`: the same behaviour and screen, for hundreds of panes.

It has no animation, no delays, no commands and no control channel; what is submitted is answered at once. `deaf`, it
shows its idle screen and never reads a byte.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty

from wake_bridge.demo.fake_harness.agent import Agent
from wake_bridge.demo.fake_harness.screen import ENTER_SCREEN, LEAVE_SCREEN, Decoder, Terminal, draw
from wake_bridge.demo.fake_harness.settings import Record, StartSettings

ESCAPE_WAIT = 0.03
"""Seconds after which a lone Escape is a key."""


class QuietProgram:
    """Runs one quiet harness on the terminal at stdin and stdout until the terminal is gone, or it is told to leave."""

    def __init__(self, start: StartSettings, record: Record) -> None:
        self._start = start
        self._agent = Agent(start.name, start.knobs, record, self._answer, self._leave)
        self._decoder = Decoder()
        self._terminal = Terminal(sys.stdout.fileno())
        self._has_left = False

    def run(self) -> int:
        """Until it leaves; the exit status."""
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setraw(descriptor)
        os.write(sys.stdout.fileno(), ENTER_SCREEN)
        signal.signal(signal.SIGWINCH, lambda *_: self._resized())
        self._agent.show(self._start.mode, self._start.text)
        self._redraw()
        width, height = _size()
        self._agent.log("started", pid=os.getpid(), argv=sys.argv, width=width, height=height)
        while self._start.deaf:
            signal.pause()
        try:
            while not self._has_left and (chunk := self._read(descriptor)) is not None:
                self._take(chunk)
        finally:
            self._agent.log("exited", crashed=False)
        os.write(sys.stdout.fileno(), LEAVE_SCREEN)
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
        return 0

    def _read(self, descriptor: int) -> bytes | None:
        """The next bytes; none of them when an Escape has stood alone for long enough; None at the end."""
        if self._decoder.has_lone_escape and not select.select([descriptor], [], [], ESCAPE_WAIT)[0]:
            return b""
        try:
            return os.read(descriptor, 65536) or None
        except OSError:
            return None

    def _take(self, chunk: bytes) -> None:
        if chunk:
            self._agent.log("bytes", hex=chunk.hex())
        for item in self._decoder.feed(chunk) if chunk else self._decoder.flush_escape():
            self._agent.take(item)
        self._redraw()

    def _answer(self, _: str) -> None:
        self._agent.say("Noted.")
        self._agent.log("answered")

    def _leave(self, _: bool) -> None:  # noqa: FBT001
        self._has_left = True

    def _resized(self) -> None:
        self._terminal.forget()
        self._redraw()

    def _redraw(self) -> None:
        self._terminal.show(draw(self._agent.view, *_size()))
        self._agent.was_drawn()


def _size() -> tuple[int, int]:
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns, size.lines
