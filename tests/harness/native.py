"""A house whose program is woken past its composer, and what a native test asks of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.house import PATIENCE, House
from tests.harness.model.scenes import PLAY


class WakesNatively(House):
    """A house with what every test of a native channel needs."""

    def is_settled(self, message: str) -> dict[str, Any]:
        """The delivery of a message, once it is over."""

        def over() -> dict[str, Any] | None:
            return next((one for one in self.deliveries_of(message) if one["settledAt"]), None)

        return self.bridge.waits_for(over, PATIENCE, "the delivery")

    def is_held(self, message: str, *reasons: str) -> dict[str, Any]:
        """The delivery of a message, once it waits for one of those reasons."""

        def waits() -> dict[str, Any] | None:
            return next((one for one in self.deliveries_of(message) if one["hold_reason"] in reasons), None)

        return self.bridge.waits_for(waits, PATIENCE, f"a hold: {reasons}")

    def conversations_about(self, mark: str, start: int = 0) -> list[Any]:
        """The agent's requests to the model that hold the mark; finding a title is another matter."""
        asked = (one for one in self.model.requests(start) if one.asked.tools and one.asked.shape is None)
        return [one for one in asked if one.asked.mentions(mark)]

    def said_since(self, start: int) -> set[str]:
        """What the agent was asked last in each request since."""
        return {one.asked.last for one in self.model.requests(start) if one.asked.tools}

    def takes_a_turn(self, text: str = "hello there") -> None:
        """Say something and see it answered."""
        start = len(self.model.requests())
        self.says(text)
        self.bridge.waits_for(lambda: text in self.said_since(start) or None, PATIENCE, "the model's being asked")
        self.waits_for_presence("idle")

    def comes_to_an_approval(self) -> None:
        """Have the agent ask whether it may run a command."""
        for sign in ("started", "go"):
            (self.work / sign).unlink(missing_ok=True)
        self.says(PLAY.format("tool"))
        self.waits_until(lambda look: re.search(self.manners.approval, look.text) is not None, what="the approval")
        self.waits_for_presence("waitingOnApproval")

    def lets_it_run(self) -> None:
        """Allow the command, and let it end."""
        self.approves()
        (self.work / "go").touch()

    def approves(self) -> None:
        """Allow the command, which then runs until `go` is there."""
        self.presses(*self.manners.approve)
        self.bridge.waits_for(lambda: (self.work / "started").exists() or None, PATIENCE, "the command")


def target(identity: str, pane: str, agent: str, work: Path, *more: str) -> str:
    """The configuration of one identity that lives in a pane."""
    lines = (f'pane = "{pane}"', f'agent = "{agent}"', f'directory = "{work}"', *more)
    return "\n".join((f'[targets."{identity}"]', *lines, ""))


def joined(tables: Sequence[str]) -> str:
    """Tables of a configuration, one behind the other."""
    return "\n".join(tables)
