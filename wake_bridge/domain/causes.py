"""Why a wake waits, as values: one table of all causes, with what a person is told of each and what they can do.

A hold reason is the word of the contract (`holdReason`); a cause says more exactly what was met, so that the advice does not
hang on how somebody worded it. `why`, `status`, `deliveries`, `presence`, notices and docs/faults.md read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class HoldReason(StrEnum):
    """Why a delivery waits: the values of the contract."""

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


class Cause(StrEnum):
    """What exactly was met. The first of each reason is said where nothing more exact is known."""

    ACTIVE = "active"
    MOVING = "moving"
    UNREAD_INPUT = "unread-input"
    WAITING_ON_APPROVAL = "waitingOnApproval"
    USER_TYPING = "userTyping"
    CLIENT_KEY = "client-key"
    SESSION_TOUCHED = "session-touched"
    SHELL_MODE = "shell-mode"
    OTHER = "other"
    NOT_AT_REST = "not-at-rest"
    EMPTY_SCREEN = "empty-screen"
    NO_COMPOSER = "no-composer"
    SCROLLED = "scrolled"
    TRANSCRIPT = "transcript-browser"
    OVERLAY = "overlay"
    CURSOR_ELSEWHERE = "cursor-elsewhere"
    GLYPH_STYLE = "glyph-style"
    VERSION = "version"
    SYNCHRONIZED = "synchronized"
    MAYBE_SENT = "maybe-sent"
    PUSHED = "pushed"
    RECONNECTING = "reconnecting"
    CONVERSATION_LOST = "conversation-lost"
    ONE_LOOK = "one-look"
    OLD_LOOK = "old-look"
    TAKEN_UP_AGAIN = "taken-up-again"
    COPY_MODE = "copy_mode"
    PANE_DEAD = "pane_dead"
    INPUT_OFF = "input_off"
    NO_AGENT = "no_agent"
    SUSPENDED = "suspended"
    NO_PROFILE = "no-profile"
    NOT_LOADED = "not_loaded"
    UNREACHABLE = "unreachable"
    NO_TMUX = "no-tmux"
    TMUX_SILENT = "tmux-silent"
    NO_TMUX_SERVER = "no-tmux-server"
    NO_SUCH_PANE = "no-such-pane"
    ONLY_SEEN = "only-seen"
    NO_PLACE = "no-place"
    RECEIVER_SUSPENDED = "receiver-suspended"
    RECEIVER_DEGRADED = "receiver-degraded"
    RECEIVER_FORBIDDEN = "receiver-forbidden"
    NO_MCP_CLIENT = "no-mcp-client"
    PUSH_UNANSWERED = "push-unanswered"
    AMBIGUOUS = "ambiguous"
    MOVED = "moved"
    SERVER_BEGAN_ANEW = "server-began-anew"
    TARGET_MOVED = "target-moved"
    STAGED = "staged"
    NOT_YET_SHOWN = "not-yet-shown"
    LEFT_IN_NO_PANE = "left-in-no-pane"
    LEFT_BY_TARGET = "left-by-target"
    LEFT_BY_MOVE = "left-by-move"
    LEFT_BY_ADAPTER = "left-by-adapter"
    WINDOW = "window"
    BUSY_PANE = "busy_pane"
    REFRACTORY = "refractory"
    STORM = "storm"
    BUDGET = "budget"
    LOOP = "loop"
    QUIET_HOURS = "quiet_hours"
    PAUSED = "paused"
    ALL_PAUSED = "all-paused"
    BOTH_PAUSED = "both-paused"
    BENCHED = "benched"
    OTHER_DRIVER = "other_driver"
    ANOTHER_WAKE_BRIDGE = "another-wake-bridge"
    DRIVER_OPTION = "driver-option"
    GRAPH_NOT_LOCKED = "graph-not-locked"
    NO_ADAPTER = "no_adapter"
    NOBODY_PUSHES = "nobody-pushes"
    NOT_SUBSCRIBED = "not-subscribed"
    NOT_ACTIVE = "not-active"
    OWN_SERVER = "own-server"
    ALL_DEGRADED = "all-degraded"
    BEGUN_BY_ANOTHER = "begun-by-another"
    ADAPTER_FAILED = "adapter_failed"
    RECEIVER_FAILED = "receiver-failed"
    RECEIVER_REJECTED = "receiver-rejected"
    GRAPH_AWAY = "graph_away"
    DRY_RUN = "dry_run"


class Tell(StrEnum):
    """When a person is told of a hold without asking."""

    NEVER = "never"
    AT_ONCE = "at once"
    WHEN_IT_LASTS = "when it lasts"
    ONCE_FOR_ALL = "when it lasts, once for all agents"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a person can do about one cause, one clause; `{where}`, `{target}`, `{identity}` and `{detail}` are filled in.

    Attributes:
        text: without the words "nothing to do", which stand before it where no `person` is needed.
        person: whether it ends only when somebody does something.
        with_reason: for who does not hear the reason besides: the remedy that names it. Empty where `text` does.
        signs: the names by which evidence says it, as screen profiles and adapters call their rules.
        left: the cause while our text stands in the composer meanwhile; none where `staged` says enough.
        tell: another class of notice than the reason's.
    """

    text: str
    person: bool = True
    with_reason: str = ""
    signs: tuple[str, ...] = ()
    left: Cause | None = None
    tell: Tell | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """The causes of one hold reason, the general one first: `why` says the sentence of them all."""

    sentence: str
    tell: Tell
    causes: Mapping[Cause, Remedy]


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One line of the table."""

    reason: HoldReason
    sentence: str
    remedy: str
    with_reason: str
    tell: Tell
    signs: tuple[str, ...] = ()
    left: Cause | None = None


SHOWS_THE_ID: Final = " (`wake-bridge list {identity}` shows the ID)"
"""Stands after a remedy that names a subscription's ID, and is left out where the ID is known."""

