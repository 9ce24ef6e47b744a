"""The daemon's answers to commands: its state, what it sees, who called. They change nothing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from wake_bridge.answers.linked_agents import LinkedAgents, conflicts_of
from wake_bridge.config.senders import has_page
from wake_bridge.config.settings import Settings, listen_address
from wake_bridge.config.source_tokens import has_source_tokens
from wake_bridge.control.server import Answer, Handler
from wake_bridge.control.serving import surroundings, view_of
from wake_bridge.domain.channels import by_default
from wake_bridge.domain.guards import OtherDriver
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.nudges import HEARTBEAT
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.domain.subscriptions import fingerprint_of
from wake_bridge.engine.explain.homes import homes_of
from wake_bridge.engine.explain.overview import overview
from wake_bridge.engine.explain.pane_reports import Glance, pane_reports
from wake_bridge.engine.explain.presence_query import presence_of, reaches_of
from wake_bridge.engine.explain.versions import UntestedVersion, untested_versions
from wake_bridge.engine.route_states import RouteStates
from wake_bridge.ports.adapter import PaneLister
from wake_bridge.program_version import program_version
from wake_bridge.records import (
    channel_record,
    home_record,
    link_record,
    overview_record,
    panes_record,
    presence_record,
    reach_record,
    routes_record,
    sighted_record,
    time_or_none,
    version_record,
)
from wake_bridge.schemas.host_rows import rows_elsewhere
from wake_bridge.storage.logs import where_logs_go
from wake_bridge.wiring import Parts, active_routes

PANE: Final = (
    *("pane", "label", "id", "adapter", "server", "harness", "version", "cwd", "state", "looks", "why"),
    *("agentIdentity", "agentIdentities", "doubts", "lasting", "cause"),
)
"""What is shown of a pane on another host."""

OUTCOME: Final = (
    "id",
    "agentIdentity",
    "pane",
    "state",
    "outcome",
    "proof",
    "holdReason",
    "why",
    "remedy",
    "settledAt",
)
"""What is told of a delivery on another host."""

ENTRY: Final = (
    "id",
    "at",
    "kind",
    "origin",
    "trigger",
    "priority",
    "stimulus",
    "agentIdentity",
    "about",
    "outcome",
    "where",
    "text",
)
"""What is told of an entry of the feed of another host."""


def what_is_taken_in(settings: Settings, where: ListenAddress) -> list[str]:
    """What the address is for: `wakes` and `items` where anybody may send them, and `page`."""
    http = settings.config.http
    kinds = {
        "wakes": bool(http.senders),
        "items": has_source_tokens(settings.state_dir),
        "page": has_page(http, where),
    }
    return [name for name, holds in kinds.items() if holds]


READ_AFTER: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Seconds before each look whether the tail has read what was just written to the graph."""


