"""What a delivery has to tell at this moment: a digest of its events, or one line of how much is unread."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.heartbeat import Unread, is_our_pulse
from wake_bridge.domain.names import Identity, WakePolicy
from wake_bridge.engine.deliver.survivors import Sorted, events_of, sort_out, still_unread
from wake_bridge.engine.inquiry import Inquiry
from wake_bridge.ports.ledger import Ledger


@dataclass(frozen=True, slots=True)
class News:
    """What survives of a delivery, and what the guards are asked about; nothing to tell when `candidates` is empty.

    A nudge has `pulses`, its reasons, which are locked along with what it tells, and `told`: mail that an earlier nudge
    counted.
    """

    judged: Sorted
    candidates: tuple[WakeEvent, ...]
    pulses: tuple[WakeEvent, ...] = ()
    told: tuple[WakeEvent, ...] = ()

    def unread(self, passed: tuple[WakeEvent, ...]) -> Unread:
        """What a nudge speaks of, of the events that the guards let pass."""
        return Unread(tuple(one for one in passed if not is_our_pulse(one)), self.told)

    def locked(self, passed: tuple[WakeEvent, ...]) -> list[str]:
        """The ids of the events that the delivery announces."""
        return list(dict.fromkeys(one.id for one in (*self.pulses, *passed)))


async def news_of(inquiry: Inquiry, ledger: Ledger, delivery_id: str, identity: Identity) -> News:
    """Ask graph and ledger what the delivery's events have become. Raises `SourceError`."""
    members = await events_of(ledger, delivery_id)
    waiting = [one for one in members if one.status is EventStatus.OPEN]
    if waiting and all(is_our_pulse(one) for one in waiting):
        return await _nudge(inquiry, ledger, identity, members)
    judged = await sort_out(inquiry, ledger, identity, [*members, *ledger.next_turn_events(identity)])
    own = {one.id for one in members}
    is_alive = any(one.id in own for one in judged.surviving)
    return News(judged, judged.surviving if is_alive else ())


async def unread_of(inquiry: Inquiry, ledger: Ledger, identity: Identity) -> tuple[Unread, Sorted]:
    """What waits for an identity that is left to the heartbeat. Raises `SourceError`."""
    judged = await sort_out(inquiry, ledger, identity, ledger.left_to_heartbeat(identity))
    told = await still_unread(inquiry, ledger, identity, ledger.told_by_heartbeat(identity))
    return Unread(judged.surviving, told), judged


async def _nudge(inquiry: Inquiry, ledger: Ledger, identity: Identity, members: list[WakeEvent]) -> News:
    unread, judged = await unread_of(inquiry, ledger, identity)
    pulses = tuple(one for one in members if one.status is EventStatus.OPEN)
    if not unread.all:
        ended = [(pulse, EventStatus.READ, "nothing is unread any more") for pulse in pulses]
        return News(replace(judged, surviving=(), closed=(*judged.closed, *ended)), ())
    # what a nudge tells is the reason of the wake; the pulse only where all of it was told before
    mail = tuple(replace(one, policy=WakePolicy.IMMEDIATE, window=pulses[0].window) for one in unread.news)
    return News(judged, mail or pulses, pulses, unread.told)
