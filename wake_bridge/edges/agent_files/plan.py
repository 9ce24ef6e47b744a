"""What the agents' files would become: nothing is written here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.edges.agent_files.allow_rules import Rule, in_json, rule_for
from wake_bridge.edges.agent_files.change import FileChange, Form
from wake_bridge.edges.agent_files.instructions import instruction_file, instructions_for
from wake_bridge.edges.agent_files.marked_block import Marks, marks_of, marks_within, with_block
from wake_bridge.edges.agent_files.on_disk import content_of, real_place


def plan_files(agents: Sequence[SetupAgent], home: Path) -> list[FileChange]:
    """What must be told and allowed so that a wake leads to mail being read, without a dialog.

    Files that already say so are in the list too, unchanged: they may be taken back later.

    Args:
        agents: who is to be reached; several in one directory share its files.
        home: where the harnesses keep their own settings.

    Raises:
        OperationFailed: a file cannot be read, or is not what its harness expects; the message names it.
        RefusedForSafety: a link leads to a file of another kind, or would allow something elsewhere.
    """
    return [*_told(agents), *_allowed(agents, home)]


def _told(agents: Sequence[SetupAgent]) -> list[FileChange]:
    rooms: dict[Path, list[SetupAgent]] = defaultdict(list)
    for agent in agents:
        rooms[agent.directory].append(agent)
    changes: dict[Path, FileChange] = {}
    for room in rooms.values():
        text = instructions_for(room)
        for file in dict.fromkeys(instruction_file(agent, _exists) for agent in room):
            if file is None:
                continue
            path, link = real_place(file)
            if path in changes:
                continue
            before = content_of(path)
            what = _said(f"instructions for {', '.join(agent.identity for agent in room)}", path, link)
            after = with_block(before, text, _marks(before, file), file)
            changes[path] = FileChange(path, before, after, what, Form.BLOCK, link=link)
    return list(changes.values())


def _allowed(agents: Sequence[SetupAgent], home: Path) -> list[FileChange]:
    changes: dict[Path, FileChange] = {}
    for agent in agents:
        rule = rule_for(agent, home, content_of)
        if rule is not None:
            place = real_place(rule.path)
            _require_inside(agent.directory, rule.path, place[0])
            changes[place[0]] = _change(agent.harness, rule, place, changes.get(place[0]))
    return list(changes.values())


def _require_inside(directory: Path, asked: Path, real: Path) -> None:
    """What is allowed in a directory must not be allowed elsewhere: a repository can bring links along."""
    if asked.is_relative_to(directory) and not real.is_relative_to(directory.resolve()):
        raise RefusedForSafety(
            "a link would allow the mail commands somewhere else",
            f"{asked} → {real}",
            hint="remove the link; nothing was changed",
        )


def _change(harness: str, rule: Rule, place: tuple[Path, Path | None], earlier: FileChange | None) -> FileChange:
    path, link = place
    before = content_of(path)
    now = earlier.after if earlier else before or b""
    after = in_json(path, now, rule.edit).encode()
    return FileChange(
        path,
        before,
        after,
        _said(f"{harness} may use the mail commands", path, link),
        rule.form,
        rule.where,
        rule.names,
        link,
    )


def _said(what: str, path: Path, link: Path | None) -> str:
    """`what`, and the link where it leads out of its own directory."""
    return what if link is None or path.is_relative_to(link.parent.resolve()) else f"{what} ({link} leads there)"


def _marks(content: bytes | None, file: Path) -> Marks:
    return marks_within(content, file) if content else marks_of(file.name)


def _exists(path: Path) -> bool:
    return path.exists()
