"""Processes that are born by `fork` from one which has the program imported already.

Starting an interpreter and importing costs half a second of a processor; a thousand deaths, and ten thousand commands of
tests, are then mostly births. What is born is a process of its own like any other: it has its own environment, reads its
configuration, opens its files, ends with its own code and dies of the same signals.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from wake_bridge.cli.app import COMMANDS
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.integrations.adapters import load_catalogue

IMPORTED: Final = (
    "wake_bridge.daemon",
    "wake_bridge.testing.crash_points",
    "apscheduler.schedulers.asyncio",
    "watchfiles",
)
"""Beside every command and every adapter."""

PROGRAM: Final = Path(sys.executable).with_name("wake-bridge")
"""The installed console script."""

_OURS: Final = ((str(PROGRAM),), (sys.executable, "-m", "wake_bridge"))
"""What starts a command that can be born here."""

_AT_START: Final = frozenset({"LC_CTYPE", "PYTHONPATH", "PYTHONIOENCODING", "PYTHONUTF8", "LD_PRELOAD", "TZ"})
"""What only a new interpreter looks at."""

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


def born_command(
    command: Sequence[str],
    *,
    input: str | None,  # noqa: A002 - subprocess.run's name
    env: Mapping[str, str],
    cwd: Path,
    timeout: float,
    **rest: Any,
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` does for `Sandbox.run`; what is not the installed program itself is left to it.

    Raises:
        subprocess.TimeoutExpired: it ran for longer, and was killed.
    """
    arguments = next((command[len(one) :] for one in _OURS if [*command[: len(one)]] == [*one]), None)
    if arguments is None or env.keys() & _AT_START:
        return subprocess.run(command, input=input, env=env, cwd=cwd, timeout=timeout, **rest)  # noqa: PLW1510
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write((input or "").encode())
        given.seek(0)
        runs, ends = os.pipe()
        try:
            order = {"command": arguments, "environment": dict(env), "home": str(cwd)}
            place = nursery()
            child = Born(place, _ask(place, order, given.fileno(), out.fileno(), errors.fileno(), ends)["pid"])
        except BaseException:
            os.close(runs)
            raise
        finally:
            os.close(ends)
        has_ended = select.select([runs], [], [], timeout)[0]
        os.close(runs)
        if not has_ended:
            child.kill()
        code = child.wait(30)
        out.seek(0)
        errors.seek(0)
        said, complained = out.read().decode(), errors.read().decode()
    if not has_ended:
        raise subprocess.TimeoutExpired(list(command), timeout, said, complained)
    return subprocess.CompletedProcess(list(command), code, said, complained)


def nursery() -> str:
    """The socket of this process's nursery; it is opened with the first birth, and ends with this process."""
    with _opening:
        return _opened()


@functools.cache
def _opened() -> str:
    directory = tempfile.TemporaryDirectory(prefix="wbn-")
    place = str(Path(directory.name) / "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.nursery", place], stdin=subprocess.PIPE, cwd=Path(__file__).parents[1]
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
    commands = {f"wake_bridge.cli.{one.module}" for section in COMMANDS.values() for one in section.values()}
    for module in (*IMPORTED, *sorted(commands)):
        importlib.import_module(module)
    load_catalogue()
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(f"{place}.new")
        door.listen(64)
        # who sees it may come in
        Path(f"{place}.new").rename(place)
        running: set[int] = set()
        while door in select.select([door, sys.stdin], [], [])[0]:
            connection, _ = door.accept()
            with connection:
                words, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE, 4)
                order = json.loads(words)
                if "poll" in order:
                    code = _code_of(order["poll"])
                    if code is not None:
                        running.discard(order["poll"])
                    connection.send(json.dumps({"code": code}).encode())
                    continue
                pid = os.fork()
                if pid == 0:
                    door.close()
                    connection.close()
                    _live(order, descriptors)
                running.add(pid)
                for one in descriptors:
                    os.close(one)
                connection.send(json.dumps({"pid": pid}).encode())
    for pid in running:
        os.kill(pid, signal.SIGKILL)  # not waited for yet, so the number is still theirs


def _code_of(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _live(order: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """What a new interpreter would do, from here on."""
    os.chdir(order["home"])
    os.environ.clear()
    os.environ.update(order["environment"])
    if "command" in order:
        given, output, errors, _ = descriptors  # the last one stays open until this process has ended
        _takes(given, output, errors)
        sys.argv = [str(PROGRAM), *order["command"]]
    else:
        (output,) = descriptors
        nothing = os.open(os.devnull, os.O_RDONLY)
        _takes(nothing, output, output)
        os.close(nothing)
        sys.argv = ["wake-bridge", *order["arguments"]]
        module = importlib.import_module(order["module"])
        if hasattr(module, "run"):
            module.run()
    for one in descriptors[:3]:
        os.close(one)
    importlib.import_module("wake_bridge.cli.start").main()
    sys.exit(0)


def _takes(given: int, output: int, errors: int) -> None:
    """Make these the standard streams."""
    for source, target in ((given, 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    serve(sys.argv[1])
