"""The oracle of several hosts on one graph: a model of leases and commits, held against the history of all of them.

What it allows beside "told once" is what decision 15 allows, and each case is proven from what was written down at the time:

- *unknown*: only its own host can say what became of a wake in `intent_submit`, and that has died in it, or a ledger says so.
- *once more after unknown*: decision 11, by the mark on the event and an outcome `unknown` of the first wake.
- *its commit was lost*, *lost with the server*: "a failover to a replica that lags may still lose it". The first server is asked
  after its end: it has the commit, or the message, and the one that took over does not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from tests.torture.fleet import Fleet, History
from tests.torture.report import Table, Verdict
from wake_bridge.ports.leases import KEY_WITHIN

TOLD: Final = "told once"
UNKNOWN: Final = "unknown"
AGAIN: Final = "once more after unknown"
COMMIT_LOST: Final = "its commit was lost"
GONE: Final = "lost with the server"
RESULTS: Final = (TOLD, UNKNOWN, AGAIN, COMMIT_LOST, GONE, "twice", "lost")

_COUNTED: Final = re.compile(r"(?:(\d+) )?new messages?\b")
_STRAY: Final = ("empty-enter", "shell", "approved", "chosen", "vim-command", "interrupted")

DRAWN_WITHIN: Final = 0.1
"""Seconds that the harness takes to write down an Enter which tmux has pressed."""


def told_by(fleet: Fleet) -> dict[str, list[str]]:
    """The wakes that told each message, by its id, on all hosts together."""
    fleet.read_panes()
    found: dict[str, list[str]] = defaultdict(list)
    for submits in fleet.submits.values():
        for one in submits:
            for message in one["messages"]:
                found[message].append(one["mark"])
    return found


def judge(fleet: Fleet, table: Table) -> None:
    """Count every message, and name each broken rule."""
    told, unknown = told_by(fleet), fleet.unknown()
    now = History.of(fleet.url)
    histories = [*fleet.left_behind, now]
    kept = {delivery for _, delivery, *_ in now.commits}
    lost_commits = {delivery for one in fleet.left_behind for _, delivery, *_ in one.commits} - kept
    once_more = _told_once_more(fleet)
    for subject, message in fleet.sent.items():
        marks = told.get(message.id, [])
        if len(marks) == 1:
            verdict = Verdict(TOLD)
        elif not marks and message.id in unknown:
            verdict = Verdict(UNKNOWN)
        elif not marks and message.id not in now.messages:
            verdict = Verdict(GONE)
        elif not marks:
            verdict = Verdict("lost", (f"{subject} was told nowhere",))
        elif len(set(marks) - lost_commits) <= 1 and _is_each_once(marks):
            verdict = Verdict(COMMIT_LOST)
        elif len(marks) == 2 and _is_each_once(marks) and message.id in once_more:
            verdict = Verdict(AGAIN)
        else:
            verdict = Verdict("twice", (f"{subject} was told {len(marks)} times, by {marks}",))
        table.add(message.row, verdict)
    commits = [one for history in histories for one in history.commits]
    for history in histories:
        _judge_commits(history, table)
    for one in fleet.broken:
        table.demand(holds=False, row="all", broken=one)
    ages = _judge_enters(fleet, table, commits)
    table.measures |= {
        "hosts": str(len(fleet.hosts)),
        "Enters": str(len(ages)),
        "commits": str(len({(at, delivery) for at, delivery, *_ in commits})),
        "leases taken": str(sum(host is not None for _, _, host, _ in now.leases)),
        "composers cleared by a person": str(fleet.cleared),
        "held while cut off": ", ".join(f"{reason} {count}" for reason, count in sorted(fleet.held.items())),
        "latest Enter after its commit": f"{max(ages, default=0) * 1000:.0f} ms",
    }


def _is_each_once(marks: Sequence[str]) -> bool:
    return max(Counter(marks).values()) == 1


def _told_once_more(fleet: Fleet) -> set[str]:
    """Messages that a ledger has opened again because their first wake ended as unknown."""
    statement = (
        "SELECT subject_key FROM wake_event JOIN delivery ON delivery.id = again_of WHERE delivery.outcome = 'unknown'"
    )
    return {one for host in fleet.hosts for (one,) in host.ledger(statement)}


def _judge_commits(history: History, table: Table) -> None:
    """Each was made by the latest owner, under its token, while that was alive."""
    leases: dict[str, list[tuple[float, str, int]]] = defaultdict(list)
    for at, identity, host, token in history.leases:
        leases[identity].append((at, host, token))
    for at, delivery, identity, host, token, alive in history.commits:
        owner = [one[1:] for one in leases[identity] if one[0] <= at][-1:]
        if owner != [(host, token)] or alive <= at:
            table.demand(holds=False, row="all", broken=f"{host} committed {delivery} without the lease: {owner}")


def _judge_enters(
    fleet: Fleet, table: Table, commits: Sequence[tuple[float, str, str, str, int, float]]
) -> list[float]:
    """Each followed a commit of its own host in time, in its own pane; answers after how many seconds."""
    committed: dict[tuple[str, str], list[float]] = defaultdict(list)
    for at, delivery, _, by, _, _ in commits:
        committed[delivery, by].append(at)
    ages = []
    of_agent = {message.id: message.agent for message in fleet.sent.values()}
    for host in fleet.hosts:
        for record in fleet.submits[host.name]:
            mark, pane, at = record["mark"], record["pane"], float(record["at"]) / 1000
            strangers = [one for one in record["messages"] if of_agent.get(one, pane) != pane]
            table.demand(not strangers, "all", f"{pane} at {host.name} was told {strangers}")
            said = sum(int(one or 1) for one in _COUNTED.findall(record["text"]))
            counted = f"{mark} at {host.name} says {said} messages and has {len(record['messages'])}: {record['text']}"
            table.demand(said == len(record["messages"]), "all", counted)
            own = [one for one in sorted(committed[mark, host.name]) if one <= at]
            if not own:
                table.demand(holds=False, row="all", broken=f"an Enter of {mark} at {host.name} without a commit")
                continue
            ages.append(at - own[-1])
            late = f"an Enter of {mark} {ages[-1]:.3f} s after its commit"
            table.demand(ages[-1] <= KEY_WITHIN + DRAWN_WITHIN, "all", late)
        for agent in host.agents.values():
            stray = [one for one in agent.fake.records() if one["event"] in _STRAY]
            table.demand(not stray, "all", f"{agent.name} at {host.name} got {stray[:1]}")
    return ages
