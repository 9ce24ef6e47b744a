"""What an upstream wake daemon left in its directory: its cursor, and what it has woken for (DESIGN §2, `--from-neo`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.messages import texts_of
from wake_bridge.domain.names import Identity, LogId, is_identity
from wake_bridge.edges.service.cursor_file import LastSyncId
from wake_bridge.engine.tail.takeover import Inheritance
from wake_bridge.ports.change_log import Published

WATERMARK_FILE: Final = "woken-watermark.json"

_MESSAGES: Final = "__messageIdsByIdentity"


def read_inheritance(directory: Path) -> tuple[Inheritance, tuple[str, ...]]:
    """Read an upstream daemon's directory; also answers, in a clause each, what could not be read. Never raises."""
    problems: list[str] = []
    published = LastSyncId(directory).read()
    if not isinstance(published, Published):
        problems.append(f"lastSyncId: {published or 'it is missing'}")
    watermarks = _watermarks(directory / WATERMARK_FILE, problems)
    told = watermarks.get(_MESSAGES)
    inheritance = Inheritance(
        cursor=published.cursor if isinstance(published, Published) else None,
        woken_upto={
            name: LogId(value) for name, value in watermarks.items() if type(value) is int and name != _MESSAGES
        },
        messages={
            Identity(name): texts_of(ids)
            for name, ids in (told.items() if isinstance(told, dict) else ())
            if is_identity(name)
        },
    )
    return inheritance, tuple(problems)


def _watermarks(path: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as refusal:
        problems.append(f"{WATERMARK_FILE}: it cannot be read ({refusal.strerror})")
        return {}
    except (ValueError, RecursionError):
        problems.append(f"{WATERMARK_FILE}: it is not JSON")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{WATERMARK_FILE}: it is no object")
        return {}
    return content
