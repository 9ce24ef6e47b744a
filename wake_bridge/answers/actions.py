"""What the daemon does when a command or the page asks: looks now, reloads the configuration, pauses, retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from wake_bridge.control.server import Answer, Handler
from wake_bridge.domain.delivery import DeliveryState
from wake_bridge.domain.errors import ConfigurationInvalid, LedgerError, NotFound, UsageMistake
from wake_bridge.domain.explanation import span
from wake_bridge.domain.names import DAY, SECOND, Identity, Instant, is_identity
from wake_bridge.system.ulids import new_ulid
from wake_bridge.wiring import Parts, lives_here

LONGEST_PAUSE: Final = 30 * DAY // SECOND
"""Seconds."""

EVERYBODY: Final = "*"


class Actions:
    """Acts on the daemon's parts.

    Args:
        parts: the running daemon.
        reload: takes the configuration over again; answers what was wrong with it.
    """

    def __init__(self, parts: Parts, reload: Callable[[], Awaitable[ConfigurationInvalid | None]]) -> None:
        self._parts = parts
        self._reload_configuration = reload

    def handlers(self) -> Mapping[str, Handler]:
        """One for each command."""
        return {"poke": self._poke, "reload": self._reload}

    def of_page(self) -> Mapping[str, Handler]:
        """What the page may do besides: for a person alone, so it is no command of the control socket."""
        return {"act": self._act}

    async def _poke(self, request: Mapping[str, Any]) -> Answer:
        if moved := request.get("moved"):
            self._parts.watch.has_moved(Identity(str(moved)))
        self._parts.tail.poke()
        self._parts.links.poke()
        self._parts.deliverer.look_at(None)
        if not self._parts.is_dry_run:
            # a ledger that cannot be written is told of by the chores
            with suppress(LedgerError):
                self._parts.notices.outbox.tick(self._parts.clock.now())
        return {"ok": True}

    async def _act(self, request: Mapping[str, Any]) -> Answer:
        """What a button of the page does, each as the command of that name; answers what was done, one clause."""
        acts = {"pause": self._pause, "resume": self._resume, "ack": self._ack, "retry": self._retry}
        act = acts.get(str(request.get("act")))
        if act is None:
            raise UsageMistake("no such act", hint=f"one of {', '.join(acts)}")
        told = act(request)
        self._parts.tail.poke()
        self._parts.deliverer.look_at(None)
        return {"said": told}

    def _pause(self, request: Mapping[str, Any]) -> str:
        who, now, seconds = self._whom(request), self._parts.clock.now(), request.get("seconds")
        # `True` is an int as well
        if seconds is not None and not (type(seconds) is int and 0 < seconds <= LONGEST_PAUSE):
            raise UsageMistake("no such length of a pause", hint=f"seconds: 1 to {LONGEST_PAUSE}")
        until = None if seconds is None else Instant(now + seconds * SECOND)
        self._parts.ledger.pause(who, until, now)
        return f"{_named(who)} is paused" + (f" for {span(seconds * SECOND)}" if seconds else "")

    def _whom(self, request: Mapping[str, Any]) -> str:
        who = request.get("identity")
        if who == EVERYBODY:
            return EVERYBODY
        if not isinstance(who, str) or not is_identity(who):
            raise UsageMistake("no identity is named", hint="identity: such as @api, or * for all")
        parts = self._parts
        if not lives_here(Identity(who), parts.settings, parts.current, parts.ledger, parts.tail):
            raise NotFound("there is no such identity here", who, hint="`wake-bridge agent list` has them all")
        return who

    def _resume(self, request: Mapping[str, Any]) -> str:
        who = self._whom(request)
        self._parts.ledger.resume(who, self._parts.clock.now())
        return f"{_named(who)} is resumed"

    def _ack(self, request: Mapping[str, Any]) -> str:
        before = self._parts.ledger.delivery(_delivery(request))
        if before is None:
            raise NotFound("no such delivery", _delivery(request))
        self._parts.ledger.answer(before.id, None, "ack", self._parts.clock.now())
        is_unsent = before.state in {DeliveryState.PENDING, DeliveryState.DISPATCHED}
        return f"acknowledged: {before.identity} is not woken for it" if is_unsent else "acknowledged"

    def _retry(self, request: Mapping[str, Any]) -> str:
        looked = request.get("looked") is True
        again = self._parts.ledger.retry(_delivery(request), new_ulid, self._parts.clock.now(), looked=looked)
        return f"{again.identity} is told again, when that is safe"

    async def _reload(self, _: Mapping[str, Any]) -> Answer:
        refused = await self._reload_configuration()
        if refused is not None:
            raise refused
        return {"ok": True}


def _named(who: str) -> str:
    return "every identity" if who == EVERYBODY else who


def _delivery(request: Mapping[str, Any]) -> str:
    delivery = request.get("delivery")
    if not isinstance(delivery, str) or not delivery:
        raise UsageMistake("no delivery is named", hint="delivery: its id")
    return delivery
