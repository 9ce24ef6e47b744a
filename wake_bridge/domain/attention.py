"""Decides which agent needs a person, since when, and when that is worth a notice. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.names import MINUTE, AttentionKind, Identity, Instant
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote
from wake_bridge.domain.values import dataclass

IN_FRONT: Final = MINUTE
"""Milliseconds since the last key of a client that shows a pane, for which a person is taken to be looking at it."""

AFTER_WORK: Final = frozenset({AttentionKind.FINISHED, AttentionKind.STOPPED})
"""What is an episode only where somebody wants to know: an agent idles after work every few minutes."""

TOLD_BY_DEFAULT: Final = frozenset(AttentionKind) - AFTER_WORK
"""What a person is told of where nothing else is configured."""

WATCHED_BY_DEFAULT: Final = frozenset(AttentionKind) - {AttentionKind.STOPPED}
"""What a subscription to an agent's presence wakes for where it names nothing."""

_STANDS_FIRST: Final = frozenset({AttentionKind.APPROVAL, AttentionKind.QUESTION}) | AFTER_WORK
"""What must stand for a while before a person is told: most are answered at once."""

_QUESTION: Final = "question"
"""How the rules of screen profiles begin that know a question, and no approval."""

_ENDED: Final = frozenset({Cause.NO_AGENT, Cause.PANE_DEAD})

ENDINGS: Final[Mapping[AttentionKind, str]] = {
    AttentionKind.APPROVAL: "answered",
    AttentionKind.QUESTION: "answered",
    AttentionKind.FINISHED: "went on",
    AttentionKind.STOPPED: "went on",
    AttentionKind.FAILED: "went on",
    AttentionKind.LIMITED: "went on",
    AttentionKind.GONE: "back",
}
"""How each ends when the agent is seen in another state."""

_ELSEWHERE: Final = "on:"
"""How the subjects of notices begin that are about an episode of another host; its name and a colon follow."""

UNWATCHED: Final = "unwatched"
"""How an episode ends whose identity is no longer watched."""


def stands_first(kind: AttentionKind) -> bool:
    """Whether it must stand for a while before a person is told, and a person who is away still longer."""
    return kind in _STANDS_FIRST


@dataclass(frozen=True, slots=True)
class AttentionRules:
    """What a person is told of, and after how many milliseconds an approval or a question is worth it.

    `continues_after_limit`: an agent that a limit stopped in the middle of its work is sent a line when that has reset.
    """

    tell: frozenset[AttentionKind] = TOLD_BY_DEFAULT
    after_ms: int = MINUTE
    of_identity: Mapping[Identity, frozenset[AttentionKind]] = field(default_factory=dict)
    continues_after_limit: bool = False

    def is_told(self, identity: Identity, kind: AttentionKind) -> bool:
        """Whether a person is told of that kind, for that identity."""
        return kind in self.of_identity.get(identity, self.tell)

    def due_at(self, episode: Episode) -> Instant:
        """When it has stood long enough to be told."""
        return Instant(episode.began_at + (self.after_ms if stands_first(episode.kind) else 0))


@dataclass(frozen=True, slots=True)
class Episode:
    """One stretch of time in which an agent stands at something, told once.

    `place_key` names the place for adapters, `where` for people. `ending` says how it ended, empty while it lasts. `program`
    is the agent's, empty where nobody knows. At a limit `resets_at` is when it resets, None where that is not shown, and
    `tries` counts the turns that met the same limit before. `was_at_work` says that a turn had run for a while before.
    `wake_id` is the delivery whose text stands right above what the last turn came to, with nothing in between: its turn
    failed at once.
    """

    id: str
    identity: Identity
    kind: AttentionKind
    began_at: Instant
    evidence: str
    place_key: str = ""
    where: str = ""
    told_at: Instant | None = None
    ended_at: Instant | None = None
    ending: str = ""
    program: str = ""
    resets_at: Instant | None = None
    tries: int = 0
    was_at_work: bool = False
    wake_id: str = ""


