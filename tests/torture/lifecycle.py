"""Starts, stops, watchdogs and reloads of a real daemon, again and again."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.torture.machine import bare_start, waited_for_processor
from tests.torture.oracle import RESULTS as RESULTS_OF_MAIL
from tests.torture.oracle import comes_true, committed, reckon, waits_until_at_rest
from tests.torture.pen import Pen, Plan
from tests.torture.report import Table, Verdict
from tests.torture.rig import SENDER, Rig
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Delivery
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import stuck_tail
from wake_bridge.testing.service_manager import NotifyListener

READY_WITHIN: Final = 20
"""Bare starts of Python: a second on a machine where one takes 50 ms."""
STOPS_WITHIN: Final = 5.0
RESTARTS_WITHIN: Final = 30.0
WATCHDOG: Final = 3.0
"""Seconds without a sign of life after which the service manager of these trials starts the daemon anew."""

ABOUT_CYCLES: Final = (
    "Started as by a service manager, told to end at a random moment up to 4 s later, with messages on their way to two"
    " agents. READY must come within 20 bare starts of Python (1 s where one takes 50 ms; without the time that it waited for a"
    " processor that had other work), SIGTERM must end it within 5 s with exit code"
    " 0, and what stands in a composer afterwards must be what the ledger calls staged. In the end everything arrives once."
)
ABOUT_WATCHDOG: Final = (
    "A stand-in for the service manager kills and restarts a daemon that gives no sign of life for 3 s (systemd itself was not"
    " to be had). The graph hangs, or the process is stopped; a message is sent. The daemon that follows must be ready within"
    " 30 s of that, and the message must arrive once."
)
ABOUT_RELOADS: Final = (
    "While five messages a second come for two agents, the configuration is broken in one way after the other and the daemon"
    " told to read it. Each must be refused and logged; the same process goes on by the old one; everything arrives once."
)


# -- starts and stops ------------------------------------------------------------------------------------------------


def cycle(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """So many starts and stops."""
    results = ("ready and ended in time", "broken")
    table = Table("Starts and stops", ABOUT_CYCLES, "ended", results)
    chance = random.Random(seed)
    began = time.monotonic()
    starts: list[float] = []
    stops: list[float] = []
    with Rig(directory / "cycles", tmux, ["cycle0", "cycle1"], lease=4) as rig:
        for number in range(count):
            if number % 2:
                rig.send(chance.choice(rig.agents), f"cycle {number}")
            wrongs = run_cycle(rig, chance.uniform(0.0, 4.0), starts, stops)
            table.add("at a random moment", Verdict(results[1] if wrongs else results[0], tuple(wrongs)))
        daemon = rig.daemon()
        row = "in the end"
        table.demand(waits_until_at_rest(rig, 90), row, f"it never comes to rest\n{daemon.log()[-2000:]}")
        found = reckon(rig)
        for wrong in (*found.wrongs, *(one for verdict in found.verdicts.values() for one in verdict.violations)):
            table.demand(holds=False, row=row, broken=wrong)
    starts.sort()
    stops.sort()
    table.measures["ready after"] = f"p50 {starts[len(starts) // 2]:.2f} s, longest {starts[-1]:.2f} s"
    table.measures["ended after"] = f"p50 {stops[len(stops) // 2]:.2f} s, longest {stops[-1]:.2f} s"
    table.seconds = time.monotonic() - began
    return table


def run_cycle(rig: Rig, lives: float, starts: list[float], stops: list[float]) -> list[str]:
    """One start and one stop; what was wrong."""
    wrongs = []
    unit = bare_start()
    with NotifyListener() as manager:
        started = time.monotonic()
        daemon = rig.plain.daemon_under_way(environment=manager.environment)
        starts.append(manager.waits_for("READY=1", timeout=90) - started)
        waited = waited_for_processor(daemon.pid)
        if starts[-1] - waited > READY_WITHIN * unit:
            wrongs.append(
                f"ready after {starts[-1]:.2f} s, {waited:.2f} s of which it waited for a processor; "
                f"a bare start takes {unit:.3f} s"
            )
        time.sleep(lives)
        asked = time.monotonic()
        code = daemon.stop(60)
        stops.append(time.monotonic() - asked)
    if code or stops[-1] > STOPS_WITHIN:
        wrongs.append(f"it ended with {code} after {stops[-1]:.1f} s\n{daemon.log()[-1000:]}")
    for agent in rig.agents:
        text = agent.fake.state()["composer"]
        digests = [one.digest for one in _unsettled(rig) if one.identity == agent.identity]
        if text and text not in digests:
            wrongs.append(f"in the composer stands {text!r}, in the ledger {digests!r}")
    return wrongs


def _unsettled(rig: Rig) -> list[Delivery]:
    with closing(LedgerStore.open(rig.plain.state_dir, read_only=True)) as ledger:
        return ledger.unsettled()


# -- the watchdog ----------------------------------------------------------------------------------------------------


class Keeper:
    """What a service manager does about the watchdog: kills and restarts a daemon that gives no sign of life.

    `daemon` is the present one, `restarts` how often it was started anew.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.manager = NotifyListener(watchdog=WATCHDOG)
        self.restarts = 0
        self.daemon = self._start()

    def _start(self) -> DaemonProcess:
        self._before = len(self.manager.said("READY=1"))
        return self._sandbox.daemon_under_way(environment=self.manager.environment)

    def watch(self, until: Callable[[], object], timeout: float) -> bool:
        """Keep it alive until something is so; answers whether it came to be."""
        deadline = time.monotonic() + timeout
        while not until():
            now = time.monotonic()
            if now > deadline:
                return False
            signs = [*self.manager.said("WATCHDOG=1"), *self.manager.said("READY=1")]
            is_up = self.is_ready()
            if self.daemon.process.poll() is not None or (is_up and now - max(signs) > WATCHDOG):
                self.daemon.kill()
                self.restarts += 1
                self.daemon = self._start()
            time.sleep(0.05)
        return True

    def is_ready(self) -> bool:
        """Whether the present one has said so."""
        return len(self.manager.said("READY=1")) > self._before


