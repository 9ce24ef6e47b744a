"""Events and deliveries with everything filled in, for tests of the ledger and of what stands on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from wake_bridge.domain.delivery import Delivery, Hold, HoldReason
from wake_bridge.domain.events import MessageDetail, WakeEvent
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Priority, WakePolicy
from wake_bridge.domain.routing import Binding
from wake_bridge.ports.ledger_records import Lock, NewId, PageRecord, Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.ledger_file import FILE_NAME
from wake_bridge.system.files import PRIVATE_DIRECTORY

AGENT: Final = Identity("@agent")
START: Final = Instant(1_700_000_000_000)
FENCE: Final = Binding("/tmp/tmux-0/default", 100, "$1", "%7", 200, "10:00", 300, "10:01")  # noqa: S108 - a name, no file


def later(milliseconds: int) -> Instant:
    """So long after `START`."""
    return Instant(START + milliseconds)


def sample_event(
    log_id: int,
    identity: str = AGENT,
    *,
    subject_key: str = "",
    thread: str = "",
    from_human: bool = False,
    policy: WakePolicy = WakePolicy.IMMEDIATE,
    window: int = 30,
    matched_at: int = START,
) -> WakeEvent:
    """A message that came with row `log_id`; its subject is the row's own unless said otherwise."""
    subject_key = subject_key or f"MESSAGE:{log_id}"
    return WakeEvent(
        id=f"EVENT-{uuid4().hex}",
        epoch=Epoch(1),
        log_id=LogId(log_id),
        identity=Identity(identity),
        kind=EventKind.MESSAGE,
        subject_key=subject_key,
        detail=MessageDetail(subject_key, "Review request", "@sender", thread, from_human=from_human),
        subscription_id="WAKE_SUB:1",
        matched_at=Instant(matched_at),
        policy=policy,
        priority=Priority.NORMAL,
        window=window,
    )


def counted_ids(prefix: str = "DELIVERY") -> NewId:
    """Ids that sort by the order in which they were made."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers):09d}"


def lay_ledger(directory: Path) -> Path:
    """Put the file of a new ledger into a state directory that has none, and answer the directory.

    Made once for all, because to make one takes every migration there is, and their flushes.
    """
    directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    if not (file := directory / FILE_NAME).exists():
        file.write_bytes(_new_ledger())
    return directory


@cache
def _new_ledger() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        LedgerStore.open(Path(directory)).close()
        return Path(directory, FILE_NAME).read_bytes()


@contextmanager
def fresh_ledger(directory: Path) -> Iterator[LedgerStore]:
    """A ledger that stands at the beginning of epoch 1, closed at the end."""
    ledger = LedgerStore.open(lay_ledger(directory))
    try:
        ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", START)
        yield ledger
    finally:
        ledger.close()


def advance(ledger: LedgerStore, *events: WakeEvent, now: int = START) -> list[WakeEvent]:
    """Let the tail find these events, the cursor following the highest row."""
    cursor = max((event.log_id for event in events), default=LogId(0))
    return ledger.advance(PageRecord(Position(Epoch(1), cursor), events), Instant(now))


def open_delivery(ledger: LedgerStore, *events: WakeEvent, new_id: NewId, now: int = START) -> Delivery:
    """The one delivery that gathers these events, all of one identity."""
    advance(ledger, *events, now=now)
    (delivery,) = ledger.gather(Instant(now), new_id)
    return delivery


def lock_with_its_events(
    ledger: LedgerStore, delivery: Delivery, now: int, *riders: WakeEvent, adapter: str = "tmux"
) -> Delivery:
    """Lock a DISPATCHED delivery for a minute, with all its events and the riders, for the pane of `FENCE`."""
    return ledger.lock(
        delivery,
        Lock(
            digest=f"[WAKE] for {delivery.identity} Wake: {delivery.id}",
            events=[event.id for event in (*ledger.events_of(delivery.id), *riders)],
            adapter=adapter,
            where="agents:1.0",
            pane_key="pane of " + delivery.identity,
            fence=FENCE,
            until=Instant(now + 60_000),
        ),
        Instant(now),
    )


def busy(next_look_at: int, detail: str = "spinner") -> Hold:
    """A hold because the agent works."""
    return Hold(HoldReason.ACTIVE, detail, "agents:1.0", Instant(next_look_at))
