"""The result of one check."""

from __future__ import annotations

from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `ok` None: it does not apply, cannot be told, or is only a warning. What is not well has a hint what to do."""

    check: str
    ok: bool | None
    detail: str
    hint: str = ""


def well(check: str, detail: str) -> Finding:
    """It is as it should be."""
    return Finding(check, ok=True, detail=detail)


def ill(check: str, detail: str, hint: str) -> Finding:
    """It keeps wakes from arriving, or will."""
    return Finding(check, ok=False, detail=detail, hint=hint)


def untold(check: str, detail: str, hint: str = "") -> Finding:
    """It does not apply, or cannot be told."""
    return Finding(check, ok=None, detail=detail, hint=hint)
