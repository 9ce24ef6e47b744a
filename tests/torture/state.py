"""The daemon's own state: a disk that is full, a ledger that is damaged or gone, and how large it grows."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.torture.oracle import RESULTS, comes_true, reckon, waits_until_at_rest
from tests.torture.replaced import OLD, RECENT, ago
from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import SENDER, Rig
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Outcome, Proof, Step
from wake_bridge.domain.names import Epoch, Instant, LogId
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids, lock_with_its_events, open_delivery, sample_event
from wake_bridge.testing.memory_core import MemoryCore

MEGABYTE: Final = 1024 * 1024
DAY: Final = 24 * 3_600_000
DISK: Final = 16
"""Megabytes; more than the ledger ever needs here."""

PER_DAY: Final = 500
PER_DELIVERY: Final = 50
STEPS: Final = (Step.PROBED, Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT, Step.SUBMITTED)

ABOUT_FULL: Final = (
    "The state directory lies on a file system of 16 MB of its own, which is filled to the last byte while messages keep"
    " coming; after a while there is room again. While it is full nothing may be typed whose intent is not on disk, no"
    " warning may be repeated within a minute, and the daemon lives on; afterwards every message arrives once."
)
ABOUT_DAMAGED: Final = (
    "The daemon is down, and its ledger is damaged or gone. The next one must set aside what it cannot read and say so once,"
    " begin at the tip, tell what is unread of the last hour in one digest, nothing older; and go on."
)
ABOUT_SIZE: Final = (
    "Five hundred events a day go through a real ledger, fifty to a delivery, each day's time turned by hand; every day what is"
    " older than 90 days is deleted, as the daemon does. The files may take 50 MB at most."
)


# -- a full disk -----------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[bool]:
    """A file system of that size, mounted on a directory; answers whether this machine lets us."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(directory)]
    is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill_the_disk(directory: Path, tmux: PrivateTmux, *, seconds: float) -> Table:
    """Full for so long, while a message comes every second."""
    table = Table("A full disk under the ledger", ABOUT_FULL, "messages", (*RESULTS, "not for this machine"))
    began = time.monotonic()
    row = f"full for {seconds:.0f} s"
    with small_disk(directory / "small", DISK) as is_mounted:
        if not is_mounted:
            table.add(row, Verdict("not for this machine"))
            return table
        settings = f'[daemon]\nstate_dir = "{directory / "small"}"\n'
        with Rig(directory / "full", tmux, ["full0", "full1"], settings=settings) as rig:
            rig.plain.state_dir = rig.watched.state_dir = directory / "small"
            daemon = rig.daemon()
            rig.waits_until_settled(rig.send(rig.agents[0], "before"))
            filler = directory / "small" / "filler"
            _fill(filler)
            logged = len(daemon.entries())
            full_since = time.monotonic()
            while time.monotonic() < full_since + seconds:
                for agent in rig.agents:
                    rig.send(agent, "while it is full")
                time.sleep(1)
            said = [one for one in daemon.entries()[logged:] if one.get("level") in {"warning", "error"}]
            table.demand(daemon.process.poll() is None, row, f"the daemon ended:\n{daemon.log()[-3000:]}")
            filler.unlink()
            rests = waits_until_at_rest(rig, 120)
            reckon(rig).into(table, row)
            table.demand(rests, row, f"it never comes to rest\n{daemon.log()[-3000:]}")
            _not_repeated(table, row, Counter(one["event"] for one in said), seconds)
            table.measures["warnings while it was full"] = (
                ", ".join(f"{event} {times}" for event, times in Counter(one["event"] for one in said).items())
                or "none"
            )
    table.seconds = time.monotonic() - began
    return table


