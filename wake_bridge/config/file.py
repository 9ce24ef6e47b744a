"""Writes the configuration file: the first one by `init`, and the block of `[targets]` that `setup` keeps in it.

Everything outside the block stays as it is, byte for byte. Whatever is written is read back first: if the file would
then mean anything else than what it meant, and the block, nothing is written.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import PRIVATE_FILE, make_private_directory

_TEMPLATE = """\
# wake-bridge: only what differs from the defaults. config.example.toml explains every key.

[graph]
{path}

# Where an identity lives, if its subscription does not say so or you know better:
# [targets."@neo-gpt"]
# pane = "agents:1.0"
"""


def write_first_config(path: Path, graph: GraphPlace | None) -> bool:
    """Write a configuration file unless there is one.

    Args:
        path: where it goes.
        graph: the graph to name in it; None leaves the default in force.

    Returns:
        Whether it was written.

    Raises:
        OperationFailed: the file system refuses.
    """
    if path.exists():
        return False
    make_private_directory(path.parent)
    key = "url" if isinstance(graph, GraphUrl) else "path"
    line = f"{key} = {json.dumps(str(graph), ensure_ascii=False)}" if graph else '# path = "…"'
    try:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "w", encoding="utf-8"
        ) as file:
            file.write(_TEMPLATE.format(path=line))
    except FileExistsError:
        return False
    except OSError as refusal:
        raise OperationFailed(
            f"the configuration file cannot be written ({refusal.strerror})", str(path), hint="choose one with --config"
        ) from refusal
    return True


BEGIN: Final = "# >>> wake-bridge setup: written by `wake-bridge setup`, removed by `wake-bridge uninstall`"
END: Final = "# <<< wake-bridge setup"

_BLOCK: Final = re.compile(
    rb"^# >>> wake-bridge setup\b[^\n]*\n(?P<inside>.*?)^# <<< wake-bridge setup[ \t]*\r?(?P<end>\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
_MARK: Final = re.compile(rb"^# (?:>>>|<<<) wake-bridge setup\b", re.MULTILINE)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class BlockTarget:
    """One entry of the block; `socket` is empty for the usual tmux server.

    `agent` and `directory` say who must be there: a name can come to mean another pane.
    """

    pane: str
    socket: str = ""
    agent: str = ""
    directory: str = ""


def read_block(file: Path) -> dict[str, BlockTarget]:
    """The entries of the block by identity; empty where there is no block or no file.

    Raises:
        OperationFailed: the file cannot be read, or its block is damaged.
        RefusedForSafety: somebody changed the block.
    """
    found = _the_block(_content(file), file)
    return _entries(found, file) if found else {}


def write_block(file: Path, targets: Mapping[str, BlockTarget]) -> bool:
    """Let the block hold exactly these targets; answers whether the file had to be changed.

    A block that is there is replaced in its place, else one is added at the end; no target is no block.

    Raises:
        OperationFailed: the file cannot be read or written, or its block is damaged.
        RefusedForSafety: one of the targets is configured outside the block, somebody changed the block, or the file
            would come to mean something else.
    """
    before = _content(file)
    after = _composed(before, targets, file)
    if after == before:
        return False
    _require_same_meaning(before, after, targets, file)
    _replace(file, after)
    return True


def remove_block(file: Path) -> bool:
    """Take the block out; the file is then as it was before it was written. Answers whether there was one.

    Raises:
        OperationFailed: the file cannot be read or written, or its block is damaged.
        RefusedForSafety: somebody changed the block, or what stands behind it would come to mean something else.
    """
    return write_block(file, {})


def changed_lines(file: Path, identity: str, wanted: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """What to change by hand so that an identity's target says what is wanted: each line's number, how it is, how it must be.

    Args:
        file: the configuration file.
        identity: who has a target there, with a `pane`.
        wanted: the keys to change, by name; an empty value is one that need not be there.

    A key that is missing goes behind the line of the pane. Empty where the file is written in a way of its own.
    """
    lines = _content(file).decode("utf-8-sig", "replace").splitlines()
    at = {key: _line_that_says(lines, identity, key) for key in ("pane", *wanted)}
    changes: dict[int, str] = {}
    behind = ""
    for key, value in wanted.items():
        line = at[key]
        if line is not None:
            changes[line] = _ASSIGNED.sub(lambda told, value=value: f"{told[1]}{_quoted(value)}", lines[line], count=1)  # type: ignore[misc]
        elif value:
            behind += f"\n{key} = {_quoted(value)}"
    pane = at["pane"]
    if pane is None:
        return []
    if behind:
        changes[pane] = changes.get(pane, lines[pane]) + behind
    return [(line + 1, lines[line], becomes) for line, becomes in sorted(changes.items()) if becomes != lines[line]]


_ASSIGNED: Final = re.compile(r"""(=\s*)("(?:[^"\\]|\\.)*"|'[^']*')""")


def _line_that_says(lines: Sequence[str], identity: str, key: str) -> int | None:
    """The line on which the target's key alone is set; None where no line is it."""
    for number, line in enumerate(lines):
        if key not in line or len(_ASSIGNED.findall(line)) != 1:
            continue
        other = "\n".join([*lines[:number], _ASSIGNED.sub(r'\1"~"', line, count=1), *lines[number + 1 :]])
        try:
            if tomllib.loads(other)["targets"][identity][key] == "~":
                return number
        except (tomllib.TOMLDecodeError, LookupError, TypeError):
            continue
    return None