class Queries:
    """Answers out of the daemon's parts.

    Args:
        parts: the running daemon.
        since: when it started, by the wall clock.
        other_driver: what else drives the same directory, None if nothing does.
        refused: why the settings that were read last were not taken over; empty if they were.
        in_force: the settings in force.
    """

    def __init__(
        self,
        parts: Parts,
        since: Instant,
        other_driver: Callable[[], OtherDriver | None],
        refused: Callable[[], str],
        in_force: Callable[[], Settings],
    ) -> None:
        self._in_force = in_force
        self._parts = parts
        self._since = since
        self._other_driver = other_driver
        self._refused = refused
        self._linked = LinkedAgents(parts.links, parts.routes.host_of)

    def handlers(self) -> Mapping[str, Handler]:
        """One for each command."""
        return {
            "status": self._status,
            "presence": self._presence,
            "routes": self._routes,
            "overview": self._overview,
            "presences": self._presences,
            "around": self._around,
            "panes": self._panes,
            "reach": self._reach,
            "homes": self._homes,
            "sessions": self._sessions,
            "push_client": self._push_client,
            "hosts": self._hosts,
            "host_outcome": self._host_outcome,
            "host_activity": self._host_activity,
        }

    async def _status(self, _: Mapping[str, Any]) -> Answer:
        parts, tail = self._parts, self._parts.tail
        nudges = HEARTBEAT in parts.loaded.adapters and parts.settings.has_graph
        return {
            "pid": os.getpid(),
            "cursor": tail.cursor,
            "tip": tail.tip,
            "epoch": tail.epoch,
            "active_routes": active_routes(tail, parts.watch),
            "nudged": len(parts.heartbeat.served()) if nudges else 0,
            "since": time_or_none(self._since),
            "graph_trouble": tail.away or None,
            "state_trouble": parts.ledger.trouble or None,
            "heals": tail.heals,
            "other_driver": driver.told if (driver := self._other_driver()) else None,
            "log": where_logs_go() or None,
            "version": program_version(),
            "has_graph": parts.settings.has_graph,
            "listen": str(address) if (address := listen_address(parts.settings)) else None,
            "listen_for": what_is_taken_in(parts.settings, address) if address else [],
            "settings_refused": self._refused() or None,
            "hosts": self._host_records(),
            "needing": self._linked.needing(),
            "versions": [version_record(one) for one in self._untested_versions()],
            "clock_ahead": parts.clock.now() - parts.clock.wall(),
        }

    def _untested_versions(self) -> list[UntestedVersion]:
        parts = self._parts
        return untested_versions(parts.ledger, parts.everybody(), parts.watch, parts.loaded.adapters.values())

    async def _presence(self, request: Mapping[str, Any]) -> Answer:
        parts = self._parts
        identity = Identity(str(request.get("identity", "")))
        seen = await presence_of(identity, parts.routes, parts.watch, parts.current, parts.clock)
        return self._linked.presence(identity, presence_record(identity, seen))

    async def _routes(self, request: Mapping[str, Any]) -> Answer:
        parts = self._parts
        identity = Identity(str(request.get("identity", "")))
        route_states = RouteStates(
            identity,
            parts.routes,
            parts.watch,
            parts.current,
            parts.clock,
            patient=True,
            receivers=parts.routes.receivers_of(identity),
        )
        verdict = await route_states.look_everywhere()
        degraded = parts.ledger.degraded(identity)
        return routes_record(identity, route_states.all, route_states.authority, verdict, degraded)

    async def _reach(self, request: Mapping[str, Any]) -> Answer:
        parts = self._parts
        asked = [Identity(str(one)) for one in request.get("identities", ())]
        found = await reaches_of(asked, parts.routes, parts.watch)
        return {one: reach_record(reach) for one, reach in found.items()}

    async def _homes(self, request: Mapping[str, Any]) -> Answer:
        """The homes of identities; null where the caller has another view, or its subscriptions are not read yet."""
        parts, settings = self._parts, self._in_force()
        ours = view_of(settings.fingerprint, settings.fallback_pane, os.environ)
        is_alike = settings.fingerprint and request.get("view") == ours
        if not is_alike or not await self._has_read(str(request.get("subscriptions", ""))):
            return {"homes": None}
        asked = [Identity(str(one)) for one in request.get("identities", ())]
        found = await homes_of(asked, parts.routes, parts.watch, parts.tail.subscriptions_of)
        return {"homes": {one: home_record(home) for one, home in found.items()}}

    async def _has_read(self, subscriptions: str) -> bool:
        """Whether the tail has read the subscriptions with this fingerprint; a change of just now is waited for."""
        for wait in READ_AFTER:
            if wait:
                self._parts.tail.poke()
                await asyncio.sleep(wait)
            # in a thread, because thousands take a moment and wakes must not wait for it
            if await asyncio.to_thread(fingerprint_of, self._parts.tail.subscriptions()) == subscriptions:
                return True
        return False

    async def _overview(self, _: Mapping[str, Any]) -> Answer:
        parts = self._parts
        settings = parts.current.settings
        rows = overview(
            parts.ledger,
            parts.everybody(),
            parts.watch.sighted,
            settings.limits,
            parts.clock.now(),
            settings.notice_after_ms,
        )
        return {"agents": self._linked.overview(overview_record(row) for row in rows)}

    async def _presences(self, _: Mapping[str, Any]) -> Answer:
        parts = self._parts
        seen = {one: parts.watch.sighted(one) for one in sorted(parts.everybody())}
        return self._linked.presences({one: sighted_record(sighted) for one, sighted in seen.items()})

    async def _around(self, _: Mapping[str, Any]) -> Answer:
        """What stands around the agents: the ways to their person, this host, and those that send to it or are sent to."""
        parts, channels = self._parts, self._parts.current.settings.channels
        default = by_default(channels)
        return {
            "host": socket.gethostname(),
            "daemon": await self._status({}),
            "graph": str(parts.settings.graph_place) if parts.settings.has_graph else None,
            "channels": [channel_record(one, is_default=one is default) for one in channels],
            "senders": [
                {"sender": name, "identities": list(table.identities)}
                for name, table in sorted(parts.settings.config.http.senders.items())
            ],
            "receivers": [
                {"subscriptionId": one.subscription_id, "failures": one.failures, "why": one.why}
                for one in parts.ledger.receiver_standings()
            ],
            "hosts": self._host_records(),
        }

    async def _panes(self, request: Mapping[str, Any]) -> Answer:
        parts, adapters = self._parts, self._parts.loaded.adapters
        listers = {name for name, one in adapters.items() if isinstance(one, PaneLister)}
        known = {key: Glance.of(seen) for key, seen in (await parts.watch.look_at_all(listers)).items()}
        named = {*parts.everybody(), *parts.ledger.bindings()}
        reach = await reaches_of(named, parts.routes, parts.watch)
        reports = await pane_reports(adapters, reach, known, parts.current.settings.fresh_for_ms)
        record = panes_record(reports) | {"alike": request.get("surroundings") == surroundings(os.environ)}
        return record if request.get("isRelayed") else record | await self._panes_elsewhere()

    async def _panes_elsewhere(self) -> dict[str, Any]:
        """The panes of the linked hosts in which agents are; a host that does not answer is named in `silent_hosts`."""
        said = await self._linked.ask_all("relay_panes", {})
        panes = [
            {**one, "host": host}
            for host, answer in sorted(said.items())
            for one in rows_elsewhere(answer.get("panes"), PANE)
        ]
        return {"elsewhere": panes, "silent_hosts": self._linked.silent(said)}

    async def _hosts(self, _: Mapping[str, Any]) -> Answer:
        """How each link to another host stands, and which agents over there need a person."""
        return {"hosts": self._host_records(), "needing": self._linked.needing()}

    def _host_records(self) -> list[dict[str, Any]]:
        parts, links = self._parts, self._parts.links
        agents, conflicts = links.agents(), conflicts_of(links, parts.routes.conflict_of)
        return [
            link_record(
                one.host,
                one.state,
                one.why or one.lacks,
                agents.get(one.host.name, ()),
                one.version,
                [who for who, _ in conflicts if who in agents.get(one.host.name, ())],
            )
            for one in links.all()
        ]

    async def _host_outcome(self, request: Mapping[str, Any]) -> Answer:
        """What became of a message on the host where an identity lives."""
        identity = Identity(str(request.get("identity", "")))
        host = self._parts.routes.host_of(identity)
        asked = {"identity": identity, "subject": str(request.get("subject", ""))}
        said = await self._linked.ask(host, "relay_outcome", asked) if host else None
        rows = rows_elsewhere((said or {}).get("deliveries"), OUTCOME)
        return {"host": host or None, "answers": said is not None, "deliveries": rows}

    async def _host_activity(self, request: Mapping[str, Any]) -> Answer:
        """What happened on the linked hosts, by host, oldest first; a host that does not answer is named in `silent`."""
        after = request.get("after")
        cursors = after if isinstance(after, dict) else {}
        # a host that is read on says all that came since; of one that was not read yet it is the latest
        begins = {name: request.get(name) for name in ("age", "limit")}
        said = await self._linked.ask_all(
            "relay_activity",
            {"identity": request.get("identity")},
            lambda host: {"after": cursors[host]} if host in cursors else begins,
        )
        return {
            "hosts": {
                host: {"entries": rows_elsewhere(one.get("entries"), ENTRY), "last": one.get("last")}
                for host, one in said.items()
            },
            "silent": self._linked.silent(said),
        }

    async def _push_client(self, request: Mapping[str, Any]) -> Answer:
        client = self._parts.sessions.push_clients.client_of(Identity(str(request.get("identity", ""))))
        return {"client": client.told if client is not None else None}

    async def _sessions(self, _: Mapping[str, Any]) -> Answer:
        now = self._parts.clock.now()
        return {
            "sessions": [
                {
                    "harness": one.harness,
                    "session": one.session_id,
                    "identity": one.identity or None,
                    "ago": max(0, now - one.seen_at) // 1000,
                    "listens": self._parts.sessions.listens(one.session_id),
                }
                for one in self._parts.sessions.live()
            ]
        }
