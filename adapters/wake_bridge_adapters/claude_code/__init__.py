"""Claude Code through its own doors: the session record says how it stands, a monitor inside it takes a line."""

from wake_bridge_adapters.claude_code.adapter import ClaudeCodeAdapter, ClaudeCodeConfig

__all__ = ["ClaudeCodeAdapter", "ClaudeCodeConfig"]