def _composed(before: bytes, targets: Mapping[str, BlockTarget], file: Path) -> bytes:
    found = _the_block(before, file)
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    if found is None:
        if not targets:
            return before
        # a last line without its end gets one, and the block goes without: so it can be told when it is removed
        lacks_end = bool(before) and not before.endswith(b"\n")
        return before + (newline if lacks_end else b"") + _text(targets, newline, ends=not lacks_end)
    has_end = bool(found["end"])
    if targets:
        return before[: found.start()] + _text(targets, newline, ends=has_end) + before[found.end() :]
    head = before[: found.start()]
    return (head if has_end else head.removesuffix(b"\n").removesuffix(b"\r")) + before[found.end() :]


def _text(targets: Mapping[str, BlockTarget], newline: bytes, *, ends: bool) -> bytes:
    return newline.join(line.encode() for line in _lines(targets)) + (newline if ends else b"")


def _lines(targets: Mapping[str, BlockTarget]) -> list[str]:
    lines = [BEGIN]
    for identity, target in sorted(targets.items()):
        lines.append(f"[targets.{_quoted(identity)}]")
        lines += [f"{key} = {_quoted(value)}" for key, value in _table(target).items()]
    return [*lines, END]


def _table(target: BlockTarget) -> dict[str, str]:
    return {key: value for key, value in asdict(target).items() if value or key == "pane"}


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are among TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _the_block(content: bytes, file: Path) -> re.Match[bytes] | None:
    found = list(_BLOCK.finditer(content))
    marks = len(_MARK.findall(content))
    if marks == 2 * len(found) <= 2:  # noqa: PLR2004 - one block has two marks
        return found[0] if found else None
    raise OperationFailed(
        "the block that `setup` wrote is damaged: there must be one line `# >>> wake-bridge setup` and one `# <<<`",
        str(file),
        hint="put the missing line back, or remove both and what stands between them",
    )


def _entries(found: re.Match[bytes], file: Path) -> dict[str, BlockTarget]:
    inside = _meaning(found["inside"], file)
    targets = {name: BlockTarget(**table) for name, table in _targets_in(inside).items() if _is_written_by_us(table)}
    if [*_lines(targets)[1:-1], ""] != found["inside"].decode().replace("\r\n", "\n").split("\n"):
        raise RefusedForSafety(
            "the block that `setup` wrote was changed by hand",
            str(file),
            hint="move what you changed out of it: a target above the block is yours, and `setup` leaves it alone",
        )
    return targets


def _is_written_by_us(table: object) -> bool:
    return (
        isinstance(table, dict)
        and {"pane"} <= set(table) <= {"pane", "socket", "agent", "directory"}
        and all(isinstance(value, str) for value in table.values())
    )


def _require_same_meaning(before: bytes, after: bytes, targets: Mapping[str, BlockTarget], file: Path) -> None:
    """Outside the block's own targets nothing may change, and those must be exactly what is wanted."""
    found = _the_block(before, file)
    earlier = _entries(found, file) if found else {}
    outside = before if found is None else before[: found.start()] + before[found.end() :]
    by_hand = _targets_in(_meaning(outside, file))
    both = sorted(set(targets) & set(by_hand))
    if both:
        raise RefusedForSafety(
            f"{', '.join(both)} is configured by hand already",
            str(file),
            hint=f"remove [targets.{_quoted(both[0])}] there to let `setup` write it, or leave it as it is",
        )
    was, will_be = _meaning(before, file), _meaning(after, file)
    new = _targets_in(will_be)
    wanted = {name: _table(one) for name, one in targets.items()}
    rest_was = _without(was, earlier)
    if _without(will_be, targets) != rest_was or any(new.get(name) != table for name, table in wanted.items()):
        raise RefusedForSafety(
            "the file would come to mean something else: lines behind the block that `setup` wrote belong to its last table",
            str(file),
            hint="put them into tables of their own, or above the block",
        )


def _without(tree: dict[str, Any], targets: Mapping[str, object]) -> dict[str, Any]:
    rest = {name: table for name, table in _targets_in(tree).items() if name not in targets}
    others = {name: value for name, value in tree.items() if name != "targets"}
    return {**others, "targets": rest} if rest else others


def _targets_in(tree: dict[str, Any]) -> dict[str, Any]:
    targets = tree.get("targets", {})
    return targets if isinstance(targets, dict) else {}


def _meaning(content: bytes, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as broken:
        raise OperationFailed(
            f"the targets cannot be written into this file ({broken})",
            str(file),
            hint='write `targets` as tables, one `[targets."@id"]` for each identity',
        ) from broken


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as refusal:
        raise OperationFailed(f"the configuration file cannot be read ({refusal.strerror})", str(file)) from refusal


def _replace(file: Path, content: bytes) -> None:
    """Put new content in place of the old at once; a link stays a link, and rights stay as they are.

    So does the file's time, which dates the pane ids in it: an id of an earlier tmux server must not look like one of today.
    """
    real = file.resolve()
    draft = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        known = real.stat()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), stat.S_IMODE(known.st_mode))
            os.fsync(stream.fileno())
        if re.search(rb"[\"']=?%\d", content):
            os.utime(draft, ns=(known.st_atime_ns, known.st_mtime_ns))
        draft.replace(real)
    except OSError as refusal:
        draft.unlink(missing_ok=True)
        raise OperationFailed(f"the configuration file cannot be written ({refusal.strerror})", str(file)) from refusal
