"""Hooks written into the settings of a harness, each in its own form (docs/hooks.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.edges.agent_files.allow_rules import in_json
from wake_bridge.edges.agent_files.change import FileChange, Form
from wake_bridge.edges.agent_files.claude_plugin import PURPOSE, claude_directory, plan_plugin
from wake_bridge.edges.agent_files.json_edit import with_item
from wake_bridge.edges.agent_files.on_disk import content_of, real_place
from wake_bridge.edges.agent_files.record import read_files_record
from wake_bridge.edges.hook.shapes import EVENTS
from wake_bridge.edges.own_program import silent_when_gone

PATIENCE: Final = 3
"""Seconds a harness gives a hook, as many as Codex allows at a session's end; ours takes one when the daemon is slow."""

INTO: Final = ("codex", "gemini", "copilot", "qwen")
"""Harnesses with a settings file that holds hooks; Claude Code has a plugin."""

_WHERE: Final = ("hooks",)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one harness keeps its hooks: below a directory that a variable can name, else below home."""

    variable: str
    usual: str
    file: str


_PLACES: Final = {
    "codex": _Place("CODEX_HOME", ".codex", "hooks.json"),
    "gemini": _Place("", ".gemini", "settings.json"),
    "copilot": _Place("COPILOT_HOME", ".copilot", "hooks/wake-bridge.json"),
    "qwen": _Place("QWEN_HOME", ".qwen", "settings.json"),
}


def purpose(harness: str) -> str:
    """What the record of written files says of its hooks."""
    return f"hooks of {harness}"


PURPOSES: Final = {"claude": PURPOSE, **{harness: purpose(harness) for harness in INTO}}
"""For each harness what the record says of what it calls of ours."""


def hooks_file(harness: str, environment: Mapping[str, str]) -> Path:
    """Where its hooks are written."""
    place = _PLACES[harness]
    named = environment.get(place.variable) if place.variable else ""
    home = Path(environment.get("HOME") or Path.home())
    return (Path(named) if named else home / place.usual) / place.file


def plan_hooks(harness: str, program: Sequence[str], environment: Mapping[str, str], state_dir: Path) -> FileChange:
    """What the file of its hooks would become: ours at the end of each event's, all else as it is.

    Args:
        harness: one of `INTO`.
        program: what starts wake-bridge: variables of the environment (`NAME=value`), then a command.
        environment: of the person who asks.
        state_dir: where it is recorded what was written before; that is replaced.

    Raises:
        OperationFailed: the file cannot be read, is not what its harness expects, or holds something else of ours.
        RefusedForSafety: a link leads to a file of another kind.
    """
    path, link = real_place(hooks_file(harness, environment))
    before = content_of(path)
    known = next((one for one in read_files_record(state_dir) if one.path == str(path)), None)
    if known is not None and known.what != purpose(harness):
        raise OperationFailed(
            f"wake-bridge has written something else there already ({known.what})",
            str(path),
            hint="`wake-bridge uninstall` takes it back; nothing was changed",
        )
    theirs = known.original(before) if known is not None and before is not None else before
    after = in_json(path, theirs or b"", lambda text: _with_hooks(text, harness, program))
    names = tuple(json.dumps(_command(harness, program, event), ensure_ascii=False) for event in EVENTS[harness])
    form = Form.WHOLE if harness == "copilot" else Form.HOOKS
    return FileChange(path, before, after.encode(), purpose(harness), form, _WHERE, tuple(dict.fromkeys(names)), link)


def plan_updates(program: Sequence[str], environment: Mapping[str, str], state_dir: Path) -> list[FileChange]:
    """What `install` would now change in the hooks that were written before, by an earlier version or for another program.

    Args:
        program: as for `plan_hooks`.
        environment: of the person who asks.
        state_dir: where it is recorded what was written before.

    Raises:
        OperationFailed: a file cannot be read, or is not what its harness expects.
        RefusedForSafety: something of somebody else's is in its place.
    """
    record = read_files_record(state_dir)
    called, written = {one.what for one in record}, {one.path for one in record}
    plugin = plan_plugin(claude_directory(environment), program) if PURPOSE in called else []
    hooks = [plan_hooks(one, program, environment, state_dir) for one in INTO if purpose(one) in called]
    # those of another home are another run's
    return [one for one in (*plugin, *hooks) if one.changes and str(one.path) in written]


def _with_hooks(text: str, harness: str, program: Sequence[str]) -> str:
    if harness == "copilot":
        hooks = {event: [_entry(harness, program, event)] for event in EVENTS[harness]}
        return json.dumps({"version": 1, "hooks": hooks}, ensure_ascii=False, indent=2) + "\n"
    for event in EVENTS[harness]:
        text = with_item(text, (*_WHERE, event), {"hooks": [_entry(harness, program, event)]})
    return text


def _entry(harness: str, program: Sequence[str], event: str) -> dict[str, Any]:
    command = _command(harness, program, event)
    if harness == "copilot":
        return {"type": "command", "bash": command, "timeoutSec": PATIENCE}
    # Codex counts seconds; the others, which stem from one program, milliseconds
    patience = PATIENCE if harness == "codex" else PATIENCE * 1000
    named = {} if harness == "codex" else {"name": "wake-bridge"}
    return {"type": "command", **named, "command": command, "timeout": patience}


def _command(harness: str, program: Sequence[str], event: str) -> str:
    """For the harness's shell, which may be any: Codex takes the person's own. Copilot does not tell the hook its event."""
    words = [*program, "hook", harness, *([event] if harness == "copilot" else [])]
    return silent_when_gone(words)
