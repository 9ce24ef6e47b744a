"""The Codex adapter: a turn started over its app server, or queued in its composer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Progress
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    HarnessAdapter,
    Journal,
    Nowhere,
    Place,
    Refused,
    Trace,
    Wake,
    config_from,
)
from wake_bridge.ports.sessions import Sessions
from wake_bridge_adapters.codex.attempt import QueueCommand, ThreadAttempt, peer_in
from wake_bridge_adapters.codex.find import Finder
from wake_bridge_adapters.codex.search import Search, Sent, trace
from wake_bridge_adapters.codex.server import NOT_INSTALLED, AppServer, Connection, Unfamiliar, codex_home
from wake_bridge_adapters.codex.threads import HARNESS, Thread, active_turn, loaded_threads
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere, Program, SearchedWake, fence_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import CodexConfig

_NAME: Final = "codex app-server"
_START: Final = "start codex once, or `codex app-server daemon start`; until then its screen is used"
_VERSIONS: Final = "its screen is used; if you trust it to work as before, add it to `versions` in [adapters.codex]"


async def checks(app_server: AppServer) -> list[Check]:
    """Socket and version, then the threads; none of it is a fault, for whom no server answers the screen serves."""
    try:
        connection = await app_server.connection()
    except Unfamiliar as stranger:
        return [(_NAME, None, str(stranger), _VERSIONS)]
    except NotThere as gone:
        return [(_NAME, None, str(gone), _START)]
    server = connection.server
    report: list[Check] = [(_NAME, True, f"Codex {server.version}, pid {server.peer.pid}, in {app_server.home}", "")]
    try:
        threads = [one for one in await loaded_threads(connection) if one.is_a_persons]
    except (AnswerLost, Declined) as no:
        return [*report, ("codex threads", None, str(no), "")]
    told = ", ".join(f"{one.id} {one.evidence.saw} in {one.directory}" for one in threads)
    return [*report, ("codex threads", True, told or "none is open", "")]


_SENT: Final = frozenset({Progress.MAYBE_SUBMITTED, Progress.SUBMITTED})

_LEFT: Final = "and no program is known to show it"


class CodexAdapter:
    """Sees and wakes Codex through its app-server: drafts and dialogs on its screen are not its concern."""

    name: ClassVar[str] = HARNESS
    capabilities: ClassVar[Capabilities] = Capabilities(
        composer_independent=True, can_start=True, can_steer=True, guard="turn id", ack_kind="echo"
    )
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:CodexConfig")
    label: ClassVar[str] = ""

    def __init__(self, config: CodexConfig, context: AdapterContext) -> None:
        self._context = context
        home = codex_home(config.home, context.environment)
        self._server = AppServer(home, config.versions, context.timeout, context.clock)
        self._queue = QueueCommand(home, context.timeout, context.environment)
        self._finder = Finder(home, context.clock)
        self._searched_since: dict[str, int] = {}

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system; empty where it can."""
        del environment
        return "" if find_spec("websockets") else NOT_INSTALLED

    def serve_sessions(self, sessions: Sessions) -> None:
        """See `SessionServed.serve_sessions`; whose thread one is, they know better than a directory does."""
        self._finder.sessions = sessions

    def see_through(self, screen_of: Callable[[Identity], HarnessAdapter | None]) -> None:
        """See `ScreenServed.see_through`."""
        self._finder.screen_of = screen_of

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The thread that the identity's program shows; a recorded one that none shows can be told of, and not be woken."""
        try:
            connection = await self._server.connection()
            found = await self._finder.find(connection, address)
        except (NotThere, AnswerLost, Declined) as gone:
            return Nowhere(HoldReason.UNREACHABLE, str(gone))
        return found if isinstance(found, Nowhere) else self._place(connection, found.thread.id)

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
        """Who shows which thread, how it stands, and while a turn runs its id; at rest also what the screen says against it."""
        try:
            connection = await self._server.connection()
            found = await self._finder.find(connection, address)
            if isinstance(found, Nowhere):
                return self._observation(place, _unseen(found.detail, found.reason, found.cause))
            thread = found.thread
            if thread.id != _thread_of(place):
                return self._observation(place, _unseen("the program now shows another conversation"))
            if not found.is_shown:
                return self._observation(place, _left(thread))
            turn_id = None if thread.is_at_rest else await active_turn(connection, thread.id)
        except (NotThere, AnswerLost, Declined) as gone:
            return self._observation(place, _unseen(str(gone)))
        in_the_way = await self._finder.in_the_way(found, address)
        return self._observation(place, in_the_way or thread.evidence, turn_id)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt on a thread that is shown; what may have been sent is only looked for."""
        thread_id, clock = _thread_of(place), self._context.clock
        was_sent = wake.progress in _SENT
        if was_sent and wake.fence is not None:
            # the identity may have another thread by now
            thread_id = wake.fence.session_id
        searched = SearchedWake(wake.mark, place.label, journal, clock, self._searched_since)
        search = Search(self._server, thread_id, searched, may_begin=wake.may_begin)
        if was_sent:
            return await search.run(Sent(peer_in(wake.fence)))
        if refused := await self._refused(place, address, may_start_thread=wake.may_start_thread):
            return refused
        return await ThreadAttempt(self._server, thread_id, place, wake, journal, self._queue, search).make()

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look into the record of the thread."""
        del address
        is_ours = place.fence is not None and place.fence.socket == str(self._server.home)
        return await trace(self._server, _thread_of(place), wake.mark, peer_in(place.fence if is_ours else None))

    async def probe(self) -> Sequence[Check]:
        """Checks for `doctor`: the socket, the version, the threads."""
        return await checks(self._server)

    async def _refused(self, place: Place, address: Address, *, may_start_thread: bool) -> Refused | None:
        """Why nothing may be begun in the place's thread now; None if it may: a look may be seconds old."""
        try:
            found = await self._finder.find(await self._server.connection(), address)
        except (NotThere, AnswerLost, Declined) as gone:
            return Refused(HoldReason.UNREACHABLE, str(gone), place.label)
        if isinstance(found, Nowhere):
            return Refused(found.reason, found.detail, place.label, found.cause)
        if found.thread.id != _thread_of(place):
            return Refused(HoldReason.UNREACHABLE, "the program now shows another conversation", place.label)
        if not found.is_shown:
            return None if may_start_thread else Refused(HoldReason.NOT_LOADED, _LEFT, place.label)
        seen = await self._finder.in_the_way(found, address)
        return Refused(seen.reason, seen.told, place.label, seen.why) if seen else None

    def _place(self, connection: Connection, thread_id: str) -> Place:
        home = str(self._server.home)
        label = f"codex thread {thread_id}"
        server = connection.server.peer
        fence = fence_of(home, thread_id, Program(server.pid, server.started))
        return Place(f"{HARNESS}:{home}:{thread_id}", label, fence)

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


def _unseen(why: str, hold: HoldReason = HoldReason.UNREACHABLE, cause: Cause = Cause.OTHER) -> Evidence:
    return Evidence(
        "no-answer",
        PresenceState.UNKNOWN,
        saw=why,
        region="app-server",
        source=PresenceSource.CODEX_APP_SERVER,
        hold=hold,
        cause=cause,
    )


def _left(thread: Thread) -> Evidence:
    """The server keeps a thread for a minute after its terminal has gone: a turn there would be seen by nobody."""
    return Evidence(
        "not-shown",
        PresenceState.UNKNOWN,
        saw=f"{thread.status}, {_LEFT}",
        region="thread",
        source=PresenceSource.CODEX_APP_SERVER,
        hold=HoldReason.NOT_LOADED,
    )
