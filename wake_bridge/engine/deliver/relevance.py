"""Decides which events of a delivery are still news when it is typed, and what the digest tells."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from wake_bridge.domain.attention import AFTER_WORK
from wake_bridge.domain.events import (
    EventStatus,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, WakePolicy
from wake_bridge.domain.nudges import Unread, is_our_pulse
from wake_bridge.domain.signed_wakes import is_signed
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.settings import Current
from wake_bridge.ports.change_log import IdentityRow, MailState
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NOT_ADDRESSED, TaskState

EVENTS_AT_ONCE: Final = 500
"""Events that are read in one go."""


@dataclass(frozen=True, slots=True)
class JudgedEvents:
    """The surviving events, and those that need no wake any more with the status they get.

    `settled` are those whose status was known before.
    """

    surviving: tuple[WakeEvent, ...]
    closed: tuple[tuple[WakeEvent, EventStatus, str], ...] = ()
    settled: tuple[WakeEvent, ...] = ()
    identities: Mapping[Identity, IdentityRow] = field(default_factory=dict)

    @property
    def any_read(self) -> bool:
        """Whether one of them was read or shown meanwhile."""
        statuses = {status for _, status, _ in self.closed} | {one.status for one in self.settled}
        return bool(statuses & {EventStatus.READ, EventStatus.ANNOUNCED})

    @property
    def unanswered(self) -> tuple[WakeEvent, ...]:
        """Those that nobody has read: what an inbox only listed is not answered."""
        listed = [one for one, status, _ in self.closed if status is EventStatus.ANNOUNCED]
        return (*self.surviving, *listed, *(one for one in self.settled if one.status is EventStatus.ANNOUNCED))

    def write_ends(self, ledger: Ledger, now: Instant) -> None:
        """Give those that need no wake any more their status, all with the same reason in one write. Raises `LedgerError`."""
        ends: dict[tuple[EventStatus, str], list[str]] = {}
        for event, status, why in self.closed:
            ends.setdefault((status, why), []).append(event.id)
        for (status, why), ids in ends.items():
            ledger.mark(ids, status, why, now)


async def judge_events(
    queries: GraphQueries, ledger: Ledger, identity: Identity, events: Sequence[WakeEvent]
) -> JudgedEvents:
    """Ask the graph and the ledger what became of each event.

    Raises `SourceError` when the graph cannot be asked: then nothing is known and nothing may be typed.
    """
    open_events = [one for one in events if one.status is EventStatus.OPEN]
    # the graph here knows nothing of what a signed wake told
    of_rows = [one for one in open_events if not is_signed(one)]
    messages = [(one.detail.message_id, identity) for one in of_rows if isinstance(one.detail, MessageDetail)]
    tasks = list(dict.fromkeys(one.detail.task_id for one in of_rows if isinstance(one.detail, TaskDetail)))
    edges = [one.detail.edge_id for one in of_rows if isinstance(one.detail, PermissionDetail)]
    keys = [one.subject_key for one in open_events]
    # at once: those of one thread follow each other without a turn of the loop between them
    states, present, identities, told = await asyncio.gather(
        queries.mail_states([*messages, *((task, identity) for task in tasks)]),
        queries.edges_present(edges),
        queries.identities(identity),
        queries.told(identity, [one.subject_key for one in open_events if not one.again_of]),
    )
    left_behind = _left_behind(ledger.task_states(tasks), of_rows)
    left_behind |= _left_behind({}, [one for one in open_events if is_signed(one)])
    shown = ledger.announced(identity, keys)

    surviving: list[WakeEvent] = []
    closed: list[tuple[WakeEvent, EventStatus, str]] = []
    for event in open_events:
        verdict: tuple[EventStatus, str] | None = None
        if event.subject_key in shown:
            verdict = EventStatus.ANNOUNCED, "shown by inbox"
        elif event.subject_key in told:
            verdict = EventStatus.ANNOUNCED, f"told by the host {told[event.subject_key]}"
        elif event.id in left_behind:
            verdict = EventStatus.SUPERSEDED, left_behind[event.id]
        elif isinstance(event.detail, PresenceDetail):
            verdict = _over(ledger, event.detail)
        else:
            verdict = _fate(event, states, present)
        if verdict is None:
            surviving.append(event)
        else:
            closed.append((event, *verdict))
    settled = tuple(one for one in events if one.status is not EventStatus.OPEN)
    return JudgedEvents(tuple(surviving), tuple(closed), settled, identities)


async def events_of(ledger: Ledger, delivery_id: str) -> list[WakeEvent]:
    """The events of a delivery, read in pieces: those of a flood must not keep other targets waiting."""
    events: list[WakeEvent] = []
    ids = ledger.event_ids_of(delivery_id)
    for first in range(0, len(ids), EVENTS_AT_ONCE):
        events += ledger.events(ids[first : first + EVENTS_AT_ONCE])
        await asyncio.sleep(0)
    return events


async def still_unread(
    queries: GraphQueries, ledger: Ledger, identity: Identity, told: Sequence[WakeEvent]
) -> tuple[WakeEvent, ...]:
    """Those messages told before that nobody has read or seen in the inbox since. Raises `SourceError`."""
    messages = [(one.detail.message_id, identity) for one in told if isinstance(one.detail, MessageDetail)]
    states = await queries.mail_states(messages)
    shown = ledger.announced(identity, [one.subject_key for one in told])
    return tuple(one for one in told if one.subject_key not in shown and _fate(one, states, set()) is None)


def _left_behind(states: Mapping[str, TaskState], events: Sequence[WakeEvent]) -> dict[str, str]:
    """The ids of those moves of tasks that a later move has overtaken, each with the words for it."""
    moves = [(one, one.detail) for one in events if isinstance(one.detail, TaskDetail)]
    latest = {move.task_id: one.id for one, move in sorted(moves, key=lambda each: (each[0].epoch, each[0].log_id))}
    # a task that the ledger does not know stands where its last move took it
    now = {task: states[task].state if task in states else "" for task in latest}
    return {
        one.id: f"the task has moved on{f' to {now[move.task_id]}' if now[move.task_id] else ''}"
        for one, move in moves
        if latest[move.task_id] != one.id or now[move.task_id] not in {"", move.new_state}
    }


def _over(ledger: Ledger, seen: PresenceDetail) -> tuple[EventStatus, str] | None:
    """What an agent stood at is no news once it is over; that it finished its work stays news."""
    episode = ledger.episode(seen.episode_id)
    if episode is None:
        return EventStatus.SUPERSEDED, "it is no longer on record"
    if episode.ended_at is None or episode.kind in AFTER_WORK:
        return None
    return EventStatus.SUPERSEDED, f"it is over: {episode.ending}"


def _fate(
    event: WakeEvent, states: Mapping[tuple[str, Identity], MailState], present: set[str]
) -> tuple[EventStatus, str] | None:
    """The status of an event that is no news any more; None while it is."""
    detail = event.detail
    if is_signed(event):
        return None
    if isinstance(detail, PermissionDetail):
        return None if detail.edge_id in present else (EventStatus.SUPERSEDED, "the permission was withdrawn")
    if isinstance(detail, TaskDetail):
        state = states.get((detail.task_id, event.identity))
        return (EventStatus.SUPERSEDED, "the task is gone") if state is not None and not state.exists else None
    if not isinstance(detail, MessageDetail):
        return None
    state = states.get((detail.message_id, event.identity))
    if state is None or not state.exists:
        return EventStatus.SUPERSEDED, "the message is gone"
    if not state.addressed:
        return EventStatus.SUPERSEDED, NOT_ADDRESSED
    if state.is_read:
        return EventStatus.READ, "read meanwhile"
    return None


@dataclass(frozen=True, slots=True)
class News:
    """What survives of a delivery, and what the guards are asked about; nothing to tell when `candidates` is empty.

    `due_at` is when its own window closes where it is only a share of a delivery's; 0 where the delivery's counts. A nudge has `pulses`, its reasons, which are locked along with what it tells, and `told`: mail that an earlier nudge
    counted.
    """

    judged: JudgedEvents
    candidates: tuple[WakeEvent, ...]
    pulses: tuple[WakeEvent, ...] = ()
    told: tuple[WakeEvent, ...] = ()
    due_at: Instant = EPOCH_START

    def unread(self, passed: tuple[WakeEvent, ...]) -> Unread:
        """What a nudge speaks of, of the events that the guards let pass."""
        return Unread(tuple(one for one in passed if not is_our_pulse(one)), self.told)

    def locked(self, passed: tuple[WakeEvent, ...]) -> list[str]:
        """The ids of the events that the delivery announces."""
        return list(dict.fromkeys(one.id for one in (*self.pulses, *passed)))


async def news_of(queries: GraphQueries, ledger: Ledger, delivery_id: str, identity: Identity) -> News:
    """Ask graph and ledger what the delivery's events have become. Raises `SourceError`."""
    members = await events_of(ledger, delivery_id)
    waiting = [one for one in members if one.status is EventStatus.OPEN]
    if waiting and all(is_our_pulse(one) for one in waiting):
        return await _nudge(queries, ledger, identity, members)
    # what has to be answered is told alone
    riders = [] if any(one.ack_within for one in waiting) else ledger.next_turn_events(identity)
    judged = await judge_events(queries, ledger, identity, [*members, *riders])
    own = {one.id for one in members}
    is_alive = any(one.id in own for one in judged.surviving)
    return News(judged, judged.surviving if is_alive else ())


