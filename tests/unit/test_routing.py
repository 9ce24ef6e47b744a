from __future__ import annotations

import pytest

from wake_bridge.domain.delivery import Hold, HoldReason
from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.presence import Evidence, Presence, PresenceSource, PresenceState
from wake_bridge.domain.routing import (
    Address,
    Capabilities,
    Decision,
    Inject,
    Route,
    Start,
    Steer,
    StoreOnly,
    decide,
    hold_because_of,
)

NOW = Instant(1_800_000_000_000)
FRESH_FOR = 5_000
ME = Identity("@neo-gpt")

NATIVE = Route("codex", Address(ME), Capabilities(composer_independent=True, can_start=True, can_steer=True))
START_ONLY = Route("claude", Address(ME), Capabilities(composer_independent=True, can_start=True))
STEER_ONLY = Route("mcp", Address(ME), Capabilities(composer_independent=True, can_start=False, can_steer=True))
SCREEN = Route("tmux", Address(ME), Capabilities())
HEARTBEAT = Route("heartbeat", Address(ME), Capabilities(last_resort=True))
SCREEN_DEGRADED = Route("tmux", Address(ME), Capabilities(), degraded=True)
NATIVE_DEGRADED = Route("codex", Address(ME), Capabilities(composer_independent=True), degraded=True)

IDLE = PresenceState.IDLE
ACTIVE = PresenceState.ACTIVE
WAITING = PresenceState.WAITING_ON_APPROVAL
TYPING = PresenceState.USER_TYPING
UNKNOWN = PresenceState.UNKNOWN
ALL_STATES = list(PresenceState)


def seen(
    state: PresenceState,
    *,
    ago: int = 0,
    turn: str | None = None,
    hold: HoldReason | None = None,
    also: PresenceState | None = None,
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
    )


def choose(presence: Presence, *routes: Route, policy: WakePolicy = WakePolicy.IMMEDIATE) -> Decision:
    return decide(policy, presence, routes, NOW, FRESH_FOR)


@pytest.mark.parametrize("state", ALL_STATES)
@pytest.mark.parametrize("policy", [WakePolicy.SILENT, WakePolicy.NEXT_TURN])
def test_silent_and_next_turn_are_stored_whatever_is_seen(policy: WakePolicy, state: PresenceState) -> None:
    """DESIGN §7: `silent` is recorded only; `next_turn` is picked up at the turn's start."""
    assert isinstance(choose(seen(state), NATIVE, SCREEN, policy=policy), StoreOnly)
    assert isinstance(choose(seen(state), policy=policy), StoreOnly)


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
    """DESIGN §7: `immediate` is live if provably safe, else a hold that says what was seen and where."""
    assert choose(seen(IDLE), SCREEN) == Inject(SCREEN)
    assert choose(seen(state), SCREEN) == Hold(reason, detail="what was seen", where="agents:1.0")


@pytest.mark.parametrize(
    ("presence", "route", "decision"),
    [
        (seen(IDLE), NATIVE, Start(NATIVE)),
        (seen(TYPING), NATIVE, Start(NATIVE)),
        (seen(TYPING, also=IDLE), NATIVE, Start(NATIVE)),
        (seen(TYPING, also=ACTIVE), NATIVE, HoldReason.USER_TYPING),
        (seen(TYPING, also=WAITING), NATIVE, HoldReason.USER_TYPING),
        (seen(TYPING, also=UNKNOWN), NATIVE, HoldReason.USER_TYPING),
        (seen(ACTIVE, turn="t1"), NATIVE, Steer(NATIVE, "t1")),
        (seen(ACTIVE), NATIVE, HoldReason.ACTIVE),
        (seen(ACTIVE, turn="t1"), START_ONLY, HoldReason.ACTIVE),
        (seen(WAITING, turn="t1"), NATIVE, HoldReason.WAITING_ON_APPROVAL),
        (seen(UNKNOWN, turn="t1"), NATIVE, HoldReason.UNKNOWN),
        (seen(IDLE), STEER_ONLY, HoldReason.UNKNOWN),
        (seen(TYPING), STEER_ONLY, HoldReason.USER_TYPING),
        (seen(ACTIVE, turn="t1"), STEER_ONLY, Steer(STEER_ONLY, "t1")),
    ],
)
def test_a_channel_past_the_composer_starts_or_steers_by_what_it_can(
    presence: Presence, route: Route, decision: Decision | HoldReason
) -> None:
    """DESIGN §§5, 7: a draft blocks only screens; a running turn is steered by its id or left alone."""
    chosen = choose(presence, route)
    if isinstance(decision, HoldReason):
        assert isinstance(chosen, Hold)
        assert chosen.reason is decision
    else:
        assert chosen == decision


