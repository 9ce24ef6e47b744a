"""Shipped test tools: fakes, a hand-turned clock, a scriptable fake harness, crash points."""

from __future__ import annotations

from typing import Final

HUNG: Final = 60.0
"""Seconds that a test waits for what comes at once on an idle machine: what takes longer hangs, it is not only slow."""
