"""What a restless person does to the panes of a house, by chance, and what they do when a hold tells them to."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from tests.torture.house import SHELL, House, Spot, Tenant
from tests.torture.rig import going_on
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import DaemonProcess
from wake_bridge.testing.crash_points import Halt

MOST_LOST: Final = 3
"""Identities whose pane is closed at a time; a person starts one anew before more are closed."""

MOST_STRANGERS: Final = 2
MOST_SHELLS: Final = 4
TAKES_THE_LINE: Final = 7
"""Exit code of a `bind` that [targets] overrides."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing a person does.

    Attributes:
        name: the row.
        weight: how often, beside the others.
        do: does it to one tenant; answers whether it could be done.
        wants: the tenants it can be done to.
        is_sudden: it takes so little time that it can be done between two steps of a wake.
    """

    name: str
    weight: float
    do: Callable[[Person, Tenant], bool]
    wants: Callable[[Tenant], bool]
    is_sudden: bool = True


def _has_pane(tenant: Tenant) -> bool:
    return not tenant.is_lost


def _is_up(tenant: Tenant) -> bool:
    return tenant.is_up


def _has_shell(tenant: Tenant) -> bool:
    return not tenant.is_lost and not tenant.is_up


def _is_lost(tenant: Tenant) -> bool:
    return tenant.is_lost


class Person:
    """One person at the keys of a tmux server.

    Args:
        house: whose panes.
        chance: all of it.

    `daemon` and `halt` are those that run now; `story` says what was done, newest last.
    """

    def __init__(self, house: House, chance: random.Random) -> None:
        self.house = house
        self.chance = chance
        self.daemon: DaemonProcess | None = None
        self.halt: Halt | None = None
        self.story: list[str] = []
        self._numbers = count(1)

    @property
    def tenants(self) -> list[Tenant]:
        """All twelve."""
        return [*self.house.tenants.values()]

    def does(self, tenant: Tenant | None = None) -> str:
        """One thing, to somebody or to whom it may hit; its name, empty if nothing could be done."""
        deeds = [
            one
            for one in DEEDS
            if (tenant is None or one.is_sudden) and any(map(one.wants, self.tenants if tenant is None else [tenant]))
        ]
        deed = self.chance.choices(deeds, [one.weight for one in deeds])[0]
        whom = tenant or self.chance.choice([one for one in self.tenants if deed.wants(one)])
        before = whom.pane
        try:
            is_done = deed.do(self, whom)
        except RuntimeError as refused:
            # tmux has no room for one more pane, or a window of that name
            self.tells(f"{deed.name} of {whom.identity}: {refused}")
            return ""
        if is_done:
            self.tells(f"{deed.name}: {whom.identity} {before}{f' -> {whom.pane}' if whom.pane != before else ''}")
        return deed.name if is_done else ""

    def tells(self, line: str) -> None:
        """Write down what was done."""
        self.story.append(f"{time.time() * 1000:.0f} {line}")

    def tmux(self, *arguments: str) -> str:
        """One command."""
        return self.house.tmux.run(*arguments)

    def some_name(self, tenant: Tenant, part: int) -> str:
        """A new name for its session (0) or window (1): one of its own, a fresh one, or, rarely, one that others have."""
        own, others = tenant.name.split(":"), [one.name.split(":") for one in self.tenants]
        dice = self.chance.random()
        names = [one[part] for one in ([own] if dice < 0.35 else others if dice < 0.5 else []) if len(one) > part]
        given = [one for one in names if one and not one[0].isdecimal() and one[0] != "%"]
        return self.chance.choice(given) if given else f"w{next(self._numbers)}"

    def other_spot(self, tenant: Tenant) -> Spot | None:
        """Some other pane."""
        spots = self.house.spots()
        mine = next(one for one in spots if one.pane == tenant.pane)
        others = [one for one in spots if one.window != mine.window]
        return self.chance.choice(others) if others else None

    def tidies(self, pane: str) -> None:
        """All panes of a window get their share of it."""
        self.tmux("select-layout", "-t", pane, "tiled")

    # -- start anew ------------------------------------------------------------------------------------------------

    def new_pane(self, line: str) -> str:
        """A pane anywhere: beside others, in a new window, or in a session of its own."""
        made = ("-d", "-P", "-F", "#{pane_id}")
        where = self.chance.choice(self.house.spots())
        match self.chance.randrange(3):
            case 0:
                pane = self.tmux("split-window", *made, "-t", where.pane, line).strip()
                self.tidies(pane)
            case 1:
                pane = self.tmux("new-window", *made, "-t", f"{where.session}:", line).strip()
            case _:
                session = f"s{next(self._numbers)}"
                pane = self.tmux("new-session", *made, "-x", "200", "-y", "60", "-s", session, line).strip()
        return pane

    def starts_by_name(self, tenant: Tenant) -> bool:
        """Where its name leads, if that is a name that lasts and leads nowhere now."""
        session, _, inside = tenant.name.partition(":")
        window = inside.partition(".")[0]
        spots = self.house.spots()
        is_taken = any(one.is_called(tenant.name) or one.is_called(f"{session}:{window}") for one in spots)
        if tenant.name[0] == "%" or inside.isdecimal() or "." in inside or is_taken:
            return False
        before = tenant.starts()
        tenant.pane = self.house.opened(tenant.name, tenant.line())
        self.house.comes_up(tenant, before)
        return True

    def starts_somewhere(self, tenant: Tenant, *, says_first: bool) -> bool:
        """In a new pane; the bridge is told of it before the agent is started there, or right after."""
        before = tenant.starts()
        if says_first:
            tenant.pane = self.new_pane(f"cd {tenant.work}; exec {SHELL}")
            self.says_where(tenant)
            self.house.starts_in_shell(tenant)
        else:
            tenant.pane = self.new_pane(tenant.line())
            self.house.comes_up(tenant, before)
            self.says_where(tenant)
        return True

    def says_where(self, tenant: Tenant) -> None:
        """`bind` inside its pane; where [targets] wins, what that says is corrected."""
        tmux = self.house.tmux
        inside = {"TMUX": f"{tmux.socket_path},{tmux.server_pid},0", "TMUX_PANE": tenant.pane}
        expect = TAKES_THE_LINE if tenant.in_targets else 0
        with going_on(self.halt):
            answer = self.house.plain.run("bind", tenant.identity, expect=None, environment=inside)
        # where the line is right already there is nothing to refuse
        assert answer.returncode in {expect, 0}, f"bind of {tenant.identity}: {answer}"
        if answer.returncode == TAKES_THE_LINE:
            self.house.moves(tenant, self.lasting_name(tenant))
            if self.daemon is not None:
                self.daemon.reload()

    def lasting_name(self, tenant: Tenant) -> str:
        """What a person writes into [targets]: the pane's id, or a name that is its own."""
        spot = self.house.spot(tenant.pane)
        is_alone = sum(one.window == spot.window for one in self.house.spots()) == 1
        if not is_alone or self.chance.random() < 0.5:
            return tenant.pane
        window = f"n{next(self._numbers)}"
        self.tmux("rename-window", "-t", tenant.pane, window)
        return f"{spot.session_name}:{window}"


