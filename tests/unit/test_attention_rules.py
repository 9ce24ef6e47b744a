"""What an agent stands at by the evidence of one look, and which episodes are worth a notice when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wake_bridge.domain.attention import AttentionRules, Episode, Standing, is_same_fact, next_ones, standing_of
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.names import AttentionKind, Identity, Instant
from wake_bridge.domain.notices import about_attention
from wake_bridge.domain.presence import Evidence, PresenceState
from wake_bridge.testing.hostile import hostile_subjects

NOW = Instant(1_800_000_000_000)
MINUTE = 60_000
AGENT = Identity("@agent")

IDLE = Evidence("idle", PresenceState.IDLE)
ACTIVE = Evidence("title-spinner", PresenceState.ACTIVE)
APPROVAL = Evidence("approval", PresenceState.WAITING_ON_APPROVAL)
ACTION = Evidence("title-action-required", PresenceState.WAITING_ON_APPROVAL)
QUESTION = Evidence("question", PresenceState.WAITING_ON_APPROVAL)
DRAFT = Evidence("draft", PresenceState.USER_TYPING)
STRANGE = Evidence("no-composer", PresenceState.UNKNOWN)
COPY_MODE = Evidence("copy-mode", PresenceState.UNKNOWN, hold=HoldReason.COPY_MODE)
DEAD = Evidence("pane-dead", PresenceState.UNKNOWN, hold=HoldReason.PANE_DEAD)
SHELL = Evidence("no-agent", PresenceState.UNKNOWN, hold=HoldReason.NO_AGENT)
STOPPED = Evidence("suspended", PresenceState.UNKNOWN, hold=HoldReason.NO_AGENT)
LIMIT = Evidence("usage-limit", PresenceState.IDLE, weighs=False, attention=AttentionKind.LIMITED)
ERROR = Evidence("api-error", PresenceState.IDLE, weighs=False, attention=AttentionKind.FAILED)


@pytest.mark.parametrize(
    ("evidence", "kind", "is_certain"),
    [
        ((IDLE,), None, True),
        ((ACTIVE,), None, True),
        ((DRAFT,), None, True),
        ((STRANGE,), None, False),
        ((COPY_MODE, APPROVAL), None, False),
        ((APPROVAL,), AttentionKind.APPROVAL, True),
        ((ACTION, QUESTION), AttentionKind.QUESTION, True),
        ((APPROVAL, DRAFT), AttentionKind.APPROVAL, True),
        ((DEAD,), AttentionKind.GONE, True),
        ((SHELL,), AttentionKind.GONE, True),
        ((STOPPED,), None, False),
        ((IDLE, LIMIT), AttentionKind.LIMITED, True),
        ((QUESTION, LIMIT), AttentionKind.LIMITED, True),
        ((STRANGE, LIMIT), AttentionKind.LIMITED, True),
        ((ACTIVE, LIMIT), None, True),
        ((DEAD, LIMIT), AttentionKind.GONE, True),
        ((IDLE, ERROR), AttentionKind.FAILED, True),
        ((ACTIVE, ERROR), None, True),
        ((STRANGE, ERROR), None, False),
        ((APPROVAL, ERROR), AttentionKind.APPROVAL, True),
        ((), None, False),
    ],
)
def test_what_is_seen_says_what_an_agent_stands_at(
    evidence: tuple[Evidence, ...], kind: AttentionKind | None, is_certain: bool
) -> None:
    """What is not recognised neither begins nor ends an episode; a running turn ends what the last one left."""
    said = standing_of(evidence)
    assert (said.kind, said.is_certain) == (kind, is_certain)
    assert isinstance(said, Standing)


def _episode(kind: AttentionKind, who: Identity = AGENT, where: str = "agents:1.0") -> Episode:
    return Episode(f"01{who}", who, kind, Instant(NOW - MINUTE), "seen", "key", where)


def test_an_approval_must_stand_and_a_limit_is_told_at_once() -> None:
    """`[attention] after` is for what a person answers; the rest is told when it is seen."""
    rules = AttentionRules(after_ms=MINUTE)
    assert rules.due_at(_episode(AttentionKind.APPROVAL)) == NOW
    assert rules.due_at(_episode(AttentionKind.LIMITED)) == NOW - MINUTE


def test_an_identity_has_its_own_kinds() -> None:
    """`[targets."@id"] attention` replaces `[attention] tell` for that identity alone."""
    rules = AttentionRules(of_identity={AGENT: frozenset({AttentionKind.STOPPED})})
    assert rules.is_told(AGENT, AttentionKind.STOPPED)
    assert not rules.is_told(AGENT, AttentionKind.APPROVAL)
    assert rules.is_told(Identity("@other"), AttentionKind.APPROVAL)
    assert not rules.is_told(Identity("@other"), AttentionKind.STOPPED)


@pytest.mark.parametrize("kind", AttentionKind)
def test_a_notice_says_who_stands_at_what_where_and_what_to_do(kind: AttentionKind) -> None:
    """One line each, with the kind as its reason; several agents at the same are one notice under the first id."""
    alone = about_attention([_episode(kind)], NOW)
    assert alone.title.startswith("wake-bridge: @agent ")
    assert f"({kind})" in alone.title
    assert (alone.subject, alone.reason, alone.identity, alone.where) == ("01@agent", kind, "@agent", "agents:1.0")
    assert "agents:1.0" in alone.body
    assert alone.body.endswith("For 1 min")

    crowd = about_attention([_episode(kind, Identity(f"@a{number}")) for number in range(6)], NOW)
    assert crowd.title == f"wake-bridge: 6 agents need you ({kind})"
    assert crowd.body.endswith(": @a0, @a1, @a2, @a3 and 2 more")
    assert (crowd.subject, crowd.identity) == ("01@a0", "")


def test_a_notice_of_attention_quotes_no_screen_and_no_name_breaks_it() -> None:
    """A screen may hold secrets; a name of a pane is made harmless."""
    for text in [*hostile_subjects(50, seed=7), "--help", "$(touch x)\n`id`"]:
        said = about_attention([_episode(AttentionKind.APPROVAL, where=text)], NOW)
        assert said.title.startswith("wake-bridge: ")
        assert "\n" not in said.title + said.body
        assert "seen" not in said.body


@pytest.mark.parametrize(
    ("kind", "cause", "is_same"),
    [
        (AttentionKind.APPROVAL, Cause.WAITING_ON_APPROVAL, True),
        (AttentionKind.QUESTION, Cause.WAITING_ON_APPROVAL, True),
        (AttentionKind.GONE, Cause.PANE_DEAD, True),
        (AttentionKind.GONE, Cause.NO_AGENT, True),
        (AttentionKind.GONE, Cause.NO_SUCH_PANE, True),
        (AttentionKind.APPROVAL, Cause.PANE_DEAD, False),
        (AttentionKind.FAILED, Cause.BUDGET, False),
        (AttentionKind.STOPPED, Cause.WINDOW, False),
    ],
)
def test_a_hold_and_an_episode_are_one_fact_or_two(kind: AttentionKind, cause: Cause, is_same: bool) -> None:
    """A person hears of one fact once, by whichever notice is due first."""
    assert is_same_fact(_episode(kind), cause) is is_same


def test_a_person_is_taken_to_the_oldest_and_from_there_to_the_one_after_it() -> None:
    """`next` goes round by age; an agent at its limit, and one without a place, is left out."""
    made = [
        replace(_episode(AttentionKind.APPROVAL, Identity(f"@{name}")), began_at=Instant(NOW + at), place_key=name)
        for at, name in enumerate(("young", "middle", "old")[::-1])
    ]
    limited = replace(_episode(AttentionKind.LIMITED, Identity("@limited")), began_at=Instant(0))
    nowhere = replace(_episode(AttentionKind.GONE, Identity("@nowhere")), began_at=Instant(0), place_key="")
    episodes = [*made[::-1], limited, nowhere]

    def order(current: str) -> list[str]:
        return [one.place_key for one in next_ones(episodes, current)]

    assert order("") == order("elsewhere") == ["old", "middle", "young"]
    assert order("old") == ["middle", "young", "old"]
    assert order("young") == ["old", "middle", "young"]
    assert next_ones([limited], "") == []