def test_routes_are_taken_in_their_order_and_fall_through() -> None:
    """DESIGN §7: native control plane before bridge; a route that cannot serve the moment or is degraded falls to the next."""
    assert choose(seen(IDLE), NATIVE, SCREEN) == Start(NATIVE)
    assert choose(seen(IDLE), SCREEN, NATIVE) == Inject(SCREEN)
    assert choose(seen(IDLE), STEER_ONLY, SCREEN) == Inject(SCREEN)
    assert choose(seen(IDLE), NATIVE_DEGRADED, SCREEN) == Inject(SCREEN)
    assert choose(seen(TYPING), SCREEN, NATIVE) == Start(NATIVE)
    held = choose(seen(ACTIVE), NATIVE_DEGRADED, SCREEN)
    assert isinstance(held, Hold)
    assert held.reason is HoldReason.ACTIVE


@pytest.mark.parametrize("state", ALL_STATES)
@pytest.mark.parametrize("route", [NATIVE, SCREEN])
def test_an_old_look_proves_nothing(route: Route, state: PresenceState) -> None:
    """DESIGN §5: older than `fresh_for` is not fresh: neither idle nor a reason to wait for; anything unknown holds."""
    stale = seen(state, ago=FRESH_FOR + 1, turn="t1")
    assert choose(stale, route) == Hold(HoldReason.UNKNOWN, detail="the last look is too old", where="agents:1.0")


def test_a_look_is_fresh_to_the_millisecond() -> None:
    """DESIGN §5: `fresh_for` is inclusive."""
    assert choose(seen(IDLE, ago=FRESH_FOR), SCREEN) == Inject(SCREEN)


@pytest.mark.parametrize(
    ("presence", "routes", "decision"),
    [
        (seen(IDLE), (HEARTBEAT,), Inject(HEARTBEAT)),
        (seen(ACTIVE, turn="t1"), (HEARTBEAT,), HoldReason.ACTIVE),
        (seen(WAITING), (HEARTBEAT,), HoldReason.WAITING_ON_APPROVAL),
        (seen(TYPING), (HEARTBEAT,), HoldReason.USER_TYPING),
        (seen(UNKNOWN), (HEARTBEAT,), HoldReason.UNKNOWN),
        (seen(IDLE), (SCREEN, HEARTBEAT), Inject(SCREEN)),
        (seen(IDLE), (SCREEN_DEGRADED, HEARTBEAT), Inject(HEARTBEAT)),
        (seen(IDLE), (NATIVE_DEGRADED, SCREEN_DEGRADED, HEARTBEAT), Inject(HEARTBEAT)),
        (seen(IDLE), (STEER_ONLY, HEARTBEAT), HoldReason.UNKNOWN),
        (seen(ACTIVE), (NATIVE, HEARTBEAT), HoldReason.ACTIVE),
        (seen(IDLE), (NATIVE_DEGRADED, SCREEN, HEARTBEAT), Inject(SCREEN)),
    ],
)
def test_the_heartbeat_serves_only_where_no_other_route_is_usable(
    presence: Presence, routes: tuple[Route, ...], decision: Decision | HoldReason
) -> None:
    """DESIGN §7, seed rule E56: the last row of the table, through the same gate; never two drivers for one identity."""
    chosen = choose(presence, *routes)
    if isinstance(decision, HoldReason):
        assert isinstance(chosen, Hold)
        assert chosen.reason is decision
    else:
        assert chosen == decision


@pytest.mark.parametrize("policy", [WakePolicy.SILENT, WakePolicy.NEXT_TURN])
def test_the_heartbeat_speaks_of_nothing_silent_and_of_nothing_for_the_next_turn(policy: WakePolicy) -> None:
    """DESIGN §7: `silent`: no heartbeat either."""
    assert isinstance(choose(seen(IDLE), HEARTBEAT, policy=policy), StoreOnly)


def test_no_route_and_only_degraded_routes_say_what_to_change() -> None:
    """DESIGN §1: a hold carries a remedy a person can act on, the right one of two."""
    nobody = choose(seen(IDLE))
    assert isinstance(nobody, Hold)
    assert nobody.reason is HoldReason.NO_ADAPTER
    assert "give it a target" in nobody.remedy(ME)
    broken = choose(seen(IDLE), NATIVE_DEGRADED, SCREEN_DEGRADED)
    assert isinstance(broken, Hold)
    assert broken.reason is HoldReason.NO_ADAPTER
    assert "degraded (codex, tmux)" in broken.remedy(ME)


def test_a_hold_names_the_more_exact_reason_where_the_evidence_has_one() -> None:
    """DESIGN §6: copy mode, a dead pane or a shell are told apart from plain doubt."""
    held = choose(seen(UNKNOWN, hold=HoldReason.COPY_MODE), SCREEN)
    assert held == Hold(HoldReason.COPY_MODE, detail="what was seen", where="agents:1.0")
    assert hold_because_of(seen(IDLE)).reason is HoldReason.UNKNOWN
