"""The table of routes, row by row."""

from __future__ import annotations

from itertools import product

import pytest

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.delivery import Hold, HoldReason
from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.presence import Evidence, Presence, PresenceSource, PresenceState
from wake_bridge.domain.receivers import Receiver, Secret
from wake_bridge.domain.route_table import TABLE, RouteVerdict, TablePart, decide
from wake_bridge.domain.routing import (
    Address,
    Authority,
    Capabilities,
    Decision,
    Inject,
    Observe,
    Route,
    RouteState,
    Start,
    Steer,
    StoreOnly,
    hold_because_of,
)

NOW = Instant(1_800_000_000_000)
FRESH_FOR = 5_000
ME = Identity("@neo-gpt")

NATIVE = Route("codex", Address(ME), Capabilities(composer_independent=True, can_steer=True))
START_ONLY = Route("claude", Address(ME), Capabilities(composer_independent=True))
STEER_ONLY = Route("mcp", Address(ME), Capabilities(composer_independent=True, can_start=False, can_steer=True))
NATIVE_ASIDE = Route("codex", Address(ME), NATIVE.capabilities, degraded=True)
SCREEN = Route("tmux", Address(ME), Capabilities())
SCREEN_ASIDE = Route("tmux", Address(ME), Capabilities(), degraded=True)
HEARTBEAT = Route("heartbeat", Address(ME), Capabilities(last_resort=True))

RECEIVER = Route(
    "webhook",
    Address(ME, receiver=Receiver("WAKE_SUB:1", Secret("https://h/x"), Secret("k"))),
    Capabilities(composer_independent=True, idempotent=True, presence_independent=True),
)
DEGRADED = Hold(HoldReason.UNREACHABLE, "degraded: HTTP 410", "https://h/x", cause=Cause.RECEIVER_DEGRADED)
SUSPENDED = Hold(HoldReason.UNREACHABLE, "suspended: HTTP 503", "https://h/x", cause=Cause.RECEIVER_SUSPENDED)

IDLE = PresenceState.IDLE
ACTIVE = PresenceState.ACTIVE
WAITING = PresenceState.WAITING_ON_APPROVAL
TYPING = PresenceState.USER_TYPING
UNKNOWN = PresenceState.UNKNOWN
ALL_STATES = list(PresenceState)

NO_SOCKET = Hold(HoldReason.UNREACHABLE, "no socket")
NO_PANE = Hold(HoldReason.UNREACHABLE, "no such pane")
TWO_PANES = Hold(HoldReason.AMBIGUOUS, "two panes")
GAVE_BACK = Hold(HoldReason.UNREACHABLE, "the channel would not take it")

NOTHING_MORE = Authority()
MAY_STEER = Authority(steer=True)
MAY_OPEN = Authority(may_start_thread=True)


def seen(
    state: PresenceState,
    *,
    ago: int = 0,
    turn: str | None = None,
    hold: HoldReason | None = None,
    also: PresenceState | None = None,
    again: bool = False,
) -> Presence:
    """A presence, with evidence for it and perhaps for another state."""
    votes = [state] if also is None else [state, also]
    return Presence(
        state,
        PresenceSource.BRIDGE_DAEMON,
        Instant(NOW - ago),
        evidence=tuple(Evidence("rule", vote) for vote in votes),
        hold=hold,
        detail="what was seen",
        where="agents:1.0",
        active_turn_id=turn,
        wants_second_look=again,
    )


def at(
    route: Route, state: PresenceState, *, only_seen: bool = False, refused: Hold | None = None, **how: object
) -> RouteState:
    """A route where that is seen."""
    return RouteState(route, seen(state, **how), only_seen=only_seen, refused=refused)  # type: ignore[arg-type]


def gone(route: Route, why: Hold = NO_SOCKET) -> RouteState:
    """A route that leads nowhere now."""
    return RouteState(route, nowhere=why)


NOT_LOADED = at(NATIVE, UNKNOWN, hold=HoldReason.NOT_LOADED)
SCREEN_IDLE = at(SCREEN, IDLE)


def choose(
    *route_states: RouteState, authority: Authority = NOTHING_MORE, policy: WakePolicy = WakePolicy.IMMEDIATE
) -> RouteVerdict:
    return decide(policy, route_states, authority, NOW, FRESH_FOR)


def expect(verdict: RouteVerdict, row: str, decision: Decision | HoldReason) -> None:
    """The row that decides, and what it says."""
    assert verdict.row == row, verdict
    if isinstance(decision, HoldReason):
        assert isinstance(verdict.decision, Hold), verdict
        assert verdict.decision.reason is decision
    else:
        assert verdict.decision == decision


