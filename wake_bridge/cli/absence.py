"""What `status` opens with: what happened since somebody last looked (CONTRACT "Daemon and diagnosis").

A look is a `status` that printed words to a terminal, or a `status --watch` that was ended. A script that asks with
`--json` looks for nobody, and moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wake_bridge.domain.names import Instant
    from wake_bridge.edges.ledger_store import LedgerStore

REASONS_NAMED: Final = 3


def since_you_left(ledger: LedgerStore, left_at: Instant | None) -> dict[str, Any]:
    """Counts since then, and what is held now and why; everything there ever was for one who never looked."""
    from wake_bridge.domain.delivery import Outcome
    from wake_bridge.domain.names import EPOCH_START
    from wake_bridge.domain.reasons import held_because
    from wake_bridge.edges.records import time_or_none

    ended = ledger.outcomes_since(left_at or EPOCH_START)
    held = [one for one in ledger.unsettled() if one.hold is not None]
    return {
        "since": time_or_none(left_at),
        "delivered": ended.get(Outcome.SUBMITTED, 0),
        "held": len(held),
        "heldFor": list(dict.fromkeys(held_because(one.hold, one.identity) for one in held if one.hold)),
        "unknown": ended.get(Outcome.UNKNOWN, 0),
        "failed": ended.get(Outcome.FAILED, 0),
    }


def opening(record: Mapping[str, Any], now: Instant) -> str:
    """`since you left (6 h ago): 14 delivered, 2 held (approval waiting in agents:1.2; quiet hours), 1 unknown`."""
    from wake_bridge.domain.case import span
    from wake_bridge.domain.instants import parse_instant

    left_at = parse_instant(record["since"])
    since = "so far" if left_at is None else f"since you left ({span(max(0, now - left_at))} ago)"
    parts = [f"{record['delivered']} delivered"] if record["delivered"] else []
    if record["held"]:
        parts.append(f"{record['held']} held ({_reasons(record['heldFor'])})")
    parts += [f"{record[name]} {name}" for name in ("unknown", "failed") if record[name]]
    return f"{since}: {', '.join(parts) or 'nothing new'}"


def _reasons(clauses: Sequence[str]) -> str:
    more = len(clauses) - REASONS_NAMED
    return "; ".join(clauses[:REASONS_NAMED]) + (f"; and {more} more reasons" if more > 0 else "")
