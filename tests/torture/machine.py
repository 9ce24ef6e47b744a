"""What the machine does to a figure: how fast it is just now, and the time in which another program had the processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_NANOSECONDS: Final = 1e9


def waited_for_processor(pid: int) -> float:
    """Seconds that a process has waited for a processor so far, its threads together; 0 where the system does not say.

    A bound in seconds is one of the program's, not of whatever else the machine is busy with: this is taken off.
    """
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((one / "schedstat").read_text(encoding="ascii").split()[1]) for one in threads) / _NANOSECONDS
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def bare_start() -> float:
    """Seconds of processor time that Python itself takes just now to start with what every daemon imports.

    The unit of what is to be quick: a machine of half the speed takes twice as long for both.
    """
    process = subprocess.Popen([sys.executable, "-c", "import asyncio, json, logging, sqlite3"])
    _, process.returncode, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime
