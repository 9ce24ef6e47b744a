"""What `doctor` asks of tmux (CONTRACT "Daemon and diagnosis")."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from typing import Final

from adapters.bounded_call import BoundedCall
from adapters.screens.version import Drift, drift_of
from adapters.tmux.command import NOT_ON_PATH, TmuxServer
from adapters.tmux.occupants import Agent
from adapters.tmux.sockets import why_not_ours
from wake_bridge.ports.adapter import Check

OLDEST: Final = (3, 2)
_GLYPHS: Final = "✳❯─é漢"
_INSTALL: Final = "install tmux 3.2 or later, and see that the service's PATH has it"


async def checks(server: TmuxServer, timeout: float, environment: Mapping[str, str]) -> list[Check]:
    """Program, version, server and UTF-8, in this order; what hangs on a failed one is left out."""
    program = shutil.which("tmux", path=environment.get("PATH"))
    if program is None:
        return [("tmux", False, NOT_ON_PATH, _INSTALL)]
    found = await asyncio.to_thread(BoundedCall([program, "-V"], "", timeout, environment).run)
    name = found.stdout.strip() or found.complaint
    report: list[Check] = [("tmux", is_new_enough(name), f"{name} at {program}", _INSTALL)]
    if why := why_not_ours(server.socket):
        return [
            *report,
            ("tmux socket", False, why, "start the agents in tmux, or name their server in [adapters.tmux]"),
        ]
    answer = await server.ask(["display-message", "-p", f"#{{pid}} {_GLYPHS}"])
    if not answer.is_well:
        hint = (
            f"see whether `{program} -S {server.socket} list-sessions` answers; "
            "if not, put the server's own tmux first on the service's PATH"
        )
        return [*report, ("tmux socket", False, f"{server.socket}: {answer.complaint}", hint)]
    pid, _, glyphs = answer.stdout.strip().partition(" ")
    return [
        *report,
        ("tmux socket", True, f"{server.socket}, server pid {pid}", ""),
        ("tmux UTF-8", glyphs == _GLYPHS, f"tmux printed {glyphs}", "start the tmux server in a UTF-8 locale"),
    ]


def version_check(agent: Agent, label: str) -> Check:
    """Whether the screens of the running version are known; a drift is a warning, and fatal to a strict profile alone."""
    profile, drift = agent.profile, drift_of(agent.profile, agent.version)
    name = f"{profile.name} {agent.version}".strip()
    known = ", ".join(profile.versions)
    if drift is Drift.SEEN:
        return ("version", True, f"{name}: its screens are known", "")
    if drift is Drift.PATCH:
        return ("version", True, f"{name}, a patch of a version whose screens are known ({known})", "")
    if drift is Drift.UNTOLD:
        detail = f"the version of {name} cannot be told from its files; screens are known of {known}"
    elif drift is Drift.NEWER:
        detail = f"{name} is newer than the versions whose screens are known ({known})"
    else:
        detail = f"{name} is none of the versions whose screens are known ({known})"
    trust = f"`wake-bridge screens trust {label}` while it is idle"
    if profile.strict_version:
        return ("version", False, f"{detail}, and its profile is strict: it is never woken", trust)
    return ("version", None, detail, f"if a wake waits although the agent is idle: {trust}")


def is_new_enough(version: str) -> bool | None:
    """Whether `tmux -V` names a version we know how to talk to; None for one without a number."""
    numbers = re.search(r"\b(?:next-)?(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) >= OLDEST if numbers else None
