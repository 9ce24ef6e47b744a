"""`logs`: what the daemon logged; with `--delivery` one wake's whole story, with its journal from the ledger."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run
from wake_bridge.cli.wakes import DURATION

if TYPE_CHECKING:
    from wake_bridge.config.settings import Settings
    from wake_bridge.domain.delivery import Delivery
    from wake_bridge.storage.daemon_log import Entry, Span
    from wake_bridge.storage.ledger import LedgerStore

LAST_LINES: Final = 200
IDLE: Final = 0.5
"""Seconds between two looks at the ledger while a delivery is followed."""

WHERE_LOGS_GO: Final = (
    "a daemon in the foreground logs to its terminal, a service to a file there; `daemon.log_file` in the configuration"
    " makes it always write one"
)
LIVES: Final = frozenset({"daemon_started", "daemon_stopping", "daemon_stopped"})
"""What says of a daemon's life; told in the story of a wake that went through it."""

_PLAIN: Final = frozenset({"timestamp", "level", "event", "logger", "source"})


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written.")
@click.option("--delivery", help="The full story of this delivery, with its journal.")
@click.option("--agent", type=IDENTITY, help="Only lines about this identity.")
@click.option("--since", "age", type=DURATION, help="Only lines of the last 8h, 30m, …")
@pass_run
def logs(run: CommandContext, follow: bool, delivery: str | None, agent: str | None, age: int | None) -> None:
    """Show the daemon's log: its rotated files, or systemd's journal if there is no file.

    If a daemon runs in the foreground, the command asks it where its log goes: it shows a file, and names a terminal. With
    --delivery it merges the ledger's journal and the log by time; the journal exists even if nothing was logged.
    """
    from wake_bridge.storage.daemon_log import Span, time_of

    after = datetime.now(UTC).timestamp() - age / 1000 if age else 0.0
    span = Span(after, 0 if age or delivery or agent else LAST_LINES, follow)

    def is_wanted(entry: Entry) -> bool:
        is_about = not agent or entry.get("agent") == agent
        return is_about and (not after or (time_of(entry) or 0.0) >= after)

    entries = _story(run, delivery, span) if delivery else _logged(run, span)
    for entry in entries:
        if entry is not None and is_wanted(entry):
            run.console.line(entry, _told(entry, is_story=bool(delivery)))
            run.console.flush()


def _logged(run: CommandContext, span: Span) -> Iterator[Entry | None]:
    """What was logged, from the files, else from the journal of the service; raises `NotFound` where nothing keeps it."""
    from wake_bridge.domain.errors import NotFound
    from wake_bridge.storage.daemon_log import files_of, has_journal, read_files, read_journal

    path, here = _log_file(run.settings), _log_of_daemon(run.settings)
    if here and here[1].is_file():
        return read_files(here[1], span)
    elsewhere = f"the daemon that runs (pid {here[0]}) logs to {_plainly(here[1])}" if here else ""
    if files_of(path):
        if elsewhere:
            run.console.warn(f"note: {elsewhere}; what follows is of earlier ones")
        return read_files(path, span)
    if has_journal(os.environ) and not elsewhere:
        return read_journal(span)
    raise NotFound("there is no log file", str(path), hint=f"{elsewhere or WHERE_LOGS_GO}; `--delivery ID` needs none")


def _log_of_daemon(settings: Settings) -> tuple[int, Path] | None:
    """Its process, and where a daemon that runs says that it logs; None where there is none, or it does not say."""
    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import NotRunning, OperationFailed

    with suppress(NotRunning, OperationFailed):
        told = ask(settings.state_dir, "status")
        if told.get("log"):
            return int(told["pid"]), Path(str(told["log"]))
    return None


def _plainly(place: Path) -> str:
    """Where that is for a person; a pipe and a socket have no name that helps."""
    if str(place).startswith(("/dev/pts/", "/dev/tty")):
        return f"its terminal, {place}"
    return str(place) if place.is_absolute() else "the program that started it"


def _log_file(settings: Settings) -> Path:
    from wake_bridge.storage.daemon_log import LOG_FILE_NAME

    return settings.log_file or settings.state_dir / LOG_FILE_NAME


