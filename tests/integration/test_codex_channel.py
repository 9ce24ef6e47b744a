"""The codex adapter against an app-server in a process of its own: what is sent, what is seen of it, what is never done."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from wake_bridge_adapters.codex import CodexAdapter
from wake_bridge_adapters.tables import CodexConfig

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step, progress_of
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import Observation, PresenceSource, PresenceState, fuse, single_vote
from wake_bridge.domain.routing import Address, Expected
from wake_bridge.domain.sessions import NOBODY, Session
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Nowhere, Place, Refused, Unknown, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing import HUNG
from wake_bridge.testing.fake_app_server import FakeAppServer

AGENT: Final = Identity("@codex")
THREAD: Final = "01a220c2-df1b-7ba2-9dbf-12cb1539168c"
OTHER: Final = "01a220c3-e0b9-7600-8b43-acf5bec04ba4"
TIMEOUT: Final = 2.0


class Line:
    """The adapter, the server, one delivery after the other, and their journals."""

    def __init__(self, server: FakeAppServer, environment: Mapping[str, str] = os.environ) -> None:
        self.server = server
        self.context = AdapterContext(TIMEOUT, 10, "", environment, SteadyClock())
        self.adapter = CodexAdapter(CodexConfig(home=str(server.home)), self.context)
        self.address = Address(AGENT, sessions=(Session("codex", THREAD, AGENT),))
        self.steps: list[Step] = []
        self.mark = new_ulid()

    @property
    def text(self) -> str:
        return f"[WAKE] 1 event for @codex:\n- 1 new message\nWake: {self.mark}"

    @property
    def progress(self) -> Progress:
        return progress_of(self.steps)

    async def place(self) -> Place:
        found = await self.adapter.resolve(self.address)
        assert isinstance(found, Place), found
        return found

    async def seen(self) -> Observation:
        return await self.adapter.observe(await self.place(), self.address)

    async def journal(self, step: Step, evidence: Mapping[str, str]) -> None:
        del evidence
        self.steps.append(step)

    async def delivers(self, place: Place | None = None, **told: object) -> AttemptOutcome:
        place = place or await self.place()
        wake = Wake(self.mark, self.text, self.mark, self.progress, place.fence, **told)  # type: ignore[arg-type]
        return await self.adapter.deliver(place, self.address, wake, self.journal)

    def was_given_once(self) -> bool:
        """The thread has it once, and the model was shown it once."""
        recorded = [one for one in self.server.recorded(THREAD) if self.mark in one]
        shown = [one for one in self.server.shown_to_the_model() if self.mark in one]
        return (recorded, shown) == ([self.text], [self.text])


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with FakeAppServer(tmp_path / "codex") as server:
        server.thread(THREAD, cwd=str(tmp_path))
        server.opens_terminal(tmp_path, THREAD)
        yield Line(server)


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + HUNG
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_an_idle_thread_is_proven_idle_by_one_look(line: Line) -> None:
    """The native control plane is the strongest evidence; its own word needs no second look."""
    seen = asyncio.run(line.seen())

    presence = fuse(seen, None, seen.at, 5000)
    assert presence.state is PresenceState.IDLE
    assert presence.source is PresenceSource.CODEX_APP_SERVER


@pytest.mark.parametrize(
    ("scene", "state"), [("busy", PresenceState.ACTIVE), ("approval", PresenceState.WAITING_ON_APPROVAL)]
)
def test_a_running_turn_is_seen_with_its_id(line: Line, scene: str, state: PresenceState) -> None:
    """`active` and `waitingOnApproval` come with the id by which alone the turn may be added to."""
    line.server.thread(THREAD, scene=scene)

    seen = asyncio.run(line.seen())

    assert single_vote(seen.evidence).vote is state
    assert seen.active_turn_id


@pytest.mark.parametrize("scene", ["systemError", "notLoaded", "somethingNew"])
def test_what_is_neither_idle_nor_active_is_unknown(line: Line, scene: str) -> None:
    """Anything unknown is `unknown` and holds; a thread that nobody has open says so."""
    line.server.thread(THREAD, scene=scene)

    vote = single_vote(asyncio.run(line.seen()).evidence)

    assert vote.vote is PresenceState.UNKNOWN
    assert (vote.hold is HoldReason.NOT_LOADED) == (scene == "notLoaded")


def test_a_wake_begins_a_turn_and_is_acknowledged_by_its_echo(line: Line) -> None:
    """`clientUserMessageId` is our ULID, and its echo in the record is proof 3."""
    outcome = asyncio.run(line.delivers())

    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert line.steps == [Step.INTENT_SUBMIT, Step.SUBMITTED]
    assert eventually(line.was_given_once)


def test_a_turn_that_began_meanwhile_is_added_to_and_the_evidence_says_so(line: Line) -> None:
    """`turn/start` on an active thread steers silently; that is accepted and told."""
    line.server.breaks_next("turn/start", "busy_before")

    outcome = asyncio.run(line.delivers())

    assert isinstance(outcome, Delivered), outcome
    assert "meanwhile" in outcome.evidence["added to"]
    assert line.was_given_once()


def test_a_wrong_turn_id_is_read_once_more(line: Line) -> None:
    """`turn/steer` with `expectedTurnId`, a wrong id read once more."""
    line.server.thread(THREAD, scene="busy")

    outcome = asyncio.run(line.delivers(turn_id="01a220c9-0000-7000-8000-000000000000"))

    assert isinstance(outcome, Delivered), outcome
    assert line.server.changes_asked_for() == ["turn/steer", "turn/steer"]
    assert line.steps == [Step.INTENT_SUBMIT, Step.REFUSED, Step.INTENT_SUBMIT, Step.SUBMITTED]
    assert line.was_given_once()


def test_a_turn_that_has_just_ended_gives_the_wake_back(line: Line) -> None:
    """What the channel declined was not sent; the next look decides anew."""
    line.server.thread(THREAD, scene="busy")
    line.server.breaks_next("turn/steer", "no active turn to steer")

    outcome = asyncio.run(line.delivers(turn_id="any"))

    assert isinstance(outcome, Refused), outcome
    assert line.progress is Progress.UNTOUCHED


def test_behind_a_dialog_a_wake_waits_for_the_tools_end_and_is_not_sent_again(line: Line) -> None:
    """A dialog that came up meanwhile stays untouched; the echo comes when a person has answered."""
    line.server.breaks_next("turn/start", "approval_before")

    first = asyncio.run(line.delivers())
    assert isinstance(first, Refused), first
    assert first.reason is HoldReason.ACTIVE
    assert line.progress is Progress.MAYBE_SUBMITTED

    line.server.thread(THREAD, scene="busy")
    second = asyncio.run(line.delivers())
    assert isinstance(second, Delivered), second
    assert second.proof is Proof.ACKNOWLEDGED
    assert line.server.changes_asked_for() == ["turn/start"]


@pytest.mark.parametrize("fault", ["drop_after", "silent_after"])
def test_a_lost_answer_is_made_up_by_the_echo(line: Line, fault: str) -> None:
    """After the intent look for the mark; it was taken, and is not sent again."""
    line.server.breaks_next("turn/start", fault)

    outcome = asyncio.run(line.delivers())

    assert isinstance(outcome, Delivered), outcome
    assert outcome.proof is Proof.ACKNOWLEDGED
    assert eventually(line.was_given_once)


@pytest.mark.parametrize("fault", ["drop_before", "silent_before"])
def test_what_the_record_of_a_thread_at_rest_does_not_have_never_came_in(line: Line, fault: str) -> None:
    """Provably absent by the control plane's own record is given back, and then sent for the first time."""
    line.server.breaks_next("turn/start", fault)

    outcome = asyncio.run(line.delivers())
    assert isinstance(outcome, Refused), outcome
    assert line.steps[-1] is Step.ABSENT
    assert line.progress is Progress.UNTOUCHED

    again = asyncio.run(line.delivers())
    assert isinstance(again, Delivered), again
    assert eventually(line.was_given_once)


