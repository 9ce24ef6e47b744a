"""A house whose program is woken past its composer, and what a native test asks of it."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psutil

from tests.harness.cells import SUBJECTS, arrived_once
from tests.harness.house import MANY_WAKES, PATIENCE, House
from tests.harness.model.scenes import PLAY
from tests.harness.states import DRAFT
from wake_bridge.demo.sandbox import QUICK


class WakesNatively(House):
    """A house with what every test of a native channel needs, and the checks that all of them pass.

    Attributes:
        adapter: what wakes it.
        shows_streams: an answer is on the screen before it has ended.
        tables: what stands in the configuration besides.
    """

    adapter: ClassVar[str]
    shows_streams: ClassVar[bool] = True
    tables = ""

    def configure(self, *more: str) -> None:
        """Say where it lives; a daemon must be started anew."""
        # the blank behind a folded paste is not there where nothing is pasted
        self.manners = replace(self.manners, adds=re.compile(f"(?:{self.manners.adds.pattern})?"))
        place = target(self.identity, "agents", self.program.name, self.work, *more)
        self.bridge.configure(f"{QUICK}{MANY_WAKES}{self.tables}{place}")

    def waits_for_its_door(self) -> None:
        """Until its route leads there."""

        def leads() -> bool | None:
            routes = self.bridge.ask("routes", self.identity)["routes"]
            return any(one["route"] == self.adapter and one["reachable"] for one in routes) or None

        self.bridge.waits_for(leads, PATIENCE, "its own door")
        self.waits_for_presence("idle")

    def is_woken(self, subject: str = "Review request") -> str:
        """A wake comes natively, once; answers its mark."""
        start = len(self.model.requests())
        return self.is_woken_by(self.bridge.send(self.identity, subject), start)

    def is_woken_by(self, message: str, start: int) -> str:
        """The same of a message that was sent already."""
        delivery = self.is_settled(message)
        assert (delivery["adapter"], delivery["outcome"], delivery["proof"]) == (self.adapter, "submitted", 3), delivery
        arrived_once(self, delivery, start)
        self.waits_for_presence("idle")
        return str(delivery["id"])

    # -- what all of them pass --------------------------------------------------------------------------------------

    def is_woken_ten_times(self) -> None:
        """Ten of ten, each once, exactly as frozen, with proof 3."""
        for subject in SUBJECTS:
            self.is_woken(subject)

    def keeps_a_draft(self) -> None:
        """One wake, the draft byte-identical; what the person then sends is exactly it."""
        self.types(DRAFT)
        self.waits_until(lambda look: DRAFT in look.text, what="the draft")
        start = len(self.model.requests())
        delivery = self.is_settled(self.bridge.send(self.identity, "Review request"))
        assert (delivery["adapter"], delivery["outcome"], delivery["proof"]) == (self.adapter, "submitted", 3), delivery
        arrived_once(self, delivery, start)
        self.waits_until(lambda look: look.text.count(DRAFT) == 1, what="the draft as it was")
        before = len(self.model.requests())
        self.presses("Enter")
        self.bridge.waits_for(lambda: self.said_since(before) or None, PATIENCE, "what the person sent")
        exact = re.compile(self.manners.heads.pattern + re.escape(DRAFT) + self.manners.adds.pattern, re.DOTALL)
        assert all(exact.fullmatch(said) for said in self.said_since(before)), self.said_since(before)
        self.waits_for_presence("idle")

    def waits_for_a_streams_end(self) -> None:
        """The wake waits, the answer is not cut, and then comes one wake."""
        self.model.stage.holds()
        begun = len(self.model.requests())
        self.says(PLAY.format("streaming"))
        if self.shows_streams:
            self.waits_until(lambda look: "line 2 of a long" in look.text, what="the answer")
        # some say that they work before they have asked
        self.bridge.waits_for(lambda: self.said_since(begun) or None, PATIENCE, "the model's being asked")
        self.waits_for_presence("active")
        start = len(self.model.requests())
        message = self.bridge.send(self.identity, "Review request")
        self.is_held(message, "active")
        assert not any("[WAKE]" in said for said in self.said_since(start)), self.said_since(start)
        self.model.stage.goes_on()
        self.is_woken_by(message, start)

    def leaves_a_dialog(self) -> None:
        """At an approval and while the tool runs: held, the dialog as it was; then one wake."""
        self.comes_to_an_approval()
        before, start = self.asked_there(), len(self.model.requests())
        message = self.bridge.send(self.identity, "Review request")
        self.is_held(message, "waitingOnApproval")
        for _ in range(3):
            self.presence()
            time.sleep(1)
        after = self.asked_there()
        assert after == before, (before, after)
        assert self.model.requests(start) == []
        self.approves()
        self.is_held(message, "active")
        (self.work / "go").touch()
        self.is_woken_by(message, start)

    def asked_there(self) -> list[str]:
        """What the screen shows from the dialog on, but for what moves by itself: a spinner, a scroll bar, an edge, seconds."""
        shown = self.look().text
        rows = shown[shown.index(self._approval()) :].splitlines()
        return [re.sub(r"[⠀-⣿█│]|\d+", "", row).rstrip() for row in rows]

    def _approval(self) -> str:
        found = self.manners.approval.search(self.look().text)
        assert found is not None
        return found.group()

    def outlives_daemons(self, count: int = 8) -> None:
        """A daemon is killed at any moment of a wake: 0 lost, 0 double."""
        ends = []
        for number in range(count):
            start = len(self.model.requests())
            message = self.bridge.send(self.identity, f"Review request {number}")
            time.sleep(number * 0.035)
            self.bridge.daemons[-1].kill()
            self.bridge.daemon()
            delivery = self.is_settled(message)
            ends.append(f"{delivery['adapter']} {delivery['outcome']} {delivery['proof']}")
            arrived_once(self, delivery, start)
            self.waits_for_presence("idle")
        print(f"\n{len(ends)} daemons killed: {ends}")

    def quits(self) -> None:
        """As a person does, back to the shell."""
        self.says(self.manners.quit)
        self.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell's prompt")

    def programs(self, name: str) -> list[int]:
        """The processes of that name in the pane."""
        shell = psutil.Process(int(self.look().flags["pane_pid"]))
        return [one.pid for one in shell.children(recursive=True) if one.name() == name]

    def is_settled(self, message: str) -> dict[str, Any]:
        """The delivery of a message, once it is over."""

        def over() -> dict[str, Any] | None:
            return next((one for one in self.deliveries_of(message) if one["settledAt"]), None)

        try:
            return self.bridge.waits_for(over, PATIENCE, "the delivery")
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.look().text}") from late

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