def _story(run: CommandContext, delivery_id: str, span: Span) -> Iterator[Entry | None]:
    """One delivery's journal and its log lines, in the order of time; followed, both go on."""
    from wake_bridge.domain.errors import NotFound
    from wake_bridge.offline.mail import find_delivery
    from wake_bridge.storage.ledger import LedgerStore

    ledger = LedgerStore.open(run.settings.state_dir, read_only=True)
    try:
        delivery = find_delivery(ledger, delivery_id)
        journal = _journal(ledger, delivery)
        logged: Iterator[Entry | None] = iter(())
        try:
            logged = _logged(run, span)
        except NotFound:
            run.console.warn(f"note: there is no log file; this comes from the ledger alone ({WHERE_LOGS_GO})")
        # a follower says None once it has caught up
        past = [entry for entry in takewhile(lambda one: one is not None, logged) if entry is not None]
        lines = _of_delivery(past, delivery.id, journal)
        yield from heapq.merge(_matched(ledger, delivery), journal, lines, key=_moment)
        if span.follows:
            yield from _goes_on(ledger, delivery, len(journal), logged)
        else:
            run.console.say(_standing(ledger, delivery, run.settings))
    finally:
        ledger.close()


def _goes_on(
    ledger: LedgerStore, delivery: Delivery, told: int, logged: Iterator[Entry | None]
) -> Iterator[Entry | None]:
    """New lines of the journal, and of the log as far as it is followed."""
    while True:
        entry = next(logged, None)
        fresh = _journal(ledger, delivery)[told:]
        told += len(fresh)
        yield from fresh
        yield from _of_delivery([entry] if entry is not None else [], delivery.id, ())
        if entry is None:
            time.sleep(IDLE)


def _matched(ledger: LedgerStore, delivery: Delivery) -> list[Entry]:
    """What it carries, and when each was matched, as entries."""
    from wake_bridge.records import time_or_none

    events = sorted(ledger.events_of(delivery.id), key=lambda one: one.matched_at)
    return [
        {
            "timestamp": time_or_none(event.matched_at),
            "source": "ledger",
            "event": "matched",
            "delivery": delivery.id,
            "agent": delivery.identity,
            "kind": event.kind.value,
            "subject_key": event.subject_key,
            "log_id": event.log_id,
        }
        for event in events
    ]


def _journal(ledger: LedgerStore, delivery: Delivery) -> list[Entry]:
    """The ledger's own lines, as entries."""
    from wake_bridge.records import time_or_none

    return [
        {
            "timestamp": time_or_none(line.at),
            "source": "ledger",
            "event": line.step.value,
            "delivery": delivery.id,
            "agent": delivery.identity,
            "lease": line.lease,
            **{name: value for name, value in line.detail.items() if name not in _PLAIN},
        }
        for line in ledger.journal_of(delivery.id)
    ]


def _of_delivery(entries: Iterable[Entry], delivery_id: str, journal: Sequence[Entry]) -> list[Entry]:
    """The log lines about it, and those in which a daemon came or went while it was under way."""
    began, ended = (_moment(journal[0]), _moment(journal[-1])) if journal else (0.0, float("inf"))
    return [
        {"source": "log", **entry}
        for entry in entries
        if entry.get("delivery") == delivery_id or (entry.get("event") in LIVES and began <= _moment(entry) <= ended)
    ]


def _moment(entry: Entry) -> float:
    from wake_bridge.storage.daemon_log import time_of

    return time_of(entry) or 0.0


def _standing(ledger: LedgerStore, delivery: Delivery, settings: Settings) -> str:
    """How it stands, in the words of `why`."""
    from wake_bridge.cli.output import time_of_day
    from wake_bridge.control.serving import DaemonState, daemon_state
    from wake_bridge.domain.explanation import DeliveryHistory, TimeFormat, explain_delivery
    from wake_bridge.system.clock import SteadyClock

    history = DeliveryHistory(delivery, ledger.journal_of(delivery.id), ledger.events_of(delivery.id))
    times = TimeFormat(SteadyClock().now(), time_of_day)
    is_running = daemon_state(settings.state_dir) is not DaemonState.NOT_RUNNING
    explanation = explain_delivery(history, times, is_running=is_running)
    return f"{delivery.identity}: {explanation.text}\n  next: {explanation.next}"


def _told(entry: Entry, *, is_story: bool) -> str:
    """An entry in words; what stands in the ledger says so where a log line has its level.

    A story does not name its delivery on every line.
    """
    hidden = _PLAIN | {"delivery", "agent"} if is_story else _PLAIN
    rest = "  ".join(f"{name}={value}" for name, value in entry.items() if name not in hidden and value != "")
    source = "ledger" if entry.get("source") == "ledger" else entry.get("level", "")
    return f"{entry.get('timestamp', '')}  {source:<7} {entry.get('event', '')}  {rest}".strip()
