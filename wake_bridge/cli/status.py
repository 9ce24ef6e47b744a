"""`status`: what happened since somebody last looked; and `status --watch`.

A look is a `status` that printed words to a terminal, or a `status --watch` that was ended. A script that asks with
`--json` looks for nobody, and moves nothing.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.cli.output import harmless, screen, time_of_day
from wake_bridge.domain.case import span
from wake_bridge.domain.errors import NotRunning, OperationFailed, UsageMistake
from wake_bridge.domain.instants import parse_instant
from wake_bridge.domain.names import SECOND, Instant

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wake_bridge.cli.output import Console
    from wake_bridge.config.settings import Settings
    from wake_bridge.storage.ledger import LedgerStore


REASONS_NAMED: Final = 3


def since_you_left(ledger: LedgerStore, left_at: Instant | None) -> dict[str, Any]:
    """Counts since then, and what is held now and why; everything there ever was for one who never looked."""
    from wake_bridge.domain.delivery import Outcome
    from wake_bridge.domain.names import EPOCH_START
    from wake_bridge.domain.reasons import held_because
    from wake_bridge.records import time_or_none

    ended = ledger.outcomes_since(left_at or EPOCH_START)
    held = [one for one in ledger.unsettled() if one.hold is not None]
    return {
        "since": time_or_none(left_at),
        "delivered": ended.get(Outcome.SUBMITTED, 0),
        "held": len(held),
        "heldFor": list(dict.fromkeys(held_because(one.hold, one.identity) for one in held if one.hold)),
        "unknown": ended.get(Outcome.UNKNOWN, 0),
        "failed": ended.get(Outcome.FAILED, 0),
    }


def opening(record: Mapping[str, Any], now: Instant) -> str:
    """`since you left (6 h ago): 14 delivered, 2 held (approval waiting in agents:1.2; quiet hours), 1 unknown`."""
    from wake_bridge.domain.case import span
    from wake_bridge.domain.instants import parse_instant

    left_at = parse_instant(record["since"])
    since = "so far" if left_at is None else f"since you left ({span(max(0, now - left_at))} ago)"
    parts = [f"{record['delivered']} delivered"] if record["delivered"] else []
    if record["held"]:
        parts.append(f"{record['held']} held ({_reasons(record['heldFor'])})")
    parts += [f"{record[name]} {name}" for name in ("unknown", "failed") if record[name]]
    return f"{since}: {', '.join(parts) or 'nothing new'}"


def _reasons(clauses: Sequence[str]) -> str:
    more = len(clauses) - REASONS_NAMED
    return "; ".join(clauses[:REASONS_NAMED]) + (f"; and {more} more reasons" if more > 0 else "")


TICK: Final = 1.0
"""Seconds between two looks."""

HEADINGS: Final = ("identity", "presence", "since", "held for", "next look", "last wake", "budget")
ROOMY: Final = 120
"""Columns from which every heading has one of its own; below, what belongs together shares one."""

STACKED: Final = ((0,), (1, 2), (3, 4), (5, 6))
"""Which headings share a column on a narrow terminal."""

COLOURS: Final = {"idle": "green", "active": "cyan", "waitingOnApproval": "yellow", "userTyping": "yellow"}

Look = Callable[[], Mapping[str, Any]]


def agents_now(settings: Settings) -> list[Mapping[str, Any]]:
    """A record for each identity: from the daemon, which watches the panes, else from the ledger alone."""
    from wake_bridge.control.client import ask

    try:
        return list(ask(settings.state_dir, "overview", timeout=3)["agents"])
    except (NotRunning, OperationFailed):
        # it is starting, stopping or stuck, or there is none: the ledger still tells the rest
        from wake_bridge.offline.history import overview_without_daemon
        from wake_bridge.records import overview_record

        return [overview_record(row) for row in overview_without_daemon(settings)]


def watch(console: Console, look: Look, words: Callable[[Mapping[str, Any]], str]) -> None:
    """Show what `look` answers, anew each second, until Ctrl-C or SIGTERM; the terminal is as it was afterwards.

    With `--json` a line each second instead. Raises `UsageMistake` where there is no terminal to draw on.
    """
    with _ended_politely():
        if console.as_json:
            _print_lines(console, look)
            return
        if not sys.stdout.isatty():
            raise UsageMistake(
                "--watch needs a terminal",
                "status",
                hint="`wake-bridge status --watch --json` prints a line each second",
            )
        _draw(look, words)


def _print_lines(console: Console, look: Look) -> None:
    while True:
        console.line(look())
        console.flush()
        time.sleep(TICK)


def _draw(look: Look, words: Callable[[Mapping[str, Any]], str]) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    terminal = screen()

    def drawn() -> RenderableType:
        record = look()
        head = Text(harmless(words(record)), overflow="ellipsis", no_wrap=True)
        return Group(head, Text("Ctrl-C ends it", style="dim"), _table(record["agents"], terminal.width))

    with Live(drawn(), console=terminal, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(TICK)
            live.update(drawn(), refresh=True)


def _table(agents: Sequence[Mapping[str, Any]], width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = tuple((number,) for number in range(len(HEADINGS))) if width >= ROOMY else STACKED
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    for column in columns:
        is_wide = HEADINGS.index("held for") in column
        heading = "\n".join(HEADINGS[number] for number in column)
        table.add_column(heading, overflow="fold", ratio=1 if is_wide else None, no_wrap=not is_wide)
    now = Instant(int(time.time() * 1000))
    for agent in agents:
        cells = cells_of(agent, now)
        colour = COLOURS.get(str(agent["looksLike"]), "")
        styles = ("bold", colour, "", "yellow" if agent["holdReason"] else "", "", "", "")
        texts = [Text(harmless(cell), style=style) for cell, style in zip(cells, styles, strict=True)]
        table.add_row(*(Text("\n").join(texts[number] for number in column) for column in columns))
    return table


def cells_of(agent: Mapping[str, Any], now: Instant) -> tuple[str, ...]:
    """One row, in the order of `HEADINGS`."""
    last_wake, budget = parse_instant(agent["lastWake"]), agent["budget"]
    return (
        str(agent["agentIdentity"]),
        _presence(agent),
        _ago(agent["since"], now),
        _held(agent, now),
        _ahead(agent["nextLook"], now),
        time_of_day(last_wake) if last_wake else "-",
        f"{budget['this_hour']}/{budget['of_hour']} h  {budget['today']}/{budget['of_day']} d",
    )


def _presence(agent: Mapping[str, Any]) -> str:
    """What is proven, and by which route; with a question mark what one look alone speaks for."""
    state = str(agent["presence"] or "-")
    if agent["presence"] == "unknown" and agent["looksLike"] != "unknown":
        state = f"{agent['looksLike']}?"
    return f"{state} ({agent['route']})" if agent.get("route") else state


def _held(agent: Mapping[str, Any], now: Instant) -> str:
    if agent["heldFor"]:
        return f"{_ago(agent['heldSince'], now)}: {agent['heldFor']}"
    return f"{agent['waiting']} waiting" if agent["waiting"] else "-"


def _ago(moment: str | None, now: Instant) -> str:
    instant = parse_instant(moment)
    return span(max(0, now - instant)) if instant else "-"


def _ahead(moment: str | None, now: Instant) -> str:
    instant = parse_instant(moment)
    if instant is None:
        return "-"
    return f"in {span(instant - now)}" if instant - now >= SECOND else "now"


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end it alike, and whatever was drawn is taken back."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        # the person has seen enough: the usual end of a watch
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
