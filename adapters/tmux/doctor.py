"""What `doctor` asks of tmux (CONTRACT "Daemon and diagnosis")."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from typing import Final

from adapters.tmux.command import BoundedCall, TmuxServer
from adapters.tmux.sockets import why_not_ours

Check = tuple[str, bool | None, str, str]
"""Name, whether it is well (None: cannot be told), detail, hint."""

OLDEST: Final = (3, 2)
_GLYPHS: Final = "✳❯─é漢"
_INSTALL: Final = "install tmux 3.2 or later, and see that the service's PATH has it"


async def checks(server: TmuxServer, timeout: float, environment: Mapping[str, str]) -> list[Check]:
    """Program, version, server and UTF-8, in this order; what hangs on a failed one is left out."""
    program = shutil.which("tmux", path=environment.get("PATH"))
    if program is None:
        return [("tmux", False, "tmux is not on PATH", _INSTALL)]
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


def is_new_enough(version: str) -> bool | None:
    """Whether `tmux -V` names a version we know how to talk to; None for one without a number."""
    numbers = re.search(r"\b(?:next-)?(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) >= OLDEST if numbers else None
