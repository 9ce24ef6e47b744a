"""Why a fact that concerns an identity does not wake it: what a guard, or the subscription itself, says."""

from __future__ import annotations

from enum import StrEnum

from wake_bridge.domain.events import Fact
from wake_bridge.domain.names import EventKind
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
