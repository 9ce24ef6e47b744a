"""The checks of `doctor`: each thing that wakes depend on, with what to do when it is wrong."""

from __future__ import annotations

from wake_bridge.doctor.examine import examine
from wake_bridge.doctor.finding import Finding

__all__ = ["Finding", "examine"]
