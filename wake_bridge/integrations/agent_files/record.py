"""The record of what was written into agents' files, and its removal: to the byte, or our part alone after a change.

No content of theirs is kept, only our own spot: where it is, what we put there, and what it replaced.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.values import dataclass
from wake_bridge.integrations.agent_files.json_file import (
    NotJson,
    WrongShape,
    depth_of,
    parse,
    value_at,
    without,
    without_items,
)
from wake_bridge.integrations.agent_files.text_file import (
    FileChange,
    Form,
    JsonPart,
    content_of,
    replace_content,
    without_block,
)
from wake_bridge.system.files import PRIVATE_FILE, make_private_directory

RECORD_FILE: Final = "agent_files.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Our spot in one file.

    Args:
        path: the file, links followed.
        what: what it was for.
        form: how our part is found again once the rest was edited.
        created: the file is ours altogether.
        written: SHA-256 of the file as we left it.
        offset: where our spot begins, in bytes.
        inserted: what we put there (base64).
        replaced: what stood there before (base64).
        where: for JSON the names down to our part.
        names: for JSON what we added there; what was there already is not ours.
        kept: for JSON how many of `where` were there already.
        directories: those made for the file, outermost first.
        also: for JSON further parts of ours.
    """

    path: str
    what: str
    form: Form
    created: bool
    written: str
    offset: int
    inserted: str
    replaced: str
    where: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kept: int = 0
    directories: tuple[str, ...] = ()
    also: tuple[JsonPart, ...] = ()

    def original(self, content: bytes) -> bytes | None:
        """The file as it was before us, from what it is now; None where there was none.

        To the byte if nobody touched it since; else without our part, and whatever was edited stays, unless the file is
        ours as a whole.

        Raises:
            OperationFailed: our part cannot be identified any more.
        """
        if self.form is Form.WHOLE and self.created:
            return None
        if _digest(content) == self.written:
            if self.created:
                return None
            end = self.offset + len(base64.b64decode(self.inserted))
            return content[: self.offset] + base64.b64decode(self.replaced) + content[end:]
        rest = self._without_our_part(content)
        return None if self.created and rest.strip() in {b"", b"{}"} else rest

    def _without_our_part(self, content: bytes) -> bytes:
        ours = base64.b64decode(self.inserted)
        if self.form is Form.BLOCK:
            return without_block(content, Path(self.path), had_end=not ours.startswith((b"\n\n", b"\r\n\r\n")))
        try:
            if content.count(ours) == 1:
                # it stands there as we put it: the edits are elsewhere, and what it replaced comes back word for word
                rest = content.replace(ours, base64.b64decode(self.replaced))
                parse(rest.decode())
                return rest
            text = content.decode()
            if self.form is Form.HOOKS:
                return without_items(text, self.where, self._is_our_hook, inner="hooks", keep=self.kept).encode()
            for part in (JsonPart(self.where, self.names, self.kept), *self.also):
                text = without(text, part.where, part.names, keep=part.kept)
            return text.encode()
        except (UnicodeDecodeError, NotJson, WrongShape) as broken:
            raise OperationFailed(
                f"what was added cannot be removed: the file is broken ({broken})",
                self.path,
                hint=f"remove {', '.join(self.names)} by hand",
            ) from broken

    def _is_our_hook(self, item: Any) -> bool:
        """By what it calls, however whoever wrote the file last spells it."""
        return isinstance(item, dict) and item.get("command") in {json.loads(name) for name in self.names}


def read_files_record(state_dir: Path) -> tuple[WrittenFile, ...]:
    """What is written now; empty where there is no record.

    Raises:
        OperationFailed: the record cannot be read.
    """
    file = state_dir / RECORD_FILE
    try:
        content = content_of(file)
        return () if content is None else tuple(_entry(one) for one in json.loads(content)["files"])
    except (ValueError, TypeError, KeyError, RecursionError) as broken:
        raise OperationFailed(
            "the record of what was written into the agents' files is damaged",
            str(file),
            hint="the blocks are marked `wake-bridge: begin`, the rules name `wake-bridge`: remove them by hand",
        ) from broken


def write_files_record(state_dir: Path, files: Sequence[WrittenFile]) -> None:
    """Keep the record, for its owner alone; without files there is none.

    Raises:
        OperationFailed: the state directory refuses.
    """
    file = state_dir / RECORD_FILE
    if not files:
        file.unlink(missing_ok=True)
        return
    make_private_directory(state_dir)
    text = json.dumps({"version": _VERSION, "files": [_record(one) for one in files]}, ensure_ascii=False, indent=1)
    replace_content(file, text.encode() + b"\n", new_mode=PRIVATE_FILE)


def recorded(
    changes: Iterable[FileChange], made: Iterable[Path], earlier: Sequence[WrittenFile]
) -> tuple[WrittenFile, ...]:
    """The record once `changes` are written; what an earlier run wrote into the same files is taken in.

    Args:
        changes: what is written.
        made: the directories that had to be made.
        earlier: the record so far.
    """
    known = {entry.path: entry for entry in earlier}
    directories = tuple(str(one) for one in made)
    for change in changes:
        before = known.get(str(change.path))
        if change.changes or before or change.form is Form.WHOLE:
            known[str(change.path)] = _written(change, before, directories)
    return tuple(known.values())


