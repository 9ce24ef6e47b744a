"""A profile written down as TOML, so that `load_profile` reads the same again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from adapters.screens.profile import Profile


def profile_text(profile: Profile) -> str:
    """The text of a profile file; what has its default value is left out."""
    table = profile.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return "\n".join(_sections(table, "")).strip("\n") + "\n"


def _sections(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """A table's own lines, then its sub-tables, then its arrays of tables."""
    for key, value in table.items():
        if not _is_section(key, value):
            yield f"{key} = {_value(value)}"
    for key, value in table.items():
        if not _is_section(key, value):
            continue
        name = f"{path}{key}"
        for item in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from _sections(item, f"{name}.")


def _is_section(key: str, value: Any) -> bool:
    """Whether a value gets a header of its own; styles are short and stay on their line."""
    if isinstance(value, dict):
        return not key.endswith("style")
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str) and "\\" in value and value.isprintable() and "'" not in value:
        return f"'{value}'"
    if isinstance(value, str):  # a JSON string is a TOML string, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
