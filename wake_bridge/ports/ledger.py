"""The ledger: cursor, wake events, deliveries and journal, and the history that people ask for.

Contract: every method is one short transaction that is on disk when it returns; state changes are compare-and-swap on
(id, from-state, owner_lease) and raise `StaleLease` or `IllegalTransition` without effect. Several processes may use
the same ledger at once (the daemon and the commands). Instants are UTC milliseconds given by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from wake_bridge.domain.activity import Activity
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, JournalEntry, Outcome, Proof, Step
from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.guards import PastWake
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, LogId
from wake_bridge.domain.nudges import Beat
from wake_bridge.domain.receivers import ReceiverStanding
from wake_bridge.domain.routing import Binding, Claim, RememberedPane
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.items import ItemStore
from wake_bridge.ports.ledger_records import (
    DegradedRoute,
    Emission,
    EpochStart,
    Lock,
    NewId,
    PageRecord,
    Pause,
    Position,
    Quarantined,
    Taken,
    Tally,
    TaskState,
)
from wake_bridge.ports.sends import EpisodeStore, EscalationStore, NoticeStore, ReminderStore, SendStore


class CursorStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def position(self) -> Position | None:
        """Where the tail stands; None before the first epoch."""

    def epoch_start(self) -> EpochStart | None:
        """How the present epoch began; None before the first."""

    def begin_epoch(
        self,
        position: Position,
        tasks: Sequence[TaskState],
        reason: str,
        now: Instant,
        events: Sequence[WakeEvent] = (),
    ) -> list[WakeEvent]:
        """Start a new life of the source: cursor, the states of all its tasks and what a look-back found, at once.

        Answers those of `events` that were new. Raises `LedgerError` unless the epoch is later than the last one.
        """

    def advance(self, page: PageRecord, now: Instant) -> list[WakeEvent]:
        """Move the cursor and insert the events in one transaction; answer those that were new.

        An event whose (epoch, log_id, identity) or (identity, subject_key) is known already changes nothing, whatever
        became of the known one: a subject wakes an identity at most once, and a refusal stands. Except that an event
        closed as `NOT_ADDRESSED` opens again when the fact comes once more, for then the audience has been written. One
        that still waits for it (`not_before`) waits no longer. Both are answered like new ones.
        An open event whose subject was announced meanwhile is kept as `announced`. A `log_id` of 0 or less means that
        the fact has no row (look-back, intake) and is known by its subject alone.
        Never moves the cursor back inside an epoch; raises `LedgerError` when the epoch is not the current one.
        """

    def replay(self, events: Sequence[WakeEvent], now: Instant) -> list[WakeEvent]:
        """Insert events once more although their rows and subjects are known (`resync`); answer those that were.

        The ledger counts the replays apart, subject keys stay as they are. An event that is still open, from its row
        or from an earlier replay, is not doubled.
        """

    def task_states(self, task_ids: Sequence[str]) -> Mapping[str, TaskState]:
        """The last known states of those tasks."""

    def known_subjects(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """Which of the subject keys the ledger has met for this identity, as an event or as announced."""


class CoalescingStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def gather(self, now: Instant, new_id: NewId) -> list[Delivery]:
        """Put every open immediate event that has no delivery into its identity's unfrozen one, or into a new one.

        A joined delivery becomes due at the earlier of both instants, never later; one that is past its window
        (DISPATCHED) keeps its next look. Answers the deliveries touched.
        """

    def due(self, now: Instant, busy: Collection[str] = ()) -> list[Delivery]:
        """Deliveries to act on now, oldest first: windows closed, looks due, leases expired.

        Without those of `busy` identities, unless they are LOCKED.
        """

    def next_deadline(self) -> Instant | None:
        """When `due` will have something next; None when nothing waits."""

    def unsettled(self) -> list[Delivery]:
        """Deliveries that are not terminal, oldest first."""

    def held_for(self, reason: HoldReason) -> list[Delivery]:
        """Those that are held for that reason, oldest first."""

    def held(self, *, but: Collection[Cause]) -> list[Delivery]:
        """Those that are held by another cause, and need not be answered, oldest first."""

    def waiting(self) -> set[Identity]:
        """Whose deliveries are not terminal, but for wakes that the agent has and has not answered."""

    def look_at_once(self, identity: Identity | None, now: Instant) -> None:
        """Bring the next look of an identity's held deliveries (None: all) forward to `now`."""


class DeliveryStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def delivery(self, delivery_id: str) -> Delivery | None:
        """One delivery, also by an unambiguous beginning of its id."""

    def deliveries(self, *, state: DeliveryState | None, identity: Identity | None, limit: int) -> list[Delivery]:
        """Newest first."""

    def events_of(self, delivery_id: str) -> list[WakeEvent]:
        """Its events, in log order."""

    def next_turn_events(self, identity: Identity) -> list[WakeEvent]:
        """Open `next_turn` events of an identity: they ride along in its next digest."""

    def journal_of(self, delivery_id: str) -> list[JournalEntry]:
        """Oldest first."""

    def dispatch(self, delivery: Delivery, now: Instant) -> Delivery:
        """PENDING → DISPATCHED: the window closed."""

    def hold(self, delivery: Delivery, hold: Hold, now: Instant) -> Delivery:
        """Note why it waits and when to look again; journalled only when reason or detail changed."""

    def hold_fresh(self, holds: Mapping[str, Hold], now: Instant) -> list[Delivery]:
        """The same for many at once, by their ids: for those that were not held yet, and carry only what rows of the log told.

        Answers them as they were.
        """

    def untold(self, identities: Collection[Identity]) -> list[tuple[Identity, str]]:
        """Subject keys of the open events that a DISPATCHED delivery of these carries, or would take along."""

    def close_told(self, told: Sequence[tuple[Identity, str, str]], now: Instant) -> list[Delivery]:
        """Those subjects were told elsewhere, as the third words say: their open events are `announced`, unless one is LOCKED.

        A DISPATCHED delivery that carries nothing open any more ends as read; answers these as they were.
        """

    def lock(self, delivery: Delivery, lock: Lock, now: Instant) -> Delivery:
        """DISPATCHED → LOCKED: freeze the digest with exactly its event ids; the lease rises.

        Events of the delivery that are not among `events` leave it; those still open are gathered anew. Raises
        `StaleLease` when one of `events` is no longer open or belongs to another delivery: the digest would not be true.
        """

    def hand_over(
        self,
        identity: Identity,
        waiting: Delivery | None,
        delivery_id: str,
        lock: Lock,
        now: Instant,
    ) -> Delivery:
        """Lock exactly its events for a hook: in the identity's unfrozen delivery `waiting`, or in a new one.

        `delivery_id` is that of `waiting`, else the new one's. The rest is as for `lock`: what is not among `events`
        leaves and is gathered anew. Raises `StaleLease` when `waiting` moved on meanwhile, when another unfrozen one was
        opened, or when one of `events` is no longer free.
        """

    def renew(self, delivery: Delivery, until: Instant, hold: Hold | None, now: Instant) -> Delivery:
        """Stay LOCKED (text is staged) with a later lease end and the hold; a takeover after expiry raises the lease."""

    def release(
        self,
        delivery: Delivery,
        hold: Hold,
        now: Instant,
        *,
        is_attempt: bool,
        idempotent: bool = False,
        passed_by: str = "",
    ) -> Delivery:
        """LOCKED → DISPATCHED: nothing was typed, the digest thaws; a younger unfrozen delivery is merged into it.

        One that was answered meanwhile ends as acknowledged instead.
        `is_attempt` counts it against `max_attempts` (an adapter's own failure; never a hold or a refused paste).
        Raises `IllegalTransition` when the journal shows that text may have been staged, unless the route is
        `idempotent` by its own `Capabilities`, and nothing else says so: there, sending it again does no harm.
        `passed_by` is the subscription whose receiver leaves these events to the next route for good.
        """

    def settle(
        self, delivery: Delivery, outcome: Outcome, proof: Proof, detail: Mapping[str, str], now: Instant
    ) -> Delivery:
        """→ DELIVERED (submitted, acknowledged, read, empty) or FAILED (failed, unknown), through LOCKED if needed.

        One that has to be answered stays LOCKED, as `awaiting_ack`, where nobody has answered: submitted, unknown or failed.

        Its open events become `announced` for submitted, acknowledged and unknown. They stay open otherwise: with a
        failed delivery they wait for `retry`; one that is read or empty they leave, to be gathered anew.
        Raises `IllegalTransition` for submitted or unknown when the delivery was never locked.
        """

    def unacknowledged(self, since: Instant) -> list[Delivery]:
        """Deliveries settled since then as submitted or unknown whose proof is below 3."""

    def unknown_since(self, since: Instant) -> list[Delivery]:
        """Deliveries settled since then as unknown, which nobody has seen arrive yet; oldest first."""

    def event_ids_of(self, delivery_id: str) -> list[str]:
        """Ids of the events that a delivery carries, in the order of the log; of a flood there are thousands."""

    def events(self, event_ids: Sequence[str]) -> list[WakeEvent]:
        """Those events, in the order of the log."""

    def concerned(self, entity_ids: Collection[str], since: Instant) -> list[tuple[Delivery, list[WakeEvent]]]:
        """The held and the `unacknowledged` deliveries with events about these messages, tasks or edges, and those events."""

    def raise_proof(self, delivery_id: str, proof: Proof, detail: Mapping[str, str], now: Instant) -> Delivery:
        """Raise the proof level of a delivery, terminal or not (journalled `acked`); never lowers it."""

    def open_again(self, delivery_id: str, new_id: NewId, now: Instant) -> Delivery | None:
        """Open the messages of an unknown delivery again, and what its digest told besides; None where nothing may be.

        As `retry` does, without a person, and so at most once for each event, ever: not one that was opened like that
        before, that a second delivery of unknown outcome has told, that was read or shown since, or that is the
        heartbeat's; and nothing once the delivery was seen to arrive, or where no message is left. The opened ones say by
        `again_of` what they come after.
        """

    def announce_again(self, delivery_id: str, not_before: Instant, new_id: NewId, now: Instant) -> Delivery | None:
        """Open what a submitted delivery told again, for its turn failed at once; None where nothing may be.

        In a new delivery, or the identity's unfrozen one, as `open_again` does; no earlier than `not_before`. The events
        count it, and say by `failed_in` after which delivery: of one delivery it happens once.
        """

    def append(self, delivery: Delivery, step: Step, detail: Mapping[str, str], now: Instant) -> None:
        """Append to the journal under the delivery's lease; raises `StaleLease` if it has risen."""

    def fence_of(self, delivery_id: str) -> Binding | None:
        """Where a locked delivery was first attempted."""

    def retry(self, delivery_id: str, new_id: NewId, now: Instant, *, looked: bool = False) -> Delivery:
        """Open a new delivery with the events of a FAILED one, due at once; they count as open again.

        They join the identity's unfrozen delivery if there is one. What was read or shown meanwhile is left out. Raises
        `NotFound`, `IllegalTransition` (not FAILED), `RefusedForSafety` (unknown, and nobody `looked` into the pane) or
        `OperationFailed` (nothing is left to wake for).
        """


class EventStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def mark(self, event_ids: Sequence[str], status: EventStatus, why: str, now: Instant) -> None:
        """Set the status of open events (read, superseded, announced, refused); `why` is kept in `refused_by`."""

    def announce(self, identity: Identity, subject_keys: Sequence[str], via: str, now: Instant) -> None:
        """Remember that an identity was shown those subjects (by `inbox`), event or not; open events are closed by it."""

    def announced(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """Which of them it was shown."""

    def told(self, identity: Identity, subject_keys: Sequence[str]) -> set[str]:
        """Which of them it was shown, or told by a wake, as far as is kept."""

    def window_hits(self) -> Mapping[str, int]:
        """For each subscription how many of its events joined a wake that another event had begun, as far as is kept."""


class SwitchStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def past_wakes(self, since: Instant) -> list[PastWake]:
        """Submits begun since then (journal `intent_submit`), oldest first; each delivery counts once, at its latest.

        One that was given back does not count: what it began was refused, or is proven absent.
        """

    def limits_lifted_at(self, identity: Identity) -> Instant:
        """When `resume` last lifted the limits of the identity, or of all; 0 if never."""

    def pause(self, identity: str, until: Instant | None, now: Instant) -> None:
        """Stop waking an identity, or all with `*`."""

    def resume(self, identity: str, now: Instant) -> None:
        """End a pause and lift spent limits; `*` ends every pause there is."""

    def pauses(self, now: Instant) -> list[Pause]:
        """Pauses in force."""

    def degrade(self, identity: Identity, adapter: str, why: str, now: Instant) -> None:
        """Set one route aside: it is passed over until it is restored."""

    def restore(self, identity: Identity, adapter: str) -> None:
        """Take a route into use again."""

    def degraded(self, identity: Identity) -> Mapping[str, str]:
        """The adapters set aside for an identity, and why."""

    def degraded_routes(self) -> list[DegradedRoute]:
        """Every route that is set aside, by identity and adapter."""


class PlacementStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def bind(self, identity: Identity, binding: Binding, now: Instant) -> None:
        """Record where an identity lives."""

    def unbind(self, identity: Identity) -> None:
        """Forget where it was bound and where it was found; without effect where nothing is recorded."""

    def bindings(self) -> Mapping[Identity, Binding]:
        """Where each bound identity lives."""

    def binding(self, identity: Identity) -> Binding | None:
        """Where it was bound."""

    def remember(self, identity: Identity, pane: RememberedPane, was: RememberedPane | None) -> bool:
        """Record where an identity was found; whom it had there before counts as its former agent.

        Without effect where something else is recorded by now than `was` for that name: a person's word may have come in
        between. Answers whether it was recorded.
        """

    def seen_there(self, identity: Identity, at: Instant) -> None:
        """Record that an identity's agent was seen then where it was found last; an earlier instant changes nothing."""

    def remembered(self, identity: Identity) -> RememberedPane | None:
        """Where an identity was found last."""

    def claims(self) -> list[Claim]:
        """Every remembered pane, and every former agent, as a claim of its identity."""


class SessionStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def meet_session(self, session: Session) -> None:
        """Record whose a conversation is; what was recorded of it before is replaced."""

    def part_from_session(self, session_id: str) -> None:
        """Forget a conversation that ended; without effect where it is not known."""

    def session(self, session_id: str) -> Session | None:
        """One conversation, if it is known."""

    def sessions_of(self, identity: Identity) -> list[Session]:
        """The conversations known to be the identity's, the latest heard of first."""

    def all_sessions(self) -> list[Session]:
        """Every known conversation, the latest heard of first."""


class HeartbeatStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def left_to_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """Open events that wait for a nudge, and ride along in it: stored because of the identity's route alone."""

    def told_by_heartbeat(self, identity: Identity) -> list[WakeEvent]:
        """Messages that a nudge has counted, read or not."""

    def beat(self, identity: Identity) -> Beat | None:
        """When the identity was last nudged (once a nudge was held: when that ended), and the cooldown since."""

    def note_beat(self, identity: Identity, beat: Beat) -> None:
        """Remember a nudge, also across restarts."""


class ActivityStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`. Every change that a person may want to know of adds an entry."""

    def activity_span(self) -> tuple[int, int]:
        """The id of the oldest entry that is kept, and the highest id that was ever given; all between may be read.

        Where nothing is kept, the first is one above the second.
        """

    def activity_after(self, after: int, limit: int, *, identity: str = "") -> list[Activity]:
        """The first `limit` entries with an id above `after`, oldest first; of one identity and of all, or without a filter."""

    def latest_activity(
        self, limit: int, *, before: int | None = None, identity: str = "", since: Instant = EPOCH_START
    ) -> list[Activity]:
        """The last `limit` entries with an id below `before`, newest first, of what happened since then."""

    def wakes_held(self, identity: Identity, reasons: Collection[HoldReason], since: Instant) -> int:
        """How many deliveries of an identity were held since then for one of these reasons."""


class ReceiverStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def note_receiver(self, standing: ReceiverStanding) -> None:
        """Write down how a receiver stands; replaces what was known of it."""

    def forget_receiver(self, subscription_id: str) -> bool:
        """A receiver works: nothing is known against it. Answers whether something was."""

    def receiver_standing(self, subscription_id: str) -> ReceiverStanding | None:
        """How one stands that failed; None for one that works."""

    def receiver_standings(self) -> list[ReceiverStanding]:
        """All that failed, by subscription."""


class SignedWakeStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def take_in(self, emission: Emission, events: Sequence[WakeEvent], now: Instant) -> tuple[Taken, list[WakeEvent]]:
        """Remember an emission and insert its events, in one transaction; answer what it was, and the events that were new.

        Nothing changes where its sender's eventId is known. Of the events the same holds as for `advance`.
        """

    def knows_emission(self, sender: str, event_id: str) -> bool:
        """Whether an emission of that sender with that eventId was taken in, and is not forgotten."""

    def forget_emissions(self, before: Instant, at_most: int) -> int:
        """Forget emissions that were taken in, and say that they were sent, before that; answer how many, at most `at_most`."""


class UpkeepStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def rebase(self, now: Instant) -> None:
        """At the daemon's start: no stored instant may lie further ahead than its nominal length.

        After the wall clock was set back, windows count from `now`, looks and leases are at most 60 s away, and wakes
        recorded in the future count as of `now`.
        """

    def tally(self) -> Tally:
        """Counts for `status`."""

    def prune(self, before: Instant, at_most: int) -> int:
        """Delete what is older than that: terminal deliveries with their journal, closed events, then all else that ages.

        Answers how many rows, at most `at_most`: the file is locked meanwhile, so a long past goes in small steps, each of
        which goes on where the one before it stopped. Fewer mean that nothing old is left. A failed delivery whose events are
        still open stays: nobody was told of them.
        """

    def shrink(self, pages: int) -> bool:
        """Give at most so many unused pages (4 KiB) back to the disk; answers whether more could be given."""


class Ledger(
    CursorStore,
    CoalescingStore,
    DeliveryStore,
    EventStore,
    SwitchStore,
    PlacementStore,
    SessionStore,
    HeartbeatStore,
    NoticeStore,
    EpisodeStore,
    ActivityStore,
    SendStore,
    ItemStore,
    EscalationStore,
    ReminderStore,
    ReceiverStore,
    SignedWakeStore,
    UpkeepStore,
    Protocol,
):
    """See the module's contract."""

    def close(self) -> None:
        """Give up the file."""


class Archive(Ledger, Protocol):
    """A ledger that can be asked about the past."""

    def find_events(self, *, subject_key: str = "", log_id: LogId | None = None) -> list[WakeEvent]:
        """Events about one subject, a task's moves among them, or about one log row; oldest first."""

    def deliveries_with(self, event_id: str) -> list[Delivery]:
        """Every delivery whose digest speaks, or will speak, of the event; oldest first."""

    def quarantined(self, log_id: LogId | None, entity_ids: Collection[str]) -> list[Quarantined]:
        """Log rows that could not be read: that one, and those about the entities."""

    def outcomes_since(self, since: Instant) -> Mapping[Outcome, int]:
        """How many deliveries ended how since then: one that was seen late as submitted, one acknowledged before it was told as empty."""

    def last_wake(self, identity: Identity) -> Instant | None:
        """When a digest of the identity was last submitted, or may have been, as far as the ledger remembers."""
