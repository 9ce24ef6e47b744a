"""What the machine does to a figure: the time in which a program wanted to run and another one had the processor."""

from __future__ import annotations

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
