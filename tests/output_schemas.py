"""JSON Schemas of what commands print with `--json`, one for each command, made from what they really print.

`python -m tests.golden` adds what is new to the files in `wake_bridge/schemas/output`. Every field may be null, where it is absent; more fields may come at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wake_bridge.cli.output import NOT_OURS

FOLDER: Final = Path(__file__).parents[1] / "wake_bridge/schemas/output"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

Schema = dict[str, Any]


def file_of(command: str) -> Path:
    """Where the schema of a command lies."""
    return FOLDER / f"{command.replace(' ', '-')}.schema.json"


def schema_of(command: str, answers: Iterable[Any]) -> Schema:
    """The schema of one line of what a command prints."""
    said = {"$schema": DIALECT, "title": f"one line of `wake-bridge {command} --json`"}
    return said | _joined_of([_seen(one) for one in answers])


def joined(was: Schema, now: Schema) -> Schema:
    """Both together: what either of them allows."""
    kinds = sorted({*was.get("type", ()), *now.get("type", ())})
    # what was only ever null says nothing yet
    both = {**now, **was, **({"type": kinds} if kinds else {})}
    if "properties" in was or "properties" in now:
        ours, theirs = was.get("properties", {}), now.get("properties", {})
        both["properties"] = {
            name: joined(ours.get(name, {}), theirs.get(name, {})) for name in sorted({*ours, *theirs})
        }
    if "items" in was or "items" in now:
        both["items"] = joined(was.get("items", {}), now.get("items", {}))
    return both


def strict(schema: Schema) -> Schema:
    """The same without fields that it does not name, for who compares it with what is printed."""
    narrow = dict(schema)
    if "properties" in schema:
        narrow["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
        narrow["additionalProperties"] = False
    if "items" in schema:
        narrow["items"] = strict(schema["items"])
    return narrow


def written(schema: Schema) -> str:
    """As its file holds it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _seen(value: Any, name: str = "") -> Schema | None:
    """What one value shows of its schema; None where it is null, which shows nothing."""
    if value is None:
        return None
    schema: Schema = {"type": [_KINDS[type(value)], "null"]}
    # names that no program wrote, and words that are not ours
    is_open = isinstance(value, dict) and (name in NOT_OURS or not all(one.isidentifier() for one in value))
    if isinstance(value, dict) and not is_open:
        fields = {one: _seen(each, one) for one, each in sorted(value.items())}
        schema["properties"] = {one: each or {} for one, each in fields.items()}
    if isinstance(value, list) and value and name not in NOT_OURS:
        schema["items"] = _joined_of([_seen(one) for one in value])
    return schema


def _joined_of(seen: Sequence[Schema | None]) -> Schema:
    shown = [one for one in seen if one is not None]
    if not shown:
        return {}
    first, *others = shown
    for one in others:
        first = joined(first, one)
    return first
