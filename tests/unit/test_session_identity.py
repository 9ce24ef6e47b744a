"""Whose a conversation is: environment, pane, record, directory; none or several is nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.sessions import Caller, Moment, Session
from wake_bridge.engine.sessions.registry import SessionRegistry
from wake_bridge.engine.sessions.session_identity import SILENT_FOR, Processes, SessionIdentity
from wake_bridge.engine.settings import Current, EngineSettings, TargetSettings
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import lay_ledger
from wake_bridge.testing.turned_clock import TurnedClock

A, B = Identity("@a"), Identity("@b")
FENCE = Binding("/tmp/tmux-0/default", 1, "$0", "%1", 100, "5", 110, "6")
OTHER = replace(FENCE, pane_id="%2", pane_pid=200, agent_pid=210)


class World:
    """What the system and the settings say, and who asks."""

    def __init__(self, directory: Path) -> None:
        self.clock = TurnedClock(1_700_000_000_000)
        self.ledger = LedgerStore.open(lay_ledger(directory / "state"))
        self.registry = SessionRegistry(self.ledger, self.clock)
        self.fences: dict[Identity, Binding] = {}
        self.conversations: list[tuple[Identity, Binding]] = []
        self.groups: dict[int, int] = {110: 110, 210: 210}
        self.terminals: dict[int, int] = {100: 34817, 200: 34818}
        self.started: dict[int, str] = {110: "6", 210: "6"}
        self.above: dict[int, Sequence[int]] = {}
        self.at_work: dict[tuple[str, str], frozenset[int]] = {}
        self.current = Current(EngineSettings())
        self.whose = SessionIdentity(
            self.registry,
            self.ledger.session,
            self.ledger.all_sessions,
            self.current,
            self.clock,
            fences=lambda: [*self.fences.items(), *self.conversations],
            reachable=lambda: {A, B},
            processes=Processes(
                lambda pid: self.groups.get(pid, 0),
                lambda pid: self.terminals.get(pid, 0),
                lambda pid: self.started.get(pid, ""),
                lambda pid: self.above.get(pid, ()),
                lambda name, directory: self.at_work.get((name, directory), frozenset()),
            ),
        )

    def target(self, targets: Mapping[Identity, TargetSettings]) -> None:
        self.current.settings = EngineSettings(targets=targets)

    def met(self, caller: Caller) -> Identity | None:
        found = self.whose.of(caller)
        self.registry.meet(caller, found)
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.ledger.close()


IN_PANE = Caller("claude", "s1", "/proj", 110, "6", group=110, terminal=34817, socket="/tmp/tmux-0/default", pane="%1")


def test_the_environment_names_the_identity(world: World) -> None:
    """First of all: `WAKE_BRIDGE_AGENT`; what is no identity, or not one of ours, is nobody."""
    assert world.whose.of(Caller("claude", "s", claims="@a")) == A
    for claims in ("@stranger", "a", "@", "@a b", "@a\n"):
        assert world.whose.of(Caller("claude", "s", claims=claims)) is None


def test_a_pane_that_says_otherwise_outweighs_the_environment(world: World) -> None:
    """A tmux server hands the variable of whoever started it to all its panes: then several fit, which is nobody."""
    world.fences = {A: FENCE, B: OTHER}
    in_bs_pane = replace(IN_PANE, session_id="s2", pid=210, group=210, pane="%2", terminal=34818, claims="@a")
    assert world.whose.of(in_bs_pane) is None
    in_nobodys_pane = replace(in_bs_pane, pid=500, group=500, pane="%3", terminal=34900)
    assert world.whose.of(in_nobodys_pane) is None
    assert world.whose.of(replace(IN_PANE, claims="@a")) == A
    # where no pane is named, as in a container, nothing speaks against it
    assert world.whose.of(Caller("claude", "s3", claims="@a")) == A


def test_the_pane_is_whose_it_is(world: World) -> None:
    """Second: the place of exactly one identity."""
    world.fences = {A: FENCE, B: OTHER}
    assert world.whose.of(IN_PANE) == A
    assert world.whose.of(replace(IN_PANE, pane="%2", terminal=34818)) == B
    assert world.whose.of(replace(IN_PANE, socket="/tmp/tmux-0/other")) is None


def test_a_pane_of_two_identities_is_nobodys(world: World) -> None:
    """Several is nobody, never a guess."""
    world.fences = {A: FENCE, B: FENCE}
    assert world.whose.of(IN_PANE) is None


def test_a_conversation_that_a_native_channel_found_is_its_own_place(world: World) -> None:
    """The pane of its terminal, and what the control plane names, must not speak for two."""
    found = replace(FENCE, socket="claude", pane_id="", session_id="s1")
    world.conversations = [(A, found)]
    elsewhere = replace(IN_PANE, socket="", pane="", terminal=0, group=0)
    assert world.whose.of(elsewhere) == A
    assert world.whose.of(replace(elsewhere, session_id="s2")) is None
    world.fences = {A: FENCE}
    assert world.whose.of(IN_PANE) == A
    world.fences = {B: FENCE}
    assert world.whose.of(IN_PANE) is None


def test_an_inherited_pane_proves_nothing(world: World) -> None:
    """What was started in a tool has the pane in its environment, and not its terminal in hand."""
    world.fences = {A: FENCE}
    in_tool = replace(IN_PANE, session_id="s2", pid=500, group=500, terminal=0)
    assert world.whose.of(in_tool) is None
    # a terminal of its own, such as a tool's pseudo terminal
    assert world.whose.of(replace(in_tool, terminal=34999)) is None


def test_where_terminals_cannot_be_told_the_process_group_speaks(world: World) -> None:
    """Without /proc a harness knows no terminal's number."""
    world.fences = {A: FENCE}
    assert world.whose.of(replace(IN_PANE, terminal=0)) == A


