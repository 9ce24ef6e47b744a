"""Where an identity is once its remembered pane is lost: a table, row by row and at random."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.pane_identity import (
    CandidatePane,
    PaneCase,
    PaneMove,
    PaneState,
    already_lives_there,
    decide_pane,
)
from wake_bridge.domain.routing import Binding, Claim, RememberedPane
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current, EngineSettings

ME, OTHER = Identity("@me"), Identity("@other")
HOME = Binding("/tmp/tmux-1/default", 10, "$1", "%1", 20, "111", 30, "222")
THERE = replace(HOME, pane_id="%2", pane_pid=21, agent_pid=31)
MEMORY = RememberedPane("work:0.0", "", HOME, Instant(1_000), Instant(5_000))
NEW = CandidatePane("work:0.0", THERE, Instant(6_000))


def case(
    home: PaneState = PaneState.GONE, candidate: CandidatePane | None = NEW, *claims: Claim, confused: bool = False
) -> PaneCase:
    return PaneCase(ME, MEMORY, home, candidate, claims, may_be_confused=confused)


@pytest.mark.parametrize(
    ("what", "move"),
    [
        (case(PaneState.LIVES, replace(NEW, said_to_be=frozenset({OTHER}))), PaneMove.STAY),
        (case(PaneState.ASIDE), PaneMove.STAY),
        (case(PaneState.ASIDE, None), PaneMove.STAY),
        (case(PaneState.ASIDE, replace(NEW, is_own=True)), PaneMove.GO),
        (case(PaneState.EMPTY, None), PaneMove.STAY),
        (case(PaneState.EMPTY, replace(NEW, fence=HOME)), PaneMove.STAY),
        (case(PaneState.EMPTY, replace(NEW, fence=replace(THERE, agent_pid=0))), PaneMove.STAY),
        (case(PaneState.GONE, None), PaneMove.GO),
        (case(PaneState.GONE, replace(NEW, fence=replace(THERE, agent_pid=0))), PaneMove.GO),
        (
            case(PaneState.GONE, replace(NEW, fence=replace(THERE, agent_pid=0)), Claim(OTHER, fence=THERE)),
            PaneMove.HOLD,
        ),
        (
            case(PaneState.EMPTY, replace(NEW, fence=replace(THERE, agent_pid=0)), Claim(OTHER, fence=THERE)),
            PaneMove.STAY,
        ),
        (case(PaneState.GONE, replace(NEW, could_be=frozenset({OTHER}))), PaneMove.HOLD),
        (case(PaneState.GONE, replace(NEW, could_be=frozenset({OTHER}), is_own=True)), PaneMove.GO),
        (case(PaneState.GONE, replace(NEW, could_be=frozenset({ME}))), PaneMove.GO),
        (case(PaneState.SERVER_ENDED, replace(NEW, could_be=frozenset({OTHER}))), PaneMove.GO),
        (case(PaneState.GONE), PaneMove.GO),
        (case(PaneState.EMPTY), PaneMove.GO),
        (case(PaneState.SERVER_ENDED), PaneMove.GO),
        (case(PaneState.SERVER_ENDED, confused=True), PaneMove.HOLD),
        (case(PaneState.SERVER_ENDED, replace(NEW, is_own=True), confused=True), PaneMove.GO),
        (case(PaneState.GONE, NEW, confused=True), PaneMove.GO),
        (case(PaneState.GONE, replace(NEW, began=Instant(4_999))), PaneMove.HOLD),
        (case(PaneState.GONE, replace(NEW, began=Instant(4_999), is_own=True)), PaneMove.GO),
        (case(PaneState.SERVER_ENDED, replace(NEW, began=Instant(4_999))), PaneMove.GO),
        (case(PaneState.GONE, replace(NEW, said_to_be=frozenset({OTHER}))), PaneMove.HOLD),
        (case(PaneState.GONE, replace(NEW, said_to_be=frozenset({ME}))), PaneMove.GO),
        (case(PaneState.GONE, replace(NEW, named_by=frozenset({OTHER}))), PaneMove.HOLD),
        (case(PaneState.GONE, replace(NEW, named_by=frozenset({OTHER}), is_own=True)), PaneMove.GO),
        (case(PaneState.GONE, NEW, Claim(OTHER, fence=THERE)), PaneMove.HOLD),
        (case(PaneState.GONE, NEW, Claim(OTHER, fence=replace(THERE, agent_pid=7))), PaneMove.HOLD),
        (case(PaneState.GONE, NEW, Claim(OTHER, fence=replace(THERE, agent_pid=7), until=Instant(9))), PaneMove.GO),
        (case(PaneState.GONE, NEW, Claim(OTHER, fence=replace(THERE, pane_id="%3"), until=Instant(9))), PaneMove.HOLD),
        (case(PaneState.GONE, NEW, Claim(ME, fence=THERE, until=Instant(9))), PaneMove.GO),
        (
            case(PaneState.GONE, NEW, Claim(OTHER, fence=THERE), Claim(OTHER, fence=HOME, until=Instant(2_000))),
            PaneMove.GO,
        ),
        (
            case(PaneState.GONE, NEW, Claim(OTHER, fence=THERE), Claim(OTHER, fence=HOME, until=Instant(999))),
            PaneMove.HOLD,
        ),
        (case(PaneState.GONE, replace(NEW, named_by=frozenset({OTHER})), Claim(OTHER, "work:0.0")), PaneMove.GO),
        (case(PaneState.GONE, NEW, Claim(OTHER, fence=THERE), Claim(OTHER, "work:0.0")), PaneMove.HOLD),
    ],
)
def test_each_row_of_the_table(what: PaneCase, move: PaneMove) -> None:
    """The pane counts; what is lost is looked up by its name, and held where it could be another's."""
    verdict = decide_pane(what)

    assert verdict.move is move
    assert bool(verdict.why) is (move is PaneMove.HOLD)


