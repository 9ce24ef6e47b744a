"""Our hooks in the harnesses' own settings: removed with them, or named where they have to stay."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety, WakeBridgeError
from wake_bridge.domain.values import dataclass
from wake_bridge.integrations.agent_files.allow_rules import in_json
from wake_bridge.integrations.agent_files.claude_plugin import (
    MANIFEST,
    PLUGIN,
    PURPOSE,
    claude_directory,
    data_directory,
    plan_plugin,
)
from wake_bridge.integrations.agent_files.json_file import value_at, with_item
from wake_bridge.integrations.agent_files.record import Removal, read_files_record
from wake_bridge.integrations.agent_files.text_file import FileChange, Form, content_of, real_place, replace_content
from wake_bridge.integrations.hook.caller import EVENTS
from wake_bridge.system.own_program import silent_when_gone

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
        RefusedForSafety: a link points to a file of another kind, or the file would be ours as a whole and is not.
    """
    path, link = real_place(hooks_file(harness, environment))
    before = content_of(path)
    known = next((one for one in read_files_record(state_dir) if one.path == str(path)), None)
    if known is not None and known.what != purpose(harness):
        raise OperationFailed(
            f"wake-bridge has written something else there already ({known.what})",
            str(path),
            hint="`wake-bridge uninstall` removes it; nothing was changed",
        )
    if harness == "copilot" and known is None and before is not None and not _is_ours_as_a_whole(before):
        raise RefusedForSafety(
            "there is a file of hooks with our name already, which wake-bridge did not write",
            str(path),
            hint="give it another name beside this one, then run it again; nothing was changed",
        )
    theirs = known.original(before) if known is not None and before is not None else before
    after = in_json(path, theirs or b"", lambda text: _with_hooks(text, harness, program))
    names = tuple(json.dumps(_command(harness, program, event), ensure_ascii=False) for event in EVENTS[harness])
    form = Form.WHOLE if harness == "copilot" else Form.HOOKS
    return FileChange(path, before, after.encode(), purpose(harness), form, _WHERE, tuple(dict.fromkeys(names)), link)


def _is_ours_as_a_whole(content: bytes) -> bool:
    """Whether a file of Copilot's holds what we write and nothing else; its record may be lost."""
    try:
        said = json.loads(content)
        entries = [(event, entry) for event, group in said["hooks"].items() for entry in group]
        return said.keys() == {"version", "hooks"} and all(
            entry.keys() == {"type", "bash", "timeoutSec"}
            and shlex.split(entry["bash"])[:2] == ["/bin/sh", "-c"]
            and shlex.split(entry["bash"])[-3:] == ["hook", "copilot", event]
            for event, entry in entries
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


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


_HEADER: Final = re.compile(r"^[ \t]*\[.*\][ \t]*(?:#.*)?$", re.MULTILINE)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class HookTrace:
    """One place where a harness remembers our hooks; `stays` says why it is left, empty where it is taken out."""

    path: Path
    what: str
    stays: str = ""

    def __str__(self) -> str:
        """The place, as a person is told."""
        return f"{self.path} ({self.what})" + (f": {self.stays}" if self.stays else "")


def take_traces(removals: Sequence[Removal], *, dry_run: bool) -> list[HookTrace]:
    """Take out what harnesses recorded of the hooks that were removed.

    Args:
        removals: what was taken back, or with `dry_run` would be.
        dry_run: write nothing; the answer says what would be done.

    Codex keeps in its `config.toml` that a person trusts each hook, Claude Code a directory for the plugin's data. What is
    not certainly of our hooks alone stays. Never raises.
    """
    found = [trace for removal in removals if removal.changes for trace in _traces(removal, dry_run=dry_run)]
    return list({trace.path: trace for trace in found}.values())


def _traces(removal: Removal, *, dry_run: bool) -> Iterator[HookTrace]:
    if removal.entry.what == purpose("codex"):
        yield from _trust(removal, dry_run=dry_run)
    if removal.entry.what == PURPOSE and removal.path.match(f"{PLUGIN}/{MANIFEST}"):
        yield from _data(data_directory(removal.path), dry_run=dry_run)


def _data(directory: Path, *, dry_run: bool) -> Iterator[HookTrace]:
    what = "the plugin's data directory in Claude Code"
    try:
        if not any(directory.iterdir()):
            if not dry_run:
                directory.rmdir()
            yield HookTrace(directory, what)
        else:
            yield HookTrace(directory, what, "it is not empty, and we put nothing there")
    except FileNotFoundError:
        return
    except OSError as refusal:
        yield HookTrace(directory, what, refusal.strerror or "it cannot be removed")


def _trust(removal: Removal, *, dry_run: bool) -> Iterator[HookTrace]:
    file, what = removal.path.with_name("config.toml"), "Codex's record that our hooks are trusted ([hooks.state])"
    try:
        file, _ = real_place(file)
        text = (content_of(file) or b"").decode()
        said = tomllib.loads(text)
        recorded = said.get("hooks", {}).get("state", {})
        ours = recorded.keys() & {f"{removal.path}:{place}" for place in _places(removal)}
        if not ours:
            return
        rest = _without_tables(text, ours)
        if tomllib.loads(rest) != _without(said, ours):
            yield HookTrace(file, what, f"it is written in another way: remove {', '.join(sorted(ours))} by hand")
            return
        if not dry_run:
            replace_content(file, rest.encode())
        yield HookTrace(file, what)
    except (ValueError, AttributeError, TypeError, RecursionError):
        yield HookTrace(file, what, "it cannot be read")
    except WakeBridgeError as trouble:
        yield HookTrace(file, what, trouble.what)


def _places(removal: Removal) -> Iterator[str]:
    """Where ours stood, as Codex calls it: `session_start:0:0` for the first hook in the first group of the event."""
    ours = {json.loads(name) for name in removal.entry.names}
    for event, groups in (value_at((removal.before or b"").decode(), ("hooks",)) or {}).items():
        for group, content in enumerate(groups):
            for number, hook in enumerate(content.get("hooks", ())):
                if hook.get("command") in ours:
                    yield f"{_CAPITAL.sub('_', event).lower()}:{group}:{number}"


def _without_tables(text: str, ours: Collection[str]) -> str:
    """Without the tables of those keys, and without the one that they were in where it is left empty."""
    starts = [header.start() for header in _HEADER.finditer(text)]
    tables = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    kept = [table for table in tables if not any(key in ours for key in _keys(table))]
    if not any(_keys(table) for table in kept):
        kept = [table for table in kept if table.strip() != "[hooks.state]"]
    rest = text[: starts[0] if starts else len(text)] + "".join(kept)
    was_last = bool(tables) and tables[-1:] != kept[-1:]
    return rest[:-1] if was_last and rest.endswith("\n\n") else rest


def _keys(table: str) -> Collection[str]:
    """The hooks that a table alone is about."""
    try:
        said = tomllib.loads(table)
        return said["hooks"]["state"].keys() if said.keys() == {"hooks"} and said["hooks"].keys() == {"state"} else ()
    except (ValueError, KeyError, AttributeError):
        return ()


def _without(said: dict[str, Any], ours: Collection[str]) -> dict[str, Any]:
    """What a file says but for those; tables that are left empty count as none."""
    hooks = {**said["hooks"], "state": {key: one for key, one in said["hooks"]["state"].items() if key not in ours}}
    hooks = {key: one for key, one in hooks.items() if one or key != "state"}
    return {key: one for key, one in {**said, "hooks": hooks}.items() if one or key != "hooks"}