def test_an_agent_inside_another_ones_tool_is_nobody(world: World) -> None:
    """It inherits environment, pane and directory, and has a conversation of its own."""
    world.fences = {A: FENCE}
    assert world.met(IN_PANE) == A
    nested = Caller("claude", "s2", "/proj", 500, "9", group=500, claims="@a")
    world.above = {500: [110, 100, 1]}
    assert world.whose.of(nested) is None
    # also where no hook of the outer one has ever called
    world.registry.part("s1")
    assert world.whose.of(nested) is None


def test_a_recorded_conversation_stays_whose_it_was(world: World) -> None:
    """Third: what was recorded, across restarts."""
    world.fences = {A: FENCE}
    assert world.met(IN_PANE) == A
    later = SessionRegistry(world.ledger, world.clock)
    assert later.session("s1") is not None
    world.fences = {}
    assert world.whose.of(replace(IN_PANE, pane="", terminal=0)) == A


def test_a_recorded_conversation_in_another_pane_is_nobodys(world: World) -> None:
    """Who lives in one pane does not live in another terminal as well."""
    world.fences = {A: FENCE}
    assert world.met(IN_PANE) == A
    assert world.whose.of(replace(IN_PANE, pane="%9", terminal=34900)) is None


def test_what_was_recorded_serves_no_route_once_it_has_turned_out_to_be_nobodys(world: World) -> None:
    """Resumed in a pane that is not its agent's, a conversation is not woken natively either; a later `bind` counts."""
    world.fences = {A: FENCE}
    assert world.met(IN_PANE) == A
    assert [one.session_id for one in world.registry.sessions_of(A)] == ["s1"]
    assert world.met(replace(IN_PANE, pane="%9", terminal=34900)) is None
    assert world.registry.sessions_of(A) == []

    world.clock.turn(1)
    world.ledger.meet_session(Session("claude", "s1", B, seen_at=world.clock.now()))
    assert [one.session_id for one in world.registry.sessions_of(B)] == ["s1"]


def test_the_directory_of_one_target_and_one_conversation_fits(world: World) -> None:
    """Last: a directory that fits exactly one identity and one live conversation."""
    world.target({A: TargetSettings(directory="/proj", agent="claude"), B: TargetSettings(directory="/else")})
    one = Caller("claude", "s1", "/proj", 500, "9")
    world.started[500] = "9"
    assert world.met(one) == A
    second = replace(one, session_id="s2", pid=501)
    assert world.met(second) is None
    assert world.met(one) == A, "the first stays what it was"
    assert world.whose.of(replace(one, session_id="s3", harness="codex", directory="/proj")) is None
    world.registry.part("s1")
    assert world.met(second) == A


def test_a_conversation_from_before_a_restart_still_has_its_directory(world: World) -> None:
    """What another agent begins there meanwhile is not taken for it."""
    world.target({A: TargetSettings(directory="/proj")})
    world.started |= {500: "9", 501: "9"}
    assert world.met(Caller("claude", "s1", "/proj", 500, "9")) == A
    world.registry._live.clear()
    assert world.whose.of(Caller("claude", "s2", "/proj", 501, "9")) is None
    del world.started[500]
    assert world.whose.of(Caller("claude", "s2", "/proj", 501, "9")) == A


def test_a_directory_of_two_targets_is_nobodys(world: World) -> None:
    """Several is nobody."""
    world.target({A: TargetSettings(directory="/proj"), B: TargetSettings(directory="/proj")})
    assert world.whose.of(Caller("claude", "s1", "/proj", 500, "9")) is None


