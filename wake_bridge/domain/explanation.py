"""Explains one event or delivery for `why` and `status`: one sentence on what happened, one on what to do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, JournalEntry, Outcome, Proof, Step, held_since
from wake_bridge.domain.events import EventStatus, ItemDetail, ItemTier, MessageDetail, WakeEvent
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, WakePolicy
from wake_bridge.domain.reasons import ENDED, REFUSED, SEEN_LATE, UNHEARD, Refusal, Unheard, held_because
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.domain.values import dataclass

START: Final = "start the daemon: `wake-bridge run`"
NOTHING: Final = "nothing to do"
CORRECT_IT: Final = "fix it in the graph: the fix makes a new row, which wake-bridge matches"

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


@dataclass(frozen=True, slots=True)
class Explanation:
    """One sentence on what became of it, and one on what to do."""

    text: str
    next: str


class TailProgress(StrEnum):
    """Whether the tail has passed the rows of what is asked about."""

    PASSED = "passed"
    AHEAD = "ahead of the cursor"
    BEFORE = "before the epoch"
    NEVER = "no daemon has ever looked"


@dataclass(frozen=True, slots=True)
class SubscriptionAnswer:
    """What one subscription of the identity said, as the ledger has it, or would say today.

    `subscription` is None for one that is gone from the graph. `is_recorded` says that the ledger has it; `is_younger`
    that the subscription was added, and `is_changed` that it was last changed, after the thing happened.
    """

    id: str
    subscription: Subscription | None
    refusal: Refusal | None = None
    unheard: Unheard | None = None
    is_recorded: bool = False
    is_younger: bool = False
    is_changed: bool = False

    @property
    def matched(self) -> bool:
        """Whether it wanted it."""
        return self.refusal is None and self.unheard is None


@dataclass(frozen=True, slots=True)
class DeliveryHistory:
    """The delivery that carries an event, with its journal and all that it carries."""

    delivery: Delivery
    journal: Sequence[JournalEntry] = ()
    events: Sequence[WakeEvent] = ()

    @property
    def others(self) -> int:
        """How many other events it carries."""
        return max(0, len(self.events) - 1)


@dataclass(frozen=True, slots=True)
class WhyCase:
    """All that is known of one thing and one identity.

    `wanted` is the trigger it would have needed, `row` the lowest log row of it that is known (0 if none), `tip_ahead`
    how many rows the cursor is behind. `holds` would hold its wake now. `unreadable` says why a row of it was set aside,
    `epoch_reason` why the present epoch began.
    """

    identity: Identity
    wanted: str
    event: WakeEvent | None = None
    history: DeliveryHistory | None = None
    answers: Sequence[SubscriptionAnswer] = ()
    progress: TailProgress = TailProgress.PASSED
    is_addressed: bool = True
    is_shown: bool = False
    is_running: bool = True
    row: int = 0
    behind: int = 0
    unreadable: str = ""
    holds: Sequence[Hold] = ()
    epoch_reason: str = ""

    @property
    def is_ahead(self) -> bool:
        """Whether the daemon has still to come to it, and somebody wants it then."""
        is_unseen = self.progress in {TailProgress.NEVER, TailProgress.AHEAD}
        return is_unseen and self.is_addressed and any(one.matched for one in self.answers)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """How times are told: `now`, and an instant in words of the person's own clock."""

    now: Instant
    clock: Callable[[Instant], str]

    def ago(self, since: Instant) -> str:
        """How long it is since then."""
        return span(self.now - since)


