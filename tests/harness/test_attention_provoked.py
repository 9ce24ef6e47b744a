"""What an agent stands at, provoked in the real programs: told once in its time, withdrawn when it is over (`make test-harness`)."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.harness.claude_house import ClaudeHouse
from tests.harness.house import MANY_WAKES, PATIENCE, STARTS_WITHIN, House
from tests.harness.installed import executable
from tests.harness.model.refusals import BAD_REQUEST, usage_limit
from tests.harness.model.scenes import PLAY
from tests.harness.programs import PROGRAMS
from tests.harness.states import STATES, Visit
from tests.harness.table import FAIL, OF_ATTENTION, SKIP, Results, version_of
from tests.harness.tenancy import ONLY
from wake_bridge.demo.sandbox import QUICK

pytestmark = [pytest.mark.harness, pytest.mark.timeout(900)]

RECORD = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
KINDS = json.dumps(OF_ATTENTION.rows)
STATE: Final = {state.name: state for state in STATES}

GIVES_UP_WITHIN: Final = 300.0
"""Seconds for a program to give up that tries again by itself."""

HOURS: Final = 2 * 3600


class ToldHouse(House):
    """A house whose person writes down what they are told, of everything, after a second."""

    has_plan = True

    def furnish(self) -> None:
        """Have notices written to a file."""
        self.record = self.home / "told"
        command = json.dumps([sys.executable, "-c", RECORD, str(self.record)])
        told = f"attention.after = 1\nattention.tell = {KINDS}\nhuman.command = {command}\n"
        self.bridge.configure(f"{QUICK}{MANY_WAKES}{told}")

    def told(self, kind: str) -> int:
        """How many notices there were of that kind."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [json.loads(line)["reason"] for line in lines].count(kind)

    def episodes(self) -> list[dict[str, Any]]:
        """The latest, the newest first."""
        return list(self.bridge.ask("why", self.identity)["attention"])

    def waits_for_episode(self, kind: str, ending: str | None, patience: float = PATIENCE) -> dict[str, Any]:
        """The newest episode of that kind, once it was told and has ended so; None: while it lasts."""

        def found() -> dict[str, Any] | None:
            newest = next((one for one in self.episodes() if one["kind"] == kind), None)
            return newest if newest is not None and newest["toldAt"] and newest["ending"] == ending else None

        return self.bridge.waits_for(found, patience, f"an episode {kind} that ended {ending}; {self.episodes()}")

    def ends_the_program(self) -> None:
        """Kill it, as a crash would."""
        for child in psutil.Process(int(self.look().flags["pane_pid"])).children():
            os.kill(child.pid, signal.SIGKILL)
        self.waits_until(lambda look: look.flags["pane_current_command"] == "bash", what="the shell")


@dataclass(frozen=True, slots=True)
class Case:
    """How a person's program comes to stand at something, and how that ends."""

    kind: str
    put: Callable[[ToldHouse], None]
    lift: Callable[[ToldHouse], None]
    ending: str
    tidy: Callable[[ToldHouse], None] = lambda _: None


def _state(name: str) -> tuple[Callable[[ToldHouse], None], Callable[[ToldHouse], None]]:
    state = STATE[name]

    def lift(house: ToldHouse) -> None:
        state.lift(Visit(house))
        state.tidy(Visit(house))

    return lambda house: state.put(Visit(house)), lift


def _works(house: ToldHouse) -> None:
    house.model.stage.holds()
    house.says(PLAY.format("streaming"))
    house.waits_for_presence("active")


def _ends_its_work(house: ToldHouse) -> None:
    house.model.stage.goes_on()


def _works_and_ends(house: ToldHouse, *, with_word: bool) -> None:
    _works(house)
    if with_word:
        house.bridge.send("@me", "done", sender=house.identity)
    _ends_its_work(house)


def _takes_a_turn(house: ToldHouse) -> None:
    house.model.refuses = None
    house.says("hello again")


