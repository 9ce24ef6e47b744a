"""One name for one thing in JSON: old names stand beside the new ones for one release, and this is the only place that knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wake_bridge.domain.names import is_identity

IDENTITY: Final = "agentIdentity"
OLD_IDENTITY: Final = frozenset({"agent", "identity", "paused", "resumed", "target"})
"""Deprecated: what an identity was called besides. A name is old only where it holds an identity, or `*` for all."""

RUNNING: Final = "isRunning"
_RUNS: Final = {"yes": True, "no": False, "cannot_tell": None}

NOT_OURS: Final = frozenset({"currentState", "detail", "evidence", "filters", "holds", "task", "harnessTargetMetadata"})
"""What holds words of the graph, of a journal or of an adapter, or counts by reason: nothing in it is renamed."""


def with_new_names(value: Any) -> Any:
    """The same with each old name's new one beside it, at every depth."""
    if isinstance(value, Mapping):
        named: dict[str, Any] = {}
        for name, one in value.items():
            named[name] = one if name in NOT_OURS else with_new_names(one)
        for name, one in value.items():
            for new, said in _new_names(name, one):
                named.setdefault(new, named[name] if said is one else said)
        return named
    if isinstance(value, list | tuple):
        return [with_new_names(one) for one in value]
    return value


def _new_names(name: str, value: Any) -> list[tuple[str, Any]]:
    if name in OLD_IDENTITY and isinstance(value, str) and (is_identity(value) or value == "*"):
        return [(IDENTITY, value)]
    if name == "running" and value in _RUNS:
        return [(RUNNING, _RUNS[value])]
    return [(camel(name), value)] if "_" in name.strip("_") else []


def camel(name: str) -> str:
    """`hold_reason` as `holdReason`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
