"""A checked configuration, written down and read back without the models that checked it.

Importing and building these models takes most of the time of a short command. What they make depends on nothing but the tree
that was written, the program, and the names of the installed adapters: the daemon writes down what it made of which tree,
and a command that finds the same tree takes that.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from wake_bridge.config.secrets import ConfiguredSecret, SecretArguments
from wake_bridge.program_version import program_version

if TYPE_CHECKING:
    from wake_bridge.config.fields import Configuration

_MODELS: Final = ("channel_fields.py", "field_types.py", "fields.py")


class TableReadBack(SimpleNamespace):
    """A table of the configuration that no model made: its keys are attributes, as those of `fields.Table`."""


def is_table(value: object) -> bool:
    """Whether a value of the configuration is a table with fixed keys, which `vars` tells."""
    return isinstance(value, TableReadBack) or hasattr(type(value), "model_fields")


def fingerprint(tree: Mapping[str, Any], surroundings: object) -> str:
    """The same for the same tree, read by the same program in the same surroundings.

    Args:
        tree: what was gathered.
        surroundings: what else decides what the tree makes; two are the same if their representations are.
    """
    text = json.dumps([tree, [program_version(), models_stamp()], repr(surroundings)], default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def models_stamp() -> list[list[int]]:
    """Modification time in ns and size in bytes of the models' files on disk: another release has another stamp."""
    models = [Path(__file__).with_name(one).stat() for one in _MODELS]
    return [[one.st_mtime_ns, one.st_size] for one in models]


def written_down(value: object) -> Any:
    """The configuration, or a value in it, as JSON; of a secret only where it stands, and its fingerprint.

    Raises:
        ValueError: it holds something that JSON cannot tell apart, such as a date in the table of an adapter.
    """
    return _written(value, ())


def read_back(record: Any, tree: Mapping[str, Any] | None = None) -> Configuration:
    """What `written_down` was given.

    Args:
        record: what it answered.
        tree: where secrets are read, the tree that was checked; without it they are their fingerprints.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: nothing of ours was written there.
    """
    found = _read(record, tree)
    if not isinstance(found, TableReadBack):
        raise TypeError("no configuration")
    return cast("Configuration", found)


def _written(value: Any, key: tuple[str, ...]) -> Any:
    if is_table(value):
        return ["table", {name: _written(inner, (*key, name)) for name, inner in vars(value).items()}]
    match value:
        case Mapping():
            return ["mapping", {name: _written(inner, (*key, str(name))) for name, inner in value.items()}]
        case ConfiguredSecret():
            return ["secret", key, value.fingerprint]
        case SecretArguments():
            return ["arguments", key, value.fingerprint]
        case Enum():
            return ["word", type(value).__module__, type(value).__qualname__, value.value]
        case tuple() | list():
            return ["array", isinstance(value, tuple), [_written(inner, key) for inner in value]]
        case str() | bool() | int() | float() | None:
            return value
        case _:
            raise ValueError(f"a {type(value).__name__} cannot be written down")


def as_json(value: object) -> Any:
    """The configuration, or a value in it, as pydantic's `model_dump(mode="json")` writes it, whether or not a model made it."""
    if is_table(value):
        value = vars(value)
    match value:
        case Mapping():
            return {name: as_json(inner) for name, inner in value.items()}
        case ConfiguredSecret() | SecretArguments():
            return value.fingerprint
        case Enum():
            return value.value
        case tuple() | list():
            return [as_json(inner) for inner in value]
        case _:
            return value


def with_values(table: Any, **values: object) -> Any:
    """A copy of the table with these values for some of its keys; the values are not checked."""
    if isinstance(table, TableReadBack):
        return TableReadBack(**vars(table) | values)
    return table.model_copy(update=values)


def _read(record: Any, tree: Mapping[str, Any] | None) -> Any:
    match record:
        case ["table", dict(inner)]:
            return TableReadBack(**{str(name): _read(one, tree) for name, one in inner.items()})
        case ["mapping", dict(inner)]:
            return {name: _read(one, tree) for name, one in inner.items()}
        case ["array", is_tuple, [*inner]]:
            found = [_read(one, tree) for one in inner]
            return tuple(found) if is_tuple else found
        case ["word", str(module), str(name), value]:
            return _word(module, name, value)
        case ["secret", [*key], told]:
            return ConfiguredSecret(told if tree is None else _at(tree, key))
        case ["arguments", [*key], told]:
            return SecretArguments(told if tree is None else _at(tree, key))
        case [*_] | {}:
            raise ValueError("no configuration")
        case _:
            return record


def _word(module: str, name: str, value: object) -> Any:
    if not module.startswith("wake_bridge.domain."):
        raise ValueError(f"{module} has no words of the configuration")
    return getattr(importlib.import_module(module), name)(value)


def _at(tree: Mapping[str, Any], key: list[str]) -> Any:
    here: Any = tree
    for name in key:
        here = here[name]
    return here
