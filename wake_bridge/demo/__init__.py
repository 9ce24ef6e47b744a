"""What the demo runs in, and tests as well: a HOME, a tmux server and agents of its own."""

from __future__ import annotations

HUNG = 60.0
"""Seconds that a test waits for what comes at once on an idle machine: what takes longer hangs, it is not only slow."""
