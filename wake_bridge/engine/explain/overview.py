"""The state of every identity at this moment, one row each, for `status --watch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wake_bridge.domain.delivery import Delivery, Hold, held_since
from wake_bridge.domain.guards import Limits, PastWake
from wake_bridge.domain.names import DAY, EPOCH_START, HOUR, Identity, Instant
from wake_bridge.domain.presence import Sighted
from wake_bridge.ports.ledger import Archive


@dataclass(frozen=True, slots=True)
class WakeBudget:
    """Wakes that count against the limits, as they are counted for the agent and its pane."""

    this_hour: int
    of_hour: int
    today: int
    of_day: int


@dataclass(frozen=True, slots=True)
class IdentityOverview:
    """One identity. `sighted` is None where nobody watches; `waiting` how many events its open deliveries carry."""

    identity: Identity
    sighted: Sighted | None
    waiting: int
    hold: Hold | None
    held_since: Instant | None
    next_look: Instant | None
    last_wake: Instant | None
    budget: WakeBudget


def overview(
    archive: Archive,
    identities: Iterable[Identity],
    sighted: Callable[[Identity], Sighted | None],
    limits: Limits,
    now: Instant,
) -> list[IdentityOverview]:
    """A row for each identity, and for each that something waits for, by name."""
    open_ones: dict[Identity, list[Delivery]] = {}
    for delivery in archive.unsettled():
        open_ones.setdefault(delivery.identity, []).append(delivery)
    past = archive.past_wakes(Instant(now - DAY))
    last_wakes = archive.last_wakes()
    everybody = sorted({*identities, *open_ones})
    return [
        _row(archive, one, open_ones.get(one, []), sighted(one), last_wakes, _budget(archive, one, past, limits, now))
        for one in everybody
    ]


def _row(
    archive: Archive,
    identity: Identity,
    waiting: Sequence[Delivery],
    sighted: Sighted | None,
    last_wakes: Mapping[Identity, Instant],
    budget: WakeBudget,
) -> IdentityOverview:
    held = next((one for one in waiting if one.hold is not None), None)
    due = min((one.hold.next_look_at if one.hold else one.due_at for one in waiting), default=None)
    return IdentityOverview(
        identity=identity,
        sighted=sighted,
        waiting=sum(len(archive.events_of(one.id)) for one in waiting),
        hold=held.hold if held else None,
        held_since=held_since(archive.journal_of(held.id)) if held else None,
        next_look=due,
        last_wake=last_wakes.get(identity),
        budget=budget,
    )


def _budget(archive: Archive, identity: Identity, past: Sequence[PastWake], limits: Limits, now: Instant) -> WakeBudget:
    """What it and the pane of its last wake have used up; nothing for one that was not woken within a day."""
    panes = [wake.pane_key for wake in past if wake.identity == identity and wake.pane_key]
    lifted_at = archive.limits_lifted_at(identity) if panes else EPOCH_START
    counted = [wake.at for wake in past if panes and wake.counts_for(identity, panes[-1]) and wake.at > lifted_at]
    return WakeBudget(
        this_hour=sum(at > now - HOUR for at in counted),
        of_hour=limits.wakes_per_hour,
        today=len(counted),
        of_day=limits.wakes_per_day,
    )
