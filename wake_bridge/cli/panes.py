"""`panes`: which agents there are, and the names they can be reached by."""

from __future__ import annotations

import re
import sys
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.presence import PresenceState

if TYPE_CHECKING:
    from wake_bridge.panes import PaneReport
    from wake_bridge.ports.adapter import Sight

SOON: Final = 1.0
"""Seconds that nobody needs to be told anything."""

Found = TypeVar("Found")


@click.command()
@pass_run
def panes(run: CommandContext) -> None:
    """List the panes of your tmux servers: agent, state, identity, and the name to pin it by.

    Nothing is typed and no agent's program is started. `idle` means that two looks agree; the daemon has them for the agents
    that it wakes. `idle?` means one look.
    """
    from wake_bridge.panes import pane_record, report_panes

    found = patiently(run, report_panes(run.settings))
    for silence in silences_of(found.silent):
        run.console.warn(silence)
    if run.console.as_json:
        for one in found.panes:
            run.console.line(pane_record(one))
        return
    if not found.panes:
        nothing = "no pane can be seen" if found.silent else "no tmux server of yours is running"
        run.console.say(f"{nothing}: start the agents in tmux, then look again; `wake-bridge doctor` looks at tmux too")
        return
    has_others = len({one.sight.server for one in found.panes}) > 1
    headings = ["pane", "agent", "state", "identity", "directory", *(["server"] if has_others else [])]
    run.console.table(headings, [_row(one)[: len(headings)] for one in found.panes])
    for doubt, names in doubts_of(one.sight for one in found.panes if one.sight.harness).items():
        run.console.say(f"note: {', '.join(names)}: {doubt}")
    if commands := dict.fromkeys(command for one in found.panes for command in one.sight.lasting):
        run.console.say(f"note: names that last: {', then '.join(f'`{one}`' for one in commands)}")


def _row(one: PaneReport) -> list[str]:
    sight = one.sight
    return [
        sight.name or sight.pane_id,
        " ".join(filter(None, (sight.harness, sight.version))) or "-",
        _stands(one) if sight.harness else f"no agent: {sight.who}",
        ", ".join(one.identities) or "-",
        at_home(sight.directory),
        sight.server,
    ]


def _stands(one: PaneReport) -> str:
    """The state, by how many looks; why, unless it is the rest that everything is about."""
    seen = one.seen
    if seen.cause is Cause.ONE_LOOK:
        return "idle? (one look)"
    looks = "one look" if seen.looks == 1 else "two looks"
    return f"{seen.state} ({looks})" if seen.state == PresenceState.IDLE else f"{seen.state} ({looks}: {seen.why})"


def patiently(run: CommandContext, work: Coroutine[None, None, Found]) -> Found:
    """What a look at panes comes to. Where a server takes its time, a person at a terminal is told."""
    import asyncio

    async def waited() -> Found:
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({task}, timeout=SOON)
        if not done and sys.stderr.isatty():
            run.console.warn("looking at the panes of your tmux servers …")
        return await task

    return asyncio.run(waited())


def silences_of(silent: Sequence[tuple[str, str]]) -> list[str]:
    """A note for each reason why servers do not answer; without tmux they are all alike."""
    servers: dict[str, list[str]] = {}
    for server, why in silent:
        servers.setdefault(why, []).append(server)
    return [
        f"note: {first}{f' and {len(others)} others do' if others else ' does'} not answer: {why}"
        for why, (first, *others) in servers.items()
    ]


def doubts_of(sights: Iterable[Sight]) -> dict[str, list[str]]:
    """Each reason why a name may not last, with the panes it is about."""
    found: dict[str, list[str]] = {}
    for sight in sights:
        for doubt in sight.doubts:
            found.setdefault(doubt, []).append(sight.name or sight.pane_id)
    return found


def with_tilde(text: str) -> str:
    """The text with the person's own directory spelled `~` wherever a path begins with it."""
    return re.sub(rf"(?<![\w./-]){re.escape(str(Path.home()))}(?=/)", "~", text)


def at_home(directory: Path) -> str:
    """The directory, the person's own spelled `~`."""
    home = Path.home()
    return f"~/{directory.relative_to(home)}".removesuffix("/.") if directory.is_relative_to(home) else str(directory)
