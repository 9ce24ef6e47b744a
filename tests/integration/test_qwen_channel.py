"""The qwen adapter against a played session: whose inbox is written to, what is sent, and what its receipts prove."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from wake_bridge_adapters.qwen_code import QwenCodeAdapter
from wake_bridge_adapters.tables import QwenCodeConfig

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.domain.routing import Address, Expected
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Nowhere, Place, Refused, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.processes import processes
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.played_qwen import PlayedQwen

AGENT: Final = Identity("@qwen")
CLOCK: Final = SteadyClock()
CONTEXT: Final = AdapterContext(1, 10, "", {}, CLOCK)
OTHER: Final = "8e016be8-5b48-4c13-ad22-1f5326ae64ac"


class Line:
    """The adapter, the session, one delivery after the other, and their journals."""

    def __init__(self, played: PlayedQwen, **config: str) -> None:
        self.played = played
        told = {"home": str(played.home), "token_file": str(played.token_file), **config}
        self.adapter = QwenCodeAdapter(QwenCodeConfig(**told), CONTEXT)
        self.adapter.see_through(played.screen.of)
        self.address = Address(AGENT)
        self.steps: list[Step] = []
        self.mark = new_ulid()

    @property
    def text(self) -> str:
        return f"[WAKE] 1 event for @qwen:\n- 1 new message\nWake: {self.mark}"

    async def place(self) -> Place:
        found = await self.adapter.resolve(self.address)
        assert isinstance(found, Place), found
        return found

    async def journal(self, step: Step, evidence: Mapping[str, str]) -> None:
        del evidence
        self.steps.append(step)

    async def delivers(self, place: Place | None = None, **told: Any) -> AttemptOutcome:
        place = place or await self.place()
        wake = Wake(self.mark, self.text, self.mark, progress_of(self.steps), place.fence, **told)
        return await self.adapter.deliver(place, self.address, wake, self.journal)

    def nowhere(self) -> str:
        found = asyncio.run(self.adapter.resolve(self.address))
        assert isinstance(found, Nowhere), found
        assert found.reason is HoldReason.UNREACHABLE
        return found.detail


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with PlayedQwen(tmp_path / "qwen", AGENT, CLOCK) as played:
        yield Line(played)


def test_a_wake_is_queued_by_its_session_and_found_in_the_transcript(line: Line) -> None:
    """Proof 3 is its own echo; it was addressed to the conversation, and by the delivery's id."""
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert line.steps == [Step.INTENT_SUBMIT, Step.SUBMITTED]
    (message,) = line.played.messages
    assert (message["toSessionId"], message["msgId"]) == (line.played.session, line.mark)
    assert message["message"]["content"] == line.text


def test_a_session_settles_an_id_once(line: Line) -> None:
    """The delivery's id is the message's: should it ever come twice, the session gives the first verdict again."""
    asyncio.run(line.delivers())
    line.steps = []
    asyncio.run(line.delivers())
    assert len(line.played.messages) == 1


@pytest.mark.parametrize("verdict", ["refused", "denied", "dropped", "expired", "misaddressed"])
def test_what_the_session_turns_away_was_not_sent(line: Line, verdict: str) -> None:
    """The wake may take the next route."""
    line.played.verdict = verdict
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert verdict in outcome.detail
    assert progress_of(line.steps) is Progress.UNTOUCHED


@pytest.mark.parametrize("verdict", ["held", "", "delivered"])
def test_what_may_wait_in_the_session_is_never_sent_again(
    line: Line, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held for review, without a receipt, or queued behind a dialog: at rest or not, it stays locked and is looked for."""
    monkeypatch.setattr("wake_bridge_adapters.recorded.PATIENCE", 0.3)
    monkeypatch.setattr("wake_bridge_adapters.recorded.UNANSWERED_SETTLES", 0.0)
    monkeypatch.setattr("wake_bridge_adapters.recorded.SETTLES", 0.0)
    line.played.verdict, line.played.writes_down = verdict, False
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert progress_of(line.steps) is Progress.MAYBE_SUBMITTED
    again = asyncio.run(line.delivers())
    assert isinstance(again, Refused), again
    assert list(line.played.settled) == [line.mark]


def test_a_session_that_has_not_read_yet_is_not_taken_for_one_that_never_got_it(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a screen rests because nothing was read: no other route is taken, and the wake comes once."""
    monkeypatch.setattr("wake_bridge_adapters.recorded.PATIENCE", 0.3)
    monkeypatch.setattr("wake_bridge_adapters.recorded.UNANSWERED_SETTLES", 0.0)
    line.played.reads.clear()
    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert line.steps == [Step.INTENT_SUBMIT]
    line.played.reads.set()
    monkeypatch.undo()
    assert isinstance(asyncio.run(line.delivers()), Delivered)
    assert len(line.played.messages) == 1


def test_a_program_that_has_ended_without_it_never_had_it(line: Line) -> None:
    """What was only in its queue is lost with it: the wake is given back."""

    async def scenario() -> AttemptOutcome:
        place = await line.place()
        line.steps = [Step.INTENT_SUBMIT]
        line.played.record.unlink()
        return await line.delivers(place)

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Refused), outcome
    assert line.steps == [Step.INTENT_SUBMIT, Step.ABSENT]


