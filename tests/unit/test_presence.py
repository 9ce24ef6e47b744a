from __future__ import annotations

from itertools import permutations

import pytest

from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import (
    SAMPLES_APART,
    Evidence,
    Observation,
    Presence,
    PresenceSource,
    PresenceState,
    fuse,
    single_vote,
    told_in_graph,
)
from wake_bridge.domain.routing import Capabilities
from wake_bridge.engine.explain.presence_query import PresenceReading
from wake_bridge.records import presence_record

NOW = Instant(1_800_000_000_000)
FRESH_FOR = 5_000

IDLE = Evidence("composer-empty", PresenceState.IDLE, saw="❯", region="composer")
ACTIVE = Evidence("spinner", PresenceState.ACTIVE)
WAITING = Evidence("dialog", PresenceState.WAITING_ON_APPROVAL)
TYPING = Evidence("draft", PresenceState.USER_TYPING, saw="half a thought")
DOUBT = Evidence("no-composer", PresenceState.UNKNOWN)
DEAD = Evidence("pane-dead", PresenceState.UNKNOWN, hold=HoldReason.PANE_DEAD)


def look(*evidence: Evidence, ago: int = 0, fingerprint: str = "same") -> Observation:
    return Observation(Instant(NOW - ago), evidence, fingerprint, where="agents:1.0", capabilities=("paste",))


def fused(latest: Observation, earlier: Observation | None) -> Presence:
    return fuse(latest, earlier, NOW, FRESH_FOR)


@pytest.mark.parametrize(
    ("evidence", "winner"),
    [
        ((IDLE, DOUBT, ACTIVE, TYPING, WAITING, DEAD), DEAD),
        ((IDLE, DOUBT, ACTIVE, TYPING, WAITING), WAITING),
        ((IDLE, DOUBT, ACTIVE, TYPING), TYPING),
        ((IDLE, DOUBT, ACTIVE), ACTIVE),
        ((IDLE, DOUBT), DOUBT),
        ((IDLE,), IDLE),
    ],
)
def test_any_veto_beats_idle_and_the_order_of_evidence_does_not_matter(
    evidence: tuple[Evidence, ...], winner: Evidence
) -> None:
    """Idle needs positive proof; any veto wins: hard facts, dialog, draft, activity, doubt."""
    for order in permutations(evidence):
        assert single_vote(order) is winner


def test_no_evidence_is_unknown_and_from_nobody() -> None:
    """Anything unknown is `unknown` and holds."""
    vote = single_vote(())
    assert (vote.vote, vote.source, vote.hold) == (PresenceState.UNKNOWN, PresenceSource.UNKNOWN, None)


@pytest.mark.parametrize(
    ("latest", "earlier", "state"),
    [
        (look(IDLE), look(IDLE, ago=SAMPLES_APART), PresenceState.IDLE),
        (look(IDLE), look(IDLE, ago=600_000), PresenceState.IDLE),
        (look(IDLE), None, PresenceState.UNKNOWN),
        (look(IDLE), look(IDLE, ago=SAMPLES_APART - 1), PresenceState.UNKNOWN),
        (look(IDLE, ago=10), look(IDLE), PresenceState.UNKNOWN),
        (look(IDLE), look(IDLE, ago=SAMPLES_APART, fingerprint="else"), PresenceState.ACTIVE),
        (look(IDLE, fingerprint=""), look(IDLE, ago=SAMPLES_APART, fingerprint=""), PresenceState.ACTIVE),
        (look(IDLE), look(IDLE, ACTIVE, ago=SAMPLES_APART), PresenceState.UNKNOWN),
        (look(IDLE), look(ago=SAMPLES_APART), PresenceState.UNKNOWN),
        (look(IDLE, ACTIVE), look(IDLE, ago=SAMPLES_APART), PresenceState.ACTIVE),
        (look(IDLE, TYPING), look(IDLE, ago=SAMPLES_APART), PresenceState.USER_TYPING),
        (look(IDLE, WAITING), None, PresenceState.WAITING_ON_APPROVAL),
        (look(IDLE, DEAD), look(IDLE, ago=SAMPLES_APART), PresenceState.UNKNOWN),
        (look(), look(ago=SAMPLES_APART), PresenceState.UNKNOWN),
    ],
)
def test_idle_stands_only_on_two_looks_that_agree(
    latest: Observation, earlier: Observation | None, state: PresenceState
) -> None:
    """Two samples at least 1.5 s apart that agree; one veto in the latest look needs no second."""
    assert fused(latest, earlier).state is state


