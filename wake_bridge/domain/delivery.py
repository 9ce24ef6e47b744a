"""The life of a delivery: states, legal moves, journal steps, holds, outcomes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.sessions import HOOK


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "PENDING"
    DISPATCHED = "DISPATCHED"
    LOCKED = "LOCKED"
    ESCALATED = "ESCALATED"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Nothing but the proof level ever changes again."""
        return self in {DeliveryState.DELIVERED, DeliveryState.FAILED}

    @property
    def is_frozen(self) -> bool:
        """The digest stands; no event may join."""
        return self not in {DeliveryState.PENDING, DeliveryState.DISPATCHED}


LEGAL_MOVES: Final = frozenset(
    {
        (DeliveryState.PENDING, DeliveryState.DISPATCHED),
        (DeliveryState.DISPATCHED, DeliveryState.LOCKED),
        (DeliveryState.LOCKED, DeliveryState.DISPATCHED),
        (DeliveryState.LOCKED, DeliveryState.DELIVERED),
        (DeliveryState.LOCKED, DeliveryState.FAILED),
        (DeliveryState.LOCKED, DeliveryState.ESCALATED),
        (DeliveryState.ESCALATED, DeliveryState.DELIVERED),
        (DeliveryState.ESCALATED, DeliveryState.FAILED),
    }
)
"""The eight legal moves; the other 28 pairs are refused."""


class Outcome(StrEnum):
    """How a delivery ended."""

    SUBMITTED = "submitted"
    ACKNOWLEDGED = "acknowledged"
    READ = "read"
    EMPTY = "empty"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Proof(IntEnum):
    """How far it was seen to get."""

    NONE = 0
    ACCEPTED = 1
    SUBMITTED = 2
    ACKNOWLEDGED = 3


class Step(StrEnum):
    """What the append-only journal records.

    Those up to `absent` are the attempt; the rest mark the delivery's own moves. A channel without a composer
    writes `absent` when its agent's own record proves that a wake which may have been sent never came in.
    """

    PROBED = "probed"
    HELD = "held"
    INTENT_STAGE = "intent_stage"
    STAGED = "staged"
    INTENT_SUBMIT = "intent_submit"
    SUBMITTED = "submitted"
    ACKED = "acked"
    REFUSED = "refused"
    ABSENT = "absent"
    SETTLED = "settled"
    OPENED = "opened"
    JOINED = "joined"
    DISPATCHED = "dispatched"
    LOCKED = "locked"
    RELEASED = "released"


class Progress(StrEnum):
    """How far an attempt can have got, judged from its journal alone."""

    UNTOUCHED = "untouched"
    MAYBE_STAGED = "maybe_staged"
    STAGED = "staged"
    MAYBE_SUBMITTED = "maybe_submitted"
    SUBMITTED = "submitted"


def progress_of(steps: Iterable[Step]) -> Progress:
    """Judge from the journal's steps, oldest first, what can have reached the target.

    A `refused` step takes back the intent right before it (tmux printed that its own condition refused) and nothing
    else: not what was seen to happen, and not an earlier intent that nobody refused. What may have been submitted is
    never taken for less by a text that is staged or seen to stand there, which may only not be drawn yet; an `absent` step, proof from the other end, takes back every intent to
    submit, also across a restart.
    """
    progress = before_submit = Progress.UNTOUCHED
    before_intent: Progress | None = None
    for step in steps:
        before, before_intent = before_intent, None
        match step:
            case Step.INTENT_STAGE:
                before_intent = progress
                if progress not in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
                    progress = Progress.MAYBE_STAGED
            case Step.STAGED if progress not in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
                progress = Progress.STAGED
            case Step.INTENT_SUBMIT if progress is not Progress.SUBMITTED:
                before_intent = progress
                before_submit = before_submit if progress is Progress.MAYBE_SUBMITTED else progress
                progress = Progress.MAYBE_SUBMITTED
            case Step.SUBMITTED:
                progress = Progress.SUBMITTED
            case Step.REFUSED if before is not None:
                progress = before
            case Step.ABSENT if progress is Progress.MAYBE_SUBMITTED:
                progress = before_submit
            case _:
                pass
    return progress


