"""Processes that are born by `fork` from one which has the program imported already.

Starting an interpreter and importing costs half a second of a processor; a thousand deaths, and ten thousand commands of
tests, are then mostly births. What is born is a process of its own like any other: it has its own environment, reads its
configuration, opens its files, ends with its own code and dies of the same signals.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from wake_bridge_adapters.screens import profile_file

import wake_bridge
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.integrations import adapters
from wake_bridge.testing import crash_points, faults, set_clock, stuck_tail

IMPORTED: Final = ("apscheduler.schedulers.asyncio", "importlib.readers", "plistlib", "watchfiles")
"""What the program loads only where it needs it; beside all of its own modules and every adapter."""

PROGRAM: Final = Path(sys.executable).with_name("wake-bridge")
"""The installed console script."""

_OURS: Final = {
    (str(PROGRAM),): "",
    (sys.executable, "-m", "wake_bridge"): "",
    **{(sys.executable, *one.COMMAND): one.__name__ for one in (crash_points, faults, set_clock, stuck_tail)},
}
"""What starts a command that can be born here, and the module whose `run` it begins with, if not the program itself."""

_AT_START: Final = {
    name: os.environ.get(name)
    for name in ("LC_CTYPE", "PYTHONPATH", "PYTHONIOENCODING", "PYTHONUTF8", "LD_PRELOAD", "TZ")
}
"""What only a new interpreter looks at, as the nursery has it."""

_ROOM: Final = "WAKE_BRIDGE_NURSERY_ROOM"
_ROOM_SIZE: Final = 1 << 16
"""Bytes of the nursery's environment that are kept for that of a child."""

_ENVIRONMENT_AT: Final = slice(47, 49)
"""Where `/proc/PID/stat` has begin and end of a process's environment, counted behind its name."""

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

    def __init__(self, birth: Mapping[str, Any], environment: Mapping[str, str], sandbox: Sandbox) -> None:
        self._output = sandbox.home / f"daemon-{time.time_ns()}.log"
        with self._output.open("wb") as stream:
            self.process = _born(birth, environment, sandbox.home, stream.fileno())  # type: ignore[assignment]


class NurserySandbox(Sandbox):
    """A sandbox whose daemons come from the nursery, wherever it is used."""

    @staticmethod
    def daemon_processes(command: Sequence[str], environment: Mapping[str, str], sandbox: Sandbox) -> DaemonProcess:
        """See `Sandbox.daemon_processes`."""
        return born_daemon(command, environment, sandbox)


def born_daemon(command: Sequence[str], environment: Mapping[str, str], sandbox: Sandbox) -> DaemonProcess:
    """What `DaemonProcess` does for `Sandbox.daemon`; what is not the installed program itself is left to it."""
    birth = _birth(command, environment)
    if birth is None:
        return DaemonProcess(command, environment, sandbox)
    return BornDaemon(birth, environment, sandbox)


