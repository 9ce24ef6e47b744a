"""wake-bridge as a person has it, in a HOME of its own: for tests, demo and benchmarks.

Everything goes through the command line, as processes; nothing is reached into.

A process of its own reads from a pipe what is to be ended; when the pipe closes, its writer has ended, however.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

import psutil

from wake_bridge.demo import HUNG

_ONE_AT_A_TIME: Final = threading.Lock()
"""Two threads that tell at once must not start a reaper each."""


def end_process_with_us(pid: int) -> None:
    """Have a process killed once this one has ended, if it still runs then."""
    with suppress(psutil.NoSuchProcess):
        _tell(f"process {pid} {psutil.Process(pid).create_time()}")


def end_tmux_with_us(socket: Path) -> None:
    """Have the tmux server of that socket ended once this process has ended, if it still runs then."""
    _tell(f"tmux {socket}")


def processes_below(pid: int) -> list[psutil.Process]:
    """What a process started, and what that started; nothing if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def end_left(processes: Sequence[psutil.Process]) -> None:
    """Kill what outlives its terminal by a second: `script` and its like do not hear that it went."""
    _, left = psutil.wait_procs(processes, timeout=1)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _tell(line: str) -> None:
    with _ONE_AT_A_TIME:
        pipe = _reaper().stdin
        assert pipe is not None  # noqa: S101
        pipe.write(f"{line}\n".encode())
        pipe.flush()


@functools.cache
def _reaper() -> subprocess.Popen[bytes]:
    # kept as a whole: Python complains of a process that nobody knows any more while it runs.
    # a session of its own: what interrupts the run must not interrupt who cleans up after it
    command = [sys.executable, "-m", "wake_bridge.demo.sandbox"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _reap() -> None:
    for line in sys.stdin.read().splitlines():
        kind, _, what = line.partition(" ")
        if kind == "tmux" and Path(what).exists():
            tmux = ["tmux", "-S", what]
            said = subprocess.run(
                [*tmux, "display-message", "-p", "#{pid}"], capture_output=True, text=True, check=False
            )
            inside = processes_below(int(said.stdout)) if said.stdout.strip().isdecimal() else []
            subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
            end_left(inside)
        elif kind == "process":
            pid, started = what.split()
            with suppress(psutil.Error):
                found = psutil.Process(int(pid))
                # a number that was given to another process since is not ours
                if found.create_time() == float(started):
                    found.kill()


if __name__ == "__main__":
    _reap()


QUICK: Final = """
coalesce.refractory = 0
presence.relook.min = 0.2
presence.relook.max = 1.0
"""
"""Settings for who waits for something else than pauses: no rest after a wake, held deliveries looked at often.

Written with dotted keys, so that a test can add its own of the same tables in the same way.
"""

Found = TypeVar("Found")
_POLL: Final = 0.05
_REST: Final = 3
"""How many times as long as a look took is rested before the next one."""

_KEPT: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TMUX_TMPDIR",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "COVERAGE_PROCESS_START",
)


_OLDEST_ANSWER: Final = 1.0
"""Seconds after which a command is asked again though its ledger looks unwritten."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What `deliveries` said, and of which ledger, and when (monotonic seconds)."""

    seen: tuple[tuple[str, ...], list[tuple[int, int]]]
    at: float
    deliveries: list[dict[str, Any]]


class CommandFailed(AssertionError):
    """A command ended with another exit code than expected; the message has all it said."""