class HoldReason(StrEnum):
    """Why a delivery waits. Each has a remedy a person can act on."""

    ACTIVE = "active"
    WAITING_ON_APPROVAL = "waitingOnApproval"
    USER_TYPING = "userTyping"
    UNKNOWN = "unknown"
    COPY_MODE = "copy_mode"
    PANE_DEAD = "pane_dead"
    INPUT_OFF = "input_off"
    NO_AGENT = "no_agent"
    NOT_LOADED = "not_loaded"
    UNREACHABLE = "unreachable"
    AMBIGUOUS = "ambiguous"
    MOVED = "moved"
    STAGED = "staged"
    WINDOW = "window"
    BUSY_PANE = "busy_pane"
    REFRACTORY = "refractory"
    STORM = "storm"
    BUDGET = "budget"
    LOOP = "loop"
    QUIET_HOURS = "quiet_hours"
    PAUSED = "paused"
    BENCHED = "benched"
    OTHER_DRIVER = "other_driver"
    NO_ADAPTER = "no_adapter"
    ADAPTER_FAILED = "adapter_failed"
    GRAPH_AWAY = "graph_away"
    DRY_RUN = "dry_run"


REMEDIES: Final[dict[HoldReason, str]] = {
    HoldReason.ACTIVE: "nothing to do: the agent in {where} is working and will be woken when its turn ends",
    HoldReason.WAITING_ON_APPROVAL: "answer the dialog in {where}",
    HoldReason.USER_TYPING: "send or clear the text in the composer of {where}; if nobody typed it:"
    " `wake-bridge screens trust {target}`",
    HoldReason.UNKNOWN: "{where} does not show an agent at rest: close what is open there; `wake-bridge presence {identity}"
    " --explain` says what was seen",
    HoldReason.COPY_MODE: "{where} is in copy mode: press q there",
    HoldReason.PANE_DEAD: "the program in {where} has ended: start the agent again: `tmux respawn-pane -t {target}`, typed in that tmux",
    HoldReason.INPUT_OFF: "input to {where} is switched off: `tmux select-pane -e -t {target}`, typed in that tmux",
    HoldReason.NO_AGENT: "start the agent in {where}; its shell or another program has the terminal now",
    HoldReason.NOT_LOADED: "open the conversation of {identity} in its harness; `may_start_thread = true` in its [targets]"
    " table lets wake-bridge start it",
    HoldReason.UNREACHABLE: "open {where} again, or run `wake-bridge bind {identity}` inside the right pane, which"
    " binds it or says what to change in [targets]",
    HoldReason.AMBIGUOUS: "run `wake-bridge bind {identity}` inside the right pane, which binds it or says what to change in"
    " [targets]",
    HoldReason.MOVED: "run `wake-bridge bind {identity}` inside the right pane, or `wake-bridge setup --rebind`",
    HoldReason.STAGED: "our wake text stands unsent in {where}: send it or clear it there",
    HoldReason.WINDOW: "nothing to do: what else arrives within the window is told along with it",
    HoldReason.BUSY_PANE: "nothing to do: another writer holds {where} for the moment",
    HoldReason.REFRACTORY: "nothing to do: the pane rests after its last wake",
    HoldReason.STORM: "nothing to do: the pane rests after many wakes ({detail})",
    HoldReason.BUDGET: "the hourly or daily budget is spent ({detail}): `wake-bridge resume {identity}` lifts it",
    HoldReason.LOOP: "agents are waking each other without a person: `wake-bridge resume {identity}` lets them go on",
    HoldReason.QUIET_HOURS: "nothing to do: quiet hours end by themselves ({detail})",
    HoldReason.PAUSED: "`wake-bridge resume {identity}`",
    HoldReason.BENCHED: "the identity's participationStatus is not active: its owner changes that in the graph",
    HoldReason.OTHER_DRIVER: "an upstream wake daemon serves this directory: stop it, or give wake-bridge its own state_dir",
    HoldReason.NO_ADAPTER: "no adapter serves {identity}: name one that `wake-bridge adapters` lists in its [targets] entry or"
    " its subscription (`wake-bridge update ID --adapter NAME`), or enable its own and restart the daemon",
    HoldReason.ADAPTER_FAILED: "nothing to do: the attempt in {where} failed before anything was typed ({detail}) and is"
    " made again",
    HoldReason.DRY_RUN: "nothing to do: a dry run types nothing",
    HoldReason.GRAPH_AWAY: "nothing to do: the graph cannot be read at the moment",
}


WITH_REASON: Final[dict[HoldReason, str]] = {
    HoldReason.WAITING_ON_APPROVAL: "approval waiting in {where}: answer the dialog there",
    HoldReason.USER_TYPING: "unsent text in the composer of {where}: send it or clear it there; if nobody typed it:"
    " `wake-bridge screens trust {target}`",
}
"""For who does not hear the reason besides: the remedies that do not name it, with it. The others do."""

