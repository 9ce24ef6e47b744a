"""One shape for agents that are woken past their screen, through a channel of their own program: found by the pane, sent once.

Who the program is, its pane says; which conversation it shows and how that stands, each harness in its own way. Before a
wake goes out both are asked again; afterwards it is only looked for.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Protocol

from wake_bridge.domain.causes import HoldReason
from wake_bridge.domain.delivery import Progress
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Binding
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    HarnessAdapter,
    Journal,
    Nowhere,
    Place,
    Refused,
    Trace,
    Wake,
)
from wake_bridge_adapters.own_screen import OwnScreen, ScreenOf, find_screen
from wake_bridge_adapters.recorded import (
    AnswerLost,
    Declined,
    NotThere,
    Program,
    RecordedAttempt,
    RecordedConversation,
    fence_of,
    program_in,
    trace,
)

_OTHER: Final = "its program now shows another conversation"


@dataclass(frozen=True, slots=True)
class HowItStands:
    """How a conversation stands: the evidence that decides, what changes with it, and the running turn where one is known."""

    evidence: Evidence
    fingerprint: str
    turn_id: str = ""


class ShownConversation(Protocol):
    """The conversation that the program on an identity's screen shows."""

    @property
    def program(self) -> Program:
        """The program."""

    @property
    def id(self) -> str:
        """The conversation, as its harness calls it."""

    @property
    def screen(self) -> OwnScreen:
        """The screen."""

    async def stands(self) -> HowItStands:
        """How it stands now, with what the screen says against beginning a turn. Raises `AnswerLost`, `Declined`."""


