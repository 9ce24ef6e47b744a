"""Copilot CLI as somebody outside sees it: its process, its server on the loopback, its record and a screen; for tests."""

from wake_bridge.testing.played_copilot.client import PlayedCopilot

__all__ = ["PlayedCopilot"]