_SCROLLED: Final = (
    "the view in {where} is scrolled up: go back to its end there (Ctrl-End in Claude Code, Esc in Codex, Ctrl-Alt-G in"
    " OpenCode and Kilo, End in Copilot, Shift-Down in Vibe)"
)

_TRUST: Final = "if it is at rest all the same: `wake-bridge screens trust {target}`"

EXACT_REMEDIES: Final[dict[tuple[HoldReason, str], str]] = {
    (HoldReason.ACTIVE, "something moved between"): "nothing to do: {where} still moves and is looked at again soon",
    (HoldReason.ACTIVE, "moving"): "nothing to do: {where} still moves and is looked at again soon",
    (
        HoldReason.ACTIVE,
        "unread-input",
    ): "the program in {where} does not read its input: if that lasts, end it there and start it again",
    (HoldReason.USER_TYPING, "client-key"): "somebody is typing in {where}: leave its keyboard alone for a moment",
    (HoldReason.USER_TYPING, "session-touched"): "somebody is typing in {where}: leave its keyboard alone for a moment",
    (
        HoldReason.USER_TYPING,
        "shell-mode",
    ): "the composer of {where} is in shell mode, where text is run: leave it there",
    (
        HoldReason.UNKNOWN,
        "no-composer in composer: the screen is empty",
    ): "nothing to do: {where} shows nothing yet; its agent may still be starting",
    (HoldReason.UNKNOWN, "no-composer"): "no composer is to be seen in {where}: leave the menu or view that is open"
    " there; " + _TRUST,
    (HoldReason.UNKNOWN, "scrolled"): _SCROLLED,
    (HoldReason.UNKNOWN, "end-of-transcript"): _SCROLLED,
    (HoldReason.UNKNOWN, "transcript-browser"): "the transcript of {where} is being read: press Esc there",
    (HoldReason.UNKNOWN, "overlay"): "a view lies over the composer of {where}: press Esc there",
    (HoldReason.UNKNOWN, "cursor-elsewhere"): "the cursor of {where} is not in the composer: put it there",
    (HoldReason.UNKNOWN, "glyph-style"): "the prompt of {where} does not look as it does at rest; " + _TRUST,
    (HoldReason.UNKNOWN, "version"): "{where} runs a version that its strict profile does not know; " + _TRUST,
    (
        HoldReason.UNKNOWN,
        "synchronized",
    ): "keys for {where} go to every pane of its window: `tmux set-option -w -t {target} synchronize-panes off`, typed in that tmux",
    (HoldReason.UNKNOWN, "it may have been sent"): "nothing to do: whether {where} took it is looked for again",
    (
        HoldReason.UNKNOWN,
        "reconnecting",
    ): "the program in {where} has lost its server and looks for it: if that lasts, run `codex app-server daemon start`",
    (
        HoldReason.UNKNOWN,
        "conversation-lost",
    ): "the conversation in {where} has died with its server: start the agent there again",
    (HoldReason.UNKNOWN, "looks idle"): "nothing to do: {where} looks idle, and a second look follows",
    (HoldReason.UNKNOWN, "the last look is"): "nothing to do: {where} is looked at again",
    (HoldReason.UNKNOWN, "taken up again"): "nothing to do: {where} is looked at again",
    (HoldReason.NO_AGENT, "suspended"): "the agent in {where} is suspended: bring it back there with `fg`",
    (
        HoldReason.NO_AGENT,
        "no-profile",
    ): "correct `harness` in the [targets] table of {identity}: there is no such profile",
    (HoldReason.UNREACHABLE, "tmux is not"): "install tmux 3.2 or later, or start wake-bridge with a PATH that has it",
    (
        HoldReason.UNREACHABLE,
        "tmux did not",
    ): "tmux does not answer: see whether `tmux list-sessions` does in a terminal",
    (
        HoldReason.UNREACHABLE,
        "no tmux server",
    ): "start the agent in tmux, then run `wake-bridge bind {identity}` inside its pane; where it is in another tmux, name"
    " that in [adapters.tmux] and restart the daemon",
    (
        HoldReason.UNREACHABLE,
        "it is only seen",
    ): "`wake-bridge doctor` says what is missing to wake it there; or run `wake-bridge bind {identity}` inside its pane",
    (HoldReason.UNREACHABLE, "nothing says"): "run `wake-bridge bind {identity}` inside its pane, or subscribe it with"
    " --tmux PANE",
    (
        HoldReason.STAGED,
        "staged: pasted, but not seen",
    ): "nothing to do: {where} has not shown our text yet, and is looked at again",
    (
        HoldReason.MOVED,
        "the tmux server began anew",
    ): "run `wake-bridge setup --rebind`: it asks once for all who lives where",
    (
        HoldReason.MOVED,
        "[targets]",
    ): "correct `pane` in the [targets] table of {identity}, or run `wake-bridge setup --rebind`",
    (
        HoldReason.STAGED,
        "unreachable: no pane is called exactly",
    ): "open {where} again, or run `wake-bridge bind {identity}` inside the right pane: our wake text was left in one that is gone",
    (
        HoldReason.STAGED,
        "moved: [targets]",
    ): "correct `pane` in the [targets] table of {identity}, or run `wake-bridge setup --rebind`: our wake text was left in a"
    " pane that is gone",
    (
        HoldReason.STAGED,
        "moved",
    ): "run `wake-bridge bind {identity}` inside the right pane, or `wake-bridge setup --rebind`: our wake text was left in a"
    " pane that is gone",
    (HoldReason.OTHER_DRIVER, "another wake-bridge"): "stop one of the two: {detail}",
    (
        HoldReason.OTHER_DRIVER,
        "the pane's option",
    ): "`tmux set-option -p -u -t {target} @wake_bridge_driver`, for no daemon wrote what stands there",
    (
        HoldReason.OTHER_DRIVER,
        "the graph cannot be locked",
    ): "see what is the matter with the directory of locks: {detail}",
    (
        HoldReason.NO_ADAPTER,
        "no adapter serves the harnessTarget",
    ): "nobody pushes on this graph: `wake-bridge update ID --tmux PANE` has {identity} woken in its pane"
    " (`wake-bridge list {identity}` shows the ID)",
    (
        HoldReason.NO_ADAPTER,
        "every route",
    ): "nothing to do: each is asked again by itself; `wake-bridge doctor` says what failed",
    (
        HoldReason.NO_ADAPTER,
        "begun by",
    ): "the adapter that has begun it must look for it: enable it again and restart the daemon ({detail})",
    (HoldReason.PAUSED, "everybody is"): "`wake-bridge resume --all`",
    (HoldReason.PAUSED, "by itself"): "`wake-bridge resume {identity}` and `wake-bridge resume --all`",
}
"""More exact remedies, where the detail begins like that: with the name of what was seen, or the words for it."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A delivery waits: why, what was seen, what a person can do, when it is looked at again."""

    reason: HoldReason
    detail: str = ""
    where: str = ""
    next_look_at: Instant = EPOCH_START

    def remedy(self, identity: Identity) -> str:
        """What a person can do about it, one clause."""
        return self._spelled(self._exact or REMEDIES[self.reason], identity)

    def told(self, identity: Identity) -> str:
        """What is the matter, and what a person can do about it, one clause."""
        return self._spelled(self._exact or WITH_REASON.get(self.reason, REMEDIES[self.reason]), identity)

    @property
    def _exact(self) -> str:
        """The more exact remedy for what was seen; empty where there is none."""
        for (reason, start), words in EXACT_REMEDIES.items():
            if reason is self.reason and re.match(rf"{re.escape(start)}(?![\w-])", self.detail):
                return words
        return ""

    def _spelled(self, words: str, identity: Identity) -> str:
        return words.format(
            identity=identity,
            where=self.where or "the pane",
            target=shlex.quote(self.where) if self.where else "PANE",
            detail=self.detail or "it did not say",
        )


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of a delivery's journal."""

    at: Instant
    step: Step
    lease: int
    detail: dict[str, str]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One digest for one target. `due_at` only ever moves to an earlier instant."""

    id: str
    identity: Identity
    state: DeliveryState
    owner_lease: int
    created_at: Instant
    due_at: Instant
    hold: Hold | None = None
    digest: str = ""
    adapter: str = ""
    where: str = ""
    pane_key: str = ""
    attempts: int = 0
    outcome: Outcome | None = None
    proof: Proof = Proof.NONE
    settled_at: Instant | None = None
    lease_until: Instant | None = None

    @property
    def seen_in(self) -> str:
        """Where a person can look at it; empty for what a hook handed over, whose `where` names the moment in a turn."""
        return "" if self.adapter == HOOK else self.where

    @property
    def is_seen_late(self) -> bool:
        """Whether its outcome was unknown, and it was seen since that it had arrived."""
        return self.outcome is Outcome.UNKNOWN and self.proof >= Proof.SUBMITTED