@pytest.mark.parametrize(
    ("fault", "is_absent"),
    [("die_before", True), ("die_after", True), ("die_begun", True), ("die_recorded", False), ("die_asked", False)],
)
def test_a_server_that_dies_in_the_middle_of_a_wake_neither_loses_nor_doubles_it(
    line: Line, fault: str, is_absent: bool
) -> None:
    """Kill the app-server in the middle of a wake; what its record has is not sent again."""
    line.server.breaks_next("turn/start", fault)
    back = threading.Thread(target=_comes_back, args=(line.server,))
    back.start()

    outcome = asyncio.run(line.delivers())
    back.join()

    assert isinstance(outcome, Refused if is_absent else Delivered), outcome
    if is_absent:
        assert line.progress is Progress.UNTOUCHED
        assert isinstance(asyncio.run(line.delivers()), Delivered)
    assert eventually(line.was_given_once)


def test_a_wake_whose_turn_died_unanswered_is_answered_without_being_sent_again(line: Line) -> None:
    """The agent has it and was never let answer; a turn without a text makes up for that."""
    line.server.breaks_next("turn/start", "die_recorded")
    back = threading.Thread(target=_comes_back, args=(line.server,))
    back.start()

    outcome = asyncio.run(line.delivers())
    back.join()

    assert isinstance(outcome, Delivered), outcome
    assert outcome.evidence.get("begun again"), outcome
    assert eventually(line.was_given_once)


