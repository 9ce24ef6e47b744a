"""`next`: takes a person to the agent that has needed them longest, to the next one, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from wake_bridge.cli.context import CommandContext, pass_run

if TYPE_CHECKING:
    from wake_bridge.domain.attention import Episode
    from wake_bridge.ports.adapter import PersonGuide, Viewer


@click.command("next")
@click.option("--back", is_flag=True, help="Go back to where you were.")
@click.option("--client", default="", metavar="NAME", help="Move this tmux client, as a key binding names it.")
@pass_run
def next_agent(run: CommandContext, back: bool, client: str) -> None:
    """Go to the agent that has needed you longest; again for the one after it.

    It moves the tmux client that you call it from. Outside tmux it prints the command that attaches there. With `--json` it lists
    the agents and moves nothing.
    """
    from wake_bridge.storage.ledger import LedgerStore

    with closing(LedgerStore.open(run.settings.state_dir, read_only=True)) as ledger:
        episodes = ledger.open_episodes()
    if run.console.as_json:
        from wake_bridge.domain.attention import next_ones
        from wake_bridge.records import episode_record

        for one in next_ones(episodes, ""):
            run.console.line(episode_record(one) | {"host": None, "way": None})
        for needing in _elsewhere(run):
            run.console.line(_record_elsewhere(needing))
        return
    # where nobody needs anyone here, nothing leads anywhere, and what could is not worth its import
    told = _taken(run, episodes, client, back=back) if episodes or back else ""
    if client:
        return
    run.console.say("\n".join(filter(None, [told, *(() if back else _words_elsewhere(run))])) or "no agent needs you")


def _taken(run: CommandContext, episodes: Sequence[Episode], client: str, *, back: bool) -> str:
    """Take the person to the first, or back; answers what there is to say."""
    import asyncio

    from wake_bridge.integrations.adapters import make_adapters
    from wake_bridge.ports.adapter import PersonGuide
    from wake_bridge.system.clock import SteadyClock

    guides = [
        one for one in make_adapters(run.settings, SteadyClock()).adapters.values() if isinstance(one, PersonGuide)
    ]
    return asyncio.run(_go_back(guides, client) if back else _go(guides, episodes, client))


def _elsewhere(run: CommandContext) -> Sequence[Mapping[str, Any]]:
    """The agents of linked hosts that need a person, the longest need first, as the daemon knows them."""
    from wake_bridge.cli.panes import LEFT_OUT, silences_of
    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import NotRunning, OperationFailed

    try:
        told = ask(run.places.state_dir, "hosts")
        needing, links = told["needing"], told["hosts"]
    except (NotRunning, OperationFailed, KeyError):
        return ()
    for silence in silences_of([(one["host"], LEFT_OUT) for one in links if one["state"] != "up"]):
        run.console.warn(silence)
    return sorted(needing, key=lambda one: str(one["since"]))


def _record_elsewhere(one: Mapping[str, Any]) -> dict[str, Any]:
    """In the shape of the others; the episode is kept on the other host."""
    absent = dict.fromkeys(("episodeId", "evidence", "toldAt", "endedAt", "ending", "resetsAt"))
    return absent | {
        "agentIdentity": one["agentIdentity"],
        "kind": one["kind"],
        "where": one["where"],
        "beganAt": one["since"],
        "host": one["host"],
        "way": one["way"],
    }


def _words_elsewhere(run: CommandContext) -> list[str]:
    return [f"{one['agentIdentity']} on {one['host']}: {one['what']}: `{one['way']}`" for one in _elsewhere(run)]


async def _go(guides: Sequence[PersonGuide], episodes: Sequence[Episode], client: str) -> str:
    """Go to the first that can be reached; answers what there is to say."""
    from wake_bridge.domain.attention import next_ones

    guide, viewer = await _viewer(guides, client)
    wanted = next_ones(episodes, viewer.shows if viewer else "")
    remembers = viewer is not None and all(one.place_key != viewer.shows for one in wanted)
    for one in wanted:
        if guide is not None and viewer is not None and await guide.bring(viewer, one.place_key, remember=remembers):
            return f"{one.identity}: {one.kind} in {one.where}"
    lines = [
        f"{one.identity}: {one.kind} in {one.where}: `{way}`"
        for one in wanted
        if (way := next((found for guide in guides if (found := guide.way_to(one.place_key))), ""))
    ]
    return "\n".join(lines[:1])


async def _go_back(guides: Sequence[PersonGuide], client: str) -> str:
    guide, viewer = await _viewer(guides, client)
    if guide is None or viewer is None:
        return "no tmux client is here to go back"
    return "" if await guide.bring_back(viewer) else "there is nowhere to go back to"


async def _viewer(guides: Sequence[PersonGuide], client: str) -> tuple[PersonGuide | None, Viewer | None]:
    for guide in guides:
        if (viewer := await guide.viewer(client, os.environ)) is not None:
            return guide, viewer
    return None, None
