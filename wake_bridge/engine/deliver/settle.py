"""Settles a delivery and logs it, in one form for everybody who ends one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from structlog.stdlib import BoundLogger

from wake_bridge.domain.delivery import Delivery, Outcome, Proof
from wake_bridge.domain.names import Instant
from wake_bridge.ports.ledger import Ledger

_TROUBLE: Final = frozenset({Outcome.UNKNOWN, Outcome.FAILED})
"""What a person may have to look after: it is logged as a warning."""


def settle_and_log(
    ledger: Ledger,
    log: BoundLogger,
    delivery: Delivery,
    outcome: Outcome,
    proof: Proof,
    evidence: Mapping[str, str],
    now: Instant,
) -> Delivery:
    """Settle a delivery, then log it; answers where it stands then. Raises what `Ledger.settle` does, and logs nothing then."""
    settled = ledger.settle(delivery, outcome, proof, evidence, now)
    report = log.warning if outcome in _TROUBLE else log.info
    report(
        "delivery_awaits_ack" if settled.awaits_ack else "delivery_settled",
        delivery=delivery.id,
        agent=delivery.identity,
        pane=delivery.where,
        outcome=outcome,
        proof=int(proof),
        evidence=dict(evidence),
        # what it was called before, for a release
        **({"detail": evidence["why"]} if "why" in evidence else {}),
    )
    return settled