def span(milliseconds: int) -> str:
    """A length of time in its largest unit: `6 h`, `40 s`."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds // size} {unit}"
    return "0 s"


def explain(case: WhyCase, times: TimeFormat) -> Explanation:
    """What became of it; the first line that applies wins. Never raises."""
    if case.event is not None:
        return _of_event(case, case.event, times)
    if case.unreadable:
        return Explanation(
            f"not announced: wake-bridge could not read its log row and set it aside ({case.unreadable})",
            CORRECT_IT,
        )
    if not case.is_addressed:
        return Explanation(f"not announced: it is not addressed to {case.identity}", NOTHING)
    if case.is_shown:
        return Explanation(f"shown to {case.identity} by `inbox` before a wake was needed", NOTHING)
    return _not_seen_yet(case) if case.is_ahead else _unmatched(case)


def _not_seen_yet(case: WhyCase) -> Explanation:
    then, deed = "", ""
    if case.holds:
        then = f"; then it will be held:  {held_because(case.holds[0], case.identity)}"
        deed = f", then {case.holds[0].remedy(case.identity)}"
    if case.progress is TailProgress.NEVER:
        return Explanation(f"not announced: no daemon has read this graph yet{then}", f"{START}{deed}")
    rows = f"row {case.row} is still ahead of the daemon, which is {case.behind} rows behind"
    if case.is_running:
        return Explanation(
            f"not announced yet: {rows}{then}", f"wait a moment; if nothing changes: `wake-bridge doctor`{deed}"
        )
    return Explanation(f"not announced yet: {rows} and not running{then}", f"{START}{deed}")


def _unmatched(case: WhyCase) -> Explanation:
    """Nothing is recorded of it, and the tail has passed it."""
    heard = [one for one in case.answers if one.unheard is None]
    if not case.answers:
        return Explanation(
            f"not announced: {case.identity} has no subscription",
            f"`wake-bridge subscribe {case.identity} --trigger {case.wanted} …`, or read it: `wake-bridge inbox {case.identity}`",
        )
    if not heard:
        return _unheard(case)
    resync = f"`wake-bridge resync {heard[0].id} --since {max(0, case.row - 1)}` replays it"
    if all(one.is_younger for one in heard):
        return Explanation("not announced: the subscription is newer than the event", resync)
    if case.progress is TailProgress.BEFORE:
        because = f" ({case.epoch_reason})" if case.epoch_reason else ""
        return Explanation(
            f"not announced: it is older than the point where the daemon started reading{because}", resync
        )
    wanting = [one for one in heard if one.refusal is None]
    if not wanting and heard[0].refusal is not None:
        return _refused(case, heard[0].refusal, heard[0].id)
    if any(one.is_changed for one in wanting):
        return Explanation("not announced: the subscription did not match it then; it was changed later", resync)
    return Explanation("not announced: the ledger has no record of it, or no longer", resync)


def _unheard(case: WhyCase) -> Explanation:
    """None of the subscriptions listens; the one that comes nearest is named."""
    order = (Unheard.HARNESS_TARGET, Unheard.STATUS, Unheard.UNUSABLE, Unheard.TRIGGER)
    answer = min(case.answers, key=lambda one: order.index(one.unheard or Unheard.TRIGGER))
    clause, remedy = unheard_sentences(case, answer)
    if answer.unheard is Unheard.TRIGGER:
        return Explanation(f"not announced: {case.identity} has no subscription for {case.wanted}", remedy)
    return Explanation(f"not announced: {answer.id}: {clause}", remedy)


def unheard_sentences(case: WhyCase, answer: SubscriptionAnswer) -> tuple[str, str]:
    """Why a subscription does not listen for it, and what to do."""
    subscription = answer.subscription
    words = {
        "identity": case.identity,
        "wanted": case.wanted,
        "subscription": answer.id,
        "status": subscription.status if subscription else "",
        "harness_target": subscription.harness_target if subscription else "",
        "trigger": (subscription.trigger if subscription else None) or "nothing",
        "problems": "; ".join(subscription.problems) if subscription else "",
    }
    clause, remedy = UNHEARD[answer.unheard or Unheard.TRIGGER]
    return clause.format(**words), remedy.format(**words)


def refusal_sentences(case: WhyCase, refusal: Refusal, subscription_id: str) -> tuple[str, str]:
    """What a guard said, and what to do."""
    words = {"identity": case.identity, "subscription": subscription_id, "before": max(0, case.row - 1)}
    clause, remedy = REFUSED[refusal]
    return clause.format(**words), remedy.format(**words)


def _refused(case: WhyCase, refusal: Refusal, subscription_id: str) -> Explanation:
    clause, remedy = refusal_sentences(case, refusal, subscription_id)
    return Explanation(f"not announced: {clause}", remedy)


def _of_event(case: WhyCase, event: WakeEvent, times: TimeFormat) -> Explanation:
    match event.status:
        case EventStatus.READ if isinstance(event.detail, ItemDetail):
            return Explanation(f"read by {case.identity}", NOTHING)
        case EventStatus.SUPERSEDED if isinstance(event.detail, ItemDetail):
            return Explanation("withdrawn before it was told: its matter is over", NOTHING)
        case EventStatus.REFUSED:
            known = event.refused_by in set(Refusal)
            if known:
                return _refused(case, Refusal(event.refused_by), event.subscription_id)
            return Explanation(f"not announced: {event.refused_by}", NOTHING)
        case EventStatus.READ:
            return Explanation("not announced: it was read before it had to be announced", NOTHING)
        case EventStatus.SUPERSEDED:
            return Explanation(f"not announced: {event.refused_by}", NOTHING)
        case EventStatus.ANNOUNCED if case.history is None:
            return Explanation(
                f"shown to {case.identity} by `{event.refused_by or 'inbox'}` before a wake was needed", NOTHING
            )
        case _ if case.history is not None:
            return explain_delivery(case.history, times, is_running=case.is_running, holds=case.holds)
        case _:
            return _loose(case, event, times)


def _loose(case: WhyCase, event: WakeEvent, times: TimeFormat) -> Explanation:
    """Open, and in no delivery."""
    if isinstance(event.detail, ItemDetail) and event.policy is not WakePolicy.IMMEDIATE:
        later = " --floor later" if event.detail.tier is ItemTier.LATER else ""
        until = "" if event.policy is WakePolicy.SILENT else f" for the next turn of {case.identity}"
        return Explanation(
            f"waits in the inbox{until}", f"nothing to do, or run `wake-bridge inbox {case.identity}{later}`"
        )
    if event.policy is WakePolicy.NEXT_TURN:
        why = "its policy is next_turn"
        heartbeat_only = [one.subscription for one in case.answers if one.subscription and one.matched]
        if isinstance(event.detail, MessageDetail) and event.detail.sender == case.identity:
            why = "mail to oneself wakes nobody"
        elif heartbeat_only and all(one.is_heartbeat_only for one in heartbeat_only):
            why = f"its harnessTarget is {heartbeat_only[0].harness_target}, so only the heartbeat announces it"
        return Explanation(
            f"waits for the next turn of {case.identity}: {why}",
            f"nothing to do: it joins the next wake, or run `wake-bridge inbox {case.identity}`",
        )
    matched = f"matched {times.ago(event.matched_at)} ago, in no delivery yet"
    return (
        Explanation(matched, "wait a moment")
        if case.is_running
        else Explanation(f"{matched}: the daemon is not running", START)
    )


def explain_delivery(
    history: DeliveryHistory, times: TimeFormat, *, is_running: bool, holds: Sequence[Hold] = ()
) -> Explanation:
    """How a delivery stands; never raises.

    `is_running` says whether a daemon is there to go on with it, `holds` what would hold it if its moment came now.
    """
    delivery = history.delivery
    if delivery.state is DeliveryState.DELIVERED:
        return _delivered(history, times)
    if delivery.state is DeliveryState.FAILED:
        return _failed(history, times)
    explanation = _under_way(history, times, holds)
    if is_running:
        return explanation
    others = "" if explanation.next.startswith(NOTHING) else f", then {explanation.next}"
    return Explanation(f"{explanation.text}; the daemon is not running", f"{START}{others}")


def _under_way(history: DeliveryHistory, times: TimeFormat, holds: Sequence[Hold]) -> Explanation:
    delivery = history.delivery
    along = f", together with {history.others} more in {delivery.id}" if history.others else ""
    before = sorted({one.again_of for one in history.events if one.again_of not in {"", delivery.id}})
    along += f", once more after {', '.join(before)} (outcome unknown)" if before else ""
    failed = sorted({one.failed_in for one in history.events if one.failed_in not in {"", delivery.id}})
    along += f", once more after {', '.join(failed)} (its turn failed at once)" if failed else ""
    if delivery.state is DeliveryState.ESCALATED:
        return Explanation(
            f"not answered in time; a person is being told{along}",
            f"`wake-bridge ack {delivery.id}` says that you have it",
        )
    if delivery.hold is not None:
        since = held_since(history.journal)
        length = f" {times.ago(since)}" if since is not None else ""
        because = held_because(delivery.hold, delivery.identity)
        return Explanation(f"held{length}: {because}{along}", delivery.hold.remedy(delivery.identity))
    if delivery.state is DeliveryState.LOCKED:
        return Explanation(f"being announced in {delivery.where} right now{along}", "wait a moment")
    if holds:
        because = held_because(holds[0], delivery.identity)
        due = f"due in {span(delivery.due_at - times.now)}, and held then" if delivery.due_at > times.now else "held"
        return Explanation(f"{due}: {because}{along}", holds[0].remedy(delivery.identity))
    if delivery.due_at > times.now:
        due = f"due in {span(delivery.due_at - times.now)}: its window collects further events{along}"
        return Explanation(due, f"{NOTHING}: the wake comes by itself")
    return Explanation(
        f"due since {times.ago(delivery.due_at)}{along}", "wait a moment; if nothing changes: `wake-bridge logs`"
    )


def _delivered(history: DeliveryHistory, times: TimeFormat) -> Explanation:
    delivery = history.delivery
    if delivery.outcome is Outcome.ESCALATED:
        had_it = _last(history, Step.SUBMITTED) is not None
        before = (
            f"announced {times.clock(announced_at(history))}, not answered" if had_it else "not announced: not woken"
        )
        told = f"{before} in time; a person was told {times.clock(delivery.settled_at or EPOCH_START)}"
        if delivery.proof is Proof.ACKNOWLEDGED:
            when, by = _acknowledged(history, times)
            return Explanation(f"{told}, acknowledged{when}{by}", NOTHING)
        return Explanation(told, f"`wake-bridge ack {delivery.id}` says that you have it")
    is_answered = delivery.outcome is Outcome.ACKNOWLEDGED and _last(history, Step.SUBMITTED) is not None
    if delivery.outcome is not Outcome.SUBMITTED and not is_answered:
        return Explanation(f"not announced: {ENDED[delivery.outcome or Outcome.EMPTY]}", NOTHING)
    how = ENDED[Outcome.SUBMITTED] if delivery.proof is not Proof.ACCEPTED else "handed over, not seen as submitted"
    announced = f"announced {times.clock(announced_at(history))}"
    along = f", together with {history.others} more" if history.others else ""
    if delivery.proof is Proof.ACKNOWLEDGED:
        when, by = _acknowledged(history, times)
        return Explanation(f"{announced}, {how}, acknowledged{when}{by}{along}", NOTHING)
    return Explanation(
        f"{announced}, {how}, not acknowledged{along}",
        f"look at {delivery.seen_in or delivery.identity}; reading the mail acknowledges it, and so does `wake-bridge ack {delivery.id}`",
    )


def _failed(history: DeliveryHistory, times: TimeFormat) -> Explanation:
    delivery = history.delivery
    settled = _last(history, Step.SETTLED)
    detail = dict(settled.detail) if settled else {}
    why = detail.get("reason") or detail.get("why") or ""
    if delivery.outcome is Outcome.UNKNOWN:
        announced = f"announced {times.clock(announced_at(history))}"
        again = "; its unread mail was announced once more" if _was_told_again(history) else ""
        if delivery.is_seen_late:
            when, by = _acknowledged(history, times)
            return Explanation(f"{announced}, {SEEN_LATE}{when}{by}{again}", NOTHING)
        because = f" ({why})" if why else ""
        unknown = f"{announced}, outcome unknown: {ENDED[Outcome.UNKNOWN]}{because}{again}"
        if again:
            return Explanation(
                unknown, f"{NOTHING}: `wake-bridge deliveries --target {delivery.identity}` shows the later one"
            )
        return Explanation(
            unknown,
            f"look in {delivery.seen_in or 'its pane'} for {delivery.id}; there: `wake-bridge ack {delivery.id}`,"
            f" else: `wake-bridge deliveries retry {delivery.id} --i-looked`",
        )
    tries = "1 attempt" if delivery.attempts == 1 else f"{delivery.attempts} attempts"
    return Explanation(
        f"{ENDED[Outcome.FAILED]} {times.clock(delivery.settled_at or EPOCH_START)} after {tries}"
        + (f": {why}" if why else ""),
        f"fix what failed, then run `wake-bridge deliveries retry {delivery.id}`",
    )


def _acknowledged(history: DeliveryHistory, times: TimeFormat) -> tuple[str, str]:
    """When its proof last rose and by what, each to be added to a sentence; empty where nobody knows."""
    acked = _last(history, Step.ACKED)
    if acked is None:
        return "", ""
    return f" {times.clock(acked.at)}", f" ({acked.detail['by']})" if acked.detail.get("by") else ""


def _was_told_again(history: DeliveryHistory) -> bool:
    return any(one.again_of == history.delivery.id for one in history.events)


def announced_at(history: DeliveryHistory) -> Instant:
    """When the digest was submitted, or may have been."""
    submitted = _last(history, Step.SUBMITTED) or _last(history, Step.INTENT_SUBMIT)
    return submitted.at if submitted else history.delivery.settled_at or history.delivery.created_at


def _last(history: DeliveryHistory, step: Step) -> JournalEntry | None:
    return next((entry for entry in reversed(history.journal) if entry.step is step), None)
