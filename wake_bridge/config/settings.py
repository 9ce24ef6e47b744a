"""The configuration in the engine's words and units, and which changes need a restart."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.config.checked import fingerprint, is_table, read_back, with_values, written_down
from wake_bridge.config.hosts import has_only_links, links_into
from wake_bridge.config.layers import (
    SESSION_VARIABLE,
    Gathered,
    Key,
    Mistake,
    closest,
    from_text,
    gather,
    mistakes_in,
    shown,
    spelled,
)
from wake_bridge.config.locations import SETTINGS_NAME
from wake_bridge.config.recipients import channel_mistakes, channels_of, human_channel
from wake_bridge.config.senders import ConfiguredSender, http_mistakes, senders_in
from wake_bridge.domain.attention import AttentionRules
from wake_bridge.domain.digest import DigestStyle, action_template
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.domain.escalation import EscalationRules, EscalationStep
from wake_bridge.domain.graph_places import GraphPlace, GraphUrl
from wake_bridge.domain.guards import Limits, QuietHours
from wake_bridge.domain.items import SourceRules, SourcesTable
from wake_bridge.domain.matching import MatchingRules, TargetRule
from wake_bridge.domain.names import EPOCH_START, SECOND, Identity, Instant, WakePolicy
from wake_bridge.domain.receivers import WEBHOOK
from wake_bridge.domain.signed_wakes import SERVED_AT, ListenAddress, subscription_for
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.settings import KEY, EngineSettings, TargetSettings
from wake_bridge.system.files import (
    ConfigPlace,
    default_graph_file,
    default_screens_directory,
    default_state_directory,
    expanded,
    locate_config,
    read_own_file,
    why_another_could_add,
    why_another_could_change,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge.config.fields import Configuration, TargetTable

ANY_SOURCE: Final = "items"
"""Stands for all sources of items in the name of a subscription."""

ADAPTER_GROUP: Final = "wake_bridge.adapters"

Checker = Callable[[Gathered, ConfigPlace], Mapping[str, Any]]
"""Checks a gathered tree in another process.

