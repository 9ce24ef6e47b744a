"""Claude Code by its own record and a monitor: the record shows its session's state, the monitor takes a line."""

from wake_bridge_adapters.claude_code.adapter import ClaudeCodeAdapter

__all__ = ["ClaudeCodeAdapter"]