CASES: list[tuple[str, Authority, tuple[RouteState, ...], Decision | HoldReason]] = [
    ("no-route", NOTHING_MORE, (), HoldReason.NO_ADAPTER),
    ("all-set-aside", NOTHING_MORE, (at(NATIVE_ASIDE, IDLE), at(SCREEN_ASIDE, IDLE)), HoldReason.NO_ADAPTER),
    ("look", NOTHING_MORE, (RouteState(NATIVE), RouteState(SCREEN)), Observe(NATIVE)),
    ("look", NOTHING_MORE, (gone(NATIVE), RouteState(SCREEN)), Observe(SCREEN)),
    ("native-idle", NOTHING_MORE, (at(NATIVE, IDLE), RouteState(SCREEN)), Start(NATIVE)),
    ("native-idle", NOTHING_MORE, (at(NATIVE, TYPING), SCREEN_IDLE), Start(NATIVE)),
    ("native-idle", NOTHING_MORE, (at(NATIVE, TYPING, also=IDLE), SCREEN_IDLE), Start(NATIVE)),
    ("native-busy", NOTHING_MORE, (at(NATIVE, TYPING, also=ACTIVE), SCREEN_IDLE), HoldReason.USER_TYPING),
    ("native-busy", NOTHING_MORE, (at(NATIVE, TYPING, also=WAITING), SCREEN_IDLE), HoldReason.USER_TYPING),
    ("native-busy", NOTHING_MORE, (at(NATIVE, ACTIVE, turn="t1"), SCREEN_IDLE), HoldReason.ACTIVE),
    ("native-busy", NOTHING_MORE, (at(NATIVE, WAITING), SCREEN_IDLE), HoldReason.WAITING_ON_APPROVAL),
    ("native-busy", MAY_STEER, (at(NATIVE, WAITING, turn="t1"), SCREEN_IDLE), HoldReason.WAITING_ON_APPROVAL),
    ("native-steer", MAY_STEER, (at(NATIVE, ACTIVE, turn="t1"), SCREEN_IDLE), Steer(NATIVE, "t1")),
    ("native-steer", MAY_STEER, (at(STEER_ONLY, ACTIVE, turn="t1"),), Steer(STEER_ONLY, "t1")),
    ("native-busy", MAY_STEER, (at(NATIVE, ACTIVE),), HoldReason.ACTIVE),
    ("native-busy", MAY_STEER, (at(START_ONLY, ACTIVE, turn="t1"),), HoldReason.ACTIVE),
    ("native-busy", MAY_STEER, (at(NATIVE, ACTIVE, turn="t1", only_seen=True), SCREEN_IDLE), HoldReason.ACTIVE),
    ("native-second-look", NOTHING_MORE, (at(NATIVE, UNKNOWN, again=True), SCREEN_IDLE), HoldReason.UNKNOWN),
    ("screen-idle", NOTHING_MORE, (at(NATIVE, IDLE, only_seen=True), SCREEN_IDLE), Inject(SCREEN)),
    ("screen-waits", NOTHING_MORE, (at(NATIVE, IDLE, only_seen=True), at(SCREEN, TYPING)), HoldReason.USER_TYPING),
    ("screen-idle", NOTHING_MORE, (at(STEER_ONLY, IDLE), SCREEN_IDLE), Inject(SCREEN)),
    ("native-open", MAY_OPEN, (NOT_LOADED, SCREEN_IDLE), Start(NATIVE)),
    ("screen-idle", NOTHING_MORE, (NOT_LOADED, SCREEN_IDLE), Inject(SCREEN)),
    ("screen-waits", NOTHING_MORE, (NOT_LOADED, at(SCREEN, ACTIVE)), HoldReason.ACTIVE),
    ("not-loaded", NOTHING_MORE, (NOT_LOADED,), HoldReason.NOT_LOADED),
    ("not-loaded", NOTHING_MORE, (NOT_LOADED, gone(SCREEN, NO_PANE)), HoldReason.NOT_LOADED),
    ("not-loaded", NOTHING_MORE, (gone(START_ONLY), NOT_LOADED, gone(SCREEN, NO_PANE)), HoldReason.NOT_LOADED),
    ("nothing-left", NOTHING_MORE, (NOT_LOADED, gone(SCREEN, TWO_PANES)), HoldReason.AMBIGUOUS),
    ("screen-idle", NOTHING_MORE, (at(NATIVE, IDLE, refused=GAVE_BACK), SCREEN_IDLE), Inject(SCREEN)),
    ("native-busy", NOTHING_MORE, (at(NATIVE, ACTIVE, refused=GAVE_BACK), SCREEN_IDLE), HoldReason.ACTIVE),
    ("native-busy", MAY_STEER, (at(NATIVE, ACTIVE, turn="t1", refused=GAVE_BACK), SCREEN_IDLE), HoldReason.ACTIVE),
    ("nothing-left", NOTHING_MORE, (at(NATIVE, IDLE, refused=GAVE_BACK),), HoldReason.UNREACHABLE),
    ("screen-idle", NOTHING_MORE, (gone(NATIVE), SCREEN_IDLE), Inject(SCREEN)),
    ("screen-idle", NOTHING_MORE, (at(NATIVE, UNKNOWN), SCREEN_IDLE), Inject(SCREEN)),
    ("screen-idle", NOTHING_MORE, (RouteState(NATIVE_ASIDE), SCREEN_IDLE), Inject(SCREEN)),
    ("screen-waits", NOTHING_MORE, (gone(NATIVE), at(SCREEN, WAITING)), HoldReason.WAITING_ON_APPROVAL),
    ("nothing-left", NOTHING_MORE, (gone(NATIVE), gone(SCREEN, TWO_PANES)), HoldReason.AMBIGUOUS),
    ("nothing-left", NOTHING_MORE, (at(NATIVE, UNKNOWN),), HoldReason.UNKNOWN),
    ("nothing-left", NOTHING_MORE, (at(NATIVE, IDLE, only_seen=True),), HoldReason.UNREACHABLE),
    ("screen-idle", NOTHING_MORE, (at(HEARTBEAT, IDLE),), Inject(HEARTBEAT)),
    ("screen-waits", NOTHING_MORE, (at(HEARTBEAT, ACTIVE, turn="t1"),), HoldReason.ACTIVE),
    ("screen-idle", NOTHING_MORE, (SCREEN_IDLE, RouteState(HEARTBEAT)), Inject(SCREEN)),
    ("screen-idle", NOTHING_MORE, (at(SCREEN_ASIDE, IDLE), at(HEARTBEAT, IDLE)), Inject(HEARTBEAT)),
    ("nothing-left", NOTHING_MORE, (gone(SCREEN, NO_PANE), at(HEARTBEAT, IDLE)), HoldReason.UNREACHABLE),
    ("native-busy", NOTHING_MORE, (at(NATIVE, ACTIVE), at(HEARTBEAT, IDLE)), HoldReason.ACTIVE),
    *(
        ("receiver", NOTHING_MORE, (at(NATIVE, ACTIVE), at(RECEIVER, state), SCREEN_IDLE), Start(RECEIVER))
        for state in ALL_STATES
    ),
    ("native-idle", NOTHING_MORE, (at(NATIVE, IDLE), at(RECEIVER, UNKNOWN), SCREEN_IDLE), Start(NATIVE)),
    ("receiver", NOTHING_MORE, (gone(NATIVE), at(RECEIVER, UNKNOWN), SCREEN_IDLE), Start(RECEIVER)),
    (
        "native-busy",
        NOTHING_MORE,
        (at(NATIVE, WAITING), gone(RECEIVER, SUSPENDED), SCREEN_IDLE),
        HoldReason.WAITING_ON_APPROVAL,
    ),
    ("screen-idle", NOTHING_MORE, (gone(NATIVE), gone(RECEIVER, DEGRADED), at(HEARTBEAT, IDLE)), Inject(HEARTBEAT)),
    ("screen-idle", NOTHING_MORE, (gone(RECEIVER, SUSPENDED), gone(NATIVE), SCREEN_IDLE), Inject(SCREEN)),
]