It answers `problems`; else `config` and the `tables` of adapters by name, both as `config.checked.written_down` writes them.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force, and where it came from.

    `config_file` is the file that was, or would be, read; `source_files` those that were. `log_file` is None where
    nothing is configured, `screens_directory` where no profiles of one's own are to be read; `own_screens` is where
    they go. `fallback_pane` is `$TMUX_SESSION`: the tmux target of
    subscriptions that name none. `has_graph` is false where signed wakes alone are taken in. `origins` says where each key was set; what is missing there has its default.
    `fingerprint` is that of the tree which `config` was made of, empty where it was not made of one alone (`config.checked`).
    `adapter_tables` are the tables of adapters that another process has checked; their models make all others.
    """

    config: Configuration
    config_file: Path
    source_files: tuple[Path, ...]
    graph_place: GraphPlace
    state_dir: Path
    log_file: Path | None = None
    screens_directory: Path | None = None
    own_screens: Path = field(default_factory=default_screens_directory)
    fallback_pane: str = ""
    has_graph: bool = True
    origins: Mapping[Key, str] = field(default_factory=dict)
    fingerprint: str = ""
    adapter_tables: Mapping[str, Any] = field(default_factory=dict)


HTTP_NEEDS: Final = ("jinja2", "sse_starlette", "standardwebhooks", "starlette", "uvicorn")
"""The packages of the extra `http`."""

WEBHOOK_NEEDS: Final = ("httpx2", "standardwebhooks")
"""The packages of the extra `webhook`."""


def installed_adapters() -> tuple[str, ...]:
    """Names behind the entry points `wake_bridge.adapters`, without importing any of them."""
    changed = tuple(map(_changed_at, sys.path))
    if changed not in _installed:
        # read again only once a directory of packages was changed: it takes most of the time of a look into an inbox
        from importlib.metadata import entry_points

        _installed.clear()
        _installed[changed] = tuple(sorted(point.name for point in entry_points(group=ADAPTER_GROUP)))
    return _installed[changed]


_installed: Final[dict[tuple[int, ...], tuple[str, ...]]] = {}
"""The names by the times at which the directories of packages were changed; one entry at most."""


def _packages() -> list[tuple[str, int]]:
    """Where packages are installed, and when each place was changed.

    The first place is that of the script, which differs by how a program was started; nothing is installed in a checkout.
    """
    places = dict.fromkeys(one for one in sys.path[1:] if not os.path.exists(f"{one}/pyproject.toml"))  # noqa: PTH110 - as below
    return [(one, _changed_at(one)) for one in places]


def _changed_at(directory: str) -> int:
    try:
        return os.stat(directory or ".").st_mtime_ns  # noqa: PTH116 - a string of sys.path
    except OSError:
        return 0


def enabled_adapters(settings: Settings) -> list[str]:
    """Those of them that the configuration leaves on."""
    tables = settings.config.adapters
    return [name for name in installed_adapters() if tables.get(name, {}).get("enabled", True)]


def load_settings(
    config_option: str | None,
    environment: Mapping[str, str],
    *,
    adapter_models: Mapping[str, type[BaseModel]] | None = None,
    checker: Checker | None = None,
) -> Settings:
    """Read and check the configuration that `--config`, the environment or the platform names.

    Args:
        config_option: the value of `--config`, if given.
        environment: the process's environment.
        adapter_models: the config models of the adapters, to check their tables as well; without them only the tables'
            names are checked, and no adapter needs to be imported.
        checker: checks in place of the models of this process; what it raises is passed on.

    Raises:
        ConfigurationInvalid: with every mistake found in `problems`.
    """
    place = locate_config(config_option, environment)
    return load_settings_at(place, environment, adapter_models=adapter_models, checker=checker)


def load_settings_at(
    place: ConfigPlace,
    environment: Mapping[str, str],
    *,
    adapter_models: Mapping[str, type[BaseModel]] | None = None,
    checker: Checker | None = None,
) -> Settings:
    """Read and check the configuration at `place`; see `load_settings`."""
    gathered = gather(place, environment, installed_adapters)
    told = fingerprint(gathered.tree, _packages())
    config: Configuration | None = None
    tables: Mapping[str, Any] = {}
    if checker is not None:
        config, tables = _checked_elsewhere(checker(gathered, place), gathered, place)
    elif adapter_models is None and not gathered.mistakes:
        config = _checked_before(gathered, place, told)
    if config is None:
        config = configuration_of(gathered, place, adapter_models)
    settings = replace(_resolve(config, place, gathered, environment), fingerprint=told, adapter_tables=tables)
    unusable = http_mistakes(config.http, settings.config_file, settings.source_files, settings.origins)
    unreachable = channel_mistakes(config.channels, settings.config_file, settings.source_files, settings.origins)
    _raise_for([*_untrusted_profiles(settings.screens_directory), *unusable, *unreachable], place.path)
    return settings


def _checked_elsewhere(
    answer: Mapping[str, Any], gathered: Gathered, place: ConfigPlace
) -> tuple[Configuration, Mapping[str, Any]]:
    """The configuration and the tables of adapters in the answer of a `Checker`. Raises `ConfigurationInvalid`."""
    _raise_for(answer["problems"], place.path)
    tables = {str(name): read_back(one) for name, one in answer["tables"].items()}
    return read_back(answer["config"], gathered.tree), tables


def configuration_of(
    gathered: Gathered, place: ConfigPlace, adapter_models: Mapping[str, type[BaseModel]] | None
) -> Configuration:
    """The configuration that the models make of a tree. Raises `ConfigurationInvalid`.

    Args:
        gathered: the tree, and what was wrong with it already.
        place: where it stands.
        adapter_models: see `load_settings`.
    """
    from pydantic import ValidationError

    from wake_bridge.config.fields import Configuration

    mistakes = list(gathered.mistakes)
    config = Configuration()
    try:
        config = Configuration.model_validate(gathered.tree)
    except ValidationError as error:
        mistakes += mistakes_in(error, Configuration, gathered.origins, unset=str(place.path))
    mistakes += _adapter_mistakes(gathered.tree, gathered.origins, adapter_models)
    _raise_for(mistakes, place.path)
    return config


def _checked_before(gathered: Gathered, place: ConfigPlace, told: str) -> Configuration | None:
    """What a daemon made of the very same tree; None where none did, or it is not certain."""
    daemon = gathered.tree.get("daemon", {})
    state_dir = daemon.get("state_dir", "") if isinstance(daemon, dict) else None
    if not isinstance(state_dir, str):
        return None
    directory = _real(("daemon", "state_dir"), state_dir, place, gathered) or default_state_directory()
    try:
        record = json.loads(read_own_file(directory / SETTINGS_NAME))
        if record["fingerprint"] != told:
            return None
        config, names = read_back(record["judged"], gathered.tree), tuple(map(str, record["adapters"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    _installed.setdefault(tuple(map(_changed_at, sys.path)), names)
    return config


def checked_adapter_tables(settings: Settings, adapter_models: Mapping[str, type[BaseModel]]) -> dict[str, BaseModel]:
    """The settings of each adapter, made by its own model; an adapter without a table gets its defaults.

    Raises:
        ConfigurationInvalid: with every mistake in any `[adapters.NAME]` table.
    """
    tree = {"adapters": settings.config.adapters}
    _raise_for(_adapter_mistakes(tree, settings.origins, adapter_models), settings.config_file)
    return adapter_tables_of(settings.config.adapters, settings.origins, adapter_models)


def adapter_tables_of(
    tables: Mapping[str, Mapping[str, Any]], origins: Mapping[Key, str], adapter_models: Mapping[str, type[BaseModel]]
) -> dict[str, BaseModel]:
    """The table of each adapter, made by its own model; an adapter without a table gets its defaults.

    Args:
        tables: those that are written, by adapter; they have been checked.
        origins: where each key was set.
        adapter_models: the model of each adapter.
    """
    return {
        name: model.model_validate(_typed(tables.get(name, {}), name, model, origins))
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
        from pydantic import ValidationError

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


def _raise_for(mistakes: Sequence[Mistake | str], path: Path) -> None:
    if not mistakes:
        return
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    raise ConfigurationInvalid(
        f"the configuration has {count}",
        str(path),
        hint="fix what is listed; config.example.toml explains every key",
        problems=tuple(str(mistake) for mistake in mistakes),
    )


def _real(key: Key, text: str, place: ConfigPlace, gathered: Gathered) -> Path | None:
    """A path as meant where it was written: beside the file, or from the working directory of an override."""
    if not text:
        return None
    path = expanded(text)
    return path.absolute() if gathered.origins.get(key, "").startswith("$") else place.path.parent / path


def _resolve(config: Configuration, place: ConfigPlace, gathered: Gathered, environment: Mapping[str, str]) -> Settings:
    real = partial(_real, place=place, gathered=gathered)
    screens, own_screens = real(("screens", "directory"), config.screens.directory), default_screens_directory()
    if screens is None and own_screens.is_dir():
        screens = own_screens
    return Settings(
        config=config,
        config_file=place.path,
        source_files=(place.path,) if gathered.was_read else (),
        graph_place=GraphUrl(config.graph.url)
        if config.graph.url
        else real(("graph", "path"), config.graph.path) or default_graph_file(),
        state_dir=real(("daemon", "state_dir"), config.daemon.state_dir) or default_state_directory(),
        log_file=real(("daemon", "log_file"), config.daemon.log_file),
        screens_directory=screens,
        own_screens=screens or own_screens,
        fallback_pane=environment.get(SESSION_VARIABLE, ""),
        origins=gathered.origins,
    )


def matching_rules(settings: Settings, known_adapters: Collection[str] | None = None) -> MatchingRules:
    """The rules that follow from the settings; `known_adapters` None means that nobody asked."""
    config = settings.config
    default = config.policy.default
    return MatchingRules(
        targets={
            Identity(name): TargetRule(
                window=table.window,
                policy=table.policy,
                adapter=table.adapter,
                ack_within=None if table.ack_within is None else _milliseconds(table.ack_within),
            )
            for name, table in config.targets.items()
        },
        default_policy=None if default == "auto" else WakePolicy(default),
        default_window=config.coalesce.window,
        catch_up=config.policy.catch_up * SECOND,
        user_scope=config.graph.user_scope,
        unusable=unusable_adapters(settings),
        serve=frozenset(config.graph.serve),
        signed=signed_subscriptions(settings),
        ack_within=_milliseconds(config.escalation.ack_within),
        ack_within_of={name: _milliseconds(within) for name, within in config.escalation.sources.items()},
        known_adapters=None if known_adapters is None else frozenset(known_adapters),
    )


def unusable_adapters(settings: Settings) -> dict[str, str]:
    """The adapters of receivers that cannot send here, each with why in one clause."""
    why = why_no_webhooks(settings)
    return {WEBHOOK: why} if why else {}


def listen_address(settings: Settings) -> ListenAddress | None:
    """Where signed wakes are taken in; None where they are not."""
    http = settings.config.http
    is_served = not (settings.has_graph or has_only_links(settings.state_dir, has_senders=bool(http.senders)))
    text = http.listen or (SERVED_AT if is_served else "")
    return ListenAddress.parse(text) if text else None


def senders_of(settings: Settings) -> list[ConfiguredSender]:
    """Who may send signed wakes."""
    return senders_in(settings.config.http, settings.config_file)


def signed_subscriptions(settings: Settings) -> tuple[Subscription, ...]:
    """What stands for the word of senders, where signed wakes are taken in, and of sources that wake who has a place here.

    Without a graph every target may be woken by a source.
    """
    targets, sources = settings.config.targets, settings.config.sources
    told = [(name, Identity(who)) for name, one in sources.items() for who in one.identities if who in targets]
    if listen_address(settings) is not None:
        told += [(one.name, who) for one in senders_of(settings) for who in sorted(one.identities)]
    told += [(link, Identity(who)) for link in links_into(settings.state_dir) for who in targets]
    if not settings.has_graph:
        named = {who for _, who in told}
        told += [(ANY_SOURCE, Identity(who)) for who in targets if who not in named]
    return tuple(subscription_for(name, who) for name, who in dict.fromkeys(told))


def why_no_webhooks(settings: Settings) -> str:
    """Why none can be sent here, one clause; empty where they can."""
    if settings.config.adapters.get(WEBHOOK, {}).get("enabled", True) is not True:
        return "webhooks are switched off ([adapters.webhook] enabled)"
    if WEBHOOK not in installed_adapters():
        return "no adapter named webhook is installed"
    is_whole = all(find_spec(one) is not None for one in WEBHOOK_NEEDS)
    return "" if is_whole else "webhooks need an extra: `pip install 'wake-bridge[webhook]'`"


def engine_settings(settings: Settings, *, embedded: bool) -> EngineSettings:
    """The configuration in the engine's words and units."""
    config = settings.config
    return EngineSettings(
        targets={Identity(name): _target_settings(table) for name, table in config.targets.items()},
        targets_written=_written(settings),
        fallback_pane=settings.fallback_pane,
        limits=Limits(
            refractory=config.coalesce.refractory,
            storm=config.limits.storm,
            storm_period=config.limits.storm_period,
            wakes_per_hour=config.limits.wakes_per_hour,
            wakes_per_day=config.limits.wakes_per_day,
            thread_wakes=config.limits.thread_wakes,
        ),
        quiet_hours=QuietHours.parse(config.policy.quiet_hours),
        digest=DigestStyle(
            max_lines=config.digest.max_lines,
            header=config.digest.header,
            action=action_template(config.digest.action, embedded=embedded),
        ),
        attention=AttentionRules(
            tell=frozenset(config.attention.tell),
            after_ms=_milliseconds(config.attention.after),
            continues_after_limit=config.attention.on_limit_reset == "continue",
            of_identity={
                Identity(name): frozenset(table.attention)
                for name, table in config.targets.items()
                if table.attention is not None
            },
        ),
        channels=channels_of(config),
        escalation=EscalationRules(
            tuple(EscalationStep(one.channel, _milliseconds(one.after)) for one in config.escalation.steps),
            config.escalation.repeats,
        ),
        sources=SourcesTable(
            {
                name: SourceRules(
                    table.mode,
                    table.threshold,
                    _milliseconds(table.debounce),
                    tuple(map(Identity, table.identities)),
                    frozenset(table.tiers),
                    ack_within_ms=_milliseconds(table.ack_within),
                )
                for name, table in config.sources.items()
            }
        ),
        human=human_channel(config.human),
        sent_per_minute={
            name: int(table["per_minute"]) for name, table in config.adapters.items() if "per_minute" in table
        },
        **_set_by_keys(config),
    )


