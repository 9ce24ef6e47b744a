"""What became of one thing for one identity: a verdict and what to do, one sentence each; for `why`. Pure."""

from __future__ import annotations

from wake_bridge.domain.case import NOTHING, START, Case, Listener, Sighting, Teller, Verdict
from wake_bridge.domain.events import EventStatus, MessageDetail, WakeEvent
from wake_bridge.domain.names import WakePolicy
from wake_bridge.domain.reasons import REFUSED, UNHEARD
from wake_bridge.domain.refusals import Refusal, Unheard
from wake_bridge.domain.standing import standing_of


def judge(case: Case, teller: Teller) -> Verdict:
    """What became of it; the first line that applies wins. Never raises."""
    if case.event is not None:
        return _of_event(case, case.event, teller)
    if case.unreadable:
        return Verdict(
            f"not announced: its log row could not be read and was set aside ({case.unreadable})",
            "fix it in the graph: the fixed row is a new row and is matched",
        )
    if not case.is_addressed:
        return Verdict(f"not announced: it is not addressed to {case.identity}", NOTHING)
    if case.is_shown:
        return Verdict(f"shown to {case.identity} by `inbox` before a wake was needed", NOTHING)
    if case.sighting in {Sighting.NEVER, Sighting.AHEAD}:
        return _not_seen_yet(case)
    return _unmatched(case)


def _not_seen_yet(case: Case) -> Verdict:
    if case.sighting is Sighting.NEVER:
        return Verdict("not announced: no daemon has read this graph yet", START)
    rows = f"row {case.row} is still ahead of the daemon, which is {case.behind} rows behind"
    if case.is_running:
        return Verdict(f"not announced yet: {rows}", "wait a moment; if it stays so: `wake-bridge doctor`")
    return Verdict(f"not announced yet: {rows} and not running", START)


def _unmatched(case: Case) -> Verdict:
    """Nothing is recorded of it, and the tail has passed it."""
    heard = [one for one in case.listeners if one.unheard is None]
    if not case.listeners:
        return Verdict(
            f"not announced: {case.identity} has no subscription",
            f"`wake-bridge subscribe {case.identity} --trigger {case.wanted} …`, or read it: `wake-bridge inbox {case.identity}`",
        )
    if not heard:
        return _unheard(case)
    resync = f"`wake-bridge resync {heard[0].id} --since {max(0, case.row - 1)}` replays it"
    if all(one.is_younger for one in heard):
        return Verdict("not announced: the subscription is newer than the event", resync)
    if case.sighting is Sighting.BEFORE:
        because = f" ({case.epoch_reason})" if case.epoch_reason else ""
        return Verdict(f"not announced: it is older than the point where the daemon began to read{because}", resync)
    wanting = [one for one in heard if one.refusal is None]
    if not wanting and heard[0].refusal is not None:
        return _refused(case, heard[0].refusal, heard[0].id)
    if any(one.is_changed for one in wanting):
        return Verdict("not announced: the subscription was changed later and did not match it then", resync)
    return Verdict("not announced: the ledger has no record of it (any more)", resync)


def _unheard(case: Case) -> Verdict:
    """None of the subscriptions listens; the one that comes nearest is named."""
    order = (Unheard.HARNESS_TARGET, Unheard.STATUS, Unheard.UNUSABLE, Unheard.TRIGGER)
    listener = min(case.listeners, key=lambda one: order.index(one.unheard or Unheard.TRIGGER))
    clause, remedy = unheard_sentences(case, listener)
    if listener.unheard is Unheard.TRIGGER:
        return Verdict(f"not announced: {case.identity} has no subscription for {case.wanted}", remedy)
    return Verdict(f"not announced: of {listener.id}, {clause}", remedy)


def unheard_sentences(case: Case, listener: Listener) -> tuple[str, str]:
    """Why a subscription does not listen for it, and what to do."""
    subscription = listener.subscription
    words = {
        "identity": case.identity,
        "wanted": case.wanted,
        "subscription": listener.id,
        "status": subscription.status if subscription else "",
        "harness_target": subscription.harness_target if subscription else "",
        "trigger": (subscription.trigger if subscription else None) or "nothing",
        "problems": "; ".join(subscription.problems) if subscription else "",
    }
    clause, remedy = UNHEARD[listener.unheard or Unheard.TRIGGER]
    return clause.format(**words), remedy.format(**words)


def refusal_sentences(case: Case, refusal: Refusal, subscription_id: str) -> tuple[str, str]:
    """What a guard said, and what to do."""
    words = {"identity": case.identity, "subscription": subscription_id, "before": max(0, case.row - 1)}
    clause, remedy = REFUSED[refusal]
    return clause.format(**words), remedy.format(**words)


def _refused(case: Case, refusal: Refusal, subscription_id: str) -> Verdict:
    clause, remedy = refusal_sentences(case, refusal, subscription_id)
    return Verdict(f"not announced: {clause}", remedy)


def _of_event(case: Case, event: WakeEvent, teller: Teller) -> Verdict:
    match event.status:
        case EventStatus.REFUSED:
            known = event.refused_by in set(Refusal)
            if known:
                return _refused(case, Refusal(event.refused_by), event.subscription_id)
            return Verdict(f"not announced: {event.refused_by}", NOTHING)
        case EventStatus.READ:
            return Verdict("not announced: it was read before it had to be announced", NOTHING)
        case EventStatus.SUPERSEDED:
            return Verdict(f"not announced: {event.refused_by}", NOTHING)
        case EventStatus.ANNOUNCED if case.ride is None:
            return Verdict(
                f"shown to {case.identity} by `{event.refused_by or 'inbox'}` before a wake was needed", NOTHING
            )
        case _ if case.ride is not None:
            return standing_of(case.ride, teller, is_running=case.is_running, holds=case.holds)
        case _:
            return _loose(case, event, teller)


def _loose(case: Case, event: WakeEvent, teller: Teller) -> Verdict:
    """Open, and in no delivery."""
    if event.policy is WakePolicy.NEXT_TURN:
        why = "its policy is next_turn"
        heartbeat_only = [one.subscription for one in case.listeners if one.subscription and one.matched]
        if isinstance(event.detail, MessageDetail) and event.detail.sender == case.identity:
            why = "own mail is a note to oneself"
        elif heartbeat_only and all(one.is_heartbeat_only for one in heartbeat_only):
            why = f"its harnessTarget is {heartbeat_only[0].harness_target}: stored, and left to the heartbeat"
        return Verdict(
            f"waits for the next turn of {case.identity}: {why}",
            f"nothing to do: it joins the next wake, or run `wake-bridge inbox {case.identity}`",
        )
    matched = f"matched {teller.ago(event.matched_at)} ago, in no delivery yet"
    return (
        Verdict(matched, "wait a moment")
        if case.is_running
        else Verdict(f"{matched}: the daemon is not running", START)
    )
