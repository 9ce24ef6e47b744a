"""Why a wake waits, as values: one declaration for each cause, with what a person is told of it and what they can do.

A hold reason is the word of the contract (`holdReason`); a cause says more exactly what was met, so that the advice does not
hang on how somebody worded it. `why`, `status`, `deliveries`, `presence`, notices and docs/faults.md read these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

from wake_bridge.domain.values import dataclass


class Tell(StrEnum):
    """When a person is told of a hold without asking."""

    NEVER = "never"
    AT_ONCE = "at once"
    WHEN_IT_LASTS = "when it lasts"
    ONCE_FOR_ALL = "when it lasts, once for all agents"


class HoldReason(StrEnum):
    """Why a delivery waits: the values of the contract.

    Attributes:
        sentence: what `why` says of all its causes; `{where}`, `{identity}` and `{detail}` are filled in.
        tell: when a person is told of it without asking.
    """

    sentence: str
    tell: Tell

    def __new__(cls, value: str, sentence: str = "", tell: Tell = Tell.WHEN_IT_LASTS) -> Self:
        """A reason with its words."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence, member.tell = sentence, tell
        return member

    ACTIVE = "active", "the agent in {where} is working", Tell.NEVER
    WAITING_ON_APPROVAL = "waitingOnApproval", "approval waiting in {where}"
    USER_TYPING = "userTyping", "somebody is typing in {where}"
    UNKNOWN = "unknown", "what {where} shows could not be recognised as idle{detail}"
    COPY_MODE = "copy_mode", "{where} is in copy mode"
    PANE_DEAD = "pane_dead", "the program in {where} has ended"
    INPUT_OFF = "input_off", "input to {where} is switched off"
    NO_AGENT = "no_agent", "no agent has the terminal of {where}{detail}"
    NOT_LOADED = "not_loaded", "no harness has the conversation of {identity} open{detail}"
    UNREACHABLE = "unreachable", "{identity} cannot be found now{detail}"
    AMBIGUOUS = "ambiguous", "more than one pane could be {identity}{detail}"
    MOVED = "moved", "the pane of {identity} is gone, and its name may mean another agent{detail}"
    STAGED = "staged", "its text is in {where}, not sent{detail}"
    WINDOW = "window", "its window is open and collects further events", Tell.NEVER
    BUSY_PANE = "busy_pane", "another writer holds {where}", Tell.NEVER
    REFRACTORY = "refractory", "{where} rests after its last wake{detail}", Tell.NEVER
    STORM = "storm", "{where} was woken too often{detail}", Tell.NEVER
    BUDGET = "budget", "the budget is spent{detail}", Tell.AT_ONCE
    LOOP = "loop", "agents wake each other without a person{detail}", Tell.AT_ONCE
    QUIET_HOURS = "quiet_hours", "quiet hours{detail}", Tell.NEVER
    PAUSED = "paused", "{identity} is paused{detail}", Tell.NEVER
    BENCHED = "benched", "{identity} is benched{detail}", Tell.NEVER
    OTHER_DRIVER = "other_driver", "another wake daemon drives the same agents{detail}"
    NO_ADAPTER = "no_adapter", "no adapter serves {identity}{detail}"
    ADAPTER_FAILED = "adapter_failed", "the last attempt failed{detail}"
    GRAPH_AWAY = "graph_away", "the graph could not be read{detail}"
    OTHER_HOST = "other_host", "another host serves {identity}{detail}", Tell.NEVER
    HOST_AWAY = "host_away", "{where}, where {identity} lives, cannot be reached{detail}"
    DRY_RUN = "dry_run", "a dry run decided and typed nothing", Tell.NEVER
    LIMITED = "limited", "the model does not answer the agent in {where}{detail}", Tell.NEVER  # its episode is told
    AWAITING_ACK = "awaiting_ack", "{identity} has the wake and has to answer{detail}", Tell.NEVER


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a person can do about one cause, one clause; `{where}`, `{target}`, `{identity}` and `{detail}` are filled in.

    Attributes:
        value: the cause's word in records.
        reason: the hold reason that the cause belongs to.
        text: begins with "nothing to do" where it ends by itself.
        lead: stands before the text for who does not hear the reason besides. Empty where the text names it.
        signs: other names by which evidence says it, as screen profiles and adapters call their rules, with a space between.
        tell: another class of notice than the reason's.
    """

    value: str
    reason: HoldReason
    text: str
    lead: str = ""
    signs: str = ""
    tell: Tell | None = None


def general(reason: HoldReason, text: str, lead: str = "") -> Remedy:
    """What is said of a reason where nothing more exact is known; its cause has the reason's word."""
    return Remedy(reason.value, reason, text, lead)


