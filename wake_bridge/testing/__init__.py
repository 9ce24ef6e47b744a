"""Shipped test tools: fakes, a hand-turned clock, crash points, and the suites that every adapter keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from wake_bridge.demo import HUNG

__all__ = ["HUNG", "until"]

_POLL: Final = 0.02


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait for something that another process or thread does.

    Args:
        condition: whether it is done; asked every 0.02 s.
        what: it, for the error.

    Raises:
        AssertionError: it was not within `HUNG` seconds.
    """
    deadline = time.monotonic() + HUNG
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {HUNG:g} s for {what}")
        time.sleep(_POLL)
