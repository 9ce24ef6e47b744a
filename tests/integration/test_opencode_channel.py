"""The opencode adapter against a played program with its own server: who is spoken to, what is seen, what is sent, and when."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from wake_bridge_adapters.loopback import Listener
from wake_bridge_adapters.opencode import OpenCodeAdapter
from wake_bridge_adapters.program_servers import SERVERLESS_LASTS, ProgramServers
from wake_bridge_adapters.recorded import NotThere, Program
from wake_bridge_adapters.tables import OpenCodeConfig

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Observation, PresenceSource, PresenceState, fuse, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Nowhere, Place, Refused, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.played_opencode import PlayedOpenCode
from wake_bridge.testing.played_opencode.client import SESSION, TITLE
from wake_bridge.testing.turned_clock import TurnedClock

AGENT: Final = Identity("@opencode")
OTHER: Final = "ses_dd71fcb5dffebLyBaxnSzCiF5B"
CLOCK: Final = SteadyClock()


class Line:
    """The adapter, the program, one delivery after the other, and their journals."""

    def __init__(self, played: PlayedOpenCode, environment: Mapping[str, str] | None = None) -> None:
        self.played = played
        self.adapter = OpenCodeAdapter(OpenCodeConfig(), AdapterContext(2, 10, "", environment or {}, CLOCK))
        self.adapter.see_through(played.screen.of)
        self.address = Address(AGENT)
        self.steps: list[Step] = []
        self.mark = new_ulid()

    @property
    def text(self) -> str:
        return f"[WAKE] 1 event for @opencode:\n- 1 new message\nWake: {self.mark}"

    async def place(self) -> Place:
        found = await self.adapter.resolve(self.address)
        assert isinstance(found, Place), found
        return found

    async def seen(self) -> Observation:
        return await self.adapter.observe(await self.place(), self.address)

    async def journal(self, step: Step, evidence: Mapping[str, str]) -> None:
        del evidence
        self.steps.append(step)

    async def delivers(self, place: Place | None = None, **told: Any) -> AttemptOutcome:
        place = place or await self.place()
        wake = Wake(self.mark, self.text, self.mark, progress_of(self.steps), place.fence, **told)
        return await self.adapter.deliver(place, self.address, wake, self.journal)


@pytest.fixture(scope="module")
def program() -> Iterator[PlayedOpenCode]:
    with PlayedOpenCode(AGENT, CLOCK) as played:
        yield played


@pytest.fixture
def line(program: PlayedOpenCode) -> Line:
    program.begins_anew()
    return Line(program)


def nowhere(line: Line) -> Nowhere:
    found = asyncio.run(line.adapter.resolve(line.address))
    assert isinstance(found, Nowhere), found
    return found


def test_its_own_word_proves_idle_by_one_look_whatever_is_being_typed(line: Line) -> None:
    """The server's word needs no second look, and a draft on the screen is no concern of it."""
    line.played.scene("draft")
    seen = asyncio.run(line.seen())
    presence = fuse(seen, None, seen.at, 5000)
    assert (presence.state, presence.source) == (PresenceState.IDLE, PresenceSource.OPENCODE_SERVER)


STANDINGS: Final[tuple[tuple[dict[str, Any], PresenceState], ...]] = (
    ({"statuses": {SESSION: "busy"}}, PresenceState.ACTIVE),
    ({"statuses": {SESSION: "retry"}}, PresenceState.ACTIVE),
    ({"statuses": {SESSION: "busy"}, "permission": [SESSION]}, PresenceState.WAITING_ON_APPROVAL),
    ({"permission": [], "question": [SESSION]}, PresenceState.WAITING_ON_APPROVAL),
    ({"statuses": {OTHER: "busy"}, "question": [], "permission": [OTHER]}, PresenceState.WAITING_ON_APPROVAL),
    ({"statuses": {SESSION: "something new"}, "permission": []}, PresenceState.UNKNOWN),
    ({"statuses": {}}, PresenceState.IDLE),
)