def starve(directory: Path, tmux: PrivateTmux, *, times: int) -> Table:
    """Each way to give no sign of life so many times."""
    results = ("started anew, arrived once", "broken")
    ways = ("the graph hangs", "the process is stopped")
    table = Table("A daemon without a sign of life", ABOUT_WATCHDOG, "because", results, ways)
    began = time.monotonic()
    took: list[float] = []
    with Rig(directory / "starved", tmux, ["starved"], lease=4) as rig:
        stuck = rig.directory / "stuck"
        sandbox = Sandbox(rig.directory, tmux.socket_name, (sys.executable, *stuck_tail.COMMAND))
        sandbox.environment[stuck_tail.STUCK] = str(stuck)
        keeper = Keeper(sandbox)
        try:
            keeper.watch(keeper.is_ready, 90)
            for way in [way for _ in range(times) for way in ways]:
                wrongs = run_starved(rig, keeper, way, stuck, took)
                table.add(way, Verdict(results[1] if wrongs else results[0], tuple(wrongs)))
        finally:
            stuck.unlink(missing_ok=True)
            keeper.daemon.kill()
            keeper.manager.close()
        for wrong in reckon(rig).wrongs:
            table.demand(holds=False, row=ways[0], broken=wrong)
    table.measures["ready again after"] = f"at most {max(took):.1f} s" if took else "never"
    table.seconds = time.monotonic() - began
    return table