async def unread_of(queries: GraphQueries, ledger: Ledger, identity: Identity) -> tuple[Unread, JudgedEvents]:
    """What waits for an identity that is left to the heartbeat. Raises `SourceError`."""
    judged = await judge_events(queries, ledger, identity, ledger.left_to_heartbeat(identity))
    told = await still_unread(queries, ledger, identity, ledger.told_by_heartbeat(identity))
    return Unread(judged.surviving, told), judged


async def _nudge(queries: GraphQueries, ledger: Ledger, identity: Identity, members: list[WakeEvent]) -> News:
    unread, judged = await unread_of(queries, ledger, identity)
    pulses = tuple(one for one in members if one.status is EventStatus.OPEN)
    if not unread.all:
        ended = [(pulse, EventStatus.READ, "nothing is unread any more") for pulse in pulses]
        return News(replace(judged, surviving=(), closed=(*judged.closed, *ended)), ())
    # what a nudge tells is the reason of the wake; the pulse only where all of it was told before
    mail = tuple(replace(one, policy=WakePolicy.IMMEDIATE, window=pulses[0].window) for one in unread.news)
    return News(judged, mail or pulses, pulses, unread.told)


def allowed_senders(current: Current, identity: Identity) -> frozenset[str]:
    """Whose bodies the identity is shown; empty where the digest shows none."""
    target = current.settings.targets.get(identity)
    return target.allow_from if target is not None and target.wants_bodies else frozenset()


async def bodies_of(queries: GraphQueries, events: Sequence[WakeEvent], allowed: frozenset[str]) -> dict[str, str]:
    """The bodies of allowed senders, by message id. Raises `SourceError`."""
    bodies: dict[str, str] = {}
    for event in events:
        if isinstance(event.detail, MessageDetail) and event.detail.sender in allowed:
            node = await queries.node(event.detail.message_id)
            bodies[event.detail.message_id] = str((node or {}).get("bodyText") or "")
    return bodies
