"""The tmux adapter."""

from adapters.tmux.adapter import TmuxAdapter

__all__ = ["TmuxAdapter"]
