"""The tail's questions to the change log: each is one blocking call on the tail's own thread."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from wake_bridge.domain.epochs import CursorStatus, cursor_status, fingerprint_of_empty
from wake_bridge.domain.errors import SourceError
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import BROADCAST, Identity, Instant, LogId
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.change_log import Census, ChangeLog, IdentityRow, Json, LogBounds, LogEntry, Page
from wake_bridge.ports.ledger_records import Position

PAGE: Final = 1000
"""Rows read at once."""

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GraphContents:
    """What the tail knows of a graph besides its log, and which file it is (device, inode)."""

    file: tuple[int, int]
    is_embedded: bool
    subscriptions: Sequence[tuple[str, Json]]
    identities: Mapping[Identity, IdentityRow]


@dataclass(frozen=True, slots=True)
class PageReading:
    """One page, and all that has to be known to judge it.

    `cursor_status` says whether the cursor still means what it meant; `with_audience` are the broadcasts whose recipients
    are recorded, `typed_later` the tasks with typed rows beyond the page.
    """

    version: Version
    bounds: LogBounds
    cursor_status: CursorStatus
    page: Page
    with_audience: frozenset[str] = frozenset()
    typed_later: frozenset[str] = frozenset()

    @property
    def reaches_tip(self) -> bool:
        """Whether the log had nothing more when the page was read."""
        return self.page.examined < PAGE


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a new epoch starts from: the census and the contents."""

    census: Census
    contents: GraphContents


@dataclass(frozen=True, slots=True)
class MailPage:
    """Some messages, as the log would show them; `with_audience` are the broadcasts whose recipients are recorded."""

    entries: Sequence[LogEntry]
    with_audience: frozenset[str]


class LogReader:
    """Asks the change log. Every method raises what the log raises (`SourceError`). `heals` counts cured deafness."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self.heals = 0
        self._typed_later: frozenset[str] | None = None

    def contents(self) -> GraphContents:
        """Subscriptions, identities, and which file holds them."""
        version = self._log.version()
        return GraphContents(version[:2], self._log.is_embedded(), self._log.subscriptions(), self._log.identities())

    def beginning(self) -> Baseline:
        """All that a new epoch starts from. The census comes first: what is committed after it lies beyond its tip."""
        self._typed_later = None
        census = self._log.census()
        return Baseline(census, self.contents())

    def recent_mail(self, since: Instant) -> list[str]:
        """Ids of the messages of a look-back, oldest first."""
        return self._log.recent_mail(since)

    def mail(self, message_ids: Sequence[str]) -> MailPage:
        """Those messages; not more than `PAGE` at a time."""
        entries = self._log.mail_edges(message_ids)
        return MailPage(entries, audiences_of(self._log, entries))

    def next_page(self, position: Position, file: tuple[int, int], seen: Version | None) -> PageReading | None:
        """The page after a position; None if nothing was committed since `seen`. `file` is the one that was read last."""
        cursor = position.cursor
        self.heals += self._log.heal()
        version = self._log.version()
        if version == seen:
            return None
        if version[:2] != file:
            self._log.reopen()
            version = self._log.version()
        bounds = self._log.bounds()
        found = self._log.fingerprint_at(cursor) if cursor else fingerprint_of_empty(*version[:2])
        page = self._log.read_after(cursor, PAGE, position.snapshot)
        return PageReading(
            version=version,
            bounds=bounds,
            cursor_status=cursor_status(
                cursor=cursor,
                fingerprint=position.fingerprint,
                found=found,
                lowest=bounds.lowest,
                highest=bounds.highest,
                snapshot=position.snapshot,
            ),
            page=page,
            with_audience=audiences_of(self._log, page.entries),
            typed_later=self._typed_beyond(page),
        )

    def look_out(self, seen: Version | None, over: threading.Event, pauses: Sequence[float]) -> bool:
        """Look after each pause, in seconds, until something was committed since `seen`, the log cannot be read, or `over` is set.

        After the last one whoever asked for it looks. Answers whether it has seen that there is something to look at.
        """
        for pause in pauses[:-1]:
            if over.wait(pause):
                return False
            try:
                self.heals += self._log.heal()
                if self._log.version() != seen:
                    return True
            except SourceError:
                # whoever looks next says so
                return True
        over.wait(pauses[-1])
        return False

    def logged_before(self, edge_ids: Collection[str], position: Position) -> frozenset[str]:
        """Which of the edges the log had when it was read up to that position."""
        return self._log.logged_before(edge_ids, position.cursor, position.snapshot)

    def reopen(self) -> None:
        """Open the log anew: for a deafness that leaves no trace."""
        self._log.reopen()

    def close(self) -> None:
        """Give up the log."""
        self._log.close()

    def _typed_beyond(self, page: Page) -> frozenset[str]:
        """Asked once for a whole backlog; a typed row that came later is told by its twin (`domain.facts`)."""
        if page.examined < PAGE:
            self._typed_later = None
            return frozenset()
        if self._typed_later is None and any(entry.label == MESSAGE_LABEL for entry in page.entries):
            self._typed_later = self._log.typed_tasks_after(page.upto)
        return self._typed_later or frozenset()


def audiences_of(log: ChangeLog, entries: Sequence[LogEntry]) -> frozenset[str]:
    """The broadcasts among the entries' messages whose recipients are recorded."""
    edges = (entry.edge for entry in entries if entry.edge is not None)
    broadcasts = {edge.source for edge in edges if edge.target == BROADCAST and edge.type == "SENT_TO"}
    return frozenset(message_id for message_id in broadcasts if log.has_audience(message_id))


def pages_after(log: ChangeLog, since: LogId) -> Iterator[Page]:
    """The log after a row, page by page, up to the tip."""
    snapshot = ""
    while (page := log.read_after(since, PAGE, snapshot)).examined:
        yield page
        since, snapshot = page.upto, page.snapshot
