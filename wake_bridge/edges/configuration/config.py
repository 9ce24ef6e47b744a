"""The settings in force: gathered, judged as a whole, resolved to real paths (CONTRACT "Configuration")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.edges.configuration.fields import Configuration
from wake_bridge.edges.configuration.mistakes import Key, Mistake, closest, mistakes_in, shown, spelled
from wake_bridge.edges.configuration.paths import (
    ConfigPlace,
    default_graph_file,
    default_screens_directory,
    default_state_directory,
    expanded,
    locate_config,
)
from wake_bridge.edges.configuration.sources import (
    SESSION_VARIABLE,
    Gathered,
    from_text,
    gather,
)
from wake_bridge.edges.configuration.trust import why_another_could_add, why_another_could_change

ADAPTER_GROUP: Final = "wake_bridge.adapters"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force, and where it came from.

    `config_file` is the file that was, or would be, read; `source_files` those that were. `log_file` is None where
    nothing is configured, `screens_directory` where no profiles of one's own are to be read; `own_screens` is where
    they go. `fallback_pane` is `$TMUX_SESSION`: the tmux target of
    subscriptions that name none. `origins` says where each key was set; what is missing there has its default.
    """

    config: Configuration
    config_file: Path
    source_files: tuple[Path, ...]
    graph_path: Path
    state_dir: Path
    log_file: Path | None = None
    screens_directory: Path | None = None
    own_screens: Path = field(default_factory=default_screens_directory)
    fallback_pane: str = ""
    origins: Mapping[Key, str] = field(default_factory=dict)


def installed_adapters() -> tuple[str, ...]:
    """Names behind the entry points `wake_bridge.adapters`, without importing any of them."""
    return tuple(sorted(point.name for point in entry_points(group=ADAPTER_GROUP)))


def load_settings(
    config_option: str | None,
    environment: Mapping[str, str],
    *,
    adapter_models: Mapping[str, type[BaseModel]] | None = None,
) -> Settings:
    """Read and judge the configuration that `--config`, the environment or the platform names.

    Args:
        config_option: the value of `--config`, if given.
        environment: the process's environment.
        adapter_models: the config models of the adapters, to judge their tables as well; without them only the tables'
            names are judged, and no adapter needs to be imported.

    Raises:
        ConfigurationInvalid: with every mistake found in `problems`.
    """
    return load_settings_at(locate_config(config_option, environment), environment, adapter_models=adapter_models)


def load_settings_at(
    place: ConfigPlace,
    environment: Mapping[str, str],
    *,
    adapter_models: Mapping[str, type[BaseModel]] | None = None,
) -> Settings:
    """Read and judge the configuration at `place`; see `load_settings`."""
    gathered = gather(place, environment, installed_adapters)
    mistakes = list(gathered.mistakes)
    config = Configuration()
    try:
        config = Configuration.model_validate(gathered.tree)
    except ValidationError as error:
        mistakes += mistakes_in(error, Configuration, gathered.origins, unset=str(place.path))
    mistakes += _adapter_mistakes(gathered.tree, gathered.origins, adapter_models)
    _raise_for(mistakes, place.path)
    settings = _resolve(config, place, gathered, environment)
    _raise_for(_untrusted_profiles(settings.screens_directory), place.path)
    return settings


def validate_adapter_tables(settings: Settings, adapter_models: Mapping[str, type[BaseModel]]) -> dict[str, BaseModel]:
    """The settings of each adapter, made by its own model; an adapter without a table gets its defaults.

    Raises:
        ConfigurationInvalid: with every mistake in any `[adapters.NAME]` table.
    """
    tree = {"adapters": settings.config.adapters}
    _raise_for(_adapter_mistakes(tree, settings.origins, adapter_models), settings.config_file)
    return {
        name: model.model_validate(_typed(settings.config.adapters.get(name, {}), name, model, settings.origins))
        for name, model in adapter_models.items()
    }


