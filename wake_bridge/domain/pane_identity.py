"""Decides whether a pane that bears an identity's name is its own, after its remembered pane is lost. Pure.

A name is only how a pane was found: windows are renumbered, panes move up, and the name then means somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import Final

from wake_bridge.domain.causes import Cause
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.routing import Binding, Claim, RememberedPane
from wake_bridge.domain.values import dataclass

TOGETHER: Final = 10_000
"""Milliseconds in which two who live in one pane are both seen there: who left earlier did not lose it with the other."""


class PaneState(Enum):
    """How a remembered pane stands."""

    LIVES = "the agent is there"
    ASIDE = "the pane is there, and its agent lives without having the terminal, as after Ctrl-Z"
    EMPTY = "the pane is there, without an agent that may be the identity's"
    GONE = "the pane is gone"
    SERVER_ENDED = "its server has ended, and all panes with it"


class PaneMove(Enum):
    """Where the identity is then."""

    STAY = "in its remembered pane"
    GO = "where the name leads, if anywhere"
    HOLD = "nobody can tell"


@dataclass(frozen=True, slots=True)
class CandidatePane:
    """The pane that the name leads to now.

    `label` is what a person reads, `fence` the pane and its agent, `began` when that agent was started. `said_to_be`
    are the identities that the pane itself names, `named_by` those who may live where their own name leads, which is
    here, `could_be` those whose pane is closed as well, and for whom it may have been started just as well. `is_own`: a
    conversation that is known to be the identity's runs there.
    """

    label: str
    fence: Binding
    began: Instant
    said_to_be: frozenset[Identity] = frozenset()
    named_by: frozenset[Identity] = frozenset()
    could_be: frozenset[Identity] = frozenset()
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class PaneCase:
    """All that is known when a name is looked up. `may_be_confused`: after the server's end the name could be another's."""

    identity: Identity
    memory: RememberedPane
    home: PaneState
    candidate: CandidatePane | None
    claims: Sequence[Claim] = ()
    may_be_confused: bool = False

    @property
    def leads_to_an_agent(self) -> bool:
        """Whether the name leads to an agent in another pane than the remembered one."""
        found = self.candidate
        if found is None or found.fence.agent_pid == 0:
            return False
        return not _is_same_pane(found.fence, self.memory.fence, self.home)

    @property
    def is_own(self) -> bool:
        """Whether the identity's own conversation runs there."""
        return self.candidate is not None and self.candidate.is_own

    @property
    def owners(self) -> list[Identity]:
        """The others whose pane or agent it is, was, or could be."""
        found = self.candidate
        if found is None:
            return []
        owners = {one.identity for one in self.claims if _is_theirs(one, found.fence, self.home)}
        owners |= found.said_to_be
        if not found.is_own:
            owners |= found.named_by
        return sorted(owners - sharers(self.memory, self.claims, self.home) - {self.identity})

    @property
    def possible(self) -> list[Identity]:
        """The others it could be, who have lost their pane as well; after the server's end everybody has."""
        if self.candidate is None or self.home is PaneState.SERVER_ENDED:
            return []
        return sorted(self.candidate.could_be - sharers(self.memory, self.claims, self.home) - {self.identity})

    @property
    def was_there_before(self) -> bool:
        """Whether the agent ran beside the identity's own: then it is not the one that was started in its stead."""
        is_same_server = self.home is not PaneState.SERVER_ENDED
        return is_same_server and self.candidate is not None and self.candidate.began < self.memory.seen_at


@dataclass(frozen=True, slots=True)
class PaneRule:
    """One line of the table: when it applies, what follows, and why, in words that begin where the name leads."""

    applies: Callable[[PaneCase], bool]
    move: PaneMove
    why: Callable[[PaneCase], str] = lambda _: ""
    cause: Cause = Cause.MOVED


@dataclass(frozen=True, slots=True)
class PaneVerdict:
    """Where the identity is, and why nobody can tell."""

    move: PaneMove
    why: str = ""
    cause: Cause = Cause.MOVED


