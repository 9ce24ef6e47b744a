"""Has a process that serves for hours look for garbage at Python's usual pace; `cli/start.py` slows that down for commands."""

from __future__ import annotations

import gc
from typing import Final

_USUAL: Final = (700, 10, 10)
"""The default of Python 3.11: many short looks, so that no wake waits for a long one."""


def collect_as_usual() -> None:
    """Undo what `cli/start.py` has set."""
    gc.set_threshold(*_USUAL)
