"""Shipped test tools: fakes, a hand-turned clock, crash points, and the suites that every adapter keeps."""

from __future__ import annotations

from wake_bridge.demo import HUNG

__all__ = ["HUNG"]
