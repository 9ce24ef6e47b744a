"""Agents of this host and of linked hosts in one list, each with its host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.hosts import LinkState
from wake_bridge.domain.names import Identity
from wake_bridge.domain.receivers import HOST
from wake_bridge.integrations.hosts.links import Link, Links
from wake_bridge.ports.hosts import NotSentThere, UnansweredThere

if TYPE_CHECKING:
    from wake_bridge.schemas.hosts import AgentElsewhere

ASKED_FOR: Final = 2.5
"""Seconds that another host has to answer a question of a command."""

_OF_THE_HOLD: Final = ("holdReason", "cause", "heldFor", "heldSince")
_OF_PRESENCE: Final = ("presence", "looksLike", "since", "route", "where")


class LinkedAgents:
    """What the daemon knows of agents on linked hosts.

    Args:
        links: the links.
        host_of: on which of them an identity lives by the rules of this host; empty for one that lives here.
    """

    def __init__(self, links: Links, host_of: Callable[[Identity], str]) -> None:
        self._links = links
        self._host_of = host_of

    def agents(self) -> dict[Identity, tuple[Link, AgentElsewhere | None]]:
        """Everybody who lives on a linked host, with the link, and how they stand there; None while nobody can tell."""
        found: dict[Identity, tuple[Link, AgentElsewhere | None]] = {}
        for link in self._links.all():
            told = {one.agent_identity: one for one in link.agents if link.state is LinkState.UP}
            for identity in self._links.agents().get(link.host.name, ()):
                if self._host_of(identity) == link.host.name:
                    found[identity] = link, told.get(identity)
        return found

    def overview(self, own: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows of all agents, those that need a person first, the longest need first."""
        rows = {str(one["agentIdentity"]): dict(one) for one in own}
        for identity, (link, agent) in self.agents().items():
            seen = agent or _unseen(identity)
            rows[identity] = _joined(rows.get(identity), seen, link.host.name)
        ordered = sorted(rows.values(), key=lambda one: str(one["agentIdentity"]))
        return sorted(
            ordered, key=lambda one: (not one["needs"], str(one["needs"][0]["since"]) if one["needs"] else "")
        )

    def presences(self, own: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """What each agent showed when its daemon looked at it last."""
        shown: dict[str, Mapping[str, Any]] = {who: {**one, "host": None} for who, one in own.items()}
        for identity, (link, agent) in self.agents().items():
            seen = _told(agent or _unseen(identity))
            shown[identity] = {name: seen[name] for name in _OF_PRESENCE} | {"host": link.host.name}
        return shown

    def presence(self, identity: Identity, own: Mapping[str, Any]) -> Mapping[str, Any]:
        """How an agent stands, as its own host says; without a word of that host what is known here."""
        link, agent = self.agents().get(identity, (None, None))
        if link is None:
            return own
        host = link.host.name
        if agent is None or agent.presence is None:
            return {**own, "host": host}
        saw = f"{host} saw it in {agent.where or 'its pane'}"
        piece = {
            "source": own["source"],
            "route": HOST,
            "rule": "host-says",
            "region": None,
            "saw": saw,
            "vote": agent.presence,
            "cause": None,
            "weighs": True,
            "decides": True,
        }
        told = {
            "state": agent.presence,
            "where": agent.where,
            "why": saw,
            "holdReason": None,
            "cause": None,
            "remedy": None,
        }
        return {**own, **told, "evidence": [piece], "host": host}

    def needing(self) -> list[dict[str, Any]]:
        """Agents over there that need a person: which, what for, and the command that leads to each."""
        return [
            {
                "agentIdentity": identity,
                "host": link.host.name,
                "kind": agent.attention or "a wake",
                "what": agent.needs[0].what,
                "where": agent.where,
                "since": agent.needs[0].since,
                "way": link.way_to(agent),
            }
            for identity, (link, agent) in self.agents().items()
            if agent is not None and agent.needs
        ]

    async def ask_all(
        self,
        command: str,
        request: Mapping[str, Any],
        besides: Callable[[str], Mapping[str, Any]] = lambda _: {},
    ) -> dict[str, Mapping[str, Any]]:
        """Ask every host whose link is up, each also what is `besides` for it; those that do not answer in time are left out."""
        up = [one.host.name for one in self._links.all() if one.state is LinkState.UP]
        answers = await asyncio.gather(*(self.ask(one, command, {**request, **besides(one)}) for one in up))
        return {host: said for host, said in zip(up, answers, strict=True) if said is not None}

    def silent(self, said: Mapping[str, Any]) -> list[str]:
        """The hosts that have said nothing: the link is down, or they did not answer in time."""
        return [one.host.name for one in self._links.all() if one.host.name not in said]

    async def ask(self, host: str, command: str, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask one host; None where there is no answer in time."""
        link = next((one for one in self._links.all() if one.host.name == host), None)
        if link is None:
            return None
        try:
            async with asyncio.timeout(ASKED_FOR):
                said = (await link.ask(command, request)).get("said")
        except (NotSentThere, UnansweredThere, TimeoutError):
            return None
        return said if isinstance(said, dict) else None


def _unseen(identity: Identity) -> AgentElsewhere:
    from wake_bridge.schemas.hosts import AgentElsewhere  # noqa: PLC0415 - models, for who has linked hosts

    return AgentElsewhere(agent_identity=identity)


def _told(agent: AgentElsewhere) -> dict[str, Any]:
    return agent.model_dump(mode="json", by_alias=True)


def _joined(own: Mapping[str, Any] | None, agent: AgentElsewhere, host: str) -> dict[str, Any]:
    """One row out of what waits here for an agent, and how it stands over there."""
    seen = _told(agent)
    row: dict[str, Any] = {
        **seen,
        "nextLook": None,
        "deliveryId": None,
        "needs": [_need(one) for one in seen["needs"]],
        "isPaused": False,
        "pausedUntil": None,
        "host": host,
    }
    del row["way"], row["episode"]
    if own is None:
        return row
    row |= {name: own[name] for name in ("nextLook", "deliveryId", "isPaused", "pausedUntil")}
    row |= {name: row[name] + own[name] for name in ("waiting", "items")}
    if own["holdReason"]:
        row |= {name: own[name] for name in _OF_THE_HOLD}
    row["lastWake"] = row["lastWake"] or own["lastWake"]
    row["needs"] = sorted([*own["needs"], *row["needs"]], key=lambda one: str(one["since"]))
    return row


def _need(need: Mapping[str, Any]) -> dict[str, Any]:
    # what can be retried or acknowledged is over there
    return {**need, "deliveryId": None, "outcome": None}


def conflicts_of(links: Links, conflict_of: Callable[[Identity], str]) -> Sequence[tuple[Identity, str]]:
    """Who has a place here and on a linked host as well; this host serves them."""
    everybody = {one for theirs in links.agents().values() for one in theirs}
    return [(one, host) for one in sorted(everybody) if (host := conflict_of(one))]
