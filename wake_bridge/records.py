"""Domain values as JSON records: one shape for commands and for the control socket."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.activity import Activity
from wake_bridge.domain.attention import Episode
from wake_bridge.domain.channels import Channel, Send, SendLine
from wake_bridge.domain.delivery import Delivery, DeliveryState, Hold, JournalEntry, Outcome
from wake_bridge.domain.escalation import axes_of
from wake_bridge.domain.events import ItemDetail, WakeEvent
from wake_bridge.domain.explanation import span
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, parse_instant
from wake_bridge.domain.presence import Evidence, PresenceState, Sighted
from wake_bridge.domain.reasons import held_because
from wake_bridge.domain.reminders import Reminder
from wake_bridge.domain.route_table import TABLE, RouteVerdict
from wake_bridge.domain.routing import Authority, Inject, RouteState, Start, Steer, hold_because_of
from wake_bridge.engine.explain.overview import IdentityOverview, Need
from wake_bridge.ports.leases import HostOnGraph
from wake_bridge.system.clock import timestamp_of_instant

if TYPE_CHECKING:
    from wake_bridge.config.hosts import LinkedHost
    from wake_bridge.domain.homes import Home, Reach
    from wake_bridge.engine.explain.pane_reports import PaneReport, PaneReports
    from wake_bridge.engine.explain.presence_query import PresenceReading
    from wake_bridge.engine.explain.versions import UntestedVersion
    from wake_bridge.ports.ledger import Archive


REASONS_NAMED: Final = 3
"""Reasons of held wakes that the summary of a person's absence names."""

MOVES: Final[dict[type, str]] = {Start: "start", Steer: "steer", Inject: "inject", Hold: "hold"}


def routes_record(
    identity: Identity,
    route_states: Sequence[RouteState],
    authority: Authority,
    verdict: RouteVerdict,
    degraded: Mapping[str, str],
) -> dict[str, Any]:
    """What `routes --explain` prints: each route in order, what the table says now, and all its rows.

    `degraded` says why an adapter is set aside.
    """
    rows = {route.key: row for route, row in verdict.passed}
    if verdict.route is not None:
        rows[verdict.route.key] = verdict.row
    return {
        "agentIdentity": identity,
        "authority": {"steer": authority.steer, "mayStartThread": authority.may_start_thread},
        "decision": _decision(identity, verdict),
        "routes": [_route(one, rows.get(one.route.key), degraded) for one in route_states],
        "table": [
            {
                "part": row.part,
                "row": row.name,
                "when": row.when,
                "then": row.then,
                "decides": row.name == verdict.row,
                "passed": [route.adapter for route, name in verdict.passed if name == row.name],
            }
            for row in TABLE
        ],
    }


def _decision(identity: Identity, verdict: RouteVerdict) -> dict[str, Any]:
    decision = verdict.decision
    hold = decision if isinstance(decision, Hold) else None
    return {
        "move": MOVES[type(decision)],
        "row": verdict.row,
        "route": verdict.route.adapter if verdict.route is not None else None,
        "turnId": decision.turn_id if isinstance(decision, Steer) else None,
        "holdReason": hold.reason if hold else None,
        "cause": hold.cause if hold else None,
        "why": hold.detail if hold else None,
        "where": (hold.where or None) if hold else None,
        "remedy": hold.told(identity) if hold else None,
    }


def _route(route_state: RouteState, row: str | None, degraded: Mapping[str, str]) -> dict[str, Any]:
    seen, nowhere = route_state.presence, route_state.nowhere
    return {
        "route": route_state.route.adapter,
        "row": row,
        "reachable": seen is not None,
        "where": (seen.where if seen else nowhere.where if nowhere else "") or None,
        "presence": seen.state if seen else None,
        "source": seen.source if seen else None,
        "activeTurnId": seen.active_turn_id if seen else None,
        "why": seen.detail if seen else nowhere.detail if nowhere else None,
        "onlySeen": route_state.only_seen,
        "degraded": degraded.get(route_state.route.adapter),
        "capabilities": asdict(route_state.route.capabilities),
    }


_OF_HOLD: Final = ("id", "target", "pane", "hold_reason", "cause", "hold_detail", "remedy", "next_look")


def time_or_none(instant: Instant | None) -> str | None:
    """ISO-8601 with milliseconds, or None for "never"."""
    return timestamp_of_instant(instant) if instant else None


