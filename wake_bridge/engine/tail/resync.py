"""Reads old rows of the log again for one subscription, with its filters as they are now."""

from __future__ import annotations

from collections.abc import Iterator

from wake_bridge.domain.errors import NotFound, UsageMistake
from wake_bridge.domain.events import EventStatus, WakeEvent
from wake_bridge.domain.facts import Past, facts_of
from wake_bridge.domain.matching import MatchContext, MatchingRules, match, read_subscription
from wake_bridge.domain.messages import Unusable
from wake_bridge.domain.names import Epoch, Instant, LogId
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.tail.log_reader import audiences_of, pages_after
from wake_bridge.ports.change_log import ChangeLog, Page
from wake_bridge.ports.ledger_records import NewId


@dataclass(frozen=True, slots=True)
class ResyncResult:
    """What a second reading found; `first_available` is set when rows after `since` are no longer in the log."""

    subscription_id: str
    events: tuple[WakeEvent, ...]
    last_log_id: LogId
    first_available: LogId | None


def resync(
    log: ChangeLog,
    subscription_id: str,
    since: LogId,
    *,
    rules: MatchingRules,
    epoch: Epoch,
    now: Instant,
    wall: Instant,
    new_id: NewId,
) -> ResyncResult:
    """Find what the rows after `since` would wake for now; the events are for `Ledger.replay`.

    Age is no reason to refuse what is asked for by name; everything else is, as always. A task's moves are found where
    the log has typed rows: what a task was before cannot be derived a second time.

    Raises:
        UsageMistake: the log ends before `since`.
        NotFound: there is no such subscription.
        SourceError: the graph cannot be read.
    """
    bounds = log.bounds()
    if since > bounds.highest:
        raise UsageMistake(
            f"the log ends at {bounds.highest}", f"--since {since}", hint="`wake-bridge status` shows where it ends"
        )
    properties = log.subscription(subscription_id)
    if properties is None:
        raise NotFound("there is no such subscription", subscription_id, hint="`wake-bridge list` shows them")
    book = SubscriptionBook(embedded=log.is_embedded(), serve=rules.serve)
    book.put(read_subscription(subscription_id, properties, rules.ageless))
    humans = frozenset(row.id for row in log.identities().values() if row.account_type == "human")
    moment = MatchContext(epoch, now, wall, new_id, rules.ageless, humans)
    lowest = bounds.lowest
    events: dict[str, WakeEvent] = {}
    last = since
    for page in pages_after(log, since):
        last = page.upto
        for event in _events_of(page, audiences_of(log, page.entries), book, moment):
            events.setdefault(event.subject_key, event)
    return ResyncResult(subscription_id, tuple(events.values()), last, lowest if lowest > since + 1 else None)


def _events_of(
    page: Page, with_audience: frozenset[str], book: SubscriptionBook, moment: MatchContext
) -> Iterator[WakeEvent]:
    """The open events of a page."""
    for entry in page.entries:
        has_audience = entry.edge is not None and entry.edge.source in with_audience
        facts = facts_of(entry, Past(seen_at=moment.now, has_audience=has_audience))
        for fact in () if isinstance(facts, Unusable) else facts:
            yield from (event for event in match(fact, book, moment) if event.status is EventStatus.OPEN)