@pytest.mark.parametrize(("row", "authority", "route_states", "decision"), CASES)
def test_each_row_decides_what_it_says(
    row: str, authority: Authority, route_states: tuple[RouteState, ...], decision: Decision | HoldReason
) -> None:
    """Native control plane before bridge before heartbeat; the first row that applies wins."""
    expect(choose(*route_states, authority=authority), row, decision)


PASSED = [
    ("set-aside", (RouteState(NATIVE_ASIDE), SCREEN_IDLE)),
    ("nowhere", (gone(NATIVE), SCREEN_IDLE)),
    ("native-refused", (at(NATIVE, IDLE, refused=GAVE_BACK), SCREEN_IDLE)),
    ("native-seen", (at(NATIVE, IDLE, only_seen=True), SCREEN_IDLE)),
    ("native-not-loaded", (NOT_LOADED, SCREEN_IDLE)),
    ("native-unsure", (at(NATIVE, UNKNOWN), SCREEN_IDLE)),
    ("receiver-refused", (at(RECEIVER, UNKNOWN, refused=GAVE_BACK), SCREEN_IDLE)),
    ("last-resort", (at(HEARTBEAT, IDLE), SCREEN_IDLE)),
]
LEFT_TO_RECEIVER = "native-left-to-receiver"


@pytest.mark.parametrize(("row", "route_states"), PASSED)
def test_each_row_that_passes_a_route_over_says_so(row: str, route_states: tuple[RouteState, ...]) -> None:
    """A route that cannot serve the moment falls to the next, and `--explain` tells by which row."""
    verdict = choose(*route_states)
    assert verdict.passed == ((route_states[0].route, row),)
    assert verdict.decision == Inject(SCREEN)


