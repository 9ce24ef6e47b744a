"""What can happen to a host among several, to its way to the database, to the database, and to clocks."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

from tests.namespaces import Cut
from tests.postgres_standby import Standby
from tests.torture.fleet import Fleet, Host
from tests.torture.oracle import comes_true
from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Identity
from wake_bridge.ports.leases import ALIVE_FOR, KEY_WITHIN
from wake_bridge.storage.graph.postgres.leases import PostgresHostDesk
from wake_bridge.testing import HUNG
from wake_bridge.testing.crash_points import CRASH

Trouble = Callable[[Fleet, Host, random.Random], None]
"""Plays one trouble to its end: afterwards everything runs again."""

STEPS: Final = (
    *(
        f"{step}:{when}"
        for step in ("intent_stage", "staged", "intent_submit", "submitted")
        for when in ("before", "after")
    ),
    *(f"{step}:before" for step in ("matched", "opened", "dispatched", "locked", "probed", "settled")),
    "settled:after",
)
"""Where a daemon is killed: fifteen moments of a wake."""

HOUR: Final = 3600


def nothing(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Mail alone."""
    del fleet, host, chance


def kill(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Kill -9 of a daemon, and a new one a moment later."""
    del fleet
    time.sleep(chance.random())
    host.daemon.kill()
    time.sleep(chance.random() * 2)
    host.restarts()


def kill_for_long(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Kill -9 of a daemon that stays away until others have taken over."""
    time.sleep(chance.random())
    host.daemon.kill()
    comes_true(lambda: host.name not in fleet.serving(), HUNG)
    host.restarts()


def stop_of(seconds: float) -> Trouble:
    """SIGSTOP of a daemon."""

    def stop(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet
        time.sleep(chance.random())
        _stand_still(host.daemon.pid, seconds)

    return stop


def stop_at_commit(seconds: float) -> Trouble:
    """SIGSTOP of a daemon as soon as the database has one of its commits: its key is about to follow."""

    def stop(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del chance
        _comes_to_a_commit(fleet, host)
        _stand_still(host.daemon.pid, seconds)

    return stop


def _comes_to_a_commit(fleet: Fleet, host: Host) -> None:
    count = "SELECT count(*) FROM commit_history WHERE host = %s"
    before = fleet.rows(count, (host.name,))
    comes_true(lambda: fleet.rows(count, (host.name,)) != before, 10, 0.001)


def _stand_still(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def stop_tmux(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """SIGSTOP of a host's tmux server for longer than a key may take."""
    del fleet
    time.sleep(chance.random())
    _stand_still(host.world.tmux.server_pid, KEY_WITHIN + 0.5)


def move(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """A person moves an agent."""
    # as `hosts move` does; a host that is away just now is refused
    with closing(PostgresHostDesk(GraphUrl(fleet.url))) as desk, suppress(RefusedForSafety):
        desk.move(Identity(f"@{chance.choice(fleet.names)}"), host.name)


def gone(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """A daemon is killed, a person says that its host will not come back (`hosts gone`), and it comes back."""
    time.sleep(chance.random())
    host.daemon.kill()
    with closing(PostgresHostDesk(GraphUrl(fleet.url))) as desk:
        desk.gone(host.name)
    time.sleep(chance.random() * 5)
    host.restarts()


def cut_for(seconds: float) -> Trouble:
    """A partition between a host and the database: what was under way is lost."""

    def cut(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet
        assert host.line is not None
        time.sleep(chance.random())
        host.line.cut()
        time.sleep(seconds)
        host.line.mend()

    return cut


def stall_for(seconds: float) -> Trouble:
    """A partition that ends as those of TCP do: what was under way arrives, late, whoever has given it up meanwhile."""

    def stall(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet
        assert host.line is not None
        time.sleep(chance.random())
        host.line.stall()
        time.sleep(seconds)
        host.line.mend()

    return stall


def break_in_commit(part: float, seconds: float = 0.0) -> Trouble:
    """The line breaks in the middle of a commit, and for so long there is no other."""

    def cut(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet, chance
        assert host.line is not None
        host.line.breaks_in_commit(part)
        if host.line.broken.wait(10) and seconds:
            host.line.cut()
            time.sleep(seconds)
        host.line.mend()

    return cut


def cable_cut(way: Cut, seconds: float, *, at_commit: bool = False, ends_there: bool = False) -> Trouble:
    """The cable between a host's network and the server's is cut for so long.

    Args:
        way: how.
        seconds: for how long at least; a host that is cut off for longer than it counts as alive must have said so, and
            others must serve.
        at_commit: as soon as the database has one of its commits.
        ends_there: the server gives up the host's connections meanwhile, and the host knows nothing of that.
    """

    def cut(fleet: Fleet, host: Host, chance: random.Random) -> None:
        assert host.cable is not None
        if at_commit:
            _comes_to_a_commit(fleet, host)
        else:
            time.sleep(chance.random())
        host.cable.cut(way)
        began = time.monotonic()
        if ends_there:
            end_backends(fleet, host, chance)
        if seconds > ALIVE_FOR:
            _judge_cut_off(fleet, host)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        host.cable.mend()

    return cut


def _judge_cut_off(fleet: Fleet, host: Host) -> None:
    """Others serve, and the host that is cut off holds what it has, and says why."""
    if not comes_true(lambda: host.name not in fleet.serving(), HUNG):
        fleet.broken.append(f"nobody took over from {host.name}: {fleet.standing()}")
    if not comes_true(lambda: host.last_word() == "graph_away", HUNG):
        fleet.broken.append(f"{host.name} was cut off and did not say so: {host.daemon.log()[-2000:]}")
    statement = "SELECT hold_reason FROM delivery WHERE state = 'DISPATCHED'"
    if not comes_true(lambda: (None,) not in host.ledger(statement), HUNG):
        fleet.broken.append(f"{host.name} was cut off, and does not say why it waits: {fleet.standing()}")
    fleet.held.update(str(reason) for (reason,) in host.ledger(statement))


def end_backends(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Every connection is ended by the server, also within a transaction."""
    del host
    time.sleep(chance.random())
    fleet.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def kill_server(fleet: Fleet, host: Host, chance: random.Random) -> None:
    """Kill -9 of the database server, which recovers."""
    del host
    time.sleep(chance.random())
    fleet.server.kill()
    time.sleep(chance.random())
    fleet.server.restart()


def fail_over(*, is_waited_for: bool) -> Trouble:
    """Kill -9 of the database server, and a streaming replica takes its place; or one that lags by a second or two."""

    def take_over(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del host
        standby = Standby.of(fleet.server, is_waited_for=is_waited_for)
        comes_true(standby.is_current, 2 if is_waited_for else HUNG)
        fleet.send_more()
        if not is_waited_for:
            time.sleep(chance.random())
            standby.falls_behind()
        time.sleep(chance.random() * 2)
        fleet.fails_over(standby)

    return take_over


def set_clock(seconds: int, *, with_kill: bool = False) -> Trouble:
    """A host's wall clock is set, for its daemon and its tmux server, in the middle of wakes; and its daemon dies on it."""

    def set_it(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet
        assert host.clock is not None
        time.sleep(chance.random())
        host.clock.set(seconds)
        if with_kill:
            time.sleep(chance.random())
            host.restarts()
        time.sleep(chance.random() * 2)
        host.clock.set(0)
        if with_kill:
            time.sleep(chance.random())
            host.restarts()

    return set_it


def _kill_at(point: str) -> Trouble:
    def crash(fleet: Fleet, host: Host, chance: random.Random) -> None:
        del fleet, chance
        comes_true(lambda: host.daemon.process.poll() is not None, 10)
        host.restarts()

    crash.__doc__ = point
    return crash


Troubles = dict[str, Trouble]

KILLS: Final[Troubles] = {f"kill -9 {point}": _kill_at(point) for point in STEPS}
STOPS: Final[Troubles] = {
    "nothing": nothing,
    "kill -9 of a daemon": kill,
    "kill -9 of a daemon until others serve": kill_for_long,
    "kill -9 of a daemon and `hosts gone`": gone,
    "SIGSTOP of a daemon for 3 s": stop_of(3.0),
    "SIGSTOP of a daemon for 25 s": stop_of(25.0),
    "SIGSTOP of a daemon at a commit for 3 s": stop_at_commit(3.0),
    "SIGSTOP of a daemon at a commit for 18 s": stop_at_commit(18.0),
    "SIGSTOP of a tmux server": stop_tmux,
    "an agent moved": move,
}
LINES: Final[Troubles] = {
    "line cut for 3 s": cut_for(3.0),
    "line cut for 25 s": cut_for(25.0),
    "line stalled for 3 s": stall_for(3.0),
    "line stalled for 25 s": stall_for(25.0),
    "line broken before a commit": break_in_commit(0.0),
    "line broken within a commit": break_in_commit(0.5),
    "line broken after a commit, before its answer": break_in_commit(1.0),
    "line broken after a commit for 18 s": break_in_commit(1.0, 18.0),
    "every connection ended": end_backends,
}
CABLES: Final[Troubles] = {
    **{f"{way.value} for {seconds} s": cable_cut(way, seconds) for way in Cut for seconds in (3, 25)},
    **{f"{way.value} at a commit for 18 s": cable_cut(way, 18, at_commit=True) for way in (Cut.SILENT, Cut.UNANSWERED)},
    "all packets dropped for 18 s, its connections ended there": cable_cut(Cut.SILENT, 18, ends_there=True),
}
SERVERS: Final[Troubles] = {
    "kill -9 of the database server": kill_server,
    "failover to a replica that is waited for": fail_over(is_waited_for=True),
    "failover to a replica that lags": fail_over(is_waited_for=False),
}
CLOCKS: Final[Troubles] = {
    f"clock {'an hour ahead' if seconds > 0 else 'an hour back'}{', its daemon killed' if with_kill else ''}": set_clock(
        seconds, with_kill=with_kill
    )
    for seconds in (HOUR, -HOUR)
    for with_kill in (False, True)
}


def crash_environment(name: str) -> dict[str, str]:
    """What a daemon is started with that is to die at the step of that trouble; empty for all others."""
    return {CRASH: name.removeprefix("kill -9 ")} if name in KILLS else {}
