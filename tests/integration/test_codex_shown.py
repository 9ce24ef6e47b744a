"""Which thread of Codex is woken: the one that the program in the identity's pane shows, whatever was recorded of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from wake_bridge_adapters.codex import CodexAdapter
from wake_bridge_adapters.tables import CodexConfig

from wake_bridge.domain.delivery import HoldReason, Step
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceState, single_vote
from wake_bridge.domain.routing import Address, Binding, Expected
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Nowhere, Place, Refused, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.fake_app_server import FakeAppServer, FakeTerminal
from wake_bridge.testing.memory_adapter import MemoryAdapter, MemoryConfig

AGENT: Final = Identity("@codex")
A_MINUTE_AGO: Final = 60.0
MENU: Final = Evidence("no-composer", PresenceState.UNKNOWN, "enter select", "composer")
DRAFT: Final = Evidence("draft", PresenceState.USER_TYPING, "half a thought", "composer")
COPY_MODE: Final = Evidence("copy-mode", PresenceState.UNKNOWN, hold=HoldReason.COPY_MODE)


def fresh_id(seconds_ago: float = 0) -> str:
    """An id as Codex makes them: it begins with the millisecond."""
    stamp = f"{int((time.time() - seconds_ago) * 1000):012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7{uuid.uuid4().hex[:3]}-8{uuid.uuid4().hex[:3]}-{uuid.uuid4().hex[:12]}"


class Pane(MemoryAdapter):
    """Whose screen it is told to be: the program there, and what is seen."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(MemoryConfig(), context)
        self.agent_pid = 0
        self.seen: tuple[Evidence, ...] = ()

    async def resolve(self, address: Address) -> Place | Nowhere:
        del address
        return Place("pane", "work:0.0", Binding("socket", 1, "$0", "%0", 2, "3", self.agent_pid, "4"))

    async def observe(self, place: Place, address: Address) -> Observation:
        del address
        return Observation(SteadyClock().now(), self.seen, where=place.label)


class Stage:
    """An app-server, terminals, and the pane of one identity of which `recorded` is the known conversation."""

    def __init__(self, server: FakeAppServer, work: Path) -> None:
        self.server = server
        self.work = work
        self.context = AdapterContext(2.0, 10, "", os.environ, SteadyClock())
        self.pane = Pane(self.context)
        self.adapter = CodexAdapter(CodexConfig(home=str(server.home)), self.context)
        self.adapter.see_through(lambda _: self.pane)
        self.recorded = fresh_id(A_MINUTE_AGO)
        server.thread(self.recorded, cwd=str(work))
        self.address = Address(AGENT, pane="work", sessions=(Session("codex", self.recorded, AGENT),))
        self.steps: list[Step] = []

    def has_in_pane(self, *threads: str) -> FakeTerminal:
        """A terminal program in the pane that has opened these threads."""
        terminal = self.server.opens_terminal(self.work, *threads)
        self.pane.agent_pid = terminal.pid
        return terminal

    def begins(self, directory: Path | None = None) -> str:
        """A new thread, as `/new` makes one."""
        thread = fresh_id()
        self.server.thread(thread, cwd=str(directory or self.work))
        return thread

    def found(self) -> Place | Nowhere:
        return asyncio.run(self.adapter.resolve(self.address))

    def thread(self) -> str:
        """The thread that would be woken."""
        found = self.found()
        assert isinstance(found, Place), found
        return found.key.rpartition(":")[2]

    def is_held(self) -> HoldReason:
        """Why no thread would be."""
        found = self.found()
        assert isinstance(found, Nowhere), found
        return found.reason

    def seen(self) -> Evidence:
        """What decides how it stands."""

        async def look() -> Observation:
            place = await self.adapter.resolve(self.address)
            assert isinstance(place, Place), place
            return await self.adapter.observe(place, self.address)

        return single_vote(asyncio.run(look()).evidence)

    def wakes(self, place: Place | None = None, *, may_start_thread: bool = False) -> AttemptOutcome:
        place = place or Place(f"codex:{self.server.home}:{self.thread()}", "codex")

        async def journal(step: Step, evidence: Mapping[str, str]) -> None:
            del evidence
            self.steps.append(step)

        mark = new_ulid()
        wake = Wake(mark, f"Wake: {mark}", mark, may_start_thread=may_start_thread)
        return asyncio.run(self.adapter.deliver(place, self.address, wake, journal))

    def nothing_was_sent(self) -> bool:
        return not self.steps and not self.server.changes_asked_for()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    work = tmp_path / "work"
    work.mkdir()
    with FakeAppServer(tmp_path / "codex") as server:
        yield Stage(server, work)


