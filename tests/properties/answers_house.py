"""An office whose daemon can die at any commit, one agent that has to answer, and a person who is told by one channel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from wake_bridge.domain.channels import Channel, ChannelKind, Send
from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import LateAnswer
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Identity
from wake_bridge.domain.notices import ESCALATED
from wake_bridge.domain.presence import PresenceState
from wake_bridge.engine.attention.escalations import Escalations
from wake_bridge.engine.attention.outbox import Outbox
from wake_bridge.ports.human import Told
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.office import Office

START: Final = int(datetime(2027, 3, 1, 9, tzinfo=UTC).timestamp() * 1000)
AGENT: Final = "@a"
PERSON: Final = "@me"
WITHIN: Final = 60
"""Seconds in which the agent has to answer."""
WATCHED_EVERY: Final = 10
A_DAY: Final = 25 * 3600
_LEASE: Final = re.compile(r"ack (\S+) --lease (\d+)")


class Killed(BaseException):
    """The daemon died here."""


@dataclass(slots=True)
class Death:
    """At which commit the daemon dies, `before` it or after it; None for never. `commits` counts them."""

    at: int | None = None
    is_before: bool = True
    commits: int = 0
    is_dead: bool = False

    def meets(self, *, before: bool) -> None:
        """A commit is about to happen, or has just happened."""
        if self.is_dead:
            raise Killed
        self.commits += before
        if self.commits == self.at and before is self.is_before:
            self.is_dead, self.at = True, None
            raise Killed


@dataclass(slots=True)
class Desk:
    """`ports.human.Human`: it takes each message by its id, or nothing at all."""

    is_open: bool = True
    told: list[Send] = field(default_factory=list)

    async def tell(self, send: Send, /) -> Told:
        """Take it, unless the desk is closed."""
        if not self.is_open:
            return Told(send.channel, "nobody there")
        self.told.append(send)
        return Told(send.channel)


class AnswersHouse(Office):
    """The office, its escalations and its outbox; `death` is when the daemon dies."""

    def __init__(self, directory: Path, death: Death) -> None:
        self.death = death
        self.desk = Desk()
        super().__init__(directory, [AGENT, PERSON], start=START)
        self.current.settings = _with_desk(self.current.settings)
        self.subscribe(AGENT, pane="a")
        self.sent: list[str] = []
        self.answered: list[str] = []
        self.late: list[str] = []

    def _begin(self) -> None:
        super()._begin()
        database, transaction = self.ledger._db, self.ledger._db.transaction
        death = self.death

        @contextmanager
        def mortal() -> Iterator[None]:
            if death.is_dead:
                raise Killed
            with transaction():
                yield
                death.meets(before=True)
            death.meets(before=False)

        database.transaction = mortal  # type: ignore[method-assign]
        self.escalations = Escalations(
            self.ledger, self.queries, self.current, lambda: {Identity(AGENT), Identity(PERSON)}
        )
        self.outbox = Outbox(self.ledger, self.desk, self.current, self.clock)

    async def lives(self, act: Callable[[], Any]) -> None:
        """Do something; a daemon that dies of it is started again, and nothing that outsiders did is done again."""
        try:
            result = act()
            if result is not None:
                await result
            await self._check_alive()
        except Killed:
            await self._rises()

    async def _check_alive(self) -> None:
        if self.death.is_dead:
            raise Killed

    async def _rises(self) -> None:
        """A new daemon takes up what the dead one has left."""
        while True:
            try:
                self.death.is_dead = False
                await self.outbox.close()
                self.ledger.close()
                self.queries.close()
                await self.tail.close()
                self.clock.begin_anew()
                self._begin()
                self.ledger.rebase(self.clock.now())
                for one in self.ledger.unsettled():
                    if one.state is DeliveryState.LOCKED and not one.awaits_ack:
                        self.ledger.renew(one, self.clock.now(), one.hold, self.clock.now())
                await self.reads()
            except Killed:
                continue
            return

    async def lasts(self, seconds: int) -> None:
        """Time passes, the daemon works and watches."""
        end = self.clock.now() + seconds * 1000
        step = WATCHED_EVERY if seconds <= 3600 else 1800
        while self.clock.now() < end:
            before = self.clock.now()
            await self.lives(self._round)
            left = step * 1000 - (self.clock.now() - before)
            self.clock.turn(max(1, min(left, end - self.clock.now())))

    async def _round(self) -> None:
        await self.reads()
        await self.passes(1)
        await self.escalations.tick(self.clock.now())
        self.outbox.tick(self.clock.now())
        await self.outbox.drain()

    async def wake_arrives(self) -> None:
        """Time passes until the agent has received something, if it does within its time."""
        for _ in range(WITHIN // WATCHED_EVERY - 2):
            if not self.agent("a").received:
                await self.lasts(WATCHED_EVERY)

    # -- what outsiders do -----------------------------------------------------------------------------------------

    def mail(self, *, is_to_answer: bool = True) -> None:
        """Somebody writes to the agent."""
        asks: dict[str, Any] = {"ackWithin": WITHIN, "wakePolicy": "immediate"} if is_to_answer else {}
        message = self.core.send(PERSON, AGENT, f"message {len(self.sent)}", sentAt=self.now_text(), **asks)
        self.sent.append(message)

    def agent_answers(self, nth: int = -1) -> None:
        """The agent answers a wake that it has received, under the lease that it was told."""
        asked = [found.groups() for text in self.agent("a").received if (found := _LEASE.search(text))]
        if not asked:
            return
        delivery_id, lease = asked[nth % len(asked)]
        with closing(LedgerStore.open(self.directory / "state")) as ledger:
            try:
                ledger.answer(delivery_id, int(lease), "ack", self.clock.now())
            except LateAnswer:
                self.late.append(delivery_id)
            else:
                self.answered.append(delivery_id)

    def agent_calls(self) -> None:
        """The agent asks for a person, under its lease."""
        asked = [found.groups() for text in self.agent("a").received if (found := _LEASE.search(text))]
        if not asked:
            return
        with closing(LedgerStore.open(self.directory / "state")) as ledger:
            try:
                ledger.call_person(asked[-1][0], int(asked[-1][1]), "escalate", self.clock.now())
            except LateAnswer:
                self.late.append(asked[-1][0])

    def person_acknowledges(self) -> None:
        """A person says that they have seen the oldest one."""
        with closing(LedgerStore.open(self.directory / "state")) as ledger:
            to_answer = [one for one in reversed(self._all(ledger)) if one.ack_within]
            if to_answer:
                ledger.answer(to_answer[0].id, None, "ack", self.clock.now())

    def agent_reads(self) -> None:
        """The agent reads all its mail."""
        for message in self.sent:
            self.core.mark_read(message)

    def agent_is(self, state: PresenceState) -> None:
        """What its screen shows from now on."""
        self.agent("a").state = state

    # -- the promises ----------------------------------------------------------------------------------------------

    def _all(self, ledger: LedgerStore) -> Sequence[Delivery]:
        return ledger.deliveries(state=None, identity=None, limit=1000)

    def check(self) -> None:
        """0 lost, 0 both told and woken, 0 both told and answered; one answer, one lease."""
        with closing(LedgerStore.open(self.directory / "state", read_only=True)) as ledger:
            known = {}
            for message in self.sent:
                (event,) = ledger.find_events(subject_key=message)
                known[message] = event
                carriers = ledger.deliveries_with(event.id)
                if event.status is EventStatus.OPEN:
                    assert any(not one.state.is_terminal or one.state is DeliveryState.FAILED for one in carriers)
            received = self.agent("a").received
            for one in self._all(ledger):
                journal = [line.step for line in ledger.journal_of(one.id)]
                sends = [each for each in ledger.sends_about(one.id) if each.reason == ESCALATED]
                told = {each.id for each in self.desk.told if each.subject == one.id}
                times = sum(one.id in text for text in received)
                assert sum(one.id in text.split("Wake: ")[-1] for text in received) <= 1, "it was submitted twice"
                assert len(told) <= 1
                assert journal.count(Step.ESCALATED) == bool(one.escalated_at) == bool(sends)
                if one.escalated_at is None:
                    assert not told, "a person was told of what is the agent's"
                else:
                    after = journal[journal.index(Step.ESCALATED) :]
                    assert not {Step.INTENT_SUBMIT, Step.LOCKED, Step.INTENT_STAGE} & set(after), "told and woken"
                    assert one.id not in self.answered, "told and answered"
                if one.outcome is Outcome.ESCALATED:
                    assert told, "nobody was told"
                if one.id in self.late:
                    assert one.escalated_at is not None or one.state.is_terminal
                if one.id in self.answered:
                    assert (one.proof, times) == (3, 1)
                    assert one.outcome in {Outcome.ACKNOWLEDGED, Outcome.SUBMITTED, None}
                if one.ack_within:
                    assert len(ledger.events_of(one.id)) <= 1, "it was told together with others"
                    assert one.proof == 3 or one.outcome not in {Outcome.SUBMITTED, Outcome.UNKNOWN}

    def is_settled(self) -> bool:
        """Whether nothing waits for an answer any more."""
        with closing(LedgerStore.open(self.directory / "state", read_only=True)) as ledger:
            # a text that stands in the composer is looked at for as long as it stands there
            return not [one for one in ledger.unsettled() if one.ack_within and one.proof < Proof.ACKNOWLEDGED]


def _with_desk(settings: Any) -> Any:
    return replace(settings, channels=(Channel("desk", ChannelKind.FILE, is_default=True),))
