"""Takes items in: what a source outside tells becomes an event in the ledger, like a row of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

from wake_bridge.domain.channels import NONE_YET, Send, beside, by_default, chosen, near_message, text_message
from wake_bridge.domain.escalation import Way, axes_of, way_of
from wake_bridge.domain.events import ItemDetail, WakeEvent
from wake_bridge.domain.items import ME, ItemDraft, about_storm, event_of
from wake_bridge.domain.names import SECOND, Epoch, Identity, Instant
from wake_bridge.domain.signed_wakes import NotHere
from wake_bridge.domain.text import harmless
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.items import StormRule, TakenItem
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import NewId

_TOLD: Final = 500
"""Characters of an item that a message to the person has."""


def _log() -> Any:
    import structlog  # noqa: PLC0415 - `notify` has nothing to log, and should be quick

    return structlog.get_logger("tail")


@dataclass(frozen=True, slots=True)
class Intake:
    """Takes items in.

    Contract: what `take` answers is on disk. Windows, guards, the digest and the journal are those of every wake; here only key
    and source have their say.
    """

    ledger: Ledger
    new_id: NewId
    log: Any = field(default_factory=_log)

    def take(self, draft: ItemDraft, settings: EngineSettings, now: Instant) -> TakenItem:
        """Take an item in.

        Args:
            draft: what its sender says.
            settings: those in force: sources, limits and channels.
            now: the present moment.

        Raises:
            Contradiction: it says nothing, or two things.
            NotFound: it names a channel that there is not.
            LedgerError: it could not be written down.
        """
        position = self.ledger.position()
        event = event_of(
            draft,
            settings.sources.of(draft.source),
            self.new_id(),
            position.epoch if position is not None else Epoch(0),
            now,
        )
        limits = settings.limits
        notice = about_storm(event, limits.storm, limits.storm_period * SECOND, now)
        storm = StormRule(
            limits.storm, limits.storm_period * SECOND, notice, [near_message(notice, settings.channels, now)]
        )
        taken = self.ledger.take_item(event, now, storm=storm, sends=self._messages(event, settings, now))
        self.log.info(
            "item_taken_in",
            source=draft.source,
            agent=event.identity,
            event_id=taken.event.id,
            was=taken.was.value,
            storm=taken.is_storm or None,
        )
        return taken

    def _messages(self, event: WakeEvent, settings: EngineSettings, now: Instant) -> list[Send]:
        """What tells the person of an item that is for them."""
        item = event.detail
        if not isinstance(item, ItemDetail):
            return []
        session = self.ledger.session(item.session_id) if item.session_id else None
        way = way_of(axes_of(event), has_session=session is not None)
        if way is Way.AGENT:
            return []
        channel = chosen(settings.channels, item.channel_id) if item.channel_id else by_default(settings.channels)
        about = f" about {item.about}" if item.about else ""
        said = f"[{item.source}{about}] {harmless(item.text, _TOLD)}"
        send = text_message(said, channel.name if channel else NONE_YET, item.by, event.id, now)
        return [beside(send, session) if way is Way.CONVERSATION and session is not None else send]


class ItemEntrance:
    """Takes in what comes by HTTP.

    Args:
        intake: takes each in.
        current: the settings in force.
        epoch: the present life of the source; 0 before anybody knows who lives here.
        lives_here: whether an identity can have a place on this host.
        poke: there may be something to gather, or to send.
    """

    def __init__(
        self,
        intake: Intake,
        current: Current,
        clock: Clock,
        *,
        epoch: Callable[[], Epoch],
        lives_here: Callable[[Identity], bool],
        poke: Callable[[], None],
    ) -> None:
        self._intake = intake
        self._current = current
        self._clock = clock
        self._epoch = epoch
        self._lives_here = lives_here
        self._poke = poke

    async def take(self, drafts: Sequence[ItemDraft]) -> Sequence[TakenItem]:
        """Take items in; errors as `Intake.take` raises them.

        Raises:
            NotHere: the identity does not live here.
        """
        if not self._epoch():
            raise NotHere(is_starting=True)
        if not all(one.recipient == ME or self._lives_here(one.recipient) for one in drafts):
            raise NotHere
        taken = [self._intake.take(one, self._current.settings, self._clock.now()) for one in drafts]
        if any(one.was.is_kept for one in taken):
            self._poke()
        return taken
