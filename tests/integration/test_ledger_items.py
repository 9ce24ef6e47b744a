"""Items in the ledger: taken in by their keys, through every state of the delivery that carries them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.channels import SendOutcome, text_message
from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.domain.events import EventStatus, ItemMode, ItemPriority, ItemState, ItemTier
from wake_bridge.domain.items import LEASED_FOR, ME, ItemDraft, SourceRules, about_storm, event_of
from wake_bridge.domain.names import HOUR, Epoch, Identity, Instant
from wake_bridge.ports.items import StormRule, TakenItem
from wake_bridge.ports.ledger_records import Lock
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.columns import columns_of_event
from wake_bridge.storage.ledger.ledger_file import MIGRATIONS
from wake_bridge.testing.ledger_samples import counted_ids

API = Identity("@api")
NOW = Instant(1_780_000_000_000)


class Inbox:
    """A ledger, and items put into it."""

    def __init__(self, ledger: LedgerStore) -> None:
        self.ledger = ledger
        self.new_id = counted_ids("DELIVERY")
        self._ids = count(1)

    def takes(self, text: str, at: int = 0, **fields: Any) -> TakenItem:
        now = Instant(NOW + at)
        draft = ItemDraft(**{"recipient": API, "source": "build", "text": text} | fields)
        event = event_of(draft, SourceRules(), f"ITEM{next(self._ids):04}", Epoch(1), now)
        return self.ledger.take_item(event, now, storm=StormRule(8, 60_000, about_storm(event, 8, 60_000, now)))

    def texts(self, at: int = 0) -> list[str]:
        shown, _ = self.ledger.unread_items(API, frozenset(ItemTier), 50, Instant(NOW + at))
        return [one.detail.text for one in shown]  # type: ignore[union-attr]


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    ledger = LedgerStore.open(tmp_path)
    yield Inbox(ledger)
    ledger.close()


ACTIVE: dict[str, Any] = {"mode": ItemMode.ACTIVE, "key": "k"}


def test_new_content_takes_the_place_of_an_item_that_waits_and_is_gathered_by_what_it_says_now(inbox: Inbox) -> None:
    """Pending or dispatched: id and place stay, text, priority and deadline count anew, and routing as well."""
    first = inbox.takes("one", **ACTIVE)
    (delivery,) = inbox.ledger.gather(NOW, inbox.new_id)
    dispatched = inbox.ledger.dispatch(delivery, Instant(NOW + 500))

    again = inbox.takes("two", 1000, priority=ItemPriority.HIGH, **ACTIVE)

    assert (again.was, again.event.id, inbox.texts()) == ("updated", first.event.id, ["two"])
    assert again.event.not_before == NOW + 1500
    assert inbox.ledger.events_of(dispatched.id) == []
    (gathered,) = inbox.ledger.gather(Instant(NOW + 1500), inbox.new_id)
    assert [one.detail.text for one in inbox.ledger.events_of(gathered.id)] == ["two"]  # type: ignore[union-attr]
    calm = inbox.takes("three", 2000, key="k")
    assert (calm.was, inbox.ledger.events_of(gathered.id)) == ("updated", [])
    assert [one.id for one in inbox.ledger.next_turn_events(API)] == [first.event.id]


def test_an_item_that_is_being_told_or_was_is_never_touched(inbox: Inbox) -> None:
    """What a frozen digest speaks of stays as it was; news under its key is an item of its own."""
    first = inbox.takes("one", **ACTIVE)
    (delivery,) = inbox.ledger.gather(NOW, inbox.new_id)
    dispatched = inbox.ledger.dispatch(delivery, Instant(NOW + 500))
    locked = inbox.ledger.lock(
        dispatched,
        Lock(
            digest="[WAKE]",
            events=[first.event.id],
            adapter="tmux",
            where="a:1.0",
            pane_key="k",
            until=Instant(NOW + 9),
        ),
        Instant(NOW + 600),
    )

    second = inbox.takes("two", 700, **ACTIVE)

    assert (second.was, inbox.texts()) == ("new", ["one", "two"])
    inbox.ledger.settle(locked, Outcome.FAILED, Proof.NONE, {}, Instant(NOW + 800))
    inbox.ledger.settle_items([first.event.id], Instant(NOW + 900))
    assert inbox.takes("three", 1000, **ACTIVE).was == "updated"
    found = inbox.ledger.find_item(first.event.id)
    assert found is not None
    assert (found.status, found.detail) == (EventStatus.READ, first.event.detail)


def test_what_is_resolved_withdraws_what_waits_and_is_told_once(inbox: Inbox) -> None:
    """Nobody is told of an alert that is over as if it lasted."""
    opened = inbox.takes("disk full", key="k", state=ItemState.OPEN)

    over = inbox.takes("disk fine", 1000, key="k", state=ItemState.RESOLVED)

    assert (over.was, inbox.texts()) == ("new", ["disk fine"])
    withdrawn = inbox.ledger.find_item(opened.event.id)
    assert withdrawn is not None
    assert withdrawn.status is EventStatus.SUPERSEDED
    assert inbox.takes("disk is fine", 2000, key="k", state=ItemState.RESOLVED).was == "over"
    assert inbox.takes("disk full", 400_000, key="k", state=ItemState.OPEN).was == "new"


def test_of_a_source_that_storms_nothing_is_lost_and_one_notice_is_given(inbox: Inbox) -> None:
    """Eight items within a minute may wake; the others wait, and a person is told once until the storm is over."""
    taken = [inbox.takes(f"line {one}", one, mode=ItemMode.ACTIVE) for one in range(100)]

    assert [one.is_storm for one in taken] == [False] * 8 + [True] * 92
    assert len(inbox.texts()) == 50
    assert inbox.ledger.unread_items(API, frozenset(ItemTier), 50, NOW)[1] == 100
    assert inbox.ledger.noticed() == {"storm:build:@api"}
    (delivery,) = inbox.ledger.gather(Instant(NOW + 1000), inbox.new_id)
    assert len(inbox.ledger.events_of(delivery.id)) == 8
    assert len(inbox.ledger.next_turn_events(API)) == 50
    assert inbox.ledger.waiting_items(API) == 92
    assert not inbox.takes("calm", 61_000, mode=ItemMode.ACTIVE).is_storm
    assert inbox.ledger.noticed() == set()


def test_a_reader_that_dies_with_what_it_was_shown_loses_nothing(inbox: Inbox) -> None:
    """The lease runs out, and the item is listed again; a reader that reads on in time settles it."""
    item = inbox.takes("one")
    inbox.ledger.lease_items([item.event.id], Instant(NOW + 1000), NOW)
    assert (inbox.texts(999), inbox.texts(1000)) == ([], ["one"])
    inbox.ledger.lease_items([item.event.id], Instant(NOW + 3000), Instant(NOW + 2000))
    assert inbox.ledger.settle_leased_items(API, Instant(NOW + 2500)) == 1
    assert inbox.texts(9000) == []


def test_the_list_of_an_inbox_is_read_by_its_index_however_many_items_wait(inbox: Inbox) -> None:
    """A hundred thousand items cost a list what ten cost, but for their count."""
    plans: list[str] = []
    inbox.ledger._db.connection.set_trace_callback(
        lambda text: plans.append(text) if text.startswith("SELECT") else None
    )
    inbox.texts()
    inbox.ledger.next_turn_events(API)
    inbox.ledger.waiting_items(API)
    inbox.ledger._db.connection.set_trace_callback(None)
    for query in plans:
        for row in inbox.ledger._db.rows(f"EXPLAIN QUERY PLAN {query}"):
            assert not row["detail"].startswith("SCAN wake_event"), (query, row["detail"])
    counted = [one for one in plans if "COUNT(*)" in one and "wake_event_leased_items" not in one]
    for query in counted:
        assert "Column" not in {row["opcode"] for row in inbox.ledger._db.rows(f"EXPLAIN {query}")}, (
            query,
            "reads rows",
        )
    assert len(counted) == 2


def test_the_number_of_unread_items_leaves_out_what_a_reader_has_and_what_is_for_later(inbox: Inbox) -> None:
    """What is under a lease that lasts is not counted; once it has run out it is."""
    first = inbox.takes("one")
    inbox.takes("two")
    inbox.takes("three", tier=ItemTier.LATER)
    inbox.ledger.lease_items([first.event.id], Instant(NOW + 1000), NOW)
    up_to_next = frozenset({ItemTier.NOW, ItemTier.NEXT})

    def total(tiers: frozenset[ItemTier], at: int) -> int:
        return inbox.ledger.unread_items(API, tiers, 1, Instant(NOW + at))[1]

    assert (total(up_to_next, 999), total(up_to_next, 1000)) == (1, 2)
    assert (total(frozenset(ItemTier), 999), total(frozenset(ItemTier), 1000)) == (2, 3)


def test_an_item_under_a_lease_is_listed_again_in_time_where_the_clock_was_set_back(inbox: Inbox) -> None:
    """A lease lasts its length at most, by the clock as it is now."""
    item = inbox.takes("one")
    inbox.ledger.lease_items([item.event.id], Instant(NOW + 24 * HOUR), Instant(NOW + 23 * HOUR))
    inbox.ledger.rebase(NOW)
    assert (inbox.texts(LEASED_FOR - 1), inbox.texts(LEASED_FOR)) == ([], ["one"])


def _told(inbox: Inbox, item_id: str, outcome: Outcome, at: int) -> str:
    """A wake has told of it, as far as anybody knows; answers its delivery."""
    (delivery,) = inbox.ledger.gather(NOW, inbox.new_id)
    dispatched = inbox.ledger.dispatch(delivery, Instant(NOW + at - 2))
    lock = Lock("[WAKE]", [item_id], adapter="tmux", where="a:1.0", pane_key="k", until=Instant(NOW + at + 9))
    locked = inbox.ledger.lock(dispatched, lock, Instant(NOW + at - 1))
    return inbox.ledger.settle(locked, outcome, Proof.SUBMITTED, {}, Instant(NOW + at)).id


def test_an_item_is_delivered_when_it_first_reaches_its_reader(inbox: Inbox) -> None:
    """By the wake that told it, by the read that leased it, or by what settled it; later looks change nothing."""

    def delivered(item: TakenItem) -> int | None:
        found = inbox.ledger.find_item(item.event.id)
        assert found is not None
        return None if found.delivered_at is None else found.delivered_at - NOW

    woken = inbox.takes("woken", **ACTIVE)
    assert delivered(woken) is None
    _told(inbox, woken.event.id, Outcome.SUBMITTED, 1000)
    listed, settled = inbox.takes("listed"), inbox.takes("settled")
    inbox.ledger.lease_items([woken.event.id, listed.event.id], Instant(NOW + 3000), Instant(NOW + 2000))
    inbox.ledger.lease_items([listed.event.id], Instant(NOW + 6000), Instant(NOW + 5000))
    inbox.ledger.settle_items([listed.event.id, settled.event.id], Instant(NOW + 7000))

    assert [delivered(one) for one in (woken, listed, settled)] == [1000, 2000, 7000]


def test_an_item_that_nobody_knows_to_have_arrived_is_delivered_when_it_is_seen(inbox: Inbox) -> None:
    """After a wake of unknown outcome: when it is seen after all."""
    item = inbox.takes("lost?", **ACTIVE)
    delivery = _told(inbox, item.event.id, Outcome.UNKNOWN, 1000)
    before = inbox.ledger.find_item(item.event.id)
    inbox.ledger.raise_proof(delivery, Proof.ACKNOWLEDGED, {}, Instant(NOW + 4000))
    after = inbox.ledger.find_item(item.event.id)
    assert before is not None
    assert after is not None
    assert (before.status, before.delivered_at, after.delivered_at) == (EventStatus.ANNOUNCED, None, NOW + 4000)


def test_a_persons_item_is_delivered_when_their_channel_took_it_and_anew_when_it_says_something_else(
    inbox: Inbox,
) -> None:
    """What is withdrawn or failed has reached nobody."""
    item = inbox.takes("one", recipient=ME, key="k", mode=ItemMode.PROMPT)
    first, second = (text_message("one", "desk", "", item.event.id, NOW) for _ in range(2))
    sends = [replace(first, id="SEND1"), replace(second, id="SEND2")]
    for outcome, send in zip((SendOutcome.FAILED, SendOutcome.SENT), sends, strict=True):
        inbox.ledger.put_send(send, NOW)
        locked = inbox.ledger.lock_send(send, "desk", Instant(NOW + 9), NOW)
        before = inbox.ledger.find_item(item.event.id)
        assert before is not None
        assert before.delivered_at is None
        inbox.ledger.settle_send(locked, outcome, "", Instant(NOW + 3000))
    after = inbox.ledger.find_item(item.event.id)
    assert after is not None
    assert after.delivered_at == NOW + 3000

    assert inbox.takes("two", 400_000, recipient=ME, key="k", mode=ItemMode.PROMPT).was == "updated"
    anew = inbox.ledger.find_item(item.event.id)
    assert anew is not None
    assert anew.delivered_at is None


def test_an_earlier_ledgers_items_were_delivered_when_they_were_announced(tmp_path: Path) -> None:
    """After the update: what was told or shown has the time at which it was, what may not have arrived has none."""
    with closing(LedgerStore.open(tmp_path, migrations=MIGRATIONS[:19])) as ledger:
        for number, (status, reason) in enumerate(
            (("open", ""), ("announced", "submitted"), ("announced", "inbox"), ("announced", "unknown"))
        ):
            draft = ItemDraft(API, "build", reason or "open")
            columns = columns_of_event(event_of(draft, SourceRules(), f"ITEM{number}", Epoch(1), NOW))
            values = {**columns, "status": status, "reason": reason, "status_at": NOW + number}
            del values["delivered_at"]
            names = ", ".join(values)
            ledger._db.change(
                f"INSERT INTO wake_event ({names}) VALUES ({', '.join(f':{one}' for one in values)})", values
            )
    with closing(LedgerStore.open(tmp_path)) as ledger:
        found = [ledger.find_item(f"ITEM{number}") for number in range(4)]
    assert [one.delivered_at for one in found if one is not None] == [None, NOW + 1, NOW + 2, None]
