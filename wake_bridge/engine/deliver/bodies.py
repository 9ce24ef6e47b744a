"""Message bodies, for the few targets that asked for them: most get a doorbell."""

from __future__ import annotations

from collections.abc import Sequence

from wake_bridge.domain.events import MessageDetail, WakeEvent
from wake_bridge.domain.names import Identity
from wake_bridge.engine.inquiry import Inquiry
from wake_bridge.engine.settings import Current


def allowed_senders(current: Current, identity: Identity) -> frozenset[str]:
    """Whose bodies the identity is shown; empty for a doorbell."""
    target = current.settings.targets.get(identity)
    return target.allow_from if target is not None and target.wants_bodies else frozenset()


async def bodies_of(inquiry: Inquiry, events: Sequence[WakeEvent], allowed: frozenset[str]) -> dict[str, str]:
    """The bodies of allowed senders, by message id. Raises `SourceError`."""
    bodies: dict[str, str] = {}
    for event in events:
        if isinstance(event.detail, MessageDetail) and event.detail.sender in allowed:
            node = await inquiry.node(event.detail.message_id)
            bodies[event.detail.message_id] = str((node or {}).get("bodyText") or "")
    return bodies
