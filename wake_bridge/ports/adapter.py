"""The port of every adapter: tmux, osascript, a native channel, a third party's.

Contract: an adapter never decides. `observe` says what is seen; `deliver` does one attempt that is safe at every key
and says what came of it. Outcomes are values; an exception means the adapter broke its promise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Hold, Progress, Proof, Step
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import Observation
from wake_bridge.domain.receivers import Receiver, ReceiverAnswer
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.clock import Clock
from wake_bridge.ports.sessions import PushChannel, Sessions

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """How much text the target takes well: a digest longer than this would arrive mangled or wrapped.

    `at_reads_files` says that the target takes `@name` for a file and reads it into the turn: there no name has an `@`.
    `takes_envelopes`: it is a program, and `Wake.text` is the JSON of `wake_bridge/schemas/envelope.schema.json`.
    """

    max_lines: int = 10
    max_characters: int = 1024
    at_reads_files: bool = False
    takes_envelopes: bool = False


Paper = TargetLimits  # its name until 0.2, for adapters of third parties


@dataclass(frozen=True, slots=True)
class Place:
    """Exactly one place an address resolved to.

    `key` names the pane for locks and limits (socket, server pid, pane id); `label` is what a person reads; `fence` is
    kept in the ledger so that a later attempt can tell whether it is still the same place; `paper` is how much text it
    takes. What is `only_seen` can say how the agent stands, and not wake it: a route below must do that.
    """

    key: str
    label: str
    fence: Binding | None = None
    paper: TargetLimits = field(default_factory=TargetLimits)
    only_seen: bool = False


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The address resolves to no place, or to several. `cause` is the exact one of the reason's, where it is known."""

    reason: HoldReason
    detail: str
    where: str = ""
    cause: Cause = Cause.OTHER

    @property
    def hold(self) -> Hold:
        """The hold of a wake that has no other place to go."""
        return Hold(self.reason, self.detail, self.where, cause=self.cause)


@dataclass(frozen=True, slots=True)
class Wake:
    """One frozen digest to be put in front of one agent.

    `mark` is the delivery's ULID and stands in `text`. `progress` is what earlier attempts may already have done and
    `fence` where they did it: a fresh attempt has `UNTOUCHED` and None. `staged_ago` are the milliseconds since one of
    them last set out to paste the text; None where none did, or nobody knows. `turn_id` is the running turn that the text
    is to be added to, empty where it begins one. Only with `may_start_thread` may a turn be begun in a conversation that
    no program has open. Without `may_begin` none may be begun at all: people have switched waking off since it was sent.
    """

    delivery_id: str
    text: str
    mark: str
    progress: Progress = Progress.UNTOUCHED
    fence: Binding | None = None
    staged_ago: int | None = None
    turn_id: str = ""
    may_start_thread: bool = False
    may_begin: bool = True


@dataclass(frozen=True, slots=True)
class SendBy:
    """Until when what an intent announced may be sent: later another host may have taken over.

    `until` follows `AdapterContext.clock`, which counts on while the machine sleeps. `seconds` are the first and the last whole
    second of the wall clock that lie before it, for who can only ask that.
    """

    until: Instant
    seconds: tuple[int, int]

    @classmethod
    def within(cls, seconds: int, clock: Clock) -> SendBy:
        """So many seconds from now."""
        now = clock.wall() // 1000
        return cls(Instant(clock.now() + seconds * 1000), (now, now + seconds - 1))

    def is_over(self, clock: Clock) -> bool:
        """Whether it is too late."""
        return clock.now() >= self.until


