"""Several writers of one pane: one at a time, across all processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import Agent, Rig, since
from wake_bridge.demo.fake_harness.screen import PASTE_END, PASTE_START
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Outcome

ABOUT: Final = (
    "Three messages at the same time: to an identity of one bridge, and to two of another bridge with a state directory of"
    " its own. The agent's bytes must be three pastes, each followed by its Enter, and each wake submitted once."
)
LANES: Final = 3


@dataclass(slots=True)
class Shared:
    """One pane that two bridges serve, each with state of its own, and one of them for two identities."""

    agent: Agent
    callers: Sequence[tuple[Rig, Agent]]


def wake_at_once(directory: Path, tmux: PrivateTmux, *, count: int) -> Table:
    """Three wakes for one pane at the same time."""
    table = Table("Several writers of one pane", ABOUT, "what happens", ("each submitted once", "broken rule"))
    with ExitStack() as stack:
        lanes = []
        for at in range(LANES):
            host = stack.enter_context(Rig(directory / f"host{at}", tmux, [f"host{at}"]))
            (agent,) = host.agents
            second = replace(agent, identity="@second")
            guest = stack.enter_context(Rig(directory / f"guest{at}", tmux, [], guests=[agent, second]))
            host.daemon()
            guest.daemon()
            lanes.append(Shared(agent, [(host, agent), (guest, agent), (guest, second)]))
        run_in_lanes(table, lanes, range(count), run_shared)
    return table


def run_shared(shared: Shared, trial: int) -> tuple[str, Verdict]:
    """A message to each at the same time: all wakes arrive, one after the other, never into each other."""
    start = len(shared.agent.fake.records())
    messages = [(rig, rig.send(agent, f"at once {trial}")) for rig, agent in shared.callers]
    digests = []
    wrongs = []
    for rig, message in messages:
        standing = rig.waits_until_settled(message)
        delivery = standing.delivery if standing else None
        if delivery is None or delivery.outcome is not Outcome.SUBMITTED:
            wrongs.append(f"not submitted\n{rig.story(message)}")
        else:
            digests.append(delivery.digest)
    received = shared.agent.fake.records()[start:]
    submits = [one["text"] for one in since(received, 0, "submit")]
    if sorted(submits) != sorted(digests):
        wrongs.append(f"submitted were {submits!r}")
    stream = b"".join(bytes.fromhex(one["hex"]) for one in since(received, 0, "bytes"))
    frames = b"".join(PASTE_START + text.encode() + PASTE_END + b"\r" for text in submits)
    if stream != frames:
        wrongs.append(f"interleaved: {stream!r}")
    row = "two bridges, one for two identities, at once"
    return row, Verdict("broken rule" if wrongs else "each submitted once", tuple(wrongs))
