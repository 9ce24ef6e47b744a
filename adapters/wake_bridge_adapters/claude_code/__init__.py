"""Claude Code through its own record and a monitor: the record says how its session stands, the monitor takes a line."""

from wake_bridge_adapters.claude_code.adapter import ClaudeCodeAdapter, ClaudeCodeConfig

__all__ = ["ClaudeCodeAdapter", "ClaudeCodeConfig"]
