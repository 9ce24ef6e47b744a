"""A tmux server of its own, for tests, demo and benchmarks: private socket, no configuration, removed afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import secrets
import select
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import libtmux
import psutil

from wake_bridge.demo import HUNG
from wake_bridge.demo.sandbox import end_left, end_tmux_with_us, processes_below

_LOOK_EVERY: Final = 0.05


class Typist:
    """Runs `command` in a terminal of that size and types into it. Use as a context manager, or `close` it."""

    def __init__(self, command: Sequence[str], width: int = 80, height: int = 24) -> None:
        self._terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=inner,
                stdout=inner,
                stderr=inner,
                env={**environment, "TERM": "xterm-256color"},
                start_new_session=True,
            )
        finally:
            os.close(inner)
        self._shown = bytearray()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, name=f"typist-{self.process.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The client's process."""
        return self.process.pid

    def _read(self) -> None:
        """Keep the terminal's output flowing: a client whose terminal is full stops working."""
        while not self._ended.is_set():
            try:
                if select.select([self._terminal], [], [], _LOOK_EVERY)[0]:
                    self._shown += os.read(self._terminal, 65536)
            except OSError:  # the client is gone
                return

    def waits_until_shown(self, timeout: float = HUNG) -> None:
        """Wait until the client has drawn something: it is attached.

        Raises:
            TimeoutError: it drew nothing within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._shown:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the client {self.pid} showed nothing")
            time.sleep(_LOOK_EVERY / 5)

    def shown(self) -> str:
        """All the client has drawn, as one text."""
        return self._shown.decode(errors="replace")

    def types(self, keys: str | bytes) -> float:
        """Press these keys at once; the time of it in UTC seconds."""
        at = time.time()
        os.write(self._terminal, keys.encode() if isinstance(keys, str) else keys)
        return at

    def types_at(self, moments: Iterable[tuple[float, str]]) -> list[float]:
        """Press keys, each so many seconds after now; the times in UTC seconds at which they went in."""
        start = time.monotonic()
        pressed = []
        for moment, keys in moments:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            pressed.append(self.types(keys))
        return pressed

    def close(self) -> None:
        """End the client and give its terminal back; a second time changes nothing."""
        if self._ended.is_set():
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._ended.set()
        self._reader.join()
        os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FLAGS: Final = (
    "cursor_x",
    "cursor_y",
    "cursor_flag",
    "pane_width",
    "pane_height",
    "pane_pid",
    "alternate_on",
    "pane_current_command",
    "pane_in_mode",
    "pane_dead",
    "pane_input_off",
    "pane_title",
)
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_POLL: Final = 0.02
_REST: Final = 3
"""How many times as long as a look took is rested before the next one."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a pane: its text with and without SGR, and tmux's formats by name."""

    text: str
    ansi: str
    flags: Mapping[str, str]

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.flags["pane_width"])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.flags["pane_height"])

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        return int(self.flags["cursor_x"]), int(self.flags["cursor_y"])

    @property
    def cursor_visible(self) -> bool:
        """Whether the program shows it."""
        return self.flags["cursor_flag"] == "1"

    @property
    def title(self) -> str:
        """What the program called the pane."""
        return self.flags["pane_title"]


