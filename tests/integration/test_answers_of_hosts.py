"""Mail that has to be answered on another host: the far daemon's parts and a real link, the near ledger on a turned clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.integration.test_host_links import EVERY_BYTE, FAR, HOST, FarHost, comes_true, far_host, link_to
from wake_bridge.config.hosts import HostsFile
from wake_bridge.domain.delivery import Delivery, DeliveryState, Outcome, Proof, Step
from wake_bridge.domain.errors import LateAnswer, LedgerError
from wake_bridge.domain.hosts import AnswerState, AnswerThere, LinkState, MailThere
from wake_bridge.domain.names import MINUTE, SECOND, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.receivers import Secret
from wake_bridge.domain.signed_wakes import signature_of
from wake_bridge.engine.attention.answers_of_hosts import AnswersOfHosts
from wake_bridge.integrations.hosts.links import Link
from wake_bridge.ports.hosts import NotSentThere, UnansweredThere
from wake_bridge.ports.ledger_records import Lock
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import START, counted_ids, fresh_ledger, open_delivery, sample_event
from wake_bridge.testing.wake_entrance import KEY, OTHER_KEY, message_wake

WITHIN = 5 * MINUTE


class TurnedClock(SteadyClock):
    """It stands still until it is turned."""

    at = START

    def now(self) -> Instant:
        return self.at


@dataclass
class Hosts:
    """The links, as the near side knows them; `down` are those that nobody can ask now."""

    linked: dict[str, Link | AnswerThere]
    down: set[str] = field(default_factory=set)
    asked: list[tuple[str, MailThere]] = field(default_factory=list)
    told: list[tuple[str, MailThere]] = field(default_factory=list)

    def hosts_up(self) -> Sequence[str]:
        return [one for one in self.linked if one not in self.down]

    async def answers(self, host: str, asked: Sequence[MailThere]) -> Sequence[AnswerThere]:
        self.asked += [(host, one) for one in asked]
        link = self.linked.get(host)
        if host in self.down or link is None:
            raise NotSentThere("the link is down")
        return await link.answers(asked) if isinstance(link, Link) else [link] * len(asked)

    async def tell_answered(self, host: str, answered: Sequence[MailThere]) -> None:
        link = self.linked[host]
        if isinstance(link, Link):
            await link.tell_answered(answered)
        self.told += [(host, one) for one in answered]


class Near:
    """The ledger of the host with the graph, and what follows the answers there."""

    def __init__(self, ledger: LedgerStore, hosts: Hosts) -> None:
        self.ledger, self.hosts, self.clock = ledger, hosts, TurnedClock()
        self.follows = AnswersOfHosts(ledger, hosts, self.clock)
        self._ids = counted_ids()

    def handed_over(self, host: str = "devbox", row: int = 1) -> Delivery:
        """A message that has to be answered, in the hands of that host."""
        event = replace(sample_event(row, FAR), ack_within=WITHIN)
        pending = open_delivery(self.ledger, event, new_id=self._ids, now=self.clock.at)
        due = self.ledger.dispatch(pending, self.clock.at)
        until = Instant(self.clock.at + MINUTE)
        lock = Lock(
            digest="{}",
            events=[event.id],
            adapter="ssh",
            where=host,
            pane_key=f"ssh:{host}:@far",
            fence=None,
            until=until,
        )
        locked = self.ledger.lock(due, lock, self.clock.at)
        return self.ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, self.clock.at)

    def now(self, delivery: Delivery) -> Delivery:
        found = self.ledger.delivery(delivery.id)
        assert found is not None
        return found

    def escalate(self, delivery: Delivery) -> None:
        """The person of this host is told."""
        notice = Notice(delivery.id, "escalated", "title", "body", self.clock.at, FAR)
        self.ledger.settle_escalation(
            self.ledger.escalate(self.now(delivery), notice, [], self.clock.at), "", self.clock.at
        )

    async def looks(self) -> None:
        await self.follows.look()

    async def is_over(self, delivery: Delivery) -> bool:
        return await self.follows.is_over(self.now(delivery), self.clock.at)

    def passes(self, milliseconds: int) -> None:
        self.clock.at = Instant(self.clock.at + milliseconds)


@asynccontextmanager
async def near_of(directory: Path, link: Link | AnswerThere, **others: AnswerThere) -> AsyncIterator[Near]:
    with fresh_ledger(directory / "near") as ledger:
        yield Near(ledger, Hosts({"devbox": link, **others}))


def asks(message_id: str, within: object = WITHIN // SECOND) -> str:
    """The wake of a message that has to be answered."""
    wake = message_wake()
    wake["payload"] |= {"messageId": message_id, "ackWithin": within}
    return json.dumps(wake)


def waiting_in(host: FarHost) -> list[Delivery]:
    """What waits for an answer over there, as its agent was told it; the pane is imagined."""
    ledger, now = host.parts.ledger, host.parts.clock.now()
    ledger.gather(Instant(now + MINUTE), counted_ids(f"FAR{now}"))
    for one in ledger.unsettled():
        if one.state is DeliveryState.PENDING:
            events, until = ledger.event_ids_of(one.id), Instant(now + MINUTE)
            lock = Lock(
                digest="[WAKE]",
                events=events,
                adapter="tmux",
                where="far:0.0",
                pane_key="pane",
                fence=None,
                until=until,
            )
            ledger.settle(
                ledger.lock(ledger.dispatch(one, now), lock, now), Outcome.SUBMITTED, Proof.SUBMITTED, {}, now
            )
    return ledger.unsettled()


def played(directory: Path, story: object) -> None:
    async def play() -> None:
        async with far_host(directory) as host, link_to(host.opened) as link, asyncio.timeout(HUNG):
            await comes_true(lambda: link.state is LinkState.UP)
            async with near_of(directory, link) as near:
                await story(host, link, near)  # type: ignore[operator]

    asyncio.run(play())


def test_the_far_ledger_decides_and_what_it_says_is_written_down_once(tmp_path: Path) -> None:
    """An answer that is on disk over there before the deadline ends the wait here, whenever it is heard, and however often."""

    async def story(host: FarHost, link: Link, near: Near) -> None:
        mine = near.handed_over()
        assert (await link.hand_over(asks("MESSAGE:1"))).status == 202
        (there,) = waiting_in(host)
        assert (there.ack_within, there.awaits_ack) == (WITHIN, True)
        await near.looks()
        assert near.now(mine).awaits_ack

        host.parts.ledger.answer(there.id, there.handed_lease, "ack", host.parts.clock.now())
        # the daemon here was dead meanwhile, and its deadline is over
        near.follows = AnswersOfHosts(near.ledger, near.hosts, near.clock)
        near.hosts.down = {"devbox"}
        near.passes(WITHIN + 50 * SECOND)
        await near.looks()
        assert not await near.is_over(mine), "a link that is down is waited for"
        near.hosts.down = set()
        assert not await near.is_over(mine)
        for _ in range(3):
            await near.looks()
        after = near.now(mine)
        assert (after.outcome, after.proof) == (Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED)
        assert [one.step for one in near.ledger.journal_of(mine.id)][-2:] == [Step.HELD, Step.SETTLED]
        assert near.hosts.told == [], "who said it need not be told"

        lost = near.handed_over(row=2)
        near.hosts.down = {"devbox"}
        near.passes(WITHIN + MINUTE)
        assert await near.is_over(lost), "not for ever"

    played(tmp_path, story)


@asynccontextmanager
async def session_of(host: FarHost, near: Near, cut_after: tuple[str, int] | None = None) -> AsyncIterator[Link]:
    """One session, cut after so many bytes one way; nobody makes another one when it is."""
    link = Link(HOST, lambda _: None, host.opened)
    host.line.cut_after, near.hosts.linked["devbox"] = cut_after, link
    serving = asyncio.create_task(link._session())
    try:
        await comes_true(lambda: link.state is LinkState.UP or serving.done())
        near.hosts.down = {"devbox"} if serving.done() else set()
        yield link
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("step", [97, EVERY_BYTE])
@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("side", ["here", "there"])
def test_a_link_that_is_cut_at_any_byte_loses_no_answer(
    tmp_path: Path, side: str, way: str, step: int, record_property: Callable[[str, object], None]
) -> None:
    """For each byte of a session one message whose answer that session carries: with the next session both ledgers have it, once."""

    async def answered(host: FarHost, near: Near, row: int, cut_after: tuple[str, int] | None) -> None:
        near.passes(SECOND)
        mine = near.handed_over(row=row)
        async with asyncio.timeout(HUNG), session_of(host, near) as link:
            assert (await link.hand_over(asks(f"MESSAGE:{row}"))).status == 202
            (there,) = waiting_in(host)
            await near.looks()
        if side == "here":
            near.ledger.answer(mine.id, None, "ack", near.clock.at)
        else:
            host.parts.ledger.answer(there.id, there.handed_lease, "ack", host.parts.clock.now())
        for cut in (cut_after, None):
            async with asyncio.timeout(HUNG), session_of(host, near, cut):
                await near.looks()
            if cut_after is None:
                break
        for ledger, one in ((near.ledger, mine), (host.parts.ledger, there)):
            after = ledger.delivery(one.id)
            assert after is not None
            assert after.outcome is Outcome.ACKNOWLEDGED, (cut_after, one.id)
            assert [one.step for one in ledger.journal_of(one.id)].count(Step.SETTLED) == 1

    async def story(host: FarHost, near: Near) -> None:
        await answered(host, near, 1, None)
        whole = host.line.passed[way]
        cuts = range(0, whole, step)
        for row, cut_after in enumerate(cuts, 2):
            await answered(host, near, row, (way, cut_after))
        assert whole > 200
        assert near.ledger.escalated() == []
        record_property("trials", len(cuts))

    async def play() -> None:
        async with far_host(tmp_path) as host, near_of(tmp_path, AnswerThere(AnswerState.OPEN)) as near:
            await story(host, near)

    asyncio.run(play())


def test_nobody_answers_for_another_link_or_without_its_key(tmp_path: Path) -> None:
    """What one link asks is no other link's; an answer of the host with the graph is signed; agents have no way through the relay."""

    async def story(host: FarHost, link: Link, near: Near) -> None:
        assert near.ledger.unsettled() == []
        assert (await link.hand_over(asks("MESSAGE:1"))).status == 202
        (there,) = waiting_in(host)
        mail = {"agentIdentity": "@far", "messageId": "MESSAGE:1"}
        body = json.dumps({"answered": [mail]})
        HostsFile(host.directory).let_in("other-1", Secret(OTHER_KEY))
        forged = (
            {"body": body, "signature": ""},
            {"body": body, "signature": signature_of(OTHER_KEY, body.encode())},
            {"body": body.replace("@far", "@web"), "signature": signature_of(KEY, body.encode())},
        )
        for one in forged:
            assert (await link.ask("relay_answered", one))["status"] == 503
        assert (await link.ask("ack", {"delivery": there.id}))["status"] == 404

        other = replace(link.host, link="other-1", key=Secret(OTHER_KEY))
        stranger = await host.opened(other)
        serving = asyncio.create_task(stranger.serve(lambda _: None))
        said = await stranger.ask("ask", command="relay_answers", request={"asked": [mail], "link": "laptop-1"})
        signature = signature_of(OTHER_KEY, body.encode())
        await stranger.ask("ask", command="relay_answered", request={"body": body, "signature": signature})
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await stranger.close()
        assert said.get("said", {"answers": [{"state": "unasked"}]})["answers"] == [{"state": "unasked"}]
        assert host.parts.ledger.unsettled() == [there]

        for _ in range(2):
            await link.tell_answered([MailThere(FAR, "MESSAGE:1"), MailThere(FAR, "MESSAGE:none")])
            (answer,) = await link.answers([MailThere(FAR, "MESSAGE:1")])
            assert answer == AnswerThere(AnswerState.ANSWERED)

    played(tmp_path, story)


