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
        "nothing to do; a message with `sharedEntity` or `visibility: team` is seen by all",
    ),
    Refusal.SELF: ("it is {identity}'s own doing", "nothing to do: nobody is woken by what they did themselves"),
    Refusal.SUPPRESSED: (
        "its sender suppressed the wake",
        "nothing to do: it lies in `wake-bridge inbox {identity} --floor later`",
    ),
    Refusal.SILENT: (
        "its policy is silent",
        "nothing to do: it lies in `wake-bridge inbox {identity} --floor later`; `update {subscription} --policy immediate` would wake",
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
        "filtered: it answers none of the messages that are waited for",
        "to widen the filter: `wake-bridge update {subscription} --in-reply-to …`",
    ),
    Refusal.READ: ("it had been read when it was first seen here", "nothing to do"),
    Refusal.AGE: (
        "it was too old when it was first seen here (`policy.catch_up`)",
        "to wake for it all the same: `wake-bridge resync {subscription} --since {before}`",
    ),
    Refusal.REWRITTEN: (
        "it was sent more than an hour before this row, and an earlier row of it was there or may have been pruned",
        "to wake for it all the same: `wake-bridge resync {subscription} --since {before}`",
    ),
}

UNHEARD: Final[dict[Unheard, tuple[str, str]]] = {
    Unheard.UNUSABLE: ("cannot be used: {problems}", "mend it: `wake-bridge update {subscription}`"),
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
    Outcome.EMPTY: "nothing was left to tell when its moment came",
    Outcome.FAILED: "FAILED",
    Outcome.UNKNOWN: "it may have been submitted, nobody can tell",
}

SEEN_LATE: Final = "arrived, seen late"
"""What is said of a delivery of unknown outcome whose proof has risen since."""

CONSEQUENCES: Final[dict[type[errors.WakeBridgeError], str]] = {
    errors.WakeBridgeError: "what was asked was not done; what is recorded stands",
    errors.UsageMistake: "the command was not understood and did nothing; wakes go on as before",
    errors.ConfigurationInvalid: "a daemon does not start with this configuration, a running one keeps the last good one",
    errors.SourceError: "nothing new is matched while the graph cannot be read; what was matched waits",
    errors.SourceMissing: "without a graph nothing is matched, and nobody can be woken",
    errors.SourceNotAGraph: "nothing can be matched in this file, and nobody can be woken",
    errors.SourceUnavailable: "the daemon looks again by itself; until then nothing new is matched and deliveries hold",
    errors.AlreadyRunning: "the other one goes on waking; this one did not start, so that nobody is woken twice",
    errors.NotRunning: "nobody is woken until the daemon runs; what arrives meanwhile is caught up with then",
    errors.RefusedForSafety: "it was not done, for it could have typed twice or harmed what is not ours",
    errors.NotFound: "there is nothing of that name to act on; wakes go on as before",
    errors.OperationFailed: "it was tried and did not work; what is recorded stands",
    errors.LedgerError: "no wake is sent that could not be written down first",
    errors.LedgerTooNew: "this version touches nothing that a later one wrote, and wakes nobody meanwhile",
    errors.LedgerUnwritable: "no wake is sent that could not be written down first; the daemon tries again by itself",
    errors.DiskFull: "no wake is sent that could not be written down first; the daemon goes on when there is space",
    errors.LedgerDisplaced: "no wake is sent, so that nothing is told again, until what was told is on record at its place",
    errors.IllegalTransition: "the delivery stands where it stood: its state allows no such move",
    errors.StaleLease: "somebody else acted on the delivery meanwhile: what they did counts, this did nothing",
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