TABLE: Final = (
    PaneRule(lambda case: case.home is PaneState.LIVES, PaneMove.STAY),
    PaneRule(lambda case: case.home is PaneState.ASIDE and not case.is_own, PaneMove.STAY),
    PaneRule(lambda case: not case.leads_to_an_agent and case.home is PaneState.EMPTY, PaneMove.STAY),
    # whoever starts its agent there starts it in another one's pane
    PaneRule(
        lambda case: not case.leads_to_an_agent and bool(case.owners),
        PaneMove.HOLD,
        lambda case: f"{_leads(case)}, which is {case.owners[0]}'s",
    ),
    PaneRule(lambda case: not case.leads_to_an_agent, PaneMove.GO),
    PaneRule(
        lambda case: case.home is PaneState.SERVER_ENDED and case.may_be_confused and not case.is_own,
        PaneMove.HOLD,
        # one answer for all: no remembered pane outlives its server
        lambda case: f"the tmux server began anew, and {case.memory.name!r} may mean another agent now",
        Cause.SERVER_BEGAN_ANEW,
    ),
    PaneRule(
        lambda case: bool(case.owners), PaneMove.HOLD, lambda case: f"{_leads(case)}, which is {case.owners[0]}'s"
    ),
    PaneRule(lambda case: case.is_own, PaneMove.GO),
    PaneRule(
        lambda case: case.was_there_before,
        PaneMove.HOLD,
        lambda case: f"{_leads(case)}, whose agent was there before its own was gone",
    ),
    PaneRule(
        lambda case: bool(case.possible),
        PaneMove.HOLD,
        lambda case: f"{_leads(case)}, which may be {case.possible[0]}'s",
    ),
    PaneRule(lambda _: True, PaneMove.GO),
)
"""The first row that applies decides."""


def decide_pane(case: PaneCase) -> PaneVerdict:
    """Decide by the table."""
    row = next(row for row in TABLE if row.applies(case))
    return PaneVerdict(row.move, row.why(case), row.cause)


def already_lives_there(
    identity: Identity, now: Binding, claims: Sequence[Claim], named_here: Collection[Identity]
) -> Identity | None:
    """Whose agent it is or was to which a name leads for the first time; None where it may be the identity's.

    `named_here` are those whose names lead to the pane, too: they share it on purpose, and so does who had that very
    agent before.
    """
    holders = {one.identity for one in claims if one.fence is not None and one.fence.has_agent_of(now)}
    if identity in holders:
        return None
    return min(holders.difference(named_here), default=None)


def who_lives_in(now: Binding, claims: Iterable[Claim]) -> set[Identity]:
    """Whose pane, or agent, it is now."""
    return {one.identity for one in claims if one.until is None and _is_theirs(one, now, PaneState.LIVES)}


def sharers(memory: RememberedPane, claims: Iterable[Claim], home: PaneState) -> set[Identity]:
    """Those who share the place on purpose: they were in the pane as long as the identity was, or have its name and no pane.

    Who has the name and was found or bound elsewhere lives there alone, and so does who has moved out.
    """
    claims, lost_at = list(claims), max(memory.since, memory.seen_at - TOGETHER)
    settled = {one.identity for one in claims if one.fence is not None and one.until is None}
    named = {one.identity for one in claims if one.name and (one.name, one.socket) == (memory.name, memory.socket)}
    lived = {
        one.identity
        for one in claims
        if one.fence is not None
        and _is_same_pane(one.fence, memory.fence, home)
        and (one.until is None or one.until >= lost_at)
    }
    return (named - settled) | lived


def _is_theirs(claim: Claim, now: Binding, home: PaneState) -> bool:
    fence = claim.fence
    return fence is not None and (fence.has_agent_of(now) or (claim.until is None and _is_same_pane(fence, now, home)))


def _is_same_pane(one: Binding, other: Binding, home: PaneState) -> bool:
    """As `has_pane_of`; but after a server's end the next one may have its pid, as in a container, and the same ids."""
    is_same_process = (one.pane_pid, one.pane_started) == (other.pane_pid, other.pane_started)
    return one.has_pane_of(other) and (home is not PaneState.SERVER_ENDED or is_same_process)


def _leads(case: PaneCase) -> str:
    label = case.candidate.label if case.candidate is not None else ""
    return f"{case.memory.name!r} leads to {label} now"
