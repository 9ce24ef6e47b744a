"""Decides what `setup` proposes: one identity for each agent found, the same ones every time. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from wake_bridge.domain.values import dataclass

_LONGEST_SLUG: Final = 32
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class SetupAgent:
    """One agent with the identity that it has or is to have.

    `harness` is the screen profile's name, `directory` where the program runs, `pane` the exact name it is reached by.
    """

    identity: str
    harness: str
    directory: Path
    pane: str


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """One agent that was seen. `owners` are the identities that are woken in its pane as things stand."""

    harness: str
    directory: Path
    pane: str
    socket: str = ""
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetTarget:
    """What an earlier `setup` wrote for one identity; harness and directory are unknown where its record is lost."""

    identity: str
    pane: str
    socket: str = ""
    harness: str = ""
    directory: Path | None = None


class SetupStep(StrEnum):
    """What is to be done about one agent; `restore` is for one that graph or configuration have lost, or never got."""

    ADD = "add"
    MOVE = "move"
    RESTORE = "restore"
    KEEP = "keep"
    KEEP_BY_HAND = "keep, set up by hand"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One agent and what is to be done about it; `was` is the pane that a moved one was in."""

    step: SetupStep
    agent: SetupAgent
    socket: str = ""
    was: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether its target is, or will be, written by `setup`."""
        return self.step is not SetupStep.KEEP_BY_HAND


@dataclass(frozen=True, slots=True)
class Plan:
    """A proposal for every agent.

    `dropped` are targets of ours whose pane has become another agent's, while nobody knows where their own one is.
    `conflicts` are the names that stand in the way: identity to the pane it has by hand.
    """

    proposals: tuple[Proposal, ...]
    dropped: tuple[SetTarget, ...]
    conflicts: Mapping[str, str]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.dropped) or any(
            one.step not in {SetupStep.KEEP, SetupStep.KEEP_BY_HAND} for one in self.proposals
        )


def plan(
    found: Sequence[FoundAgent],
    ours: Sequence[SetTarget],
    by_hand: Mapping[str, str],
    taken: Collection[str],
    known: Collection[str],
    home: Path | None = None,
) -> Plan:
    """Propose an identity for every agent.

    Args:
        found: the agents that were seen.
        ours: what earlier runs wrote.
        by_hand: the identities whose target is configured by hand, and their panes.
        taken: identities that may not be given to anyone else.
        known: the identities that the graph has, with subscriptions.
        home: the person's home directory, which makes no good name.

    An agent keeps the identity that is woken in its pane, unless the record says that this is another one's: names of
    panes can come to mean others. One of ours whose agent moved goes along with it, to where its harness and directory
    are now. Any other agent gets a name of its own. Never raises.
    """
    records = {one.identity: one for one in ours}
    rightful = {agent: [one for one in agent.owners if _is_at_home(records.get(one), agent)] for agent in found}
    present = {owner for owners in rightful.values() for owner in owners}
    vacant = {name: records[name] for name in sorted(records) if name not in present}
    strangers = sorted({owner for agent in found for owner in agent.owners if owner in vacant})
    proposals = {agent: _kept(agent, owners, records, known) for agent, owners in rightful.items() if owners}
    homeless = sorted((one for one in found if one not in proposals), key=lambda one: (one.pane, one.socket))
    for agent in homeless:
        if mover := next((one for one in vacant.values() if _is_the_same(one, agent)), None):
            del vacant[mover.identity]
            proposals[agent] = _taken_along(mover, agent)
    for agent in (one for one in homeless if one not in proposals):
        # the same program, started anew in another directory
        if stayed := next(
            (one for one in agent.owners if one in vacant and vacant[one].harness == agent.harness), None
        ):
            del vacant[stayed]
            proposals[agent] = _kept(agent, [stayed], records, known)
    given = {*present, *taken, *records}
    stand_in_the_way = {one for one in by_hand if one not in present}
    count = Counter(agent.harness for agent in found)
    for agent in (one for one in homeless if one not in proposals):
        wanted = _names_for(agent, home, is_alone=count[agent.harness] == 1)
        identity = next(name for name in wanted if name not in given or name in stand_in_the_way)
        given.add(identity)
        proposals[agent] = _proposal(SetupStep.ADD, agent, identity)
    added = {one.agent.identity for one in proposals.values() if one.is_ours}
    return Plan(
        proposals=tuple(proposals[agent] for agent in found),
        dropped=tuple(vacant[one] for one in strangers if one in vacant),
        conflicts={name: by_hand[name] for name in sorted(added & set(by_hand))},
    )


def _is_at_home(record: SetTarget | None, agent: FoundAgent) -> bool:
    """Whether nothing speaks against an owner: it is none of ours, its record is lost, or it is the same agent."""
    return record is None or record.directory is None or _is_the_same(record, agent)


def _kept(
    agent: FoundAgent, owners: Sequence[str], records: Mapping[str, SetTarget], known: Collection[str]
) -> Proposal:
    mine = next((owner for owner in owners if owner in records), None)
    if mine is None:
        return _proposal(SetupStep.KEEP_BY_HAND, agent, owners[0])
    record = records[mine]
    if (record.pane, record.socket) != (agent.pane, agent.socket):
        return _proposal(SetupStep.MOVE, agent, mine, was=record.pane)
    return _proposal(SetupStep.KEEP if mine in known else SetupStep.RESTORE, agent, mine)


def _taken_along(mover: SetTarget, agent: FoundAgent) -> Proposal:
    if (mover.pane, mover.socket) == (agent.pane, agent.socket):
        return _proposal(SetupStep.RESTORE, agent, mover.identity)
    return _proposal(SetupStep.MOVE, agent, mover.identity, was=mover.pane)


def _proposal(step: SetupStep, agent: FoundAgent, identity: str, was: str = "") -> Proposal:
    return Proposal(step, SetupAgent(identity, agent.harness, agent.directory, agent.pane), agent.socket, was)


def _is_the_same(target: SetTarget, agent: FoundAgent) -> bool:
    return (target.harness, target.directory) == (agent.harness, agent.directory)


def _names_for(agent: FoundAgent, home: Path | None, *, is_alone: bool) -> Iterator[str]:
    """`@codex` for the only one of its kind, else `@codex-api` in a directory of that name, else numbered; endless."""
    plain = f"@{_slug(agent.harness) or 'agent'}"
    slug = "" if agent.directory == home else _slug(agent.directory.name)
    with_directory = f"{plain}-{slug}" if slug else plain
    if is_alone:
        yield plain
    yield with_directory
    number = 1
    while True:
        number += 1
        yield f"{with_directory}-{number}"


def _slug(name: str) -> str:
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-")


@dataclass(frozen=True, slots=True)
class LostIdentity:
    """One identity of which nobody can tell in which pane it is: the name it was found by, and who is expected there."""

    identity: str
    name: str
    harness: str = ""
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class CandidateAgents:
    """The agents that a lost identity could be, the one that its name leads to first.

    `is_certain` where what is expected fits one agent alone, and this one fits nobody else who is lost.
    """

    lost: LostIdentity
    agents: tuple[FoundAgent, ...]
    is_certain: bool = False


def find_again(lost: Sequence[LostIdentity], free: Sequence[FoundAgent]) -> list[CandidateAgents]:
    """Propose for every lost identity which of the agents that are nobody's it could be. Never raises."""
    fitting = {one: [agent for agent in free if _is_expected(one, agent)] for one in lost}
    wanted = Counter(agent for agents in fitting.values() for agent in agents)
    found: list[CandidateAgents] = []
    for one, agents in fitting.items():
        named = [agent for agent in agents if _is_named(agent, one.name)]
        others = [agent for agent in agents if agent not in named]
        is_told_apart = bool(one.harness or one.directory) and len(agents) == 1 and wanted[agents[0]] == 1
        found.append(CandidateAgents(one, (*named, *others), is_certain=is_told_apart))
    return found


def _is_expected(lost: LostIdentity, agent: FoundAgent) -> bool:
    return lost.harness in {"", agent.harness} and lost.directory in {None, agent.directory}


def _is_named(agent: FoundAgent, name: str) -> bool:
    return bool(name) and (agent.pane == name or agent.pane.startswith((f"{name}:", f"{name}.")))