def test_no_row_of_the_table_is_without_a_case() -> None:
    """Tested row by row."""
    tried = {row for row, *_ in CASES} | {row for row, _ in PASSED} | {LEFT_TO_RECEIVER}
    assert {row.name for row in TABLE} - tried == {"silent", "next-turn", "stale"}
    assert len({row.name for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("state", [ACTIVE, WAITING])
def test_a_channel_that_is_busy_leaves_the_wake_to_a_receiver_and_never_to_the_screen(state: PresenceState) -> None:
    """A receiver takes it whatever the agent does; where it takes nothing, no screen is typed into either."""
    verdict = choose(at(NATIVE, state), at(RECEIVER, UNKNOWN), SCREEN_IDLE)
    assert (verdict.decision, verdict.passed) == (Start(RECEIVER), ((NATIVE, LEFT_TO_RECEIVER),))
    for receiver in (gone(RECEIVER, SUSPENDED), at(RECEIVER, UNKNOWN, refused=GAVE_BACK)):
        assert isinstance(choose(at(NATIVE, state), receiver, SCREEN_IDLE).decision, Hold)


def test_a_suspended_receiver_says_why_where_no_channel_was_named_besides() -> None:
    """A channel that nobody named has no better reason; a pane that somebody named has."""
    assert choose(gone(NATIVE), gone(RECEIVER, SUSPENDED)).decision == SUSPENDED
    assert choose(gone(NATIVE), gone(RECEIVER, DEGRADED), gone(HEARTBEAT, NO_PANE)).decision == DEGRADED
    assert choose(gone(NATIVE), gone(RECEIVER, SUSPENDED), gone(SCREEN, NO_PANE)).decision == NO_PANE


@pytest.mark.parametrize("state", ALL_STATES)
@pytest.mark.parametrize(("policy", "row"), [(WakePolicy.SILENT, "silent"), (WakePolicy.NEXT_TURN, "next-turn")])
def test_silent_and_next_turn_are_stored_whatever_is_seen(policy: WakePolicy, row: str, state: PresenceState) -> None:
    """`silent` is recorded only, no heartbeat either; `next_turn` is picked up at the turn's start."""
    for route_states in ((at(NATIVE, state), at(SCREEN, state)), (at(HEARTBEAT, state),), ()):
        verdict = choose(*route_states, policy=policy)
        assert isinstance(verdict.decision, StoreOnly)
        assert verdict.row == row


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ACTIVE, HoldReason.ACTIVE),
        (WAITING, HoldReason.WAITING_ON_APPROVAL),
        (TYPING, HoldReason.USER_TYPING),
        (UNKNOWN, HoldReason.UNKNOWN),
    ],
)
def test_a_screen_is_typed_into_only_when_the_agent_is_proven_idle(state: PresenceState, reason: HoldReason) -> None:
    """`immediate` is live if provably safe, else a hold that says what was seen and where."""
    held = choose(gone(NATIVE), at(SCREEN, state)).decision
    assert held == Hold(reason, detail="what was seen", where="agents:1.0")


@pytest.mark.parametrize("state", ALL_STATES)
@pytest.mark.parametrize("route", [NATIVE, SCREEN])
def test_an_old_look_proves_nothing(route: Route, state: PresenceState) -> None:
    """Older than `fresh_for` is not fresh: neither idle nor a reason to wait for; anything unknown holds."""
    verdict = choose(at(route, state, ago=FRESH_FOR + 1, turn="t1"), SCREEN_IDLE, authority=MAY_STEER)
    assert verdict.row == "stale"
    assert verdict.decision == Hold(
        HoldReason.UNKNOWN, detail="the last look is too old", where="agents:1.0", cause=Cause.OLD_LOOK
    )
    assert choose(at(route, IDLE, ago=FRESH_FOR)).row in {"native-idle", "screen-idle"}