def _fill(file: Path) -> None:
    """Write until there is no room for one byte more."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    for size in (4096, 1):
        with suppress(OSError):
            while True:
                os.write(descriptor, bytes(size))
    os.close(descriptor)


def _not_repeated(table: Table, row: str, said: Counter[str], seconds: float) -> None:
    most = 1 + int(seconds // 60)
    for event, times in said.items():
        table.demand(times <= most, row, f"{event} was logged {times} times in {seconds:.0f} s")


# -- damage ----------------------------------------------------------------------------------------------------------


def overwritten(state: Path) -> None:
    """The first page is something else."""
    with (state / "state.sqlite").open("r+b") as file:
        file.write(os.urandom(4096))


def torn(state: Path) -> None:
    """All pages but the first are something else."""
    with (state / "state.sqlite").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(os.urandom(size - 4096))


def halved(state: Path) -> None:
    """The second half is gone."""
    os.truncate(state / "state.sqlite", (state / "state.sqlite").stat().st_size // 2)


def emptied(state: Path) -> None:
    """Nothing is left in the file."""
    os.truncate(state / "state.sqlite", 0)


def deleted(state: Path) -> None:
    """Ledger and published cursor are gone."""
    for file in (*state.glob("state.sqlite*"), state / "lastSyncId"):
        file.unlink()


def log_of_another(state: Path) -> None:
    """A write-ahead log lies beside it that is none of its own."""
    (state / "state.sqlite-wal").write_bytes(os.urandom(32768))


DAMAGES: Final[dict[str, tuple[Callable[[Path], None], bool]]] = {
    "the first page is overwritten": (overwritten, True),
    "all pages but the first are overwritten": (torn, True),
    "the second half is cut off": (halved, True),
    "everything is deleted": (deleted, False),
    "emptied": (emptied, False),
    "another file's log lies beside it": (log_of_another, False),
}
"""What is done, and whether the ledger must be set aside."""


def damage_all(directory: Path, tmux: PrivateTmux, *, times: int) -> Table:
    """Each of `DAMAGES` so many times, each in a rig of its own."""
    results = ("begun anew, the last hour told", "broken")
    table = Table("A damaged ledger", ABOUT_DAMAGED, "what happens", results, DAMAGES)

    def run(lane: int, trial: tuple[int, str]) -> tuple[str, Verdict]:
        number, name = trial
        called = f"damage{lane}-{number}"
        with Rig(directory / called, tmux, [called], is_born=True) as rig:
            wrongs = run_damage(rig, *DAMAGES[name])
        return name, Verdict(results[1] if wrongs else results[0], tuple(wrongs))

    trials = [(number * len(DAMAGES) + at, name) for number in range(times) for at, name in enumerate(DAMAGES)]
    run_in_lanes(table, range(4), trials, run)
    return table


def run_damage(rig: Rig, act: Callable[[Path], None], is_set_aside: bool) -> list[str]:
    """One trial; answers what is wrong."""
    (agent,) = rig.agents
    daemon = rig.daemon()
    told = rig.send(agent, "told before")
    rig.waits_until_settled(told)
    with MemoryCore(rig.plain.graph) as core:
        core.mark_read(told)
        tip = core.tip()
    published = rig.plain.state_dir / "lastSyncId"
    comes_true(lambda: published.read_text(encoding="utf-8") == str(tip), 20)
    daemon.stop(60)
    with MemoryCore(rig.plain.graph) as core:
        # rows that were there before the damage: what the cursor is of is gone with them
        core.send(SENDER, agent.identity, f"{OLD}", sentAt=ago(days=8))
        recent = core.send(SENDER, agent.identity, RECENT, sentAt=ago(minutes=10))
    act(rig.plain.state_dir)
    daemon = rig.daemon()
    rig.waits_until_settled(recent)
    later = rig.send(agent, "sent afterwards")
    rig.waits_until_settled(later)
    submits = agent.fake.submits()[1:]
    wrongs = []
    if len(submits) != 2 or RECENT not in submits[0] or "sent afterwards" not in submits[1]:
        wrongs.append(f"told were {submits!r}\n{daemon.log()[-2000:]}")
    if [text for text in submits if OLD in text]:
        wrongs.append(f"old mail was told: {submits!r}")
    aside = [one.name for one in rig.plain.state_dir.glob("*") if "state.sqlite." in one.name]
    if bool(aside) != is_set_aside or len(daemon.entries("ledger_damaged")) != int(is_set_aside):
        wrongs.append(f"set aside: {aside}; said: {daemon.entries('ledger_damaged')}")
    return wrongs


# -- size ------------------------------------------------------------------------------------------------------------


def grow(directory: Path, *, events: int) -> Table:
    """So many events, five hundred a day, with a retention of 90 days."""
    table = Table("The size of the ledger", ABOUT_SIZE, "events", ("kept or deleted in time", "broken"))
    began = time.monotonic()
    state = directory / "size"
    ledger = LedgerStore.open(state)
    largest = 0
    new_id = counted_ids()
    start = Instant(1_700_000_000_000)
    ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", start)
    # what is measured is room, not whether it outlives a power cut
    ledger._db.value("PRAGMA synchronous = OFF")
    for day in range(events // PER_DAY):
        for batch in range(PER_DAY // PER_DELIVERY):
            now = Instant(start + day * DAY + batch * 60_000)
            first = day * PER_DAY + batch * PER_DELIVERY + 1
            found = [sample_event(first + at, matched_at=now, window=0) for at in range(PER_DELIVERY)]
            delivery = lock_with_its_events(
                ledger, ledger.dispatch(open_delivery(ledger, *found, new_id=new_id, now=now), now), now
            )
            for step in STEPS:
                ledger.append(delivery, step, {"where": "agents:1.0", "pane": "%7", "composer": "draft"}, now)
            ledger.settle(delivery, Outcome.SUBMITTED, Proof.SUBMITTED, {"seen": "busy"}, now)
        ledger.prune(Instant(start + day * DAY - 90 * DAY), 10_000)
        largest = max(largest, sum(one.stat().st_size for one in state.glob("state.sqlite*")))
    ledger.close()
    row = f"{events} events over {events // PER_DAY} days"
    table.add(row, Verdict("kept or deleted in time"), events)
    table.demand(largest <= 50 * MEGABYTE, row, f"it took {largest / MEGABYTE:.1f} MB")
    table.measures["largest size of all its files"] = f"{largest / MEGABYTE:.1f} MB"
    table.seconds = time.monotonic() - began
    return table
