"""Adapters, found through the entry points `wake_bridge.adapters` and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from wake_bridge.ports.adapter import Conditional, HarnessAdapter

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
    missing = [
        name for name in ("name", "capabilities", "Config", "resolve", "observe", "deliver") if not hasattr(kind, name)
    ]
    if missing:
        return CatalogueEntry(point.name, distribution, point.value, None, f"it lacks {', '.join(missing)}")
    if _is_foreign_file(point, kind):
        return CatalogueEntry(
            point.name, distribution, point.value, kind, f"its file does not belong to {distribution}"
        )
    return CatalogueEntry(point.name, distribution, point.value, kind, **_cautions(kind))


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