def _untrusted_profiles(directory: Path | None) -> list[Mistake]:
    """Profiles that another user could have written, and what only looks like one: a pipe would be waited for."""
    if directory is None or not directory.is_dir():
        return []
    if why := why_another_could_add(directory):
        return [Mistake(str(directory), "", why)]
    profiles = sorted(directory.glob("*.toml"))
    untrusted = [Mistake(str(one), "", why) for one in profiles if (why := why_another_could_change(one))]
    return untrusted + [Mistake(str(one), "", "is no file") for one in profiles if one.exists() and not one.is_file()]


def _adapter_mistakes(
    tree: Mapping[str, object], origins: Mapping[Key, str], models: Mapping[str, type[BaseModel]] | None
) -> list[Mistake]:
    tables, targets = tree.get("adapters"), tree.get("targets")
    tables = tables if isinstance(tables, dict) else {}
    chosen = [
        (("targets", str(identity), "adapter"), table["adapter"])
        for identity, table in (targets.items() if isinstance(targets, dict) else ())
        if isinstance(table, dict) and isinstance(table.get("adapter"), str)
    ]
    if not tables and not chosen:
        return []
    names = tuple(models) if models is not None else installed_adapters()
    mistakes = [
        _unknown_adapter(key, str(name), names, origins)
        for key, name in [*((("adapters", name), name) for name in tables), *chosen]
        if name not in names
    ]
    for name, table in tables.items():
        if models is None or name not in models or not isinstance(table, dict):
            continue
        try:
            models[name].model_validate(_typed(table, name, models[name], origins))
        except ValidationError as error:
            key = ("adapters", name)
            mistakes += mistakes_in(error, models[name], origins, unset=origins.get(key, ""), prefix=key)
    return mistakes


def _unknown_adapter(key: Key, name: str, names: Collection[str], origins: Mapping[Key, str]) -> Mistake:
    return Mistake(
        source=origins.get(key, ""),
        key=spelled(key),
        value=shown(name, key[-1]) if key[0] == "targets" else "",
        reason=f"no adapter named {name} is installed (there are: {', '.join(names) or 'none'})",
        meant=closest(name, names),
    )


def _typed(
    table: Mapping[str, object], name: str, model: type[BaseModel], origins: Mapping[Key, str]
) -> dict[str, object]:
    """The table with the text of environment variables read as the types of the model's defaults."""
    typed = dict(table)
    for key, value in table.items():
        known = model.model_fields.get(key)
        if known is not None and isinstance(value, str) and origins.get(("adapters", name, key), "").startswith("$"):
            typed[key] = from_text(value, known.get_default(call_default_factory=True))
    return typed


def _raise_for(mistakes: list[Mistake], path: Path) -> None:
    if not mistakes:
        return
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    raise ConfigurationInvalid(
        f"the configuration has {count}",
        str(path),
        hint="correct what is listed; config.example.toml explains every key",
        problems=tuple(str(mistake) for mistake in mistakes),
    )


def _resolve(config: Configuration, place: ConfigPlace, gathered: Gathered, environment: Mapping[str, str]) -> Settings:
    def real(key: Key, text: str) -> Path | None:
        """A path as meant where it was written: beside the file, or from the working directory of an override."""
        if not text:
            return None
        path = expanded(text)
        return path.absolute() if gathered.origins.get(key, "").startswith("$") else place.path.parent / path

    screens, own_screens = real(("screens", "directory"), config.screens.directory), default_screens_directory()
    if screens is None and own_screens.is_dir():
        screens = own_screens
    return Settings(
        config=config,
        config_file=place.path,
        source_files=(place.path,) if gathered.was_read else (),
        graph_path=real(("graph", "path"), config.graph.path) or default_graph_file(),
        state_dir=real(("daemon", "state_dir"), config.daemon.state_dir) or default_state_directory(),
        log_file=real(("daemon", "log_file"), config.daemon.log_file),
        screens_directory=screens,
        own_screens=screens or own_screens,
        fallback_pane=environment.get(SESSION_VARIABLE, ""),
        origins=gathered.origins,
    )