def delivery_record(delivery: Delivery, events: Iterable[WakeEvent]) -> dict[str, Any]:
    """One line of `deliveries`."""
    members = list(events)
    waits = delivery.hold if not delivery.state.is_terminal else None
    return {
        "id": delivery.id,
        "target": delivery.identity,
        "adapter": delivery.adapter or None,
        "pane": delivery.where or (waits.where if waits else "") or None,
        "state": delivery.state,
        "outcome": delivery.outcome,
        "proof": int(delivery.proof),
        "hold_reason": waits.reason if waits else None,
        "cause": waits.cause if waits else None,
        "hold_detail": waits.detail if waits else None,
        "remedy": waits.told(delivery.identity) if waits else None,
        "next_look": time_or_none(waits.next_look_at) if waits else None,
        "attempts": delivery.attempts,
        "event_count": len(members),
        "events": [{"logId": one.log_id, "kind": one.kind, "subject_key": one.subject_key} for one in members],
        "digest": delivery.digest or None,
        "dueAt": time_or_none(delivery.due_at) if delivery.state is DeliveryState.PENDING else None,
        "createdAt": time_or_none(delivery.created_at),
        "settledAt": time_or_none(delivery.settled_at),
        "ackBy": time_or_none(delivery.ack_by),
        "lease": delivery.handed_lease or None,
        "escalatedAt": time_or_none(delivery.escalated_at),
    }


def hold_record(delivery: Delivery) -> dict[str, Any]:
    """What `status` says of a delivery that waits."""
    full = delivery_record(delivery, ())
    return {key: full[key] for key in _OF_HOLD}


def episode_record(episode: Episode) -> dict[str, Any]:
    """One episode in which an agent needs a person."""
    return {
        "episodeId": episode.id,
        "agentIdentity": episode.identity,
        "kind": episode.kind,
        "where": episode.where or None,
        "evidence": episode.evidence,
        "beganAt": time_or_none(episode.began_at),
        "toldAt": time_or_none(episode.told_at),
        "endedAt": time_or_none(episode.ended_at),
        "ending": episode.ending or None,
        "resetsAt": time_or_none(episode.resets_at),
    }


def activity_record(entry: Activity, seen_until: Instant | None) -> dict[str, Any]:
    """One entry of the feed; `seen_until` is when a person last looked, None if nobody ever has."""
    return {
        "id": entry.id,
        "at": time_or_none(entry.at),
        "kind": entry.kind,
        "origin": entry.origin,
        "trigger": entry.trigger or None,
        "priority": entry.priority,
        "stimulus": entry.stimulus or None,
        "agentIdentity": entry.identity or None,
        "about": entry.subject or None,
        "outcome": entry.outcome or None,
        "where": entry.where or None,
        "text": entry.told,
        "unread": seen_until is None or entry.at > seen_until,
        "host": None,
    }


def item_record(event: WakeEvent, shown_at: Instant | None = None) -> dict[str, Any]:
    """One item from outside; `shown_at`: its reader is shown it now, for the first time where nothing else is known."""
    item = event.detail
    if not isinstance(item, ItemDetail):
        raise TypeError(f"{event.id} is no item")
    axes = axes_of(event)
    return {
        "id": event.id,
        "createdAt": time_or_none(event.occurred_at),
        "source": item.source,
        "text": item.text,
        "mode": item.mode,
        "tier": item.tier,
        "priority": item.priority,
        "dedupKey": item.key or None,
        "state": item.state or None,
        "agentIdentity": event.identity,
        "about": item.about or None,
        "address": axes.address,
        "target": axes.target,
        "handler": axes.handler,
        "directive": item.directive or None,
        "toneHint": item.tone_hint or None,
        "sessionId": item.session_id or None,
        "channelId": item.channel_id or None,
        "deadline": time_or_none(Instant(event.matched_at + event.ack_within)) if event.ack_within else None,
        "deliveredAt": time_or_none(event.delivered_at or shown_at),
        "status": event.status,
        "from": item.by or None,
        "metadata": json.loads(item.metadata),
    }


def absence_record(archive: Archive, left_at: Instant | None) -> dict[str, Any]:
    """Counts since a person looked last, and what is held now and why; everything there ever was for one who never looked."""
    ended = archive.outcomes_since(left_at or EPOCH_START)
    held = [one for one in archive.unsettled() if one.hold is not None]
    return {
        "since": time_or_none(left_at),
        # what was answered in time has been told as well
        "delivered": ended.get(Outcome.SUBMITTED, 0) + ended.get(Outcome.ACKNOWLEDGED, 0),
        "held": len(held),
        "heldFor": list(dict.fromkeys(held_because(one.hold, one.identity) for one in held if one.hold)),
        "unknown": ended.get(Outcome.UNKNOWN, 0),
        "failed": ended.get(Outcome.FAILED, 0),
        "escalated": ended.get(Outcome.ESCALATED, 0),
    }