def _is_refused(house: ToldHouse) -> None:
    house.model.refuses = BAD_REQUEST
    house.says("hello once more")


def _reaches_its_limit(house: ToldHouse) -> None:
    house.model.refuses = usage_limit(time.time() + HOURS)
    house.says("hello at the limit")


def _leaves_the_limit(house: ToldHouse) -> None:
    if house.manners.leave_limit:
        house.presses(*house.manners.leave_limit)
    house.waits_for_presence("idle")
    _takes_a_turn(house)


def _starts_again(house: ToldHouse) -> None:
    house.starts()
    house.waits_for_presence("idle", STARTS_WITHIN)


CASES: Final = {
    one.kind: one
    for one in (
        Case("approval", *_state("approval"), "answered"),
        Case("question", *_state("question"), "answered"),
        Case("finished", lambda house: _works_and_ends(house, with_word=True), _works, "went on", _ends_its_work),
        Case("stopped", lambda house: _works_and_ends(house, with_word=False), _works, "went on", _ends_its_work),
        Case("failed", _is_refused, _takes_a_turn, "went on"),
        Case("limited", _reaches_its_limit, _leaves_the_limit, "went on"),
        Case("gone", ToldHouse.ends_the_program, _starts_again, "back"),
    )
}


@pytest.fixture(scope="module", params=ONLY)
def house(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
    told: Results,
) -> Iterator[ToldHouse]:
    wanted = PROGRAMS[request.param]
    if executable(wanted) is None:
        for row in OF_ATTENTION.rows:
            told.put(wanted.name, row, SKIP)
        pytest.fail(f"{wanted.name} is not installed: `make harnesses` installs it", pytrace=False)
    directory = tmp_path_factory.mktemp(wanted.name)
    told.versions[wanted.name] = version_of(wanted, directory)
    with suppress(TimeoutError), ToldHouse(wanted, directory / "house", program) as house:
        house.bridge.run("agent", "add", "@me")
        yield house


@pytest.mark.parametrize("kind", OF_ATTENTION.rows)
def test_what_an_agent_stands_at_is_told_once_and_ends_when_it_is_answered(
    house: ToldHouse, kind: str, told: Results
) -> None:
    """Each kind, provoked as it comes about; one notice, and the episode's end as the page says."""
    started, result = time.monotonic(), FAIL
    try:
        result = _told_once(house, CASES[kind])
    finally:
        told.put(house.program.name, kind, result, time.monotonic() - started)


def _told_once(house: ToldHouse, case: Case) -> str:
    kind, patience = case.kind, PATIENCE
    if kind == "approval":
        kind = house.manners.approval_is
    if kind == "limited" and house.manners.tries_on is not None:
        return _tries_on(house, house.manners.tries_on)
    if kind == "limited" and not house.manners.has_limits:
        kind, patience = "failed", GIVES_UP_WITHIN
    house.waits_for_presence("idle")
    before = house.told(kind)
    house.model.refuses = None
    case.put(house)
    house.bridge.waits_for(lambda: house.told(kind) > before, patience, f"a notice of {kind}; {house.episodes()}")
    standing = house.waits_for_episode(kind, None)
    if kind == "limited":
        assert standing["resetsAt"] or not house.manners.shows_reset
    case.lift(house)
    ended = house.waits_for_episode(kind, case.ending)
    assert ended["episodeId"] == standing["episodeId"]
    assert house.told(kind) == before + 1
    case.tidy(house)
    house.waits_for_presence("idle")
    if kind != case.kind:
        return f"as {kind}"
    stood = datetime.fromisoformat(standing["toldAt"]) - datetime.fromisoformat(standing["beganAt"])
    return f"{stood.total_seconds():.1f} s"