class Journal(Protocol):
    """Where an attempt writes down each step.

    Contract: returns only after the step is on disk. If it raises, no further key may be sent.
    """

    async def __call__(self, step: Step, evidence: Mapping[str, str]) -> SendBy | None:
        """Append `step` with what was seen; of an `intent_submit` the answer may say until when that may be sent."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The digest left the composer and was seen to."""

    proof: Proof
    evidence: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing more was typed; the moment was not safe. Whether text is staged, the journal tells.

    `cause` is the exact one of the reason's, where it is known: it decides what a person is advised.
    """

    reason: HoldReason
    detail: str
    where: str = ""
    cause: Cause = Cause.OTHER


@dataclass(frozen=True, slots=True)
class Failed:
    """The surface itself failed before anything can have been typed; counted against `max_attempts`."""

    retryable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may or may not have been submitted, and no look can tell. This very wake is never typed again."""

    evidence: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A receiver did not take the wake; for routes that are `per_subscription` and `idempotent`.

    The very same text is sent again by the schedule of docs/webhook.md. Whether it may have arrived all the same, the
    journal tells. `wish` are the milliseconds that the receiver asked us to wait, None where it did not.
    """

    answer: ReceiverAnswer
    reason: str
    wish: int | None = None


Check = tuple[str, bool | None, str, str]
"""For `doctor`: name, whether it is well (None: does not apply, cannot be told, or only a warning), detail, hint."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one look says of a wake whose outcome is unknown.

    `proof` is how far it is seen to have got, `NONE` where it is nowhere to be seen; `told` says in one clause what was
    seen, or why not more. `is_absent`: the agent rests, all that it could stand in was read, and it is not there; so too
    where the program that it was sent to has ended, and nothing of it is left.
    """

    proof: Proof
    told: str
    is_absent: bool = False


AttemptOutcome = Delivered | Refused | Failed | Unknown | NotTaken


class ConfigElsewhere:
    """A class attribute that imports a model when it is read; `config_from` makes it.

    Args:
        where: `package.module:Class`.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def __get__(self, instance: object, owner: type | None = None) -> type[BaseModel]:
        module, _, name = self._where.partition(":")
        found: type[BaseModel] = getattr(import_module(module), name)
        return found


def config_from(where: str) -> type[BaseModel]:
    """An adapter's `Config` that is imported only when it is read, so that a daemon need not hold pydantic for it.

    The daemon has tables checked in another process. It may give an adapter that declares its `Config` so an object that has the
    attributes and values of the model and is no instance of it. An adapter whose `Config` is a class gets an instance of that class.

    Args:
        where: `package.module:Class`. The adapter's own module must not import pydantic either.
    """
    return cast("type[BaseModel]", ConfigElsewhere(where))


class HarnessAdapter(Protocol):
    """One surface on which agents can be seen and woken.

    Contract: every external call is bounded by `adapter_timeout`; `survey` is cheap enough to be called every two
    seconds; `observe` sends nothing; `deliver` sends nothing but the digest and its submit key, each only under its own
    condition, and `await`s the journal before either. What may have been sent is never sent again because it was not seen:
    the program may only be late. Any method may be called concurrently for different places.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    Config: ClassVar[type[BaseModel]]

    def __init__(self, config: Any, context: AdapterContext) -> None:
        """Made once, from the adapter's own checked table (an instance of `Config`; see `config_from` for another way); opens nothing yet."""

    async def resolve(self, address: Address) -> Place | Nowhere:
        """Find the one place the address means, now."""

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """A cheap sign of life for each place, by its key; changes whenever a new look could show something new.

        A place that is gone has no entry.
        """

    async def observe(self, place: Place, address: Address) -> Observation:
        """One look: evidence, never a verdict."""

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt to submit `wake.text`, going on from `wake.progress`."""

    async def probe(self) -> Sequence[Check]:
        """Checks for `doctor`."""


@runtime_checkable
class PaneBinder(Protocol):
    """What an adapter offers besides, if identities can be tied to its places by hand (`bind`)."""

    async def binding_for(self, pane: str | None, environment: Mapping[str, str]) -> Place:
        """The named place, or the one this process runs in. Raises `NotFound`."""

    async def mark_identity(self, place: Place, identity: Identity) -> None:
        """Let the place say whose it is. Raises `OperationFailed`."""

    async def unmark_identity(self, identity: Identity, binding: Binding | None) -> Sequence[str]:
        """Let no place say any more that it is the identity's, here and where `binding` was; answers those that did.

        Raises `OperationFailed`.
        """


@dataclass(frozen=True, slots=True)
class Sight:
    """One place that an adapter sees, whoever lives there.

    `name` is what a configured target would say to mean exactly this place, empty where nothing exact can be said, and
    `socket` what it would say besides; `doubts` are the reasons why the name may come to mean another place, and `lasting`
    the commands after which the place has a name that lasts. `harness` is empty where no known agent is, and `who` says
    who is there instead, `cause` what that means for a wake.
    """

    place: Place
    server: str
    pane_id: str
    name: str
    socket: str
    doubts: tuple[str, ...]
    harness: str
    version: str
    who: str
    directory: Path
    identities: tuple[str, ...]
    lasting: tuple[str, ...] = ()
    cause: Cause = Cause.OTHER


@dataclass(frozen=True, slots=True)
class Sights:
    """All that was seen, and what could not be asked: server and reason."""

    seen: Sequence[Sight]
    silent: Sequence[tuple[str, str]] = ()


@runtime_checkable
class PaneLister(Protocol):
    """What an adapter offers besides, if it can say which agents there are (`panes`, `setup`)."""

    async def list_panes(self) -> Sights:
        """Every place of the user's own, on all servers that answer; types nothing and runs no harness."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A name by which a place was found: why it may come to mean another one, the commands that help, the name after them."""

    doubts: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    name: str = ""