# -- deeds -----------------------------------------------------------------------------------------------------------


def rename_window(person: Person, tenant: Tenant) -> bool:
    """Another name for the window."""
    person.tmux("rename-window", "-t", tenant.pane, person.some_name(tenant, 1))
    return True


def rename_session(person: Person, tenant: Tenant) -> bool:
    """Another name for the session."""
    spot = person.house.spot(tenant.pane)
    person.tmux("rename-session", "-t", spot.session, person.some_name(tenant, 0))
    return True


def swap_panes(person: Person, tenant: Tenant) -> bool:
    """It changes places with another pane."""
    other = person.other_spot(tenant)
    if other is None:
        return False
    person.tmux("swap-pane", "-d", "-s", tenant.pane, "-t", other.pane)
    return True


def swap_windows(person: Person, tenant: Tenant) -> bool:
    """Its window changes places with another one."""
    other = person.other_spot(tenant)
    if other is None:
        return False
    person.tmux("swap-window", "-d", "-s", tenant.pane, "-t", other.pane)
    return True


def move_window(person: Person, tenant: Tenant) -> bool:
    """Its window goes to another session, or all windows of its session are numbered anew."""
    spot = person.house.spot(tenant.pane)
    other = person.other_spot(tenant)
    if other is None or person.chance.random() < 0.4:
        person.tmux("move-window", "-r", "-t", f"{spot.session}:")
    else:
        person.tmux("move-window", "-d", "-s", tenant.pane, "-t", f"{other.session}:")
    return True


def break_pane(person: Person, tenant: Tenant) -> bool:
    """It gets a window of its own."""
    spots = person.house.spots()
    spot = next(one for one in spots if one.pane == tenant.pane)
    if sum(one.window == spot.window for one in spots) == 1:
        return False
    person.tmux("break-pane", "-d", "-s", tenant.pane, "-n", person.some_name(tenant, 1))
    return True


def join_pane(person: Person, tenant: Tenant) -> bool:
    """It goes beside another pane, before or behind it."""
    other = person.other_spot(tenant)
    if other is None:
        return False
    before = ("-b",) if person.chance.random() < 0.5 else ()
    person.tmux("join-pane", "-d", *before, "-s", tenant.pane, "-t", other.pane)
    person.tidies(tenant.pane)
    return True