_SCROLLED: Final = (
    "the view in {where} is scrolled up: go back to its end there (Ctrl-End in Claude Code, Esc in Codex, Ctrl-Alt-G in"
    " OpenCode and Kilo, End in Copilot, Shift-Down in Vibe)"
)
_TRUST: Final = "if the agent is idle all the same: `wake-bridge screens trust {target}`"
_LEAVE_THE_KEYBOARD: Final = "somebody is typing in {where}: leave its keyboard alone for a moment"
_IS_LOOKED_AT_AGAIN: Final = "wake-bridge looks at {where} again"
_OPEN_IT_AGAIN: Final = (
    "open {where} again, or run `wake-bridge bind {identity}` inside the right pane, which pins it or prints what"
    " to change in [targets]"
)
_BEGUN_BY_ANOTHER: Final = (
    "only the adapter that began this wake can look for it: enable it again and restart the daemon ({detail})"
)
_NOTHING_TO_DO: Final = "nothing to do: "

FAMILIES: Final[Mapping[HoldReason, Family]] = {
    HoldReason.ACTIVE: Family(
        "the agent in {where} is working",
        Tell.NEVER,
        {
            Cause.ACTIVE: Remedy("the agent in {where} is working and will be woken when its turn ends", person=False),
            Cause.MOVING: Remedy(
                "{where} is still changing; wake-bridge looks again soon", person=False, signs=("moving",)
            ),
            Cause.UNREAD_INPUT: Remedy(
                "the program in {where} does not read its input: if that lasts, restart it there",
                signs=("unread-input",),
            ),
        },
    ),
    HoldReason.WAITING_ON_APPROVAL: Family(
        "approval waiting in {where}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.WAITING_ON_APPROVAL: Remedy(
                "answer the dialog in {where}",
                with_reason="approval waiting in {where}: answer the dialog there",
            ),
        },
    ),
    HoldReason.USER_TYPING: Family(
        "somebody is typing in {where}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.USER_TYPING: Remedy(
                "send or clear the text in the composer of {where}; if nobody typed it:"
                " `wake-bridge screens trust {target}`",
                with_reason="unsent text in the composer of {where}: send it or clear it there; if nobody typed it:"
                " `wake-bridge screens trust {target}`",
            ),
            Cause.CLIENT_KEY: Remedy(_LEAVE_THE_KEYBOARD, signs=("client-key", "user-active")),
            Cause.SESSION_TOUCHED: Remedy(_LEAVE_THE_KEYBOARD, signs=("session-touched",)),
            Cause.SHELL_MODE: Remedy(
                "the composer of {where} is in shell mode, where text is run: leave it there", signs=("shell-mode",)
            ),
        },
    ),
    HoldReason.UNKNOWN: Family(
        "what {where} shows could not be recognised as idle{detail}",
        Tell.WHEN_IT_LASTS,
        {
            # what an adapter or a screen profile says that is none of ours, and what an older ledger kept
            Cause.OTHER: Remedy(
                "{where} does not show an idle agent: `wake-bridge presence {identity} --explain` shows what was seen,"
                " and by which rule; close that there, or correct the rule"
            ),
            Cause.NOT_AT_REST: Remedy(
                "{where} does not show an idle agent: close what is open there;"
                " `wake-bridge presence {identity} --explain` shows what was seen",
                signs=(
                    "agents-view",
                    "composer-of-another",
                    "multiline-mode",
                    "vim-normal",
                    "vim-normal-below",
                    "footer-commands",
                    "footer-context",
                    "footer-modes",
                    "gap-above-label",
                    "prompt-is-last",
                    "title-at-rest",
                    "title-of-no-fork",
                    "title-of-no-other",
                    "title-pi",
                    "title-ready",
                    "title-waiting-for-input",
                    "under-a-rule",
                    "composer-unreadable",
                    "thread-status",
                    "no-evidence",
                ),
            ),
            Cause.EMPTY_SCREEN: Remedy("{where} is still blank; the agent may be starting", person=False),
            Cause.NO_COMPOSER: Remedy(
                "no composer is visible in {where}: close the menu or view that is open there; " + _TRUST,
                signs=("no-composer",),
            ),
            Cause.SCROLLED: Remedy(_SCROLLED, signs=("scrolled", "end-of-transcript")),
            Cause.TRANSCRIPT: Remedy(
                "the transcript view is open in {where}: press Esc there", signs=("transcript-browser",)
            ),
            Cause.OVERLAY: Remedy("a view covers the composer of {where}: press Esc there", signs=("overlay",)),
            Cause.CURSOR_ELSEWHERE: Remedy(
                "the cursor of {where} is not in the composer: put it there", signs=("cursor-elsewhere",)
            ),
            Cause.GLYPH_STYLE: Remedy(
                "the prompt in {where} does not match the idle profile; " + _TRUST, signs=("glyph-style",)
            ),
            Cause.VERSION: Remedy(
                "{where} runs a version that its strict profile does not know; " + _TRUST, signs=("version",)
            ),
            Cause.SYNCHRONIZED: Remedy(
                "keys for {where} go to every pane of its window: `tmux set-option -w -t {target} synchronize-panes off`,"
                " typed in that tmux",
                signs=("synchronized",),
            ),
            Cause.MAYBE_SENT: Remedy("wake-bridge checks again whether it arrived in {where}", person=False),
            Cause.PUSHED: Remedy(
                "{where} was pushed the wake; if the agent does nothing within a minute, wake-bridge takes the next route",
                person=False,
            ),
            Cause.RECONNECTING: Remedy(
                "the program in {where} has lost its server and reconnects: if that lasts, run"
                " `codex app-server daemon start`",
                signs=("reconnecting",),
            ),
            Cause.CONVERSATION_LOST: Remedy(
                "the conversation in {where} was lost with its server: restart the agent there",
                signs=("conversation-lost",),
            ),
            Cause.ONE_LOOK: Remedy("{where} looks idle; a second look follows", person=False),
            Cause.OLD_LOOK: Remedy(_IS_LOOKED_AT_AGAIN, person=False),
            Cause.TAKEN_UP_AGAIN: Remedy(_IS_LOOKED_AT_AGAIN, person=False),
        },
    ),
    HoldReason.COPY_MODE: Family(
        "{where} is in copy mode",
        Tell.WHEN_IT_LASTS,
        {Cause.COPY_MODE: Remedy("{where} is in copy mode: press q there")},
    ),
    HoldReason.PANE_DEAD: Family(
        "the program in {where} has ended",
        Tell.WHEN_IT_LASTS,
        {
            Cause.PANE_DEAD: Remedy(
                "the program in {where} has ended: restart the agent: `tmux respawn-pane -t {target}`, typed in that tmux"
            ),
        },
    ),
    HoldReason.INPUT_OFF: Family(
        "input to {where} is switched off",
        Tell.WHEN_IT_LASTS,
        {
            Cause.INPUT_OFF: Remedy(
                "input to {where} is switched off: `tmux select-pane -e -t {target}`, typed in that tmux"
            ),
        },
    ),
    HoldReason.NO_AGENT: Family(
        "no agent has the terminal of {where}{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.NO_AGENT: Remedy("start the agent in {where}; its shell or another program has the terminal now"),
            Cause.SUSPENDED: Remedy(
                "the agent in {where} is suspended: bring it back there with `fg`", signs=("suspended",)
            ),
            Cause.NO_PROFILE: Remedy(
                "correct `harness` in the [targets] table of {identity}: there is no such profile",
                signs=("no-profile",),
            ),
        },
    ),
    HoldReason.NOT_LOADED: Family(
        "no harness has the conversation of {identity} open{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.NOT_LOADED: Remedy(
                "open the conversation of {identity} in its harness; `may_start_thread = true` in its [targets] table"
                " lets wake-bridge start it"
            ),
        },
    ),
    HoldReason.UNREACHABLE: Family(
        "{identity} cannot be found now{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.UNREACHABLE: Remedy(_OPEN_IT_AGAIN),
            Cause.NO_TMUX: Remedy("install tmux 3.2 or later, or start wake-bridge with a PATH that has it"),
            Cause.TMUX_SILENT: Remedy("tmux does not answer: check whether `tmux list-sessions` does in a terminal"),
            Cause.NO_TMUX_SERVER: Remedy(
                "start the agent in tmux, then run `wake-bridge bind {identity}` inside its pane; if it runs in another"
                " tmux, name that one in [adapters.tmux] and restart the daemon"
            ),
            Cause.NO_SUCH_PANE: Remedy(_OPEN_IT_AGAIN, left=Cause.LEFT_IN_NO_PANE),
            Cause.ONLY_SEEN: Remedy(
                "`wake-bridge doctor` shows what is missing to wake it there; or have its pane used:"
                " `wake-bridge update ID --adapter tmux`, then `wake-bridge bind {identity}` inside it"
            ),
            Cause.NO_PLACE: Remedy(
                "run `wake-bridge bind {identity}` inside its pane, or subscribe it with --tmux PANE"
            ),
            Cause.RECEIVER_SUSPENDED: Remedy(
                "the receiver {where} takes no wakes ({detail}); wake-bridge tries it again by itself, and"
                " `wake-bridge update ID --recover` tries it at once" + SHOWS_THE_ID,
                person=False,
            ),
            Cause.RECEIVER_DEGRADED: Remedy(
                "wake-bridge no longer tries the receiver {where} ({detail}): correct it, then run"
                " `wake-bridge update ID --recover`" + SHOWS_THE_ID,
                tell=Tell.AT_ONCE,
            ),
            Cause.RECEIVER_FORBIDDEN: Remedy(
                "wake-bridge does not post to the receiver {where}: {detail}; then restart the daemon"
            ),
            Cause.NO_MCP_CLIENT: Remedy(
                "start a client of {identity} that takes wakes from `wake-bridge mcp`, or give {identity} another way:"
                " `wake-bridge subscribe {identity} --tmux PANE`"
            ),
            Cause.PUSH_UNANSWERED: Remedy(
                "the MCP client of {identity} does not act on pushes ({detail}); once it does, run"
                " `wake-bridge update ID --recover`" + SHOWS_THE_ID
            ),
        },
    ),
    HoldReason.AMBIGUOUS: Family(
        "more than one pane could be {identity}{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.AMBIGUOUS: Remedy(
                "run `wake-bridge bind {identity}` inside the right pane, which pins it or prints what to change in [targets]"
            ),
        },
    ),
    HoldReason.MOVED: Family(
        "the pane of {identity} is gone, and its name may mean another agent{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.MOVED: Remedy(
                "run `wake-bridge bind {identity}` inside the right pane, or `wake-bridge setup --rebind`",
                left=Cause.LEFT_BY_MOVE,
            ),
            Cause.SERVER_BEGAN_ANEW: Remedy(
                "run `wake-bridge setup --rebind`: it asks once for the pane of each identity",
                left=Cause.LEFT_BY_MOVE,
                tell=Tell.ONCE_FOR_ALL,
            ),
            Cause.TARGET_MOVED: Remedy(
                "correct `pane` in the [targets] table of {identity}, or run `wake-bridge setup --rebind`",
                left=Cause.LEFT_BY_TARGET,
            ),
        },
    ),
    HoldReason.STAGED: Family(
        "its text is in {where}, not sent{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.STAGED: Remedy("our wake text is in the composer of {where}, not sent: send it or clear it there"),
            Cause.NOT_YET_SHOWN: Remedy(
                "{where} has not shown our text yet; wake-bridge looks again", person=False, left=Cause.NOT_YET_SHOWN
            ),
            Cause.LEFT_IN_NO_PANE: Remedy(
                "open {where} again, or run `wake-bridge bind {identity}` inside the right pane: our wake text was left in"
                " a pane that is gone"
            ),
            Cause.LEFT_BY_TARGET: Remedy(
                "correct `pane` in the [targets] table of {identity}, or run `wake-bridge setup --rebind`: our wake text"
                " was left in a pane that is gone"
            ),
            Cause.LEFT_BY_MOVE: Remedy(
                "run `wake-bridge bind {identity}` inside the right pane, or `wake-bridge setup --rebind`: our wake text"
                " was left in a pane that is gone"
            ),
            Cause.LEFT_BY_ADAPTER: Remedy(_BEGUN_BY_ANOTHER),
        },
    ),
    HoldReason.WINDOW: Family(
        "its window is open and collects further events",
        Tell.NEVER,
        {Cause.WINDOW: Remedy("events that arrive within the window join this wake", person=False)},
    ),
    HoldReason.BUSY_PANE: Family(
        "another writer holds {where}",
        Tell.NEVER,
        {Cause.BUSY_PANE: Remedy("another writer holds {where} for the moment", person=False)},
    ),
    HoldReason.REFRACTORY: Family(
        "{where} rests after its last wake{detail}",
        Tell.NEVER,
        {Cause.REFRACTORY: Remedy("the pane rests after its last wake", person=False)},
    ),
    HoldReason.STORM: Family(
        "{where} was woken too often{detail}",
        Tell.NEVER,
        {Cause.STORM: Remedy("the pane rests after many wakes ({detail})", person=False)},
    ),
    HoldReason.BUDGET: Family(
        "the budget is spent{detail}",
        Tell.AT_ONCE,
        {
            Cause.BUDGET: Remedy(
                "`wake-bridge resume {identity}` lifts it",
                with_reason="the hourly or daily budget is spent ({detail}): `wake-bridge resume {identity}` lifts it",
            ),
        },
    ),
    HoldReason.LOOP: Family(
        "agents wake each other without a person{detail}",
        Tell.AT_ONCE,
        {
            Cause.LOOP: Remedy(
                "`wake-bridge resume {identity}` lets them go on",
                with_reason="agents are waking each other without a person: `wake-bridge resume {identity}` lets them go on",
            ),
        },
    ),
    HoldReason.QUIET_HOURS: Family(
        "quiet hours{detail}",
        Tell.NEVER,
        {Cause.QUIET_HOURS: Remedy("quiet hours end by themselves ({detail})", person=False)},
    ),
    HoldReason.PAUSED: Family(
        "{identity} is paused{detail}",
        Tell.NEVER,
        {
            Cause.PAUSED: Remedy("`wake-bridge resume {identity}`"),
            Cause.ALL_PAUSED: Remedy("`wake-bridge resume --all`"),
            Cause.BOTH_PAUSED: Remedy("`wake-bridge resume {identity}` and `wake-bridge resume --all`"),
        },
    ),
    HoldReason.BENCHED: Family(
        "{identity} is benched{detail}",
        Tell.NEVER,
        {
            Cause.BENCHED: Remedy(
                "the identity's participationStatus is not active: its owner can change that in the graph"
            ),
        },
    ),
    HoldReason.OTHER_DRIVER: Family(
        "another wake daemon drives the same agents{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.OTHER_DRIVER: Remedy(
                "an upstream wake daemon serves this directory: stop it, or give wake-bridge its own state_dir"
            ),
            Cause.ANOTHER_WAKE_BRIDGE: Remedy("stop one of the two: {detail}"),
            Cause.DRIVER_OPTION: Remedy(
                "`tmux set-option -p -u -t {target} @wake_bridge_driver`: no daemon wrote what is there"
            ),
            Cause.GRAPH_NOT_LOCKED: Remedy("check the directory of locks: {detail}"),
        },
    ),
    HoldReason.NO_ADAPTER: Family(
        "no adapter serves {identity}{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.NO_ADAPTER: Remedy(
                "name an adapter that `wake-bridge adapters` lists in its [targets] entry or its subscription"
                " (`wake-bridge update ID --adapter NAME`), or enable its own and restart the daemon" + SHOWS_THE_ID,
                with_reason="no adapter serves {identity}: name one that `wake-bridge adapters` lists in its [targets] entry or"
                " its subscription (`wake-bridge update ID --adapter NAME`), or enable its own and restart the daemon"
                + SHOWS_THE_ID,
            ),
            Cause.NOBODY_PUSHES: Remedy(
                "nobody pushes on this graph: `wake-bridge update ID --tmux PANE` wakes {identity} in its pane"
                + SHOWS_THE_ID
            ),
            Cause.NOT_SUBSCRIBED: Remedy(
                "`wake-bridge subscribe {identity} --trigger SENT_TO_ME --tmux PANE`; until then mail for it waits in the"
                " inbox"
            ),
            Cause.NOT_ACTIVE: Remedy(
                "make it active again with `wake-bridge update ID --recover`, or subscribe {identity} anew"
                + SHOWS_THE_ID
            ),
            Cause.OWN_SERVER: Remedy("ask that server; `graph.serve` in the configuration would take it over"),
            Cause.ALL_DEGRADED: Remedy(
                "wake-bridge retries each route by itself; `wake-bridge doctor` shows what failed", person=False
            ),
            Cause.BEGUN_BY_ANOTHER: Remedy(_BEGUN_BY_ANOTHER, left=Cause.LEFT_BY_ADAPTER),
        },
    ),
    HoldReason.ADAPTER_FAILED: Family(
        "the last attempt failed{detail}",
        Tell.WHEN_IT_LASTS,
        {
            Cause.ADAPTER_FAILED: Remedy(
                "the attempt in {where} failed before anything was typed ({detail}); wake-bridge tries again",
                person=False,
            ),
            Cause.RECEIVER_FAILED: Remedy(
                "the receiver {where} did not take the wake ({detail}); wake-bridge sends it again with the same eventId",
                person=False,
            ),
            Cause.RECEIVER_REJECTED: Remedy(
                "the receiver {where} refuses the wake ({detail}): check its URL and what it accepts; wake-bridge sends the wake"
                " again, more and more rarely, for three days"
            ),
        },
    ),
    HoldReason.GRAPH_AWAY: Family(
        "the graph could not be read{detail}",
        Tell.WHEN_IT_LASTS,
        {Cause.GRAPH_AWAY: Remedy("the graph cannot be read at the moment; wake-bridge tries again", person=False)},
    ),
    HoldReason.DRY_RUN: Family(
        "a dry run decided and typed nothing",
        Tell.NEVER,
        {Cause.DRY_RUN: Remedy("a dry run types nothing", person=False)},
    ),
}


