"""The daemon's process: the terminal that started it, and its messages to the service manager."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from typing import Final

_OF_THIS_PROCESS = "/dev/tty"


class OwnTerminal:
    """Tells a terminal that was closed from a person who sends SIGHUP; made before the signal is taken.

    A service has no terminal, and with `nohup` nobody wants to end with it: there every SIGHUP is a person's.
    """

    def __init__(self) -> None:
        self._is_bound = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _is_there()

    def was_closed(self) -> bool:
        """Whether it was there at the start, and is gone now."""
        return self._is_bound and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open(_OF_THIS_PROCESS, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


MICROSECONDS: Final = 1_000_000


class ServiceNotifier:
    """Speaks to the service manager if there is one; silent otherwise.

    Args:
        environment: where `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` are looked up.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        meant_for = environment.get("WATCHDOG_PID", "")
        is_ours = not meant_for or meant_for == str(os.getpid())
        microseconds = environment.get("WATCHDOG_USEC", "")
        self.watchdog_interval: float | None = (
            int(microseconds) / MICROSECONDS if is_ours and microseconds.isdigit() else None
        )
        """Seconds within which a `WATCHDOG=1` is expected; None without a watchdog."""

    def ready(self, status: str) -> None:
        """The daemon serves now."""
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def status(self, status: str) -> None:
        """A line for `systemctl status`."""
        self._send(f"STATUS={status}")

    def alive(self) -> None:
        """The tail made progress."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """A reload began; `ready` ends it."""
        self._send("RELOADING=1")

    def stopping(self) -> None:
        """The daemon is going down."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # an abstract socket is written with a leading @
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            try:
                channel.connect(address)
                channel.sendall(message.encode())
            except OSError:
                # a manager that went away must not take the daemon with it
                return
