"""The record of what `setup` did, for undoing it: `setup.json` in the state directory."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.errors import LedgerUnwritable, OperationFailed
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import PRIVATE_FILE, make_private_directory, read_own_file

RECORD_FILE: Final = "setup.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SetIdentity:
    """One identity that `setup` gave to an agent.

    `added`: its node did not exist before. `subscriptions` are those that `setup` made, not any that were there.
    `finished`: its target stood in the configuration; until then its subscriptions may be incomplete.
    """

    identity: str
    harness: str
    directory: str
    pane: str
    socket: str = ""
    added: bool = False
    subscriptions: tuple[str, ...] = ()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class SetupRecord:
    """Everything that `setup` wrote, so far as it is not gone again.

    `config` is the file with the block of targets, `graph` the graph with the identities; the two flags say that
    `setup` made the file itself. `directories` are those it made, outermost first. What it told the agents in their
    own files has a record of its own (`agent_files`).
    """

    config: str = ""
    config_made: bool = False
    graph: str = ""
    graph_made: bool = False
    directories: tuple[str, ...] = ()
    identities: tuple[SetIdentity, ...] = ()


def read_record(state_dir: Path) -> SetupRecord:
    """What earlier runs wrote; an empty record where there is none.

    Raises:
        OperationFailed: the file is there, but cannot be read.
    """
    file = state_dir / RECORD_FILE
    try:
        content = json.loads(read_own_file(file))
        return _record(content)
    except (FileNotFoundError, NotADirectoryError):
        return SetupRecord()
    except OSError as refusal:
        raise OperationFailed(f"the record of `setup` cannot be read ({refusal.strerror})", str(file)) from refusal
    except (ValueError, TypeError, KeyError, RecursionError) as broken:
        raise OperationFailed(
            "the record of `setup` is damaged",
            str(file),
            hint="move it away: `setup` then finds its identities only in the configuration's block",
        ) from broken


def write_record(state_dir: Path, record: SetupRecord) -> None:
    """Write the record, for its owner alone (0600).

    Raises:
        OperationFailed: the state directory cannot be made.
        LedgerUnwritable: it refuses to be written.
    """
    make_private_directory(state_dir)
    file = state_dir / RECORD_FILE
    draft = file.with_name(f".{RECORD_FILE}.{secrets.token_hex(4)}")
    text = json.dumps({"version": _VERSION, **asdict(record)}, ensure_ascii=False, indent=1) + "\n"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError as refusal:
        draft.unlink(missing_ok=True)
        raise LedgerUnwritable(
            f"the record of `setup` cannot be written ({refusal.strerror})",
            str(file),
            hint="give this user write access to the state directory",
        ) from refusal


def _record(content: dict[str, Any]) -> SetupRecord:
    if content.pop("version") != _VERSION:
        raise ValueError("another version wrote it")
    identities = tuple(
        SetIdentity(**{**one, "subscriptions": tuple(one["subscriptions"])}) for one in content.pop("identities")
    )
    directories = tuple(content.pop("directories"))
    return SetupRecord(**content, identities=identities, directories=directories)