def _row(reason: HoldReason, family: Family, remedy: Remedy) -> CauseRow:
    text = remedy.text if remedy.person else _NOTHING_TO_DO + remedy.text
    return CauseRow(
        reason=reason,
        sentence=family.sentence,
        remedy=text,
        with_reason=remedy.with_reason or text,
        tell=remedy.tell or family.tell,
        signs=remedy.signs,
        left=remedy.left,
    )


TABLE: Final[Mapping[Cause, CauseRow]] = {
    cause: _row(reason, family, remedy)
    for reason, family in FAMILIES.items()
    for cause, remedy in family.causes.items()
}
"""All that is known of each cause."""

_GENERAL: Final[Mapping[HoldReason, Cause]] = {reason: next(iter(family.causes)) for reason, family in FAMILIES.items()}
_BY_SIGN: Final[Mapping[str, Cause]] = {sign: cause for cause, row in TABLE.items() for sign in row.signs}


def cause_of(reason: HoldReason, said: Cause = Cause.OTHER, rule: str = "") -> Cause:
    """The cause of a hold: the one that was `said`, else what the name of a `rule` means, else the reason's general one.

    What says nothing, or a cause of another reason, is an adapter of a third party, a profile of the user's own, or a
    ledger that was written before there were causes.
    """
    for one in (said, _BY_SIGN.get(rule, Cause.OTHER)):
        if one is not Cause.OTHER and TABLE[one].reason is reason:
            return one
    return _GENERAL[reason]


def cause_written(text: object) -> Cause:
    """The cause that a record names; `OTHER` where it names none that this version knows."""
    return next((one for one in Cause if one == text), Cause.OTHER)
