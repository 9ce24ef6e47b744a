"""Where settings come from: overrides beat aliases beat the file (CONTRACT "Global")."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from wake_bridge.edges.configuration.fields import Configuration
from wake_bridge.edges.configuration.mistakes import Key, Mistake, closest, keys_of, shown
from wake_bridge.edges.configuration.paths import AGENT_VARIABLE, CONFIG_VARIABLE, ConfigPlace
from wake_bridge.edges.configuration.trust import why_another_could_change

PREFIX: Final = "WAKE_BRIDGE_"
SESSION_VARIABLE: Final = "TMUX_SESSION"
ALIASES: Final[Mapping[str, Key]] = {
    "NEO_MEMORY_DB_PATH": ("graph", "path"),
    "NEO_AI_DAEMON_DIR": ("daemon", "state_dir"),
    "WAKE_MAX_DELIVERY_RETRIES": ("delivery", "max_attempts"),
}
_ADAPTERS: Final = PREFIX + "ADAPTERS_"
_TEST: Final = PREFIX + "TEST_"
_NO_SETTINGS: Final = frozenset({CONFIG_VARIABLE, AGENT_VARIABLE})
_HANDED_OVER: Final = ("/dev/", "/proc/")
"""Where a shell puts the pipes of `<(…)`: those have a writer."""

_WORDS_FOR_TRUTH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(slots=True)
class Gathered:
    """The settings as written, not yet judged: a tree, where each key was set, and what was wrong already."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Key, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    was_read: bool = False

    def put(self, key: Key, value: object, origin: str) -> None:
        """Set one key, making its tables; a value of the file that stands in a table's place is left for validation."""
        table = self.tree
        for name in key[:-1]:
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                return
            table = inner
        table[key[-1]] = value
        self.origins[key] = origin


def gather(
    place: ConfigPlace, environment: Mapping[str, str], adapter_names: Callable[[], Collection[str]]
) -> Gathered:
    """Read the file, then lay aliases and overrides over it.

    Args:
        place: the file to read.
        environment: the process's environment.
        adapter_names: the installed adapters; asked only when an override speaks of one.
    """
    gathered = Gathered()
    _read_file(place, gathered)
    for variable, key in ALIASES.items():
        if text := environment.get(variable):
            gathered.put(key, from_text(text, default_of(Configuration, key)), f"${variable}")
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in _NO_SETTINGS and not variable.startswith(_TEST):
            _override(variable, environment[variable], gathered, adapter_names)
    return gathered


def _read_file(place: ConfigPlace, gathered: Gathered) -> None:
    source = str(place.path)
    try:
        if stat.S_ISFIFO(place.path.stat().st_mode) and not source.startswith(_HANDED_OVER):
            gathered.mistakes.append(Mistake(source, "", "is a pipe, no file"))
            return
        with place.path.open("rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            if is_file and (reason := why_another_could_change(place.path)):
                gathered.mistakes.append(Mistake(source, "", reason))
            gathered.tree = tomllib.loads(file.read().decode("utf-8"))
        gathered.was_read = True
    except (FileNotFoundError, NotADirectoryError):
        if place.named_by:
            gathered.mistakes.append(Mistake(source, "", f"there is no such file ({place.named_by} names it)"))
    except OSError as refusal:
        gathered.mistakes.append(Mistake(source, "", f"cannot be read ({refusal.strerror})"))
    except UnicodeDecodeError as broken:
        gathered.mistakes.append(Mistake(source, "", f"is not UTF-8 text (byte {broken.start})"))
    except tomllib.TOMLDecodeError as broken:
        place_in_file = re.search(r"line (\d+), column (\d+)", str(broken))
        where = f"{source}:{place_in_file[1]}:{place_in_file[2]}" if place_in_file else source
        gathered.mistakes.append(Mistake(where, "", f"is not TOML: {str(broken).split(' (at')[0]}"))
    for key in _paths_in(gathered.tree):
        gathered.origins[key] = source


def _paths_in(tree: Mapping[str, Any], prefix: Key = ()) -> list[Key]:
    paths: list[Key] = []
    for name, value in tree.items():
        paths.append((*prefix, name))
        if isinstance(value, dict):
            paths.extend(_paths_in(value, (*prefix, name)))
    return paths


def _override(variable: str, text: str, gathered: Gathered, adapter_names: Callable[[], Collection[str]]) -> None:
    known = {PREFIX + "_".join(key).upper(): key for key in keys_of(Configuration)}
    if key := known.get(variable):
        gathered.put(key, from_text(text, default_of(Configuration, key)), f"${variable}")
        return
    if variable.startswith(_ADAPTERS):
        # the longest name first: an adapter `a-b` must win over `a`
        for name in sorted(adapter_names(), key=len, reverse=True):
            stem = _ADAPTERS + re.sub(r"\W", "_", name).upper() + "_"
            if variable.startswith(stem) and len(variable) > len(stem):
                inner = variable.removeprefix(stem).lower()
                value = from_text(text, default=True) if inner == "enabled" else text
                gathered.put(("adapters", name, inner), value, f"${variable}")
                return
    gathered.mistakes.append(
        Mistake(
            source=f"${variable}",
            key="",
            value=shown(text, variable),
            reason="no setting has this name",
            meant=closest(variable, [*known, CONFIG_VARIABLE]),
        )
    )


def default_of(model: type[BaseModel], key: Key) -> object:
    """The default of a key; its type says how text is read."""
    here: Any = model()
    for name in key:
        here = getattr(here, name)
    return here


def from_text(text: str, default: object) -> object:
    """An environment variable's text as the type of `default`; unchanged where it cannot be read, for validation."""
    try:
        match default:
            case bool():
                return _WORDS_FOR_TRUTH.get(text.strip().lower(), text)
            case int():
                return int(text)
            case float():
                return float(text)
            case tuple() | list():
                return [part.strip() for part in text.split(",") if part.strip()]
            case _:
                return text
    except ValueError:
        return text
