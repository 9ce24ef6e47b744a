"""The oracle: what was committed to the graph, what the agents' panes received, and what the ledger says of both.

Nothing is asked of a daemon. Each message to an agent comes to one result, and what may never be is named.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.torture.report import Table, Verdict
from tests.torture.rig import Agent, Rig

ONCE: Final = "submitted once"
AGAIN: Final = "once more after unknown"
READ: Final = "read before it was told"
UNKNOWN: Final = "unknown"
HELD: Final = "still held"
RESULTS: Final = (ONCE, AGAIN, READ, UNKNOWN, HELD, "twice", "lost")

_MARK: Final = re.compile(r"Wake: ([0-9A-HJKMNP-TV-Z]{26})")
_STRAY: Final = ("empty-enter", "shell", "approved", "chosen", "vim-command", "interrupted")
_POLL: Final = 0.25


@dataclass(frozen=True, slots=True)
class Found:
    """What became of all messages to the agents of a rig.

    Attributes:
        verdicts: by message and recipient.
        wrongs: what is wrong with the panes whatever the messages are.
        overtaken: dialogs that came up when Enter was on its way already, and got it: nobody outside can know of them.
    """

    verdicts: dict[tuple[str, str], Verdict]
    wrongs: tuple[str, ...]
    overtaken: int = 0

    def into(self, table: Table, row: str) -> None:
        """Count each message as a trial of that row."""
        for verdict in self.verdicts.values():
            table.add(row, verdict)
        for wrong in self.wrongs:
            table.demand(holds=False, row=row, broken=wrong)


def committed(graph: Path, agents: Sequence[Agent]) -> list[tuple[str, str]]:
    """Every message in the graph and the agent it was sent to, in the order of the log; a whole one has its SENT_TO."""
    identities = {one.identity for one in agents}
    with closing(sqlite3.connect(graph, timeout=30)) as connection:
        rows = connection.execute("SELECT source, target FROM Edges WHERE type = 'SENT_TO' ORDER BY rowid").fetchall()
    return [(source, target) for source, target in rows if target in identities]


def reckon(rig: Rig, sent: Sequence[tuple[str, str]] | None = None, message_of: Callable[[str], str] = str) -> Found:
    """Compare graph, panes and ledger of a rig.

    Args:
        rig: whose agents and ledger.
        sent: messages and recipients; all that the graph holds if not given.
        message_of: the message that an event of the ledger is about, by its subject.
    """
    submits = {one.identity: Counter(_marks(one)) for one in rig.agents}
    with closing(sqlite3.connect(rig.plain.state_dir / "state.sqlite", timeout=30)) as ledger:
        ledger.row_factory = sqlite3.Row
        events = {
            (message_of(row["subject_key"]), row["identity"]): row for row in ledger.execute("SELECT * FROM wake_event")
        }
        deliveries = {row["id"]: row for row in ledger.execute("SELECT * FROM delivery")}
        told: defaultdict[str, list[str]] = defaultdict(list)
        for row in ledger.execute("SELECT delivery_id, event_id FROM delivery_event"):
            told[row["event_id"]].append(row["delivery_id"])
        entered: defaultdict[str, list[int]] = defaultdict(list)
        for row in ledger.execute("SELECT delivery_id, at FROM journal WHERE step = 'intent_submit'"):
            entered[row["delivery_id"]].append(row["at"])
    chosen = committed(rig.plain.graph, rig.agents) if sent is None else sent
    verdicts = {key: _verdict(key, events.get(key), deliveries, told, submits.get(key[1], Counter())) for key in chosen}
    overtaken = [one for agent in rig.agents for one in _overtaken(agent.fake.records(), entered)]
    wrongs = tuple(wrong for one in rig.agents for wrong in _wrongs_of(one, deliveries, entered))
    return Found(verdicts, wrongs, len(overtaken))


def waits_until_at_rest(rig: Rig, timeout: float, *, is_helped: bool = False) -> bool:
    """Whether within `timeout` seconds every message of the graph is in the ledger and every delivery has ended.

    With `is_helped` a person sends what is left to them.
    """

    def is_at_rest() -> bool:
        if is_helped:
            rig.help()
        with closing(sqlite3.connect(rig.plain.state_dir / "state.sqlite", timeout=30)) as ledger:
            known = {tuple(row) for row in ledger.execute("SELECT subject_key, identity FROM wake_event")}
            (waiting,) = ledger.execute(
                "SELECT (SELECT COUNT(*) FROM wake_event WHERE status = 'open')"
                " + (SELECT COUNT(*) FROM delivery WHERE settled_at IS NULL)"
            ).fetchone()
        return waiting == 0 and known.issuperset(committed(rig.plain.graph, rig.agents))

    return comes_true(is_at_rest, timeout)


def comes_true(condition: Callable[[], object], timeout: float, pause: float = _POLL) -> bool:
    """Whether a condition holds within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def _marks(agent: Agent) -> Iterator[str]:
    for text in agent.fake.submits():
        yield from _MARK.findall(text)


