"""The life of one delivery, from its window to its end, and its journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, JournalEntry, Outcome, Proof, Step
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.ledger_records import Lock, NewId


class Deliveries(Protocol):
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
        self, delivery: Delivery, hold: Hold, now: Instant, *, is_attempt: bool, idempotent: bool = False
    ) -> Delivery:
        """LOCKED → DISPATCHED: nothing was typed, the digest thaws; a younger unfrozen delivery is merged into it.

        `is_attempt` counts it against `max_attempts` (an adapter's own failure; never a hold or a refused paste).
        Raises `IllegalTransition` when the journal shows that text may have been staged, unless the route is
        `idempotent` by its own `Capabilities`, and nothing else says so: there, sending it again does no harm.
        """

    def settle(
        self, delivery: Delivery, outcome: Outcome, proof: Proof, detail: Mapping[str, str], now: Instant
    ) -> Delivery:
        """→ DELIVERED (submitted, acknowledged, read, empty) or FAILED (failed, unknown), through LOCKED if needed.

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
