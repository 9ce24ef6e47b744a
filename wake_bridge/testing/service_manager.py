"""The service manager's side of the notify protocol: a socket that keeps what a service says of itself."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from wake_bridge.testing import HUNG, until

NEEDED: Final = ("systemctl", "systemd-analyze", "loginctl", "dbus-daemon", "unshare")
MANAGER: Final = Path("/lib/systemd/systemd")
LOGIND: Final = Path("/lib/systemd/systemd-logind")

_GROUPS: Final = Path("/sys/fs/cgroup")
_BOOTED: Final = Path("/run/systemd/system")
_SYSTEM_BUS: Final = """<busconfig><type>system</type><listen>{address}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>
"""
# `systemd --user` looks whether systemd is the init, and logind keeps files there: they get a /run/systemd of their own
_START: Final = """
for group in $GROUPS; do echo $$ > "$group/cgroup.procs"; done
mount -t tmpfs tmpfs /run/systemd && mount -t tmpfs tmpfs /var/lib/systemd
mkdir /run/systemd/system /run/systemd/users /run/systemd/sessions /run/systemd/seats /run/systemd/machines
dbus-daemon --nofork --config-file="$SYSTEM_BUS" &
dbus-daemon --nofork --session --address="$DBUS_SESSION_BUS_ADDRESS" &
while ! [ -S "$XDG_RUNTIME_DIR/system-bus" ] || ! [ -S "$XDG_RUNTIME_DIR/bus" ]; do sleep 0.02; done
%s &
exec %s --user
"""


def why_not() -> str:
    """Why no manager can be started here; empty if one can."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    missing += [str(path) for path in (MANAGER, LOGIND) if not path.exists()]
    if missing:
        return f"{', '.join(missing)} is not installed"
    if os.geteuid() != 0:
        return "only root can give a manager a cgroup and a /run of its own"
    groups = _own_groups()
    if not groups or not all(os.access(one, os.W_OK) for one in groups):
        # in ours it would take all that runs there into a cgroup of its own
        return "no cgroup can be made"
    allowed = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False, timeout=HUNG)  # noqa: S607
    return "" if allowed.returncode == 0 else f"no mount namespace: {allowed.stderr.decode().strip()}"


