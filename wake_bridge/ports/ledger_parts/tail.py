"""What the tail keeps: where it stands, and what it has met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.ports.ledger_records import EpochStart, Harvest, Position, TaskState


class TailRecords(Protocol):
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

    def advance(self, harvest: Harvest, now: Instant) -> list[WakeEvent]:
        """Move the cursor and insert the events in one transaction; answer those that were new.

        An event whose (epoch, log_id, identity) or (identity, subject_key) is known already changes nothing, whatever
        became of the known one: a subject wakes an identity at most once, and a refusal stands. One exception: an event
        closed as `NOT_ADDRESSED` opens again when the fact comes once more, for then the audience has been written.
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