def _set_by_keys(config: Configuration) -> dict[str, Any]:
    """The fields of `EngineSettings` that name the one key which sets them."""
    values = {one.name: attrgetter(one.metadata[KEY])(config) for one in fields(EngineSettings) if KEY in one.metadata}
    return {name: _milliseconds(value) if name.endswith("_ms") else value for name, value in values.items()}


def _target_settings(table: TargetTable) -> TargetSettings:
    """One `[targets."@id"]` table; what has the same name there is taken as it is."""
    names = [one.name for one in fields(TargetSettings) if hasattr(table, one.name)]
    taken = {name: getattr(table, name) for name in names}
    return TargetSettings(**taken | {"allow_from": frozenset(table.allow_from)}, wants_bodies=table.digest == "full")


NEEDS_RESTART: Final = ("adapters", "daemon", "graph", "heartbeat.interval", "http")
"""Tables and keys that a reload leaves as they were when the daemon started: its places, what it opened, its timers."""

RELOADED: Final = ("daemon.log_level",)
"""What lies in such a table, and is taken over all the same."""


def waits_for_restart(key: str) -> bool:
    """Whether a reload leaves the key as it was; spelled as TOML spells it."""
    return key not in RELOADED and any(key == one or key.startswith(f"{one}.") for one in NEEDS_RESTART)


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """The changed keys that a reload cannot take over: the graph, the daemon's places, the tmux sockets."""
    return [key for key in changed_keys(old, new) if waits_for_restart(key)]


