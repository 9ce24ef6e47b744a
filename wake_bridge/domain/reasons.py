"""Sentences of `why` for whatever keeps a wake from its agent: one clause each, and what to do.

The clauses follow "not announced: …" or "held 6 h: …". Every refusal and error class has one here, and every hold in `causes`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from wake_bridge.domain import errors
from wake_bridge.domain.delivery import Delivery, Hold, Outcome
from wake_bridge.domain.events import Fact
from wake_bridge.domain.names import EventKind, Identity
from wake_bridge.domain.subscriptions import Subscription


class Refusal(StrEnum):
    """What a guard says to a fact that a subscription listens for, in the order of the guards; kept in the ledger."""

    PRIVATE = "private"
    SELF = "self"
    SUPPRESSED = "suppressed"
    SILENT = "silent"
    FILTER_PRIORITY = "filter priority"
    FILTER_SENDER = "filter senderFilter"
    FILTER_TAG = "filter taggedConcepts"
    FILTER_REPLY = "filter inReplyToFilter"
    FILTER_PRESENCE = "filter presenceFilter"
    READ = "read"
    AGE = "age"
    REWRITTEN = "rewritten"


class Unheard(StrEnum):
    """Why a subscription of the identity does not listen for a fact at all; nothing is recorded of it."""

    UNUSABLE = "unusable"
    STATUS = "status"
    HARNESS_TARGET = "harnessTarget"
    TRIGGER = "trigger"


def unheard_by(subscription: Subscription, fact: Fact, *, is_served: bool) -> Unheard | None:
    """Why the subscription does not listen for the fact; None if it does.

    `is_served` says that it is ours to serve on this graph (`SubscriptionBook.serves`).
    """
    if not subscription.identity or subscription.trigger is None:
        return Unheard.UNUSABLE
    if not subscription.is_active:
        return Unheard.STATUS
    if not is_served:
        return Unheard.HARNESS_TARGET
    # a pulse wakes an identity, whatever it subscribed to
    if fact.kind is not EventKind.PULSE and subscription.trigger is not fact.trigger:
        return Unheard.TRIGGER
    return None


REFUSED: Final[dict[Refusal, tuple[str, str]]] = {
    Refusal.PRIVATE: (
        "it is private to its owner (`graph.user_scope`)",
        "nothing to do; everybody sees a message with `sharedEntity` or `visibility: team`",
    ),
    Refusal.SELF: ("{identity} did it", "nothing to do: an agent's own acts never wake it"),
    Refusal.SUPPRESSED: (
        "its sender suppressed the wake",
        "nothing to do: `wake-bridge inbox {identity} --floor later` shows it",
    ),
    Refusal.SILENT: (
        "its policy is silent",
        "nothing to do: `wake-bridge inbox {identity} --floor later` shows it; `wake-bridge update {subscription} --policy immediate` makes such mail wake",
    ),
    Refusal.FILTER_PRIORITY: (
        "filtered by priority",
        "to widen the filter: `wake-bridge update {subscription} --priority …`",
    ),
    Refusal.FILTER_SENDER: (
        "filtered by sender",
        "to widen the filter: `wake-bridge update {subscription} --sender …`",
    ),
    Refusal.FILTER_TAG: ("filtered by tag", "to widen the filter: `wake-bridge update {subscription} --tag …`"),
    Refusal.FILTER_REPLY: (
        "filtered: it replies to none of the messages in the filter",
        "to widen the filter: `wake-bridge update {subscription} --in-reply-to …`",
    ),
    Refusal.FILTER_PRESENCE: (
        "filtered: it does not watch for what the agent stands at",
        "to widen the filter: `wake-bridge update {subscription} --when …`",
    ),
    Refusal.READ: ("it was already read when wake-bridge first saw it", "nothing to do"),
    Refusal.AGE: (
        "it was too old when wake-bridge first saw it (`policy.catch_up`)",
        "to wake for it anyway: `wake-bridge resync {subscription} --since {before}`",
    ),
    Refusal.REWRITTEN: (
        "it was sent more than an hour before this log row, and an earlier row of it exists or may have been pruned",
        "to wake for it anyway: `wake-bridge resync {subscription} --since {before}`",
    ),
}

UNHEARD: Final[dict[Unheard, tuple[str, str]]] = {
    Unheard.UNUSABLE: ("cannot be used: {problems}", "correct it: `wake-bridge update {subscription}`"),
    Unheard.STATUS: ("its status is {status}", "`wake-bridge update {subscription} --recover`"),
    Unheard.HARNESS_TARGET: (
        "the graph's own server serves {harness_target}, not wake-bridge",
        "ask that server; `graph.serve` in the configuration lets wake-bridge take it over",
    ),
    Unheard.TRIGGER: (
        "listens for {trigger}",
        "`wake-bridge subscribe {identity} --trigger {wanted}` adds what is missing",
    ),
}

ENDED: Final[dict[Outcome, str]] = {
    Outcome.SUBMITTED: "submitted",
    Outcome.ACKNOWLEDGED: "it was acknowledged before it was delivered",
    Outcome.READ: "it was read before it had to be announced",
    Outcome.EMPTY: "nothing was left to announce when it was due",
    Outcome.ESCALATED: "it passed to a person",
    Outcome.FAILED: "FAILED",
    Outcome.UNKNOWN: "nobody can tell whether it was submitted",
}

SEEN_LATE: Final = "arrived, seen late"
"""What is said of a delivery of unknown outcome whose proof has risen since."""

CONSEQUENCES: Final[dict[type[errors.WakeBridgeError], str]] = {
    errors.WakeBridgeError: "the request was not carried out; the records are unchanged",
    errors.UsageMistake: "the command was not understood and changed nothing; wakes continue",
    errors.ConfigurationInvalid: "a daemon does not start with this configuration; a running daemon keeps the last good one",
    errors.SourceError: "wake-bridge matches nothing new while it cannot read the graph; matched events wait",
    errors.SourceMissing: "without a graph wake-bridge matches nothing and wakes nobody",
    errors.SourceNotAGraph: "wake-bridge can match nothing in this file and wakes nobody",
    errors.SourceUnavailable: "the daemon tries again by itself; until then it matches nothing new and holds deliveries",
    errors.AlreadyRunning: "the other daemon continues; this one did not start, so that nobody is woken twice",
    errors.NotRunning: "nobody is woken until the daemon runs; then it catches up with what arrived meanwhile",
    errors.RefusedForSafety: "wake-bridge refused, because it could have typed twice or changed what belongs to others",
    errors.NotFound: "nothing has that name; wakes continue",
    errors.OperationFailed: "it was tried and failed; the records are unchanged",
    errors.LedgerError: "wake-bridge sends no wake that it cannot record first",
    errors.LedgerTooNew: "this version changes nothing that a later version wrote, and wakes nobody meanwhile",
    errors.LedgerUnwritable: "wake-bridge sends no wake that it cannot record first; the daemon tries again by itself",
    errors.DiskFull: "wake-bridge sends no wake that it cannot record first; the daemon continues when there is space",
    errors.LedgerDisplaced: "wake-bridge sends no wake until its ledger is at its place again, so that it announces nothing twice",
    errors.IllegalTransition: "the delivery is unchanged: its state does not allow this",
    errors.LateAnswer: "the answer came too late and was dropped: what it answers has passed to somebody else, or has ended",
    errors.StaleLease: "another process changed the delivery meanwhile: its change counts, this one did nothing",
    errors.LateAnswer: "the answer came too late and was dropped; whoever holds the delivery now keeps it",
}
"""What each error means for the wakes that wait."""


def held_because(hold: Hold, identity: Identity) -> str:
    """Why a delivery waits, one clause."""
    detail = f" ({hold.detail})" if hold.detail else ""
    return hold.reason.sentence.format(identity=identity, where=hold.where or "its pane", detail=detail)


def ended_with(delivery: Delivery) -> str:
    """The outcome of a settled delivery in a word or two; what was learnt since stands behind it."""
    return f"{delivery.outcome}: {SEEN_LATE}" if delivery.is_seen_late else str(delivery.outcome)


def consequence_of(error: errors.WakeBridgeError) -> str:
    """What an error means for the wakes that wait: its own class's sentence, else the nearest parent's."""
    return next(CONSEQUENCES[kind] for kind in type(error).__mro__ if kind in CONSEQUENCES)