def _verdict(
    key: tuple[str, str],
    event: sqlite3.Row | None,
    deliveries: dict[str, sqlite3.Row],
    told: dict[str, list[str]],
    submits: Counter[str],
) -> Verdict:
    if event is None:
        return Verdict("lost", (f"{key}: the ledger does not know it",))
    tellers = [deliveries[one] for one in told.get(event["id"], ()) if deliveries[one]["digest"]]
    times = sum(submits[one["id"]] for one in tellers)
    if times > 1 and not _is_once_more(event, tellers, submits):
        return Verdict("twice", (f"{key}: submitted {times} times, by {[one['id'] for one in tellers]}",))
    outcomes = {one["outcome"] for one in tellers}
    if "submitted" in outcomes:
        if any(one["outcome"] == "submitted" and not submits[one["id"]] for one in tellers):
            return Verdict("lost", (f"{key}: said to be submitted, and was not",))
        return Verdict(ONCE if times == 1 else AGAIN)
    if "unknown" in outcomes:
        return Verdict(UNKNOWN)
    if event["status"] == "open":
        carrier = deliveries.get(event["delivery_id"] or "")
        hold = f"{carrier['state']} {carrier['hold_reason']}" if carrier is not None else "no delivery"
        return Verdict(HELD, (f"{key}: still open, {hold}",))
    if times:
        return Verdict("lost", (f"{key}: submitted, and the ledger does not say so: {event['status']} {outcomes}",))
    if event["status"] == "read" or (event["status"], event["reason"]) == ("refused", "read"):
        return Verdict(READ)
    return Verdict("lost", (f"{key}: {event['status']} {event['reason']}, never submitted",))


def _is_once_more(event: sqlite3.Row, tellers: Sequence[sqlite3.Row], submits: Counter[str]) -> bool:
    """Whether a message came twice as it is documented: under two ids, the first of which ended as unknown (decision 11)."""
    others = [one for one in tellers if one["outcome"] != "unknown"]
    is_each_once = all(submits[one["id"]] == 1 for one in tellers)
    return bool(event["again_of"]) and is_each_once and len(tellers) == 2 and len(others) <= 1


def _overtaken(
    records: Sequence[Mapping[str, Any]], entered: Mapping[str, Sequence[int]]
) -> Iterator[Mapping[str, Any]]:
    """Answers to dialogs that were in the terminal only after the intent to press that Enter was on disk.

    Where a dialog took one, the text stands there still, and another is pressed later: that is not the one it took.
    """
    came_up = 0.0
    for record in records:
        if record["event"] in {"mode", "drawn"}:
            came_up = record["at"]
        if record["event"] in {"approved", "chosen"}:
            marks = _MARK.findall(record.get("composer", ""))
            decided = [at for mark in marks for at in entered.get(mark, ()) if at <= record["at"]]
            if decided and decided[-1] < came_up:
                yield record


def _wrongs_of(agent: Agent, deliveries: dict[str, sqlite3.Row], entered: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """What a pane got that it may never get."""
    records = agent.fake.records()
    overtaken = [*_overtaken(records, entered)]
    for kind in _STRAY:
        if stray := [one for one in records if one["event"] == kind and one not in overtaken]:
            yield f"{agent.identity} saw {len(stray)} {kind!r}: {json.dumps(stray[0])[:500]}"
    for record in records:
        if record["event"] != "submit":
            continue
        marks = _MARK.findall(record["text"])
        digests = [deliveries[one]["digest"] for one in marks if one in deliveries]
        if digests != [record["text"]]:
            yield f"{agent.identity} submitted what is no digest of the ledger: {record['text'][:500]!r}"
        for mark in marks:
            if mark in deliveries and deliveries[mark]["identity"] != agent.identity:
                yield f"{agent.identity} submitted the wake {mark}, which was for {deliveries[mark]['identity']}"
    for mark, times in Counter(_marks(agent)).items():
        if times > 1:
            yield f"{agent.identity} got the wake {mark} {times} times"