def test_turns_dialogs_and_what_is_new_are_never_idle(line: Line) -> None:
    """A sub-agent that asks does so on its parent's screen. A word that is not known is `unknown`."""
    line.played.plays(sessions={SESSION: {"title": TITLE}, OTHER: {"title": "t", "parentID": SESSION}})

    async def votes() -> list[PresenceState]:
        found = []
        for told, _ in STANDINGS:
            await asyncio.to_thread(line.played.plays, **told)
            found.append(single_vote((await line.seen()).evidence).vote)
        return found

    assert asyncio.run(votes()) == [state for _, state in STANDINGS]


def test_what_another_conversation_of_the_program_does_is_no_concern(line: Line) -> None:
    """Its turns and questions are not on the screen."""
    line.played.plays(sessions={SESSION: {"title": TITLE}, OTHER: {"title": "another"}})
    line.played.plays(statuses={OTHER: "busy"}, permission=[OTHER])
    assert single_vote(asyncio.run(line.seen()).evidence).vote is PresenceState.IDLE


UNTITLED: Final = "New session - 2026-11-29T19:54:22.986Z"
TITLES: Final = (
    ("OpenCode", HoldReason.UNREACHABLE),
    ("OC | Something that no conversation is called", HoldReason.UNREACHABLE),
    ("OC | twice", HoldReason.AMBIGUOUS),
    ("OC | a sub-agent's", HoldReason.UNREACHABLE),
    (f"OC | {UNTITLED}", HoldReason.UNREACHABLE),
)


def test_which_conversation_is_shown_is_never_guessed(line: Line) -> None:
    """The first screen, an unknown title, two of one title, a sub-agent's, none yet: the screen decides."""
    line.played.plays(
        sessions={
            SESSION: {"title": TITLE},
            OTHER: {"title": "twice"},
            f"{OTHER}2": {"title": "twice"},
            f"{OTHER}3": {"title": "a sub-agent's", "parentID": SESSION},
            f"{OTHER}4": {"title": UNTITLED},
        }
    )

    async def reasons() -> list[HoldReason]:
        found = []
        for title, _ in TITLES:
            line.played.screen.title = title
            answer = await line.adapter.resolve(line.address)
            assert isinstance(answer, Nowhere), answer
            found.append(answer.reason)
        return found

    assert asyncio.run(reasons()) == [reason for _, reason in TITLES]


def test_a_long_title_is_known_by_what_the_window_keeps_of_it(line: Line) -> None:
    """Above 40 UTF-16 units the window has 37 and an ellipsis."""
    title = "Ünïcödé 🚀 and a good deal more than a window takes"
    line.played.plays(sessions={SESSION: {"title": title}})
    line.played.screen.title = "OC | " + title.encode("utf-16-le")[: 2 * 37].decode("utf-16-le") + "…"
    assert asyncio.run(line.place()).label.endswith(SESSION)


def test_nobody_but_the_program_on_the_screen_is_spoken_to(line: Line) -> None:
    """Another program's server, a program of another name, and no program at all get not a byte."""
    line.played.screen.agent_pid = 1
    assert "no OpenCode" in nowhere(line).detail
    line.played.screen.agent_pid = 0
    assert "no screen is known" in nowhere(line).detail
    with PlayedOpenCode(AGENT, CLOCK, name="cloaked") as other:
        line.played.screen.agent_pid = other.screen.agent_pid
        assert "no OpenCode" in nowhere(line).detail
    assert nowhere(Line(line.played)).reason is HoldReason.UNREACHABLE


