"""What hangs or is slow: the others' wakes while one identity is in trouble."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.torture.crowd import Crowd, Member, account_of, writer
from tests.torture.wakes import APART, SETTLED_WITHIN, UNCHANGED, Wakes, wake_in_turn
from wake_bridge.demo.tmux_server import PrivateTmux

SETTLES: Final = 12.0

TROUBLES: Final = ("nothing", "deaf pane", "hung calls", "a hung list-panes", "slow identity", "great backlog")
"""What is wrong while the others are woken: nothing · one identity's program never reads its terminal · every call of tmux
about its pane hangs · one listing of all panes hangs every 12 s · its screen is seconds late · it is at a dialog, and
thousands of messages wait for it."""

HANGS_ONCE_IN: Final = 12
_SLOW: Final = ("--paste-delay", "2500", "--echo-delay", "500", "--reply-after", "1500")
BACKLOG: Final = 20_000


@dataclass(frozen=True, slots=True)
class Trouble:
    """How the others' wakes went while one identity was in trouble."""

    name: str
    others: Wakes


def troubles(
    directory: Path,
    tmux: PrivateTmux,
    program: Sequence[str],
    *,
    panes: int,
    wakes: int,
    names: Sequence[str] = TROUBLES,
) -> list[Trouble]:
    """For each kind of trouble: the times of the others' wakes, in one crowd."""
    found = []
    with Crowd(directory, tmux, program, panes) as crowd:
        others = list(crowd.members)
        (deaf,) = crowd.add(["deaf"], "--deaf")
        (hung,) = crowd.add(["hung"], "--quiet")
        (slow,) = crowd.add(["slow"], *_SLOW)
        (stuffed,) = crowd.add(["stuffed"], "--mode", "approval")
        in_trouble = {"deaf pane": deaf, "hung calls": hung, "slow identity": slow, "great backlog": stuffed}
        for name in names:
            found.append(Trouble(name, _beside(crowd, others, in_trouble.get(name), name, wakes)))
            print(f"{name}: {found[-1].others.figures()}", flush=True)
    return found


def _beside(crowd: Crowd, others: Sequence[Member], one: Member | None, name: str, wakes: int) -> Wakes:
    """Wake the others while `one` has mail all the time."""
    # the stand-in costs a little: it stands before tmux in every case
    pattern, once_in = "nothing hangs", 0
    if name == "hung calls" and one is not None:
        pattern = f"-t {crowd.pane_of(one)} "
    elif name == "a hung list-panes":
        pattern, once_in = "list-panes", HANGS_ONCE_IN
    with crowd.hanging(pattern, once_in=once_in):
        daemon = crowd.daemon()
        time.sleep(SETTLES)
        if name == "great backlog" and one is not None:
            account_of(writer(crowd.sandbox.graph, rate=BACKLOG, seconds=1, to=[one.identity], batch=500))
            known = f"SELECT COUNT(*) >= {BACKLOG} FROM wake_event WHERE identity = '{one.identity}'"
            crowd.waits_until(lambda: crowd.ledger(known)[0][0], SETTLED_WITHIN, "the backlog")
        writing = None
        if one is not None:
            seconds = int(wakes * max(APART, UNCHANGED / len(others)))
            writing = writer(crowd.sandbox.graph, rate=2, seconds=seconds, to=[one.identity])
        taken = wake_in_turn(crowd, others, wakes)
        if writing is not None:
            account_of(writing)
        daemon.stop()
    if one is not None:
        _take_away(crowd, one)
    return taken


def _take_away(crowd: Crowd, one: Member) -> None:
    """Let it trouble nobody any more: its mail is read."""
    with crowd.core() as core:
        core.sql(
            "UPDATE Nodes SET data = json_set(data, '$.properties.readAt', '2026-01-01T00:00:00.000Z')"
            " WHERE id IN (SELECT source FROM Edges WHERE type = 'SENT_TO' AND target = ?)",
            one.identity,
        )