@dataclass(frozen=True, slots=True)
class EpisodeElsewhere:
    """An episode of an agent on another host, of which its person was to be told there.

    `way` is the command that leads to it; `is_unheard`: no channel of that host has taken it.
    """

    host: str
    identity: Identity
    id: str
    kind: AttentionKind
    began_at: Instant
    way: str
    is_unheard: bool

    @property
    def subject(self) -> str:
        """By what its notice is known."""
        return f"{_ELSEWHERE}{self.host}:{self.id}"


def host_in(subject: str) -> str:
    """The host that the subject of a notice is about an episode of; empty where it is about none."""
    return subject.removeprefix(_ELSEWHERE).partition(":")[0] if subject.startswith(_ELSEWHERE) else ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one look says: the kind, None where the agent stands at nothing; `is_certain` unless the look could not tell.

    `sign` is what the screen shows of the last turn, where that decided.
    """

    kind: AttentionKind | None
    is_certain: bool = True
    evidence: str = ""
    is_idle: bool = False
    sign: Evidence | None = None


UNDECIDED: Final = Standing(None, is_certain=False)


def standing_of(evidence: tuple[Evidence, ...]) -> Standing:
    """What an agent stands at by the evidence of one look.

    What is not recognised says nothing: it neither begins nor ends an episode. A sign that an agent reached its limit
    outranks the dialog that says so; a sign of an earlier turn counts for nothing while another turn runs.
    """
    decided = single_vote(evidence)
    signs = {one.attention: one for one in reversed(evidence) if one.attention is not None}
    limited = signs.get(AttentionKind.LIMITED)
    if decided.why in _ENDED:
        return Standing(AttentionKind.GONE, evidence=decided.told)
    if decided.vote is PresenceState.ACTIVE:
        return Standing(None)
    if decided.hold is None and limited is not None:
        return Standing(AttentionKind.LIMITED, evidence=limited.told, sign=limited)
    if decided.vote is PresenceState.WAITING_ON_APPROVAL:
        asked = [one for one in evidence if one.vote is decided.vote and one.rule.startswith(_QUESTION)]
        kind = AttentionKind.QUESTION if asked else AttentionKind.APPROVAL
        return Standing(kind, evidence=(asked[0] if asked else decided).told)
    if decided.vote is PresenceState.UNKNOWN:
        return UNDECIDED
    failed = signs.get(AttentionKind.FAILED)
    if failed is not None:
        return Standing(AttentionKind.FAILED, evidence=failed.told, sign=failed)
    return Standing(None, is_idle=decided.vote is PresenceState.IDLE)


def next_ones(episodes: Sequence[Episode], current: str) -> list[Episode]:
    """Where a person is taken next, the best first: the oldest, or from one of these places on the one after it.

    An agent at its limit needs nobody until the limit ends, and one without a place is nowhere to be found.

    Args:
        episodes: those that last.
        current: the key of the place that the person looks at; empty where they look at none.
    """
    ordered = sorted((one for one in episodes if needs_a_person(one)), key=lambda one: (one.began_at, one.id))
    at = next((number for number, one in enumerate(ordered, 1) if one.place_key == current), 0)
    return [*ordered[at:], *ordered[:at]]


def needs_a_person(episode: Episode) -> bool:
    """Whether somebody must go there for the episode to end."""
    return episode.kind not in {AttentionKind.LIMITED, AttentionKind.FINISHED} and bool(episode.place_key)


def kind_of_hold(cause: Cause) -> AttentionKind | None:
    """Which kind of episode tells a person the same as a wake that is held for this cause; None where none does."""
    if cause is Cause.WAITING_ON_APPROVAL:
        return AttentionKind.APPROVAL
    return AttentionKind.GONE if cause in {*_ENDED, Cause.NO_SUCH_PANE, Cause.NO_TMUX_SERVER} else None


def is_same_fact(episode: Episode, cause: Cause) -> bool:
    """Whether a wake of its identity that is held for this cause waits for the very same thing."""
    kind = AttentionKind.APPROVAL if episode.kind is AttentionKind.QUESTION else episode.kind
    return kind_of_hold(cause) is kind