def test_a_stranger_at_the_port_gets_no_byte(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is another program's by now: whose it is, is asked once the connection is open and before it is used."""
    with PlayedOpenCode(AGENT, CLOCK) as stranger:
        monkeypatch.setattr(
            "wake_bridge_adapters.program_servers.listeners_of", lambda _: [("127.0.0.1", stranger._port)]
        )
        stranger.plays(password="would be sent to it")
        line.adapter = OpenCodeAdapter(
            OpenCodeConfig(), AdapterContext(2, 10, "", {"OPENCODE_SERVER_PASSWORD": "hush"}, CLOCK)
        )
        line.adapter.see_through(line.played.screen.of)
        assert "another program answers" in nowhere(line).detail
        assert stranger.told()["heard"] == []


def test_an_unknown_version_is_left_to_the_screen(line: Line) -> None:
    """As if it knew it: never."""
    line.played.plays(version="2.0.1")
    assert "OpenCode 2.0.1" in nowhere(line).detail


@pytest.mark.parametrize(("known", "is_let_in"), [("", False), ("wrong", False), ("hush", True)])
def test_a_password_is_the_daemons_own_to_know(line: Line, known: str, is_let_in: bool) -> None:
    """As OpenCode's own clients find it; without it the screen is used, and what to do is said."""
    line.played.plays(password="hush")
    found = Line(line.played, {"OPENCODE_SERVER_PASSWORD": known})
    if is_let_in:
        asyncio.run(found.place())
    else:
        assert "OPENCODE_SERVER_PASSWORD" in nowhere(found).detail


def test_a_wake_is_sent_once_and_found_in_the_record(line: Line) -> None:
    """Proof 3 is its own echo."""
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert line.played.given() == [line.text]
    assert line.steps == [Step.INTENT_SUBMIT, Step.SUBMITTED]


def test_what_the_server_declines_was_not_sent(line: Line) -> None:
    """The wake may take the next route."""
    line.played.plays(declines=True)
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert progress_of(line.steps) is Progress.UNTOUCHED
    assert line.played.given() == []


def test_a_request_that_is_not_answered_is_only_looked_for(line: Line) -> None:
    """The answer is lost, and the record has it: delivered, and sent once."""
    line.played.plays(silent=True)
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Delivered), outcome
    assert line.played.given() == [line.text]


def test_while_a_turn_runs_nothing_is_proven_absent(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the turn's end is written down then: after a crash of ours it stays locked meanwhile."""
    monkeypatch.setattr("wake_bridge_adapters.recorded.PATIENCE", 0.3)
    monkeypatch.setattr("wake_bridge_adapters.recorded.SETTLES", 0.0)
    line.played.plays(statuses={SESSION: "busy"})
    line.steps = [Step.INTENT_SUBMIT]
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert line.steps == [Step.INTENT_SUBMIT]


@pytest.mark.parametrize(("dies", "given"), [("before", 0), ("after", 1)])
def test_a_program_that_dies_at_a_wake_neither_loses_nor_doubles_it(line: Line, dies: str, given: int) -> None:
    """Its next life has the same record: what is not in it never came in, and the wake is given back."""

    async def scenario() -> AttemptOutcome:
        place = await line.place()
        before = line.played.told()
        line.played.plays(dies=dies)
        attempt = asyncio.create_task(line.delivers(place))
        assert line.played.process is not None
        await asyncio.to_thread(line.played.process.wait)
        # the record outlives the program
        text = {"info": {"id": "msg_1", "role": "user"}, "parts": [{"text": line.text}]}
        await asyncio.to_thread(line.played.is_killed)
        record = {SESSION: [text]} if given else {}
        await asyncio.to_thread(line.played.starts, before["sessions"], record)
        return await attempt

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Delivered if given else Refused), outcome
    assert progress_of(line.steps) is (Progress.SUBMITTED if given else Progress.UNTOUCHED)
    assert len(line.played.given()) == given


