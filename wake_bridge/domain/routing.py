"""The words of routing: where an identity can be reached, the state of each route, and the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from wake_bridge.domain.delivery import Hold
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import Presence
from wake_bridge.domain.receivers import Receiver
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a route can do; `decide` reads nothing else of an adapter.

    What is not `watchable` is looked at only while a wake waits for it: a look disturbs, or costs.
    `last_resort`: it serves only whom no other usable route leads to, as the heartbeat does. `presence_independent`: what
    it reaches is a program that decides about presence itself, and is sent wakes whatever it does. `per_subscription`: it
    reaches nobody but the receiver that a subscription names (`Address.receiver`). `idempotent`: what it sent may be sent
    again as it was, also where it may have arrived; `per_subscription` too, it is, until the receiver takes it. `needs_sign`:
    what it sends may be dropped without a word; where the agent then does nothing, the next route is taken.

    Deprecated: nothing decides by `guard` and `ack_kind`. They are accepted, and told by `routes`, for one more release.
    """

    composer_independent: bool = False
    can_start: bool = True
    can_steer: bool = False
    guard: str = "screen"
    ack_kind: str = "screen"
    idempotent: bool = False
    watchable: bool = True
    last_resort: bool = False
    presence_independent: bool = False
    per_subscription: bool = False
    needs_sign: bool = False

    @property
    def has_own_limits(self) -> bool:
        """Whether its wakes are counted apart: it reaches a program beside the agent."""
        return self.per_subscription and not self.needs_sign

    @property
    def words(self) -> tuple[str, ...]:
        """What can be done with an agent on that route, in a word each."""
        able = {
            "start": self.can_start,
            "steer": self.can_steer,
            "composer_independent": self.composer_independent,
            "idempotent": self.idempotent,
        }
        return tuple(word for word, is_so in able.items() if is_so)


@dataclass(frozen=True, slots=True)
class Binding:
    """A fence that was recorded when an identity was bound: all of it must still hold."""

    socket: str
    server_pid: int
    session_id: str
    pane_id: str
    pane_pid: int
    pane_started: str
    agent_pid: int
    agent_started: str

    def has_pane_of(self, other: Binding) -> bool:
        """Whether it is the same pane, whatever it is called, wherever it was moved to and whatever runs in it.

        A server never gives a pane's id again; whether it is the same server, its pid alone does not tell for ever.
        """
        return (self.socket, self.server_pid, self.pane_id) == (other.socket, other.server_pid, other.pane_id)

    def has_agent_of(self, other: Binding) -> bool:
        """Whether it is the same agent, in whichever pane; nobody is not."""
        return self.agent_pid != 0 and (self.agent_pid, self.agent_started) == (other.agent_pid, other.agent_started)


@dataclass(frozen=True, slots=True)
class RememberedPane:
    """The pane where an identity's agent was found. From then on it counts; the name is only how it was found.

    `name` and `socket` are what the target said, `fence` the pane with the agent that was last seen in it, `since` when
    the identity was first found there and `seen_at` when its agent was last seen.
    """

    name: str
    socket: str
    fence: Binding
    since: Instant
    seen_at: Instant


@dataclass(frozen=True, slots=True)
class Expected:
    """Who must be where a name leads: a harness, a working directory. What is empty is not asked for."""

    agent: str = ""
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What makes a pane or an agent somebody's: a name that is said to mean it, or the fence of where they were found.

    `until` is when they left the fence: then its pane is theirs no longer, and its agent was. None while they live there.
    """

    identity: Identity
    name: str = ""
    socket: str = ""
    fence: Binding | None = None
    expected: Expected = Expected()
    until: Instant | None = None


def no_claims() -> Sequence[Claim]:
    """Nobody claims anything."""
    return ()


@dataclass(frozen=True, slots=True)
class Address:
    """All that is configured or known about where an identity can be reached.

    The adapter resolves it, in the order of docs/design.md §6.1, to exactly one place. `suggested` and the `details` of an
    application come from the newest active subscription's metadata; `binding` from an earlier `bind`. `pane_written`
    and `suggested_written` say when each was written down, None for now: an id that begins anew with its server means
    only what it meant then. `expected` says who must be in `pane`: a name can come to mean another one. `sessions` are
    the conversations of harnesses that are known to be the identity's, the newest first. No other identity is expected
    with the same harness in the same directory where it `has_directory_to_itself`. `remembered` is the pane where the
    same name led to before, which counts while it lives; `claims` answers what other identities hold, held or may hold,
    and is asked only when a remembered pane is lost. `receiver` is where this very wake is to be posted.
    """

    identity: Identity
    pane: str = ""
    socket: str = ""
    harness: str = ""
    suggested: str = ""
    binding: Binding | None = None
    pane_written: Instant | None = None
    suggested_written: Instant | None = None
    details: tuple[tuple[str, str], ...] = ()
    expected: Expected = Expected()
    sessions: tuple[Session, ...] = ()
    has_directory_to_itself: bool = False
    remembered: RememberedPane | None = None
    receiver: Receiver | None = None
    claims: Callable[[], Sequence[Claim]] = field(default=no_claims, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name by which its place is looked up; empty where nobody said one."""
        return self.pane or self.suggested


@dataclass(frozen=True, slots=True)
class Route:
    """An adapter and where it would reach the identity."""

    adapter: str
    address: Address
    capabilities: Capabilities
    degraded: bool = False

    @property
    def key(self) -> str:
        """Tells the routes of one identity apart."""
        return self.adapter if self.address.receiver is None else self.address.receiver.place_key


@dataclass(frozen=True, slots=True)
class Start:
    """Start a turn through a native channel."""

    route: Route


@dataclass(frozen=True, slots=True)
class Steer:
    """Add to the running turn, guarded by its id."""

    route: Route
    turn_id: str


@dataclass(frozen=True, slots=True)
class Inject:
    """Put the digest into the composer of an agent proven idle."""

    route: Route


@dataclass(frozen=True, slots=True)
class StoreOnly:
    """Nothing is sent; the event stays for the next turn or for `inbox`."""

    why: str


@dataclass(frozen=True, slots=True)
class Observe:
    """Nobody has looked there yet: look, and decide anew."""

    route: Route


Decision = Start | Steer | Inject | StoreOnly | Hold | Observe


@dataclass(frozen=True, slots=True)
class RouteState:
    """One route, and how things stand there now; with neither `presence` nor `nowhere` nobody has looked yet.

    `nowhere` says why the route leads to no place, `refused` why it gave this very wake back a moment ago. What is
    `only_seen` can be looked at there and not woken.
    """

    route: Route
    presence: Presence | None = None
    nowhere: Hold | None = None
    only_seen: bool = False
    refused: Hold | None = None

    @property
    def is_unseen(self) -> bool:
        """Whether nobody has looked yet."""
        return self.presence is None and self.nowhere is None

    @property
    def is_open_receiver(self) -> bool:
        """Whether it is a program that decides about presence itself, and may take the wake now."""
        return self.route.capabilities.presence_independent and self.nowhere is None and self.refused is None


@dataclass(frozen=True, slots=True)
class Authority:
    """What the identity's target allows besides: adding to a running turn, opening a conversation that nobody has open."""

    steer: bool = False
    may_start_thread: bool = False


def hold_because_of(presence: Presence) -> Hold:
    """The hold that a presence asks for."""
    return Hold(presence.reason, detail=presence.detail, where=presence.where, cause=presence.cause)
