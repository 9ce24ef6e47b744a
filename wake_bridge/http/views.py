"""What the page shows: each view is a piece of HTML, made by a template out of records. No text in it is trusted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from wake_bridge.control.last_look import last_look
from wake_bridge.domain.delivery import Delivery, DeliveryState, Step
from wake_bridge.domain.errors import NotFound
from wake_bridge.domain.explanation import DeliveryHistory, TimeFormat, explain_delivery, span
from wake_bridge.domain.names import DAY, MINUTE, Identity, Instant, parse_instant
from wake_bridge.domain.reasons import held_because
from wake_bridge.domain.text import without_controls
from wake_bridge.records import (
    absence_record,
    absence_words,
    activity_record,
    delivery_record,
    journal_record,
    reminder_record,
)
from wake_bridge.storage.ledger import LedgerStore

SHOWN: Final = 60
"""Entries of the feed on one view."""

STEPS: Final[Mapping[Step, str]] = {
    Step.OPENED: "news was gathered",
    Step.JOINED: "more news joined",
    Step.DISPATCHED: "its window closed",
    Step.HELD: "held",
    Step.LOCKED: "the text was frozen",
    Step.RELEASED: "given back: nothing was typed",
    Step.PROBED: "a last look at the agent",
    Step.INTENT_STAGE: "about to put the text in",
    Step.STAGED: "the text is in front of the agent",
    Step.INTENT_SUBMIT: "about to send it",
    Step.SUBMITTED: "sent",
    Step.ACKED: "seen to arrive",
    Step.REFUSED: "refused: nothing was typed",
    Step.ABSENT: "proven not to have arrived",
    Step.SETTLED: "done",
    Step.ESCALATED: "passed to you",
    Step.CALLED: "its agent asked for you",
    Step.STALE: "an answer came too late",
}
"""What each step of a delivery's journal means to a person."""

STATES: Final[Mapping[DeliveryState, str]] = {
    DeliveryState.PENDING: "is being gathered",
    DeliveryState.DISPATCHED: "waits",
    DeliveryState.LOCKED: "is being sent",
    DeliveryState.ESCALATED: "has passed to you",
}
"""What each state of a wake that has no outcome yet is called on the page."""

PRESENCES: Final = {
    "idle": "idle",
    "active": "working",
    "waitingOnApproval": "waits for approval",
    "userTyping": "somebody types",
    "unknown": "not recognised",
}
"""What each presence is called on the page."""

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Asks the daemon as a command does; raises what its handler raises, or `TimeoutError`."""


class Views:
    """Makes the views.

    Args:
        ledger: the ledger, to read.
        ask: the daemon.
        state_dir: where it is noted when a person looked last.
        wall: the wall clock.
    """

    def __init__(
        self, ledger: Callable[[], LedgerStore], ask: Ask, state_dir: Path, wall: Callable[[], Instant]
    ) -> None:
        self._ledger = ledger
        self._ask = ask
        self._state_dir = state_dir
        self._wall = wall
        self._templates = Environment(
            loader=PackageLoader("wake_bridge.http"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            ago=self._ago,
            ahead=self._ahead,
            clock=self._clock,
            day=self._day,
            plain=_plain,
            marked=_marked,
            after=_after,
        )
        self._templates.globals.update(presences=PRESENCES, states=STATES, steps=STEPS)

    def shell(self) -> str:
        """The page without anything in it that would be anybody's business."""
        return self._templates.get_template("shell.html").render()

    async def fleet(self) -> str:
        """All agents, those that need a person first; what happened; reminders, channels and hosts."""
        agents = (await self._ask("overview", {}))["agents"]
        around = await self._ask("around", {})
        ledger = self._ledger()
        reminders = [reminder_record(one) for one in ledger.reminders()]
        return self._made(
            "fleet.html",
            agents=agents,
            around=around,
            reminders=reminders,
            entries=self.entries(),
            absence=absence_words(absence_record(ledger, last_look(self._state_dir)), self._wall()),
            is_all_paused=any(one.identity == "*" for one in ledger.pauses(self._wall())),
        )

    async def agent(self, identity: Identity) -> str:
        """One agent and its timeline. Raises `NotFound`."""
        agents = (await self._ask("overview", {}))["agents"]
        agent = next((one for one in agents if one["agentIdentity"] == identity), None)
        entries = self.entries(identity)
        if agent is None and not entries:
            raise NotFound("no such agent", identity)
        recent = self._ledger().deliveries(state=None, identity=identity, limit=10)
        wakes = [delivery_record(one, ()) | {"heldFor": _held_for(one)} for one in recent]
        return self._made("agent.html", identity=identity, agent=agent, entries=entries, wakes=wakes)

    async def wake(self, delivery_id: str) -> str:
        """One delivery with its journal, step by step. Raises `NotFound`."""
        ledger = self._ledger()
        delivery = ledger.delivery(delivery_id)
        if delivery is None:
            raise NotFound("no such wake", delivery_id)
        journal, events = ledger.journal_of(delivery.id), ledger.events_of(delivery.id)
        story = explain_delivery(
            DeliveryHistory(delivery, journal, events), TimeFormat(self._wall(), self._clock_of), is_running=True
        )
        return self._made(
            "wake.html",
            wake=delivery_record(delivery, events),
            journal=[journal_record(one) for one in journal],
            story=story,
        )

    def entries(self, identity: str = "") -> list[dict[str, Any]]:
        """The latest entries of the feed, newest first."""
        seen_until = last_look(self._state_dir)
        return [activity_record(one, seen_until) for one in self._ledger().latest_activity(SHOWN, identity=identity)]

    def _made(self, template: str, **values: Any) -> str:
        cursor = self._ledger().activity_span()[1]
        return self._templates.get_template(template).render(cursor=cursor, **values)

    def _ago(self, moment: str | None) -> str:
        instant = parse_instant(moment)
        return span(max(0, self._wall() - instant)) if instant else ""

    def _ahead(self, moment: str | None) -> str:
        instant = parse_instant(moment)
        return span(max(0, instant - self._wall())) if instant else ""

    def _clock(self, moment: str | None) -> str:
        instant = parse_instant(moment)
        return self._clock_of(instant) if instant else ""

    def _clock_of(self, instant: Instant) -> str:
        local = datetime.fromtimestamp(instant / 1000).astimezone()
        return f"{local:%H:%M}" if abs(self._wall() - instant) < DAY else f"{local:%b %d %H:%M}"

    def _day(self, moment: str | None) -> str:
        instant = parse_instant(moment)
        return f"{datetime.fromtimestamp(instant / 1000).astimezone():%A, %d %B}" if instant else ""


def _plain(text: object) -> str:
    return without_controls(str(text))


def _marked(text: object) -> Markup:
    """A sentence of ours, in which commands stand between backticks; everything in it is escaped."""
    told = _plain(text)
    # a command is written as it is typed
    parts = escape(told[:1].upper() + told[1:]).split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _held_for(delivery: Delivery) -> str:
    if delivery.hold is None or delivery.state.is_terminal:
        return ""
    return held_because(delivery.hold, delivery.identity)


def _after(moment: str | None, first: str | None) -> str:
    """How long after the first step another one came: `+0.4 s`."""
    at, began = parse_instant(moment), parse_instant(first)
    if at is None or began is None:
        return ""
    passed = max(0, at - began)
    return f"+{passed / 1000:.1f} s" if passed < MINUTE else f"+{span(passed)}"
