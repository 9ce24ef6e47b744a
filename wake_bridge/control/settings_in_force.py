"""The settings in force: the daemon writes them down, commands compare them with the file and fall back on them.

A command is about the daemon of its graph. So it goes where that daemon keeps its state, whatever the file says by now,
and by that daemon's last good settings where the file cannot be used.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.config.checked import as_json, read_back, written_down
from wake_bridge.config.layers import gather
from wake_bridge.config.locations import SETTINGS_NAME
from wake_bridge.config.settings import Settings, changed_keys, installed_adapters, load_settings, waits_for_restart
from wake_bridge.control.graph_lock import holders
from wake_bridge.control.instance_lock import holder
from wake_bridge.control.serving import has_no_graph, state_dir_in_use
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl, graph_place
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import default_state_directory, locate_config, read_own_file, replace_file

if TYPE_CHECKING:
    from wake_bridge.config.fields import Configuration

_PLACES: Final = (("graph", "path"), ("graph", "url"), ("daemon", "state_dir"))


def write_settings(state_dir: Path, settings: Settings) -> None:
    """Write down what this daemon goes by, for its owner alone. Raises `OSError`."""
    record = {
        "pid": os.getpid(),
        "config": as_json(settings.config),
        "judged": _checked(settings.config),
        "fingerprint": settings.fingerprint,
        "adapters": installed_adapters(),
        "configFile": str(settings.config_file),
        "sourceFiles": [str(one) for one in settings.source_files],
        "graph": str(settings.graph_place),
        "hasGraph": settings.has_graph,
        "stateDir": str(settings.state_dir),
        "logFile": str(settings.log_file or ""),
        "screens": str(settings.screens_directory or ""),
        "ownScreens": str(settings.own_screens),
        "fallbackPane": settings.fallback_pane,
        "origins": [[list(key), origin] for key, origin in settings.origins.items()],
    }
    replace_file(state_dir / SETTINGS_NAME, json.dumps(record, default=str))


def settings_of_daemon(state_dir: Path) -> Settings | None:
    """What the daemon that serves the state directory goes by; None where none does, or it has not said so."""
    try:
        running = holder(state_dir)
        record = json.loads(read_own_file(state_dir / SETTINGS_NAME))
        if running is None or record["pid"] != running.pid:
            return None
        return _settings(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def as_the_daemon_goes(settings: Settings) -> Settings:
    """The settings by which the daemon of the state directory judges, whatever was edited since; as given where none runs."""
    theirs = settings_of_daemon(settings.state_dir)
    if theirs is None:
        return settings
    return replace(theirs, graph_place=settings.graph_place, state_dir=settings.state_dir)


def _settings(record: Mapping[str, Any]) -> Settings:
    return Settings(
        config=_config(record),
        config_file=Path(record["configFile"]),
        source_files=tuple(Path(one) for one in record["sourceFiles"]),
        graph_place=graph_place(record["graph"]),
        has_graph=record.get("hasGraph", True) is not False,
        state_dir=Path(record["stateDir"]),
        log_file=Path(record["logFile"]) if record["logFile"] else None,
        screens_directory=Path(record["screens"]) if record["screens"] else None,
        own_screens=Path(record["ownScreens"]),
        fallback_pane=record["fallbackPane"],
        origins={tuple(key): origin for key, origin in record["origins"]},
        fingerprint=str(record.get("fingerprint", "")),
    )


def _checked(config: Configuration) -> Any:
    """What commands read it back from; None where it holds what cannot be written down so."""
    with contextlib.suppress(ValueError):
        return written_down(config)
    return None


def _config(record: Mapping[str, Any]) -> Configuration:
    """What a daemon wrote down, of this release or of the last one."""
    if (checked := record.get("judged")) is not None:
        return read_back(checked)
    from wake_bridge.config.fields import Configuration

    return Configuration.model_validate_json(json.dumps(record["config"]))


def last_good_settings(config_option: str | None, environment: Mapping[str, str]) -> Settings | None:
    """By what the daemon goes on that was started with this configuration, which cannot be used now; None if none does.

    Args:
        config_option: the value of `--config`, if given.
        environment: of the command; a place that it names must be the daemon's.
    """
    place = locate_config(config_option, environment)
    gathered = gather(place, environment, installed_adapters)
    named = {key: _value(gathered.tree, key) for key in _PLACES if gathered.origins.get(key, "").startswith("$")}
    for state_dir in dict.fromkeys(_candidates(gathered.tree, place.path)):
        found = settings_of_daemon(state_dir)
        if found is None or found.config_file != place.path:
            continue
        theirs = {
            ("daemon", "state_dir"): found.state_dir,
            ("graph", "path"): found.graph_place,
            ("graph", "url"): found.graph_place,
        }
        if all(_is_same(str(told), theirs[key]) for key, told in named.items()):
            return found
    return None


def _candidates(tree: Mapping[str, Any], file: Path) -> Iterator[Path]:
    """Where such a daemon may keep its state: where the file says, where one that runs says, and where it is usual."""
    if isinstance(told := _value(tree, ("daemon", "state_dir")), str) and told:
        yield file.parent / Path(told).expanduser()
    yield default_state_directory()
    for one in holders():
        yield Path(one.state_dir)


def _value(tree: Mapping[str, Any], key: tuple[str, str]) -> object:
    table = tree.get(key[0])
    return table.get(key[1]) if isinstance(table, dict) else None


def _is_same(told: str, other: GraphPlace) -> bool:
    if isinstance(other, GraphUrl):
        return told == str(other)
    one = Path(told).expanduser()
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return one.absolute() == other


@dataclass(frozen=True, slots=True)
class InForce:
    """How the settings of the daemon that runs stand against the configuration as it is now.

    `file` is the one that the daemon reads; `refused` why what stands there now would not be, or was not, taken over, in
    one line; `for_restart` and `for_reload` are the changed keys that wait for either.
    """

    file: Path
    refused: str = ""
    for_restart: tuple[str, ...] = ()
    for_reload: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The names in JSON."""
        return {
            "file": str(self.file),
            "refused": self.refused or None,
            "waitForRestart": list(self.for_restart),
            "waitForReload": list(self.for_reload),
        }


def in_force(
    state_dir: Path, config_option: str | None, environment: Mapping[str, str], *, refused: str = ""
) -> InForce | None:
    """Compare them; None where no daemon runs, or has not said what it goes by.

    Args:
        state_dir: of the daemon.
        config_option: the value of `--config`, if given.
        environment: of the command.
        refused: why the daemon did not take over what it read last, as it says; empty if it did.
    """
    theirs = settings_of_daemon(state_dir)
    if theirs is None:
        return None
    if locate_config(config_option, environment).path != theirs.config_file:
        # this command reads another file, which says nothing of that daemon
        return InForce(theirs.config_file, refused)
    try:
        read = load_settings(config_option, environment)
    except ConfigurationInvalid as mistake:
        # whoever tells it names the file besides
        told = [one.removeprefix(f"{theirs.config_file}: ") for one in mistake.problems]
        return InForce(theirs.config_file, "; ".join(told) or str(mistake))
    changed = changed_keys(theirs, read)
    return InForce(
        theirs.config_file,
        refused,
        tuple(key for key in changed if waits_for_restart(key)),
        tuple(key for key in changed if not waits_for_restart(key)),
    )


def where_the_daemon_is(settings: Settings) -> Settings:
    """The settings, with the state directory of the daemon that serves the graph now."""
    state_dir = state_dir_in_use(settings.graph_place, settings.state_dir)
    return replace(settings, state_dir=state_dir, has_graph=not has_no_graph(state_dir, settings.graph_place))
