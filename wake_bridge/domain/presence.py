"""Presence: what is known about a target at one moment, fused from evidence.

Adapters report evidence; only `fuse` turns it into a state. Idle needs positive proof, any fresh veto wins, and
whatever is not known is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wake_bridge.domain.causes import Cause, HoldReason, cause_of
from wake_bridge.domain.names import AttentionKind, Instant, parse_instant
from wake_bridge.domain.values import dataclass

SAMPLES_APART: Final = 1500
"""Milliseconds between two agreeing samples before they prove idle (a streaming Codex can look idle for a second)."""


class PresenceState(StrEnum):
    """The five states, and no others."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    ACTIVE = "active"
    WAITING_ON_APPROVAL = "waitingOnApproval"
    USER_TYPING = "userTyping"


class PresenceSource(StrEnum):
    """Who says so."""

    CODEX_APP_SERVER = "codex-app-server"
    MCP_CLIENT = "mcp-client"
    A2A_WEBHOOK = "a2a-webhook"
    BRIDGE_DAEMON = "bridge-daemon"
    OS_UI_PROBE = "os-ui-probe"
    UNKNOWN = "unknown"
    CLAUDE_SESSION = "claude-session"
    OPENCODE_SERVER = "opencode-server"
    HARNESS_HOOK = "harness-hook"
    COPILOT_SERVER = "copilot-server"


