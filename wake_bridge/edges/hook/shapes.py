"""Which events of which harness are heard, and what each of them lets a hook say (docs/hooks.md).

Measured on the programs, or as their makers document it; a moment is a `wake_bridge.domain.sessions.Moment`.
"""

from __future__ import annotations

import json

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
        "userPromptSubmitted": ("prompt", ""),
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
        return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}})
    if form == FLAT_CONTEXT:
        return json.dumps({"additionalContext": block})
    return json.dumps({"decision": form, "reason": block})