class PrivateTmux:
    """A tmux server on its own socket; a context manager that kills it, by its pid, and all clients it attached.

    `socket_name` is what `tmux -L` takes; `server` the libtmux object. The server starts with the first pane.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.socket_name = f"wake-bridge-{os.getpid()}-{secrets.token_hex(4)}"
        self.server = libtmux.Server(socket_name=self.socket_name, config_file="/dev/null")
        self._environment = dict(environment or {})
        self._typists: list[Typist] = []
        end_tmux_with_us(self.socket_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def socket_path(self) -> Path:
        """The socket's file; it exists while the server runs."""
        directory = Path(os.environ.get("TMUX_TMPDIR") or "/tmp").resolve()  # noqa: S108 - where tmux puts it
        return directory / f"tmux-{os.getuid()}" / self.socket_name

    @property
    def server_pid(self) -> int:
        """The server's process; 0 when none runs."""
        if not self.socket_path.exists():
            return 0
        answer = self._call("display-message", "-p", "#{pid}")
        return int(answer.stdout) if answer.returncode == 0 else 0

    def run(self, *arguments: str, text: str | None = None) -> str:
        """One tmux command; what it printed. `text` goes to its stdin.

        Raises:
            RuntimeError: tmux refused it; says what it complained about.
        """
        answer = self._call(*arguments, text=text)
        if answer.returncode:
            raise RuntimeError(f"tmux {arguments[0]}: {answer.stderr.strip()}")
        return answer.stdout

    def _call(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        tmux = shutil.which("tmux") or "tmux"
        # -u: in a C locale formats would turn every glyph into `_`
        command = [tmux, "-u", "-L", self.socket_name, "-f", "/dev/null", *arguments]
        environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=HUNG, check=False, env=environment
        )

    def new_pane(
        self,
        command: Sequence[str] | str,
        *,
        session: str = "agents",
        width: int = 80,
        height: int = 24,
        environment: Mapping[str, str] | None = None,
    ) -> libtmux.Pane:
        """A pane, in a new window of `session`, which is made with that size when there is none.

        `command` is an argv, or a line for the shell. tmux runs either under a shell that it replaces.

        Raises:
            RuntimeError: tmux refused it; says what it complained about.
        """
        line = command if isinstance(command, str) else "exec " + shlex.join(command)
        settings = [f"-e{name}={value}" for name, value in {**self._environment, **(environment or {})}.items()]
        what = ["-d", "-P", "-F", "#{pane_id}", *settings, line]
        deadline = time.monotonic() + HUNG
        while True:
            made = self._call("new-session", "-s", session, "-x", str(width), "-y", str(height), *what)
            # a server whose last pane has just been closed still answers, and ends
            if "server exited" not in made.stderr or time.monotonic() > deadline:
                break
            time.sleep(_POLL)
        if "duplicate session" in made.stderr:
            made = self._call("new-window", "-t", f"={session}:", *what)
        if made.returncode:
            raise RuntimeError(f"tmux makes no pane in {session}: {made.stderr.strip()}")
        return libtmux.Pane(server=self.server, pane_id=made.stdout.strip())

    def look(self, pane: libtmux.Pane) -> Look:
        """What the pane shows now."""
        target = str(pane.pane_id)
        between = f"~{secrets.token_hex(4)}~"  # printable: tmux 3.4 to 3.5 spell control characters out
        formats = between.join(f"#{{{flag}}}" for flag in FLAGS)
        ansi = self.run("capture-pane", "-p", "-e", "-t", target, ";", "display-message", "-p", "-t", target, formats)
        ansi, _, values = ansi.rstrip("\n").rpartition("\n")
        flags = dict(zip(FLAGS, values.split(between), strict=True))
        return Look(_SGR.sub("", ansi), ansi, flags)

    def waits_until(
        self, pane: libtmux.Pane, condition: Callable[[Look], bool], timeout: float = HUNG, what: str = ""
    ) -> Look:
        """The first look at the pane that satisfies `condition`.

        Raises:
            TimeoutError: none did within `timeout` seconds; says what the pane shows instead.
        """
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            look = self.look(pane)
            if condition(look):
                return look
            if time.monotonic() > deadline:
                raise TimeoutError(f"the pane never showed {what or 'what was waited for'}:\n{look.text}\n{look.flags}")
            # a look is a process, and a load of its own
            time.sleep(max(_POLL, _REST * (time.monotonic() - began)))

    def paste(self, pane: libtmux.Pane, text: str) -> None:
        """Paste as a person does with tmux: framed when the program asked for it."""
        buffer = f"paste-{secrets.token_hex(4)}"
        self.run("load-buffer", "-b", buffer, "-", text=text)
        self.run("paste-buffer", "-d", "-p", "-r", "-b", buffer, "-t", str(pane.pane_id))

    def attach(self, session: str = "agents", width: int = 80, height: int = 24) -> Typist:
        """A real client on that session, in a terminal of that size, and somebody at its keys."""
        tmux = shutil.which("tmux") or "tmux"
        command = [tmux, "-u", "-L", self.socket_name, "-f", "/dev/null", "attach-session", "-t", f"={session}"]
        typist = Typist(command, width, height)
        self._typists.append(typist)
        return typist

    def close(self) -> None:
        """End every attached client and the server, and wait until the server is gone."""
        for typist in self._typists:
            typist.close()
        self._typists.clear()
        pid = self.server_pid
        if pid:
            inside = processes_below(pid)
            with suppress(subprocess.TimeoutExpired):
                self._call("kill-server")
            deadline = time.monotonic() + 5
            while _is_running(pid):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(_POLL)
            end_left(inside)
        self.socket_path.unlink(missing_ok=True)  # tmux leaves it behind


def _is_running(pid: int) -> bool:
    """Whether the process lives; one that only waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
