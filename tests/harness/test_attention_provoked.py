"""What an agent stands at, provoked in Claude Code itself: told once in its time, withdrawn when it is over."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.house import MANY_WAKES, PATIENCE, House
from tests.harness.installed import executable
from tests.harness.model.refusals import BAD_REQUEST
from tests.harness.model.scenes import PLAY
from tests.harness.programs import PROGRAMS
from wake_bridge.demo.sandbox import QUICK

pytestmark = [pytest.mark.harness, pytest.mark.timeout(600)]

RECORD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


class ToldHouse(House):
    """A house whose person writes down what they are told, after a second."""

    def furnish(self) -> None:
        """Have notices written to a file."""
        self.record = self.home / "told"
        command = json.dumps([sys.executable, "-c", RECORD, str(self.record)])
        self.bridge.configure(f"{QUICK}{MANY_WAKES}attention.after = 1\nhuman.command = {command}\n")

    def told(self) -> list[str]:
        """The reasons of all notices."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [json.loads(line)["reason"] for line in lines]

    def standing(self) -> list[str]:
        """What `status` says that the agent stands at."""
        return [one["kind"] for one in self.bridge.ask("status")["attention"]]


@pytest.fixture(params=["claude"])
def house(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[ToldHouse]:
    wanted = PROGRAMS[request.param]
    if executable(wanted) is None:
        pytest.fail(f"{wanted.name} is not installed: `make harnesses` installs it", pytrace=False)
    with ToldHouse(wanted, tmp_path, program) as house:
        yield house


def test_an_approval_and_a_failed_turn_are_told_once_and_withdrawn(house: ToldHouse) -> None:
    """The dialog of a command, answered; a turn that the model's API refuses, and the next one that it answers."""
    house.says(PLAY.format("tool"))
    house.waits_until(lambda look: house.manners.approval.search(look.text) is not None, what="the approval")
    house.bridge.waits_for(house.told, PATIENCE, "the notice of the approval")
    (asked,) = house.told()
    assert asked in {"approval", "question"}
    assert house.standing() == [asked]
    house.presses(*house.manners.approve)
    (house.work / "go").touch()
    house.waits_for_presence("idle")
    house.bridge.waits_for(lambda: not house.standing(), PATIENCE, "the episode of the approval to end")

    house.model.refuses = BAD_REQUEST
    house.says("hello once more")
    house.bridge.waits_for(lambda: "failed" in house.told(), PATIENCE, "the notice of the failed turn")
    assert house.standing() == ["failed"]
    house.model.refuses = None
    house.says("hello again")
    house.bridge.waits_for(lambda: not house.standing(), PATIENCE, "the episode of the failed turn to end")
    assert house.told() == [asked, "failed"]


def test_a_wake_whose_turn_failed_at_once_is_held_to_be_announced_again(house: ToldHouse) -> None:
    """The error stands right below the wake's own text: its mail is announced again, later, under another id."""
    house.model.refuses = BAD_REQUEST
    house.bridge.send(house.identity, "a question")
    first = house.bridge.waits_for_delivery(agentIdentity=house.identity, state="DELIVERED")
    again = house.bridge.waits_for_delivery(agentIdentity=house.identity, state="DISPATCHED", holdReason="limited")
    assert again["id"] != first["id"]
    house.bridge.waits_for(lambda: house.told() == ["failed"], PATIENCE, "the notice of the failed turn")
