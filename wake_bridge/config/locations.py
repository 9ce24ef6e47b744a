"""Where graph and state lie, read without checking the rest of the configuration.

Most of the time of a short command goes into the models that check every key. A command that asks for nothing but a place
asks here first; the whole configuration is checked wherever what it says of the places is not beyond doubt.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from wake_bridge.domain.graph_places import GraphPlace
from wake_bridge.system.files import (
    ConfigPlace,
    default_graph_file,
    default_screens_directory,
    default_state_directory,
    expanded,
    locate_config,
    why_another_could_change,
)

GRAPH_KEYS: Final = frozenset({"path", "url", "poll_interval", "watch", "user_scope", "serve"})
DAEMON_KEYS: Final = frozenset({"state_dir", "log_level", "log_format", "log_file", "retention_days"})
SCREENS_KEYS: Final = frozenset({"directory"})
"""All keys of the tables: one that is none of them may be a place that somebody misspelled."""

SETTINGS_NAME: Final = "settings.json"
"""Where a daemon writes down, in its state directory, by what it goes."""

_OVERRIDES: Final = (
    "WAKE_BRIDGE_GRAPH_",
    "WAKE_BRIDGE_DAEMON_",
    "WAKE_BRIDGE_SCREENS_",
    "NEO_MEMORY_DB_PATH",
    "NEO_AI_DAEMON_DIR",
)


class Locations(NamedTuple):
    """The two places that commands work on, and where screen profiles of the user's own would lie."""

    graph_place: GraphPlace
    state_dir: Path
    own_screens: Path


def find_locations(config_option: str | None, environment: Mapping[str, str]) -> Locations | None:
    """What the configuration says of the places; None where only checking all of it can tell.

    Args:
        config_option: the value of `--config`, if given.
        environment: the process's environment.
    """
    if any(name.startswith(_OVERRIDES) for name in environment):
        return None
    place = locate_config(config_option, environment)
    tables = _tables_of(place)
    if tables is None:
        return None
    graph, daemon = tables.get("graph", {}), tables.get("daemon", {})
    if not (_is_plain(graph, GRAPH_KEYS) and _is_plain(daemon, DAEMON_KEYS)):
        return None
    screens = tables.get("screens", {})
    if not _is_plain(screens, SCREENS_KEYS):
        return None
    if graph.get("url"):
        # whoever checks the whole of it says what is wrong with a URL
        return None
    told = graph.get("path", ""), daemon.get("state_dir", ""), screens.get("directory", "")
    if not all(isinstance(one, str) for one in told):
        return None
    graph_file, state_dir, profiles = (place.path.parent / expanded(one) if one else None for one in told)
    return Locations(
        graph_file or default_graph_file(),
        state_dir or default_state_directory(),
        profiles or default_screens_directory(),
    )


def _tables_of(place: ConfigPlace) -> dict[str, Any] | None:
    """What the file says; None where something is wrong with it."""
    try:
        if not place.path.exists():
            return None if place.named_by else {}
        if not place.path.is_file() or why_another_could_change(place.path):
            return None
        return tomllib.loads(place.path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None


def _is_plain(table: Any, keys: frozenset[str]) -> bool:
    return isinstance(table, dict) and keys >= set(table)
