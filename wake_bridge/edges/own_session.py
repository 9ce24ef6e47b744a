"""The conversation of a harness that a command is run in: its tools say so in their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.sessions import Session
from wake_bridge.edges.ancestry import SESSION_VARIABLES, stat_fields

_START_TIME: Final = 19


def own_session(identity: Identity, environment: Mapping[str, str], now: Instant) -> Session | None:
    """It as the identity's; None where there is none, or one inside another's tool: nobody could tell which is meant."""
    named = [(harness, value) for name, harness in SESSION_VARIABLES.items() if (value := environment.get(name))]
    if len(named) != 1:
        return None
    harness, session_id = named[0]
    pid = environment.get("CLAUDE_PID", "") if harness == "claude" else ""
    fields = stat_fields(int(pid)) if pid.isdecimal() else []
    return Session(
        harness=harness,
        session_id=session_id,
        identity=identity,
        directory=os.path.realpath(os.getcwd()),  # noqa: PTH109 - as a hook tells it
        pid=int(pid) if fields else 0,
        started=fields[_START_TIME] if fields else "",
        seen_at=now,
    )