AFTER_A_BOOT = replace(HOME, pane_pid=22, pane_started="333", agent_pid=33, agent_started="444")
"""The pid of the server and the id of the pane, once more: of another server."""


@pytest.mark.parametrize(
    ("what", "move"),
    [
        (case(PaneState.SERVER_ENDED, replace(NEW, fence=AFTER_A_BOOT), confused=True), PaneMove.HOLD),
        (case(PaneState.SERVER_ENDED, replace(NEW, fence=AFTER_A_BOOT, said_to_be=frozenset({OTHER}))), PaneMove.HOLD),
        (
            case(PaneState.SERVER_ENDED, replace(NEW, fence=AFTER_A_BOOT), Claim(OTHER, fence=AFTER_A_BOOT)),
            PaneMove.HOLD,
        ),
        (case(PaneState.SERVER_ENDED, replace(NEW, fence=AFTER_A_BOOT)), PaneMove.GO),
        (
            case(
                PaneState.SERVER_ENDED,
                replace(NEW, fence=replace(THERE, pane_pid=9, agent_pid=9)),
                Claim(OTHER, fence=THERE),
            ),
            PaneMove.GO,
        ),
    ],
)
def test_a_server_that_has_the_pid_of_the_one_before_has_none_of_its_panes(what: PaneCase, move: PaneMove) -> None:
    """Remembered panes end with their server; in a container the next one has its pid, and its first pane %0."""
    assert decide_pane(what).move is move


LONG = replace(MEMORY, seen_at=Instant(60_000))


@pytest.mark.parametrize(("until", "move"), [(None, PaneMove.GO), (55_000, PaneMove.GO), (45_000, PaneMove.HOLD)])
def test_who_moved_out_before_the_pane_was_lost_shares_nothing_any_more(until: int | None, move: PaneMove) -> None:
    """Two may share a pane and the one that replaces it; whoever got a pane of its own lives there alone."""
    left = Claim(OTHER, fence=HOME, until=None if until is None else Instant(until))
    found = replace(NEW, began=Instant(61_000))
    what = PaneCase(ME, LONG, PaneState.GONE, found, [left, *([Claim(OTHER, fence=THERE)] if until else [])])

    assert decide_pane(what).move is move


