"""`setup --rebind`: one question for all whose pane nobody can tell, as after the end of the tmux server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from wake_bridge.cli.context import CommandContext
    from wake_bridge.domain.names import Identity
    from wake_bridge.domain.setup import Finding, FoundAgent


def ask_who_lives_where(run: CommandContext, *, yes: bool, dry_run: bool) -> None:
    """Propose an agent for each lost identity, and remember what a person says; with `yes` only what is certain."""
    import asyncio

    from wake_bridge.domain.names import Identity
    from wake_bridge.setup import rebind, who_is_lost

    found = asyncio.run(who_is_lost(run.settings))
    chosen: dict[Identity, FoundAgent] = {}
    for finding in found.findings:
        taken = set(chosen.values())
        agent = _certain(finding) if yes or dry_run else _asked(run, finding, taken)
        if agent is not None:
            chosen[Identity(finding.lost.identity)] = agent
    if chosen and not dry_run:
        gone = asyncio.run(rebind(run.settings, {who: found.sights[agent] for who, agent in chosen.items()}))
        chosen = {who: agent for who, agent in chosen.items() if who not in gone}
        for who in chosen:
            run.poke_daemon(moved=who)
    left = [one for one in found.findings if one.lost.identity not in chosen]
    written = bool(chosen) and not dry_run
    run.console.object(_record(chosen, left, written=written), _words(chosen, left, dry_run=dry_run))


def _certain(finding: Finding) -> FoundAgent | None:
    return finding.agents[0] if finding.is_certain else None


def _asked(run: CommandContext, finding: Finding, taken: Collection[FoundAgent]) -> FoundAgent | None:
    """What a person answers; the first one is proposed where the name leads to it, or nothing else could be meant."""
    from wake_bridge.cli.panes import at_home

    agents = [one for one in finding.agents if one not in taken]
    if not agents:
        return None
    rows = [[str(number), one.pane, one.harness, at_home(one.directory)] for number, one in enumerate(agents, 1)]
    run.console.table(["", "pane", "agent", "directory"], rows)
    run.console.flush()
    was = f" (it was {finding.lost.name!r})" if finding.lost.name else ""
    question = f"Where does {finding.lost.identity} live now?{was} 0 for none of them"
    answer = click.prompt(question, type=click.IntRange(0, len(agents)), default=1, err=True)
    return agents[answer - 1] if answer else None


def _record(chosen: Mapping[Identity, FoundAgent], left: Sequence[Finding], *, written: bool) -> dict[str, Any]:
    return {
        "written": written,
        "rebound": [
            {"agentIdentity": who, "pane": one.pane, "harness": one.harness, "directory": str(one.directory)}
            for who, one in chosen.items()
        ],
        "left": [
            {"agentIdentity": one.lost.identity, "mayLiveIn": [agent.pane for agent in one.agents]} for one in left
        ],
    }


def _words(chosen: Mapping[Identity, FoundAgent], left: Sequence[Finding], *, dry_run: bool) -> str:
    lines = [f"{who} {'would live' if dry_run else 'lives'} in {one.pane} from now on" for who, one in chosen.items()]
    for one in left:
        panes = ", ".join(agent.pane for agent in one.agents)
        lines.append(
            f"{one.lost.identity} is left: it could be in {panes}; run `wake-bridge setup --rebind` in a terminal, where it can ask"
            if panes
            else f"{one.lost.identity} is left: every agent that was found belongs to somebody; start its agent, then run this again"
        )
    return "\n".join(lines) or "nobody is lost: each identity lives where it was found before"
