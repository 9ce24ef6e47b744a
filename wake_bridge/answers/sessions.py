"""The daemon's answers to hooks, monitors and MCP servers, which run inside the harnesses.

session           a hook called: whose conversation it is, and what is handed over to it
taking            it is about to print that: whether it still may
printed           it has printed it
monitor           a monitor waits for a line
monitor_printing  it is about to write it: whether it still may
monitor_printed   it has written it
push              an MCP server waits for a wake for its client
pushing           it is about to write it: whether it still may
pushed            it has written it
push_act          its client's agent has called a tool; `resync` shows that it knows what a push is
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from wake_bridge.control.server import Answer, Handler
from wake_bridge.domain.names import Identity, is_identity
from wake_bridge.domain.sessions import Caller, Moment
from wake_bridge.domain.text import harmless
from wake_bridge.engine.sessions.monitor_lines import LONGEST_WAIT
from wake_bridge.ports.sessions import PushClient
from wake_bridge.wiring import Parts

PATIENT: Final = frozenset({"monitor", "push"})
"""Commands that are answered when something happens."""

NOBODYS_WAIT: Final = 3.0
"""Seconds after which a monitor whose session is nobody's yet is asked again who it is: panes are seen one by one."""

SETTLES_WITHIN: Final = 1.0
"""Seconds that a client's `resync` waits for its earlier pushes to be settled; its server waits for 1.5 s."""

MOST_MARKS: Final = 10
MARK: Final = 26
"""Characters of a delivery's id: a shorter one would be taken for the beginning of several."""

_LONGEST_WORD: Final = 4096
_LONGEST_NAME: Final = 80
_SESSION_ID: Final = re.compile(r"[\w.:/-]{1,200}")


class SessionAnswers:
    """Answers out of the daemon's parts; what a caller says is bounded and nothing of it is trusted."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> Mapping[str, Handler]:
        """One for each command."""
        return {
            "session": self._session,
            "taking": self._taking,
            "printed": self._printed,
            "monitor": self._monitor,
            "monitor_printing": self._monitor_printing,
            "monitor_printed": self._monitor_printed,
            "push": self._push,
            "pushing": self._pushing,
            "pushed": self._pushed,
            "push_act": self._push_act,
        }

    async def _session(self, request: Mapping[str, Any]) -> Answer:
        caller = caller_of(request)
        if caller is None:
            return {"identity": None, "offer": None}
        marks = [one for one in _list_of(request, "marks")[:MOST_MARKS] if isinstance(one, str) and len(one) == MARK]
        called = await self._parts.handover.called(caller, _moment_of(request), marks, drain=bool(request.get("drain")))
        offer = called.offer
        return {
            "identity": called.identity,
            "offer": None
            if offer is None
            else {
                "delivery": offer.delivery_id,
                "lease": offer.lease,
                "block": offer.block,
                "shown": offer.shown,
                "total": offer.total,
            },
        }

    async def _taking(self, request: Mapping[str, Any]) -> Answer:
        return {"ok": await self._parts.handover.taking(*_lease_of(request))}

    async def _printed(self, request: Mapping[str, Any]) -> Answer:
        return {"ok": self._parts.handover.printed(*_lease_of(request))}

    async def _monitor(self, request: Mapping[str, Any]) -> Answer:
        caller = caller_of(request)
        if caller is None:
            return {"error": "no conversation is named", "hint": "give the session_id that the harness uses"}
        is_somebodys = self._parts.handover.meet(caller) is not None
        patience = LONGEST_WAIT if is_somebodys else NOBODYS_WAIT
        ring = await self._parts.sessions.monitor_lines.wait(caller.session_id, patience)
        return {} if ring is None else {"mark": ring.mark, "line": ring.line}

    async def _monitor_printing(self, request: Mapping[str, Any]) -> Answer:
        session_id, mark = _word(request, "session_id"), _word(request, "mark")
        return {"ok": self._parts.sessions.monitor_lines.printing(session_id, mark)}

    async def _monitor_printed(self, request: Mapping[str, Any]) -> Answer:
        return {"ok": self._parts.sessions.monitor_lines.printed(_word(request, "mark"))}

    async def _push(self, request: Mapping[str, Any]) -> Answer:
        identity = _word(request, "identity")
        if not is_identity(identity):
            return {"error": "no identity is named", "hint": "name the identity whose wakes the client takes"}
        client = PushClient(
            connection=_word(request, "connection"),
            pid=_number(request, "pid"),
            told=harmless(_word(request, "client"), _LONGEST_NAME) or "its MCP client",
            events=frozenset(one for one in _list_of(request, "events") if isinstance(one, str)),
        )
        clients = self._parts.sessions.push_clients
        if clients.client_of(Identity(identity)) != client:
            self._parts.deliverer.look_at(Identity(identity))
        push = await clients.wait(Identity(identity), client)
        return {} if push is None else {"mark": push.mark, "envelope": push.line}

    async def _pushing(self, request: Mapping[str, Any]) -> Answer:
        identity, mark = Identity(_word(request, "identity")), _word(request, "mark")
        return {"ok": self._parts.sessions.push_clients.pushing(identity, mark)}

    async def _pushed(self, request: Mapping[str, Any]) -> Answer:
        return {"ok": self._parts.sessions.push_clients.pushed(_word(request, "mark"))}

    async def _push_act(self, request: Mapping[str, Any]) -> Answer:
        identity = Identity(_word(request, "identity"))
        self._parts.sessions.push_clients.note_act(identity, self._parts.clock.now())
        is_resync = request.get("resync") is True
        if is_resync:
            self._parts.pushes.take_up(identity)
        self._parts.deliverer.look_at(identity)
        if is_resync:
            # what is open while the log is read again is not told again
            await self._parts.deliverer.settles_pushed(identity, SETTLES_WITHIN)
        return {"ok": True}


def caller_of(request: Mapping[str, Any]) -> Caller | None:
    """Who calls; None where the conversation has no name that could be one."""
    session_id = _word(request, "session_id")
    if not _SESSION_ID.fullmatch(session_id):
        return None
    return Caller(
        harness=_word(request, "harness"),
        session_id=session_id,
        directory=_word(request, "directory"),
        pid=_number(request, "pid"),
        started=_word(request, "started"),
        group=_number(request, "group"),
        terminal=_number(request, "terminal"),
        socket=_word(request, "socket"),
        pane=_word(request, "pane"),
        claims=_word(request, "claims"),
        agent=_word(request, "agent"),
        is_shared=request.get("is_shared") is True,
    )


def _moment_of(request: Mapping[str, Any]) -> Moment:
    try:
        return Moment(_word(request, "event"))
    except ValueError:
        return Moment.OTHER


def _lease_of(request: Mapping[str, Any]) -> tuple[str, int]:
    return _word(request, "delivery"), _number(request, "lease")


def _word(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    return value if isinstance(value, str) and len(value) <= _LONGEST_WORD else ""


def _number(request: Mapping[str, Any], name: str) -> int:
    value = request.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def _list_of(request: Mapping[str, Any], name: str) -> list[Any]:
    value = request.get(name)
    return value if isinstance(value, list) else []
