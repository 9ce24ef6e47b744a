"""Daemons that are born by `fork` from a process which has the program imported already.

Starting an interpreter and importing costs half a second of a processor; a thousand deaths are then mostly births. What is
born is a process of its own like any other: it reads its configuration, opens its files and dies of the same signals.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.torture.report import DOCS
from wake_bridge.testing.sandbox import DaemonProcess, Sandbox

IMPORTED: Final = (
    "wake_bridge.daemon",
    "wake_bridge.cli.daemon",
    "wake_bridge.testing.crash_points",
    "adapters.tmux",
    "adapters.heartbeat",
    "adapters.osascript",
    "apscheduler.schedulers.asyncio",
    "watchfiles",
)
_POLL: Final = 0.02
_opening: Final = threading.Lock()
_MESSAGE: Final = 1 << 20


class Born:
    """A process born in the nursery, with what of `subprocess.Popen` is asked of a daemon."""

    def __init__(self, place: str, pid: int) -> None:
        self._place = place
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = _ask(self._place, {"poll": self.pid})["code"]
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(_POLL)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut does."""
        self.send_signal(signal.SIGKILL)


class BornDaemon(DaemonProcess):
    """A daemon from the nursery."""

    def __init__(self, module: str, arguments: list[str], environment: Mapping[str, str], sandbox: Sandbox) -> None:
        self._output = sandbox.home / f"daemon-{time.time_ns()}.log"
        order = {"module": module, "arguments": arguments, "environment": dict(environment), "home": str(sandbox.home)}
        with self._output.open("wb") as stream:
            place = nursery()
            self.process = Born(place, _ask(place, order, stream.fileno())["pid"])  # type: ignore[assignment]


class NurserySandbox(Sandbox):
    """A sandbox whose daemons come from the nursery; its commands are processes as ever."""

    def daemon_under_way(self, *options: str, environment: Mapping[str, str] | None = None) -> DaemonProcess:
        """See `Sandbox.daemon_under_way`."""
        *_, module = self.command
        daemon = BornDaemon(module, ["run", *options], {**self.environment, **(environment or {})}, self)
        self.daemons.append(daemon)
        return daemon


def nursery() -> str:
    """The socket of this process's nursery; it is opened with the first birth, and ends with this process."""
    with _opening:
        return _opened()


@functools.cache
def _opened() -> str:
    directory = tempfile.TemporaryDirectory(prefix="wbn-")
    place = str(Path(directory.name) / "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.torture.nursery", place], stdin=subprocess.PIPE, cwd=DOCS.parent
    )
    deadline = time.monotonic() + 120
    while not Path(place).exists():
        if time.monotonic() > deadline or process.poll() is not None:
            raise TimeoutError("the nursery does not open")
        time.sleep(_POLL)

    def end() -> None:
        process.kill()
        process.wait()
        directory.cleanup()

    atexit.register(end)
    return place


def _ask(place: str, order: Mapping[str, Any], *descriptors: int) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(120)
        connection.connect(place)
        socket.send_fds(connection, [json.dumps(order).encode()], descriptors)
        answer: dict[str, Any] = json.loads(connection.recv(_MESSAGE))
        return answer


# -- the other side --------------------------------------------------------------------------------------------------


def serve(place: str) -> None:
    """Answer orders until whoever opened it has ended, however: births, and questions for those who were born."""
    for module in IMPORTED:
        importlib.import_module(module)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(f"{place}.new")
        door.listen(64)
        # who sees it may come in
        Path(f"{place}.new").rename(place)
        while door in select.select([door, sys.stdin], [], [])[0]:
            connection, _ = door.accept()
            with connection:
                words, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE, 1)
                order = json.loads(words)
                if "poll" in order:
                    connection.send(json.dumps({"code": _code_of(order["poll"])}).encode())
                    continue
                pid = os.fork()
                if pid == 0:
                    door.close()
                    connection.close()
                    _live(order, descriptors[0])
                os.close(descriptors[0])
                connection.send(json.dumps({"pid": pid}).encode())


def _code_of(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _live(order: Mapping[str, Any], output: int) -> NoReturn:
    """What a new interpreter would do, from here on."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    os.chdir(order["home"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["wake-bridge", *order["arguments"]]
    module = importlib.import_module(order["module"])
    if hasattr(module, "run"):
        module.run()
    importlib.import_module("wake_bridge.cli.start").main()
    sys.exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
