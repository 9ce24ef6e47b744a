"""Conversations of harnesses, as hooks, monitors and control planes name them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.values import dataclass

HOOK: Final = "hook"
"""What a delivery names as its adapter when a harness's hook took it."""


NOBODY: Final = Identity("")
"""Whose a conversation is that has called in and fits no identity, or several."""


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


class Moment(StrEnum):
    """Where in its turn a harness stands when one of its hooks calls, whatever it calls the event."""

    BEGUN = "begun"
    PROMPT = "prompt"
    TOOL = "tool"
    APPROVAL = "approval"
    STOP = "stop"
    INTERRUPTED = "interrupted"
    ENDED = "ended"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Caller:
    """What a program inside a harness says of the conversation it belongs to; nothing of it is taken for true.

    `pid`, `started` and `group` are the harness's process, its start and its process group, `terminal` the number of the
    terminal in whose foreground it is, `socket` and `pane` the tmux pane that its environment names; 0 and empty where it
    does not know. `claims` is the identity that the environment names, `agent` the sub-agent that ran the hook, empty for
    the conversation itself. `is_shared`: the process serves several conversations, and has the environment of whichever
    began first.
    """

    harness: str
    session_id: str
    directory: str = ""
    pid: int = 0
    started: str = ""
    group: int = 0
    terminal: int = 0
    socket: str = ""
    pane: str = ""
    claims: str = ""
    agent: str = ""
    is_shared: bool = False