def test_a_thread_that_the_program_shows_is_woken(stage: Stage) -> None:
    """What worked goes on."""
    stage.has_in_pane(stage.recorded)

    assert stage.thread() == stage.recorded
    assert stage.seen().vote is PresenceState.IDLE
    assert isinstance(stage.wakes(), Delivered)
    assert len(stage.server.recorded(stage.recorded)) == 1


def test_after_new_neither_is_certain_until_the_old_one_is_unloaded(stage: Stage) -> None:
    """After `/new` the old thread stays loaded for a minute; then the new one is shown alone."""
    terminal = stage.has_in_pane(stage.recorded)
    new = stage.begins()
    terminal.opens(new)

    assert stage.is_held() is HoldReason.AMBIGUOUS

    stage.server.thread(stage.recorded, scene="notLoaded")
    assert stage.thread() == new
    assert isinstance(stage.wakes(), Delivered)
    assert (stage.server.recorded(stage.recorded), len(stage.server.recorded(new))) == ([], 1)


def test_after_new_the_old_thread_is_not_certain_either_before_the_new_one_is_noted(stage: Stage) -> None:
    """The new thread is there 0.3 s before its terminal notes that it has opened it."""
    stage.has_in_pane(stage.recorded)
    stage.begins()

    assert stage.is_held() is HoldReason.AMBIGUOUS


def test_after_a_restart_the_new_thread_wins_over_the_recorded_one(stage: Stage) -> None:
    """The server keeps the old one loaded for a minute after its terminal has quit."""
    before = stage.has_in_pane()
    before.opens(stage.recorded, time.time() - A_MINUTE_AGO)
    before.ends()
    stage.has_in_pane(new := stage.begins())

    assert stage.thread() == new


def test_a_program_that_has_opened_nothing_yet_does_not_show_what_the_one_before_it_did(stage: Stage) -> None:
    """Measured: a starting terminal draws its composer a second before it has a thread."""
    before = stage.has_in_pane()
    before.opens(stage.recorded, time.time() - A_MINUTE_AGO)
    before.ends()
    stage.has_in_pane()

    assert stage.is_held() is HoldReason.UNREACHABLE


def test_a_resumed_thread_is_the_one_that_is_shown(stage: Stage) -> None:
    """`codex resume`: another conversation than the newest recorded one."""
    older = fresh_id(3600)
    stage.server.thread(older, cwd=str(stage.work))
    stage.server.thread(stage.recorded, scene="notLoaded")
    stage.has_in_pane(older)

    assert stage.thread() == older


def test_a_side_chat_leaves_it_open_which_of_the_two_is_shown(stage: Stage) -> None:
    """Measured: both stay open, and a key changes from one to the other without a trace."""
    terminal = stage.has_in_pane(stage.recorded)
    terminal.opens(stage.begins())

    assert stage.is_held() is HoldReason.AMBIGUOUS


def test_once_the_program_has_quit_nothing_is_begun_in_its_thread(stage: Stage) -> None:
    """Nothing is started in a thread nobody sees, unless `may_start_thread` says so."""
    stage.has_in_pane(stage.recorded).ends()
    stage.pane.agent_pid = 0

    seen = stage.seen()
    assert (seen.vote, seen.hold) == (PresenceState.UNKNOWN, HoldReason.NOT_LOADED)
    refused = stage.wakes()
    assert isinstance(refused, Refused), refused
    assert refused.reason is HoldReason.NOT_LOADED
    assert stage.nothing_was_sent()

    assert isinstance(stage.wakes(may_start_thread=True), Delivered)


def test_a_menu_on_the_screen_holds_the_wake(stage: Stage) -> None:
    """With the `/new` menu open it ran in the thread about to be left."""
    stage.has_in_pane(stage.recorded)
    stage.pane.seen = (MENU,)

    assert stage.seen() == MENU
    refused = stage.wakes()
    assert isinstance(refused, Refused), refused
    assert refused.reason is HoldReason.UNKNOWN
    assert stage.nothing_was_sent()


@pytest.mark.parametrize("beside", [DRAFT, COPY_MODE])
def test_a_draft_and_copy_mode_are_in_nobodys_way(stage: Stage, beside: Evidence) -> None:
    """A channel past the composer goes past them; the thread is there all the same."""
    stage.has_in_pane(stage.recorded)
    stage.pane.seen = (beside,)

    assert stage.seen().vote is PresenceState.IDLE
    assert isinstance(stage.wakes(), Delivered)


