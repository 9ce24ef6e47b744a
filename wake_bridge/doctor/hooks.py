"""Hooks that were written into harnesses' settings: whether they call in, and for whom (DESIGN §7, native)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wake_bridge.doctor.finding import Finding, untold, well
from wake_bridge.domain.errors import NotRunning, OperationFailed
from wake_bridge.edges.agent_files import read_files_record
from wake_bridge.edges.agent_files.hook_settings import PURPOSES
from wake_bridge.edges.configuration.config import Settings
from wake_bridge.edges.service.control_socket import ask

_MINUTE: Final = 60
_HOUR: Final = 3600
_WHAT_FIRST: Final = {"codex": "start Codex again; it asks once whether it trusts them (`/hooks`)"}


def hooks(settings: Settings) -> list[Finding]:
    """One finding for each harness that has ours."""
    try:
        written = {one.what for one in read_files_record(settings.state_dir)}
    except OperationFailed as damaged:
        return [untold("hooks", str(damaged), damaged.hint)]
    installed = [harness for harness, what in PURPOSES.items() if what in written]
    if not installed:
        return []
    try:
        called = ask(settings.state_dir, "sessions")["sessions"]
    except (NotRunning, OperationFailed):
        return [untold(PURPOSES[one], "installed; the daemon, which they call, does not answer") for one in installed]
    return [_finding(one, [each for each in called if each["harness"] == one]) for one in installed]


def _finding(harness: str, called: Sequence[Mapping[str, Any]]) -> Finding:
    check = PURPOSES[harness]
    if not called:
        first = _WHAT_FIRST.get(harness, f"start {harness} again: it reads its settings at its start")
        return untold(check, "installed, and none has called in since the daemon started", first)
    known = [one for one in called if one["identity"]]
    latest = min(known or called, key=lambda one: one["ago"])
    if not known:
        return untold(
            check, f"called in {_ago(latest['ago'])}, for no identity", "run `wake-bridge bind @ID` inside that agent"
        )
    named = ", ".join(sorted({one["identity"] for one in known}))
    return well(check, f"called in {_ago(latest['ago'])}, for {named}")


def _ago(seconds: int) -> str:
    if seconds < _MINUTE:
        return f"{seconds} s ago"
    return f"{seconds // _MINUTE} min ago" if seconds < _HOUR else f"{seconds // _HOUR} h ago"
