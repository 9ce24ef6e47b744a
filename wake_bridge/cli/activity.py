"""`activity`: the feed of what happened, for people and for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, limit_option, pass_run
from wake_bridge.cli.wakes import DURATION

if TYPE_CHECKING:
    from wake_bridge.domain.activity import Activity
    from wake_bridge.domain.names import Instant
    from wake_bridge.storage.ledger import LedgerStore

TICK: Final = 0.25
"""Seconds between two looks at the ledger while it is followed."""

ELSEWHERE_EVERY: Final = 2.0
"""Seconds between two questions to the linked hosts while it is followed."""

AT_ONCE: Final = 200
"""Entries that are read in one go."""


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Print new entries as they come.")
@click.option("--agent", type=IDENTITY, help="Only entries about this identity.")
@click.option("--since", "age", type=DURATION, help="Only entries of the last 8h, 30m, …")
@click.option(
    "--after", metavar="ID", type=click.IntRange(0, 2**63 - 1), help="Only entries after this one, oldest first."
)
@limit_option(10_000, 50)
@pass_run
def activity(
    run: CommandContext, follow: bool, agent: str | None, age: int | None, after: int | None, limit: int
) -> None:
    """Show what happened: wakes, holds, agents that need you, messages to you. Oldest first, the latest N entries.

    A mark `*` stands before what is new since you last looked. A look counts when this prints to a terminal.
    """
    from wake_bridge.control.last_look import last_look, note_look
    from wake_bridge.domain.names import EPOCH_START, Instant
    from wake_bridge.storage.ledger import LedgerStore
    from wake_bridge.system.clock import SteadyClock

    state_dir, clock = run.places.state_dir, SteadyClock()
    seen_until = last_look(state_dir)
    since = Instant(clock.now() - age) if age is not None else EPOCH_START
    ledger = LedgerStore.open(state_dir, read_only=True)
    try:
        end = ledger.activity_span()[1]
        if after is not None:
            found = [one for one in ledger.activity_after(after, limit, identity=agent or "") if one.at >= since]
        else:
            found = ledger.latest_activity(limit, identity=agent or "", since=since)[::-1]
        elsewhere = FeedsElsewhere(run, agent or "")
        others = [] if after is not None else elsewhere.latest(age, limit)
        told = sorted([*_lines(found, seen_until), *others], key=lambda one: str(one[0]["at"]))
        _print(run, told[-limit:])
        if not (told or follow):
            run.console.say("nothing happened" + (" in that time" if age is not None else " yet"))
        if sys.stdout.isatty() and not run.console.as_json:
            note_look(state_dir, clock.wall())
        if follow:
            _goes_on(
                run, ledger, found[-1].id if after is not None and found else end, agent or "", seen_until, elsewhere
            )
    finally:
        ledger.close()


Line = tuple[dict[str, Any], str]
"""An entry as a record, and in words."""


class FeedsElsewhere:
    """The feeds of linked hosts, as the daemon is told them: each is kept on its host, and read on from where it was read last.

    Args:
        run: the command.
        identity: only entries about it; empty for all.
    """

    def __init__(self, run: CommandContext, identity: str) -> None:
        self._run = run
        self._identity = identity
        self._age: int | None = None
        self._limit: int | None = None
        self._cursors: dict[str, int] = {}
        self._silent: Sequence[str] = ()

    def latest(self, age: int | None, limit: int) -> list[Line]:
        """The latest entries of all of them, of the last `age` milliseconds; says which do not answer."""
        from wake_bridge.cli.panes import LEFT_OUT, silences_of

        self._age, self._limit = age, limit
        found = self._read()
        for silence in silences_of([(host, LEFT_OUT) for host in self._silent]):
            self._run.console.warn(silence)
        return found

    def fresh(self) -> list[Line]:
        """What came since the last reading; of a host that did not answer then it comes once it does."""
        return self._read() if self._cursors or self._silent else []

    def _read(self) -> list[Line]:
        from wake_bridge.control.client import ask
        from wake_bridge.domain.errors import NotRunning, OperationFailed

        try:
            told = ask(
                self._run.places.state_dir,
                "host_activity",
                identity=self._identity,
                after=self._cursors,
                age=self._age,
                limit=self._limit,
            )
            self._silent = told["silent"]
        except (NotRunning, OperationFailed, KeyError):
            return []
        lines = []
        for host, said in told["hosts"].items():
            if isinstance(said["last"], int):
                self._cursors[host] = said["last"]
            lines += [({**one, "unread": None, "host": host}, _words_elsewhere(host, one)) for one in said["entries"]]
        return lines


def _words_elsewhere(host: str, entry: Mapping[str, Any]) -> str:
    from wake_bridge.cli.output import time_of_day
    from wake_bridge.domain.names import parse_instant

    at = parse_instant(entry["at"])
    return f"  {time_of_day(at) if at else '-'}  {entry['agentIdentity'] or '-'} on {host}  {entry['text'] or entry['kind']}"


def _goes_on(
    run: CommandContext,
    ledger: LedgerStore,
    after: int,
    identity: str,
    seen_until: Instant | None,
    elsewhere: FeedsElsewhere,
) -> None:
    """What comes from now on, until Ctrl-C."""
    asked_at = time.monotonic()
    while True:
        run.console.flush()
        fresh = ledger.activity_after(after, AT_ONCE, identity=identity)
        _print(run, _lines(fresh, seen_until))
        if time.monotonic() - asked_at >= ELSEWHERE_EVERY:
            _print(run, elsewhere.fresh())
            asked_at = time.monotonic()
        if fresh:
            after = fresh[-1].id
        else:
            time.sleep(TICK)


def _print(run: CommandContext, lines: Iterable[Line]) -> None:
    for record, words in lines:
        run.console.line(record, words)


def _lines(entries: Iterable[Activity], seen_until: Instant | None) -> list[Line]:
    from wake_bridge.records import activity_record

    return [(activity_record(one, seen_until), _words(one, seen_until)) for one in entries]


def _words(entry: Activity, seen_until: Instant | None) -> str:
    mark = "*" if seen_until is None or entry.at > seen_until else " "
    return f"{mark} {told_line(entry)}"


def told_line(entry: Activity) -> str:
    """`21:04  @api  held: approval waiting in agents:1.2: 1 new message (latest: "Tests fail" from @ci)`."""
    from wake_bridge.cli.output import time_of_day

    why = f": {entry.stimulus}" if entry.stimulus and entry.stimulus not in entry.told else ""
    return f"{time_of_day(entry.at)}  {entry.identity or '-'}  {entry.told}{why}"
