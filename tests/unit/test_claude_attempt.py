"""One attempt to wake a Claude Code: what was seen of the line decides, and absence is proven or not said."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from wake_bridge_adapters.claude_code import ClaudeCodeAdapter
from wake_bridge_adapters.claude_code.attempt import EchoLevel, Patience, Transcripts
from wake_bridge_adapters.claude_code.session import monitors_below
from wake_bridge_adapters.tables import ClaudeCodeConfig

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address, Expected
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Place, Refused, Unknown, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.adapter_contract import MARK, TEXT
from wake_bridge.testing.claude_session import Hearing, PlayedClaude, PlayedSessions

QUICK = Patience(written=0.2, queued=0.4, rest=0.3, proof=0.8)


@dataclass(slots=True)
class Notes:
    """A journal in memory."""

    steps: list[Step] = field(default_factory=list)

    async def __call__(self, step: Step, evidence: Mapping[str, str]) -> None:
        del evidence
        self.steps.append(step)


class Scene:
    """A played session, its monitor, and the adapter that may ring it."""

    def __init__(self, claude: PlayedClaude) -> None:
        self.claude = claude
        self.sessions = PlayedSessions(claude)
        context = AdapterContext(10, 10, "", {"CLAUDE_CONFIG_DIR": str(claude.directory)}, SteadyClock())
        self.adapter = ClaudeCodeAdapter(ClaudeCodeConfig(), context, QUICK)
        self.adapter.serve_sessions(self.sessions)
        self.address = Address(
            Identity("@agent"), expected=Expected("claude", str(claude.room)), has_directory_to_itself=True
        )
        self.journal = Notes()

    def place(self) -> Place:
        found = asyncio.run(self.adapter.resolve(self.address))
        assert isinstance(found, Place), found
        return found

    def deliver(self, place: Place | None = None, progress: Progress = Progress.UNTOUCHED) -> AttemptOutcome:
        place = place or self.place()
        wake = Wake("delivery", TEXT, MARK, progress, place.fence)
        return asyncio.run(self.adapter.deliver(place, self.address, wake, self.journal))

    @property
    def progress(self) -> Progress:
        return progress_of(self.journal.steps)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "project").mkdir()
    with PlayedClaude(tmp_path / "claude", tmp_path / "project") as claude:
        yield Scene(claude)


@pytest.fixture
def with_two_monitors(tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "project").mkdir()
    with PlayedClaude(tmp_path / "claude", tmp_path / "project", monitors=2) as claude:
        yield Scene(claude)


@pytest.mark.parametrize(
    ("hearing", "proof", "steps"),
    [
        ("tells", Proof.ACKNOWLEDGED, [Step.INTENT_SUBMIT, Step.SUBMITTED]),
        ("only by hook", Proof.ACKNOWLEDGED, [Step.INTENT_SUBMIT, Step.SUBMITTED]),
        ("only turns busy", Proof.SUBMITTED, [Step.INTENT_SUBMIT, Step.SUBMITTED]),
        ("queues", Proof.ACCEPTED, [Step.INTENT_SUBMIT]),
    ],
)
def test_the_proof_is_as_strong_as_what_was_seen(
    hearing: Hearing, proof: Proof, steps: list[Step], scene: Scene
) -> None:
    """3 is an echo with our mark, by hook or transcript; 2 a turn that began; 1 that it was taken."""
    scene.sessions.hearing = hearing

    outcome = scene.deliver()

    assert isinstance(outcome, Delivered), outcome
    assert (outcome.proof, scene.journal.steps) == (proof, steps)


def test_what_only_a_hook_had_heard_when_the_program_was_killed_never_came_in(scene: Scene) -> None:
    """Measured: the hook speaks 0.2 s before the model is asked; who is killed in between has told nobody."""
    place = scene.place()
    scene.sessions.marks.add(MARK)
    scene.claude.dies()

    assert isinstance(scene.deliver(place, Progress.MAYBE_SUBMITTED), Refused)
    assert scene.journal.steps == [Step.ABSENT]


def test_a_monitor_that_takes_nothing_gives_the_wake_back(scene: Scene) -> None:
    """Refused before anything was sent; the next route may take it."""
    place = scene.place()

    async def nobody(session_id: str, mark: str, line: str) -> bool | None:
        del session_id, mark, line
        return False

    scene.sessions.ring = nobody  # type: ignore[method-assign]
    outcome = scene.deliver(place)

    assert isinstance(outcome, Refused)
    assert scene.journal.steps == [Step.INTENT_SUBMIT, Step.REFUSED]
    assert scene.progress is Progress.UNTOUCHED


@pytest.mark.parametrize("hearing", ["swallows", "drops", "dies with it"])
def test_what_the_harness_own_record_does_not_have_is_given_back(hearing: Hearing, scene: Scene) -> None:
    """One driver: provably absent, so the next route may take it, and nothing is lost."""
    scene.sessions.hearing = hearing

    outcome = scene.deliver()

    assert isinstance(outcome, Refused), outcome
    assert scene.journal.steps == [Step.INTENT_SUBMIT, Step.ABSENT]
    assert scene.progress is Progress.UNTOUCHED


def test_what_was_only_queued_when_the_program_was_killed_never_came_in(scene: Scene) -> None:
    """Measured: a session that is killed with a line in its queue does not bring it back when it is resumed."""
    scene.sessions.hearing = "queues"
    place = scene.place()
    scene.claude.notes("queue-operation", TEXT.replace("\n", " "))
    scene.claude.dies()

    outcome = scene.deliver(place, Progress.MAYBE_SUBMITTED)

    assert isinstance(outcome, Refused)
    assert scene.journal.steps == [Step.ABSENT]


def test_what_the_agent_was_given_before_it_was_killed_is_delivered(scene: Scene) -> None:
    """The mark in the transcript is proof, also of a program that is gone."""
    place = scene.place()
    scene.claude.notes("user", TEXT.replace("\n", " "))
    scene.claude.dies()

    outcome = scene.deliver(place, Progress.MAYBE_SUBMITTED)

    assert isinstance(outcome, Delivered)
    assert outcome.proof is Proof.ACKNOWLEDGED


def test_while_a_turn_runs_nothing_is_proven(scene: Scene) -> None:
    """A busy agent may have the line at the next tool boundary: absent is not what is only not seen yet."""
    place = scene.place()
    scene.claude.notes("user", "somebody else's")
    scene.claude.shows("busy")

    assert isinstance(scene.deliver(place, Progress.MAYBE_SUBMITTED), Unknown)


def test_while_the_session_is_suspended_nothing_is_proven(scene: Scene) -> None:
    """What lies in its pipe is read when it goes on."""
    place = scene.place()
    scene.claude.suspends()

    assert isinstance(scene.deliver(place, Progress.MAYBE_SUBMITTED), Unknown)


def test_while_the_session_is_too_busy_to_read_nothing_is_proven(scene: Scene) -> None:
    """Its record says that it rests, as it did before the line came."""
    place = scene.place()
    scene.claude.gets_no_turn()

    assert isinstance(scene.deliver(place, Progress.MAYBE_SUBMITTED), Unknown)


def test_without_a_transcript_a_turn_that_ran_meanwhile_leaves_it_unknown(scene: Scene) -> None:
    """It may have been ours: nothing is written down that would say."""
    place = scene.place()
    scene.claude.shows("busy")
    scene.claude.shows("shell")

    assert isinstance(scene.deliver(place, Progress.MAYBE_SUBMITTED), Unknown)


def test_a_monitor_that_may_still_write_leaves_it_unknown(with_two_monitors: Scene) -> None:
    """Whoever was told that it may print, and has not said that it did, can still do so."""
    scene = with_two_monitors

    assert isinstance(scene.deliver(scene.place(), Progress.MAYBE_SUBMITTED), Unknown)


def test_a_session_that_has_lost_its_monitor_meanwhile_is_not_rung(scene: Scene) -> None:
    """The place was resolved a moment ago; what counts is now."""
    place = scene.place()
    scene.sessions.listening.clear()

    outcome = scene.deliver(place)

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.UNREACHABLE
    assert scene.journal.steps == []


def test_another_session_in_the_same_directory_is_not_rung_instead(scene: Scene) -> None:
    """The fence."""
    place = scene.place()
    scene.claude.dies()
    with PlayedClaude(scene.claude.directory, scene.claude.room) as another:
        scene.sessions.listening.add(another.session_id)
        outcome = scene.deliver(place)

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.NO_AGENT
    assert scene.sessions.lines == []


def test_a_mark_that_somebody_only_speaks_of_is_no_echo(scene: Scene) -> None:
    """An agent that lists deliveries has the mark in its transcript, and has not been woken by it."""
    scene.claude.transcript.parent.mkdir(parents=True)
    scene.claude.transcript.write_text(f'{{"type":"user","message":"{MARK} held"}}\n', encoding="utf-8")
    search = Transcripts(scene.claude.directory).search(MARK)

    assert search.look([scene.claude.session_id]) is EchoLevel.NONE


def test_a_transcript_is_read_on_from_where_the_last_look_ended(scene: Scene) -> None:
    """A row that is half written is weighed when it is whole; a file that begins anew is read anew."""
    search = Transcripts(scene.claude.directory).search(MARK)
    scene.claude.notes("user", "something else")
    assert search.look([scene.claude.session_id]) is EchoLevel.NONE
    with scene.claude.transcript.open("a", encoding="utf-8") as stream:
        stream.write(f'{{"type":"user","message":"<task-notification>{MARK}')
    assert search.look([scene.claude.session_id]) is EchoLevel.NONE
    with scene.claude.transcript.open("a", encoding="utf-8") as stream:
        stream.write('"}\n')

    assert search.look([scene.claude.session_id]) is EchoLevel.TOLD


def test_no_file_is_looked_for_outside_the_projects(scene: Scene, tmp_path: Path) -> None:
    """A session's name comes from outside: it must be a name."""
    (scene.claude.directory / "projects" / "p").mkdir(parents=True)
    (tmp_path / "secret.jsonl").write_text(f'{{"type":"user","m":"<task-notification>{MARK}"}}\n', encoding="utf-8")
    search = Transcripts(scene.claude.directory).search(MARK)

    assert search.look(["../../../secret"]) is EchoLevel.NONE


def test_monitors_are_counted_by_their_command_lines() -> None:
    """`… claude monitor`, and not a shell that only speaks of it."""
    wait = "import time; print(1, flush=True); time.sleep(60)"
    with (
        subprocess.Popen([sys.executable, "-c", wait, "claude", "monitor"], stdout=subprocess.PIPE) as one,
        subprocess.Popen([sys.executable, "-c", wait, "claude monitor"], stdout=subprocess.PIPE) as other,
    ):
        for process in (one, other):
            assert process.stdout is not None
            process.stdout.readline()
        assert monitors_below(os.getpid()) == 1
        one.kill()
        other.kill()
