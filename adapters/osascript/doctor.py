"""What `doctor` asks of macOS: the program, and the two permissions without which nothing works."""

from __future__ import annotations

from typing import Final

from adapters.osascript.scripting import Scripting
from adapters.osascript.trouble import Kind, Trouble
from wake_bridge.ports.adapter import Check

LABEL: Final = "experimental, awaiting field reports"


async def checks(scripting: Scripting) -> list[Check]:
    """Nothing to check where there is no `osascript`; else what System Events lets us do."""
    if not scripting.is_there:
        return [("osascript", None, "not available: it exists on macOS only", "")]
    report: list[Check] = [("osascript", True, LABEL, "")]
    processes = await scripting.run("app_find", "Finder")
    report.append(_judged("osascript automation", processes, "System Events answers"))
    if isinstance(processes, Trouble) or not processes:
        return report
    look = await scripting.run("app_look", processes[0][0])
    report.append(_judged("osascript accessibility", look, "focused elements can be read"))
    return report


def _judged(name: str, answer: object, well: str) -> Check:
    if not isinstance(answer, Trouble):
        return name, True, well, ""
    is_ours = answer.kind in {Kind.PERMISSION, Kind.TIME}
    return name, False if is_ours else None, answer.what, answer.remedy