def test_a_turn_that_was_cut_short_is_not_begun_again_while_people_have_switched_waking_off(line: Line) -> None:
    """Pause and quiet hours hold back every turn of ours, also one that only makes up for another."""
    line.server.breaks_next("turn/start", "die_recorded")
    back = threading.Thread(target=_comes_back, args=(line.server,))
    back.start()

    outcome = asyncio.run(line.delivers(may_begin=False))
    back.join()

    assert isinstance(outcome, Delivered), outcome
    assert "switched off" in outcome.evidence["cut short"]
    assert line.steps == [Step.INTENT_SUBMIT, Step.SUBMITTED]
    assert line.server.changes_asked_for() == []


def _comes_back(server: FakeAppServer) -> None:
    server.waits_for_its_end()
    server.starts()
    server.thread(THREAD)
    server.waits_for_terminals()


def test_after_our_own_crash_another_servers_record_is_the_proof(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that died with its server cannot come in any more, and is given back at once."""
    monkeypatch.setattr("wake_bridge_adapters.recorded.PATIENCE", 10 * HUNG)

    async def scenario() -> AttemptOutcome:
        sent_to = await line.place()
        line.steps = [Step.INTENT_SUBMIT, Step.LOCKED]
        line.server.is_killed()
        line.server.starts()
        line.server.thread(THREAD)
        async with asyncio.timeout(HUNG):
            return await line.delivers(sent_to)

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Refused), outcome
    assert line.progress is Progress.UNTOUCHED
    assert line.server.changes_asked_for() == []


def test_a_thread_that_died_with_its_server_has_nothing_of_ours(line: Line) -> None:
    """Where nothing was said yet there is no record; what was sent there cannot come in any more."""
    line.server.breaks_next("turn/start", "die_before")

    async def scenario() -> AttemptOutcome:
        attempt = asyncio.create_task(line.delivers())
        await asyncio.to_thread(line.server.waits_for_its_end)
        (line.server.home / "record.json").unlink()
        await asyncio.to_thread(line.server.starts)
        return await attempt

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Refused), outcome
    assert line.steps == [Step.INTENT_SUBMIT, Step.ABSENT]


def test_nothing_is_sent_to_a_server_that_was_not_the_one_looked_at(line: Line) -> None:
    """Which server may have taken it must be known after a crash, so the fence holds when it is sent."""

    async def scenario() -> AttemptOutcome:
        place = await line.place()
        line.server.is_killed()
        line.server.starts()
        line.server.thread(THREAD, cwd=str(line.server.home.parent))
        # the program is a client of the new one by now, and shows the thread there
        line.server.opens_terminal(line.server.home.parent, THREAD)
        async with asyncio.timeout(HUNG):
            while not await line.adapter.survey([place]):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        assert await line.adapter.resolve(line.address) != place
        return await line.delivers(place)

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Refused), outcome
    assert outcome.detail == "the app-server was just restarted"
    assert line.steps == []
    assert line.server.changes_asked_for() == []


def test_what_can_never_be_decided_becomes_unknown(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be decided is never sent again, and a person is told."""
    monkeypatch.setattr("wake_bridge_adapters.recorded.UNDECIDED_FOR", -1000)
    monkeypatch.setattr("wake_bridge_adapters.recorded.PATIENCE", 0.5)
    line.steps = [Step.INTENT_SUBMIT]

    async def scenario() -> AttemptOutcome:
        place = await line.place()
        line.server.is_stopped()
        try:
            return await line.delivers(place)
        finally:
            line.server.goes_on()

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Unknown), outcome
    assert line.server.changes_asked_for() == []


