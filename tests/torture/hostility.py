"""Hostile subjects, through the whole of it into real panes (DESIGN §§4, 11): what reaches the agent is judged byte by byte."""

from __future__ import annotations

import json
import random
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import SENDER, Agent, Rig, since
from wake_bridge.domain.delivery import Outcome
from wake_bridge.testing.fake_harness.keys import PASTE_END, PASTE_START
from wake_bridge.testing.hostile import HAZARDS, LONG, hostile_subjects
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tmux_server import PrivateTmux

HARMLESS: Final = "one harmless paste, one Enter"
NOT_A_BYTE: Final = "held, not one byte"
RESULTS: Final = (HARMLESS, NOT_A_BYTE, "harm")
ABOUT: Final = (
    "Each subject is committed as JSON and goes the whole way into a pane. The agent must receive exactly one framed paste"
    " without any control, format, private or unassigned character but line feeds, then exactly one Enter; what it submits is"
    " the digest of the ledger; no command leaves a trace. Agents that have left to their shells must not receive one byte."
)
LANES: Final = 8
LOOKS: Final = 2.5
"""Seconds in which a hold is looked at again at least once."""

_INVISIBLE: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of characters that no digest may hold: what steers, hides, or means nothing."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject and the family it belongs to."""

    text: str
    family: str

    def __str__(self) -> str:
        return self.family


def subjects(count: int, seed: int) -> list[Subject]:
    """`count` subjects: one of 100 kB, as many of the single hazards as there is room for, and mixed ones."""
    mixed = list(hostile_subjects(len(HAZARDS) + count, seed))
    chance = random.Random(seed)
    alone = list(HAZARDS)
    chance.shuffle(alone)
    chosen = [Subject(("\x1b[201~\r$(touch owned)\n" * LONG)[:LONG], "100 kB long")]
    chosen += [Subject(text, "one hazard alone") for text in alone[: max(1, count // 2)]]
    chosen += [Subject(text, "hazards mixed") for text in mixed[len(HAZARDS) :]]
    return chosen[:count]


def send_subjects(directory: Path, tmux: PrivateTmux, *, count: int, after_exit: int, seed: int) -> Table:
    """`count` subjects to agents, then `after_exit` to some that have left to their shells."""
    table = Table("Hostile subjects through a pane", ABOUT, "subjects", RESULTS)
    with Rig(directory / "hostile", tmux, [f"hostile{at}" for at in range(LANES)], before_shell=True) as rig:
        boxes = [Mailbox(rig, agent) for agent in rig.agents]
        rig.daemon()
        run_in_lanes(table, boxes, subjects(count, seed), run_subject)
        run_in_lanes(table, boxes, subjects(after_exit, seed + 1), run_after_exit)
    return table


@dataclass(slots=True)
class Mailbox:
    """An agent in a rig with several."""

    rig: Rig
    agent: Agent

    def traces(self) -> list[str]:
        """What a command that was run would have left behind, where the agent works and where the bridge does."""
        return [one.name for one in (*self.rig.work.iterdir(), *self.rig.plain.home.glob("owned*"))]


def run_subject(box: Mailbox, subject: Subject) -> tuple[str, Verdict]:
    """Send one subject to an agent and judge what reached it."""
    start = len(box.agent.fake.records())
    message = commit(box.rig, box.agent, subject.text)
    standing = box.rig.waits_until_settled(message, 30)
    wrongs = list(_wrongs(box, start))
    delivery = standing.delivery if standing else None
    if delivery is None or delivery.outcome is not Outcome.SUBMITTED:
        wrongs.append(f"it was not submitted:\n{box.rig.story(message)}")
    elif box.agent.fake.submits()[-1:] != [delivery.digest]:
        wrongs.append(f"submitted was not the digest but {box.agent.fake.submits()[-1:]!r}")
    shown = tuple(f"{one}\n  subject {subject.text[:400]!r}" for one in wrongs)
    return str(subject), Verdict("harm" if wrongs else HARMLESS, shown)


def run_after_exit(box: Mailbox, subject: Subject) -> tuple[str, Verdict]:
    """The agent has left its pane to a shell: whatever the subject, not one byte is typed there."""
    _leave(box)
    before = box.rig.tmux.look(box.agent.pane).text
    message = commit(box.rig, box.agent, subject.text)
    standing = box.rig.waits_for(message, lambda one: one.hold not in {"", "window"}, 40)
    time.sleep(LOOKS)
    after = box.rig.tmux.look(box.agent.pane).text
    wrongs = []
    if standing is None or standing.hold != "no_agent":
        wrongs.append(f"held as {standing.hold if standing else 'lost'}")
    if before != after:
        wrongs.append(f"the shell shows\n{after}")
    if left := box.traces():
        wrongs.append(f"a command was run: {left}")
    shown = tuple(f"{one}\n  subject {subject.text[:400]!r}" for one in wrongs)
    return "to an agent that left to its shell", Verdict("harm" if wrongs else NOT_A_BYTE, shown)


def _leave(box: Mailbox) -> None:
    if box.agent.fake.events("exited"):
        return
    box.agent.fake.shows("exit")
    box.rig.tmux.waits_until(box.agent.pane, lambda look: look.flags["pane_current_command"] == "sh", 10, "a shell")
    box.rig.tmux.waits_until(box.agent.pane, lambda look: look.text.rstrip().endswith(("#", "$")), 10, "its prompt")


def commit(rig: Rig, agent: Agent, subject: str) -> str:
    """Commit a message whatever its subject holds; answers its id."""
    with EscapingCore(rig.plain.graph) as core:
        return core.send(SENDER, agent.identity, subject)


class EscapingCore(MemoryCore):
    """A memory core whose JSON is ASCII: escapes carry lone surrogates, which no UTF-8 text can hold."""

    def put(self, node_id: str, label: str, properties: Mapping[str, Any]) -> str:
        """See `MemoryCore.put`."""
        data = json.dumps({"id": node_id, "label": label, "properties": dict(properties)})
        self.sql("INSERT INTO Nodes(id, user_id, data) VALUES (?, ?, ?)", node_id, properties.get("userId"), data)
        return node_id


def _wrongs(box: Mailbox, start: int) -> Iterator[str]:
    """Everything in the agent's log that may not be there after one wake."""
    received = box.agent.fake.records()[start:]
    stream = b"".join(bytes.fromhex(one["hex"]) for one in since(received, 0, "bytes"))
    before, opened, rest = stream.partition(PASTE_START)
    content, closed, after = rest.partition(PASTE_END)
    if not opened or not closed or before or after != b"\r":
        yield f"the bytes were not one paste and one Enter: {stream[:2000]!r}"
        return
    try:
        text = content.decode()
    except UnicodeDecodeError as broken:
        yield f"the paste is no UTF-8: {broken}: {content!r}"
        return
    if found := {f"U+{ord(one):04X}" for one in text if one != "\n" and unicodedata.category(one) in _INVISIBLE}:
        yield f"the paste holds {sorted(found)}: {text!r}"
    for event in ("shell", "approved", "vim-command", "empty-enter", "interrupted", "chosen", "exited"):
        if since(received, 0, event):
            yield f"the agent saw a {event!r}"
    if len(since(received, 0, "submit")) != 1:
        yield f"{len(since(received, 0, 'submit'))} submits"
    if left := box.traces():
        yield f"a command was run: {left}"
