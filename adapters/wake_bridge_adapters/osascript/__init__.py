"""Terminals with a scripting dictionary and applications with a window, through macOS's `osascript`. Experimental."""

from wake_bridge_adapters.osascript.adapter import OsascriptAdapter

__all__ = ["OsascriptAdapter"]
