"""The caller of a hook: each harness's events, and what a hook can tell about the harness that runs it.

Measured on the programs, or as their makers document it; a moment is a `wake_bridge.domain.sessions.Moment`.
"""

from __future__ import annotations

import os

from wake_bridge.integrations.hook.quick_json import dumps

TYPE_CHECKING = False  # importing `typing` would take its time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


Event = tuple[str, str]
"""The moment it marks, and how a hook adds to what the model sees then: empty where it cannot."""

CONTEXT = "context"
FLAT_CONTEXT = "flat_context"
BLOCK = "block"
DENY = "deny"

_LIKE_CLAUDE: dict[str, Event] = {
    "SessionStart": ("begun", ""),
    "UserPromptSubmit": ("prompt", CONTEXT),
    "PostToolUse": ("tool", CONTEXT),
    "PermissionRequest": ("approval", ""),
    "Stop": ("stop", BLOCK),
    "SessionEnd": ("ended", ""),
}

EVENTS: dict[str, dict[str, Event]] = {
    "claude": {
        **_LIKE_CLAUDE,
        "PostToolBatch": ("tool", CONTEXT),
        "StopFailure": ("interrupted", ""),
    },
    "codex": {**_LIKE_CLAUDE, "Interrupt": ("interrupted", "")},
    "gemini": {
        "SessionStart": ("begun", ""),
        "BeforeAgent": ("prompt", CONTEXT),
        "AfterTool": ("tool", CONTEXT),
        "Notification": ("approval", ""),
        "AfterAgent": ("stop", DENY),
        "SessionEnd": ("ended", ""),
    },
    "copilot": {
        "sessionStart": ("begun", ""),
        "userPromptSubmitted": ("prompt", FLAT_CONTEXT),
        "postToolUse": ("tool", FLAT_CONTEXT),
        "permissionRequest": ("approval", ""),
        "agentStop": ("stop", BLOCK),
        "sessionEnd": ("ended", ""),
    },
    "qwen": _LIKE_CLAUDE,
}

HARNESSES = tuple(EVENTS)


def printed(form: str, event: str, block: str) -> str:
    """The one line that puts `block` before the model, as the harness expects it at this event."""
    if form == CONTEXT:
        return dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}})
    if form == FLAT_CONTEXT:
        return dumps({"additionalContext": block})
    return dumps({"decision": form, "reason": block})


AGENT_VARIABLE = "WAKE_BRIDGE_AGENT"
"""Names the identity of the agent that is started with it."""

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "timeout"})
_PARENT, _GROUP, _TERMINAL, _FOREGROUND, _START = 1, 2, 4, 5, 19
_DEEPEST = 8


def told(harness: str, said: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Session, place, process and environment of the harness, for the daemon to judge.

    Args:
        harness: which one it is.
        said: what it wrote on stdin.
        environment: the hook's own, which is the harness's.
    """
    process = _harness_process()
    is_shared = harness == "codex" and _is_server(process["pid"])
    socket, _, _ = environment.get("TMUX", "").partition(",")
    directory = _first(said, "cwd") or _here()
    return {
        **process,
        "harness": harness,
        "session_id": _first(said, "session_id", "sessionId"),
        "directory": os.path.realpath(directory) if directory else "",
        "agent": _first(said, "agent_id", "agentId"),
        "claims": environment.get(AGENT_VARIABLE, ""),
        "socket": os.path.realpath(socket) if socket else "",
        "pane": environment.get("TMUX_PANE", ""),
        "is_shared": is_shared,
    }


def _here() -> str:
    """The working directory; empty where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _is_server(pid: int) -> bool:
    """Whether that is the app-server, which serves the conversations of every terminal."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"app-server" in file.read().split(b"\0")[1:]
    except OSError:
        return False


def _first(said: Mapping[str, Any], *names: str) -> str:
    """The first of these that is a text."""
    return next((value for name in names if isinstance(value := said.get(name), str)), "")


def _harness_process() -> dict[str, Any]:
    """The process that started the hook, through whatever shell: id, start, group, and the terminal it has in hand."""
    pid = os.getppid()
    for _ in range(_DEEPEST):
        name, fields = _stat(pid)
        if not fields:
            break
        if name not in _SHELLS:
            group, foreground = int(fields[_GROUP]), int(fields[_FOREGROUND])
            terminal = int(fields[_TERMINAL]) if group == foreground else 0
            return {"pid": pid, "started": fields[_START], "group": group, "terminal": terminal}
        pid = int(fields[_PARENT])
    return {"pid": os.getppid(), "started": "", "group": os.getpgid(os.getppid()), "terminal": 0}


def _stat(pid: int) -> tuple[str, list[str]]:
    """Name and further fields of `/proc/PID/stat`; empty where there is no such process, or no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
    except OSError:
        return "", []
    return before.partition("(")[2], after.split()