@pytest.mark.parametrize("authority", [Authority(one, other) for one, other in product([False, True], repeat=2)])
@pytest.mark.parametrize("natively", [ACTIVE, WAITING])
@pytest.mark.parametrize("refused", [None, GAVE_BACK])
@pytest.mark.parametrize("only_seen", [False, True])
@pytest.mark.parametrize("turn", [None, "t1"])
def test_no_screen_is_typed_into_while_the_agent_itself_says_that_it_is_busy(
    authority: Authority, natively: PresenceState, refused: Hold | None, only_seen: bool, turn: str | None
) -> None:
    """Any fresh veto wins; what a control plane says of itself is the strongest there is."""
    native = at(NATIVE, natively, refused=refused, only_seen=only_seen, turn=turn)
    assert not isinstance(choose(native, SCREEN_IDLE, authority=authority).decision, Inject | Start)


def test_what_nobody_has_open_is_begun_only_with_authority_and_where_it_can_be() -> None:
    """The seed's "explicit authority": `[targets].may_start_thread`."""
    assert choose(at(START_ONLY, UNKNOWN, hold=HoldReason.NOT_LOADED), authority=MAY_OPEN).decision == Start(START_ONLY)
    for route_state in (
        at(NATIVE, UNKNOWN, hold=HoldReason.NOT_LOADED, only_seen=True),
        at(STEER_ONLY, UNKNOWN, hold=HoldReason.NOT_LOADED),
        at(NATIVE, UNKNOWN, hold=HoldReason.NOT_LOADED, refused=GAVE_BACK),
        gone(NATIVE, Hold(HoldReason.NOT_LOADED, "its thread is closed")),
    ):
        assert isinstance(choose(route_state, authority=MAY_OPEN).decision, Hold)


def test_a_hold_says_what_to_change() -> None:
    """A hold carries a remedy a person can act on, the right one of several."""
    remedies = {
        (): "in its [targets] entry or its subscription",
        (RouteState(NATIVE_ASIDE), RouteState(SCREEN_ASIDE)): "`wake-bridge doctor` shows what failed",
        (at(NATIVE, IDLE, only_seen=True),): "`wake-bridge bind @neo-gpt`",
        (gone(NATIVE), gone(SCREEN, NO_PANE)): "`wake-bridge bind @neo-gpt`",
    }
    for route_states, words in remedies.items():
        held = choose(*route_states).decision
        assert isinstance(held, Hold)
        assert words in held.remedy(ME)


def test_a_hold_names_the_more_exact_reason_where_the_evidence_has_one() -> None:
    """Copy mode, a dead pane or a shell are told apart from plain doubt."""
    held = choose(at(SCREEN, UNKNOWN, hold=HoldReason.COPY_MODE)).decision
    assert held == Hold(HoldReason.COPY_MODE, detail="what was seen", where="agents:1.0")
    assert hold_because_of(seen(IDLE)).reason is HoldReason.UNKNOWN


def test_whatever_is_seen_the_table_has_an_answer() -> None:
    """Never raises; and whatever goes out goes to a route where that was seen."""
    routes = (NATIVE, START_ONLY, STEER_ONLY, NATIVE_ASIDE, SCREEN, SCREEN_ASIDE, HEARTBEAT)
    kinds = [RouteState(route) for route in routes] + [gone(route) for route in routes]
    kinds += [
        at(route, state, turn="t1", only_seen=only_seen)
        for route, state, only_seen in product(routes, ALL_STATES, (False, True))
    ]
    for first, second in product(kinds, repeat=2):
        if first.route == second.route:
            continue
        for authority in (NOTHING_MORE, Authority(steer=True, may_start_thread=True)):
            verdict = choose(first, second, authority=authority)
            assert verdict.row in {row.name for row in TABLE}
            if isinstance(verdict.decision, Start | Steer | Inject):
                chosen = next(one for one in (first, second) if one.route == verdict.decision.route)
                assert chosen.presence is not None
                assert not chosen.route.degraded


def test_the_last_row_of_each_part_leaves_nothing_undecided() -> None:
    """A table a person can read ends with what holds for the rest."""
    for part in (TablePart.ROUTE, TablePart.END):
        last = [row for row in TABLE if row.part is part][-1]
        assert last.decides is not None