def _birth(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """What is to be born for a command; None for what needs a new interpreter."""
    if any(environment.get(name) != value for name, value in _AT_START.items()):
        return None
    for words, module in _OURS.items():
        if tuple(command[: len(words)]) == words:
            return {"module": module, "arguments": [*command[len(words) :]]}
    return None


def _born(birth: Mapping[str, Any], environment: Mapping[str, str], home: Path, *descriptors: int) -> Born:
    order = {**birth, "environment": dict(environment), "home": str(home), "umask": _umask()}
    place = nursery()
    return Born(place, _ask(place, order, *descriptors)["pid"])


def _umask() -> int:
    """That of this process, which a child of its own would have."""
    with contextlib.suppress(OSError):
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(fields["Umask"], 8)
    with _opening:
        os.umask(found := os.umask(0))
        return found


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
    birth = _birth(command, env)
    if birth is None:
        return subprocess.run(command, input=input, env=env, cwd=cwd, timeout=timeout, **rest)  # noqa: PLW1510
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write((input or "").encode())
        given.seek(0)
        runs, ends = os.pipe()
        try:
            child = _born(birth, env, cwd, given.fileno(), out.fileno(), errors.fileno(), ends)
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


_SHELL_PROGRAM: Final = """#!{python} -IS
# `wake-bridge` for a shell: born in the nursery, unless only a new interpreter or a process of this terminal will do
import json, os, socket, sys, time

word = next((one for one in sys.argv[1:] if not one.startswith("-")), "")
if word == "run" or any(os.environ.get(name) != value for name, value in {at_start!r}.items()):
    os.execv({program!r}, [{program!r}, *sys.argv[1:]])
os.umask(umask := os.umask(0))
order = {{"module": "", "arguments": sys.argv[1:], "environment": dict(os.environ), "home": os.getcwd(), "umask": umask}}


def ask(order, *descriptors):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect({place!r})
        socket.send_fds(connection, [json.dumps(order).encode()], descriptors)
        return json.loads(connection.recv(65536))


runs, ends = os.pipe()
pid = ask(order, 0, 1, 2, ends)["pid"]
os.close(ends)
os.read(runs, 1)  # closed at its end
while (code := ask({{"poll": pid}})["code"]) is None:
    time.sleep({poll})
sys.exit(code if code >= 0 else 128 - code)
"""


def shell_program(directory: Path) -> Path:
    """`wake-bridge` as shells find it in that directory, a tenth of the cost of the installed one; answers the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / PROGRAM.name
    text = _SHELL_PROGRAM.format(
        python=sys.executable, program=str(PROGRAM), at_start=_AT_START, place=nursery(), poll=_POLL / 10
    )
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    return directory


def nursery() -> str:
    """The socket of this process's nursery; it is opened with the first birth, and ends with this process."""
    with _opening:
        return _opened()


@functools.cache
def _opened() -> str:
    directory = tempfile.TemporaryDirectory(prefix="wbn-")
    place = str(Path(directory.name) / "socket")
    kept = {name: value for name, value in os.environ.items() if name not in _AT_START}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.nursery", place],
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        env=kept | {name: value for name, value in _AT_START.items() if value is not None} | {_ROOM: "x" * _ROOM_SIZE},
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
    for module in (*IMPORTED, *_modules()):
        importlib.import_module(module)
    _remember()
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


def _remember() -> None:
    """What each process would read anew and find the same: which adapters are installed, and what bundled profiles say."""
    adapters.entry_points = functools.cache(adapters.entry_points)  # type: ignore[assignment, attr-defined]
    adapters._is_foreign_file = functools.cache(adapters._is_foreign_file)
    adapters.load_catalogue()
    read = profile_file.load_profile
    bundled = {path: read(path) for path in profile_file.BUNDLED.glob("*.toml")}
    profile_file.load_profile = lambda path: bundled.get(path) or read(path)


def _modules() -> Iterator[str]:
    """All of the program, without what begins to run as soon as it is imported, and what is for tests."""
    for one in pkgutil.walk_packages(wake_bridge.__path__, "wake_bridge."):
        if not one.name.endswith(".__main__") and not one.name.startswith(("wake_bridge.testing.", "wake_bridge.mcp.")):
            yield one.name


def _code_of(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _live(order: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """What a new interpreter would do, from here on."""
    os.chdir(order["home"])
    os.umask(order["umask"])
    os.environ.clear()
    os.environ.update(order["environment"])
    _show_environment(order["environment"])
    if len(descriptors) == 1:
        # a daemon: it reads nothing, and says everything in one place
        (output,) = descriptors
        nothing = os.open(os.devnull, os.O_RDONLY)
        _takes(nothing, output, output)
        os.close(nothing)
    else:
        given, output, errors, _ = descriptors  # the last one stays open until this process has ended
        _takes(given, output, errors)
    for one in descriptors[:3]:
        os.close(one)
    sys.argv = [str(PROGRAM), *order["arguments"]]
    code: object = None
    try:
        if order["module"]:
            importlib.import_module(order["module"]).run()
        else:
            importlib.import_module("wake_bridge.cli.start").main()
    except SystemExit as end:
        code = end.code
    _end(code)


def _end(code: object) -> NoReturn:
    """What an interpreter does at its end, but for taking everything apart: that would copy the nursery page by page."""
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    os._exit(code or 0)


def _show_environment(environment: Mapping[str, str]) -> None:
    """Have the system tell others of this environment and not of the nursery's, where that can be done."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return
    start, end = (int(one) for one in fields[_ENVIRONMENT_AT])
    block = b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items())
    assert len(block) < end - start, "the nursery has too little room"
    # nothing points there any more: what is in force was copied from the order
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, block, len(block))


def _takes(given: int, output: int, errors: int) -> None:
    """Make these the standard streams."""
    for source, target in ((given, 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    serve(sys.argv[1])
