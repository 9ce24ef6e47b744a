"""The tmux adapter."""

from wake_bridge_adapters.tmux.adapter import TmuxAdapter

__all__ = ["TmuxAdapter"]