@runtime_checkable
class NameJudge(Protocol):
    """What an adapter offers besides, if names of its places can come to mean others (`list`, `doctor`)."""

    async def judge_name(self, place: Place, name: str) -> Judged:
        """Whether the name will go on to mean that place; without doubts where it will, or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a screen teaches of which a person says that its agent is idle.

    `learnt` says in words, one a line, what will be taken for idle from then on; empty when it is idle as it is.
    `profile` is the text of the profile that knows it, for the directory of screen profiles, as `harness`.toml.
    """

    harness: str
    version: str
    where: str
    screen: str
    learnt: tuple[str, ...]
    profile: str


@runtime_checkable
class Carried(Protocol):
    """What an adapter offers besides, if it has no surface of its own and goes through the identity's other adapter."""

    def ride_on(self, carrier_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """Be told, once, how to find who reaches an identity; None where nobody does now."""


@runtime_checkable
class SessionServed(Protocol):
    """What an adapter offers besides, if it reaches agents through programs that wait inside their harness."""

    def serve_sessions(self, sessions: Sessions) -> None:
        """Be told, once, of the conversations that have made themselves known."""


@runtime_checkable
class PushServed(Protocol):
    """What an adapter offers besides, if it reaches agents through the MCP servers that they have started."""

    def serve_pushes(self, pushes: PushChannel) -> None:
        """Be told, once, of the clients that take wakes."""


@runtime_checkable
class Tracer(Protocol):
    """What an adapter offers besides, if it can tell later whether a wake has arrived after all (decision 11).

    Where it cannot, a wake of unknown outcome stays as it is until a person has looked.
    """

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look for `wake.mark`; sends nothing, writes nothing down.

        `wake.fence` is where the wake was announced, None where nobody knows; `place` that very place, which may be gone,
        or the one where its news would be announced once more.
        """


@runtime_checkable
class ScreenServed(Protocol):
    """What an adapter offers besides, if it goes past a screen and must know which program is there and what it shows."""

    def see_through(self, screen_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """Be told, once, how to find who sees an identity's screen; None where nobody does. It is only to be looked with."""


@runtime_checkable
class Notifier(Protocol):
    """What an adapter offers besides, if it can show a person a line where they are."""

    async def show_person(self, line: str) -> bool:
        """Show it in the terminal that a person last used; answers whether there is one. Touches no agent."""


@runtime_checkable
class ConversationShower(Protocol):
    """What an adapter offers besides, if it can show a line to those who look at one pane."""

    async def show_there(self, socket: str, pane: str, line: str) -> bool:
        """Show it in every client that shows the pane now; answers whether there is one. Nothing is typed into the pane."""


Herald = Notifier  # its name until 0.2, for adapters of third parties


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of a message that was posted.

    `trouble` is why it was not taken, a clause in which nothing of the URL stands, empty if it was; with `is_unknown` it may
    have arrived. `wish` are the milliseconds that the other end asked us to wait, None where it did not.
    """

    trouble: str = ""
    is_unknown: bool = False
    wish: int | None = None


@runtime_checkable
class MessagePoster(Protocol):
    """What an adapter offers besides, if it can post a message to a URL that a person has written down for themselves."""

    async def post_message(self, receiver: Receiver, body: str) -> Posted:
        """Post it once, signed where the receiver has a key; `body` is JSON with `eventId` and `schemaVersion`. Never raises."""


@runtime_checkable
class PersonSeen(Protocol):
    """What an adapter offers besides, if it can tell whether a person looks at one of its places."""

    def last_key_in_front(self, key: str) -> Instant | None:
        """When a client that shows the place with this key had a key last, by the wall clock; None where none shows it.

        It is what the last `survey` saw, for a place that is gone by now too; it asks nothing anew.
        """


@runtime_checkable
class PersonActive(Protocol):
    """What an adapter offers besides, if it can tell whether a person is at one of its terminals at all."""

    def last_key(self) -> Instant | None:
        """When any client had a key last, by the wall clock, as the last `survey` saw; None where there is no client."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The terminal that a person looks at: how the adapter calls it, and the key of the place that it shows."""

    server: str
    name: str
    shows: str


@runtime_checkable
class PersonGuide(Protocol):
    """What an adapter offers besides, if it can take a person to one of its places (`next`). Touches no agent."""

    async def viewer(self, name: str, environment: Mapping[str, str]) -> Viewer | None:
        """The terminal of that name, or the one that this process was started from; None where there is none."""

    async def bring(self, viewer: Viewer, key: str, *, remember: bool) -> bool:
        """Let the terminal show a place; with `remember` the way back is kept. False: it is not to be reached from there."""

    async def bring_back(self, viewer: Viewer) -> bool:
        """Let the terminal show what it showed before, once; False where nothing was kept, or it is gone."""

    def way_to(self, key: str) -> str:
        """The command that shows a place in a terminal that shows none; empty for a place of another adapter."""

    async def show_count(self, text: str) -> None:
        """Show how many agents wait, where a person has set that up; an empty text for none."""


@runtime_checkable
class ScreenWorkshop(Protocol):
    """What an adapter offers besides, if it judges screens by profiles."""

    async def checks_in(self, place: Place, address: Address) -> Sequence[Check]:
        """Checks for `doctor` of the agent that is in a place now; empty where there is none."""

    def classify_capture(self, path: Path, harness: str) -> Mapping[str, str]:
        """Judge a capture file: `harness`, `state`, `rule`, `composer`. Raises `OperationFailed`."""

    async def capture(self, pane: str) -> str:
        """A pane's screen as the text of a capture file. Raises `NotFound`."""

    async def lesson_of(self, pane: str) -> Lesson:
        """What is to be learnt if the agent in that pane is idle now; writes nothing.

        Raises `NotFound`, and `RefusedForSafety` where something else than prompt and placeholder speaks against idle.
        """


@runtime_checkable
class Reloadable(Protocol):
    """What an adapter offers besides, if what it is given can be replaced while it works."""

    def adopt(self, context: AdapterContext) -> None:
        """Go on by this context from the next call. Raises `ConfigurationInvalid`, with everything as it was."""


@runtime_checkable
class Conditional(Protocol):
    """What an adapter says besides, if it does not work everywhere or is not proven yet. Asked of the class itself."""

    label: ClassVar[str]
    """A word of caution for `adapters` and `doctor`."""

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system, one clause; empty where it can."""


@runtime_checkable
class LeavesMarks(Protocol):
    """What an adapter offers besides, if it writes into places for itself, and not for an identity (`uninstall`)."""

    async def take_marks_back(self, sockets: Collection[str]) -> Sequence[str]:
        """Leave none of them, on its own server and on those behind `sockets`; answers where there were some.

        Raises `OperationFailed`.
        """


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What an adapter is given when it is made.

    `timeout` bounds each external call and `typing_quiet` says how long a person's keys must lie back, both in seconds.
    `graph` names the graph that is served now, alike for every daemon of it; empty where none is known.
    """

    timeout: float
    typing_quiet: float
    screens_directory: str
    environment: Mapping[str, str]
    clock: Clock
    graph: Callable[[], str] = str
