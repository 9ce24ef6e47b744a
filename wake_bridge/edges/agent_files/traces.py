"""What harnesses themselves keep of our hooks: taken out with them, or named where it has to stay."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import WakeBridgeError
from wake_bridge.edges.agent_files.claude_plugin import MANIFEST, PLUGIN, PURPOSE, data_directory
from wake_bridge.edges.agent_files.hook_settings import purpose
from wake_bridge.edges.agent_files.json_edit import value_at
from wake_bridge.edges.agent_files.on_disk import content_of, real_place, replace_content
from wake_bridge.edges.agent_files.removing import Removal

_HEADER: Final = re.compile(r"^[ \t]*\[.*\][ \t]*(?:#.*)?$", re.MULTILINE)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Trace:
    """One place where a harness remembers our hooks; `stays` says why it is left, empty where it is taken out."""

    path: Path
    what: str
    stays: str = ""

    def __str__(self) -> str:
        """The place, as a person is told."""
        return f"{self.path} ({self.what})" + (f": {self.stays}" if self.stays else "")


def take_traces(removals: Sequence[Removal], *, dry_run: bool) -> list[Trace]:
    """Take out what harnesses recorded of the hooks that were removed.

    Args:
        removals: what was taken back, or with `dry_run` would be.
        dry_run: write nothing; the answer says what would be done.

    Codex keeps in its `config.toml` that a person trusts each hook, Claude Code a directory for the plugin's data. What is
    not certainly of our hooks alone stays. Never raises.
    """
    found = [trace for removal in removals if removal.changes for trace in _traces(removal, dry_run=dry_run)]
    return list({trace.path: trace for trace in found}.values())


def _traces(removal: Removal, *, dry_run: bool) -> Iterator[Trace]:
    if removal.entry.what == purpose("codex"):
        yield from _trust(removal, dry_run=dry_run)
    if removal.entry.what == PURPOSE and removal.path.match(f"{PLUGIN}/{MANIFEST}"):
        yield from _data(data_directory(removal.path), dry_run=dry_run)


def _data(directory: Path, *, dry_run: bool) -> Iterator[Trace]:
    what = "the plugin's data directory in Claude Code"
    try:
        if not any(directory.iterdir()):
            if not dry_run:
                directory.rmdir()
            yield Trace(directory, what)
        else:
            yield Trace(directory, what, "it is not empty, and we put nothing there")
    except FileNotFoundError:
        return
    except OSError as refusal:
        yield Trace(directory, what, refusal.strerror or "it cannot be removed")


def _trust(removal: Removal, *, dry_run: bool) -> Iterator[Trace]:
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
            yield Trace(file, what, f"it is written in another way: remove {', '.join(sorted(ours))} by hand")
            return
        if not dry_run:
            replace_content(file, rest.encode())
        yield Trace(file, what)
    except (ValueError, AttributeError, TypeError, RecursionError):
        yield Trace(file, what, "it cannot be read")
    except WakeBridgeError as trouble:
        yield Trace(file, what, trouble.what)


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
