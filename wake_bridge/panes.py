"""What `panes` and `setup` see: every pane, the agent in it, its identity, and whether its name is stable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wake_bridge.config.settings import Settings
from wake_bridge.domain.causes import cause_written
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState
from wake_bridge.engine.explain.homes import fragile_names_of
from wake_bridge.engine.explain.pane_reports import Glance, PaneReports, pane_reports
from wake_bridge.offline.fragile_names import NameAdvice, advice_on
from wake_bridge.offline.inspection import Inspection
from wake_bridge.ports.adapter import PaneLister


async def fragile_names(view: Inspection, settings: Settings, identities: Iterable[Identity]) -> list[NameAdvice]:
    """Advice on the identities that are found by a name which need not last, as things stand."""
    found = await fragile_names_of(identities, view.routes, view.watch)
    return advice_on(found, settings, is_embedded=view.is_embedded)


async def report_panes(
    settings: Settings, told: Iterable[Mapping[str, Any]] = (), *, looks: bool = True
) -> PaneReports:
    """Look at every pane from here, where the daemon does not see what this command sees.

    Args:
        settings: those in force.
        told: what the daemon has told of panes nevertheless, as records.
        looks: whether it matters how the agents stand.

    Raises:
        OperationFailed: no adapter can list panes.
    """
    view = Inspection(settings)
    adapters = view.loaded.adapters
    if not any(isinstance(one, PaneLister) for one in adapters.values()):
        raise OperationFailed("no adapter can list panes", hint="`wake-bridge adapters` lists them")
    reach = await view.reach(sorted({*view.identities(), *view.bound()}))
    known = {(one["adapter"], one["key"]): _glance(one) for one in told}
    return await pane_reports(adapters, reach, known, view.current.settings.fresh_for_ms, looks=looks)


def _glance(one: Mapping[str, Any]) -> Glance:
    return Glance(PresenceState(one["state"]), one["why"], one["looks"], cause_written(one.get("cause")))
