"""The tail: follows the change log, and stores what matched in the ledger together with the cursor."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

import structlog

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.epochs import CursorStatus
from wake_bridge.domain.errors import LedgerError, LedgerUnwritable, SourceError, SourceMissing, SourceNotAGraph
from wake_bridge.domain.events import EventStatus, Fact, WakeEvent
from wake_bridge.domain.facts import older_than_their_rows
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Epoch, Identity, Instant, LogId
from wake_bridge.domain.nudges import Driver, drivers
from wake_bridge.domain.signed_wakes import subscription_for
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.settings import LOGGED_ONE_BY_ONE
from wake_bridge.engine.tail.checkpoint import Checkpoint, CursorLoss, cursor_loss, position_after, start_after
from wake_bridge.engine.tail.log_reader import PAGE, GraphContents, LogReader, PageReading, Version
from wake_bridge.engine.tail.page_matching import PageContext, PageMatcher, PageResult, states_of
from wake_bridge.engine.tail.poll_timer import PollTimer
from wake_bridge.ports.change_log import ChangeLog, ChangeSignal, CursorFile, IdentityRow
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId, Position

_KEY_SHOWN: Final = 200

REOPEN_EVERY: Final = 60_000
"""Milliseconds."""

FIRST_BACKOFF: Final = 0.5

LONGEST_BACKOFF: Final = 2.0
"""Seconds between two attempts at a graph that cannot be read."""

CATCH_UP_PATIENCE: Final = 10_000
"""Milliseconds for which a tail that goes to the tip only once bears with such a graph."""


class EventNotifier:
    """Tells of events that are new in the ledger.

    Args:
        on_events: called when some of them are open; may be a coroutine function.
    """

    def __init__(self, on_events: Callable[[], Awaitable[None] | None]) -> None:
        self._on_events = on_events
        self._log = structlog.get_logger("tail")
        self.open_events = 0

    async def notify(self, new: Sequence[WakeEvent]) -> None:
        """Log them and nudge."""
        if len(new) > LOGGED_ONE_BY_ONE:
            self._log.info("event_matched", events=len(new), identities=len({event.identity for event in new}))
        else:
            for event in new:
                self._log_event(event)
        opened = sum(event.status is EventStatus.OPEN for event in new)
        self.open_events += opened
        if opened:
            await self.nudge()

    async def nudge(self) -> None:
        """Have what is open looked at."""
        told = self._on_events()
        if inspect.isawaitable(told):
            await told

    def _log_event(self, event: WakeEvent) -> None:
        facts = {"agent": event.identity, "kind": event.kind.value, "subject_key": event.subject_key[:_KEY_SHOWN]}
        if event.status is EventStatus.REFUSED:
            self._log.info("event_refused", **facts, log_id=event.log_id, reason=event.refused_by)
        else:
            self._log.info("event_matched", **facts, log_id=event.log_id, policy=event.policy.value)


Answer = TypeVar("Answer")


class Tail:
    """Follows one source.

    Contract: the ledger's cursor moves only together with the events of the rows it passes; a source that cannot be read
    leaves it where it is. All calls to the change log are made on one thread of the tail's own, all calls to the ledger
    on the loop's.

    Args:
        rules: the matching rules in force, asked anew for every page.
        poll_interval: seconds between two looks without a hint.
        on_events: called after a page that brought new open events; may be a coroutine function.
        on_rerouted: called with each identity that may be reached elsewhere, or again, since the last page.
        on_word: called with each identity that has just sent mail, or brought a task to its end.
    """

    def __init__(
        self,
        log: ChangeLog,
        ledger: Ledger,
        signal: ChangeSignal,
        cursor_file: CursorFile,
        clock: Clock,
        new_id: NewId,
        *,
        rules: Callable[[], MatchingRules],
        poll_interval: float,
        on_events: Callable[[], Awaitable[None] | None],
        on_rerouted: Callable[[Identity], None],
        on_word: Callable[[Identity], None] = lambda _: None,
    ) -> None:
        self._reader = LogReader(log)
        self._timer = PollTimer(signal, poll_interval)
        self._clock = clock
        self._rules = rules
        self._notifier = EventNotifier(on_events)
        self._on_rerouted = on_rerouted
        self._on_word = on_word
        self._matcher = PageMatcher(ledger, clock, new_id, rules)
        self._checkpoint = Checkpoint(ledger, cursor_file, clock)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tail")
        self._report = structlog.get_logger("tail")
        self._seen: Version | None = None
        self._file = (0, 0)
        self._reopened_at = clock.now()
        self._warned_of_pruning_at: LogId | None = None
        self._failures = 0
        self._is_graph_away = False
        self._was_at_tip = False
        self.tip = LogId(0)
        self.heals = 0
        self.late_pages = 0
        self.away = ""
        self.progressed_at = clock.now()
        self.begun, self.moved = asyncio.Event(), asyncio.Event()

    # -- what others may know ------------------------------------------------------------------------------------

    @property
    def cursor(self) -> LogId:
        """The highest log id that was looked at; 0 before the first look."""
        return self._checkpoint.cursor

    @property
    def epoch(self) -> Epoch:
        """The present life of the source; 0 before the first look."""
        return self._checkpoint.epoch

    @property
    def seen(self) -> Version | None:
        """What was last seen of the log, all of which was read; None while there is more, or nothing can be seen."""
        return None if self.away else self._seen

    @property
    def active_routes(self) -> int:
        """Subscriptions that can wake somebody by an adapter that is there."""
        return self._matcher.book.active_routes

    def unplaced_identities(self) -> list[Identity]:
        """Whose each subscription is that could wake, and names an adapter that is not there."""
        return self._matcher.book.unplaced()

    def subscriptions_of(self, identity: Identity) -> Sequence[Subscription]:
        """The matching subscriptions of an identity, whatever their trigger."""
        return self._matcher.book.of(identity)

    def subscriptions(self) -> Sequence[Subscription]:
        """All of them, matching or not, as of the last look."""
        return self._matcher.book.all()

    def reachable_identities(self) -> frozenset[Identity]:
        """Everyone with a subscription that can wake."""
        return self._matcher.book.identities()

    def nothing_serves(self, identity: Identity) -> Hold | None:
        """Why none of an identity's subscriptions wakes it; None where one does, or nobody has looked yet."""
        return self._matcher.book.nothing_serves(identity) if self.begun.is_set() else None

    def drivers(self, bound: Collection[Identity]) -> Mapping[Identity, Driver]:
        """Who drives everyone that is subscribed or among `bound`; nobody is known before the first look."""
        return drivers(self._matcher.book, bound) if self.begun.is_set() else {}

    def subscribed_identities(self) -> frozenset[Identity] | None:
        """Everyone with an active subscription, whoever serves it; None before the first look."""
        return self._matcher.book.subscribed() if self.begun.is_set() else None

    @property
    def identities(self) -> Mapping[Identity, IdentityRow] | None:
        """Everyone the graph has a node for, as of the last look; None before the first."""
        return self._matcher.identities if self.begun.is_set() else None

    def known_identities(self) -> frozenset[Identity]:
        """Everyone the graph has a node for."""
        return frozenset(self._matcher.identities)

    def serve_signed(self, sender: str, identity: Identity) -> None:
        """Let the word of a sender of signed wakes serve an identity, from now on."""
        self._matcher.book.put(subscription_for(sender, identity))

    def watchers_of(self, watched: Identity) -> Sequence[Subscription]:
        """The matching subscriptions to an agent's presence."""
        return self._matcher.book.watchers_of(watched)

    def match_now(self, fact: Fact) -> list[WakeEvent]:
        """The open events of something that stands in no row of the log; nothing is stored."""
        return self._matcher.match_now(fact, self.epoch)

    def humans(self) -> frozenset[str]:
        """The identities that are people."""
        return self._matcher.humans()

    def identity(self, identity: Identity) -> IdentityRow | None:
        """What the graph says of an identity."""
        return self._matcher.identities.get(identity)

    def poke(self) -> None:
        """Somebody knows of a change: look at once."""
        self._timer.poke()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the source until cancelled.

        Raises `SourceMissing` or `SourceNotAGraph` when there is no graph at the start; whatever happens to it later is
        waited out.
        """
        try:
            while not await self._succeeds(self._begin):
                pass
            while True:
                if await self._succeeds(self._look):
                    await self._timer.next_poll(self._looks_out)
        finally:
            # at worst a few rows are read again
            with suppress(LedgerError):
                self._checkpoint.save()

    async def catch_up_once(self) -> int:
        """Go to the tip and stop there; answers how many open events were new.

        Raises `SourceError` or `LedgerError` when that fails for `CATCH_UP_PATIENCE`.
        """
        before = self._notifier.open_events
        deadline = self._clock.now() + CATCH_UP_PATIENCE
        while True:
            try:
                await self._begin()
                await self._to_the_tip()
                self._checkpoint.save()
            except (SourceMissing, SourceNotAGraph):
                raise
            except (SourceError, LedgerUnwritable):
                if self._clock.now() > deadline:
                    raise
                await asyncio.sleep(FIRST_BACKOFF)
            else:
                return self._notifier.open_events - before

    async def close(self) -> None:
        """Stop watching, close the log on its own thread, end the thread."""
        await self._timer.close()
        self._thread.submit(self._reader.close)
        self._thread.shutdown(wait=True)

    async def _succeeds(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Whether a step went well; if not, the wait for the next attempt is over when this returns."""
        try:
            await step()
        except (SourceError, LedgerUnwritable) as trouble:
            if self.epoch == 0 and isinstance(trouble, SourceMissing | SourceNotAGraph):
                raise
            await self._wait_out(trouble)
            return False
        if self.away and self._is_graph_away:
            self._report.info("graph_back", cursor=self.cursor, attempts=self._failures)
        elif self.away:
            self._report.info("ledger_back", cursor=self.cursor, attempts=self._failures)
            # a commit that failed may have been one all the same: its events are in the ledger, and nobody was told
            await self._notifier.nudge()
        self.away, self._failures = "", 0
        return True

    async def _wait_out(self, trouble: SourceError | LedgerUnwritable) -> None:
        self._is_graph_away = isinstance(trouble, SourceError)
        if str(trouble) != self.away:
            name = "graph_away" if self._is_graph_away else "ledger_away"
            self._report.warning(name, reason=str(trouble), hint=trouble.hint, cursor=self.cursor)
        self.away = str(trouble)
        self.progressed_at = self._clock.now()
        backoff = min(FIRST_BACKOFF * 2 ** min(self._failures, 8), LONGEST_BACKOFF)
        self._failures += 1
        await asyncio.sleep(backoff)

    async def _look(self) -> None:
        if self._clock.now() - self._reopened_at >= REOPEN_EVERY:
            self._reopened_at = self._clock.now()
            await self._ask(self._reader.reopen)
        await self._to_the_tip()
        self._checkpoint.save_if_due()

    async def _to_the_tip(self) -> None:
        while True:
            looked_at = self._clock.wall()
            position = self._checkpoint.position or Position(Epoch(0), LogId(0))
            reading = await self._ask(self._reader.next_page, position, self._file, self._seen)
            self.progressed_at = self._clock.now()
            self._note_heals()
            if reading is None:
                return
            if await self._take(reading, position, looked_at):
                self._note_first_tip()
                return

    async def _ask(self, question: Callable[..., Answer], *values: object) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, *values)

    def _looks_out(self, over: threading.Event, pauses: Sequence[float]) -> asyncio.Future[bool]:
        if not self._checkpoint.is_saved:
            # the next look saves it
            pauses = pauses[:1]
        return asyncio.get_running_loop().run_in_executor(self._thread, self._reader.look_out, self._seen, over, pauses)

    # -- pages ---------------------------------------------------------------------------------------------------

    async def _take(self, reading: PageReading, position: Position, looked_at: Instant) -> bool:
        """Store what one page yields and move on; answers whether the tip is reached."""
        self.tip = reading.bounds.highest
        is_other_file = reading.version[:2] != self._file
        if is_other_file:
            self._report.warning("graph_replaced", cursor=self.cursor, reason=reading.cursor_status.value)
        if not reading.cursor_status.is_same_epoch:
            await self._begin_epoch(CursorLoss(reading.cursor_status.value))
            return False
        if is_other_file:
            await self._take_contents()
        if reading.cursor_status is CursorStatus.PRUNED:
            self._warn_of_pruning(position, reading)
        rewritten = await self._rewritten(reading, position)
        context = PageContext(
            position.epoch, self._checkpoint.rows_after, reading.with_audience, reading.typed_later, rewritten
        )
        result = self._matcher.match_page(reading.page.entries, reading.page.broken, context, self._checkpoint.unsaved)
        self._seen = None
        new = self._checkpoint.move(
            position_after(position, reading), result, looked_at if reading.reaches_tip else None
        )
        self._seen = reading.version if reading.reaches_tip else None
        if self._checkpoint.position != position:
            self.late_pages += reading.page.examined > 0 and self.cursor == position.cursor
            self.moved.set()
        await self._notifier.notify(new)
        for identity in result.rerouted:
            self._on_rerouted(identity)
        for identity in result.words:
            self._on_word(identity)
        return reading.reaches_tip

    async def _rewritten(self, reading: PageReading, position: Position) -> frozenset[str]:
        """Of the edges that are older than their rows, those the log had before, or may have had.

        Without its first rows the log alone cannot tell: then only a ledger that saw all that may still wake can.
        """
        old = older_than_their_rows(reading.page.entries, self._checkpoint.rows_after)
        if not old:
            return old
        if reading.bounds.lowest > 1 and not self._checkpoint.knows_since(
            Instant(self._clock.now() - self._rules().catch_up)
        ):
            return old
        return await self._ask(self._reader.logged_before, old, position)

    async def _take_contents(self) -> None:
        """Learn who listens in the file as it is now."""
        self._open(await self._ask(self._reader.contents))

    def _open(self, contents: GraphContents) -> None:
        self._matcher.load(contents)
        self._file = contents.file
        self._report.info("graph_opened", embedded=contents.is_embedded, cursor=self.cursor, epoch=self.epoch)

    def _warn_of_pruning(self, position: Position, reading: PageReading) -> None:
        if self._warned_of_pruning_at != position.cursor:
            self._report.warning(
                "cursor_below_log",
                cursor=position.cursor,
                lowest=reading.bounds.lowest,
                hint="wake-bridge does not see pruned rows",
            )
        self._warned_of_pruning_at = position.cursor

    def _note_heals(self) -> None:
        if self._reader.heals != self.heals:
            self.heals = self._reader.heals
            self._report.warning("reader_healed", heals=self.heals, hint="something in this process opened it by path")

    def _note_first_tip(self) -> None:
        if not self._was_at_tip:
            self._report.info("caught_up", cursor=self.cursor, epoch=self.epoch)
        self._was_at_tip = True

    # -- epochs --------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Open the source, read who listens, and find the place to go on from."""
        known, published = self._checkpoint.restore(), self._checkpoint.published()
        loss = cursor_loss(known, published)
        if loss is not None:
            await self._begin_epoch(loss)
        else:
            await self._take_contents()
            await self._make_up_for_unseen_lives()
        if loss is None and isinstance(published, str):
            self._report.warning("cursor_lost", reason=f"lastSyncId: {published}", hint="the ledger's cursor is used")
        self._seen = None
        self.begun.set()

    async def _make_up_for_unseen_lives(self) -> None:
        """Look back for unread mail where the log was empty: it may have been filled and emptied since, and looks the same."""
        position = self._checkpoint.position
        if position is not None and position.cursor == 0:
            events = await self._look_back(Instant(self._clock.wall() - self._rules().look_back), position.epoch)
            await self._notifier.notify(self._checkpoint.move(position, PageResult(events=events), None))

    async def _begin_epoch(self, loss: CursorLoss) -> None:
        """Begin anew, with a look back for unread mail."""
        looked_at = self._clock.wall()
        beginning = await self._ask(self._reader.beginning)
        self._open(beginning.contents)
        self._seen, self.tip = None, beginning.census.tip
        start = start_after(loss, beginning, self.epoch, looked_at)
        reason = start.loss.reason
        if start.loss.is_loss:
            self._report.warning("cursor_lost", reason=reason, cursor=self.cursor, tip=self.tip)
        events = await self._look_back(Instant(looked_at - self._rules().look_back), start.position.epoch)
        new = self._checkpoint.begin_epoch(start, states_of(beginning.census.tasks), events)
        self.moved.set()
        epoch, cursor = start.position.epoch, start.position.cursor
        self._report.info("epoch_began", epoch=epoch, cursor=cursor, reason=reason, looked_back=len(new))
        await self._notifier.notify(new)

    async def _look_back(self, since: Instant, epoch: Epoch) -> list[WakeEvent]:
        """Events for the mail sent since then, page by page: an hour of it, whole, may not fit into memory."""
        events: dict[tuple[Identity, str], WakeEvent] = {}
        ids = await self._ask(self._reader.recent_mail, since)
        for first in range(0, len(ids), PAGE):
            mail = await self._ask(self._reader.mail, ids[first : first + PAGE])
            for event in self._matcher.match_recent_mail(mail.entries, mail.with_audience, epoch):
                events.setdefault((event.identity, event.subject_key), event)
        return list(events.values())
