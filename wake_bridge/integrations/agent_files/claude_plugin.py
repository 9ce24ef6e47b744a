"""The plugin for Claude Code, by which it can be woken and reports its state: a monitor, and hooks.

A directory below `skills/` with a manifest is a plugin that every new session of the user loads by itself, as
`wake-bridge@skills-dir`: no settings are written, no marketplace is known, no network is asked (measured on 2.1.332).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wake_bridge import __version__
from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.integrations.agent_files.text_file import FileChange, Form, content_of, real_place
from wake_bridge.system.own_program import for_a_shell, silent_when_gone

PLUGIN: Final = "wake-bridge"

PURPOSE: Final = "the plugin for Claude Code"
"""What the record of written files says of them."""

HOOK_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolBatch", "PermissionRequest", "Stop", "SessionEnd")
"""A batch of tools that ran side by side is one event, so that what waits is handed over once."""

HOOK_PATIENCE: Final = 5
"""Seconds Claude Code gives a hook."""

COMES_AGAIN: Final = 2
"""Seconds until a monitor that was killed is started again: when it ends, Claude Code begins a turn to say so."""

_INSTALL: Final = "wake-bridge claude install"
MANIFEST: Final = ".claude-plugin/plugin.json"
_TOLD: Final = "wake-bridge: an automated notice, not your user"


def claude_directory(environment: Mapping[str, str]) -> Path:
    """Where Claude Code keeps what is the user's."""
    named = environment.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / ".claude"


def data_directory(manifest: Path) -> Path:
    """Where Claude Code lets a plugin keep data, from where its manifest is; it makes it at the first start."""
    return manifest.parents[3] / "plugins" / "data" / f"{PLUGIN}-skills-dir"


def plan_plugin(directory: Path, program: Sequence[str]) -> list[FileChange]:
    """What must be written for the plugin to be there, and to call this wake-bridge.

    Args:
        directory: Claude Code's own.
        program: what starts wake-bridge: variables of the environment (`NAME=value`), then a command.

    Raises:
        RefusedForSafety: something of somebody else's is in their place.
        OperationFailed: a file cannot be read.
    """
    root = directory / "skills" / PLUGIN
    _require_ours(root)
    return [_change(root / name, content) for name, content in _files(program).items()]


def _require_ours(root: Path) -> None:
    if not root.exists() or _INSTALL.encode() in (content_of(root / MANIFEST) or b""):
        return
    if any(path.is_file() for path in root.rglob("*")):
        raise RefusedForSafety(
            f"there is a plugin or skill called {PLUGIN} already, which wake-bridge did not write",
            str(root),
            hint="move it away, then run it again; nothing was changed",
        )


def _files(program: Sequence[str]) -> dict[str, Any]:
    hook = {"type": "command", "command": silent_when_gone((*program, "hook", "claude")), "timeout": HOOK_PATIENCE}
    return {
        MANIFEST: {
            "name": PLUGIN,
            # as semantic versioning spells what is not released yet
            "version": __version__.replace(".dev", "-dev."),
            "description": f"Wakes this agent when something arrives for it. Written by `{_INSTALL}`,"
            " taken back by `wake-bridge claude uninstall`.",
        },
        "hooks/hooks.json": {"hooks": {event: [{"hooks": [hook]}] for event in HOOK_EVENTS}},
        "monitors/monitors.json": [
            {"name": "wake", "description": _TOLD, "command": _kept_alive((*program, "claude", "monitor"))}
        ],
    }


def _kept_alive(command: Sequence[str]) -> str:
    """The monitor, started again when it was killed; it ends well when Claude Code, our shell's parent, is gone."""
    return f'while kill -0 "$PPID" 2>/dev/null && ! {for_a_shell(command)} 2>/dev/null; do sleep {COMES_AGAIN}; done'


def _change(file: Path, content: Any) -> FileChange:
    path, link = real_place(file)
    after = json.dumps(content, ensure_ascii=False, indent=2).encode() + b"\n"
    return FileChange(path, content_of(path), after, PURPOSE, Form.WHOLE, link=link)
