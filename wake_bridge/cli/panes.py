"""`panes`: which agents there are, and the names that reach them."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from wake_bridge.cli.context import CommandContext, pass_run
from wake_bridge.domain.causes import Cause
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.graph_places import GraphPlace
from wake_bridge.domain.presence import PresenceState

SOON: Final = 1.0
"""Seconds that nobody needs to be told anything."""

LEFT_OUT: Final = "what is there is left out"
"""Said of a linked host that does not answer."""

_BESIDES: Final = frozenset({"key", "cause"})
"""What the table needs to know, and `panes --json` does not print."""


@click.command()
@pass_run
def panes(run: CommandContext) -> None:
    """List the panes of your tmux servers: agent, state, identity, and the name to pin it by.

    Nothing is typed and no agent's program is started. `idle` means that two looks agree; `idle?` means
    only one look. If a daemon runs, the command shows what the daemon sees; it has two looks at the agents that it wakes.
    """
    with patiently(run):
        found = _all_panes(run)
    silent_hosts = [(host, LEFT_OUT) for host in found.get("silent_hosts", ())]
    for silence in silences_of([*found["silent"], *silent_hosts]):
        run.console.warn(silence)
    elsewhere = found.get("elsewhere", ())
    if run.console.as_json:
        for one in (*found["panes"], *elsewhere):
            run.console.line(
                {**{name: value for name, value in one.items() if name not in _BESIDES}, "host": one.get("host")}
            )
        return
    if not found["panes"] and not elsewhere:
        nothing = "no pane can be seen" if found["silent"] else "no tmux server of yours is running"
        run.console.say(f"{nothing}: start the agents in tmux, then look again; `wake-bridge doctor` looks at tmux too")
        return
    has_others = len({one["server"] for one in found["panes"]}) > 1
    headings = ["pane", "agent", "state", "identity", "directory", *(["server"] if has_others else [])]
    rows = [_row(one)[: len(headings)] for one in (*found["panes"], *elsewhere)]
    if elsewhere:
        headings.insert(0, "host")
        rows = [[one.get("host") or "here", *row] for one, row in zip((*found["panes"], *elsewhere), rows, strict=True)]
    run.console.table(headings, rows)
    for note in _notes_on(found["panes"]):
        run.console.say(f"note: {note}")


def _notes_on(panes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What a person can do about names that need not last, and about panes in which no agent can be seen."""
    for doubt, names in _doubts_of(one for one in panes if one["harness"]).items():
        yield f"{', '.join(names)}: {doubt}"
    behind = [(one["pane"] or one["id"], one["cause"]) for one in panes if not one["harness"]]
    if to_hosts := [pane for pane, cause in behind if cause == Cause.ON_ANOTHER_HOST]:
        yield (
            f"{', '.join(to_hosts)}: ssh. An agent behind it lives on the other host: run wake-bridge there, then"
            " `wake-bridge hosts add NAME` here"
        )
    for pane in (pane for pane, cause in behind if cause == Cause.HIDDEN_BY_CARRIER):
        yield (
            f"{pane}: an agent there is woken once its [targets] table says `pane = {json.dumps(pane)}` and which `harness` it"
            " is (docs/carriers.md)"
        )
    if commands := dict.fromkeys(command for one in panes for command in one["lasting"]):
        yield f"names that last: {', then '.join(f'`{one}`' for one in commands)}"


def _all_panes(run: CommandContext) -> Mapping[str, Any]:
    """What the daemon sees, if it sees what we would; else what is seen from here."""
    from wake_bridge.control.serving import panes_by_daemon

    told: Mapping[str, Any] = {}
    try:
        told = panes_by_daemon(run.places.state_dir, os.environ)
    except OperationFailed as stuck:
        run.console.warn(f"note: {stuck.what}: this is what can be seen without it; {stuck.hint}")
    if _is_all(told):
        return told
    import asyncio

    from wake_bridge.panes import report_panes
    from wake_bridge.records import panes_record

    here = panes_record(asyncio.run(report_panes(run.settings, told.get("panes", ()))))
    return here | {name: told.get(name, ()) for name in ("elsewhere", "silent_hosts")}


def _is_all(told: Mapping[str, Any]) -> bool:
    """Whether the daemon sees the servers that we would: all answered it, and the one that we are in is among them."""
    inside, _, _ = os.environ.get("TMUX", "").partition(",")
    servers = {os.path.realpath(one["server"]) for one in told.get("panes", ()) if "server" in one}
    return bool(told.get("alike") and servers and not told["silent"]) and (
        not inside or os.path.realpath(inside) in servers
    )


def _row(one: Mapping[str, Any]) -> list[str]:
    return [
        one["pane"] or one["id"],
        " ".join(filter(None, (one["harness"], one["version"]))) or "-",
        _stands(one) if one["harness"] else f"no agent: {one['why']}",
        ", ".join(one["agentIdentities"]) or "-",
        at_home(Path(one["cwd"])),
        one["server"],
    ]


def _stands(one: Mapping[str, Any]) -> str:
    """The state, by how many looks; why, unless it is the rest that everything is about."""
    if one["cause"] == Cause.ONE_LOOK:
        return "idle? (one look)"
    looks = "one look" if one["looks"] == 1 else "two looks"
    return f"idle ({looks})" if one["state"] == PresenceState.IDLE else f"{one['state']} ({looks}: {one['why']})"


@contextmanager
def patiently(run: CommandContext) -> Iterator[None]:
    """A look at panes. Where a server takes its time, a person at a terminal is told."""
    told = threading.Timer(SOON, run.console.warn, ["looking at the panes of your tmux servers …"])
    told.daemon = True
    if sys.stderr.isatty():
        told.start()
    try:
        yield
    finally:
        told.cancel()


def silences_of(silent: Sequence[tuple[str, str]]) -> list[str]:
    """A note for each reason why servers do not answer; without tmux they are all alike."""
    servers: dict[str, list[str]] = {}
    for server, why in silent:
        servers.setdefault(why, []).append(server)
    return [
        f"note: {first}{f' and {len(others)} others do' if others else ' does'} not answer: {why}"
        for why, (first, *others) in servers.items()
    ]


def _doubts_of(agents: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Each reason why a name may not last, with the panes it is about."""
    found: dict[str, list[str]] = {}
    for one in agents:
        for doubt in one["doubts"]:
            found.setdefault(doubt, []).append(one["pane"] or one["id"])
    return found


def with_tilde(text: str) -> str:
    """The text with the person's own directory spelled `~` wherever a path begins with it."""
    return re.sub(rf"(?<![\w./-]){re.escape(str(Path.home()))}(?=/)", "~", text)


def shown_place(place: GraphPlace) -> str:
    """Where a graph lies, as a person reads it."""
    return at_home(place) if isinstance(place, Path) else str(place)


def at_home(directory: Path) -> str:
    """The directory, the person's own spelled `~`."""
    home = Path.home()
    return f"~/{directory.relative_to(home)}".removesuffix("/.") if directory.is_relative_to(home) else str(directory)
