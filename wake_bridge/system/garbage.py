"""How often garbage is looked for in a process that stays: the command line looks seldom, because commands end soon."""

from __future__ import annotations

import gc
from typing import Final

_USUAL: Final = (700, 10, 10)
"""As Python has it from the start: little at a time."""


def look_for_garbage_as_usual() -> None:
    """Called by whatever serves for hours."""
    gc.set_threshold(*_USUAL)
