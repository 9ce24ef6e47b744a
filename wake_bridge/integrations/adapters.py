"""Adapters, found through the entry points `wake_bridge.adapters` and nowhere else, each made from its own table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from inspect import getattr_static
from typing import Final

from wake_bridge.config.settings import Settings, checked_adapter_tables, load_settings
from wake_bridge.control.graph_lock import GraphName
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import AdapterContext, Conditional, ConfigElsewhere, HarnessAdapter, Reloadable
from wake_bridge.system.clock import SteadyClock

GROUP: Final = "wake_bridge.adapters"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One declared adapter.

    `kind` is None when it could not be loaded; `trouble` then says why. `label` is its own word of caution,
    `unavailable` why it cannot work on this system.
    """

    name: str
    distribution: str
    module: str
    kind: type[HarnessAdapter] | None
    trouble: str = ""
    label: str = ""
    unavailable: str = ""


def load_catalogue() -> list[CatalogueEntry]:
    """Every declared adapter; one that cannot be imported is listed with its trouble, the others work on."""
    return [_load(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]


def _load(point: EntryPoint) -> CatalogueEntry:
    distribution = point.dist.name if point.dist else "unknown"
    try:
        kind = point.load()
    except Exception as broken:  # noqa: BLE001 - whatever a third party's import raises is its trouble, not ours
        return CatalogueEntry(point.name, distribution, point.value, None, f"{type(broken).__name__}: {broken}")
    missing = [name for name in ("name", "capabilities", "resolve", "observe", "deliver") if not hasattr(kind, name)]
    if not has_config_elsewhere(kind) and not hasattr(kind, "Config"):
        missing.append("Config")
    if missing:
        return CatalogueEntry(point.name, distribution, point.value, None, f"it lacks {', '.join(missing)}")
    if _is_foreign_file(point, kind):
        return CatalogueEntry(
            point.name, distribution, point.value, kind, f"its file does not belong to {distribution}"
        )
    return CatalogueEntry(point.name, distribution, point.value, kind, **_cautions(kind))


def has_config_elsewhere(kind: object) -> bool:
    """Whether an adapter declares its `Config` by `config_from`; the model is not imported to find out."""
    return isinstance(getattr_static(kind, "Config", None), ConfigElsewhere)


def _cautions(kind: object) -> dict[str, str]:
    """What an adapter says of itself that does not work everywhere, or is not proven yet."""
    if not isinstance(kind, Conditional):
        return {}
    return {"label": kind.label, "unavailable": kind.unavailable(os.environ)}


def _is_foreign_file(point: EntryPoint, kind: type[HarnessAdapter]) -> bool:
    """Whether another distribution's package of the same import name was loaded instead."""
    if point.dist is None or point.dist.files is None:
        return False
    declared = {str(path).split("/", maxsplit=1)[0].removesuffix(".py") for path in point.dist.files}
    editable = any(str(path).endswith(".pth") or "__editable__" in str(path) for path in point.dist.files)
    return not editable and kind.__module__.split(".", maxsplit=1)[0] not in declared


@dataclass(frozen=True, slots=True)
class LoadedAdapters:
    """The adapters that are installed, enabled and could be made; and what became of the others."""

    adapters: Mapping[str, HarnessAdapter]
    catalogue: tuple[CatalogueEntry, ...]


def checked_settings(config_option: str | None, catalogue: Sequence[CatalogueEntry] | None = None) -> Settings:
    """The settings, adapters' tables included.

    Args:
        config_option: the value of `--config`, if given.
        catalogue: what `load_catalogue` answered, where the caller has it already.

    Raises:
        ConfigurationInvalid: with every mistake.
    """
    declared = load_catalogue() if catalogue is None else catalogue
    models = {entry.name: entry.kind.Config for entry in declared if entry.kind is not None}
    return load_settings(config_option, os.environ, adapter_models=models)


def make_adapters(
    settings: Settings, clock: SteadyClock, catalogue: Sequence[CatalogueEntry] | None = None
) -> LoadedAdapters:
    """Every adapter that is installed and enabled, made from its own table. Each reads the files that its table names.

    Args:
        settings: with the tables.
        clock: what the adapters measure by.
        catalogue: what `load_catalogue` answered, where the caller has it already.

    Raises:
        ConfigurationInvalid: a table, or a file that it names, cannot be used.
    """
    declared = load_catalogue() if catalogue is None else catalogue
    kinds = {entry.name: entry.kind for entry in declared if entry.kind is not None}
    configs: Mapping[str, object] = settings.adapter_tables
    if not kinds.keys() <= configs.keys():
        configs = checked_adapter_tables(settings, {name: kind.Config for name, kind in kinds.items()})
    context = _adapter_context(settings, clock)
    made = {
        name: kind(configs[name], context) for name, kind in kinds.items() if getattr(configs[name], "enabled", True)
    }
    return LoadedAdapters(made, tuple(declared))


def _adapter_context(settings: Settings, clock: SteadyClock) -> AdapterContext:
    return AdapterContext(
        timeout=settings.config.delivery.adapter_timeout,
        typing_quiet=settings.config.presence.typing_quiet,
        screens_directory=str(settings.screens_directory or ""),
        environment=os.environ,
        clock=clock,
        # what a pane's mark names: without a graph the ledger is what no other daemon has
        graph=GraphName(settings.graph_place if settings.has_graph else settings.state_dir),
    )


def reload_adapters(loaded: LoadedAdapters, old: Settings, new: Settings, clock: SteadyClock) -> None:
    """Have the adapters that can go on by the new settings: profiles, time-outs, what counts as typing.

    Raises:
        ConfigurationInvalid: one refuses; all go on by the old ones.
    """
    reloadable = [adapter for adapter in loaded.adapters.values() if isinstance(adapter, Reloadable)]
    for number, adapter in enumerate(reloadable):
        try:
            adapter.adopt(_adapter_context(new, clock))
        except ConfigurationInvalid:
            for changed in reloadable[:number]:
                changed.adopt(_adapter_context(old, clock))
            raise
