"""What an attempt can do at a place: look at it, and carry out one act of the plan."""

from __future__ import annotations

from typing import Protocol

from adapters.osascript.plan import Act, Report
from adapters.osascript.sight import Sight
from adapters.osascript.trouble import Trouble


class Hands(Protocol):
    """One surface's scripts. Every act carries its own check inside one script."""

    async def look(self, mark: str = "") -> Sight | Trouble:
        """One look; `mark` is searched for outside the composer."""

    async def carry_out(self, act: Act, text: str, seen: Sight) -> Report:
        """One act that is no look. `seen` is the latest sight: what the script must still find."""
