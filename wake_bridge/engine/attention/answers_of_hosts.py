"""Mail that has to be answered, and was handed to another host: asks there what became of it, and tells there what was answered here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import structlog

from wake_bridge.domain.delivery import Delivery, DeliveryState, Step
from wake_bridge.domain.errors import IllegalTransition, LateAnswer, LedgerError, StaleLease
from wake_bridge.domain.events import MessageDetail
from wake_bridge.domain.hosts import AnswerState, AnswerThere, MailThere, host_of_delivery
from wake_bridge.domain.names import DAY, MINUTE, SECOND, Instant, to_beat
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.hosts import HostAnswers, NotSentThere, UnansweredThere
from wake_bridge.ports.ledger import Ledger

ASKED_EVERY: Final = 2.0
"""Seconds between two questions, while there is something to ask."""

AT_ONCE: Final = 50
"""Messages of one question, or of one word."""

WAITS_FOR_LINK: Final = MINUTE
"""Milliseconds past the deadline for which another host is waited for: whether it was answered there, it alone knows."""

TOLD_AGAIN: Final = DAY
"""Milliseconds: answers given since then a daemon that begins tells the other hosts once more."""

_SAME: Final = 3 * SECOND
"""Milliseconds between two deadlines that count as one."""


class AnswersOfHosts:
    """Follows what other hosts were handed and have to answer, until somebody has answered.

    Contract: the ledger of the other host decides between the answer and the deadline; what it says is written down here by a
    compare-and-swap. Nothing is kept besides: what was not heard is asked for again, and what is heard twice changes nothing.
    A host is asked of nothing but what it was handed, so its word ends no other wake.

    Args:
        links: the links to the hosts.
    """

    def __init__(self, ledger: Ledger, links: HostAnswers, clock: Clock) -> None:
        self._ledger = ledger
        self._links = links
        self._clock = clock
        self._followed: dict[str, tuple[str, MailThere]] = {}
        self._untold: dict[str, tuple[str, MailThere]] = {}
        self._unheard: dict[str, Instant] = {}
        self._known_there: set[str] = set()
        # whether the other hosts were told of what was answered before it began nobody knows any more
        self._looked_at = Instant(clock.now() - TOLD_AGAIN)
        self._log = structlog.get_logger("hosts")

    async def run(self) -> None:
        """Ask for ever, and tell."""
        while True:
            # a ledger that cannot be written is told of by the chores; what was not written down is asked for again
            with suppress(LedgerError):
                await self.look()
            await asyncio.sleep(to_beat(ASKED_EVERY, asyncio.get_running_loop().time()))

    async def look(self) -> None:
        """Ask each host once, and tell it what it does not know. Raises `LedgerError`."""
        hosts = self._links.hosts_up()
        if not hosts:
            return
        now = self._clock.now()
        # what was handed over and answered between two looks was never seen open
        answered = {one.id: one for one in self._ledger.answered(self._looked_at) if _is_there(one)}
        self._looked_at = now
        self._known_there &= set(answered)
        self._untold |= {one: self._there(answered[one]) for one in set(answered) - self._known_there}
        found = {one.id: one for one in self._open()}
        # what is no longer open, and not by the word of its host, was answered here
        self._untold |= {one: there for one, there in self._followed.items() if one not in found}
        self._followed = {one.id: self._there(one) for one in found.values()}
        await asyncio.gather(*(self._follow(one, found) for one in hosts))

    async def is_over(self, delivery: Delivery, now: Instant) -> bool:
        """Whether a wake whose time is over here is a person's now: its host says so, or cannot be asked for too long.

        A host that did not answer is not asked again at the same moment: who else is overdue then must not wait for it each time.

        Raises `LedgerError`.
        """
        if not _is_there(delivery) or delivery.state is not DeliveryState.LOCKED:
            return True
        is_waited_for = now < (delivery.ack_by or now) + WAITS_FOR_LINK
        host, mail = self._there(delivery)
        if self._unheard.get(host) == now:
            return not is_waited_for
        try:
            (answer,) = await self._links.answers(host, [mail])
        except (NotSentThere, UnansweredThere):
            self._unheard[host] = now
            return not is_waited_for
        if answer.state is AnswerState.ANSWERED or (answer.state is AnswerState.OPEN and answer.left):
            self._take(delivery, host, answer)
            return False
        return answer.state is not AnswerState.OPEN or not is_waited_for

    def _open(self) -> Iterator[Delivery]:
        """All that nobody has answered, and that another host was handed."""
        for one in self._ledger.unsettled():
            if one.state in {DeliveryState.LOCKED, DeliveryState.ESCALATED} and _is_there(one):
                yield one
        yield from (one for one, _ in self._ledger.unacknowledged_by_person() if _is_there(one))

    def _there(self, delivery: Delivery) -> tuple[str, MailThere]:
        """The host that was handed it, and the message or the item that it was told there."""
        events = self._ledger.events_of(delivery.id)
        told = (one.detail.message_id if isinstance(one.detail, MessageDetail) else one.id for one in events)
        return host_of_delivery(delivery), MailThere(delivery.identity, next(told, ""))

    async def _follow(self, host: str, found: Mapping[str, Delivery]) -> None:
        asked = [(found[one], mail) for one, (where, mail) in self._followed.items() if where == host]
        told = [(one, mail) for one, (where, mail) in self._untold.items() if where == host]
        with suppress(NotSentThere, UnansweredThere):
            for first in range(0, len(asked), AT_ONCE):
                piece = asked[first : first + AT_ONCE]
                answers = await self._links.answers(host, [mail for _, mail in piece])
                for (delivery, _), answer in zip(piece, answers, strict=True):
                    self._take(delivery, host, answer)
            for first in range(0, len(told), AT_ONCE):
                await self._links.tell_answered(host, [mail for _, mail in told[first : first + AT_ONCE]])
                for one, _ in told[first : first + AT_ONCE]:
                    self._untold.pop(one, None)
                    self._known_there.add(one)

    def _take(self, delivery: Delivery, host: str, answer: AnswerThere) -> None:
        """Write down what a host says of a wake that it was handed. Raises `LedgerError`."""
        now, by = self._clock.now(), f"an answer on {host}"
        with suppress(StaleLease, IllegalTransition, LateAnswer):
            match answer.state:
                case AnswerState.ANSWERED:
                    self._followed.pop(delivery.id, None)
                    self._known_there.add(delivery.id)
                    if answer.is_late or not self._was_late(delivery, by):
                        self._ledger.answer(delivery.id, None, by, now, is_person=answer.is_late)
                        self._log.info("delivery_acknowledged", delivery=delivery.id, agent=delivery.identity, by=by)
                case AnswerState.OPEN if answer.left and delivery.awaits_ack:
                    deadline = Instant(now + answer.left)
                    if abs(deadline - (delivery.ack_by or now)) > _SAME:
                        self._ledger.put_off(delivery, deadline, f"its deadline on {host}", now)
                case AnswerState.OVER if delivery.awaits_ack and (delivery.ack_by or now) > now:
                    if answer.is_called:
                        self._ledger.call_person(delivery.id, None, by, now)
                    else:
                        self._ledger.put_off(delivery, now, f"its time is over on {host}", now)

    def _was_late(self, delivery: Delivery, by: str) -> bool:
        """Whether the journal says already that this answer came too late."""
        if delivery.escalated_at is None:
            return False
        return any(
            one.step is Step.STALE and one.detail.get("by") == by for one in self._ledger.journal_of(delivery.id)
        )


def _is_there(delivery: Delivery) -> bool:
    """Whether another host was handed it, and it has to be answered."""
    return bool(delivery.ack_within and host_of_delivery(delivery))
