"""How a delivery stands, and what to do about it, one sentence each; for `why` and `status`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from wake_bridge.domain.case import NOTHING, START, Ride, Teller, Verdict, span
from wake_bridge.domain.delivery import DeliveryState, Hold, JournalEntry, Outcome, Proof, Step
from wake_bridge.domain.names import EPOCH_START, Instant
from wake_bridge.domain.reasons import ENDED, SEEN_LATE, held_because


def standing_of(ride: Ride, teller: Teller, *, is_running: bool, holds: Sequence[Hold] = ()) -> Verdict:
    """How a delivery stands; never raises.

    `is_running` says whether a daemon is there to go on with it, `holds` what would hold it if its moment came now.
    """
    delivery = ride.delivery
    if delivery.state is DeliveryState.DELIVERED:
        return _delivered(ride, teller)
    if delivery.state is DeliveryState.FAILED:
        return _failed(ride, teller)
    verdict = _under_way(ride, teller, holds)
    if is_running:
        return verdict
    others = "" if verdict.next.startswith(NOTHING) else f", then {verdict.next}"
    return Verdict(f"{verdict.text}; the daemon is not running", f"{START}{others}")


def _under_way(ride: Ride, teller: Teller, holds: Sequence[Hold]) -> Verdict:
    delivery = ride.delivery
    along = f", together with {ride.others} more in {delivery.id}" if ride.others else ""
    before = sorted({one.again_of for one in ride.events if one.again_of not in {"", delivery.id}})
    along += f", once more after {', '.join(before)} (outcome unknown)" if before else ""
    if delivery.state is DeliveryState.ESCALATED:
        return Verdict(
            f"given to a person: {delivery.where or delivery.identity}{along}",
            f"`wake-bridge ack {delivery.id}` when done",
        )
    if delivery.hold is not None:
        since = held_since(ride.journal)
        length = f" {teller.ago(since)}" if since is not None else ""
        because = held_because(delivery.hold, delivery.identity)
        return Verdict(f"held{length}: {because}{along}", delivery.hold.remedy(delivery.identity))
    if delivery.state is DeliveryState.LOCKED:
        return Verdict(f"being announced in {delivery.where} right now{along}", "wait a moment")
    if holds:
        because = held_because(holds[0], delivery.identity)
        due = f"due in {span(delivery.due_at - teller.now)}, and held then" if delivery.due_at > teller.now else "held"
        return Verdict(f"{due}: {because}{along}", holds[0].remedy(delivery.identity))
    if delivery.due_at > teller.now:
        due = f"due in {span(delivery.due_at - teller.now)}: its window collects further events{along}"
        return Verdict(due, f"{NOTHING}: the wake comes by itself")
    return Verdict(
        f"due since {teller.ago(delivery.due_at)}{along}", "wait a moment; if it stays so: `wake-bridge logs`"
    )


def _delivered(ride: Ride, teller: Teller) -> Verdict:
    delivery = ride.delivery
    if delivery.outcome is not Outcome.SUBMITTED:
        return Verdict(f"not announced: {ENDED[delivery.outcome or Outcome.EMPTY]}", NOTHING)
    how = ENDED[Outcome.SUBMITTED] if delivery.proof is not Proof.ACCEPTED else "handed over, not seen submitted"
    announced = f"announced {teller.clock(announced_at(ride))}"
    along = f", together with {ride.others} more" if ride.others else ""
    if delivery.proof is Proof.ACKNOWLEDGED:
        when, by = _acknowledged(ride, teller)
        return Verdict(f"{announced}, {how}, acknowledged{when}{by}{along}", NOTHING)
    return Verdict(
        f"{announced}, {how}, not acknowledged{along}",
        f"look at {delivery.seen_in or delivery.identity}; mail that is read counts as acknowledged, so does `wake-bridge ack {delivery.id}`",
    )


def _failed(ride: Ride, teller: Teller) -> Verdict:
    delivery = ride.delivery
    settled = _last(ride, Step.SETTLED)
    detail = dict(settled.detail) if settled else {}
    why = detail.get("reason") or detail.get("why") or ""
    if delivery.outcome is Outcome.UNKNOWN:
        announced = f"announced {teller.clock(announced_at(ride))}"
        again = "; its unread news was announced once more" if _was_told_again(ride) else ""
        if delivery.is_seen_late:
            when, by = _acknowledged(ride, teller)
            return Verdict(f"{announced}, {SEEN_LATE}{when}{by}{again}", NOTHING)
        because = f" ({why})" if why else ""
        unknown = f"{announced}, outcome unknown: {ENDED[Outcome.UNKNOWN]}{because}{again}"
        if again:
            return Verdict(
                unknown, f"{NOTHING}: `wake-bridge deliveries --target {delivery.identity}` shows the later one"
            )
        return Verdict(
            unknown,
            f"look in {delivery.seen_in or 'its pane'} for {delivery.id}; there: `wake-bridge ack {delivery.id}`,"
            f" else: `wake-bridge deliveries retry {delivery.id} --i-looked`",
        )
    tries = "1 attempt" if delivery.attempts == 1 else f"{delivery.attempts} attempts"
    return Verdict(
        f"{ENDED[Outcome.FAILED]} {teller.clock(delivery.settled_at or EPOCH_START)} after {tries}"
        + (f": {why}" if why else ""),
        f"fix what failed, then run `wake-bridge deliveries retry {delivery.id}`",
    )


def _acknowledged(ride: Ride, teller: Teller) -> tuple[str, str]:
    """When its proof last rose and by what, each to be added to a sentence; empty where nobody knows."""
    acked = _last(ride, Step.ACKED)
    if acked is None:
        return "", ""
    return f" {teller.clock(acked.at)}", f" ({acked.detail['by']})" if acked.detail.get("by") else ""


def _was_told_again(ride: Ride) -> bool:
    return any(one.again_of == ride.delivery.id for one in ride.events)


def announced_at(ride: Ride) -> Instant:
    """When the digest was submitted, or may have been."""
    submitted = _last(ride, Step.SUBMITTED) or _last(ride, Step.INTENT_SUBMIT)
    return submitted.at if submitted else ride.delivery.settled_at or ride.delivery.created_at


def _last(ride: Ride, step: Step) -> JournalEntry | None:
    return next((entry for entry in reversed(ride.journal) if entry.step is step), None)


def held_since(journal: Sequence[JournalEntry]) -> Instant | None:
    """When the hold in force began: the first of the last unbroken run of journal lines with its reason."""
    began: Instant | None = None
    reason = ""
    for entry in journal:
        if entry.step not in {Step.HELD, Step.RELEASED}:
            continue
        if entry.detail.get("reason", "") != reason:
            began, reason = entry.at, entry.detail.get("reason", "")
    return began
