"""The tmux adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import Proof, Step
from wake_bridge.domain.errors import NotFound, OperationFailed
from wake_bridge.domain.names import SECOND, Identity, Instant
from wake_bridge.domain.presence import SAMPLES_APART, Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    Journal,
    Judged,
    Lesson,
    Nowhere,
    Place,
    Refused,
    Sights,
    Trace,
    Viewer,
    Wake,
    config_from,
)
from wake_bridge.ports.screens import RunningVersion, ScreenProfile, ScreenReport
from wake_bridge_adapters.pane_lock import PaneIsTaken, pane_lock
from wake_bridge_adapters.screens.profile_file import load_profiles, profile_files
from wake_bridge_adapters.tmux import guide
from wake_bridge_adapters.tmux.attempt import DriverProcess, PaneAttempt, release
from wake_bridge_adapters.tmux.captures import captured, checks, judge, lesson, report, shelved, untested, version_check
from wake_bridge_adapters.tmux.command import Separators, TmuxServer, default_socket, target_socket, why_not_ours
from wake_bridge_adapters.tmux.deliver import deliver, trace
from wake_bridge_adapters.tmux.occupants import Occupants, PaneAgent, is_in_a_popup
from wake_bridge_adapters.tmux.pane_facts import NoPane
from wake_bridge_adapters.tmux.panes import Pane, panes_claimed_by, panes_of
from wake_bridge_adapters.tmux.resolve import PaneKey, Resolver
from wake_bridge_adapters.tmux.sightings import (
    RENUMBERED,
    Sightings,
    claim_pane,
    doubts_about,
    mending_of,
    release_panes,
)
from wake_bridge_adapters.tmux.stillness import Stillness
from wake_bridge_adapters.tmux.view import Observer, PaneView

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import TmuxConfig

SHOWN_FOR: Final = 5_000
"""Milliseconds; a key press ends it earlier, and still reaches the pane. tmux may stand still meanwhile: not longer."""

_NAMES: Final = ("client_activity", "client_control_mode", "client_name")
_FORMATS: Final = str.maketrans({"#": "＃", "%": "％"})
"""tmux expands messages: `#(…)` would run a shell, `%H` would be a time."""


async def show_line(servers: Iterable[TmuxServer], text: str) -> bool:
    """Show `text` to the client, of any of the servers, that last had a key; answers whether there is one."""
    found: list[tuple[int, str, TmuxServer]] = []
    for server in servers:
        if why_not_ours(server.socket):
            continue
        separators = Separators()
        answer = await server.ask(["list-clients", "-F", separators.template(_NAMES)])
        found += [
            (int(client["client_activity"]), client["client_name"], server)
            for client in separators.records(answer.stdout, _NAMES)
            if client["client_control_mode"] != "1" and client["client_activity"].isdecimal()
        ]
    if not found:
        return False
    _, name, server = max(found, key=lambda one: one[0])
    line = text.translate(_FORMATS)
    answer = await server.ask(["display-message", "-c", name, "-d", str(SHOWN_FOR), line])
    return answer.is_well


async def show_beside(server: TmuxServer, pane: str, text: str) -> bool:
    """Show `text` to every client that shows that pane; answers whether there is one."""
    if why_not_ours(server.socket):
        return False
    separators, names = Separators(), ("client_control_mode", "client_name", "pane_id")
    answer = await server.ask(["list-clients", "-F", separators.template(names)])
    is_shown = False
    for client in separators.records(answer.stdout, names):
        if client["client_control_mode"] != "1" and client["pane_id"] == pane:
            line = ["display-message", "-c", client["client_name"], "-d", str(SHOWN_FOR), text.translate(_FORMATS)]
            is_shown |= (await server.ask(line)).is_well
    return is_shown


_COMPARABLE_FOR: Final = 5_000
"""Milliseconds for which a look says what the pane must still look like when a wake begins."""

_BIND_HINT: Final = "name a pane exactly as `tmux list-panes -a` lists it; `bind` alone means the pane it runs in"


@dataclass(frozen=True, slots=True)
class _LastLook:
    at: Instant
    fingerprint: str


class TmuxAdapter:
    """Sees and wakes agents in tmux panes, through their screens."""

    name: ClassVar[str] = "tmux"
    capabilities: ClassVar[Capabilities] = Capabilities()
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:TmuxConfig")

    def __init__(self, config: TmuxConfig, context: AdapterContext) -> None:
        self._config = config
        self._last_looks: dict[str, _LastLook] = {}
        self._last_keys: dict[str, int] = {}
        self._last_key_of: dict[str, int] = {}
        self._servers: dict[str, TmuxServer] = {}
        self._still: dict[str, Stillness] = {}
        self.adopt(context)

    def adopt(self, context: AdapterContext) -> None:
        """Read the profiles anew, and go on with this context; what is under way ends as it began.

        Raises:
            ConfigurationInvalid: naming every mistake in a profile; nothing has changed then.
        """
        self._profiles = load_profiles(context.screens_directory)
        self._context = context
        self._servers = {}
        self._occupants = Occupants(self._profiles)
        self._resolver = Resolver(self._server, self._socket, self._occupants, context.clock.now)

    async def resolve(self, address: Address) -> Place | Nowhere:
        """Find the one pane the address means, now."""
        with self._looking(self._socket(address.socket)):
            return await self._resolver.resolve(address)

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """One `list-panes -a` per socket, shared with what is resolved at the same moment: what changes whenever a new look could show something new.

        A server that has slept since its last listing is not asked again.
        """
        self._forget_old_looks()
        wanted = {place.key: PaneKey.of(place.key) for place in places}
        signs: dict[str, str] = {}
        for socket in {key.socket for key in wanted.values()}:
            asked = frozenset(name for name, key in wanted.items() if key.socket == socket)
            still = self._still.get(socket)
            if still is not None and still.holds(asked):
                signs |= still.signs
                continue
            self._still.pop(socket, None)
            panes = await self._resolver.listing.of(self._server(socket))
            if isinstance(panes, NoPane):
                continue
            found = {str(PaneKey(socket, pane.server_pid, pane.pane_id)): pane.sign_of_life for pane in panes}
            self._occupants.keep_only(socket, {pane.pane_id for pane in panes})
            told = {key: found[key] for key in asked if key in found}
            signs |= told
            self._note_who_looks(socket, panes, told.keys())
            if panes and not any(pane.is_fresh for pane in panes):
                self._still[socket] = Stillness(panes[0].server_pid, told, asked)
        return signs

    def _looking(self, socket: str) -> AbstractContextManager[None]:
        """What a call of our own that only looks is made in: it must not count as a change."""
        still = self._still.get(socket)
        return nullcontext() if still is None else still.while_we_look()

    def _note_who_looks(self, socket: str, panes: Sequence[Pane], keys: Collection[str]) -> None:
        """Keep what this listing says of who looks at which pane; a pane is listed once for each session that shows it."""
        in_front = [last for pane in panes if (last := pane.last_key_in_front) is not None]
        self._last_key_of[socket] = max(in_front, default=0)
        for key in keys:
            self._last_keys.pop(key, None)
        for pane in panes:
            key, last = str(PaneKey(socket, pane.server_pid, pane.pane_id)), pane.last_key_in_front
            if key in keys and last is not None:
                self._last_keys[key] = max(last, self._last_keys.get(key, 0))

    def untested_version(self, key: str) -> RunningVersion | None:
        """See `VersionTeller.untested_version`."""
        try:
            pane = PaneKey.of(key)
        except ValueError:
            return None
        agent = self._occupants.known(pane.socket, pane.pane_id)
        return None if agent is None else untested(agent)

    def last_key_in_front(self, key: str) -> Instant | None:
        """See `PersonSeen.last_key_in_front`."""
        last = self._last_keys.get(key)
        return None if last is None else Instant(last * SECOND)

    def last_key(self) -> Instant | None:
        """See `PersonActive.last_key`: of all servers where somebody is watched."""
        last = max(self._last_key_of.values(), default=0)
        return Instant(last * SECOND) if last else None

    async def observe(self, place: Place, address: Address) -> Observation:
        """One look: evidence, never a verdict."""
        key = PaneKey.of(place.key)
        with self._looking(key.socket):
            view = await self._observer(key.socket).view(key.pane_id, address.harness)
        now = self._context.clock.now()
        if isinstance(view, NoPane):
            return Observation(now, (_gone(view.why, view.cause),), where=place.label)
        if view.fence.server_pid != key.server_pid:
            return Observation(now, (_gone("the tmux server is another one"),), where=place.label)
        self._last_looks[place.key] = _LastLook(now, view.fingerprint)
        return Observation(
            at=now,
            evidence=view.evidence,
            fingerprint=view.fingerprint,
            where=place.label,
            capabilities=(view.agent.profile.name,) if isinstance(view.agent, PaneAgent) else (),
            title=view.look.facts.title,
        )

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt to submit `wake.text`, alone with the pane."""
        key = PaneKey.of(place.key)
        fence = wake.fence or place.fence
        if fence is None:
            return Refused(HoldReason.UNREACHABLE, "the pane was resolved without a fence", place.label)
        attempt = self._attempt(place, address, wake, fence, journal)
        try:
            with pane_lock(key.socket, key.server_pid, key.pane_id):
                return await deliver(attempt, self._last_fingerprint(place.key))
        except PaneIsTaken as taken:
            return Refused(HoldReason.BUSY_PANE, str(taken), place.label)

    async def trace(self, place: Place, address: Address, wake: Wake) -> Trace:
        """One look at screen and scrollback for the mark; types nothing."""
        fence = wake.fence if wake.fence is not None and wake.fence.pane_id else place.fence
        if fence is None:
            return Trace(Proof.NONE, "the pane was resolved without a fence")
        return await trace(self._attempt(place, address, wake, fence, _nothing_to_write))

    def _attempt(self, place: Place, address: Address, wake: Wake, fence: Binding, journal: Journal) -> PaneAttempt:
        key = PaneKey.of(place.key)
        return PaneAttempt(
            server=self._server(key.socket),
            observer=self._observer(key.socket),
            pane_id=key.pane_id,
            label=place.label,
            harness=address.harness,
            wake=wake,
            fence=fence,
            journal=journal,
            driver=DriverProcess.here(self._context.graph()),
            clock=self._context.clock,
        )

    async def probe(self) -> Sequence[Check]:
        """Checks for `doctor`: the program, its version, the server, UTF-8."""
        return await checks(self._server(self._socket("")), self._context.timeout, self._context.environment)

    async def checks_in(self, place: Place, address: Address) -> Sequence[Check]:
        """Whether the screens of the agent that is there now are known; nothing where there is none."""
        key = PaneKey.of(place.key)
        view = await self._observer(key.socket).view(key.pane_id, address.harness)
        if isinstance(view, NoPane) or not isinstance(view.agent, PaneAgent):
            return []
        return [version_check(view.agent, place.label)]

    async def binding_for(self, pane: str | None, environment: Mapping[str, str]) -> Place:
        """The place that `bind` means: the named pane, or the one this process runs in by `$TMUX` and `$TMUX_PANE`.

        Raises:
            NotFound: there is no such pane, or the process runs in none.
        """
        socket = "" if pane else environment.get("TMUX", "").partition(",")[0]
        target = pane or environment.get("TMUX_PANE", "")
        if not target or not (pane or socket):
            raise NotFound("this is no tmux pane", hint=_BIND_HINT)
        found = await self.resolve(Address(Identity(""), pane=target, socket=socket))
        if isinstance(found, Nowhere):
            raise NotFound(found.detail, target, hint=_BIND_HINT)
        if not pane and found.fence and await asyncio.to_thread(is_in_a_popup, found.fence):
            raise NotFound("this is a popup of tmux, which has no pane", found.label, hint=_POPUP_HINT)
        return found

    async def mark_identity(self, place: Place, identity: Identity) -> None:
        """Let the pane, and no other of its server, say that it is the identity's.

        Raises:
            OperationFailed: tmux refused.
        """
        key = PaneKey.of(place.key)
        server = self._server(key.socket)
        panes = await panes_of(server)
        why = panes.why if isinstance(panes, NoPane) else await claim_pane(server, panes, key.pane_id, identity)
        if why:
            raise OperationFailed(f"the pane could not be marked as {identity}'s", f"{place.label}: {why}")

    async def show_person(self, line: str) -> bool:
        """Show a line to the attached client that was used last, of every server that is known by now."""
        self._server(self._socket(""))
        return await show_line(list(self._servers.values()), line)

    async def show_there(self, socket: str, pane: str, line: str) -> bool:
        """See `ConversationShower.show_there`."""
        return await show_beside(self._server(self._socket(socket)), pane, line)

    async def viewer(self, name: str, environment: Mapping[str, str]) -> Viewer | None:
        """See `PersonGuide.viewer`."""
        socket = environment.get("TMUX", "").partition(",")[0]
        if not socket or why_not_ours(socket):
            return None
        return await guide.viewer_in(self._server(target_socket(socket, environment)), name, environment)

    async def bring(self, viewer: Viewer, key: str, *, remember: bool) -> bool:
        """See `PersonGuide.bring`."""
        return await guide.bring(self._server(viewer.server), viewer, PaneKey.of(key), remember=remember)

    async def bring_back(self, viewer: Viewer) -> bool:
        """See `PersonGuide.bring_back`."""
        return await guide.bring_back(self._server(viewer.server), viewer)

    def way_to(self, key: str) -> str:
        """See `PersonGuide.way_to`."""
        try:
            pane = PaneKey.of(key)
        except ValueError:
            return ""
        return shlex.join(["tmux", "-S", pane.socket, "attach-session", "-t", pane.pane_id])

    async def show_count(self, text: str) -> None:
        """See `PersonGuide.show_count`."""
        self._server(self._socket(""))
        for server in list(self._servers.values()):
            if not why_not_ours(server.socket):
                await guide.show_count(server, text)

    async def unmark_identity(self, identity: Identity, binding: Binding | None) -> Sequence[str]:
        """Let no pane say any more that it is the identity's; answers those that did.

        Raises:
            OperationFailed: tmux refused.
        """
        told: list[str] = []
        for socket in {self._socket(""), *([binding.socket] if binding else [])}:
            panes = [] if why_not_ours(socket) else await panes_of(self._server(socket))
            if isinstance(panes, NoPane) or not (claimed := panes_claimed_by(panes, identity)):
                continue
            server = self._server(socket)
            if why := await release_panes(server, panes, identity) or await release(server, claimed):
                raise OperationFailed(f"a pane is still marked as {identity}'s", f"{socket}: {why}")
            told += [pane.label for pane in claimed]
        return told

    async def take_marks_back(self, sockets: Collection[str]) -> Sequence[str]:
        """Let no pane of these servers name a daemon that drives it; answers those that did.

        Raises:
            OperationFailed: tmux refused.
        """
        told: list[str] = []
        for socket in {self._socket(named) for named in ("", *sockets)}:
            panes = [] if why_not_ours(socket) else await panes_of(self._server(socket))
            if isinstance(panes, NoPane):
                continue
            await guide.forget(self._server(socket))
            if why := await release(self._server(socket), panes):
                raise OperationFailed("a pane still names the daemon that drove it", f"{socket}: {why}")
            told += dict.fromkeys(pane.label for pane in panes if pane.driver)
        return told

    async def list_panes(self) -> Sights:
        """Every pane of the user's own servers, with a name for each that outlives its server."""
        is_configured = bool(self._config.socket_name or self._config.socket_path)
        return await Sightings(
            self._server,
            self._socket(""),
            self._occupants,
            self._context.environment,
            is_configured=is_configured,
        ).sights()

    async def judge_name(self, place: Place, name: str) -> Judged:
        """Whether a target's name lasts, and what makes one last."""
        key = PaneKey.of(place.key)
        panes = await panes_of(self._server(key.socket), RENUMBERED)
        pane = None if isinstance(panes, NoPane) else next((one for one in panes if one.pane_id == key.pane_id), None)
        if isinstance(panes, NoPane) or pane is None or not (doubts := doubts_about(name, pane, panes)):
            return Judged()
        agents = await asyncio.to_thread(self._agents_among, key.socket, panes)
        mending = mending_of(pane, panes, key.socket, agents)
        return Judged(doubts, mending.commands, mending.name)

    def _agents_among(self, socket: str, panes: Sequence[Pane]) -> list[str]:
        looked_at = {one.pane_id: self._occupants.of(socket, one.pane_id, one.pane_pid, one.command) for one in panes}
        return [pane_id for pane_id, one in looked_at.items() if isinstance(one, PaneAgent)]

    def classify_capture(self, path: Path, harness: str) -> Mapping[str, str]:
        """Judge a capture file. Raises `OperationFailed`, and `NotFound` for an unknown harness."""
        return judge(path, harness, self._profiles)

    async def capture(self, pane: str) -> str:
        """A pane's screen as the text of a capture file.

        Raises:
            NotFound: there is no such pane.
        """
        return captured(await self._view_of(await self.binding_for(pane, self._context.environment)))

    async def lesson_of(self, pane: str) -> Lesson:
        """What is to be learnt if the agent in that pane is idle now, from two looks as any idleness is proven.

        Raises:
            NotFound: there is no such pane.
            RefusedForSafety: something else than prompt and placeholder speaks against idle.
        """
        place = await self.binding_for(pane, self._context.environment)
        first = await self._view_of(place)
        await asyncio.sleep(SAMPLES_APART / 1000)
        return lesson(place.label, first, await self._view_of(place))

    def profiles(self) -> Sequence[ScreenProfile]:
        """See `ScreenLibrary.profiles`."""
        return [shelved(name, path) for name, path in sorted(profile_files(self._context.screens_directory).items())]

    def shipped_profiles(self) -> Mapping[str, ScreenProfile]:
        """See `ScreenLibrary.shipped_profiles`."""
        return {name: shelved(name, path) for name, path in profile_files().items()}

    def checked_profile(self, path: Path) -> ScreenProfile:
        """See `ScreenLibrary.checked_profile`."""
        return shelved("", path)

    async def report_on(self, pane: str, words: Sequence[str]) -> ScreenReport:
        """See `ScreenLibrary.report_on`."""
        place = await self.binding_for(pane, self._context.environment)
        view = await self._view_of(place)
        answer = await self._server(PaneKey.of(place.key).socket).ask(["display-message", "-p", "tmux #{version}"])
        return await asyncio.to_thread(report, view, words, answer.stdout.strip())

    async def _view_of(self, place: Place) -> PaneView:
        key = PaneKey.of(place.key)
        view = await self._observer(key.socket).view(key.pane_id, "")
        if isinstance(view, NoPane):
            raise NotFound(view.why, place.label, hint=_BIND_HINT)
        return view

    def _server(self, socket: str) -> TmuxServer:
        if socket not in self._servers:
            self._servers[socket] = TmuxServer(socket, self._context.timeout, self._context.environment)
        return self._servers[socket]

    def _observer(self, socket: str) -> Observer:
        return Observer(self._server(socket), self._occupants, self._context.typing_quiet)

    def _socket(self, named: str) -> str:
        if named:
            return target_socket(named, self._context.environment)
        return default_socket(self._config.socket_name, self._config.socket_path, self._context.environment)

    def _last_fingerprint(self, key: str) -> str:
        self._forget_old_looks()
        last = self._last_looks.get(key)
        return last.fingerprint if last is not None else ""

    def _forget_old_looks(self) -> None:
        now = self._context.clock.now()
        self._last_looks = {key: one for key, one in self._last_looks.items() if now - one.at <= _COMPARABLE_FOR}


_POPUP_HINT: Final = "let the popup show a session (`tmux new-session -A -s NAME`), and run `bind` in there"


async def _nothing_to_write(step: Step, evidence: Mapping[str, str]) -> None:
    """The journal of a look, which takes no step."""


def _gone(why: str, cause: Cause = Cause.UNREACHABLE) -> Evidence:
    return Evidence("pane-gone", PresenceState.UNKNOWN, why, "pane", hold=HoldReason.UNREACHABLE, cause=cause)
