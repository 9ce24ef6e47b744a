"""What the ledger keeps of what people are told (notices, episodes, messages), of answers and of reminders; the contract is that of `wake_bridge.ports.ledger`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from wake_bridge.domain.attention import Episode
from wake_bridge.domain.channels import Send, SendLine, SendOutcome
from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.reminders import Reminder
from wake_bridge.ports.ledger_records import GivenNotice


class NoticeStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def give_notice(self, notice: Notice, now: Instant, sends: Sequence[Send] = ()) -> bool:
        """Remember that a person is told of something, by these messages; False if they were told of the same subject before."""

    def withdraw_notice(self, subject: str) -> None:
        """Forget a notice whose matter is over and may come again."""

    def noticed(self) -> set[str]:
        """The subjects of all notices."""

    def noticed_at(self, subject: str) -> Instant | None:
        """When a person was told of that; None if they were not."""

    def failed_waiting(self, since: Instant) -> list[Delivery]:
        """Deliveries that FAILED since then and wait for somebody: not retried, acknowledged or seen to arrive; oldest first."""

    def failed_untold(self, since: Instant) -> list[Delivery]:
        """Those of `failed_waiting` of which nobody was told."""

    def standing_notices(self, limit: int) -> list[GivenNotice]:
        """The latest notices whose delivery did not arrive since, or has passed to a person who has not acknowledged it."""


class EpisodeStore(Protocol):
    """See the contract in `wake_bridge.ports.ledger`."""

    def open_episodes(self) -> list[Episode]:
        """The episodes that last, at most one for an identity, the oldest first."""

    def episode(self, episode_id: str) -> Episode | None:
        """One of them, lasting or not; None where there is none, or the retention took it."""

    def episodes_of(self, identity: Identity, limit: int) -> list[Episode]:
        """The latest episodes of an identity, the newest first."""

    def turn_episode(self, ended: Episode | None, ending: str, begun: Episode | None, now: Instant) -> None:
        """End one episode, with its notice, and begin another, in one transaction; either may be None."""

    def own_words(self) -> set[Identity]:
        """Who has sent mail or brought a task to its end (`PageRecord.words`), and was not seen to idle since."""

    def forget_own_words(self, identities: Iterable[Identity]) -> None:
        """They were seen to idle, or are watched no longer."""

    def note_episodes_told(self, ids: Iterable[str], now: Instant) -> None:
        """Remember that a person was told of these; the first time counts."""


class SendStore(Protocol):
    """Messages on their way through channels."""

    def put_send(self, send: Send, now: Instant, *, at_most: int | None = None, since: Instant = EPOCH_START) -> bool:
        """Write a message down; it is on its way from then on. One that is known by its id changes nothing.

        False, and nothing is written, where its sender has `at_most` of them since then already.
        """

    def tell_of_episodes(self, notice: Notice, ids: Sequence[str], sends: Sequence[Send], now: Instant) -> None:
        """Note the notice of these episodes, that they were told, and its messages, in one transaction."""

    def sends_to_do(self, now: Instant) -> list[Send]:
        """The messages that are due, and those whose owner let the lease run out; oldest first."""

    def lock_send(self, send: Send, channel: str, until: Instant, now: Instant) -> Send:
        """→ LOCKED: it is about to be sent by that channel. The lease rises. Raises `StaleLease`."""

    def release_send(self, send: Send, next_try_at: Instant, why: str, now: Instant) -> Send:
        """LOCKED → PENDING: it was refused, or may be sent again. Raises `StaleLease`."""

    def settle_send(self, send: Send, outcome: SendOutcome, why: str, now: Instant) -> Send:
        """→ DELIVERED or FAILED. Raises `StaleLease`."""

    def find_send(self, send_id: str) -> Send | None:
        """One message, also by an unambiguous beginning of its id."""

    def sends(self, limit: int, identity: str = "") -> list[Send]:
        """The latest messages, of those about or from an identity where one is named; newest first."""

    def journal_of_send(self, send_id: str) -> list[SendLine]:
        """Oldest first."""


class EscalationStore(Protocol):
    """Wakes that have to be answered, and pass to a person where nobody does."""

    def overdue(self, now: Instant) -> list[Delivery]:
        """Deliveries whose time to be answered is over, and that are still the agent's; not those in an attempt that runs."""

    def escalated(self) -> list[Delivery]:
        """Deliveries that have passed to a person, of whose messages none has arrived yet."""

    def escalate(self, delivery: Delivery, notice: Notice, sends: Sequence[Send], now: Instant) -> Delivery:
        """→ ESCALATED, through LOCKED, with its messages on their way, in one transaction. The lease rises.

        Raises `StaleLease` where it moved on meanwhile, and `IllegalTransition` where it has ended.
        """

    def settle_escalation(self, delivery: Delivery, why_not: str, now: Instant) -> Delivery:
        """ESCALATED → DELIVERED: a person was told. With `why_not` → FAILED: no channel took it. Raises `StaleLease`."""

    def answer(self, delivery_id: str, lease: int | None, by: str, now: Instant, *, is_person: bool = True) -> Delivery:
        """A delivery is acknowledged: one that waits ends, of one that has ended the proof rises.

        `lease` is the one that its agent was told, None where a person says it, or the agent of a wake that names none. Raises
        `NotFound`, or `LateAnswer` where the lease is not in force, or an agent answers what is a person's now: then only the
        journal says so, and nothing else is changed.
        """

    def answered(self, since: Instant) -> list[Delivery]:
        """Deliveries that had to be answered, and have ended since then with proof 3; oldest first."""

    def call_person(self, delivery_id: str, lease: int | None, by: str, now: Instant) -> Delivery:
        """A person is asked for: its time to be answered is over now. The lease, and what is raised, are those of `answer`.

        Raises `IllegalTransition` where a person asks and it has ended, or is theirs already.
        """

    def put_off(self, delivery: Delivery, by: Instant, why: str, now: Instant) -> Delivery:
        """Another deadline for a wake that awaits its answer, earlier or later. Raises `StaleLease` where it awaits none any more."""

    def passed_on(
        self, identity: Identity, since: Instant, *, is_untold: bool = False
    ) -> list[tuple[Delivery, list[WakeEvent]]]:
        """What a person was told since then in the place of the identity's agent, and has reached them; oldest first.

        With `is_untold` only what no wake has told the agent of, as history.
        """

    def unacknowledged_by_person(self) -> list[tuple[Delivery, list[WakeEvent]]]:
        """What has passed to a person, who has not said yet that they have it; oldest first."""

    def sends_about(self, subject: str) -> list[Send]:
        """The messages about a delivery or an episode, oldest first."""


class ReminderStore(Protocol):
    """Reminders, for agents and for people; their instants are of the wall clock."""

    def set_reminder(self, reminder: Reminder, *, at_most: int | None = None) -> bool:
        """Write a new one down. False, and nothing is written, where whoever sets it has `at_most` of them open already."""

    def reminders(self, *, due_at: Instant | None = None) -> list[Reminder]:
        """Those that are open, or those of them that are due by then; the earliest first."""

    def find_reminder(self, reminder_id: str) -> Reminder | None:
        """One reminder, also by an unambiguous beginning of its id."""

    def end_reminder(self, reminder: Reminder, ending: str, now: Instant) -> bool:
        """End one; False where it had ended."""

    def fire_reminder(
        self, before: Reminder, after: Reminder, event: WakeEvent | None, send: Send | None, now: Instant
    ) -> bool:
        """Mark it as done and write down what it brings about, in one transaction.

        False, and nothing is written, where it is no longer due as it was: another process has fired it, or it was cancelled.
        """