def _tries_on(house: ToldHouse, shows: re.Pattern[str]) -> str:
    """Its turn still runs, and nobody is told that it failed."""
    house.waits_for_presence("idle")
    before = house.told("failed"), house.told("limited")
    _reaches_its_limit(house)
    house.waits_until(lambda look: shows.search(look.text) is not None, GIVES_UP_WITHIN, "another attempt")
    house.waits_for_presence("active")
    assert (house.told("failed"), house.told("limited")) == before
    house.presses("Escape")
    house.waits_for_presence("userTyping")  # it gives back what was asked
    house.tmux.run("send-keys", "-t", house.pane_id, "-N", "40", "BSpace")
    house.model.refuses = None
    house.waits_for_presence("idle")
    return "tries on"


def test_a_wake_whose_turn_failed_at_once_is_held_to_be_announced_again(house: ToldHouse) -> None:
    """The error stands right below the wake's own text: its mail is announced again, later, under another id."""
    before = house.told("failed")
    house.model.refuses = BAD_REQUEST
    first = house.bridge.send(house.identity, "a question")

    def announced() -> list[dict[str, Any]]:
        found = house.deliveries_of(first)
        return found if any(one["hold_reason"] == "limited" for one in found) else []

    found = house.bridge.waits_for(announced, GIVES_UP_WITHIN, "the second announcement")
    house.bridge.waits_for(lambda: house.told("failed") == before + 1, PATIENCE, "the notice of the failed turn")
    assert [one["hold_reason"] for one in found].count(None) == 1
    _takes_a_turn(house)


def test_a_lead_is_woken_by_its_worker_s_approval(house: ToldHouse) -> None:
    """Two of the same program: one stands at an approval, and the model of the other reads who waits for what, once."""
    lead, kind = "@lead", house.manners.approval_is
    house.model.refuses = None
    house.waits_for_presence("idle")
    pane = house.opens_another(house.work)
    house.bridge.enlist(lead, pane)
    house.bridge.run(
        *("subscribe", lead, "--trigger", "presence", "--of", house.identity, "--when", kind, "--window", "0")
    )
    house.bridge.waits_for(
        lambda: house.bridge.ask("presence", lead)["state"] == "idle", STARTS_WITHIN, "the lead to be up"
    )
    STATE["approval"].put(Visit(house))
    told = house.bridge.waits_for_delivery(agentIdentity=lead, state="DELIVERED")
    says = {"approval": "waits for an approval", "question": "asks its person a question"}[kind]
    assert f"{house.program.name} {says}" in told["digest"]

    def read() -> list[str]:
        return [one.asked.last for one in house.model.requests() if told["id"] in one.asked.last]

    house.bridge.waits_for(read, PATIENCE, "the lead's turn")
    assert says in read()[0]
    STATE["approval"].lift(Visit(house))
    house.waits_for_presence("idle")
    assert len([one for one in house.bridge.deliveries() if one["agentIdentity"] == lead]) == 1
    house.tmux.run("kill-pane", "-t", pane)


class PlanHouse(ClaudeHouse):
    """A Claude Code with our plugin, whose person pays by the month."""

    has_plan = True


@pytest.mark.skipif("claude" not in ONLY, reason="another program is asked for")
def test_the_transcript_of_claude_code_says_when_its_limit_resets(tmp_path: Path, program: tuple[str, ...]) -> None:
    """To the second, as the server told it; mail that comes meanwhile is held until then, and no turn begins."""
    resets_at = int(time.time()) + HOURS
    with PlanHouse(tmp_path, program) as house:
        house.waits_for_monitor()
        house.model.refuses = usage_limit(resets_at)
        house.says("hello at the limit")
        (limited,) = house.bridge.waits_for(
            lambda: [one for one in house.explained()["evidence"] if one["rule"] == "transcript-limit"],
            PATIENCE,
            "the sign of the transcript",
        )
        assert limited["saw"] == f"usage limit reached|{resets_at}"
        house.bridge.waits_for(lambda: house.bridge.ask("status")["attention"], PATIENCE, "the episode")
        asked = len(house.model.requests())
        house.bridge.send(house.identity, "a question")
        house.bridge.waits_for_delivery(agentIdentity=house.identity, holdReason="limited")
        assert len(house.model.requests()) == asked