def changed_keys(old: Settings, new: Settings) -> list[str]:
    """Every key that differs, spelled as TOML spells it; a target or an adapter's table as a whole.

    What either was told by its environment is no difference: two processes may have different ones.
    """
    overridden = {spelled(key) for one in (old, new) for key, origin in one.origins.items() if origin.startswith("$")}
    return sorted(
        key
        for key in _differences(old.config, new.config, ())
        if not any(one == key or one.startswith(f"{key}.") for one in overridden)
    )


def _differences(old: Any, new: Any, key: Key) -> Iterator[str]:
    if is_table(old) and key[:1] not in {("targets",), ("adapters",)}:
        for name in vars(old):
            yield from _differences(getattr(old, name), getattr(new, name), (*key, name))
    elif isinstance(old, Mapping) and len(key) == 1:
        for name in {*old, *new}:
            yield from _differences(old.get(name), new.get(name), (*key, name))
    elif old != new and _told(old) != _told(new):
        yield spelled(key)


def _told(value: object) -> object:
    """What a value says, whether a model made it or it was read back; itself where that cannot be written down."""
    try:
        return written_down(value)
    except ValueError:
        return value


def taken_over(started: Settings, read: Settings) -> Settings:
    """What a daemon goes by that started with the one and has read the other since.

    Args:
        started: the settings with which it started.
        read: those that a reload has read.
    """
    before, after = started.config, read.config
    config: Configuration = with_values(
        after,
        graph=before.graph,
        daemon=with_values(before.daemon, log_level=after.daemon.log_level),
        heartbeat=with_values(after.heartbeat, interval=before.heartbeat.interval),
        http=before.http,
        adapters=before.adapters,
    )
    origins = {key: origin for key, origin in read.origins.items() if not waits_for_restart(spelled(key))}
    origins |= {key: origin for key, origin in started.origins.items() if waits_for_restart(spelled(key))}
    return replace(
        read,
        config=config,
        graph_place=started.graph_place,
        state_dir=started.state_dir,
        log_file=started.log_file,
        has_graph=started.has_graph,
        origins=origins,
        fingerprint=read.fingerprint if config == after else "",
        adapter_tables=started.adapter_tables,
    )


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _written(settings: Settings) -> Instant:
    """When the configuration was last written; long ago if there is none."""
    return Instant(max((_milliseconds(file.stat().st_mtime) for file in settings.source_files), default=EPOCH_START))
