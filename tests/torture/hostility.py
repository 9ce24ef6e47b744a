"""Hostile subjects, through the whole of it into real panes: what reaches the agent is judged byte by byte."""

from __future__ import annotations

import itertools
import json
import random
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.torture.report import Table, Verdict, run_in_lanes
from tests.torture.rig import SENDER, Agent, Rig, since
from wake_bridge.demo.fake_harness.screen import PASTE_END, PASTE_START
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import Outcome
from wake_bridge.domain.text import SUBJECT_LIMIT, harmless
from wake_bridge.testing.hostile import HAZARDS, LONG, hostile_subjects
from wake_bridge.testing.memory_core import MemoryCore

HARMLESS: Final = "one harmless paste, one Enter"
NOT_A_BYTE: Final = "held, not one byte"
RESULTS: Final = (HARMLESS, NOT_A_BYTE, "harm")
ABOUT: Final = (
    "Each subject is committed as JSON and goes the whole way into a pane. The agent must receive exactly one framed paste"
    " without any control, format, private or unassigned character but line feeds, then exactly one Enter; what it submits is"
    " the digest of the ledger; no command leaves a trace. Agents that have left to their shells must not receive one byte."
)
ABOUT_BODIES: Final = (
    "Messages with hostile bodies and subjects are committed ten at a time, to agents whose wakes quote bodies; counted is"
    " each body that stood in a pane. Judged byte by byte as above; no body may make a second line."
)
ABOUT_RENDERER: Final = "Each text must become one line of at most 200 characters without any control, format, private or unassigned character."
LANES: Final = 8
PER_WAKE: Final = 10
LONGEST_BODY: Final = 160
"""Characters; ten of them must find room in one wake."""

GIVES_UP: Final = 50
"""Violations after which more of them teach nothing."""

QUOTE: Final = f"> {SENDER}: "
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


def send_bodies(directory: Path, tmux: PrivateTmux, *, count: int, seed: int) -> Table:
    """Hostile bodies to agents whose wakes quote them, ten to a wake, until `count` of them have stood in a pane."""
    table = Table("Hostile bodies through a pane", ABOUT_BODIES, "bodies", (HARMLESS, "harm"))
    full = f'digest = "full"\nallow_from = ["{SENDER}"]'
    with Rig(directory / "bodies", tmux, [f"bodies{at}" for at in range(LANES)], target=full, height=70) as rig:
        boxes = [Mailbox(rig, agent) for agent in rig.agents]
        rig.daemon()
        bodies = hostile_subjects(10 * count, seed)
        # long ones leave the others no room
        rounds = iter(lambda: tuple(one[:LONGEST_BODY] for one in itertools.islice(bodies, PER_WAKE)), ())
        while (missing := count - table.trials) > 0 and len(table.violations) < GIVES_UP:
            # bodies of which nothing is seen are quoted nowhere, and do not count
            run_in_lanes(table, boxes, itertools.islice(rounds, -(-missing // PER_WAKE)), run_bodies)
    return table


def run_bodies(box: Mailbox, bodies: Sequence[str]) -> tuple[str, Verdict, int]:
    """Send some bodies at once, and judge the wake that quotes them; counted are those that it quotes."""
    start = len(box.agent.fake.records())
    with EscapingCore(box.rig.plain.graph) as core:
        core.sql("BEGIN IMMEDIATE")
        messages = [core.send(SENDER, box.agent.identity, body[:200], bodyText=body) for body in bodies]
        core.sql("COMMIT")
    box.rig.waits_until_settled(messages[-1], 40)
    standings = [box.rig.standing(message) for message in messages]
    wrongs = list(_wrongs(box, start))
    digests = {one.delivery.digest for one in standings if one is not None and one.delivery is not None}
    outcomes = {one.delivery.outcome if one and one.delivery else None for one in standings}
    submits = [one["text"] for one in since(box.agent.fake.records(), start, "submit")]
    quoted = sum(line.startswith(QUOTE) for text in submits for line in text.split("\n"))
    if outcomes != {Outcome.SUBMITTED} or {*submits} != digests:
        wrongs.append(f"not submitted as the ledger says: {outcomes}, {submits!r}\n{box.rig.story(messages[0])}")
    if quoted > len(bodies):
        wrongs.append(f"{quoted} lines quote {len(bodies)} bodies: {submits!r}")
    shown = tuple(f"{one}\n  bodies {[body[:200] for body in bodies]!r}" for one in wrongs)
    if wrongs:
        box.agent.clear()
    return "quoted, up to ten to a wake", Verdict("harm" if wrongs else HARMLESS, shown), quoted


def render(*, count: int, seed: int) -> Table:
    """Hostile texts through the renderer alone, which is all that stands between graph and pane."""
    table = Table("Hostile texts through the renderer", ABOUT_RENDERER, "texts", ("one harmless line", "harm"))
    began = time.monotonic()
    for text in hostile_subjects(count, seed):
        line = harmless(text)
        found = {f"U+{ord(one):04X}" for one in line if unicodedata.category(one) in _INVISIBLE}
        is_harmless = not found and len(line) <= SUBJECT_LIMIT
        wrong = (f"{text[:300]!r} became {line!r}: {sorted(found)}",)
        table.add("subjects", Verdict("one harmless line") if is_harmless else Verdict("harm", wrong))
    table.seconds = time.monotonic() - began
    return table


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