class Sandbox:
    """One person's set-up: HOME, configuration, graph, state, and the command line working on them.

    Args:
        directory: an empty directory; everything lies below it.
        socket_name: the tmux server (`tmux -L`) its agents live in.
        command: what starts the program; an installed console script or `python -m wake_bridge`.
    """

    processes: ClassVar[Callable[..., subprocess.CompletedProcess[str]]] = staticmethod(subprocess.run)
    """How a command becomes a process; tests put a cheaper birth here."""

    @staticmethod
    def daemon_processes(command: Sequence[str], environment: Mapping[str, str], sandbox: Sandbox) -> DaemonProcess:
        """How `wake-bridge run` does; tests put a cheaper birth here."""
        return DaemonProcess(command, environment, sandbox)

    def __init__(
        self,
        directory: Path,
        socket_name: str = "",
        command: Sequence[str] = (sys.executable, "-m", "wake_bridge"),
    ) -> None:
        self.home = directory / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.command = tuple(command)
        self.environment = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
        self.environment |= {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
        }
        self.config_file = self.home / ".config/wake-bridge/config.toml"
        self.graph = self.home / ".local/share/wake-bridge/graph.sqlite"
        self.state_dir = self.home / ".local/state/wake-bridge"
        self._socket_name = socket_name
        self._told: _Told | None = None
        self.daemons: list[DaemonProcess] = []
        """Every daemon that was started, oldest first."""

    def configure(self, text: str = "") -> None:
        """Write the configuration: the tmux server, and `text` (TOML) after it."""
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        server = f'[adapters.tmux]\nsocket_name = "{self._socket_name}"\n' if self._socket_name else ""
        self.config_file.write_text(f"{text}\n{server}", encoding="utf-8")

    def run(
        self,
        *arguments: str,
        expect: int | None = 0,
        text: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = HUNG,
    ) -> subprocess.CompletedProcess[str]:
        """One command. `expect` is the exit code it must have (None: any), `text` its stdin.

        Raises:
            CommandFailed: it had another one.
        """
        answer = self.processes(
            [*self.command, *arguments],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            env={**self.environment, **(environment or {})},
            cwd=self.home,
            timeout=timeout,
            check=False,
        )
        if expect is not None and answer.returncode != expect:
            said = f"{answer.stdout}\n{answer.stderr}"
            raise CommandFailed(f"`{' '.join(arguments)}` ended with {answer.returncode}, not {expect}:\n{said}")
        return answer

    def lines(self, *arguments: str, expect: int | None = 0) -> list[dict[str, Any]]:
        """The JSON lines that a command printed with `--json`."""
        return [json.loads(line) for line in self.run("--json", *arguments, expect=expect).stdout.splitlines()]

    def ask(self, *arguments: str, expect: int | None = 0) -> dict[str, Any]:
        """The one JSON object that a command printed with `--json`."""
        (answer,) = self.lines(*arguments, expect=expect)
        return answer

    def send(self, recipient: str, subject: str, *options: str, sender: str = "@me") -> str:
        """Send a message; answers its id."""
        answer = self.ask("send", recipient, "--from", sender, f"--subject={subject}", *options)
        return str(answer["messageId"])

    def enlist(self, identity: str, pane: str, *options: str, window: int = 0) -> str:
        """Add an identity that is woken for mail in that tmux target; answers the subscription's id."""
        self.run("agent", "add", identity)
        where = ("--tmux", pane, "--window", str(window))
        answer = self.ask("subscribe", identity, "--trigger", "SENT_TO_ME", *where, *options)
        return str(answer["subscriptionId"])

    def deliveries(self, *options: str) -> list[dict[str, Any]]:
        """All deliveries, newest first; up to 1 s old where the ledger has not been written since."""
        now = time.monotonic()
        seen = (options, self.ledger_writes())
        if self._told is None or self._told.seen != seen or now > self._told.at + _OLDEST_ANSWER:
            self._told = _Told(seen, now, self.lines("deliveries", "--limit", "1000", *options))
        return copy.deepcopy(self._told.deliveries)

    def ledger_writes(self) -> list[tuple[int, int]]:
        """What changes with every write to the ledger."""
        files = (self.state_dir / name for name in ("state.sqlite", "state.sqlite-wal"))
        return [(found.st_mtime_ns, found.st_size) for found in (one.stat() for one in files if one.exists())]

    def daemon(
        self, *options: str, environment: Mapping[str, str] | None = None, command: str = "run"
    ) -> DaemonProcess:
        """Start `wake-bridge run` (or `serve`) with options and wait until it tails, or has ended."""
        daemon = self.daemon_under_way(*options, environment=environment, command=command)
        daemon.waits_until_tailing()
        return daemon

    def daemon_under_way(
        self, *options: str, environment: Mapping[str, str] | None = None, command: str = "run"
    ) -> DaemonProcess:
        """Start `wake-bridge run` (or `serve`) with options, and wait for nothing."""
        words = [*self.command, command, *options]
        daemon = self.daemon_processes(words, {**self.environment, **(environment or {})}, self)
        self.daemons.append(daemon)
        return daemon

    def waits_for(self, look: Callable[[], Found | None], timeout: float = HUNG, what: str = "it") -> Found:
        """The first truthy answer of `look`.

        Raises:
            TimeoutError: there was none within `timeout` seconds; says how the deliveries stand and what was logged.
        """
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                logs = "\n".join(daemon.log() for daemon in self.daemons)
                standing = json.dumps(self.deliveries(), indent=1)
                raise TimeoutError(f"waited {timeout} s for {what}\n{standing}\n{logs[-6000:]}")
            # a look that runs a command is a load of its own
            time.sleep(max(_POLL, _REST * (time.monotonic() - began)))

    def waits_for_delivery(self, timeout: float = HUNG, **wanted: object) -> dict[str, Any]:
        """The newest delivery with those fields, such as `state="DELIVERED"` or `hold_reason="userTyping"`."""

        def look() -> dict[str, Any] | None:
            matching = (one for one in self.deliveries() if all(one[name] == value for name, value in wanted.items()))
            return next(matching, None)

        return self.waits_for(look, timeout, f"a delivery with {wanted}")

    def close(self) -> None:
        """End every daemon that still runs, also where one has to be killed."""
        with ExitStack() as ending:
            for daemon in self.daemons:
                ending.callback(daemon.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DaemonProcess:
    """One `wake-bridge run`, its output in a file of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], sandbox: Sandbox) -> None:
        self._output = sandbox.home / f"daemon-{time.time_ns()}.log"
        with self._output.open("wb") as stream:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=sandbox.home,
            )
        end_process_with_us(self.process.pid)

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def log(self) -> str:
        """All it wrote."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def entries(self, event: str = "") -> list[dict[str, Any]]:
        """Its log lines, all or those of one event."""
        # the last line may be half written
        written = [line for line in self.log().splitlines(keepends=True) if line.endswith("\n")]
        lines = [json.loads(line) for line in written if line.startswith("{")]
        return [line for line in lines if not event or line.get("event") == event]

    def waits_until_tailing(self, timeout: float = HUNG) -> None:
        """Return when it has reached the tip once, or has ended.

        Raises:
            TimeoutError: neither within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while '"caught_up"' not in self.log() and self.process.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the daemon does not tail:\n{self.log()}")
            time.sleep(_POLL)

    def waits_for_log(self, event: str, count: int = 1, timeout: float = HUNG) -> list[dict[str, Any]]:
        """Its log lines of one event, once there are `count` of them.

        Raises:
            TimeoutError: there are fewer after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while len(found := self.entries(event)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} {event!r} were logged:\n{self.log()}")
            time.sleep(_POLL)
        return found

    def reload(self) -> None:
        """Have it read its configuration again, as `systemctl reload` does."""
        self.process.send_signal(signal.SIGHUP)

    def stop(self, timeout: float = HUNG) -> int:
        """End it as the service manager does; answers its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def kill(self) -> None:
        """End it as a power cut does."""
        self.process.kill()
        self.process.wait()
