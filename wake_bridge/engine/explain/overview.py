"""The state of every identity at this moment, one row each, for `status --watch` and the fleet page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from wake_bridge.domain.attention import Episode, is_same_fact, needs_a_person
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, JournalEntry, held_since, was_called
from wake_bridge.domain.guards import Limits, PastWake
from wake_bridge.domain.names import DAY, EPOCH_START, HOUR, Identity, Instant
from wake_bridge.domain.notices import calls_for_a_person, remedy_at, said_of_end, said_of_escalation, standing_at
from wake_bridge.domain.presence import Sighted
from wake_bridge.domain.reasons import held_because
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.ledger import Archive
from wake_bridge.ports.ledger_records import Pause


@dataclass(frozen=True, slots=True)
class WakeBudget:
    """Wakes that count against the limits, as they are counted for the agent and its pane."""

    this_hour: int
    of_hour: int
    today: int
    of_day: int


@dataclass(frozen=True, slots=True)
class Need:
    """What a person is needed for: what is the matter and what to do, one clause each, and since when.

    `about` is the delivery that failed, that nobody knows of, or that is the person's now, where that is the matter.
    """

    what: str
    remedy: str
    since: Instant
    about: Delivery | None = None


@dataclass(frozen=True, slots=True)
class IdentityOverview:
    """One identity. `sighted` is None where nobody watches; `waiting` how many events its open deliveries carry.

    `items` is how many items wait for its next turn; `delivery_id` is the one that is held, else the next that is due;
    `needs` the longest need first; `pause` the pause that counts for it.
    """

    identity: Identity
    sighted: Sighted | None
    waiting: int
    hold: Hold | None
    held_since: Instant | None
    next_look: Instant | None
    last_wake: Instant | None
    budget: WakeBudget
    delivery_id: str = ""
    episode: Episode | None = None
    needs: Sequence[Need] = ()
    pause: Pause | None = None
    items: int = 0


def overview(
    archive: Archive,
    identities: Iterable[Identity],
    sighted: Callable[[Identity], Sighted | None],
    limits: Limits,
    now: Instant,
    notice_after_ms: int = 0,
) -> list[IdentityOverview]:
    """A row for each identity, and for each that something waits for or that needs a person.

    Args:
        archive: the ledger.
        identities: who can be woken.
        sighted: what the watch saw of one.
        limits: by which the budgets are counted.
        now: the moment.
        notice_after_ms: how long a hold lasts before it counts as a need.

    Returns:
        First those that need a person, the longest need first; then the others by name.
    """
    open_ones = _by_identity(archive.unsettled())
    failed = _by_identity(archive.failed_waiting(EPOCH_START))
    episodes = {one.identity: one for one in archive.open_episodes()}
    pauses = {one.identity: one for one in archive.pauses(now)}
    past = archive.past_wakes(Instant(now - DAY))

    def row(identity: Identity) -> IdentityOverview:
        waiting, episode = open_ones.get(identity, []), episodes.get(identity)
        held = next((one for one in waiting if one.hold and one.state is not DeliveryState.ESCALATED), None)
        since = held_since(archive.journal_of(held.id)) if held else None
        due = min(((one.hold.next_look_at if one.hold else one.due_at, one.id) for one in waiting), default=None)
        is_told = (
            episode is not None
            and held is not None
            and held.hold is not None
            and is_same_fact(episode, held.hold.cause)
        )
        needs = [
            *([_of_episode(episode)] if episode is not None and needs_a_person(episode) else []),
            *([] if is_told else _of_hold(held, since or now, now, notice_after_ms)),
            *(
                _of_escalation(one, archive.journal_of(one.id))
                for one in waiting
                if one.state is DeliveryState.ESCALATED
            ),
            *(_of_end(one) for one in failed.get(identity, [])),
        ]
        return IdentityOverview(
            identity=identity,
            sighted=sighted(identity),
            waiting=sum(len(archive.event_ids_of(one.id)) for one in waiting),
            hold=held.hold if held else None,
            held_since=since,
            next_look=due[0] if due else None,
            last_wake=archive.last_wake(identity),
            budget=_budget(archive, identity, past, limits, now),
            delivery_id=held.id if held else due[1] if due else "",
            episode=episode,
            needs=sorted(needs, key=lambda one: one.since),
            pause=pauses.get(identity) or pauses.get("*"),
            items=archive.waiting_items(identity),
        )

    rows = [row(one) for one in sorted({*identities, *open_ones, *failed, *episodes})]
    return sorted(rows, key=lambda one: (not one.needs, one.needs[0].since if one.needs else 0))


def _by_identity(deliveries: Iterable[Delivery]) -> Mapping[Identity, list[Delivery]]:
    found: dict[Identity, list[Delivery]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.identity, []).append(delivery)
    return found


def _of_episode(episode: Episode) -> Need:
    return Need(standing_at(episode.kind), remedy_at(episode), episode.began_at)


def _of_hold(held: Delivery | None, since: Instant, now: Instant, notice_after_ms: int) -> list[Need]:
    """A hold that only somebody ends."""
    if held is None or held.hold is None or not calls_for_a_person(held.hold, since, now, notice_after_ms):
        return []
    return [Need(held_because(held.hold, held.identity), held.hold.remedy(held.identity), since)]


def _of_escalation(delivery: Delivery, journal: Iterable[JournalEntry]) -> Need:
    what, remedy = said_of_escalation(delivery, is_called=was_called(journal))
    return Need(what, remedy, delivery.escalated_at or delivery.created_at, delivery)


def _of_end(delivery: Delivery) -> Need:
    what, remedy = said_of_end(delivery)
    return Need(f"a wake {what}", remedy, delivery.settled_at or delivery.created_at, delivery)


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