SHOWS_THE_ID: Final = " (`wake-bridge list {identity}` shows the ID)"
"""Stands after a remedy that names a subscription's ID, and is left out where the ID is known."""

_SCROLLED: Final = (
    "the view in {where} is scrolled up: go back to its end there (Ctrl-End in Claude Code, Esc in Codex, Ctrl-Alt-G in"
    " OpenCode and Kilo, End in Copilot, Shift-Down in Vibe)"
)
_TRUST: Final = "if the agent is idle all the same: `wake-bridge screens trust {target}`"
_LEAVE_THE_KEYBOARD: Final = "somebody is typing in {where}: leave its keyboard alone for a moment"
_IS_LOOKED_AT_AGAIN: Final = "nothing to do: wake-bridge looks at {where} again"
_BEGUN_BY_ANOTHER: Final = (
    "only the adapter that began this wake can look for it: enable it again and restart the daemon ({detail})"
)
_BIND_AGAIN: Final = "run `wake-bridge bind {identity}` inside the right pane, or `wake-bridge setup --rebind`"
_CORRECT_THE_TARGET: Final = "correct `pane` in the [targets] table of {identity}, or run `wake-bridge setup --rebind`"
_LEFT: Final = ": our wake text was left in a pane that is gone"


class Cause(StrEnum):
    """What exactly was met.

    `remedy` is its row's text, `alone` the same with the lead; `signs` are all names by which evidence says it.
    """

    reason: HoldReason
    remedy: str
    alone: str
    tell: Tell
    signs: tuple[str, ...]

    def __new__(cls, row: Remedy) -> Self:
        """A cause with what is known of it."""
        member = str.__new__(cls, row.value)
        member._value_ = row.value
        member.reason, member.remedy = row.reason, row.text
        member.alone = f"{row.lead}: {row.text}" if row.lead else row.text
        member.tell = row.tell or row.reason.tell
        member.signs = (row.value, *row.signs.split())
        return member

    ACTIVE = general(
        HoldReason.ACTIVE, "nothing to do: the agent in {where} is working and will be woken when its turn ends"
    )
    MOVING = Remedy(
        "moving", HoldReason.ACTIVE, "nothing to do: {where} is still changing; wake-bridge looks again soon"
    )
    UNREAD_INPUT = Remedy(
        "unread-input",
        HoldReason.ACTIVE,
        "the program in {where} does not read its input: if that lasts, restart it there",
    )

    WAITING_ON_APPROVAL = general(
        HoldReason.WAITING_ON_APPROVAL, "answer the dialog in {where}", lead="approval waiting"
    )

    USER_TYPING = general(
        HoldReason.USER_TYPING,
        "send or clear the text in the composer of {where}; if nobody typed it: `wake-bridge screens trust {target}`",
    )
    CLIENT_KEY = Remedy("client-key", HoldReason.USER_TYPING, _LEAVE_THE_KEYBOARD, signs="user-active")
    SESSION_TOUCHED = Remedy("session-touched", HoldReason.USER_TYPING, _LEAVE_THE_KEYBOARD)
    SHELL_MODE = Remedy(
        "shell-mode",
        HoldReason.USER_TYPING,
        "the composer of {where} is in shell mode, which runs text as a command: leave that mode there",
    )

    # what an adapter or a screen profile says that is none of ours, and what an older ledger kept
    OTHER = Remedy(
        "other",
        HoldReason.UNKNOWN,
        "{where} does not show an idle agent: `wake-bridge presence {identity} --explain` shows what was seen and by"
        " which rule; close that in the pane, or correct the rule",
    )
    NOT_AT_REST = Remedy(
        "not-at-rest",
        HoldReason.UNKNOWN,
        "{where} does not show an idle agent: close what is open there; `wake-bridge presence {identity} --explain`"
        " shows what was seen",
        signs="agents-view composer-of-another multiline-mode vim-normal vim-normal-below footer-commands"
        " footer-context footer-mode footer-modes footer-notice footer-shortcuts gap-above-label heading no-blank-row"
        " prompt-is-last title-at-rest title-of-no-fork"
        " title-of-no-other title-pi title-ready title-waiting-for-input under-a-rule composer-unreadable"
        " thread-status no-evidence",
    )
    EMPTY_SCREEN = Remedy(
        "empty-screen", HoldReason.UNKNOWN, "nothing to do: {where} is still blank; the agent may be starting"
    )
    NO_COMPOSER = Remedy(
        "no-composer",
        HoldReason.UNKNOWN,
        "no composer is visible in {where}: close the menu or view that is open there; " + _TRUST,
    )
    TOO_SMALL = Remedy(
        "pane-too-small",
        HoldReason.UNKNOWN,
        "{where} is too small for the agent there to show its composer: enlarge it",
    )
    SCROLLED = Remedy("scrolled", HoldReason.UNKNOWN, _SCROLLED, signs="end-of-transcript")
    TRANSCRIPT = Remedy(
        "transcript-browser", HoldReason.UNKNOWN, "the transcript view is open in {where}: press Esc there"
    )
    OVERLAY = Remedy("overlay", HoldReason.UNKNOWN, "a view covers the composer of {where}: press Esc there")
    CURSOR_ELSEWHERE = Remedy(
        "cursor-elsewhere", HoldReason.UNKNOWN, "the cursor in {where} is outside the composer: move it there"
    )
    GLYPH_STYLE = Remedy(
        "glyph-style", HoldReason.UNKNOWN, "the prompt in {where} does not match the idle profile; " + _TRUST
    )
    VERSION = Remedy(
        "version", HoldReason.UNKNOWN, "{where} runs a version that its strict profile does not know; " + _TRUST
    )
    SYNCHRONIZED = Remedy(
        "synchronized",
        HoldReason.UNKNOWN,
        "keys for {where} go to every pane of its window: `tmux set-option -w -t {target} synchronize-panes off`,"
        " typed in that tmux",
    )
    MAYBE_SENT = Remedy(
        "maybe-sent", HoldReason.UNKNOWN, "nothing to do: wake-bridge checks again whether it arrived in {where}"
    )
    PUSHED = Remedy(
        "pushed",
        HoldReason.UNKNOWN,
        "nothing to do: {where} was pushed the wake; if the agent does nothing within a minute, wake-bridge takes the next route",
    )
    STARTING = Remedy(
        "starting",
        HoldReason.UNKNOWN,
        "nothing to do: the program in {where} has no session yet; wake-bridge looks again",
    )
    RECONNECTING = Remedy(
        "reconnecting",
        HoldReason.UNKNOWN,
        "the program in {where} has lost its server and reconnects: if that lasts, run `codex app-server daemon start`",
    )
    CONVERSATION_LOST = Remedy(
        "conversation-lost",
        HoldReason.UNKNOWN,
        "the conversation in {where} was lost with its server: restart the agent there",
    )
    ONE_LOOK = Remedy("one-look", HoldReason.UNKNOWN, "nothing to do: {where} looks idle; a second look follows")
    OLD_LOOK = Remedy("old-look", HoldReason.UNKNOWN, _IS_LOOKED_AT_AGAIN)
    TAKEN_UP_AGAIN = Remedy("taken-up-again", HoldReason.UNKNOWN, _IS_LOOKED_AT_AGAIN)

    COPY_MODE = general(HoldReason.COPY_MODE, "{where} is in copy mode: press q there")
    PANE_DEAD = general(
        HoldReason.PANE_DEAD,
        "the program in {where} has ended: restart the agent: `tmux respawn-pane -t {target}`, typed in that tmux",
    )
    INPUT_OFF = general(
        HoldReason.INPUT_OFF, "input to {where} is switched off: `tmux select-pane -e -t {target}`, typed in that tmux"
    )

    NO_AGENT = general(
        HoldReason.NO_AGENT, "start the agent in {where}; its shell or another program has the terminal now"
    )
    SUSPENDED = Remedy(
        "suspended", HoldReason.NO_AGENT, "the agent in {where} is suspended: bring it back there with `fg`"
    )
    HIDDEN_BY_CARRIER = Remedy(
        "hidden-by-carrier",
        HoldReason.NO_AGENT,
        "say in the [targets] table of {identity} which agent is behind the program in {where} ({detail})",
    )
    ON_ANOTHER_HOST = Remedy(
        "on-another-host",
        HoldReason.NO_AGENT,
        "run wake-bridge on the host that {where} is connected to, then link that host here ({detail})",
    )
    OWN_PANES = Remedy(
        "own-panes",
        HoldReason.NO_AGENT,
        "{where} shows another tmux: run `wake-bridge bind {identity}` inside the agent's own pane, which pins it or prints"
        " what to change in [targets]",
    )
    NO_PROFILE = Remedy(
        "no-profile",
        HoldReason.NO_AGENT,
        "correct `harness` in the [targets] table of {identity}: there is no such profile",
    )

    NOT_LOADED = general(
        HoldReason.NOT_LOADED,
        "open the conversation of {identity} in its harness; `may_start_thread = true` in its [targets] table lets"
        " wake-bridge start it",
    )

    UNREACHABLE = general(
        HoldReason.UNREACHABLE,
        "start its agent again, then run `wake-bridge bind {identity}` inside its pane, which pins it or prints what to"
        " change in [targets]",
        lead="{identity} cannot be found now ({detail})",
    )
    NO_TMUX = Remedy(
        "no-tmux", HoldReason.UNREACHABLE, "install tmux 3.2 or later, or start wake-bridge with a PATH that has it"
    )
    TMUX_SILENT = Remedy(
        "tmux-silent",
        HoldReason.UNREACHABLE,
        "tmux does not answer: check whether `tmux list-sessions` does in a terminal",
    )
    NO_TMUX_SERVER = Remedy(
        "no-tmux-server",
        HoldReason.UNREACHABLE,
        "start the agent in tmux, then run `wake-bridge bind {identity}` inside its pane; if it runs in another"
        " tmux, name that one in [adapters.tmux] and restart the daemon",
    )
    NO_SUCH_PANE = Remedy(
        "no-such-pane",
        HoldReason.UNREACHABLE,
        "open {where} again, or run `wake-bridge bind {identity}` inside the right pane, which pins it or prints what"
        " to change in [targets]",
    )
    ONLY_SEEN = Remedy(
        "only-seen",
        HoldReason.UNREACHABLE,
        "`wake-bridge doctor` shows what is missing to wake it there; to wake it in its pane instead: `wake-bridge"
        " update ID --adapter tmux`, then `wake-bridge bind {identity}` inside the pane",
    )
    NO_PLACE = Remedy(
        "no-place",
        HoldReason.UNREACHABLE,
        "run `wake-bridge bind {identity}` inside its pane, or subscribe it with --tmux PANE",
    )
    RECEIVER_SUSPENDED = Remedy(
        "receiver-suspended",
        HoldReason.UNREACHABLE,
        "nothing to do: the receiver {where} takes no wakes ({detail}); wake-bridge tries it again by itself,"
        " and `wake-bridge update ID --recover` tries it at once" + SHOWS_THE_ID,
    )
    RECEIVER_DEGRADED = Remedy(
        "receiver-degraded",
        HoldReason.UNREACHABLE,
        "wake-bridge no longer tries the receiver {where} ({detail}): correct it, then run `wake-bridge"
        " update ID --recover`" + SHOWS_THE_ID,
        tell=Tell.AT_ONCE,
    )
    RECEIVER_FORBIDDEN = Remedy(
        "receiver-forbidden",
        HoldReason.UNREACHABLE,
        "wake-bridge does not post to the receiver {where}: {detail}; then restart the daemon",
    )
    NO_MCP_CLIENT = Remedy(
        "no-mcp-client",
        HoldReason.UNREACHABLE,
        "start a client of {identity} that takes wakes from `wake-bridge mcp`, or give {identity} another way:"
        " `wake-bridge subscribe {identity} --tmux PANE`",
    )
    PUSH_UNANSWERED = Remedy(
        "push-unanswered",
        HoldReason.UNREACHABLE,
        "the MCP client of {identity} does not act on pushes ({detail}); once it does, run"
        " `wake-bridge update ID --recover`" + SHOWS_THE_ID,
    )

    AMBIGUOUS = general(
        HoldReason.AMBIGUOUS,
        "run `wake-bridge bind {identity}` inside the right pane, which pins it or prints what to change in [targets]",
    )

    MOVED = general(HoldReason.MOVED, _BIND_AGAIN)
    SERVER_BEGAN_ANEW = Remedy(
        "server-began-anew",
        HoldReason.MOVED,
        "run `wake-bridge setup --rebind`: it asks once for the pane of each identity",
        tell=Tell.ONCE_FOR_ALL,
    )
    TARGET_MOVED = Remedy("target-moved", HoldReason.MOVED, _CORRECT_THE_TARGET)

    STAGED = general(
        HoldReason.STAGED, "our wake text is in the composer of {where}, not sent: send it or clear it there"
    )
    NOT_YET_SHOWN = Remedy(
        "not-yet-shown", HoldReason.STAGED, "nothing to do: {where} has not shown our text yet; wake-bridge looks again"
    )
    LEFT_IN_NO_PANE = Remedy(
        "left-in-no-pane",
        HoldReason.STAGED,
        "open {where} again, or run `wake-bridge bind {identity}` inside the right pane" + _LEFT,
    )
    LEFT_BY_TARGET = Remedy("left-by-target", HoldReason.STAGED, _CORRECT_THE_TARGET + _LEFT)
    LEFT_BY_MOVE = Remedy("left-by-move", HoldReason.STAGED, _BIND_AGAIN + _LEFT)
    LEFT_BY_ADAPTER = Remedy("left-by-adapter", HoldReason.STAGED, _BEGUN_BY_ANOTHER)
    LEFT_TO_HOST = Remedy(
        "left-to-host",
        HoldReason.STAGED,
        "clear our wake text from the composer of {where} and do not send it: another host serves {identity} now, and tells it"
        " of this ({detail})",
    )

    WINDOW = general(HoldReason.WINDOW, "nothing to do: events that arrive within the window join this wake")
    BUSY_PANE = general(HoldReason.BUSY_PANE, "nothing to do: another writer holds {where} for the moment")
    REFRACTORY = general(HoldReason.REFRACTORY, "nothing to do: the pane rests after its last wake")
    STORM = general(HoldReason.STORM, "nothing to do: the pane rests after many wakes ({detail})")
    BUDGET = general(
        HoldReason.BUDGET,
        "`wake-bridge resume {identity}` lifts it",
        lead="the hourly or daily budget is spent ({detail})",
    )
    LOOP = general(
        HoldReason.LOOP,
        "`wake-bridge resume {identity}` lets them go on",
        lead="agents are waking each other without a person",
    )
    QUIET_HOURS = general(HoldReason.QUIET_HOURS, "nothing to do: quiet hours end by themselves ({detail})")

    PAUSED = general(HoldReason.PAUSED, "`wake-bridge resume {identity}`")
    ALL_PAUSED = Remedy("all-paused", HoldReason.PAUSED, "`wake-bridge resume --all`")
    BOTH_PAUSED = Remedy(
        "both-paused", HoldReason.PAUSED, "`wake-bridge resume {identity}` and `wake-bridge resume --all`"
    )

    BENCHED = general(
        HoldReason.BENCHED, "the identity's participationStatus is not active: its owner can change that in the graph"
    )

    OTHER_DRIVER = general(
        HoldReason.OTHER_DRIVER,
        "an upstream wake daemon serves this directory: stop it, or give wake-bridge its own state_dir",
    )
    ANOTHER_WAKE_BRIDGE = Remedy("another-wake-bridge", HoldReason.OTHER_DRIVER, "stop one of the two: {detail}")
    DRIVER_OPTION = Remedy(
        "driver-option",
        HoldReason.OTHER_DRIVER,
        "no daemon wrote the value of @wake_bridge_driver in {where}: remove it with `tmux set-option -p -u -t"
        " {target} @wake_bridge_driver`",
    )
    GRAPH_NOT_LOCKED = Remedy("graph-not-locked", HoldReason.OTHER_DRIVER, "check the directory of locks: {detail}")

    NO_ADAPTER = general(
        HoldReason.NO_ADAPTER,
        "name an adapter that `wake-bridge adapters` lists in its [targets] entry or its subscription"
        " (`wake-bridge update ID --adapter NAME`), or enable its own adapter and restart the daemon" + SHOWS_THE_ID,
        lead="no adapter serves {identity}",
    )
    NOBODY_PUSHES = Remedy(
        "nobody-pushes",
        HoldReason.NO_ADAPTER,
        "no server of this graph pushes wakes: `wake-bridge update ID --tmux PANE` wakes {identity} in its pane"
        + SHOWS_THE_ID,
    )
    NOT_SUBSCRIBED = Remedy(
        "not-subscribed",
        HoldReason.NO_ADAPTER,
        "`wake-bridge subscribe {identity} --trigger SENT_TO_ME --tmux PANE`; until then mail for it waits in the"
        " inbox",
    )
    NOT_ACTIVE = Remedy(
        "not-active",
        HoldReason.NO_ADAPTER,
        "make it active again with `wake-bridge update ID --recover`, or subscribe {identity} anew" + SHOWS_THE_ID,
    )
    OWN_SERVER = Remedy(
        "own-server",
        HoldReason.NO_ADAPTER,
        "ask that server; `graph.serve` in the configuration lets wake-bridge take it over",
    )
    ALL_DEGRADED = Remedy(
        "all-degraded",
        HoldReason.NO_ADAPTER,
        "nothing to do: wake-bridge retries each route by itself; `wake-bridge doctor` shows what failed",
    )
    BEGUN_BY_ANOTHER = Remedy("begun-by-another", HoldReason.NO_ADAPTER, _BEGUN_BY_ANOTHER)

    ADAPTER_FAILED = general(
        HoldReason.ADAPTER_FAILED,
        "nothing to do: the attempt in {where} failed before anything was typed ({detail}); wake-bridge tries again",
    )
    RECEIVER_FAILED = Remedy(
        "receiver-failed",
        HoldReason.ADAPTER_FAILED,
        "nothing to do: the receiver {where} did not take the wake ({detail}); wake-bridge sends it again with the"
        " same eventId",
    )
    RECEIVER_REJECTED = Remedy(
        "receiver-rejected",
        HoldReason.ADAPTER_FAILED,
        "the receiver {where} refuses the wake ({detail}): check its URL and what it accepts; wake-bridge sends the"
        " wake again, more and more rarely, for three days",
    )

    GRAPH_AWAY = general(
        HoldReason.GRAPH_AWAY, "nothing to do: the graph cannot be read at the moment; wake-bridge tries again"
    )
    LEASE_AWAY = Remedy(
        "lease-away",
        HoldReason.GRAPH_AWAY,
        "nothing to do: wake-bridge cannot tell now whether this host serves {identity} ({detail}); it asks the database again",
    )
    OTHER_HOST = general(
        HoldReason.OTHER_HOST,
        "nothing to do: the host {detail} serves {identity}; `wake-bridge hosts move {identity} HOST` has another one do it",
    )
    TOLD_ELSEWHERE = Remedy(
        "told-elsewhere",
        HoldReason.OTHER_HOST,
        "nothing to do: the host {detail} has told {identity} of it, or may have",
    )
    KNOWN_HERE_ALONE = Remedy(
        "known-here-alone",
        HoldReason.OTHER_HOST,
        "the host {detail} serves {identity}, and only this host knows of this: `wake-bridge hosts move {identity} HOST` with the name"
        " that `wake-bridge hosts list` calls this host, or send it to {detail}",
        tell=Tell.WHEN_IT_LASTS,
    )
    LEASE_MOVES = Remedy(
        "lease-moves",
        HoldReason.OTHER_HOST,
        "nothing to do: {identity} was moved to the host {detail}; a minute after that any host that sees its agent takes it",
    )
    LEASE_LATE = Remedy(
        "lease-late",
        HoldReason.OTHER_HOST,
        "nothing to do: this machine stood still before the key ({detail}); wake-bridge tries again",
    )
    HOST_AWAY = general(HoldReason.HOST_AWAY, "nothing to do: wake-bridge tries {where} again by itself ({detail})")
    HOST_SILENT = Remedy(
        "host-silent",
        HoldReason.HOST_AWAY,
        "start the daemon on {where} again, or the agent of {identity} on a host that runs; if {where} will not come back:"
        " `wake-bridge hosts gone {where}`",
    )
    DRY_RUN = general(HoldReason.DRY_RUN, "nothing to do: a dry run types nothing")

    LIMITED = general(
        HoldReason.LIMITED,
        "nothing to do: the account of the agent in {where} is at its usage limit; wake-bridge wakes {identity} when the limit"
        " has reset ({detail}), or as soon as the agent works again; `wake-bridge resume {identity}` wakes it at once",
    )
    LIMIT_UNTIMED = Remedy(
        "limit-untimed",
        HoldReason.LIMITED,
        "nothing to do: the account of the agent in {where} is at its usage limit and no time is shown; wake-bridge tries again"
        " ({detail}), or as soon as the agent works again; `wake-bridge resume {identity}` tries at once",
    )
    TURN_FAILED = Remedy(
        "turn-failed",
        HoldReason.LIMITED,
        "nothing to do: the turn that the last wake began failed at once in {where}; wake-bridge announces its unread mail again"
        " ({detail})",
    )

    AWAITING_ACK = Remedy(
        "awaiting_ack",
        HoldReason.AWAITING_ACK,
        "nothing to do: if {identity} does not answer in time, wake-bridge tells you, and it is yours then",
    )


_GENERAL: Final[Mapping[HoldReason, Cause]] = {cause.reason: cause for cause in reversed(Cause)}
_BY_NAME: Final[Mapping[str, Cause]] = {cause.value: cause for cause in Cause}
_BY_SIGN: Final[Mapping[str, Cause]] = {sign: cause for cause in Cause for sign in cause.signs}


def cause_of(reason: HoldReason, said: Cause = Cause.OTHER, rule: str = "") -> Cause:
    """The cause of a hold: the one that was `said`, else what the name of a `rule` means, else the reason's general one.

    What says nothing, or a cause of another reason, is an adapter of a third party, a profile of the user's own, or a
    ledger that was written before there were causes.
    """
    if said.reason is reason and said is not Cause.OTHER:
        return said
    meant = _BY_SIGN.get(rule, Cause.OTHER)
    return meant if meant.reason is reason and meant is not Cause.OTHER else _GENERAL[reason]


def cause_written(text: object) -> Cause:
    """The cause that a record names; `OTHER` where it names none that this version knows."""
    return _BY_NAME.get(text, Cause.OTHER) if isinstance(text, str) else Cause.OTHER
