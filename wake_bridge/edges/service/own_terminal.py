"""The terminal a daemon was started in: when it is closed, the daemon ends (DESIGN §9)."""

from __future__ import annotations

import os
import signal

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
