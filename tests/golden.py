"""What others may rely on, by name: frozen in `golden.json`, compared by tests.

`python -m tests.golden` adds what is new to the file, and to the schemas of what commands print: their test, which runs the
commands, writes where `RECORD` is set. What stands in it is changed by hand, where a change is meant to break what others rely on.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from wake_bridge.cli.app import COMMANDS, cli
from wake_bridge.config.fields import Configuration
from wake_bridge.domain import errors
from wake_bridge.domain.delivery import DeliveryState, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports import adapter, sessions
from wake_bridge.storage.logs import EVENTS
from wake_bridge.testing.ledger_samples import fresh_ledger

ADAPTERS = entry_points(group="wake_bridge.adapters")
FILE = Path(__file__).with_name("golden.json")

RECORD = "WAKE_BRIDGE_TEST_GOLDEN"


def frozen() -> Any:
    """What `golden.json` says."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def broken(was: Any, now: Any, where: str = "") -> Iterator[str]:
    """Every place at which `now` lacks something of `was`, or says it otherwise; what is new is none."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name, value in was.items():
            if name in now:
                yield from broken(value, now[name], f"{where}/{name}")
            else:
                yield f"{where}/{name} is gone"
    elif isinstance(was, list) and isinstance(now, list):
        yield from (f"{where}: {one!r} is gone" for one in was if one not in now)
    elif was != now:
        yield f"{where}: {was!r} is now {now!r}"


def joined(was: Any, now: Any) -> Any:
    """`was` with what is new in `now`."""
    if isinstance(was, dict) and isinstance(now, dict):
        return {name: joined(was.get(name, now.get(name)), now.get(name, was.get(name))) for name in {**was, **now}}
    if isinstance(was, list) and isinstance(now, list):
        return sorted({*was, *now})
    return was


def collected() -> dict[str, Any]:
    """All of it as it is now, but for the fields of JSON: these are seen when commands are run."""
    return {
        "config": _keys_of(Configuration) | {f"adapters.{one.name}": _keys_of(one.load().Config) for one in ADAPTERS},
        "commands": {
            name: _parameters_of(cli.get_command(click.Context(cli), name))
            for commands in COMMANDS.values()
            for name in commands
        },
        "exit_codes": {
            name: kind.exit_code
            for name, kind in vars(errors).items()
            if isinstance(kind, type) and issubclass(kind, errors.WakeBridgeError)
        },
        "words": {
            kind.__name__: [str(one.value) for one in kind]
            for kind in (HoldReason, DeliveryState, Outcome, Proof, Step, PresenceState)
        },
        "log_events": sorted(EVENTS),
        "adapters": sorted(one.name for one in ADAPTERS),
        "ports": {module.__name__: _promises_of(module) for module in (adapter, sessions)},
        "ledger": _tables(),
    }


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """Every field of a JSON value, as a path; `[]` is any element, and names that no program wrote are not told apart."""
    if isinstance(value, dict):
        for name, one in value.items():
            here = f"{path}.{name if name.isidentifier() else '*'}".removeprefix(".")
            yield here
            yield from fields_of(one, here)
    elif isinstance(value, list):
        for one in value:
            yield from fields_of(one, f"{path}[]")


def _keys_of(table: type[BaseModel]) -> dict[str, Any]:
    schema = table.model_json_schema()
    known = schema.get("$defs", {})

    def described(one: Mapping[str, Any]) -> Any:
        one = known[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        if "properties" in one:
            return {name: described(value) for name, value in one["properties"].items()}
        kept = {name: value for name, value in one.items() if name not in {"title", "description"}}
        return json.dumps(kept, sort_keys=True)

    described_all: dict[str, Any] = described(schema)
    return described_all


def _parameters_of(command: click.Command | None) -> dict[str, Any]:
    assert command is not None
    said: dict[str, Any] = {
        "parameters": sorted(" ".join((*one.opts, *one.secondary_opts)) for one in command.params if one.name != "help")
    }
    if isinstance(command, click.Group):
        context = click.Context(command)
        said |= {name: _parameters_of(command.get_command(context, name)) for name in command.list_commands(context)}
    return said


def _promises_of(module: Any) -> dict[str, list[str]]:
    """The fields and methods of every public class, with their parameters' names."""
    return {
        name: sorted(
            {field.name for field in dataclasses.fields(kind)}
            if dataclasses.is_dataclass(kind)
            else {
                f"{method}({', '.join(inspect.signature(value).parameters)})"
                for method, value in vars(kind).items()
                if inspect.isfunction(value)
                and (not method.startswith("_") or value.__qualname__ == f"{name}.__init__")
            }
        )
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    }


def _tables() -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as directory:
        with fresh_ledger(Path(directory)):
            pass
        (file,) = Path(directory).glob("*.sqlite*")
        with closing(sqlite3.connect(file)) as ledger:
            names = [name for (name,) in ledger.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return {name: [row[1] for row in ledger.execute(f"PRAGMA table_info({name})")] for name in sorted(names)}


def record(now: Mapping[str, Any]) -> None:
    """Add what is new to the file."""
    everything = joined(frozen(), now)
    FILE.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(collected())
    test = FILE.parent / "integration/test_json_names.py"
    subprocess.run([sys.executable, "-m", "pytest", "-q", test], check=True, env={**os.environ, RECORD: "1"})
