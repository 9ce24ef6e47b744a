"""Conversations of harnesses, as their hooks, monitors and control planes name them (DESIGN §5, native evidence)."""

from __future__ import annotations

from dataclasses import dataclass

from wake_bridge.domain.names import EPOCH_START, Identity, Instant


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation of one agent.

    `session_id` is the harness's own name for it: Codex calls it a thread. `pid` and `started` (the kernel's start time)
    are the harness's process, 0 and empty where nobody said; `socket` and `pane` the terminal it runs in. `seen_at` is
    when it last gave a sign.
    """

    harness: str
    session_id: str
    identity: Identity
    directory: str = ""
    pid: int = 0
    started: str = ""
    socket: str = ""
    pane: str = ""
    seen_at: Instant = EPOCH_START