def test_a_look_that_moved_is_active_at_once() -> None:
    """An agent can stream a second without looking busy; what moves between two looks is not idle."""
    moved = fused(look(IDLE), look(IDLE, ago=100, fingerprint="else"))
    assert (moved.state, moved.wants_second_look) == (PresenceState.ACTIVE, True)


@pytest.mark.parametrize("evidence", [IDLE, ACTIVE, WAITING, TYPING, DEAD])
def test_evidence_older_than_fresh_for_is_no_evidence(evidence: Evidence) -> None:
    """Older than `fresh_for` is not fresh, whatever it said."""
    old, older = look(evidence, ago=FRESH_FOR + 1), look(evidence, ago=FRESH_FOR + 1 + SAMPLES_APART)
    presence = fused(old, older)
    assert (presence.state, presence.detail) == (PresenceState.UNKNOWN, "the last look is too old")
    assert fused(look(evidence, ago=FRESH_FOR), look(evidence, ago=FRESH_FOR + SAMPLES_APART)).state is evidence.vote


def test_a_second_look_is_wanted_only_where_it_can_prove_idle() -> None:
    """A pane that seemed idle is looked at again soon; a veto waits for a change."""
    assert fused(look(IDLE), None).wants_second_look
    assert not fused(look(TYPING), None).wants_second_look
    assert not fused(look(IDLE), look(IDLE, ago=SAMPLES_APART)).wants_second_look
    assert not fused(look(IDLE, ago=FRESH_FOR + 1), None).wants_second_look


def test_a_presence_carries_what_decided_it() -> None:
    """Presence has evidence, source and time; a hold's exact reason comes from the deciding evidence."""
    presence = fused(look(TYPING, IDLE), None)
    assert presence.detail == "draft: half a thought"
    assert presence.evidence == (TYPING, IDLE)
    assert (presence.where, presence.capabilities, presence.seen_at) == ("agents:1.0", ("paste",), NOW)
    dead = fused(look(IDLE, DEAD), None)
    assert (dead.hold, dead.detail) == (HoldReason.PANE_DEAD, "pane-dead")
    hook = Evidence("stop-hook", PresenceState.ACTIVE, source=PresenceSource.HARNESS_HOOK)
    assert fused(look(hook, IDLE), None).source is PresenceSource.HARNESS_HOOK


def test_the_five_states_and_the_sources_are_the_seeds() -> None:
    """Five states; the seed's six sources and four more."""
    assert {state.value for state in PresenceState} == {"unknown", "idle", "active", "waitingOnApproval", "userTyping"}
    assert len(PresenceSource) == 10


@pytest.mark.parametrize(
    ("state", "weighs"), [("active", True), ("waitingOnApproval", True), ("userTyping", True), ("idle", False)]
)
def test_a_presence_row_of_the_graph_weighs_against_idle_and_never_for_it(state: str, weighs: bool) -> None:
    """HARNESS_PRESENCE is weak evidence while it is fresh; idle, or unknown, is only said."""
    row = {"state": state, "source": "mcp-client", "lastSeenAt": "2026-01-01T00:00:00.000Z", "status": "active"}
    at = Instant(1_767_225_600_000)

    said = told_in_graph(row, Instant(at + 4_000), 5_000)

    assert said is not None
    assert (said.vote, said.weighs, said.source) == (PresenceState(state), weighs, PresenceSource.MCP_CLIENT)
    assert told_in_graph(row, Instant(at + 6_000), 5_000) is None, "it is not fresh any more"
    assert told_in_graph(row, Instant(at - 6_000), 5_000) is None, "a clock that is ahead vetoes nothing for ever"
    assert told_in_graph({**row, "status": "retired"}, at, 5_000) is None
    asleep = told_in_graph({**row, "state": "asleep"}, at, 5_000)
    assert asleep is not None
    assert not asleep.weighs, "who writes that it does not know holds up nothing"


def test_a_presence_record_says_what_can_be_done_with_the_agent() -> None:
    """The harness, and the abilities of the route that it was seen on."""
    presence = Presence(PresenceState.UNKNOWN, PresenceSource.CODEX_APP_SERVER, NOW, capabilities=("codex",))
    able = Capabilities(composer_independent=True, can_steer=True, idempotent=True)

    record = presence_record(Identity("@a"), PresenceReading(presence, "codex", capabilities=able))

    assert record["capabilities"] == ["codex", "start", "steer", "composer_independent", "idempotent"]