def _written(change: FileChange, before: WrittenFile | None, made: Sequence[str]) -> WrittenFile:
    original = None if change.form is Form.WHOLE else change.before
    if before and original is not None:
        original = before.original(original)
    elif change.form is Form.BLOCK and original is not None:
        original = without_block(original, change.path)
    start, end = _spot(original or b"", change.after)
    names, kept = _ours(change, change.where, change.names, original)
    also = tuple(JsonPart(one.where, *_ours(change, one.where, one.names, original)) for one in change.also)
    # what an earlier run added is ours still
    if before and before.form is change.form is Form.JSON and before.where == change.where:
        names = tuple(dict.fromkeys((*names, *before.names)))
    also += tuple(one for one in (before.also if before else ()) if one.where not in {part.where for part in also})
    holders = {str(one) for one in change.path.parents}
    return WrittenFile(
        path=str(change.path),
        what=change.what,
        form=change.form,
        created=original is None,
        written=_digest(change.after),
        offset=start,
        inserted=_kept(change.after[start : len(change.after) - end]),
        replaced=_kept((original or b"")[start : len(original or b"") - end]),
        where=change.where,
        names=names,
        kept=kept,
        also=also,
        directories=tuple(
            dict.fromkeys((*(before.directories if before else ()), *(one for one in made if one in holders)))
        ),
    )


def _ours(
    change: FileChange, where: tuple[str, ...], names: tuple[str, ...], original: bytes | None
) -> tuple[tuple[str, ...], int]:
    if change.form not in {Form.JSON, Form.HOOKS} or not original:
        return names, 0
    text = original.decode()
    if change.form is Form.HOOKS:
        return names, depth_of(text, where)
    try:
        theirs = value_at(text, where) or ()
        kept = depth_of(text, where)
    except WrongShape:
        # one word stood for all commands where an object stands now
        theirs, kept = (), len(where)
    return tuple(name for name in names if name not in theirs), kept


def _spot(original: bytes, after: bytes) -> tuple[int, int]:
    """How many bytes at the start and at the end are the same in both."""
    start = _same(original, after)
    room = min(len(original), len(after)) - start
    return start, min(room, _same(original[::-1], after[::-1]))


def _same(one: bytes, other: bytes) -> int:
    return next(
        (place for place, (here, there) in enumerate(zip(one, other, strict=False)) if here != there),
        min(len(one), len(other)),
    )


def _record(entry: WrittenFile) -> dict[str, Any]:
    """An entry as it is stored; what most have none of is left out, so that an earlier version can read it."""
    record = asdict(entry)
    return record if entry.also else {name: value for name, value in record.items() if name != "also"}


def _entry(content: dict[str, Any]) -> WrittenFile:
    lists = {name: tuple(content[name]) for name in ("where", "names", "directories")}
    also = tuple(JsonPart(tuple(one["where"]), tuple(one["names"]), one["kept"]) for one in content.get("also", ()))
    return WrittenFile(**{**content, **lists, "also": also, "form": Form(content["form"])})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _kept(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass(frozen=True, slots=True)
class Removal:
    """One file as it is and as it will be without us; `after` is None where it goes.

    `trouble` says why our part cannot be taken out; the file then stays as it is.
    """

    entry: WrittenFile
    before: bytes | None
    after: bytes | None
    trouble: str = ""

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.entry.path)

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after and not self.trouble


def plan_removal(files: Sequence[WrittenFile]) -> list[Removal]:
    """What taking everything back would do; nothing is written."""
    return [_removal(entry) for entry in files]


def remove(state_dir: Path, of: Callable[[WrittenFile], bool] = lambda _: True) -> list[Removal]:
    """Take back what the record names, and what is done out of the record.

    Args:
        state_dir: where the record is kept.
        of: which of the files are meant; all of them where nothing is said.

    Files that cannot be mended are left, stay in the record, and are in the answer with their trouble.

    Raises:
        OperationFailed: the record cannot be read or written.
    """
    files = read_files_record(state_dir)
    removals = [_carry_out(removal) for removal in plan_removal([one for one in files if of(one)])]
    left = {removal.entry.path for removal in removals if removal.trouble}
    write_files_record(state_dir, [one for one in files if not of(one) or one.path in left])
    return removals


def _removal(entry: WrittenFile) -> Removal:
    try:
        before = content_of(Path(entry.path))
        return Removal(entry, before, None if before is None else entry.original(before))
    except OperationFailed as trouble:
        return Removal(entry, b"", b"", f"{trouble.what}; {trouble.hint}" if trouble.hint else trouble.what)


def _carry_out(removal: Removal) -> Removal:
    try:
        if removal.changes and removal.after is None:
            removal.path.unlink(missing_ok=True)
        elif removal.changes and removal.after is not None:
            replace_content(removal.path, removal.after)
    except (OperationFailed, OSError) as trouble:
        return Removal(removal.entry, removal.before, removal.before, str(trouble))
    if not removal.trouble:
        _leave_directories(removal.entry)
    return removal


def _leave_directories(entry: WrittenFile) -> None:
    """Directories made for the file go when nothing else is in them."""
    for directory in reversed(entry.directories):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
