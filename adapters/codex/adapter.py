"""The codex adapter: what stands behind the entry point (docs/native.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from adapters.codex.app_server import AppServer
from adapters.codex.attempt import Attempt, fence_of, peer_in
from adapters.codex.connection import NOT_INSTALLED, Connection, Declined, Lost, NotThere
from adapters.codex.doctor import checks
from adapters.codex.queue import QueueCommand
from adapters.codex.search import Search, Sent, trace
from adapters.codex.socket_path import codex_home
from adapters.codex.threads import (
    HARNESS,
    Thread,
    active_turn,
    is_same_directory,
    loaded_threads,
    named_threads,
    own_directory,
    read_thread,
)
from wake_bridge.domain.delivery import HoldReason, Progress
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.domain.sessions import NOBODY
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    Journal,
    Nowhere,
    Place,
    Trace,
    Wake,
)
from wake_bridge.ports.sessions import Sessions

_SENT: Final = frozenset({Progress.MAYBE_SUBMITTED, Progress.SUBMITTED})


class CodexConfig(BaseModel):
    """`[adapters.codex]`."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = True
    home: str = ""
    versions: tuple[Annotated[str, Field(pattern=r"^\d+\.\d+$")], ...] = ("0.171",)


class CodexAdapter:
    """Sees and wakes Codex through its app-server: drafts and dialogs on its screen are not its concern."""

    name: ClassVar[str] = HARNESS
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, can_steer=True, guard="turn id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = CodexConfig
    label: ClassVar[str] = ""

    def __init__(self, config: CodexConfig, context: AdapterContext) -> None:
        self._context = context
        home = codex_home(config.home, context.environment)
        self._server = AppServer(home, config.versions, context.timeout, context.clock)
        self._queue = QueueCommand(home, context.timeout, context.environment)
        self._sessions: Sessions | None = None
        self._searched_since: dict[str, int] = {}

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system; empty where it can."""
        del environment
        return "" if find_spec("websockets") else NOT_INSTALLED

    def serve_sessions(self, sessions: Sessions) -> None:
        """See `SessionServed.serve_sessions`; whose thread one is, they know better than a directory does."""
        self._sessions = sessions

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The identity's thread: as a session recorded it, as a subscription names it, or the only one in its directory."""
        names, directory = named_threads(address), own_directory(address)
        if not names and not directory:
            return Nowhere(HoldReason.UNREACHABLE, "nothing says which thread of Codex it is")
        try:
            connection = await self._server.connection()
            found = await self._find(connection, address, names, directory)
        except (NotThere, Lost, Declined) as gone:
            return Nowhere(HoldReason.UNREACHABLE, str(gone))
        if isinstance(found, Nowhere):
            return found
        home = str(self._server.home)
        label = f"codex thread {found.id}"
        return Place(f"{HARNESS}:{home}:{found.id}", label, fence_of(home, found.id, connection.server))

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """What the server told by itself; it is asked nothing."""
        try:
            connection = await self._server.connection()
        except NotThere:
            return {}
        peer = connection.server.peer
        told = {place.key: connection.signs.get(_thread_of(place)) for place in places}
        return {key: f"{peer.pid} {peer.started} {sign}" for key, sign in told.items()}

    async def observe(self, place: Place, address: Address) -> Observation:
        """One question to the server, and while a turn runs another one for its id."""
        del address
        turn_id = None
        try:
            connection = await self._server.connection()
            thread = await read_thread(connection, _thread_of(place))
            if thread is not None and not thread.is_at_rest:
                turn_id = await active_turn(connection, thread.id)
        except (NotThere, Lost) as gone:
            return self._observation(place, _unseen(str(gone)))
        if thread is None:
            return self._observation(place, _unseen("the app-server knows no such thread"))
        return self._observation(place, thread.evidence, turn_id)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt; what may have been sent is only looked for."""
        del address
        thread_id, clock = _thread_of(place), self._context.clock
        was_sent = wake.progress in _SENT
        if was_sent and wake.fence is not None:
            # the identity may have another thread by now
            thread_id = wake.fence.session_id
        search = Search(
            self._server,
            thread_id,
            wake.mark,
            place.label,
            journal,
            clock,
            self._searched_since,
            may_begin=wake.may_begin,
        )
        if was_sent:
            return await search.run(Sent(peer_in(wake.fence)))
        return await Attempt(self._server, thread_id, place, wake, journal, self._queue, search).make()

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look into the record of the thread."""
        del address
        is_ours = place.fence is not None and place.fence.socket == str(self._server.home)
        return await trace(self._server, _thread_of(place), wake.mark, peer_in(place.fence if is_ours else None))

    async def probe(self) -> Sequence[Check]:
        """Checks for `doctor`: the socket, the version, the threads."""
        return await checks(self._server)

    async def _find(
        self, connection: Connection, address: Address, names: Sequence[str], directory: str
    ) -> Thread | Nowhere:
        # a sub-agent works in its agent's directory, and its hooks call in as well
        known = [one for name in names if (one := await read_thread(connection, name)) is not None and one.is_a_persons]
        for thread in known:
            if thread.is_loaded:
                return thread
        may_be = [one for one in await loaded_threads(connection) if self._may_be_its(one, address, directory)]
        if len(may_be) > 1:
            return Nowhere(HoldReason.AMBIGUOUS, f"{len(may_be)} threads of Codex are open in {directory}", directory)
        # its hooks have called, and it was not to be told whose it is
        there = [one for one in may_be if self._whose(one) != NOBODY]
        if there or known:
            return (there or known)[0]
        where = f" in {directory}" if directory else ""
        return Nowhere(HoldReason.UNREACHABLE, f"no thread of Codex is open{where}", directory)

    def _may_be_its(self, thread: Thread, address: Address, directory: str) -> bool:
        is_somebody_elses = self._whose(thread) not in {None, NOBODY, address.identity}
        return thread.is_a_persons and is_same_directory(thread.directory, directory) and not is_somebody_elses

    def _whose(self, thread: Thread) -> Identity | None:
        session = self._sessions.session(thread.id) if self._sessions else None
        return None if session is None else session.identity

    def _observation(self, place: Place, evidence: Evidence, turn_id: str | None = None) -> Observation:
        return Observation(
            at=self._context.clock.now(),
            evidence=(evidence,),
            fingerprint=evidence.saw,
            where=place.label,
            capabilities=(HARNESS,),
            is_proof=True,
            active_turn_id=turn_id,
        )


def _thread_of(place: Place) -> str:
    return place.key.rpartition(":")[2]


def _unseen(why: str) -> Evidence:
    return Evidence(
        "no-answer",
        PresenceState.UNKNOWN,
        saw=why,
        region="app-server",
        source=PresenceSource.CODEX_APP_SERVER,
        hold=HoldReason.UNREACHABLE,
    )