def test_a_thread_that_was_left_after_the_look_is_not_woken(stage: Stage) -> None:
    """A look is seconds old when the wake is sent: which thread is shown is asked once more."""
    terminal = stage.has_in_pane(stage.recorded)
    place = stage.found()
    assert isinstance(place, Place)
    terminal.opens(stage.begins())
    stage.server.thread(stage.recorded, scene="notLoaded")

    refused = stage.wakes(place)

    assert isinstance(refused, Refused), refused
    assert stage.nothing_was_sent()


def test_two_terminals_in_one_directory_leave_neither_certain(stage: Stage) -> None:
    """Which of them a thread is in cannot be told: the screen says."""
    stage.server.opens_terminal(stage.work, stage.begins())
    stage.has_in_pane(stage.recorded)

    assert stage.is_held() is HoldReason.AMBIGUOUS


def test_a_thread_that_only_its_own_terminal_ever_opened_is_not_shown_elsewhere(stage: Stage, tmp_path: Path) -> None:
    """Many agents, each in its own directory, are woken natively whichever began first."""
    stage.has_in_pane(stage.recorded)
    other = tmp_path / "other"
    other.mkdir()
    stage.server.opens_terminal(other, stage.begins(other))

    assert stage.thread() == stage.recorded


def test_another_terminals_thread_that_was_opened_again_may_be_shown_here(stage: Stage, tmp_path: Path) -> None:
    """The agent command center opens any conversation in any terminal."""
    terminal = stage.has_in_pane(stage.recorded)
    other = tmp_path / "other"
    other.mkdir()
    theirs = fresh_id(A_MINUTE_AGO)
    stage.server.thread(theirs, cwd=str(other))
    stage.server.opens_terminal(other, theirs)
    terminal.opens(theirs)

    assert stage.is_held() is HoldReason.AMBIGUOUS


def test_two_threads_in_the_directory_of_one_other_terminal_are_not_both_its(stage: Stage, tmp_path: Path) -> None:
    """A terminal shows one thread: the second may have been begun here."""
    stage.has_in_pane(stage.recorded)
    other = tmp_path / "other"
    other.mkdir()
    stage.server.opens_terminal(other, stage.begins(other), stage.begins(other))

    assert stage.is_held() is HoldReason.AMBIGUOUS


def test_a_program_that_is_no_client_of_the_server_shows_none_of_its_threads(stage: Stage) -> None:
    """`codex --no-daemon` has a server of its own, whatever hangs about in this one."""
    stage.server.opens_terminal(stage.work, stage.recorded)
    with subprocess.Popen(["/bin/sleep", "60"]) as alone:
        stage.pane.agent_pid = alone.pid

        assert stage.is_held() is HoldReason.UNREACHABLE
        alone.kill()


def test_what_is_shown_and_known_as_anothers_is_left_to_the_screen(stage: Stage) -> None:
    """A conversation that another identity's hooks named is not this one's, wherever it is open."""

    class Sessions:
        def session(self, session_id: str) -> Session | None:
            return Session("codex", session_id, Identity("@somebody"))

    stage.has_in_pane(stage.recorded)
    stage.adapter.serve_sessions(Sessions())  # type: ignore[arg-type]

    assert stage.is_held() is HoldReason.UNREACHABLE


def test_where_the_system_does_not_say_who_is_connected_the_screen_serves(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox may keep the question from the kernel: then no thread is known to be shown."""

    def untold() -> Iterator[tuple[int, int]]:
        raise PermissionError("not here")

    stage.has_in_pane(stage.recorded)
    monkeypatch.setattr("wake_bridge_adapters.codex.find._peers", untold)

    assert stage.is_held() is HoldReason.UNREACHABLE


def test_without_a_pane_the_recorded_thread_must_be_open_in_some_terminal(stage: Stage) -> None:
    """Outside of tmux there is no screen to ask, and still a process that must show it."""
    stage.adapter.see_through(lambda _: None)
    expected = Expected("codex", str(stage.work))
    stage.address = Address(AGENT, sessions=stage.address.sessions, expected=expected, has_directory_to_itself=True)
    assert stage.seen().hold is HoldReason.NOT_LOADED

    terminal = stage.server.opens_terminal(stage.work, stage.recorded)
    assert stage.seen().vote is PresenceState.IDLE

    terminal.opens(stage.begins())
    assert stage.is_held() is HoldReason.AMBIGUOUS