def test_who_has_died_or_was_silent_for_a_day_is_in_nobodys_way(world: World) -> None:
    """Nothing is trusted to be alive because it was once heard of."""
    world.target({A: TargetSettings(directory="/proj")})
    first, second = (Caller("claude", f"s{pid}", "/proj", pid, "9") for pid in (500, 501))
    world.started |= {500: "9", 501: "9"}
    assert world.met(first) == A
    assert world.whose.of(second) is None
    world.started[500] = "10"
    assert world.whose.of(second) == A
    world.started[500] = "9"
    world.clock.turn(SILENT_FOR + 1)
    assert world.whose.of(second) == A


SHARED = Caller(
    "codex", "t1", "/proj", 900, "7", group=900, socket="/tmp/tmux-0/default", pane="%1", claims="@b", is_shared=True
)


def test_a_shared_servers_environment_says_nothing(world: World) -> None:
    """Measured on Codex 0.171: its hooks have the pane of whichever terminal started the server."""
    world.fences = {A: FENCE, B: OTHER}
    world.at_work = {("codex", "/proj"): frozenset({34818})}
    world.above = {900: [110, 100, 1]}
    assert world.met(SHARED) == B
    assert world.met(replace(SHARED, session_id="t2", directory="/else")) is None


def test_two_terminals_at_work_in_one_directory_are_nobodys(world: World) -> None:
    """It cannot be told which of them the conversation is in."""
    world.fences = {A: FENCE, B: OTHER}
    world.at_work = {("codex", "/proj"): frozenset({34817, 34818})}
    assert world.met(SHARED) is None


def test_a_recorded_conversation_of_a_shared_server_is_known_while_its_terminal_is_there(world: World) -> None:
    """Resumed in another terminal it is another agent's."""
    world.fences = {A: FENCE}
    world.at_work = {("codex", "/proj"): frozenset({34817})}
    assert world.met(SHARED) == A
    world.at_work = {("codex", "/proj"): frozenset({34817, 34999})}
    assert world.met(SHARED) == A
    world.at_work = {("codex", "/proj"): frozenset({34999})}
    assert world.met(SHARED) is None


@pytest.mark.parametrize(
    ("moment", "state"),
    [
        (Moment.PROMPT, PresenceState.ACTIVE),
        (Moment.TOOL, PresenceState.ACTIVE),
        (Moment.APPROVAL, PresenceState.WAITING_ON_APPROVAL),
    ],
)
def test_a_hook_vetoes_while_it_is_fresh(world: World, moment: Moment, state: PresenceState) -> None:
    """Any fresh veto wins; older than `fresh_for` it is no evidence."""
    world.registry.meet(IN_PANE, A)
    world.registry.note("s1", moment)
    (seen,) = world.registry.evidence_of(A, 5000)
    assert (seen.vote, seen.source, seen.weighs) == (state, "harness-hook", True)
    assert world.registry.evidence_of(B, 5000) == ()
    world.clock.turn(5100)
    assert world.registry.evidence_of(A, 5000) == ()


@pytest.mark.parametrize("moment", [Moment.STOP, Moment.INTERRUPTED])
def test_no_hook_proves_idle(world: World, moment: Moment) -> None:
    """Hooks alone are not enough, for interrupts and compaction fire none."""
    world.registry.meet(IN_PANE, A)
    world.registry.note("s1", Moment.TOOL)
    world.registry.note("s1", moment)
    seen = world.registry.evidence_of(A, 5000)
    assert [one.vote for one in seen] == [PresenceState.IDLE]
    assert single_vote(seen).vote is PresenceState.UNKNOWN


def test_a_conversation_that_ended_is_forgotten(world: World) -> None:
    """Also in the ledger, and its monitor is no longer waited for."""
    world.registry.meet(IN_PANE, A)
    assert world.ledger.sessions_of(A)
    world.registry.part("s1")
    assert world.registry.session("s1") is None
    assert world.ledger.sessions_of(A) == []


def test_signs_of_life_are_not_written_down_for_every_tool(world: World) -> None:
    """Each would be a transaction on the disk."""
    world.registry.meet(IN_PANE, A)
    written = world.ledger.session("s1")
    world.clock.turn(1000)
    world.registry.meet(IN_PANE, A)
    assert world.ledger.session("s1") == written
    world.clock.turn(61_000)
    world.registry.meet(IN_PANE, A)
    again = world.ledger.session("s1")
    assert again is not None
    assert again.seen_at == Instant(world.clock.now())