def test_what_the_screen_shows_holds_a_wake_and_a_draft_does_not(line: Line) -> None:
    """The session does not say whether a turn runs; its screen does. Its inbox goes past the composer."""

    async def votes() -> list[PresenceState]:
        found = []
        for scene in ("idle", "draft", "busy", "approval"):
            line.played.scene(scene)
            seen = await line.adapter.observe(await line.place(), line.address)
            found.append(single_vote(seen.evidence).vote)
        return found

    idle = PresenceState.IDLE
    assert asyncio.run(votes()) == [idle, idle, PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL]


def test_clear_gives_the_program_another_conversation_and_the_place_is_found_anew(line: Line) -> None:
    """The record is read again before each wake: the one that was left gets nothing."""

    async def scenario() -> tuple[AttemptOutcome, Mapping[str, str], Place]:
        place = await line.place()
        assert await line.adapter.survey([place])
        line.played.session = OTHER
        line.played.is_there()
        outcome = await line.delivers(place)
        await line.adapter.observe(place, line.address)
        return outcome, await line.adapter.survey([place]), await line.place()

    outcome, signs, anew = asyncio.run(scenario())
    assert isinstance(outcome, Refused), outcome
    assert (line.steps, signs) == ([], {})
    assert anew.label.endswith(OTHER)


def test_without_a_token_or_with_one_that_others_may_read_the_screen_is_used(line: Line) -> None:
    """A token is what its person gives this one program; the reason says what to do."""
    assert "qwen sessions controllers add" in Line(line.played, token_file="").nowhere()
    assert (
        "no session of Qwen Code runs"
        in Line(line.played, token_file="", home=str(line.played.home / "elsewhere")).nowhere()
    )
    line.played.token_file.write_text("nothing of the kind", encoding="ascii")
    assert "no controller token" in line.nowhere()
    line.played.token_file.write_text(f"qpc_{'a1' * 32}", encoding="ascii")
    line.played.token_file.chmod(0o640)
    assert "chmod 600" in line.nowhere()


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 1},
        {"procStart": "another boot:1"},
        {"kind": "headless"},
        {"schemaVersion": 2},
        {"sessionId": "../../x"},
    ],
)
def test_a_record_that_is_not_understood_is_nobodys(line: Line, changes: dict[str, Any]) -> None:
    """Another process's, another boot's, of a program without a terminal, of a later shape: the screen is used."""
    line.played.is_there(**changes)
    assert "no session of Qwen Code" in line.nowhere()


def test_the_program_on_the_screen_tells_whose_session_it_is(line: Line) -> None:
    """Another process group's session, and an identity of another harness: nobody's."""
    line.played.screen.agent_pid = os.getppid() if os.getpgid(os.getppid()) != os.getpgrp() else 1
    assert "no records" in line.nowhere()
    line.played.screen.agent_pid = os.getpid()
    line.address = Address(AGENT, expected=Expected("claude", "/room"))
    assert "is no Qwen Code" in line.nowhere()


def test_an_inbox_of_another_program_gets_no_byte(line: Line, tmp_path: Path) -> None:
    """The other end must be the session's own process; what is no socket of ours is not opened."""
    plain = tmp_path / "plain"
    plain.touch()
    for inbox, said in ((str(plain), "no inbox"), (str(tmp_path / "gone"), "cannot be looked at"), ("", "no inbox")):
        line.played.is_there(ipcPath=inbox)
        line.steps = []
        outcome = asyncio.run(line.delivers())
        assert isinstance(outcome, Refused), outcome
        assert said in outcome.detail
        assert progress_of(line.steps) is Progress.UNTOUCHED


def test_another_process_at_the_inbox_gets_neither_the_token_nor_the_wake(line: Line) -> None:
    """The record names a process that lives, and another one has the socket by now."""
    with subprocess.Popen(["sleep", "60"]) as owner:
        record = json.loads(line.played.record.read_text(encoding="utf-8"))
        boot, _, _ = str(record["procStart"]).partition(":")
        started = processes().started_at(owner.pid)
        line.played.record.unlink()
        file = line.played.home / "sessions" / f"{owner.pid}.json"
        file.write_text(json.dumps({**record, "pid": owner.pid, "procStart": f"{boot}:{started}"}), encoding="utf-8")
        outcome = asyncio.run(line.delivers())
        owner.kill()
    assert isinstance(outcome, Refused), outcome
    assert "another program" in outcome.detail
    assert progress_of(line.steps) is Progress.UNTOUCHED
    line.played.is_there()
    # connections are served in turn: what the first one brought is known once the second is answered
    assert isinstance(asyncio.run(line.delivers()), Delivered)
    assert [one["type"] for one in line.played.said] == ["auth", "user"]


def test_a_transcript_in_which_the_model_quotes_the_mark_is_no_echo(line: Line) -> None:
    """Only a message of the person's side that came from outside is ours."""

    async def scenario() -> Proof:
        place = await line.place()
        line.played.transcript.write_text(f'{{"type": "assistant", "text": "{line.mark}"}}\n', encoding="utf-8")
        return (await line.adapter.trace(place, line.address, Wake("d", line.text, line.mark))).proof

    assert asyncio.run(scenario()) is Proof.NONE
