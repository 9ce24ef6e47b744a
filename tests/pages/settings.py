"""config.example.toml, and the table of keys in docs/settings.md, made from the declarations of the keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from wake_bridge.config.channel_fields import ChannelTable
from wake_bridge.config.fields import Configuration, SenderTable, SourceTable, TargetTable
from wake_bridge.config.secrets import ConfiguredSecret
from wake_bridge.config.settings import waits_for_restart

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "config.example.toml"
PAGE: Final = ROOT / "docs/settings.md"
BEGIN: Final = "<!-- keys: written by `make docs` -->"
END: Final = "<!-- end of keys -->"

HEAD: Final = """\
# wake-bridge: every key with its default. Copy what you need to <config dir>/wake-bridge/config.toml
# (`wake-bridge init` makes one; `wake-bridge config check` names the file that is read and every mistake in it).
# Each key but those of [targets], [channels], [sources] and [http.senders] can also be set by the environment: WAKE_BRIDGE_<SECTION>_<KEY>, for example
# WAKE_BRIDGE_COALESCE_WINDOW=10 or WAKE_BRIDGE_PRESENCE_RELOOK_MIN=3. Write a list with commas, as in
# WAKE_BRIDGE_GRAPH_SERVE=one,two (a list with a comma in an entry belongs into this file); true and false also as yes, no, on, off, 1, 0.
# Relative paths are meant from this file's directory.
"""
ADAPTERS: Final = ("tmux", "osascript", "claude", "codex", "copilot", "opencode", "qwen", "webhook", "heartbeat")
TARGET: Final = 'targets."@neo-gpt"'
SENDER: Final = "http.senders.NAME"
CHANNEL: Final = "channels.NAME"
SOURCE: Final = "sources.NAME"
_COLUMN: Final = 28


def example() -> str:
    """What `config.example.toml` must say: every key that is declared with a word about it."""
    return HEAD + "".join(f"\n{_section(path, table)}" for path, table in _tables())


def with_keys(page: str) -> str:
    """The page with the table as the keys are now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = ["| key | default | values | what it is | counts after |", "|---|---|---|---|---|"]
    for path, table in _tables():
        for name, field in _explained(table):
            key = f"{path}.{name}".replace(TARGET, 'targets."@id"')
            after = "restart" if waits_for_restart(key) else "reload"
            default = (
                "needed" if field.is_required() else "unset" if field.default is None else f"`{_toml(field.default)}`"
            )
            about = _about(field).replace("|", r"\|").replace("<", "&lt;")
            rows.append(f"| `{key}` | {default} | {_values(field)} | {about} | {after} |")
    return f"{head}{BEGIN}\n\n" + "\n".join(rows) + f"\n\n{END}{tail}"


def _tables() -> Iterator[tuple[str, type[BaseModel]]]:
    yield from _below(Configuration, "")


def _below(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        if name == "adapters":
            found = {one.name: one for one in entry_points(group="wake_bridge.adapters")}
            yield from ((f"adapters.{one}", found[one].load().Config) for one in ADAPTERS)
        elif name == "targets":
            yield TARGET, TargetTable
        elif name == "channels":
            yield CHANNEL, ChannelTable
        elif path == "sources":
            yield SOURCE, SourceTable
        elif path == "http.senders":
            yield SENDER, SenderTable
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield path, field.annotation
            yield from _below(field.annotation, f"{path}.")


def _section(path: str, table: type[BaseModel]) -> str:
    is_open = path in {TARGET, SENDER, CHANNEL, SOURCE}
    lines = [_with_word(f"{'# ' * is_open}[{path}]", (table.__doc__ or "").partition("]`: ")[2].rstrip("."))]
    for name, field in _explained(table):
        shown = field.examples[0] if field.examples else field.default
        lines.append(_with_word(f"# {name} = {_toml(shown)}", _about(field)))
    return "\n".join(lines) + "\n"


def _explained(table: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    return ((name, field) for name, field in table.model_fields.items() if field.description)


def _with_word(text: str, word: str) -> str:
    return f"{text:<{_COLUMN - 1}} # {word}" if word else text


def _about(field: FieldInfo) -> str:
    """Unit, words and range."""
    unit = next((one for one in _marks(field) if isinstance(one, str)), "")
    reach = _reach(field)
    return " ".join(part for part in (unit, field.description, f"({reach})" if reach else "") if part)


def _values(field: FieldInfo) -> str:
    kind = next((one for one in _kinds(field.annotation) if one is not type(None)), str)
    if get_origin(kind) is dict:
        return "table"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, str) and kind is not str:
        return ", ".join(f"`{one}`" for one in kind)  # type: ignore[attr-defined]
    names = {bool: "true, false", int: "whole number", float: "number", str: "text", ConfiguredSecret: "text"}
    return names.get(kind, "list") if isinstance(kind, type) else "list"


def _reach(field: FieldInfo) -> str:
    marks = _marks(field)
    least = next((f"{one.ge:g}" for one in marks if isinstance(one, Ge)), "")
    most = next((f"{one.le:g}" for one in marks if isinstance(one, Le)), "")
    return f"{least}–{most}" if least and most else f"at least {least}" if least and least != "0" else ""


def _marks(field: FieldInfo) -> list[Any]:
    """What stands beside the type, in the field or in a part of it, opened."""
    found = [*field.metadata]
    for kind in get_args(field.annotation) if get_origin(field.annotation) in {Union, UnionType} else ():
        found += getattr(kind, "__metadata__", ())
    return [inner for one in found for inner in (one.metadata if isinstance(one, FieldInfo) else [one])]


def _kinds(annotation: Any) -> list[Any]:
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return [get_args(one)[0] if hasattr(one, "__metadata__") else one for one in kinds]


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)