def run_starved(rig: Rig, keeper: Keeper, way: str, stuck: Path, took: list[float]) -> list[str]:
    """One trial; what was wrong."""
    wrongs = []
    (agent,) = rig.agents
    before = keeper.restarts
    if way == "the graph hangs":
        stuck.touch()
    else:
        keeper.daemon.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    message = rig.send(agent, way)
    keeper.watch(lambda: keeper.restarts > before, RESTARTS_WITHIN * 2)
    stuck.unlink(missing_ok=True)
    keeper.watch(lambda: keeper.restarts > before and keeper.is_ready(), RESTARTS_WITHIN * 2)
    took.append(time.monotonic() - began)
    if took[-1] > RESTARTS_WITHIN:
        wrongs.append(f"ready again after {took[-1]:.1f} s")
    arrived = keeper.watch(lambda: (one := rig.standing(message)) is not None and one.is_settled, 60)
    standing = rig.standing(message)
    delivery = standing.delivery if standing else None
    if not arrived or delivery is None or agent.submits_of(delivery.id) != 1:
        wrongs.append(f"it did not arrive once:\n{rig.story(message)}\n{keeper.daemon.log()[-2000:]}")
    return wrongs


# -- reloads ---------------------------------------------------------------------------------------------------------

IN_FORCE: Final = 0.5
"""Seconds that a broken configuration lies there."""

MISTAKES: Final = (
    "[graph]\npoll_intervall = 1\n",
    '[delivery]\nlease = "long"\n',
    "[delivery]\nadapter_timeout = 100\nlease = 5\n",
    "[limits\nstorm = 8\n",
    '[policy]\nquiet_hours = "22-7"\n',
    '[screens]\ndirectory = "/nowhere/at/all"\n',
    '[targets."not an identity"]\npane = "a"\n',
    "\x00\x01\x02",
    "[coalesce]\nwindow = -1\n",
    '[human]\ncommand = "notify-send"\n',
)


def reload_badly(directory: Path, tmux: PrivateTmux, *, times: int, seed: int) -> list[Table]:
    """Each of `MISTAKES` so many times, under load."""
    results = ("refused, nothing else happened", "broken")
    table = Table("Bad configurations", ABOUT_RELOADS, "mistake", results)
    mail = Table("Mail meanwhile", ABOUT_RELOADS, "messages", RESULTS_OF_MAIL)
    began = time.monotonic()
    with Rig(directory / "reload", tmux, ["reload0", "reload1"]) as rig:
        daemon = rig.daemon()
        good = rig.plain.config_file.read_bytes()
        plan = Plan(SENDER, [one.identity for one in rig.agents], 1_000_000, per_second=5, seed=seed)
        with Pen(rig.plain.graph, plan) as pen:
            comes_true(lambda: committed(rig.plain.graph, rig.agents), 60)
            for number in range(times * len(MISTAKES)):
                mistake = MISTAKES[number % len(MISTAKES)]
                rig.plain.config_file.write_bytes(mistake.encode())
                refused = len(daemon.entries("config_refused"))
                daemon.reload()
                came = comes_true(lambda refused=refused: len(daemon.entries("config_refused")) > refused, 30, 0.05)  # type: ignore[misc]
                time.sleep(IN_FORCE)
                wrong = () if came and daemon.process.poll() is None else (f"{mistake!r}:\n{daemon.log()[-1500:]}",)
                table.add(repr(mistake.strip()), Verdict(results[1] if wrong else results[0], wrong))
            sent = pen.stop()
        rig.plain.config_file.write_bytes(good)
        daemon.reload()
        rests = waits_until_at_rest(rig, 90)
        reckon(rig, sent).into(mail, "five a second")
        mail.demand(sent, "five a second", "there was no mail")
        mail.demand(rests, "five a second", f"it never comes to rest\n{daemon.log()[-2000:]}")
        restarts = len(daemon.entries("daemon_started"))
        table.demand(restarts == 1, "restarts", f"the daemon started {restarts} times")
    table.seconds = mail.seconds = time.monotonic() - began
    return [table, mail]