_REASONS: Final = {
    PresenceState.ACTIVE: HoldReason.ACTIVE,
    PresenceState.WAITING_ON_APPROVAL: HoldReason.WAITING_ON_APPROVAL,
    PresenceState.USER_TYPING: HoldReason.USER_TYPING,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen, and which state it speaks for.

    `rule` names the profile rule or process fact, `region` where it was seen, `saw` the bytes or words themselves
    (shortened), `hold` the more exact reason when the state alone would say too little, `cause` what exactly it is where
    the rule's name does not tell. What does not weigh is only said: it neither proves nor vetoes. `attention` is what a
    person is to know of it, where the vote does not tell; such a sign of the last turn has in `text` all that the program
    printed of it, and in `wake_id` the wake whose text stands right above it, with nothing in between.
    """

    rule: str
    vote: PresenceState
    saw: str = ""
    region: str = ""
    source: PresenceSource = PresenceSource.BRIDGE_DAEMON
    hold: HoldReason | None = None
    weighs: bool = True
    cause: Cause = Cause.OTHER
    attention: AttentionKind | None = None
    text: str = ""
    wake_id: str = ""

    @property
    def reason(self) -> HoldReason:
        """The hold that it asks for."""
        return self.hold or _REASONS.get(self.vote, HoldReason.UNKNOWN)

    @property
    def why(self) -> Cause:
        """The cause of that hold."""
        return cause_of(self.reason, self.cause, self.rule)

    @property
    def told(self) -> str:
        """Rule, place and what was seen there, as a person reads it: `draft in composer: half a thought`."""
        place = f"{self.rule} in {self.region}" if self.region else self.rule
        return f"{place}: {self.saw}" if self.saw else place


@dataclass(frozen=True, slots=True)
class Observation:
    """All that one look at a target showed.

    `fingerprint` is equal for two looks between which nothing relevant moved; empty never agrees with anything.
    `is_proof` says that the harness's own control plane answered: what it says of itself needs no second look.
    `active_turn_id` is the running turn's, where it names one. `title` is what the program has called its window, where
    the surface tells.
    """

    at: Instant
    evidence: tuple[Evidence, ...]
    fingerprint: str = ""
    where: str = ""
    capabilities: tuple[str, ...] = ()
    is_proof: bool = False
    active_turn_id: str | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Presence:
    """What is known about one target at one moment. Older than `fresh_for_ms` it is not evidence.

    `wants_second_look` says that the latest look alone spoke for idle: another one soon may prove it. `decided_by` is
    what the state rests on: one of the evidence, or what two looks together came to.
    """

    state: PresenceState
    source: PresenceSource
    seen_at: Instant
    evidence: tuple[Evidence, ...] = ()
    hold: HoldReason | None = None
    detail: str = ""
    where: str = ""
    capabilities: tuple[str, ...] = ()
    active_turn_id: str | None = None
    wants_second_look: bool = False
    decided_by: Evidence | None = None

    @property
    def reason(self) -> HoldReason:
        """The hold that it asks for: the more exact one where the evidence has it."""
        return self.hold or _REASONS.get(self.state, HoldReason.UNKNOWN)

    @property
    def cause(self) -> Cause:
        """The cause of that hold."""
        return cause_of(self.reason, self.decided_by.why if self.decided_by else Cause.OTHER)

    def is_fresh(self, now: Instant, fresh_for_ms: int) -> bool:
        """Whether it is at most `fresh_for_ms` milliseconds old."""
        return now - self.seen_at <= fresh_for_ms


@dataclass(frozen=True, slots=True)
class Sighted:
    """What a watched place showed when it was last looked at, and since when it has shown that.

    `state` is what is proven; `looks_like` what the last look speaks for, taken alone; `adapter` whose look it was.
    """

    state: PresenceState
    looks_like: PresenceState
    since: Instant
    where: str
    adapter: str = ""


_VETO_ORDER: Final = (
    PresenceState.WAITING_ON_APPROVAL,
    PresenceState.USER_TYPING,
    PresenceState.ACTIVE,
    PresenceState.UNKNOWN,
)


def told_in_graph(said: Mapping[str, object], now: Instant, fresh_for_ms: int) -> Evidence | None:
    """What a HARNESS_PRESENCE row says, as evidence; None where it is not fresh, or no active row.

    What speaks against waking weighs. That an agent is idle, or that nobody knows, is only said.
    """
    seen_at = parse_instant(said.get("lastSeenAt"))
    if seen_at is None or abs(now - seen_at) > fresh_for_ms or said.get("status", "active") != "active":
        return None
    vote = next((one for one in PresenceState if one == said.get("state")), PresenceState.UNKNOWN)
    source = next((one for one in PresenceSource if one == said.get("source")), PresenceSource.UNKNOWN)
    weighs = vote in {PresenceState.ACTIVE, PresenceState.WAITING_ON_APPROVAL, PresenceState.USER_TYPING}
    return Evidence("harness-presence", vote, "a row of the graph says so", "graph", source, weighs=weighs)


def single_vote(evidence: tuple[Evidence, ...]) -> Evidence:
    """The evidence that decides one look taken alone.

    A hard fact (a dead pane, a shell, copy mode: evidence with `hold`) beats all, then a dialog, a draft, activity,
    doubt; idle only when nothing speaks against it. No evidence at all is unknown.
    """
    evidence = tuple(one for one in evidence if one.weighs)
    hard = [one for one in evidence if one.hold is not None and one.vote is PresenceState.UNKNOWN]
    if hard:
        return hard[0]
    for state in _VETO_ORDER:
        for one in evidence:
            if one.vote is state:
                return one
    for one in evidence:
        if one.vote is PresenceState.IDLE:
            return one
    return Evidence(rule="no-evidence", vote=PresenceState.UNKNOWN, source=PresenceSource.UNKNOWN)


def fuse(latest: Observation, earlier: Observation | None, now: Instant, fresh_for_ms: int) -> Presence:
    """Turn one look, and an older one to compare it with, into a presence.

    Idle stands only when both looks say so, agree in everything that could have moved, and lie at least
    `SAMPLES_APART` ms apart; a control plane's own word stands alone. Never raises.
    """

    def presence(state: PresenceState, decided_by: Evidence, detail: str, *, again: bool = False) -> Presence:
        return Presence(
            state=state,
            source=decided_by.source,
            seen_at=latest.at,
            evidence=latest.evidence,
            hold=decided_by.hold,
            detail=detail,
            where=latest.where,
            capabilities=latest.capabilities,
            active_turn_id=latest.active_turn_id,
            wants_second_look=again,
            decided_by=decided_by,
        )

    verdict = single_vote(latest.evidence)
    detail = verdict.told
    if now - latest.at > fresh_for_ms:
        return presence(
            PresenceState.UNKNOWN,
            Evidence("stale", PresenceState.UNKNOWN, saw=detail, cause=Cause.OLD_LOOK),
            "the last look is too old",
        )
    if verdict.vote is not PresenceState.IDLE:
        return presence(verdict.vote, verdict, detail)
    if latest.is_proof:
        return presence(PresenceState.IDLE, verdict, detail)
    if earlier is not None and (not latest.fingerprint or latest.fingerprint != earlier.fingerprint):
        moving = Evidence("still-moving", PresenceState.ACTIVE, cause=Cause.MOVING)
        return presence(PresenceState.ACTIVE, moving, "something moved between two looks", again=True)
    if (
        earlier is None
        or latest.at - earlier.at < SAMPLES_APART
        or single_vote(earlier.evidence).vote is not PresenceState.IDLE
    ):
        once = Evidence("one-look", PresenceState.UNKNOWN, cause=Cause.ONE_LOOK)
        return presence(PresenceState.UNKNOWN, once, "looks idle; a second look must agree", again=True)
    return presence(PresenceState.IDLE, verdict, detail)
