"""The tools that real programs offer for running a command and for asking the person, and how they want to be called."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

SHELL_TOOLS: Final = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "execute_bash")
ASK_TOOLS: Final = (
    "AskUserQuestion",
    "ask_user_question",
    "ask_user",
    "question",
    "request_user_input",
    "AskQuestion",
)

_COLOURS: Final = ({"label": "Red", "description": "A warm one"}, {"label": "Blue", "description": "A cool one"})


_LONG: Final = 30_000
"""Milliseconds: as long as Codex lets the model wait for a command at a time."""


def going_on(session: int) -> dict[str, Any]:
    """What to call `write_stdin` with in order to go on waiting for a command."""
    return {"session_id": session, "chars": "", "yield_time_ms": _LONG}


def arguments_for(tool: str, beside: Collection[str], command: str, question: str) -> dict[str, Any]:
    """What to call `tool` with so that it runs `command`, or puts `question` to the person.

    `beside` are all tools that are offered: three programs have an `ask_user`, each in its own shape.
    """
    asked = {"question": question, "header": "Colour", "options": [dict(colour) for colour in _COLOURS]}
    match tool:
        case "Bash" | "bash" | "run_shell_command" | "execute_bash":
            return {"command": command, "description": "Wait for a sign"}
        case "exec_command":
            asking = {"sandbox_permissions": "require_escalated", "justification": "May it wait?"}
            return {"cmd": command, "yield_time_ms": _LONG, **asking}
        case "shell_command":
            return {"command": command, "sandbox_permissions": "require_escalated", "justification": "May it wait?"}
        case "shell":
            return {"command": ["bash", "-c", command], "sandbox_permissions": "require_escalated"}
        case "AskQuestion":
            return {"question": question, "options": [colour["label"] for colour in _COLOURS]}
        case "ask_user" if "execute_bash" in beside:
            return {"question": question, "options": [colour["label"] for colour in _COLOURS]}
        case "ask_user" if "read_bash" in beside:
            colour = {"type": "string", "enum": [one["label"] for one in _COLOURS]}
            return {"message": question, "requestedSchema": {"properties": {"colour": colour}, "required": ["colour"]}}
        case "ask_user":
            return {"questions": [{**asked, "type": "choice"}]}
        case "request_user_input":
            return {"questions": [{**asked, "id": "colour"}]}
        case _:
            return {"questions": [{**asked, "multiSelect": False}]}


def plain_command(tool: str, command: str) -> dict[str, Any]:
    """What to call `tool` with so that it runs `command` as the program sees fit: nothing is asked for on its behalf."""
    match tool:
        case "exec_command":
            return {"cmd": command, "yield_time_ms": _LONG}
        case "shell":
            return {"command": ["bash", "-lc", command]}
        case _:
            return {"command": command, "description": "Read the mail"}
