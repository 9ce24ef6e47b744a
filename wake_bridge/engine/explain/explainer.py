"""Explains what happened to a message, a task or a log row, by the daemon's own rules; for `why`.

Nothing is changed, and no daemon is needed: the ledger says what was recorded, the graph what there was to see, and the
same pure functions (`domain.facts`, `domain.matching`, `domain.guards`) what they would have said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from wake_bridge.domain.delivery import Hold, Outcome
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.events import EventStatus, Fact, WakeEvent
from wake_bridge.domain.explanation import (
    CORRECT_IT,
    NOTHING,
    DeliveryHistory,
    Explanation,
    TailProgress,
    TimeFormat,
    WhyCase,
    explain,
)
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import (
    EPOCH_START,
    TRIGGER_OF,
    Epoch,
    EventKind,
    Identity,
    Instant,
    LogId,
    Trigger,
    did_you_mean,
)
from wake_bridge.domain.subscription_book import SubscriptionBook
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.deliver.switches import SwitchReader, holds_now
from wake_bridge.engine.explain.subject import Subject, happened_at, read_subject, subscription_answers
from wake_bridge.engine.settings import Current
from wake_bridge.ports.change_log import ChangeLog
from wake_bridge.ports.ledger import Archive

_MOST_DIGITS: Final = 18
"""Of a number that can be a row: SQLite holds no longer one."""

_TOLD: Final = {Outcome.SUBMITTED, Outcome.ACKNOWLEDGED, Outcome.UNKNOWN, Outcome.ESCALATED}


@dataclass(frozen=True, slots=True)
class WhyFinding:
    """What became of one subject for one identity. `holds` would hold its wake now; `histories` all that ever carried it."""

    case: WhyCase
    kind: EventKind | None
    subject_key: str
    explanation: Explanation
    holds: Sequence[Hold] = ()
    histories: Sequence[DeliveryHistory] = ()


@dataclass(frozen=True, slots=True)
class WhyReport:
    """The answer to one `why`: how the question was read, and a finding for everybody concerned, newest subject first.

    `unusable` is what is wrong with the subject in the graph, empty where nothing is.
    """

    asked: str
    read_as: str
    subject: Subject
    log_ids: Sequence[LogId]
    findings: Sequence[WhyFinding]
    notes: Sequence[str] = ()
    unusable: str = ""

    @property
    def silence(self) -> str:
        """Why there is no finding at all, one clause."""
        return self._silent()[0]

    @property
    def remedy(self) -> str:
        """What is to be done where there is no finding at all."""
        return self._silent()[1]

    def _silent(self) -> tuple[str, str]:
        subscription = self.subject.subscription
        if not self.subject.is_there:
            return "the log no longer has it, and nothing is recorded of it", NOTHING
        if self.unusable:
            return f"wake-bridge cannot use it ({self.unusable})", CORRECT_IT
        if subscription is not None and (why := self.subject.book.why_unwoken(subscription)):
            # some reasons name the command that ends them
            mends = (
                "do what it says"
                if "`wake-bridge " in why
                else "`wake-bridge update --help` names the option that corrects it"
            )
            return (
                f"it is a subscription of {subscription.identity or 'nobody'} that wakes nobody: {why}",
                f"{mends}; `wake-bridge unsubscribe {subscription.id}` removes it",
            )
        if subscription is not None:
            about = f"it is a subscription of {subscription.identity}, and nothing that anybody is told of"
            return about, f"`wake-bridge why {subscription.identity}` says whether it is woken"
        if self.subject.message is not None:
            return "it is addressed to nobody", NOTHING
        kind, _, entity = self.subject.row.partition(":") if self.subject.row else ("node", "", self.subject.entity_id)
        return f"{self.subject.traces.label or kind.removesuffix('s')} {entity} wakes nobody", NOTHING


class Explainer:
    """Answers `why` from a graph and a ledger.

    Args:
        rules: the matching rules in force.
        switches: what people have switched off.
        is_running: whether a daemon serves the ledger now.
        times: how times are told.
        unreached: why an identity cannot be reached now; None where it can, or nobody looks.
    """

    def __init__(
        self,
        log: ChangeLog,
        archive: Archive,
        rules: MatchingRules,
        current: Current,
        switches: SwitchReader,
        *,
        is_running: bool,
        times: TimeFormat,
        unreached: Callable[[Identity], Hold | None] = lambda _: None,
    ) -> None:
        self._log = log
        self._archive = archive
        # what was young enough then is too old now, and says nothing about then
        self._rules = rules.ageless
        self._current = current
        self._switches = switches
        self._is_running = is_running
        self._times = times
        self._unreached = unreached

    def explain(self, asked: str, identity: Identity | None) -> WhyReport:
        """What became of it, for one identity or for everybody concerned.

        Raises:
            NotFound: neither graph nor ledger know it, or the identity.
            SourceError: the graph cannot be read, and the ledger alone knows nothing of it.
            LedgerError: the ledger cannot be read.
        """
        log_id = _row_number(asked)
        of_row = self._of_present_epoch(self._archive.find_events(log_id=log_id)) if log_id is not None else []
        subject = read_subject(self._log, asked, log_id, of_row[0] if of_row else None, self._rules)
        facts = subject.facts(self._times.now)
        keys = dict.fromkeys((subject.entity_id, *(fact.subject_key for fact in facts)))
        events = {one.id: one for one in of_row}
        for key in keys:
            events |= {one.id: one for one in self._archive.find_events(subject_key=key)} if key else {}
        known = sorted(events.values(), key=lambda one: (one.epoch, one.log_id, one.id))
        self._require(asked, log_id, subject, known, identity)
        narrowed = _of_that_row(log_id, facts, known)
        who = [identity] if identity else _concerned(subject, *narrowed)
        findings = [finding for one in who for finding in self._findings(one, subject, *narrowed)]
        log_ids = sorted({*(one.log_id for one in subject.traces.entries), *(one.log_id for one in known)} - {LogId(0)})
        read_as, notes = self._reading(asked, log_id, subject, known)
        if identity and not any(finding.case.is_addressed for finding in findings):
            others = _concerned(subject, facts, known)
            notes = [*notes, f"it is for {', '.join(others)}" if others else "it is for nobody that listens"]
        notes = [*notes, *self._set_aside(findings)]
        return WhyReport(asked, read_as, subject, log_ids, findings, notes, subject.why_unusable(self._times.now))

    # -- the question --------------------------------------------------------------------------------------------

    def _of_present_epoch(self, events: Sequence[WakeEvent]) -> list[WakeEvent]:
        """Log ids compare only inside one epoch: the latest that has any is meant."""
        latest = max((one.epoch for one in events), default=Epoch(0))
        return [one for one in events if one.epoch == latest]

    def _require(
        self, asked: str, log_id: LogId | None, subject: Subject, known: Sequence[WakeEvent], identity: Identity | None
    ) -> None:
        if not known and subject.trouble is not None:
            raise subject.trouble
        everybody = {*subject.identities, *self._current.settings.targets}
        if identity and not subject.trouble and identity not in everybody:
            meant = did_you_mean(identity, everybody)
            raise NotFound("no such identity", identity, hint=f"{meant}`wake-bridge agent list` shows them")
        is_a_place = log_id is not None and 0 < log_id <= subject.bounds.highest
        if known or subject.is_there or is_a_place or self._archive.quarantined(log_id, [asked]):
            return
        if log_id is not None:
            raise NotFound(
                "the log has no such row",
                asked,
                hint=f"it reaches from {subject.bounds.lowest} to {subject.bounds.highest}",
            )
        raise NotFound(
            "neither the graph nor the ledger has it",
            asked,
            hint=f"it is a delivery: `wake-bridge deliveries show {asked}`"
            if self._archive.delivery(asked) is not None
            else "give the id of a message or a task, or a number of the log (`wake-bridge inbox`, `deliveries --json`)",
        )

    def _set_aside(self, findings: Sequence[WhyFinding]) -> list[str]:
        """What is said besides of routes that failed, of those for whom something waits."""
        waiting = {
            one.case.identity for one in findings if one.case.event and one.case.event.status is EventStatus.OPEN
        }
        return [
            f"{one.adapter} is set aside for {one.identity} until it answers again: {one.why}"
            for one in self._archive.degraded_routes()
            if one.identity in waiting
        ]

    def _reading(
        self, asked: str, log_id: LogId | None, subject: Subject, known: Sequence[WakeEvent]
    ) -> tuple[str, list[str]]:
        """How the question was read, and what has to be said besides."""
        notes = []
        epochs = {one.epoch for one in known if one.log_id == log_id} if log_id is not None else set()
        if subject.trouble is not None:
            notes.append(f"the graph could not be read; the answer comes from the ledger alone: {subject.trouble}")
        if subject.is_also_named and subject.row:
            notes.append(f"a node is called {asked} too; this answer is about the log row of that number")
        if len(epochs) > 1:
            notes.append(
                f"epochs {', '.join(map(str, sorted(epochs)))} had such a row; this answer is about the last one"
            )
        rows = {one.log_id for one in subject.traces.entries}
        gone = sorted({one.log_id for one in known if one.log_id > 0} - rows) if subject.trouble is None else []
        if gone:
            numbers = ", ".join(map(str, gone))
            notes.append(f"the log no longer has row {numbers}; the ledger kept what happened to it")
        if log_id is None or (not subject.row and subject.is_also_named):
            return f"the id {subject.entity_id}", notes
        return f"row {log_id} of the log" + (f" (epoch {max(epochs)})" if epochs else ""), notes

    # -- one identity --------------------------------------------------------------------------------------------

    def _findings(
        self, identity: Identity, subject: Subject, facts: Sequence[Fact], events: Sequence[WakeEvent]
    ) -> list[WhyFinding]:
        """One for each subject that concerns the identity, newest first; if none does, one that says so."""
        mine = [fact for fact in facts if _concerns(fact, identity, subject.book)]
        latest = {one.subject_key: one for one in events if one.identity == identity}
        keys = dict.fromkeys((*latest, *(fact.subject_key for fact in mine)))
        by_key = {key: [fact for fact in mine if fact.subject_key == key] for key in keys}
        found = [self._finding(identity, subject, key, by_key[key], latest.get(key)) for key in keys]
        if not found:
            found = [self._finding(identity, subject, subject.entity_id, [], None)]
        return sorted(found, key=lambda one: one.case.row, reverse=True)

    def _finding(
        self, identity: Identity, subject: Subject, key: str, facts: Sequence[Fact], event: WakeEvent | None
    ) -> WhyFinding:
        fact = facts[0] if facts else None
        kind = event.kind if event else fact.kind if fact else None
        histories = [self._history(one.id) for one in self._archive.deliveries_with(event.id)] if event else []
        rows = [one.log_id for one in facts if one.log_id] + ([event.log_id] if event and event.log_id > 0 else [])
        row = min(rows, default=LogId(0))
        happened = happened_at(fact, event)
        position, start = self._archive.position(), self._archive.epoch_start()
        broken = self._archive.quarantined(
            row or None, [subject.entity_id, *(one.entity_id for one in subject.traces.broken)]
        )
        case = WhyCase(
            identity=identity,
            wanted=TRIGGER_OF.get(kind, Trigger.SENT_TO_ME) if kind else Trigger.SENT_TO_ME,
            event=event,
            history=_telling(event, histories),
            answers=subscription_answers(identity, subject.book, fact, event, happened, self._rules),
            progress=_progress(
                row, happened, position.cursor if position else None, start.at if start else EPOCH_START
            ),
            is_addressed=bool(fact or event),
            is_shown=bool(key) and bool(self._archive.announced(identity, [key])),
            is_running=self._is_running,
            row=row,
            behind=max(0, subject.bounds.highest - position.cursor) if position else 0,
            unreadable=broken[-1].why if broken else "" if facts else subject.why_unusable(self._times.now),
            epoch_reason=start.reason if start else "",
        )
        is_open = event.status is EventStatus.OPEN if event is not None else case.is_ahead
        holds = self._holds(identity, subject, [event] if event else [], case.history) if is_open else ()
        case = replace(case, holds=holds)
        return WhyFinding(case, kind, key, explain(case, self._times), holds, histories)

    def _history(self, delivery_id: str) -> DeliveryHistory:
        delivery = self._archive.delivery(delivery_id)
        assert delivery is not None  # noqa: S101 - the ledger has just named it
        return DeliveryHistory(delivery, self._archive.journal_of(delivery_id), self._archive.events_of(delivery_id))

    def _holds(
        self, identity: Identity, subject: Subject, told: Sequence[WakeEvent], history: DeliveryHistory | None
    ) -> list[Hold]:
        """All that would keep it from being announced now, except what only a look into the pane tells."""
        row = subject.identities.get(identity)
        # one that was tried says itself whether its agent was found
        lost = self._unreached(identity) if history is None or history.delivery.hold is None else None
        guards = holds_now(
            self._archive,
            self._switches,
            self._current.settings.limits,
            identity,
            self._times.now,
            events=self._archive.events_of(history.delivery.id) if history else told,
            participation=row.participation if row else "active",
            delivery=history.delivery if history else None,
        )
        return [*guards, lost] if lost is not None else guards


def _telling(event: WakeEvent | None, histories: Sequence[DeliveryHistory]) -> DeliveryHistory | None:
    """The delivery that tells how the event stands: the newest that carries it, or that announced it."""
    if event is None or not histories:
        return None
    if event.status is EventStatus.OPEN:
        newest = histories[-1]
        has_let_go = newest.delivery.outcome in {Outcome.READ, Outcome.EMPTY}
        return None if has_let_go else newest
    return next((one for one in reversed(histories) if one.delivery.outcome in _TOLD), None)


def _row_number(asked: str) -> LogId | None:
    """The row of the log that a number means; None where it is no number, or one that no log can hold."""
    return LogId(int(asked)) if asked.isdecimal() and len(asked) <= _MOST_DIGITS else None


def _progress(row: LogId, happened: Instant, cursor: LogId | None, epoch_began: Instant) -> TailProgress:
    if cursor is None:
        return TailProgress.NEVER
    if row > cursor:
        return TailProgress.AHEAD
    return TailProgress.BEFORE if 0 < happened < epoch_began else TailProgress.PASSED


def _of_that_row(
    log_id: LogId | None, facts: Sequence[Fact], events: Sequence[WakeEvent]
) -> tuple[Sequence[Fact], Sequence[WakeEvent]]:
    """What a row tells: its own subjects, if it has any; every subject of its node if not."""
    keys = {one.subject_key for one in facts if one.log_id == log_id}
    keys |= {one.subject_key for one in events if one.log_id == log_id}
    if log_id is None or not keys:
        return facts, events
    return [one for one in facts if one.subject_key in keys], [one for one in events if one.subject_key in keys]


def _concerns(fact: Fact, identity: Identity, book: SubscriptionBook) -> bool:
    if fact.recipients is not None:
        return identity in fact.recipients
    return identity in book.identities_for(fact.trigger)


def _concerned(subject: Subject, facts: Iterable[Fact], events: Iterable[WakeEvent]) -> list[Identity]:
    """Everybody who was, or would have had to be, told."""
    listening = (
        subject.book.identities_for(fact.trigger) if fact.recipients is None else fact.recipients for fact in facts
    )
    return list(dict.fromkeys([*(one.identity for one in events), *(who for they in listening for who in they)]))
