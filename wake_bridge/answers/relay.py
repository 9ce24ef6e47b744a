"""The daemon's answers to the relay, which another host has started here: its wakes, and how the agents of this host stand."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.hosts import HostsFile
from wake_bridge.control.server import Answer, Handler
from wake_bridge.domain.channels import ChannelKind, Send, SendOutcome
from wake_bridge.domain.delivery import Delivery, Proof, was_called
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.events import answers_to
from wake_bridge.domain.hosts import AnswerState, MailThere
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, parse_instant
from wake_bridge.domain.reasons import held_because
from wake_bridge.domain.signed_wakes import REMEMBERED, signature_of, subject_key_of
from wake_bridge.engine.explain.overview import overview
from wake_bridge.engine.tail.entrance import AGAIN, RequestRefused, accepted, incoming
from wake_bridge.ports.adapter import PersonGuide
from wake_bridge.records import activity_record, delivery_record, overview_record, time_or_none
from wake_bridge.schemas.host_rows import mail_from
from wake_bridge.wiring import Parts

MOST_ENTRIES: Final = 200
"""Entries of the feed in one answer."""

MOST_LOOKED_THROUGH: Final = 200
"""Deliveries of an identity, from the newest on, among which those of a message are looked for."""

MOST_SENDS: Final = 200
"""The latest messages among which those about episodes are looked for."""

MOST_ASKED: Final = 100
"""Messages of which one question asks, or one word tells, at most."""

_NOT_LET_IN: Final = "this host takes no wakes of {link}: run `wake-bridge hosts add` again on the other host"


class RelayAnswers:
    """Answers out of the daemon's parts. Who asks is the user's own process; whose wake it is, the signature says.

    Args:
        parts: the running daemon.
        directory: the state directory.
        panes: answers which panes there are.
    """

    def __init__(self, parts: Parts, directory: Path, panes: Handler) -> None:
        self._parts = parts
        self._hosts = HostsFile(directory)
        self._panes_here = panes

    def handlers(self) -> Mapping[str, Handler]:
        """One for each command."""
        return {
            "relay_state": self._state,
            "relay_wake": self._wake,
            "relay_activity": self._activity,
            "relay_answered": self._answered,
            "relay_answers": self._answers,
            "relay_outcome": self._outcome,
            "relay_panes": self._panes,
        }

    async def _state(self, request: Mapping[str, Any]) -> Answer:
        """Who lives on this host, and how each stands."""
        parts, link = self._parts, str(request.get("link", ""))
        try:
            is_let_in = link in self._hosts.now().incoming
        except OSError as refusal:
            return {"trouble": f"its list of hosts cannot be read ({refusal.strerror})"}
        if not is_let_in:
            return {"trouble": _NOT_LET_IN.format(link=link)}
        if not parts.tail.begun.is_set():
            return {"trouble": "its daemon is starting"}
        settings, residents = parts.current.settings, parts.residents()
        rows = overview(
            parts.ledger,
            residents,
            parts.watch.sighted,
            settings.limits,
            parts.clock.now(),
            settings.notice_after_ms,
        )
        episodes = self._episodes()
        agents = [
            overview_record(row) | {"way": self._way_to(row.identity), "episode": episodes.get(row.identity)}
            for row in rows
            if row.identity in residents
        ]
        return {"trouble": "", "agents": agents}

    def _episodes(self) -> dict[Identity, dict[str, Any]]:
        """The episodes that last, of those that a person was to be told of; unheard is what no channel here takes.

        A line in a tmux client of this host is no channel: whoever links hosts may not be looking there.
        """
        told = [one for one in self._parts.ledger.open_episodes() if one.told_at is not None]
        sends = self._parts.ledger.sends(MOST_SENDS) if told else []
        found = {}
        for episode in told:
            about = [one for one in sends if episode.id in one.episodes]
            found[episode.identity] = {
                "id": episode.id,
                "kind": episode.kind,
                "since": time_or_none(episode.began_at),
                "isUnheard": bool(about) and not any(map(self._may_be_heard, about)),
            }
        return found

    def _may_be_heard(self, send: Send) -> bool:
        channel = self._parts.notices.outbox.channel_of(send.channel)
        if channel is None or channel.kind is ChannelKind.TMUX:
            return False
        return send.outcome is SendOutcome.SENT or (send.outcome is None and not send.attempts)

    def _way_to(self, identity: Identity) -> str | None:
        """The command that shows the agent to a person on this host."""
        place = self._parts.watch.place_of(identity)
        if place is None:
            return None
        guides = (one for one in self._parts.loaded.adapters.values() if isinstance(one, PersonGuide))
        return next((way for one in guides if (way := one.way_to(place.key))), None)

    async def _wake(self, request: Mapping[str, Any]) -> Answer:
        """Take a signed wake in; what is answered with a 2xx is on disk."""
        link, body = str(request.get("link", "")), str(request.get("body", "")).encode("utf-8", "replace")
        try:
            self._require_signature(link, body, str(request.get("signature", "")))
            return await self._taken(link, body)
        except RequestRefused as refused:
            return {"status": refused.status, "why": refused.error, "field": refused.field or None}

    async def _taken(self, link: str, body: bytes) -> Answer:
        parts = self._parts
        wake = incoming(body)
        emitted_at = parse_instant(wake.emitted_at)
        if emitted_at is None or emitted_at < parts.clock.wall() - REMEMBERED:
            raise RequestRefused(422, "nobody remembers any more what came that long ago", "emittedAt")
        if not parts.tail.begun.is_set():
            raise RequestRefused(503, "the daemon is starting", again=AGAIN)
        identity = Identity(wake.agent_identity)
        if identity not in parts.residents() and not parts.ledger.knows_emission(link, wake.event_id):
            raise RequestRefused(404, f"{identity} does not live on this host", "agentIdentity")
        parts.tail.serve_signed(link, identity)
        taken = await accepted(wake, body, link, lambda _: True, partial(parts.signed.take, is_followed=True))
        return {"status": taken.status, "eventId": taken.event_id}

    def _require_signature(self, link: str, body: bytes, signature: str) -> None:
        key = None
        with suppress(OSError):
            key = self._hosts.now().incoming.get(link)
        made = signature_of(key.reveal(), body) if key else ""
        if not made or not hmac.compare_digest(made.encode(), signature.encode("utf-8", "replace")):
            raise RequestRefused(401, _NOT_LET_IN.format(link=link) if key is None else "the signature is not valid")

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _answers(self, request: Mapping[str, Any]) -> Answer:
        """How the mail stands of which that link wants an answer, in the order in which it is asked for."""
        link, now = str(request.get("link", "")), self._parts.clock.now()
        asked = mail_from(request.get("asked"))[:MOST_ASKED]
        return {"answers": [self._answer(self._asked_by(link, one), now) for one in asked]}

    async def _answered(self, request: Mapping[str, Any]) -> Answer:
        """Take in what was answered on that link's host: nobody is woken for it here any more, and nobody owes an answer."""
        link, body = str(request.get("link", "")), str(request.get("body", "")).encode("utf-8", "replace")
        try:
            self._require_signature(link, body, str(request.get("signature", "")))
            told = json.loads(body)
        except RequestRefused as refused:
            raise OperationFailed(refused.error, link) from refused
        parts, now = self._parts, self._parts.clock.now()
        for one in mail_from(told.get("answered") if isinstance(told, dict) else None)[:MOST_ASKED]:
            delivery = self._asked_by(link, one)
            if delivery is not None and delivery.proof < Proof.ACKNOWLEDGED:
                parts.ledger.answer(delivery.id, None, f"the host of {link}", now)
                parts.deliverer.look_at(delivery.identity)
        return {"ok": True}

    def _asked_by(self, link: str, mail: MailThere) -> Delivery | None:
        """The latest wake that told of a message to which that link wants an answer; of no other link, and nobody else."""
        ledger = self._parts.ledger
        key = subject_key_of(link, mail.message_id)
        for event in ledger.find_events(subject_key=key) if mail.message_id else ():
            if (
                answers_to(event.detail) == link
                and event.subject_key == key
                and event.identity == mail.identity
                and event.ack_within
            ):
                return max(ledger.deliveries_with(event.id), key=lambda one: one.id, default=None)
        return None

    def _answer(self, delivery: Delivery | None, now: Instant) -> Answer:
        if delivery is None:
            return {"state": AnswerState.UNASKED}
        is_called = was_called(self._parts.ledger.journal_of(delivery.id))
        if delivery.proof >= Proof.ACKNOWLEDGED:
            return {"state": AnswerState.ANSWERED, "isLate": delivery.escalated_at is not None}
        if delivery.state.is_terminal or delivery.escalated_at is not None:
            return {"state": AnswerState.OVER, "isCalled": is_called}
        return {"state": AnswerState.OPEN, "left": max(0, (delivery.ack_by or now) - now)}

    # -- what is asked -------------------------------------------------------------------------------------------

    async def _activity(self, request: Mapping[str, Any]) -> Answer:
        """What happened here, oldest first: after an entry, else the latest of the last `age` milliseconds."""
        ledger, after, age = self._parts.ledger, _number(request.get("after")), _number(request.get("age"))
        identity, limit = str(request.get("identity") or ""), _number(request.get("limit")) or MOST_ENTRIES
        limit = min(limit, MOST_ENTRIES)
        last = ledger.activity_span()[1]
        if after is not None:
            found = ledger.activity_after(after, limit, identity=identity)
            last = found[-1].id if found else after
        else:
            since = Instant(self._parts.clock.now() - age) if age is not None else EPOCH_START
            found = ledger.latest_activity(limit, identity=identity, since=since)[::-1]
        return {"entries": [activity_record(one, None) for one in found], "last": last}

    async def _outcome(self, request: Mapping[str, Any]) -> Answer:
        """What became here of what that link told an identity of one subject."""
        ledger, who = self._parts.ledger, str(request.get("identity", ""))
        key = subject_key_of(str(request.get("link", "")), str(request.get("subject", "")))
        events = [one.id for one in ledger.find_events(subject_key=key) if one.identity == who]
        theirs = [
            one
            for one in ledger.deliveries(state=None, identity=Identity(who), limit=MOST_LOOKED_THROUGH)
            if not set(events).isdisjoint(ledger.event_ids_of(one.id))
        ]
        return {"isKnown": bool(events), "deliveries": [_delivery(one) for one in theirs]}

    async def _panes(self, _: Mapping[str, Any]) -> Answer:
        """Which panes with agents there are here."""
        told = await self._panes_here({"isRelayed": True})
        return {"panes": [one for one in told["panes"] if one["harness"]]}


def _number(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _delivery(delivery: Delivery) -> dict[str, Any]:
    full = delivery_record(delivery, ())
    return {
        "id": delivery.id,
        "agentIdentity": delivery.identity,
        "pane": full["pane"],
        "state": full["state"],
        "outcome": full["outcome"],
        "proof": full["proof"],
        "holdReason": full["hold_reason"],
        "why": held_because(delivery.hold, delivery.identity) if delivery.hold and full["hold_reason"] else None,
        "remedy": full["remedy"],
        "settledAt": full["settledAt"],
    }
