"""Converts domain values to columns and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, Final

from wake_bridge.domain.causes import cause_written
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, HoldReason, JournalEntry, Outcome, Proof, Step
from wake_bridge.domain.events import (
    Detail,
    EventStatus,
    ItemDetail,
    ItemMode,
    ItemPriority,
    ItemState,
    ItemTier,
    MessageDetail,
    PermissionDetail,
    PresenceDetail,
    PulseDetail,
    TaskDetail,
    WakeEvent,
)
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId, Priority, WakePolicy
from wake_bridge.domain.routing import Binding

_DETAILS: Final[dict[EventKind, type[Detail]]] = {
    EventKind.MESSAGE: MessageDetail,
    EventKind.TASK: TaskDetail,
    EventKind.PERMISSION: PermissionDetail,
    EventKind.PULSE: PulseDetail,
    EventKind.PRESENCE: PresenceDetail,
    EventKind.ITEM: ItemDetail,
}
_FIELDS: Final = {kind: tuple(one.name for one in fields(made)) for kind, made in _DETAILS.items()}
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))
_WORDS_OF_ITEMS: Final[Mapping[str, type[StrEnum]]] = {
    "mode": ItemMode,
    "tier": ItemTier,
    "priority": ItemPriority,
    "state": ItemState,
}
_NONE: Final = "[]"


def columns_of_event(event: WakeEvent) -> dict[str, Any]:
    """The columns of `wake_event` that come from the event itself."""
    return {
        "id": event.id,
        "epoch": event.epoch,
        "log_id": event.log_id,
        "identity": event.identity,
        "subject_key": event.subject_key,
        "kind": event.kind,
        "detail": to_json({name: getattr(event.detail, name) for name in _FIELDS[event.kind]}),
        "thread": event.thread,
        "from_human": event.from_human,
        "subscription_id": event.subscription_id,
        "other_subscriptions": to_json(event.other_subscriptions),
        "policy": event.policy,
        "priority": event.priority,
        "window_seconds": event.window,
        "matched_at": event.matched_at,
        "occurred_at": event.occurred_at,
        "not_before": event.not_before,
        "status": event.status,
        "reason": event.refused_by,
        "refusals": to_json(event.refusals),
        "by_heartbeat": event.by_heartbeat,
        "ack_within": event.ack_within,
        "delivered_at": event.delivered_at,
    }


def event_of(row: sqlite3.Row) -> WakeEvent:
    """A row of `wake_event` as the domain knows it."""
    kind = EventKind(row["kind"])
    others, refusals = row["other_subscriptions"], row["refusals"]
    return WakeEvent(
        id=row["id"],
        epoch=Epoch(row["epoch"]),
        log_id=LogId(row["log_id"]),
        identity=Identity(row["identity"]),
        kind=kind,
        subject_key=row["subject_key"],
        detail=_detail_of(kind, row["detail"]),
        subscription_id=row["subscription_id"],
        matched_at=Instant(row["matched_at"]),
        occurred_at=row["occurred_at"],
        other_subscriptions=() if others == _NONE else tuple(json.loads(others)),
        policy=WakePolicy(row["policy"]),
        priority=Priority(row["priority"]),
        window=row["window_seconds"],
        not_before=Instant(row["not_before"]),
        status=EventStatus(row["status"]),
        refused_by=row["reason"],
        refusals=() if refusals == _NONE else tuple((one, reason) for one, reason in json.loads(refusals)),
        by_heartbeat=bool(row["by_heartbeat"]),
        again_of=row["again_of"],
        passed_by=row["passed_by"],
        failed_turns=row["failed_turns"],
        failed_in=row["failed_in"],
        ack_within=row["ack_within"],
        delivered_at=row["delivered_at"],
    )


def delivery_of(row: sqlite3.Row) -> Delivery:
    """A row of `delivery` as the domain knows it."""
    return Delivery(
        id=row["id"],
        identity=Identity(row["identity"]),
        state=DeliveryState(row["state"]),
        owner_lease=row["owner_lease"],
        created_at=Instant(row["created_at"]),
        due_at=Instant(row["due_at"]),
        hold=_hold_of(row),
        digest=row["digest"],
        adapter=row["adapter"],
        where=row["place"],
        pane_key=row["pane_key"],
        attempts=row["attempts"],
        outcome=_outcome_of(row),
        proof=Proof(row["proof"]),
        settled_at=row["settled_at"],
        lease_until=row["lease_until"],
        ack_within=row["ack_within"],
        ack_by=row["ack_by"],
        handed_lease=row["handed_lease"],
        escalated_at=row["escalated_at"],
    )


def _outcome_of(row: sqlite3.Row) -> Outcome | None:
    if row["outcome"] is None:
        return None
    # the column knows no fifth way to be delivered; for the agent an escalated one has ended empty
    is_escalated = row["escalated_at"] is not None and row["outcome"] == Outcome.EMPTY
    return Outcome.ESCALATED if is_escalated else Outcome(row["outcome"])


def columns_of_hold(hold: Hold | None) -> dict[str, Any]:
    """The columns of `delivery` that say why it waits; all empty where it does not."""
    if hold is None:
        return {"hold_reason": None, "hold_cause": "", "hold_detail": "", "hold_where": "", "next_look_at": None}
    return {
        "hold_reason": hold.reason,
        "hold_cause": hold.cause,
        "hold_detail": hold.detail,
        "hold_where": hold.where,
        "next_look_at": hold.next_look_at,
    }


def journal_entry_of(row: sqlite3.Row) -> JournalEntry:
    """A row of `journal` as the domain knows it."""
    return JournalEntry(
        at=Instant(row["at"]), step=Step(row["step"]), lease=row["lease"], detail=json.loads(row["detail"])
    )


def to_json(value: Any) -> str:
    """Compact, and ASCII throughout, so that whatever came out of JSON goes back in, lone surrogates included."""
    return _COMPACT.encode(value)


def binding_to_json(binding: Binding) -> str:
    """A fence as it is stored."""
    return to_json(asdict(binding))


def binding_of(text: str) -> Binding:
    """A stored fence."""
    facts: dict[str, Any] = json.loads(text)
    return Binding(**facts)


def _detail_of(kind: EventKind, text: str) -> Detail:
    """A stored detail; what an earlier version knew and this one does not is left out."""
    stored: dict[str, Any] = json.loads(text)
    known = _FIELDS[kind]
    values: dict[str, Any] = {name: value for name, value in stored.items() if name in known}
    if kind is EventKind.ITEM:
        values |= {name: word(values[name]) for name, word in _WORDS_OF_ITEMS.items()}
    return _DETAILS[kind](**values)


def _hold_of(row: sqlite3.Row) -> Hold | None:
    if row["hold_reason"] is None:
        return None
    return Hold(
        reason=HoldReason(row["hold_reason"]),
        detail=row["hold_detail"],
        where=row["hold_where"],
        next_look_at=Instant(row["next_look_at"]),
        cause=cause_written(row["hold_cause"]),
    )
