"""The fence: what must still be the same for a pane to be the pane it was (DESIGN §6.2).

Pane ids restart with the server, names match by prefix, and an agent that quits to its shell leaves `pane_pid` as it
was. So the fence holds the server, the pane, its process and the agent's, each with its start time. A pane that is moved
to another window or session is the same pane.
"""

from __future__ import annotations

import os
from typing import Final

from adapters.tmux.processes import Process, started_at
from wake_bridge.domain.routing import Binding

NO_PROCESS: Final = 0


def fence_around(
    *, socket: str, server_pid: int, session_id: str, pane_id: str, pane_pid: int, agent: Process | None
) -> Binding:
    """The fence of a pane as it is now; without an agent its part of the fence stays open."""
    return Binding(
        socket=os.path.realpath(socket),
        server_pid=server_pid,
        session_id=session_id,
        pane_id=pane_id,
        pane_pid=pane_pid,
        pane_started=started_at(pane_pid),
        agent_pid=agent.pid if agent else NO_PROCESS,
        agent_started=agent.started if agent else "",
    )


def spelled(fence: Binding) -> str:
    """The fence as a person reads it in a journal."""
    agent = f", agent {fence.agent_pid}" if fence.agent_pid != NO_PROCESS else ""
    return f"server {fence.server_pid}, pane {fence.pane_id}, process {fence.pane_pid}{agent}"


def breach(fence: Binding, now: Binding) -> str:
    """What of `fence` no longer holds, one clause; empty while all of it does."""
    if (fence.socket, fence.server_pid) != (now.socket, now.server_pid):
        return "the tmux server is another one"
    if (fence.pane_id, fence.pane_pid, fence.pane_started) != (now.pane_id, now.pane_pid, now.pane_started):
        return f"the pane {fence.pane_id} is another one"
    if fence.agent_pid != NO_PROCESS and not fence.has_agent_of(now):
        return "the agent in the pane is not the one it was"
    return ""