def test_a_conversation_that_the_person_has_left_is_not_woken(line: Line) -> None:
    """`/new` between the look and the wake: refused without a byte, and the place is found anew."""

    async def scenario() -> tuple[AttemptOutcome, Observation, Mapping[str, str]]:
        place = await line.place()
        assert await line.adapter.survey([place])
        line.played.plays(sessions={SESSION: {"title": TITLE}, OTHER: {"title": "another"}})
        line.played.shows(OTHER)
        outcome = await line.delivers(place)
        seen = await line.adapter.observe(place, line.address)
        return outcome, seen, await line.adapter.survey([place])

    outcome, seen, signs = asyncio.run(scenario())
    assert isinstance(outcome, Refused), outcome
    assert line.steps == []
    assert single_vote(seen.evidence).vote is PresenceState.UNKNOWN
    assert signs == {}
    assert line.played.told()["asked"] == []


def test_behind_a_menu_no_turn_is_begun(line: Line) -> None:
    """From a menu another conversation may be begun."""
    line.played.screen.vote = PresenceState.UNKNOWN
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert line.played.told()["asked"] == []


def test_a_running_turn_is_added_to_with_authority_alone_and_a_dialog_never(line: Line) -> None:
    """`[targets].steer`: what is running is seen with its id; an open dialog is a person's."""
    line.played.plays(
        statuses={SESSION: "busy"}, messages={SESSION: [{"info": {"id": "msg_0", "role": "user"}, "parts": []}]}
    )

    async def scenario() -> tuple[AttemptOutcome, AttemptOutcome]:
        turn = (await line.seen()).active_turn_id
        assert turn == "msg_0"
        line.played.plays(permission=[SESSION])
        refused = await line.delivers(turn_id=turn)
        line.played.plays(permission=[])
        return refused, await line.delivers(turn_id=turn)

    refused, outcome = asyncio.run(scenario())
    assert isinstance(refused, Refused), refused
    assert refused.reason is HoldReason.WAITING_ON_APPROVAL
    assert isinstance(outcome, Delivered), outcome
    assert [one for one in line.played.told()["asked"] if "prompt_async" not in one] == []


def test_an_answer_that_quotes_the_mark_is_no_echo(line: Line) -> None:
    """Only a message of the person's side is ours."""
    said = {"info": {"id": "msg_9", "role": "assistant"}, "parts": [{"text": line.text}]}
    line.played.plays(messages={SESSION: [said]})

    async def scenario() -> Proof:
        place = await line.place()
        return (await line.adapter.trace(place, line.address, Wake("d", line.text, line.mark))).proof

    assert asyncio.run(scenario()) is Proof.NONE


def test_a_screen_is_remembered_for_the_conversation_alone_that_it_shows(line: Line) -> None:
    """A person begins a hundred conversations in a pane, then closes it: nothing of them is kept."""
    line.played.plays(sessions={SESSION: {"title": TITLE}, OTHER: {"title": "another"}})

    async def scenario() -> Place:
        for shown in (SESSION, OTHER, SESSION, OTHER):
            line.played.shows(shown)
            place = await line.place()
            assert await line.adapter.survey([place])
            assert list(line.adapter._screens) == [place.key]
        return place

    place = asyncio.run(scenario())
    line.played.is_killed()

    assert asyncio.run(line.adapter.survey([place])) == {}
    assert line.adapter._screens == {}


def test_what_had_no_server_is_forgotten_once_it_would_be_asked_again() -> None:
    """Programs come and go by the thousand, and most of them are no server."""
    clock = TurnedClock(1_800_000_000_000)

    async def nobody_answers(program: Program, at: Listener) -> PlayedServer:
        raise NotThere(f"{program} is no server at {at}")

    servers = ProgramServers(nobody_answers, "it has none", clock)

    async def scenario(pid: int) -> list[Program]:
        for life in "abc":
            with pytest.raises(NotThere):
                await servers.of(Program(pid, life))
            clock.turn(SERVERLESS_LASTS // 2)
        return list(servers._troubles)

    # one that listens nowhere
    with subprocess.Popen(["sleep", "600"]) as process:
        left = asyncio.run(scenario(process.pid))
        process.kill()
    assert [one.started for one in left] == ["b", "c"]


class PlayedServer:
    """A connection that never was."""

    is_open = False