class UserManager:
    """systemd's manager for who runs this, with its buses; a context manager that ends whatever was started by it.

    Args:
        environment: HOME and PATH of the person; the manager itself has these two alone.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._name = f"wake-bridge-{os.getpid()}-{secrets.token_hex(4)}"
        # a Unix socket's path has room for about a hundred bytes, less than test directories take
        self._runtime = Path(tempfile.mkdtemp(prefix="wbs-"))
        self.environment: Mapping[str, str] = {
            "XDG_RUNTIME_DIR": str(self._runtime),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self._runtime}/bus",
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self._runtime}/system-bus",
        }
        """What a command needs to reach it."""
        # by it systemctl and loginctl know that systemd runs at all
        self._booted_mark = not _BOOTED.exists()
        self._own = {"HOME": environment["HOME"], "PATH": environment["PATH"], "LANG": "C.UTF-8", **self.environment}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        bus = self._runtime / "system-bus.conf"
        bus.write_text(_SYSTEM_BUS.format(address=self.environment["DBUS_SYSTEM_BUS_ADDRESS"]))
        groups = [where / self._name for where in _own_groups()]
        for group in groups:
            group.mkdir()
        if self._booted_mark:
            _BOOTED.mkdir(parents=True)
        given = {"GROUPS": " ".join(map(str, groups)), "SYSTEM_BUS": str(bus), "SYSTEMD_LOG_TARGET": "console"}
        with (self._runtime / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-ec", _START % (LOGIND, MANAGER)],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self._own, **given},
            )
        until(lambda: self.call("systemctl", "--user", "is-system-running").stdout == "running\n", "the manager")

    def call(self, *command: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program that asks the manager, or logind."""
        return subprocess.run(command, env=self._own, capture_output=True, text=True, timeout=HUNG, check=check)

    def shown(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.call(
            "systemctl", "--user", "show", "--value", f"--property={name}", unit, check=True
        ).stdout.strip()

    def processes(self) -> Sequence[int]:
        """All that run in its cgroup: whatever it, or the services, started."""
        return sorted({int(pid) for group in self._groups() for pid in _read(group / "cgroup.procs").split()})

    def log(self) -> str:
        """What manager, logind and buses said."""
        return _read(self._runtime / "log")

    def close(self) -> None:
        """End all of it, by pid, and take the cgroups back."""
        process = getattr(self, "_process", None)
        deadline = time.monotonic() + HUNG
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if process is not None:
                process.poll()
            if time.monotonic() > deadline:
                raise TimeoutError(f"these processes do not end: {pids}")
            time.sleep(0.02)
        if process is not None:
            process.kill()
            process.wait()
        for group in self._groups():
            group.rmdir()
        if self._booted_mark:
            with contextlib.suppress(OSError):
                _BOOTED.rmdir()
        shutil.rmtree(self._runtime, ignore_errors=True)

    def _groups(self) -> Sequence[Path]:
        """Its cgroups in every hierarchy, innermost first."""
        tops = [top for where in {_GROUPS, *_GROUPS.glob("*/"), *_own_groups()} if (top := where / self._name).is_dir()]
        return sorted({group for top in tops for group in (top, *top.glob("**/"))}, key=lambda one: -len(one.parts))


def _own_groups() -> Sequence[Path]:
    """The cgroup we are in, in each of the hierarchies by which systemd orders services: version 2's, and its own of version 1."""
    within = dict(re.findall(r"^\d+:(|name=systemd):(.*)$", _read(Path("/proc/self/cgroup")), re.MULTILINE))
    mounted = re.findall(r"^\S+ (\S+) (cgroup2?) (\S+)", _read(Path("/proc/self/mounts")), re.MULTILINE)
    found = []
    for where, kind, options in mounted:
        name = "" if kind == "cgroup2" else "name=systemd"
        if name in within and (not name or name in options.split(",")):
            found.append(Path(where) / within[name].lstrip("/"))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class NotifyListener:
    """Listens where `NOTIFY_SOCKET` points; a context manager.

    Args:
        watchdog: seconds within which a sign of life is expected; None for no watchdog.
    """

    def __init__(self, watchdog: float | None = None) -> None:
        # a Unix socket's path has room for about a hundred bytes, less than test directories take
        self._directory = tempfile.mkdtemp(prefix="wbn-")
        self._path = str(Path(self._directory) / "notify")
        self._watchdog = watchdog
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._path)
        self._said: list[tuple[float, str]] = []

    @property
    def environment(self) -> Mapping[str, str]:
        """What the service is started with."""
        variables = {"NOTIFY_SOCKET": self._path}
        if self._watchdog is not None:
            variables["WATCHDOG_USEC"] = str(int(self._watchdog * 1_000_000))
        return variables

    def said(self, word: str) -> list[float]:
        """When a line such as `WATCHDOG=1` came, by the monotonic clock, oldest first."""
        self._take()
        return [at for at, line in self._said if line == word]

    def waits_for(self, word: str, count: int = 1, timeout: float = HUNG) -> float:
        """When a line came for the `count`th time.

        Raises:
            TimeoutError: it did not within `timeout` seconds; says what came instead.
        """
        deadline = time.monotonic() + timeout
        while len(found := self.said(word)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{word!r} came {len(found)} times, not {count}: {self._said}")
            time.sleep(0.02)
        return found[count - 1]

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> None:
        """Everything that has arrived. It counts as of now, so look often."""
        with contextlib.suppress(BlockingIOError):
            while True:
                message = self._socket.recv(4096, socket.MSG_DONTWAIT).decode()
                self._said += [(time.monotonic(), line) for line in message.splitlines()]
