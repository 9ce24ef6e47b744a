"""Codex by its app server's control socket: presence, wakes and their proof without the composer."""

from wake_bridge_adapters.codex.adapter import CodexAdapter

__all__ = ["CodexAdapter"]