def test_what_is_answered_here_ends_it_there_and_the_deadline_there_counts_here(tmp_path: Path) -> None:
    """The agent has its time from when it got the wake; what a person answers here nobody owes over there."""

    async def story(host: FarHost, link: Link, near: Near) -> None:
        mine = near.handed_over()
        await link.hand_over(asks("MESSAGE:1"))
        near.passes(100 * SECOND)
        (there,) = waiting_in(host)
        await near.looks()
        deadline = near.now(mine).ack_by
        assert deadline is not None
        assert near.clock.at + WITHIN - 60 * SECOND < deadline <= near.clock.at + WITHIN
        near.ledger.answer(mine.id, None, "ack", near.clock.at)
        await near.looks()
        ended = host.parts.ledger.delivery(there.id)
        assert ended is not None
        assert (ended.outcome, near.hosts.told) == (Outcome.ACKNOWLEDGED, [("devbox", MailThere(FAR, "MESSAGE:1"))])

        # handed over and answered between two looks: it was never seen open
        quick = near.handed_over(row=2)
        await link.hand_over(asks("MESSAGE:2"))
        waiting_in(host)
        near.ledger.answer(quick.id, None, "ack", near.clock.at)
        for _ in range(2):
            await near.looks()
        assert [one.message_id for _, one in near.hosts.told] == ["MESSAGE:1", "MESSAGE:2"]
        assert host.parts.ledger.unsettled() == []

        # the ledger cannot be read at the look after the answer
        late, read = near.handed_over(row=3), near.ledger.answered
        await link.hand_over(asks("MESSAGE:3"))
        waiting_in(host)
        near.ledger.answer(late.id, None, "ack", near.clock.at)

        def unread(_: Instant) -> list[Delivery]:
            raise LedgerError("it cannot be read")

        near.passes(SECOND)
        near.ledger.answered = unread  # type: ignore[method-assign,assignment]
        with pytest.raises(LedgerError):
            await near.looks()
        near.ledger.answered = read  # type: ignore[method-assign]
        near.passes(SECOND)
        await near.looks()
        assert [one.message_id for _, one in near.hosts.told] == ["MESSAGE:1", "MESSAGE:2", "MESSAGE:3"]

        # an item comes as a pulse; it, too, is known by whom it was handed over
        item = {"pulseId": "ITEM1", "source": "inbox:build", "reason": "the build is red", "nextAction": ""}
        wake = message_wake() | {"eventType": "wake/heartbeat_pulse"}
        await link.hand_over(json.dumps(wake | {"payload": item | {"ackWithin": WITHIN // SECOND}}))
        (there,) = waiting_in(host)
        assert there.ack_within == WITHIN
        await link.tell_answered([MailThere(FAR, "ITEM1")])
        assert host.parts.ledger.unsettled() == []

        # nobody owes an answer where none was asked for, or what was asked for is no time
        no_times: list[object] = [0, -1, "5", 1e300, None, [], 700_000]
        for number, within in enumerate(no_times, 4):
            await link.hand_over(asks(f"MESSAGE:{number}", within))
            (answer,) = await link.answers([MailThere(FAR, f"MESSAGE:{number}")])
            assert answer.state is AnswerState.UNASKED

    played(tmp_path, story)


@pytest.mark.parametrize(
    ("answer", "is_over"),
    [
        (AnswerThere(AnswerState.UNASKED), True),
        (AnswerThere(AnswerState.OVER), True),
        (AnswerThere(AnswerState.OPEN, left=MINUTE), False),
        (AnswerThere(AnswerState.OPEN), False),
        (AnswerThere(AnswerState.ANSWERED), False),
    ],
    ids=lambda one: str(getattr(one, "state", "")) + str(getattr(one, "left", "")),
)
def test_a_wake_passes_to_the_person_when_its_host_says_so(
    tmp_path: Path, answer: AnswerThere, *, is_over: bool
) -> None:
    """Also of a release that asks nobody for an answer; of what another host was handed no word counts."""

    async def story() -> None:
        async with near_of(tmp_path, answer, attic=AnswerThere(AnswerState.ANSWERED)) as near:
            mine = near.handed_over()
            near.passes(WITHIN + SECOND)
            assert await near.is_over(mine) is is_over
            await near.looks()
            assert {host for host, _ in near.hosts.asked} == {"devbox"}
            assert (near.now(mine).outcome is Outcome.ACKNOWLEDGED) is (answer.state is AnswerState.ANSWERED)

    asyncio.run(story())


def test_an_answer_after_the_person_was_told_is_noted_once_and_changes_nothing(tmp_path: Path) -> None:
    """As on one host: it is theirs then. What a person says over there counts for this host as well."""

    async def story() -> None:
        async with near_of(tmp_path, AnswerThere(AnswerState.ANSWERED)) as near:
            mine = near.handed_over()
            near.escalate(mine)
            for _ in range(3):
                await near.looks()
            assert near.now(mine).proof < Proof.ACKNOWLEDGED
            assert [one.step for one in near.ledger.journal_of(mine.id)].count(Step.STALE) == 1
            with pytest.raises(LateAnswer):
                near.ledger.answer(mine.id, None, "ack", near.clock.at, is_person=False)
            near.hosts.linked["devbox"] = AnswerThere(AnswerState.ANSWERED, is_late=True)
            await near.looks()
            assert (near.now(mine).proof, near.now(mine).outcome) == (Proof.ACKNOWLEDGED, Outcome.ESCALATED)

    asyncio.run(story())


def test_of_a_host_that_hangs_one_overdue_wake_waits_and_not_each(tmp_path: Path) -> None:
    """Whoever else is overdue at that moment waits for no second time-out."""

    async def story() -> None:
        async with near_of(tmp_path, AnswerThere(AnswerState.OPEN)) as near:
            overdue = [near.handed_over(row=row) for row in (1, 2, 3)]
            near.hosts.down.add("devbox")
            near.passes(WITHIN + SECOND)
            assert [await near.is_over(one) for one in overdue] == [False] * 3
            assert len(near.hosts.asked) == 1
            near.passes(10 * SECOND)
            near.hosts.down.clear()
            near.hosts.linked["devbox"] = AnswerThere(AnswerState.OVER)
            assert [await near.is_over(one) for one in overdue] == [True] * 3

    asyncio.run(story())


def test_a_host_that_hangs_keeps_no_other_from_being_asked(tmp_path: Path) -> None:
    """Each is asked by itself; one that does not answer is asked again."""

    async def story() -> None:
        async with near_of(tmp_path, AnswerThere(AnswerState.ANSWERED), attic=AnswerThere(AnswerState.OPEN)) as near:
            mine, other = near.handed_over(), near.handed_over("attic", row=2)
            ask = near.hosts.answers

            async def hangs(host: str, asked: Sequence[MailThere]) -> Sequence[AnswerThere]:
                if host == "attic":
                    raise UnansweredThere("no answer within 15 s")
                return await ask(host, asked)

            near.hosts.answers = hangs  # type: ignore[method-assign]
            await near.looks()
            assert near.now(mine).outcome is Outcome.ACKNOWLEDGED
            assert near.now(other).awaits_ack

    asyncio.run(story())
