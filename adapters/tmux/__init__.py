"""The tmux adapter."""