class NativeChannel(ABC):
    """What adapters of such harnesses have in common; each says how it finds, looks and sends.

    Attributes:
        harness: what the harness is called, also in keys and fences.
        called: how a person is told of one of its conversations, before its id.
        source: who says how it stands.
        is_proof: whether what is said of it needs no second look.
        may_add: whether the running turn may be added to, with authority.
        unanswered: whether of a wake that an earlier attempt sent nobody knows if the request was answered.
    """

    harness: ClassVar[str]
    called: ClassVar[str]
    source: ClassVar[PresenceSource]
    is_proof: ClassVar[bool] = True
    may_add: ClassVar[bool] = False
    unanswered: ClassVar[bool] = False

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._screen_of: ScreenOf = lambda _: None
        self._screens: dict[str, OwnScreen] = {}
        self._searched_since: dict[str, int] = {}

    @abstractmethod
    async def find(self, address: Address) -> ShownConversation | Nowhere:
        """What the identity's program shows now. Raises `NotThere`, `AnswerLost`, `Declined`."""

    @abstractmethod
    def conversation(self, fence: Binding, address: Address) -> RecordedConversation:
        """The conversation that a fence of ours names."""

    async def sign_of(self, place: Place, program: Program) -> str:
        """What changes when the conversation may stand otherwise, beside its screen; empty where it is gone."""
        del place, program
        return "-"

    def see_through(self, screen_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """See `ScreenServed.see_through`."""
        self._screen_of = screen_of

    async def own_screen(self, address: Address, harness_called: str) -> OwnScreen:
        """The identity's screen with a program on it. Raises `NotThere`, also for an identity of another harness."""
        if {address.harness, address.expected.agent} - {"", self.harness}:
            raise NotThere(f"{address.identity} is no {harness_called}")
        screen = await find_screen(self._screen_of, address)
        if screen is None or not screen.agent_pid:
            raise NotThere(f"no screen is known on which its {harness_called} is")
        return screen

    async def resolve(self, address: Address) -> Place | Nowhere:
        """See `HarnessAdapter.resolve`."""
        try:
            found = await self.find(address)
        except (NotThere, AnswerLost, Declined) as gone:
            return Nowhere(HoldReason.UNREACHABLE, str(gone))
        if isinstance(found, Nowhere):
            return found
        place = self._place_of(found)
        if place.key not in self._screens:
            # a screen shows one conversation at a time
            shown = found.screen.place.key
            self._screens = {key: one for key, one in self._screens.items() if one.place.key != shown}
        self._screens[place.key] = found.screen
        return place

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """See `HarnessAdapter.survey`: side by side, for one that hangs must keep no other waiting."""
        signs = await asyncio.gather(*(self._surveyed(place) for place in places))
        return {place.key: sign for place, sign in zip(places, signs, strict=True) if sign}

    async def observe(self, place: Place, address: Address) -> Observation:
        """See `HarnessAdapter.observe`."""
        try:
            found = await self.find(address)
            if isinstance(found, Nowhere):
                self._screens.pop(place.key, None)
                return self._observation(place, self._unseen(found.detail, found.reason))
            if self._place_of(found).key != place.key:
                self._screens.pop(place.key, None)
                return self._observation(place, self._unseen(_OTHER))
            standing = await found.stands()
        except NotThere as gone:
            self._screens.pop(place.key, None)
            return self._observation(place, self._unseen(str(gone)))
        except (AnswerLost, Declined) as lost:
            return self._observation(place, self._unseen(str(lost)))
        return self._observation(place, standing.evidence, standing.fingerprint, standing.turn_id or None)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """See `HarnessAdapter.deliver`."""
        if wake.progress in {Progress.MAYBE_SUBMITTED, Progress.SUBMITTED}:
            fence = self._fence_for(place, wake)
            if fence is None:
                return Refused(HoldReason.UNREACHABLE, "where it may have been sent is not known", place.label)
            attempt = self._attempt(fence, address, wake, journal)
            return await attempt.look_for(program_in(fence, self.harness), is_unanswered=self.unanswered)
        try:
            found = await self.find(address)
            if isinstance(found, Nowhere):
                return Refused(found.reason, found.detail, place.label, found.cause)
            if self._place_of(found).key != place.key or place.fence is None:
                return Refused(HoldReason.UNREACHABLE, _OTHER, place.label)
            said = (await found.stands()).evidence
        except (NotThere, AnswerLost, Declined) as gone:
            return Refused(HoldReason.UNREACHABLE, str(gone), place.label)
        adds = self.may_add and bool(wake.turn_id) and said.vote is PresenceState.ACTIVE
        if said.vote is not PresenceState.IDLE and not adds:
            return Refused(said.reason, said.told, place.label, said.why)
        return await self._attempt(place.fence, address, wake, journal).send(found.program, self.harness)

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """See `Tracer.trace`."""
        fence = self._fence_for(place, wake)
        if fence is None:
            raise AssertionError("a place of ours has a fence of ours")
        return await trace(self.conversation(fence, address), wake.mark, program_in(fence, self.harness))

    def label_of(self, conversation: str) -> str:
        """What a person is told of it."""
        return f"{self.called} {conversation}"

    def _fence_for(self, place: Place, wake: Wake) -> Binding | None:
        return next((one for one in (wake.fence, place.fence) if program_in(one, self.harness) is not None), None)

    async def _surveyed(self, place: Place) -> str:
        program, screen = program_in(place.fence, self.harness), self._screens.get(place.key)
        if program is None or screen is None:
            return ""
        sign = await self.sign_of(place, program)
        pulse = (await screen.adapter.survey([screen.place])).get(screen.place.key)
        if sign and pulse is not None:
            return f"{sign} {pulse}"
        if self._screens.get(place.key) is screen:
            # until it is found again
            del self._screens[place.key]
        return ""

    def _attempt(self, fence: Binding, address: Address, wake: Wake, journal: Journal) -> RecordedAttempt:
        conversation = self.conversation(fence, address)
        return RecordedAttempt(conversation, wake, journal, self._context.clock, self._searched_since)

    def _place_of(self, found: ShownConversation) -> Place:
        key = f"{self.harness}:{found.program.pid}:{found.program.started}:{found.id}"
        return Place(key, self.label_of(found.id), fence_of(self.harness, found.id, found.program))

    def _unseen(self, why: str, hold: HoldReason = HoldReason.UNREACHABLE) -> Evidence:
        return Evidence("no-answer", PresenceState.UNKNOWN, why, "door", source=self.source, hold=hold)

    def _observation(
        self, place: Place, evidence: Evidence, fingerprint: str = "", turn_id: str | None = None
    ) -> Observation:
        return Observation(
            at=self._context.clock.now(),
            evidence=(evidence,),
            fingerprint=fingerprint,
            where=place.label,
            capabilities=(self.harness,),
            is_proof=self.is_proof,
            active_turn_id=turn_id,
        )