def split_for_shell(person: Person, tenant: Tenant) -> bool:
    """A shell beside it, before or behind it."""
    shells = person.house.strangers.shells
    if len(shells) >= MOST_SHELLS:
        return close_shell(person, tenant)
    before = ("-b",) if person.chance.random() < 0.5 else ()
    line = f"exec {SHELL}"
    pane = person.tmux("split-window", "-d", *before, "-P", "-F", "#{pane_id}", "-t", tenant.pane, line).strip()
    shells.add(pane)
    person.tidies(pane)
    return True


def close_shell(person: Person, tenant: Tenant) -> bool:  # noqa: ARG001 - whichever it is
    """A shell is closed: what stands behind it moves up."""
    panes = person.house.empty_panes()
    if not panes:
        return False
    pane = person.chance.choice(panes)
    person.house.looks_at_shell(pane)
    person.tmux("kill-pane", "-t", pane)
    person.house.strangers.shells.discard(pane)
    return True


def split_for_stranger(person: Person, tenant: Tenant) -> bool:
    """An agent that is nobody's comes beside it, or leaves.

    None comes while somebody's pane is closed: a new agent where a name leads is then the one that was started in its
    stead, for all that anybody can know.
    """
    strangers = person.house.strangers
    if any(one.is_lost or not one.is_up for one in person.tenants):
        return False
    if len(strangers.agents) >= MOST_STRANGERS:
        pane = person.chance.choice([*strangers.agents])
        person.tmux("kill-pane", "-t", pane)
        del strangers.agents[pane]
        return True
    fake = FakeHarness(person.house.directory, f"stranger{len(strangers.all_agents)}")
    before = ("-b",) if person.chance.random() < 0.5 else ()
    line = f"cd {tenant.work}; {fake.command_before_shell()}"
    pane = person.tmux("split-window", "-d", *before, "-P", "-F", "#{pane_id}", "-t", tenant.pane, line).strip()
    strangers.agents[pane] = fake
    strangers.all_agents.append(fake)
    person.tidies(pane)
    fake.waits_for("started", timeout=60)
    fake.control(60)
    return True


def kill_pane(person: Person, tenant: Tenant) -> bool:
    """Its pane is closed, with the agent in it."""
    if sum(one.is_lost for one in person.tenants) >= MOST_LOST:
        return False
    person.tmux("kill-pane", "-t", tenant.pane)
    tenant.pane, tenant.is_up = "", False
    return True


def respawn(person: Person, tenant: Tenant) -> bool:
    """The same agent is started anew in its pane."""
    before = tenant.starts()
    person.tmux("respawn-pane", "-k", "-t", tenant.pane, tenant.line())
    person.house.comes_up(tenant, before)
    return True


def quit_agent(person: Person, tenant: Tenant) -> bool:
    """The agent is left for its shell."""
    tenant.fake.shows("exit")
    tenant.is_up = False
    person.house.waits_for_shell(tenant.pane)
    return True


def quit_and_start(person: Person, tenant: Tenant) -> bool:
    """The agent is left, and started again from its shell."""
    quit_agent(person, tenant)
    person.house.starts_in_shell(tenant)
    return True


def start_again(person: Person, tenant: Tenant) -> bool:
    """The agent that was left for its shell is started there again."""
    person.house.starts_in_shell(tenant)
    return True


def start_anew(person: Person, tenant: Tenant) -> bool:
    """An agent for an identity whose pane was closed: where its name leads, or anywhere, and that is said."""
    dice = person.chance.random()
    if dice < 0.4 and person.starts_by_name(tenant):
        return True
    return person.starts_somewhere(tenant, says_first=dice < 0.75)


DEEDS: Final = (
    Deed("rename-window", 2.5, rename_window, _has_pane),
    Deed("rename-session", 2, rename_session, _has_pane),
    Deed("swap-pane", 2, swap_panes, _has_pane),
    Deed("swap-window", 1, swap_windows, _has_pane),
    Deed("move-window", 1.5, move_window, _has_pane),
    Deed("break-pane", 2, break_pane, _has_pane),
    Deed("join-pane", 2, join_pane, _has_pane),
    Deed("split-window, or close a shell", 2, split_for_shell, _has_pane),
    Deed("close a shell", 1.5, close_shell, _has_pane),
    Deed("a stranger's agent comes or leaves", 0.7, split_for_stranger, _has_pane, is_sudden=False),
    Deed("kill-pane", 3, kill_pane, _has_pane),
    Deed("respawn-pane", 1.5, respawn, _is_up),
    Deed("quit to the shell", 1, quit_agent, _is_up),
    Deed("quit, and start again", 1, quit_and_start, _is_up),
    Deed("start again in the shell", 3, start_again, _has_shell, is_sudden=False),
    Deed("start anew", 5, start_anew, _is_lost, is_sudden=False),
)
