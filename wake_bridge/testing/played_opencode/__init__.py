"""OpenCode as somebody outside sees it: its process, its server on the loopback, and a screen with a title; for tests."""

from wake_bridge.testing.played_opencode.client import PlayedOpenCode

__all__ = ["PlayedOpenCode"]
