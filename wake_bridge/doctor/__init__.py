"""What `doctor` looks at: each thing that must be right for wakes to arrive, with what to do when it is not."""

from __future__ import annotations

from wake_bridge.doctor.examine import examine
from wake_bridge.doctor.finding import Finding

__all__ = ["Finding", "examine"]
