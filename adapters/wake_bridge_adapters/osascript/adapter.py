"""The osascript adapter: the class behind the entry point."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import psutil

from wake_bridge.domain.delivery import HoldReason, Progress
from wake_bridge.domain.presence import Evidence, Observation, PresenceSource, PresenceState
from wake_bridge.domain.routing import Address, Binding, Capabilities
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.adapter import (
    AdapterContext,
    AttemptOutcome,
    Check,
    Journal,
    Nowhere,
    Place,
    Refused,
    TargetLimits,
    Unknown,
    Wake,
    config_from,
)
from wake_bridge_adapters.osascript.plan import (
    TERMINAL_APPLICATIONS,
    ApplicationName,
    Hands,
    SessionName,
    Surface,
    Task,
    meant_by,
    perform,
)
from wake_bridge_adapters.osascript.scripting import Kind, ScreenReading, Scripting, Trouble, evidence_of
from wake_bridge_adapters.osascript.terminal import ApplicationHands, Occupant, TerminalHands, occupant_of, started_at
from wake_bridge_adapters.pane_lock import PaneIsTaken, pane_lock
from wake_bridge_adapters.screens.profile import Profile
from wake_bridge_adapters.screens.profile_file import load_profiles

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wake_bridge_adapters.tables import OsascriptConfig

LABEL: Final = "experimental, awaiting field reports"


async def checks(scripting: Scripting) -> list[Check]:
    """Nothing to check where there is no `osascript`; else what System Events lets us do."""
    if not scripting.is_there:
        return [("osascript", None, "not available: it exists on macOS only", "")]
    report: list[Check] = [("osascript", True, LABEL, "")]
    processes = await scripting.run("app_find", "Finder")
    report.append(_judged("osascript automation", processes, "System Events answers"))
    if isinstance(processes, Trouble) or not processes:
        return report
    look = await scripting.run("app_look", processes[0][0])
    report.append(_judged("osascript accessibility", look, "focused elements can be read"))
    return report


def _judged(name: str, answer: object, well: str) -> Check:
    if not isinstance(answer, Trouble):
        return name, True, well, ""
    is_ours = answer.kind in {Kind.PERMISSION, Kind.TIME}
    return name, False if is_ours else None, answer.what, answer.remedy


BETWEEN_READS: Final = 5_000
"""Milliseconds between two accessibility reads of a presence."""

_ONE_LINE: Final = TargetLimits(max_lines=1, max_characters=600)
_NOT_HERE: Final = "there is no osascript here: this adapter works on macOS only"


@dataclass(frozen=True, slots=True)
class _Found:
    """A place with what is known of who is there."""

    place: Place
    surface: Surface
    occupant: Occupant
    session: str = ""
    tab: str = ""


class OsascriptAdapter:
    """Sees and wakes agents in iTerm2, Terminal and applications on macOS. Experimental, awaiting field reports."""

    name: ClassVar[str] = "osascript"
    capabilities: ClassVar[Capabilities] = Capabilities(guard="script", watchable=False)
    Config: ClassVar[type[BaseModel]] = config_from("wake_bridge_adapters.tables:OsascriptConfig")
    label: ClassVar[str] = LABEL

    def __init__(self, config: OsascriptConfig, context: AdapterContext) -> None:
        del config
        self._context = context
        self._scripting = Scripting(context.timeout, context.environment)
        # one machine has one focus and one clipboard; its per-user directory is what all writers share
        shared = context.environment.get("TMPDIR") or tempfile.gettempdir()
        self._desktop = str(Path(shared) / "wake-bridge-osascript")
        self._latest: dict[str, Observation] = {}

    @classmethod
    def unavailable(cls, environment: Mapping[str, str]) -> str:
        """Why it cannot work on this system; empty where it can."""
        return "" if Scripting(0, environment).is_there else _NOT_HERE

    @cached_property
    def _profiles(self) -> Mapping[str, Profile]:
        """Read when a terminal session is first asked for: most systems never do."""
        return load_profiles(self._context.screens_directory)

    async def resolve(self, address: Address) -> Place | Nowhere:
        """Find the one session or process that the address names."""
        found = await self._find(address)
        return found if isinstance(found, Nowhere) else found.place

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """Nothing is cheap here: every place has one unchanging sign, and a look is taken when a wake waits."""
        return {place.key: place.key for place in places}

    async def observe(self, place: Place, address: Address) -> Observation:
        """One look; the last one again where it is younger than five seconds."""
        latest = self._latest.get(place.key)
        now = self._context.clock.now()
        if latest is not None and now - latest.at < BETWEEN_READS:
            return latest
        found = await self._find(address)
        if isinstance(found, Nowhere):
            return Observation(now, (_gone(found.detail, found.reason),), where=place.label)
        sight = await self._hands(found).look()
        now = self._context.clock.now()
        if isinstance(sight, Trouble):
            return Observation(now, (_gone(str(sight), HoldReason.UNREACHABLE),), where=place.label)
        observation = self._observation(sight, found, place)
        self._latest[place.key] = observation
        return observation

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """One attempt by the plan, alone with the machine's focus and clipboard."""
        self._latest.pop(place.key, None)
        found = await self._find(address)
        if isinstance(found, Nowhere):
            return Refused(found.reason, found.detail, place.label)
        fence = wake.fence or place.fence
        if fence is not None and fence != found.place.fence:
            if wake.progress is Progress.UNTOUCHED:
                return Refused(HoldReason.NO_AGENT, "another process is there now", place.label)
            return Unknown({"why": "another process is there now, and the text may have been typed before"})
        task = Task(
            surface=found.surface,
            text=wake.text,
            where=place.label,
            progress=wake.progress,
            staged_ago=wake.staged_ago,
            has_tab=bool(found.tab),
        )
        try:
            with pane_lock(self._desktop, 0, "desktop"):
                return await perform(task, self._hands(found), wake.mark, journal, self._context.typing_quiet)
        except PaneIsTaken as taken:
            return Refused(HoldReason.BUSY_PANE, str(taken), place.label)

    async def probe(self) -> Sequence[Check]:
        """Checks for `doctor`: the program, Automation, Accessibility."""
        return await checks(self._scripting)

    def _hands(self, found: _Found) -> Hands:
        if found.surface is Surface.APPLICATION:
            return ApplicationHands(self._scripting, found.occupant.pid, found.tab)
        return TerminalHands(
            self._scripting,
            found.surface,
            found.session,
            found.occupant,
            self._profiles,
            self._context.typing_quiet,
        )

    def _observation(self, sight: ScreenReading, found: _Found, place: Place) -> Observation:
        return Observation(
            at=self._context.clock.now(),
            evidence=evidence_of(sight, self._context.typing_quiet),
            fingerprint=sight.fingerprint,
            where=place.label,
            capabilities=(found.occupant.harness,) if found.occupant.harness else (),
        )

    async def _find(self, address: Address) -> _Found | Nowhere:
        if not self._scripting.is_there:
            return Nowhere(HoldReason.UNREACHABLE, _NOT_HERE)
        meant = meant_by(address)
        if meant is None:
            return Nowhere(HoldReason.UNREACHABLE, "no application or session is named: set `pane` in [targets]")
        if isinstance(meant, SessionName):
            return await self._find_session(meant, address.harness)
        return await self._find_application(meant)

    async def _find_session(self, meant: SessionName, harness: str) -> _Found | Nowhere:
        sessions = await self._scripting.run(f"{meant.surface}_list")
        if isinstance(sessions, Trouble):
            return Nowhere(HoldReason.UNREACHABLE, str(sessions), meant.session)
        named = [one for one in sessions if meant.session in one[:2]]
        if len(named) != 1:
            reason = HoldReason.AMBIGUOUS if named else HoldReason.UNREACHABLE
            return Nowhere(reason, f"{len(named)} sessions of {meant.surface} are called so", meant.session)
        session, tty = named[0][:2]
        occupant = await occupant_of(tty, self._profiles, harness, self._context.environment, self._context.timeout)
        fence = Binding(
            socket=f"osascript:{meant.surface}",
            server_pid=0,
            session_id=tty,
            pane_id=session,
            pane_pid=occupant.pid,
            pane_started=occupant.started,
            agent_pid=occupant.pid,
            agent_started=occupant.started,
        )
        place = Place(f"osascript:{meant.surface}:{session}", f"{meant.surface} {tty}", fence, _ONE_LINE)
        return _Found(place, meant.surface, occupant, session)

    async def _find_application(self, meant: ApplicationName) -> _Found | Nowhere:
        processes = await self._scripting.run("app_find", meant.name)
        if isinstance(processes, Trouble):
            reason = HoldReason.UNREACHABLE
            return Nowhere(reason, str(processes), meant.name)
        if any(word.lower() in TERMINAL_APPLICATIONS for one in processes for word in one[1:]):
            why = f"{meant.name} is a terminal, and nobody can tell which program has it: run the agent in tmux there"
            return Nowhere(HoldReason.UNREACHABLE, why, meant.name)
        pids = [int(one[0]) for one in processes]
        if meant.user_data:
            pids = await asyncio.to_thread(_with_user_data, pids, meant.user_data)
        if len(pids) != 1:
            reason = HoldReason.AMBIGUOUS if pids else HoldReason.UNREACHABLE
            trouble = Trouble(Kind.PLACE, f"{len(pids)} processes are called so", "start it, or name it by bundle id")
            return Nowhere(reason, str(trouble), meant.name)
        pid, started = pids[0], await asyncio.to_thread(started_at, pids[0])
        fence = Binding("osascript:app", pid, "", meant.tab, pid, started, pid, started)
        tab = f" tab {meant.tab}" if meant.tab else ""
        place = Place(f"osascript:app:{pid}:{meant.tab}", f"{meant.name}{tab}", fence)
        return _Found(place, Surface.APPLICATION, Occupant("", pid, started), tab=meant.tab)


def _with_user_data(pids: Sequence[int], directory: str) -> list[int]:
    """Those whose command line names that data directory."""
    found = []
    for pid in pids:
        try:
            words = psutil.Process(pid).cmdline()
        except psutil.Error:
            continue
        if f"--user-data-dir={directory}" in words or directory in words:
            found.append(pid)
    return found


def _gone(why: str, hold: HoldReason) -> Evidence:
    return Evidence(
        "place-gone", PresenceState.UNKNOWN, saw=why, region="place", source=PresenceSource.OS_UI_PROBE, hold=hold
    )