def test_a_server_that_answers_nothing_costs_one_time_out_and_no_byte(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port: every external call is bounded; a hung server is unreachable, and reached again when it goes on."""
    bounds: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        bounds.append(timeout(seconds))
        return bounds[-1]

    async def scenario() -> tuple[Observation, int, AttemptOutcome]:
        place = await line.place()
        line.server.is_stopped()
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "timeout", noted)
            seen = await line.adapter.observe(place, line.address)
        refused = await line.delivers(place)
        line.server.goes_on()
        assert isinstance(refused, Refused), refused
        async with asyncio.timeout(HUNG):
            while single_vote((await line.adapter.observe(place, line.address)).evidence).hold is not None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        return seen, sum(one.expired() for one in bounds), await line.delivers()

    seen, time_outs, outcome = asyncio.run(scenario())

    assert single_vote(seen.evidence).hold is HoldReason.UNREACHABLE
    assert time_outs == 1
    assert isinstance(outcome, Delivered), outcome
    assert eventually(line.was_given_once)


def test_a_round_of_looks_asks_nothing_and_notices_every_change(line: Line) -> None:
    """Surveys come from what the server pushes; a thread that was busy in between has changed."""

    async def scenario() -> None:
        place = await line.place()

        async def becomes(wanted: Callable[[Mapping[str, str]], bool]) -> bool:
            async with asyncio.timeout(HUNG):
                while not wanted(await line.adapter.survey([place])):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.01)
            return True

        first = await line.adapter.survey([place])
        asked = len(line.server.plays("seen")["requests"])
        assert await line.adapter.survey([place]) == first
        assert len(line.server.plays("seen")["requests"]) == asked
        line.server.thread(THREAD, scene="busy")
        line.server.thread(THREAD, scene="idle")
        assert await becomes(lambda signs: signs != first)
        line.server.is_killed()
        assert await becomes(lambda signs: not signs)
        line.server.starts()
        assert place.key in await line.adapter.survey([place])

    asyncio.run(scenario())


def test_what_the_server_asks_its_clients_is_never_answered(line: Line) -> None:
    """An approval is the person's; we neither subscribe nor answer a server request."""

    async def scenario() -> None:
        place = await line.place()
        line.server.plays("ask", threadId=THREAD, command="rm -rf /")
        await line.adapter.observe(place, line.address)
        assert isinstance(await line.delivers(place), Delivered)

    asyncio.run(scenario())

    assert line.server.answers() == []
    assert line.server.changes_asked_for() == ["turn/start"]


def test_an_unknown_version_is_left_to_the_screen_and_doctor_says_so(line: Line) -> None:
    """Unknown version → bridge."""
    line.server.plays("set", version="0.999.1")

    found = asyncio.run(line.adapter.resolve(line.address))
    assert isinstance(found, Nowhere), found
    assert "0.999" in found.detail
    (check,) = asyncio.run(line.adapter.probe())
    assert check[1] is None
    assert "0.999" in check[2]
    trusting = CodexAdapter(CodexConfig(home=str(line.server.home), versions=("0.171", "0.999")), line.context)
    assert isinstance(asyncio.run(trusting.resolve(line.address)), Place)


def test_doctor_names_the_server_and_the_threads(line: Line) -> None:
    """What answers is probed."""
    server, threads = asyncio.run(line.adapter.probe())

    assert server[:2] == ("codex app-server", True)
    assert f"pid {line.server.pid}" in server[2]
    assert THREAD in threads[2]


def test_without_its_package_the_adapter_says_so_and_harms_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra is imported lazily; where it is missing everything else works."""
    monkeypatch.setitem(sys.modules, "websockets", None)
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    monkeypatch.setattr("wake_bridge_adapters.codex.adapter.find_spec", lambda _: None)

    found = asyncio.run(line.adapter.resolve(line.address))

    assert isinstance(found, Nowhere), found
    assert "wake-bridge with its extra" in found.detail
    assert "wake-bridge with its extra" in CodexAdapter.unavailable({})


# -- which thread: exactly one place, never a guess -------------------------------------------------


def by_directory(line: Line, directory: Path, **told: object) -> Place | Nowhere:
    """Where an address leads that names a directory and no thread."""
    expected = Expected("codex", str(directory))
    address = Address(AGENT, **{"expected": expected, "has_directory_to_itself": True, **told})  # type: ignore[arg-type]
    return asyncio.run(line.adapter.resolve(address))


def test_the_only_one_in_the_directory_is_meant(line: Line, tmp_path: Path) -> None:
    """Threads in other directories, and those that Codex began by itself, are not."""
    line.server.thread(OTHER, cwd=str(tmp_path), ephemeral=True)
    line.server.thread("01a220c4-0000-7000-8000-000000000000", cwd=str(tmp_path / "elsewhere"))

    found = by_directory(line, tmp_path)

    assert isinstance(found, Place), found
    assert found.key.endswith(THREAD)


def test_two_in_the_directory_are_ambiguous(line: Line, tmp_path: Path) -> None:
    """Several are a hold with a reason."""
    line.server.thread(OTHER, cwd=str(tmp_path))
    line.server.opens_terminal(tmp_path, OTHER)

    found = by_directory(line, tmp_path)

    assert isinstance(found, Nowhere), found
    assert found.reason is HoldReason.AMBIGUOUS


@pytest.mark.parametrize(
    "told", [{"has_directory_to_itself": False}, {"expected": Expected("claude", "/")}, {"expected": Expected()}]
)
def test_a_directory_that_others_share_tells_nothing(line: Line, tmp_path: Path, told: dict[str, object]) -> None:
    """Another harness's identity, or one that shares its directory, must not wake the Codex that happens to be there."""
    if "expected" in told and told["expected"] == Expected("claude", "/"):
        told = {"expected": Expected("claude", str(tmp_path))}

    assert isinstance(by_directory(line, tmp_path, **told), Nowhere)


def test_a_thread_that_is_known_to_be_anothers_is_not_taken(line: Line, tmp_path: Path) -> None:
    """A recorded session says whose it is, better than a directory does."""

    class Sessions:
        def session(self, session_id: str) -> Session | None:
            return Session("codex", session_id, Identity("@somebody"))

    line.adapter.serve_sessions(Sessions())  # type: ignore[arg-type]

    assert isinstance(by_directory(line, tmp_path), Nowhere)


def test_one_that_is_nobodys_is_not_taken_and_leaves_no_other_certain(line: Line, tmp_path: Path) -> None:
    """Two terminals in one directory, and only one of them has called so far: the silent one is none the surer."""

    class Sessions:
        def session(self, session_id: str) -> Session | None:
            return Session("codex", session_id, NOBODY) if session_id == THREAD else None

    line.adapter.serve_sessions(Sessions())  # type: ignore[arg-type]
    alone = by_directory(line, tmp_path)
    line.server.thread(OTHER, cwd=str(tmp_path))
    line.server.opens_terminal(tmp_path, OTHER)
    both = by_directory(line, tmp_path)

    assert isinstance(alone, Nowhere)
    assert alone.reason is HoldReason.UNREACHABLE
    assert isinstance(both, Nowhere)
    assert both.reason is HoldReason.AMBIGUOUS


def test_a_subscription_may_name_it(line: Line) -> None:
    """`threadId` in a subscription's metadata."""
    found = asyncio.run(line.adapter.resolve(Address(AGENT, details=(("threadId", THREAD),))))

    assert isinstance(found, Place), found


@pytest.mark.parametrize("named", ["session", "subscription"])
def test_a_sub_agents_thread_is_never_meant_however_it_is_named(line: Line, named: str) -> None:
    """Its hooks call in from its agent's directory, and are its newest conversation: the wake is for the agent."""
    line.server.thread(OTHER, ephemeral=True)
    by_name = {
        "session": Address(AGENT, sessions=(Session("codex", OTHER, AGENT), Session("codex", THREAD, AGENT))),
        "subscription": Address(AGENT, sessions=(Session("codex", THREAD, AGENT),), details=(("threadId", OTHER),)),
    }

    found = asyncio.run(line.adapter.resolve(by_name[named]))

    assert isinstance(found, Place), found
    assert found.key.endswith(THREAD)


def test_a_session_that_is_open_is_preferred_to_a_newer_one_that_is_not(line: Line) -> None:
    """The newest session may be one that has been closed."""
    line.server.thread(OTHER, scene="notLoaded")
    sessions = (Session("codex", OTHER, AGENT), Session("codex", THREAD, AGENT))

    found = asyncio.run(line.adapter.resolve(Address(AGENT, sessions=sessions)))

    assert isinstance(found, Place), found
    assert found.key.endswith(THREAD)


class TestNobodyHasItOpen:
    """Not loaded → hold, or `codex queue` with authority."""

    @pytest.fixture
    def closed(self, tmp_path: Path) -> Iterator[Line]:
        with FakeAppServer(tmp_path / "codex") as server:
            server.thread(THREAD, scene="busy")
            server.thread(THREAD, scene="notLoaded")
            program = tmp_path / "bin" / "codex"
            program.parent.mkdir()
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wake_bridge.testing.fake_app_server.queue "$@"\n')
            program.chmod(0o755)
            yield Line(server, {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"})

    def test_without_authority_it_is_refused_without_a_byte(self, closed: Line) -> None:
        """A conversation that nobody has open is not begun."""
        outcome = asyncio.run(closed.delivers())

        assert isinstance(outcome, Refused), outcome
        assert outcome.reason is HoldReason.NOT_LOADED
        assert closed.steps == []

    def test_with_authority_codex_queue_begins_it(self, closed: Line) -> None:
        """The program's own queue starts the thread; the mark in its text is the proof."""
        outcome = asyncio.run(closed.delivers(may_start_thread=True))

        assert isinstance(outcome, Delivered), outcome
        assert outcome.proof is Proof.ACKNOWLEDGED
        assert eventually(closed.was_given_once)

    def test_what_only_waits_in_the_queue_was_accepted(self, closed: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        """Proof 1: it is handed over, and nobody has read it yet; after a crash its line in the queue is found."""
        monkeypatch.setattr("wake_bridge_adapters.codex.search._PEEK", 0.3)
        closed.adapter._queue.environment["FAKE_QUEUE"] = "waits"  # type: ignore[index]

        outcome = asyncio.run(closed.delivers(may_start_thread=True))
        assert isinstance(outcome, Delivered), outcome
        assert outcome.proof is Proof.ACCEPTED

        closed.steps = [Step.INTENT_SUBMIT]
        resumed = asyncio.run(closed.delivers(may_start_thread=True))
        assert isinstance(resumed, Delivered), resumed
        assert resumed.proof is Proof.ACCEPTED

    def test_a_queue_that_fails_gives_the_wake_back(self, closed: Line) -> None:
        """What is neither in the queue nor in the record was not handed over."""
        closed.adapter._queue.environment["FAKE_QUEUE"] = "fails"  # type: ignore[index]

        outcome = asyncio.run(closed.delivers(may_start_thread=True))

        assert not isinstance(outcome, Delivered | Unknown), outcome
        assert closed.progress is Progress.UNTOUCHED


class TestWhoseSocket:
    """SECURITY.md: own uid's socket, not reachable through others' directories."""

    def test_a_directory_that_anyone_may_write_is_not_trusted(self, line: Line) -> None:
        """Anyone could put another socket there, and read and answer what is sent to it."""
        folder = line.server.home / "app-server-control"
        folder.chmod(0o777)

        found = asyncio.run(line.adapter.resolve(line.address))

        folder.chmod(0o700)
        assert isinstance(found, Nowhere), found
        assert "anyone may write" in found.detail

    def test_what_is_no_socket_or_is_not_there_leads_nowhere(self, tmp_path: Path) -> None:
        """No server: the screen serves as before."""
        context = AdapterContext(TIMEOUT, 10, "", {"CODEX_HOME": str(tmp_path), "HOME": "/"}, SteadyClock())
        adapter = CodexAdapter(CodexConfig(), context)
        address = Address(AGENT, sessions=(Session("codex", THREAD, AGENT),))
        nothing = asyncio.run(adapter.resolve(address))
        control = tmp_path / "app-server-control"
        control.mkdir()
        (control / "app-server-control.sock").write_text("")
        no_socket = asyncio.run(CodexAdapter(CodexConfig(), context).resolve(address))

        assert isinstance(nothing, Nowhere)
        assert isinstance(no_socket, Nowhere)
        assert "no socket" in no_socket.detail


def test_the_clock_of_a_look_is_the_daemons(line: Line) -> None:
    """Older than `fresh_for` is not fresh, by the one clock."""
    before = line.context.clock.now()
    seen = asyncio.run(line.seen())

    assert Instant(before) <= seen.at <= line.context.clock.now()