def absence_words(record: Mapping[str, Any], now: Instant) -> str:
    """`since you last looked (6 h ago): 14 delivered, 2 held (approval waiting in agents:1.2; quiet hours), 1 unknown`."""
    left_at = parse_instant(record["since"])
    since = "so far" if left_at is None else f"since you last looked ({span(max(0, now - left_at))} ago)"
    parts = [f"{record['delivered']} delivered"] if record["delivered"] else []
    if record["held"]:
        parts.append(f"{record['held']} held ({_reasons(record['heldFor'])})")
    parts += [f"{record[name]} {name}" for name in ("unknown", "failed") if record[name]]
    parts += [f"{record['escalated']} passed to you"] if record["escalated"] else []
    return f"{since}: {', '.join(parts) or 'nothing new'}"


def _reasons(clauses: Sequence[str]) -> str:
    more = len(clauses) - REASONS_NAMED
    return "; ".join(clauses[:REASONS_NAMED]) + (
        f"; and {more} more reason{'s' if more > 1 else ''}" if more > 0 else ""
    )


def channel_record(channel: Channel, *, is_default: bool) -> dict[str, Any]:
    """One channel, as everybody may know it."""
    return {
        "channel": channel.name,
        "label": channel.label or None,
        "kind": channel.kind,
        "isDefault": is_default,
    }


def send_record(send: Send) -> dict[str, Any]:
    """One message to a person, without its text."""
    return {
        "messageId": send.id,
        "channel": send.channel or None,
        "about": send.subject,
        "reason": send.reason,
        "title": send.title,
        "agentIdentity": send.identity or None,
        "from": send.sender or None,
        "state": send.state,
        "outcome": send.outcome,
        "why": send.why or None,
        "attempts": send.attempts,
        "nextTryAt": time_or_none(send.next_try_at) if send.outcome is None else None,
        "createdAt": time_or_none(send.created_at),
        "settledAt": time_or_none(send.settled_at),
    }


def reminder_record(reminder: Reminder) -> dict[str, Any]:
    """One reminder."""
    return {
        "reminderId": reminder.id,
        "agentIdentity": reminder.identity or None,
        "channel": reminder.channel or None,
        "text": reminder.text,
        "cron": reminder.cron or None,
        "zone": reminder.zone,
        "dueAt": time_or_none(reminder.due_at),
        "from": reminder.by or None,
        "lastAt": time_or_none(reminder.last_at),
        "endedAt": time_or_none(reminder.ended_at),
        "ending": reminder.ending or None,
    }


def send_journal_record(line: SendLine) -> dict[str, Any]:
    """One line of a message's journal."""
    return {"at": time_or_none(line.at), "step": line.step, "why": line.why or None}


def journal_record(entry: JournalEntry) -> dict[str, Any]:
    """One line of a delivery's journal."""
    return {"at": time_or_none(entry.at), "step": entry.step, "detail": entry.detail}


def sighted_record(sighted: Sighted | None) -> dict[str, Any]:
    """What an agent showed when it was last looked at; nulls where nobody watches."""
    return {
        "presence": sighted.state if sighted else None,
        "looksLike": sighted.looks_like if sighted else None,
        "since": time_or_none(sighted.since) if sighted else None,
        "route": (sighted.adapter if sighted else "") or None,
        "where": (sighted.where if sighted else "") or None,
    }


def overview_record(row: IdentityOverview) -> dict[str, Any]:
    """One line of the live table."""
    seen = sighted_record(row.sighted)
    return {
        "agentIdentity": row.identity,
        **seen,
        "where": seen["where"] or (row.hold.where if row.hold else "") or None,
        "waiting": row.waiting,
        "items": row.items,
        "holdReason": row.hold.reason if row.hold else None,
        "cause": row.hold.cause if row.hold else None,
        "heldFor": held_because(row.hold, row.identity) if row.hold else None,
        "heldSince": time_or_none(row.held_since),
        "nextLook": time_or_none(row.next_look),
        "lastWake": time_or_none(row.last_wake),
        "budget": asdict(row.budget),
        "deliveryId": row.delivery_id or None,
        "attention": row.episode.kind if row.episode else None,
        "needs": [need_record(one) for one in row.needs],
        "isPaused": row.pause is not None,
        "pausedUntil": time_or_none(row.pause.until) if row.pause else None,
        "host": None,
    }


def version_record(untested: UntestedVersion) -> dict[str, Any]:
    """A version that the rules for its screen were not tested with, and how many wakes these have held since."""
    running = untested.running
    return {
        "harness": running.harness,
        "version": running.version,
        "tested": list(running.tested),
        "isNewer": running.is_newer,
        "agentIdentities": list(untested.identities),
        "holds": untested.holds,
    }


def need_record(need: Need) -> dict[str, Any]:
    """What a person is needed for; `deliveryId` is what can be retried or acknowledged."""
    return {
        "what": need.what,
        "remedy": need.remedy,
        "since": time_or_none(need.since),
        "deliveryId": need.about.id if need.about else None,
        "outcome": need.about.outcome if need.about else None,
    }


