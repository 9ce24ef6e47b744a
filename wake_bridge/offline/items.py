"""What commands and tools do with items from outside: send one, list and settle those of an inbox, in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.domain.errors import UsageMistake
from wake_bridge.domain.events import ItemTier, WakeEvent
from wake_bridge.domain.items import LEASED_FOR, ME, Contradiction, ItemDraft
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.values import dataclass
from wake_bridge.offline.owner import may_touch, sender_of
from wake_bridge.offline.workplace import Unsaid, Workplace
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock

if TYPE_CHECKING:
    from wake_bridge.ports.items import TakenItem

FLOORS: Final = {
    "now": frozenset({ItemTier.NOW}),
    "next": frozenset({ItemTier.NOW, ItemTier.NEXT}),
    "later": frozenset(ItemTier),
}
"""Which tiers a list shows."""


def notify(run: Workplace, draft: ItemDraft) -> TakenItem:
    """Put an item into the inbox of its recipient.

    Args:
        run: the act.
        draft: the item; who sends it is found here.

    Raises:
        UsageMistake: it says nothing, or two things.
        NotFound: there is no such identity or channel.
        LedgerError: it cannot be written down.
    """
    from wake_bridge.config.settings import engine_settings
    from wake_bridge.control.settings_in_force import as_the_daemon_goes
    from wake_bridge.engine.tail.intake import Intake
    from wake_bridge.storage.graph.nodes import require_known
    from wake_bridge.system.ulids import new_ulid

    if draft.recipient != ME:
        require_known(run.settings, draft.recipient)
    settings = engine_settings(as_the_daemon_goes(run.settings), embedded=False)
    try:
        with closing(LedgerStore.open(run.settings.state_dir)) as ledger:
            intake = Intake(ledger, new_ulid, log=Unsaid())
            taken = intake.take(replace(draft, by=sender_of(run)), settings, SteadyClock().now())
    except Contradiction as wrong:
        raise UsageMistake(wrong.why, f"--{wrong.field}" if wrong.field != "text" else "TEXT") from None
    run.poke_daemon()
    return taken


@dataclass(frozen=True, slots=True)
class ShownItems:
    """What is shown of the items in an inbox at an instant; `total` is how many there are.

    `is_own`: by its owner, who settles by reading on what it had under a lease (`has_leased`).
    """

    identity: Identity
    items: Sequence[WakeEvent]
    total: int
    at: Instant
    is_own: bool = True
    has_leased: bool = False

    @property
    def delivered_at(self) -> Instant | None:
        """When they reach their owner by it; None for somebody else's look."""
        return self.at if self.is_own else None


def unread(run: Workplace, identity: Identity, *, floor: str, limit: int, is_own: bool) -> ShownItems:
    """The unread items of an inbox: by tier, then the oldest first. What is shown is written down by `write_down`.

    Args:
        run: the act.
        identity: whose inbox.
        floor: a key of `FLOORS`.
        limit: show at most so many.
        is_own: whether its owner reads, or somebody who takes nothing from it.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    now = SteadyClock().now()
    with closing(LedgerStore.open(run.places.state_dir, read_only=True)) as ledger:
        items, total = ledger.unread_items(identity, FLOORS[floor], limit, now)
        return ShownItems(identity, items, total, now, is_own, is_own and ledger.has_leased_items(identity, now))


def are_all_there_is(run: Workplace) -> bool:
    """Whether an inbox here has items alone: there is no graph, and items come: a source has a token, or one has come."""
    if not run.has_no_graph():
        return False
    from wake_bridge.config.source_tokens import has_source_tokens

    if has_source_tokens(run.places.state_dir):
        return True
    with closing(LedgerStore.open(run.places.state_dir, read_only=True)) as ledger:
        return ledger.has_items()


def write_down(run: Workplace, shown: ShownItems, *, consume: bool) -> None:
    """What has left this process: read, or under a lease until its reader acknowledges it or reads on.

    What the reader had under a lease before is read.
    """
    ids = [one.id for one in shown.items]
    if not (shown.is_own and (ids or shown.has_leased)):
        return
    with closing(LedgerStore.open(run.places.state_dir)) as ledger:
        now = shown.at
        ledger.settle_leased_items(shown.identity, now)
        if consume:
            ledger.settle_items(ids, now)
        else:
            ledger.lease_items(ids, Instant(now + LEASED_FOR), now)
        told = {one.id: one for item in ids for one in ledger.deliveries_with(item)}
        for carrier in told.values():
            if carrier.outcome is Outcome.SUBMITTED and carrier.proof < Proof.ACKNOWLEDGED:
                ledger.raise_proof(carrier.id, Proof.ACKNOWLEDGED, {"by": "inbox"}, now)


def acknowledge(run: Workplace, item_id: str) -> WakeEvent | None:
    """Settle an item by its id; None where there is none.

    Raises:
        RefusedForSafety: it is another's.
    """
    with closing(LedgerStore.open(run.places.state_dir)) as ledger:
        found = ledger.find_item(item_id)
        if found is None:
            return None
        may_touch(run, "ack", found.identity)
        ledger.settle_items([found.id], SteadyClock().now())
        settled = ledger.find_item(found.id)
    run.poke_daemon()
    return settled