def test_who_is_subscribed_to_nothing_any_more_claims_nothing() -> None:
    """After `unsubscribe` its pane is nobody's; whom a binding or [targets] places still lives there."""
    claims = [Claim(OTHER, fence=THERE), Claim(ME, fence=HOME)]
    subscribed: set[Identity] | None = {ME}
    bindings: dict[Identity, Binding] = {}
    routes = Routes(
        {},
        Current(EngineSettings()),
        lambda _: (),
        bindings.get,
        claims=lambda: claims,
        subscribed=lambda: subscribed,
    )
    asked = routes.address(ME).claims

    assert asked() == claims[1:]
    bindings[OTHER] = THERE
    assert asked() == claims
    bindings.clear()
    subscribed = {ME, OTHER}
    assert asked() == claims
    # before the first look at the graph nobody knows
    subscribed = None
    assert asked() == claims


def test_a_bound_agent_without_a_name_is_its_identitys_also_where_a_name_leads_for_the_first_time() -> None:
    """After `unbind`, or an update, a name that has drifted leads to the agent of one who was only bound."""
    assert already_lives_there(ME, THERE, [Claim(OTHER, fence=THERE)], ()) == OTHER
    assert already_lives_there(ME, THERE, [Claim(OTHER, fence=THERE)], {OTHER}) is None


FENCES = st.builds(
    replace,
    st.just(HOME),
    pane_id=st.sampled_from(["%1", "%2", "%3"]),
    agent_pid=st.sampled_from([0, 30, 31, 32]),
    server_pid=st.sampled_from([10, 11]),
)
WHO = st.sampled_from([ME, OTHER, Identity("@third")])
CLAIMS = st.lists(
    st.builds(
        Claim,
        WHO,
        name=st.sampled_from(["", "work:0.0", "work:0.1"]),
        fence=st.none() | FENCES,
        until=st.none() | st.integers(0, 9_000).map(Instant),
    ),
    max_size=4,
)
CANDIDATES = st.none() | st.builds(
    CandidatePane,
    label=st.just("work:0.0"),
    fence=FENCES,
    began=st.integers(0, 9_000).map(Instant),
    said_to_be=st.frozensets(WHO),
    named_by=st.frozensets(WHO),
    could_be=st.frozensets(WHO),
    is_own=st.booleans(),
)
CASES = st.builds(
    PaneCase,
    st.just(ME),
    st.just(MEMORY),
    st.sampled_from(PaneState),
    CANDIDATES,
    CLAIMS,
    may_be_confused=st.booleans(),
)


@given(CASES)
def test_whoever_is_held_could_have_been_somebody_else(what: PaneCase) -> None:
    """Nobody goes to an agent that another one owns or that was there before; nobody is held without cause."""
    verdict, found = decide_pane(what), what.candidate

    if what.home is PaneState.LIVES or (what.home is PaneState.ASIDE and not what.is_own):
        assert verdict.move is PaneMove.STAY
    elif verdict.move is PaneMove.GO and what.leads_to_an_agent and found is not None:
        assert not what.owners
        assert found.is_own or not what.was_there_before
    elif verdict.move is PaneMove.HOLD:
        assert what.leads_to_an_agent or what.owners
        assert what.owners or what.possible or what.was_there_before or what.may_be_confused


@given(CASES, CLAIMS)
def test_what_more_is_known_of_others_never_lets_a_wake_go_where_it_was_held(what: PaneCase, more: list[Claim]) -> None:
    """Another claim makes nobody bolder, but for one that shows that the pane is shared."""
    held = decide_pane(what).move is PaneMove.HOLD
    others = {one.identity for one in what.claims}
    fresh = [one for one in more if one.identity not in others | {ME}]

    assert (
        not held
        or decide_pane(replace(what, claims=[*what.claims, *fresh])).move is PaneMove.HOLD
        or any(one.name == MEMORY.name or (one.fence is not None and one.fence.has_pane_of(HOME)) for one in fresh)
    )
