"""What Claude Code's own record of a session says, and what of it is believed."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from wake_bridge_adapters.claude_code import ClaudeCodeAdapter
from wake_bridge_adapters.claude_code.session import LONGEST, HalfWritten, read_record
from wake_bridge_adapters.tables import ClaudeCodeConfig

from wake_bridge.domain.attention import standing_of
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import AttentionKind, Identity, Instant
from wake_bridge.domain.presence import Observation, PresenceSource, PresenceState, fuse
from wake_bridge.domain.routing import Address, Binding, Expected
from wake_bridge.domain.sessions import NOBODY, Session
from wake_bridge.domain.usage_limits import reset_in
from wake_bridge.ports.adapter import AdapterContext, Nowhere, Place
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.claude_session import PlayedClaude, PlayedSessions

ME = Identity("@agent")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def claude(tmp_path: Path, room: Path) -> Iterator[PlayedClaude]:
    with PlayedClaude(tmp_path / "claude", room) as played:
        yield played


@pytest.fixture
def adapter(claude: PlayedClaude) -> ClaudeCodeAdapter:
    environment = {"CLAUDE_CONFIG_DIR": str(claude.directory)}
    return ClaudeCodeAdapter(ClaudeCodeConfig(), AdapterContext(10, 10, "", environment, SteadyClock()))


def by_directory(room: Path, agent: str = "claude") -> Address:
    return Address(ME, expected=Expected(agent, str(room)), has_directory_to_itself=True)


def found(adapter: ClaudeCodeAdapter, address: Address) -> Place | Nowhere:
    return asyncio.run(adapter.resolve(address))


def seen(adapter: ClaudeCodeAdapter, address: Address) -> Observation:
    place = found(adapter, address)
    assert isinstance(place, Place), place
    return asyncio.run(adapter.observe(place, address))


@pytest.mark.parametrize(
    ("scene", "state"),
    [
        ("idle", PresenceState.IDLE),
        ("shell", PresenceState.IDLE),
        ("busy", PresenceState.ACTIVE),
        ("approval", PresenceState.WAITING_ON_APPROVAL),
    ],
)
def test_the_record_is_proof_of_how_the_session_stands(
    scene: str, state: PresenceState, claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """Presence is proof; idle and `shell` are idle, and one look suffices."""
    claude.shows(scene)

    look = seen(adapter, by_directory(room))
    presence = fuse(look, None, look.at, 5_000)

    assert (presence.state, presence.source) == (state, PresenceSource.CLAUDE_SESSION)


def test_what_it_waits_for_is_said(claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path) -> None:
    """A hold says what a person can act on."""
    claude.shows("approval", waitingFor="dialog open\x1b[31m")

    (said,) = seen(adapter, by_directory(room)).evidence

    assert said.saw == "dialog open[31m"


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "bg"},
        {"kind": "bg-agent"},
        {"status": "dreaming"},
        {"version": "3.0.0"},
        {"version": "2.1.100"},
        {"version": "next"},
        {"version": 2},
        {"sessionId": "../../etc/passwd"},
        {"sessionId": None},
        {"pid": "17"},
        {"pid": 1},
        {"procStart": "1"},
    ],
)
def test_a_record_that_is_not_understood_leads_nowhere(
    changes: dict[str, object], claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """An unknown version or format, a background session, another process: the bridge takes over."""
    claude.writes(json.dumps(claude.record(**changes)))

    assert isinstance(found(adapter, by_directory(room)), Nowhere)


def test_a_record_that_was_left_behind_by_a_kill_is_not_believed(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """Measured: `kill -9` leaves the record with its old status."""
    place = found(adapter, by_directory(room))
    assert isinstance(place, Place)
    claude.dies()

    assert claude.file.exists()
    assert isinstance(found(adapter, by_directory(room)), Nowhere)
    assert asyncio.run(adapter.survey([place])) == {}
    after = asyncio.run(adapter.observe(place, by_directory(room)))
    assert fuse(after, None, after.at, 5_000).state is PresenceState.UNKNOWN


def test_a_suspended_session_is_not_idle(claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path) -> None:
    """Measured: Ctrl-Z leaves the record idle, and what is written to it is read only when it goes on."""
    claude.suspends()
    look = seen(adapter, by_directory(room))

    presence = fuse(look, None, look.at, 5_000)

    assert (presence.state, presence.hold) == (PresenceState.UNKNOWN, HoldReason.NO_AGENT)


def test_a_half_written_record_is_read_again(claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path) -> None:
    """Brief moments in which the file is not whole are no reason to lose sight of the agent."""
    whole = json.dumps(claude.record(status="busy"))
    claude.writes(whole[:40])
    later = threading.Timer(0.03, claude.writes, [whole])
    later.start()

    look = seen(adapter, by_directory(room))
    later.join()

    assert look.evidence[0].vote is PresenceState.ACTIVE


def test_a_record_that_stays_broken_leads_nowhere(claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path) -> None:
    """Unknown is not idle."""
    claude.writes('{"pid": ')

    assert isinstance(found(adapter, by_directory(room)), Nowhere)


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "long"])
def test_only_a_plain_file_of_bounded_size_is_read(kind: str, claude: PlayedClaude, tmp_path: Path) -> None:
    """What somebody puts into the directory must neither hang nor fill us."""
    claude.file.unlink()
    match kind:
        case "link":
            (tmp_path / "elsewhere.json").write_text(json.dumps(claude.record()), encoding="utf-8")
            claude.file.symlink_to(tmp_path / "elsewhere.json")
        case "pipe":
            os.mkfifo(claude.file)
        case "directory":
            claude.file.mkdir()
        case _:
            claude.writes(json.dumps(claude.record(name="x" * LONGEST)))

    assert read_record(claude.file) is None


def test_nested_json_is_only_broken(claude: PlayedClaude) -> None:
    """A record of ten thousand brackets is no reason to end."""
    claude.writes("[" * 30_000)

    with pytest.raises(HalfWritten):
        read_record(claude.file)


def test_the_session_is_found_by_what_its_hooks_recorded_also_after_clear(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter
) -> None:
    """Mapped to an identity by hook; `/clear` begins another conversation in the same process."""
    by_id = Address(ME, sessions=(Session("claude", claude.session_id, ME),))
    by_process = Address(
        ME, sessions=(Session("claude", "the-one-before", ME, pid=claude.pid, started=claude.started),)
    )
    of_another = Address(
        ME, sessions=(Session("codex", claude.session_id, ME, pid=claude.pid, started=claude.started),)
    )
    reused = Address(ME, sessions=(Session("claude", "long-gone", ME, pid=claude.pid, started="1"),))

    assert isinstance(found(adapter, by_id), Place)
    assert isinstance(found(adapter, by_process), Place)
    assert isinstance(found(adapter, of_another), Nowhere)
    assert isinstance(found(adapter, reused), Nowhere)


def test_the_session_is_found_by_the_process_that_was_bound(claude: PlayedClaude, adapter: ClaudeCodeAdapter) -> None:
    """Mapped to an identity by `bind`."""
    bound = Binding("/tmp/tmux", 1, "$0", "%0", 2, "2", claude.pid, claude.started)

    assert isinstance(found(adapter, Address(ME, binding=bound)), Place)


def test_two_sessions_in_one_directory_are_never_guessed_between(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """Several is a hold `ambiguous`."""
    with PlayedClaude(claude.directory, room, "99999999-1111-4222-8333-444455556666"):
        answer = found(adapter, by_directory(room))

    assert isinstance(answer, Nowhere)
    assert answer.reason is HoldReason.AMBIGUOUS
    assert isinstance(found(adapter, by_directory(room)), Place)


def test_a_directory_says_nothing_where_the_agent_is_not_known_to_be_claude_code(
    adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """A Codex in the same directory must not be taken for the Claude Code beside it."""
    assert isinstance(found(adapter, by_directory(room, agent="")), Nowhere)
    assert isinstance(found(adapter, by_directory(room, agent="codex")), Nowhere)
    assert isinstance(found(adapter, Address(ME, harness="codex", expected=Expected("claude", str(room)))), Nowhere)


@pytest.mark.parametrize(("owner", "leads"), [("@agent", True), ("@other", False), ("", True)])
def test_a_session_that_is_known_to_be_anothers_is_not_taken_by_its_directory(
    owner: str, leads: bool, claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """Two agents share a directory, and one of them is not running: the other must not get its mail."""
    adapter.serve_sessions(PlayedSessions(claude, owner))

    assert isinstance(found(adapter, by_directory(room)), Place) is leads


def test_one_that_is_nobodys_is_not_taken_and_leaves_no_other_certain(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """Its hooks called, and nobody could tell whose it is: a newer one beside it that never called is none the surer."""

    class Sessions(PlayedSessions):
        def session(self, session_id: str) -> Session | None:
            return Session("claude", session_id, NOBODY) if session_id == claude.session_id else None

    adapter.serve_sessions(Sessions(claude))
    alone = found(adapter, by_directory(room))
    assert isinstance(alone, Nowhere)
    assert alone.reason is HoldReason.UNREACHABLE

    with PlayedClaude(claude.directory, room, "99999999-1111-4222-8333-444455556666"):
        both = found(adapter, by_directory(room))
    assert isinstance(both, Nowhere), both
    assert both.reason is HoldReason.AMBIGUOUS


def test_without_a_monitor_a_session_is_only_seen(claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path) -> None:
    """Its word still holds the screen back while it works, and a route below must wake it."""
    sessions = PlayedSessions(claude)
    adapter.serve_sessions(sessions)
    with_monitor = found(adapter, by_directory(room))
    sessions.listening.clear()
    without = found(adapter, by_directory(room))

    assert isinstance(with_monitor, Place)
    assert isinstance(without, Place)
    assert (with_monitor.only_seen, without.only_seen) == (False, True)


def test_a_monitor_that_still_waits_under_the_name_before_clear_is_the_sessions(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """Measured: `/clear` gives the session another id, and leaves its monitor as it was."""
    adapter.serve_sessions(PlayedSessions(claude))
    found(adapter, by_directory(room))
    claude.session_id = "99999999-1111-4222-8333-444455556666"
    claude.shows("shell")

    place = found(adapter, by_directory(room))

    assert isinstance(place, Place)
    assert not place.only_seen


def test_the_survey_changes_with_the_record_and_with_who_listens(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path
) -> None:
    """A cheap sign that changes whenever a new look could show something new."""
    sessions = PlayedSessions(claude)
    adapter.serve_sessions(sessions)
    place = found(adapter, by_directory(room))
    assert isinstance(place, Place)

    first = asyncio.run(adapter.survey([place]))
    again = asyncio.run(adapter.survey([place]))
    claude.shows("busy")
    busy = asyncio.run(adapter.survey([place]))
    sessions.listening.clear()
    deaf = asyncio.run(adapter.survey([place]))

    assert first == again
    assert len({str(one) for one in (first, busy, deaf)}) == 3


def test_doctor_counts_what_can_be_seen(claude: PlayedClaude, adapter: ClaudeCodeAdapter) -> None:
    """Who does not run Claude Code is not told about it."""
    assert [(name, ok) for name, ok, _, _ in asyncio.run(adapter.probe())] == [("claude sessions", True)]
    claude.dies()

    assert asyncio.run(adapter.probe()) == []


@pytest.mark.parametrize("resets_at", [1_795_974_946, None])
def test_a_turn_that_ended_at_a_usage_limit_says_so_and_when_it_resets(
    claude: PlayedClaude, adapter: ClaudeCodeAdapter, room: Path, resets_at: int | None
) -> None:
    """By the transcript, to the second; idle stays idle, and the next thing that is said is past it."""
    claude.shows("idle")
    claude.notes("user", "good morning")
    assert standing_of(seen(adapter, by_directory(room)).evidence).kind is None
    claude.reaches_its_limit(resets_at)

    look = seen(adapter, by_directory(room))

    standing = standing_of(look.evidence)
    assert fuse(look, None, look.at, 5_000).state is PresenceState.IDLE
    assert standing.kind is AttentionKind.LIMITED
    assert standing.sign is not None
    reset = reset_in(standing.sign.text, Instant(1_795_970_000_000), UTC)
    assert (reset.at if reset else None) == (resets_at * 1000 if resets_at else None)
    claude.notes("user", "go on")
    assert standing_of(seen(adapter, by_directory(room)).evidence).kind is None