def link_record(
    host: LinkedHost,
    state: str,
    why: str,
    agents: Iterable[Identity],
    version: str = "",
    conflicts: Iterable[Identity] = (),
) -> dict[str, Any]:
    """How the link to a host stands, and who lives there; `conflicts` are those who have a place here as well."""
    return {
        "host": host.name,
        "ssh": host.destination,
        "state": state,
        "why": why or None,
        "version": version or None,
        "agents": [*agents],
        "conflicts": [*conflicts],
        "waiting": [],
    }


def sharing_record(host: HostOnGraph, waiting: Iterable[Identity] = ()) -> dict[str, Any]:
    """How a host stands that shares the graph, whom it serves, and for whom something is `waiting` that no other one knows of."""
    state = "up" if host.is_alive else "gone" if host.is_gone else "down"
    why = "" if host.is_alive else f"not heard of for {host.seen_ago // 1000} s"
    if host.open_intents and not host.is_alive:
        why += f", and nobody knows of {host.open_intents} of its wakes whether they were typed"
    return {
        "host": host.host,
        "ssh": None,
        "state": state,
        "why": why or None,
        "version": host.version or None,
        "agents": [*host.identities],
        "conflicts": [],
        "waiting": [*waiting],
    }


def reach_record(reach: Reach) -> dict[str, Any]:
    """Where an identity can be woken, as the daemon answers it to commands."""
    return asdict(reach)


def home_record(home: Home) -> dict[str, Any]:
    """An identity's home, as the daemon answers it to commands."""
    return asdict(home)


def presence_record(identity: Identity, seen: PresenceReading) -> dict[str, Any]:
    """What `presence` prints. Evidence that does not weigh is only a note; the one that decides is marked."""
    presence = seen.presence
    # a receiver is posted to whatever it says of itself
    can = seen.capabilities
    is_posted = can is not None and can.per_subscription and can.idempotent
    held = presence.state is not PresenceState.IDLE and not is_posted
    return {
        "agentIdentity": identity,
        "state": presence.state,
        "activeTurnId": presence.active_turn_id,
        "source": presence.source,
        "lastSeenAt": time_or_none(presence.seen_at),
        "capabilities": [*presence.capabilities, *(seen.capabilities.words if seen.capabilities else ())],
        "route": seen.adapter or None,
        "where": presence.where or None,
        "why": presence.detail,
        "holdReason": presence.hold,
        "cause": presence.cause if held else None,
        "remedy": hold_because_of(presence).told(identity) if held else None,
        "evidence": [
            *(piece for other in seen.others for piece in _pieces_of(other)),
            *(_piece(one, seen.adapter, decides=one == presence.decided_by) for one in presence.evidence),
        ],
        "host": None,
    }


def pane_record(report: PaneReport) -> dict[str, Any]:
    """A pane as `panes --json` prints it, and the daemon tells it: with `key` and `cause` besides."""
    sight = report.sight
    return {
        "pane": sight.name or None,
        "label": sight.place.label,
        "id": sight.pane_id,
        "adapter": report.adapter,
        "server": sight.server,
        "harness": sight.harness or None,
        "version": sight.version or None,
        "cwd": str(sight.directory),
        "state": report.seen.state,
        "looks": report.seen.looks,
        "why": report.seen.why,
        "agentIdentity": report.identities[0] if report.identities else None,
        "agentIdentities": list(report.identities),
        "doubts": list(sight.doubts),
        "lasting": list(sight.lasting),
        "key": sight.place.key,
        "cause": report.seen.cause,
    }


def panes_record(reports: PaneReports) -> dict[str, Any]:
    """All panes, and the servers that did not answer."""
    return {"panes": [pane_record(one) for one in reports.panes], "silent": reports.silent}


def _pieces_of(route_state: RouteState) -> list[dict[str, Any]]:
    """What another route showed, or why it led nowhere."""
    adapter = route_state.route.adapter
    if route_state.nowhere is not None:
        hold = route_state.nowhere
        gone = Evidence(
            hold.reason, PresenceState.UNKNOWN, hold.detail, "target", hold=hold.reason, weighs=False, cause=hold.cause
        )
        return [_piece(gone, adapter, decides=False)]
    return [
        _piece(one, adapter, decides=False) for one in (route_state.presence.evidence if route_state.presence else ())
    ]


def _piece(one: Evidence, adapter: str, *, decides: bool) -> dict[str, Any]:
    return {
        "source": one.source,
        "route": adapter or None,
        "rule": one.rule,
        "region": one.region or None,
        "saw": one.saw or None,
        "vote": one.vote,
        "cause": one.why if one.vote is not PresenceState.IDLE else None,
        "weighs": one.weighs,
        "decides": decides,
    }
