"""The copilot adapter against a played program with its own server: who is spoken to, what is seen, what is sent, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from wake_bridge_adapters.copilot_cli import CopilotAdapter
from wake_bridge_adapters.tables import CopilotConfig

from wake_bridge.domain.delivery import Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceSource, PresenceState, fuse, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Nowhere, Place, Refused, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.played_copilot import PlayedCopilot
from wake_bridge.testing.played_copilot.client import SESSION

AGENT: Final = Identity("@copilot")
CLOCK: Final = SteadyClock()
OTHER: Final = "8e016be8-5b48-4c13-ad22-1f5326ae64ac"


class Line:
    """The adapter, the program, one delivery after the other, and their journals."""

    def __init__(self, played: PlayedCopilot, environment: Mapping[str, str] | None = None) -> None:
        self.played = played
        context = AdapterContext(2, 10, "", environment or {}, CLOCK)
        self.adapter = CopilotAdapter(CopilotConfig(home=str(played.home)), context)
        self.adapter.see_through(played.screen.of)
        self.address = Address(AGENT)
        self.steps: list[Step] = []
        self.mark = new_ulid()

    @property
    def text(self) -> str:
        return f"[WAKE] 1 event for @copilot:\n- 1 new message\nWake: {self.mark}"

    async def place(self) -> Place:
        found = await self.adapter.resolve(self.address)
        assert isinstance(found, Place), found
        return found

    async def journal(self, step: Step, evidence: Mapping[str, str]) -> None:
        del evidence
        self.steps.append(step)

    async def delivers(self, place: Place | None = None) -> AttemptOutcome:
        place = place or await self.place()
        wake = Wake(self.mark, self.text, self.mark, progress_of(self.steps), place.fence)
        return await self.adapter.deliver(place, self.address, wake, self.journal)

    def nowhere(self) -> str:
        found = asyncio.run(self.adapter.resolve(self.address))
        assert isinstance(found, Nowhere), found
        return found.detail


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedCopilot]:
    with PlayedCopilot(tmp_path_factory.mktemp("copilot"), AGENT, CLOCK) as played:
        yield played


@pytest.fixture
def line(program: PlayedCopilot) -> Line:
    program.begins_anew()
    return Line(program)


def test_its_own_word_says_how_it_stands_by_one_look(line: Line) -> None:
    """Idle, running, at a permission; what else it asks its person is on its screen alone; a draft is no concern."""
    screens: tuple[tuple[dict[str, Any], PresenceState, PresenceState], ...] = (
        ({}, PresenceState.USER_TYPING, PresenceState.IDLE),
        ({"processing": True}, PresenceState.IDLE, PresenceState.ACTIVE),
        ({"pending": [{"requestId": "r"}]}, PresenceState.IDLE, PresenceState.WAITING_ON_APPROVAL),
        ({"pending": []}, PresenceState.WAITING_ON_APPROVAL, PresenceState.WAITING_ON_APPROVAL),
        ({"processing": False}, PresenceState.UNKNOWN, PresenceState.UNKNOWN),
    )

    async def scenario() -> list[PresenceState]:
        found = []
        for told, vote, _ in screens:
            await asyncio.to_thread(line.played.plays, **told)
            line.played.screen.vote = vote
            seen = await line.adapter.observe(await line.place(), line.address)
            found.append(fuse(seen, None, seen.at, 5000).state)
            assert single_vote(seen.evidence).source in {PresenceSource.COPILOT_SERVER, PresenceSource.BRIDGE_DAEMON}
        return found

    assert asyncio.run(scenario()) == [expected for *_, expected in screens]


def test_a_wake_is_sent_once_and_found_in_the_record(line: Line) -> None:
    """Proof 3 is its own echo; nothing but the message was to be changed, and no permission is ever asked for."""
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert line.played.given() == [line.text]
    assert line.played.told()["asked"] == ["session.send"]


def test_what_the_server_declines_was_not_sent(line: Line) -> None:
    """The wake may take the next route."""
    line.played.plays(declines=True)
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert progress_of(line.steps) is Progress.UNTOUCHED


def test_a_request_that_is_not_answered_is_only_looked_for(line: Line) -> None:
    """The answer is lost, and the record has it: delivered, and sent once."""
    line.played.plays(silent=True)
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Delivered), outcome
    assert line.played.given() == [line.text]


@pytest.mark.parametrize(("dies", "given"), [("before", 0), ("after", 1)])
def test_a_program_that_dies_at_a_wake_neither_loses_nor_doubles_it(line: Line, dies: str, given: int) -> None:
    """What its record does not have when its process has ended never came in: the wake is given back."""
    line.played.plays(dies=dies)
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Delivered if given else Refused), outcome
    assert progress_of(line.steps) is (Progress.SUBMITTED if given else Progress.UNTOUCHED)
    assert len(line.played.given()) == given
    line.played.is_killed()


def test_a_session_that_the_person_has_left_is_not_woken(line: Line) -> None:
    """`/new` between the look and the wake: refused without a byte, and the place is found anew."""

    async def scenario() -> tuple[AttemptOutcome, Mapping[str, str], Mapping[str, str]]:
        place = await line.place()
        before = await line.adapter.survey([place])
        line.played.plays(foreground=OTHER)
        return await line.delivers(place), before, await line.adapter.survey([place])

    outcome, before, signs = asyncio.run(scenario())
    assert isinstance(outcome, Refused), outcome
    assert before
    assert signs == {}
    assert line.played.told()["asked"] == []


def test_nobody_but_the_program_on_the_screen_is_spoken_to(line: Line) -> None:
    """No program, one of another name, an unknown protocol, no session, a token that is not known: the screen is used."""
    line.played.screen.agent_pid = 1
    assert "no Copilot CLI" in line.nowhere()
    line.played.begins_anew()
    line.played.plays(foreground="")
    assert "no session" in line.nowhere()
    line.played.plays(foreground=SESSION, protocol=4)
    assert "version 4" in Line(line.played).nowhere()
    line.played.plays(protocol=3, token="hush")
    assert "did not let us in" in Line(line.played).nowhere()
    asyncio.run(Line(line.played, {"COPILOT_CONNECTION_TOKEN": "hush"}).place())


def test_a_stranger_at_the_port_gets_no_byte(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose the port is, is asked once the connection is open and before it is used."""
    with PlayedCopilot(tmp_path / "other", AGENT, CLOCK) as stranger:
        monkeypatch.setattr(
            "wake_bridge_adapters.program_servers.listeners_of", lambda _: [("127.0.0.1", stranger._port)]
        )
        assert "another program answers" in Line(line.played, {"COPILOT_CONNECTION_TOKEN": "hush"}).nowhere()
        assert stranger.told()["heard"] == []


def test_an_answer_that_quotes_the_mark_is_no_echo(line: Line) -> None:
    """Only a message of the person's side is ours."""
    said: dict[str, Any] = {"type": "assistant.message", "data": {"content": line.text}, "id": "e-9"}
    line.played.record().write_text(json.dumps(said) + "\n", encoding="utf-8")

    async def scenario() -> Proof:
        place = await line.place()
        return (await line.adapter.trace(place, line.address, Wake("d", line.text, line.mark))).proof

    assert asyncio.run(scenario()) is Proof.NONE
