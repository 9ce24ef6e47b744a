"""Broken rows of every kind among good ones: the good are told, each bad one is counted and said once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from wake_bridge.testing.memory_core import BROADCAST, MemoryCore
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio

A, B = "@a", "@b"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def whole(node_id: str, **properties: object) -> str:
    said = {"from": B, "to": A, "subject": "bad", "sentAt": None, **properties}
    return json.dumps({"id": node_id, "label": "MESSAGE", "properties": said})


BAD_JSON: dict[str, object] = {
    "broken": "{broken",
    "empty": "",
    "cut short": '{"id":"x","label":"MESSAGE","properties":{"subj',
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "a string": '"MESSAGE"',
    "not UTF-8": b'{"label":"MESSAGE","properties":{"from":"@b","subject":"\xff\xfe"}}',
    "a blob": b"\x00\x01\x02",
    "an integer": 42,
    "nested without end": "[" * 100_000,
    "properties a list": '{"label":"MESSAGE","properties":[]}',
    "no sender": whole("x", **{"from": None}),
    "a sender of the wrong type": whole("x", **{"from": {"name": "@b"}}),
    "a number too long": '{"label":"MESSAGE","properties":{"from":"@b","n":' + "9" * 10_000 + "}}",
}

ODD_BUT_USABLE: dict[str, dict[str, object]] = {
    "an endless subject": {"subject": "s" * 1_048_576},
    "a subject of the wrong type": {"subject": ["a", 1]},
    "no subject": {"subject": None},
    "lone surrogates": {"subject": "half \ud83d of it", "from": "@b", "inReplyTo": "\udc00"},
    "NUL": {"subject": "before\0after"},
    "a bad time": {"sentAt": "the day before yesterday"},
    "a time of the wrong type": {"sentAt": {"year": 2026}},
    "an unknown priority": {"priority": "urgent!!"},
    "tags of the wrong type": {"taggedConcepts": {"x": 1}, "wakeSuppressed": "no"},
    "an unknown policy": {"wakePolicy": ["immediate"], "wakeWindow": -5},
    "a task without a state": {"task": {"state": None}},
    "a task of the wrong type": {"task": "Submitted"},
}


def store(core: MemoryCore, node_id: str, data: object) -> None:
    """Whatever SQLite can hold in the column."""
    value = "CAST(? AS TEXT)" if isinstance(data, bytes) and data[:1] == b"{" else "?"
    core.sql(f"INSERT INTO Nodes(id, data) VALUES (?, {value})", node_id, data)
    core.link(node_id, A, "SENT_TO", {})


async def test_every_kind_of_bad_row_is_one_quarantined_entry(tmp_path: Path) -> None:
    """A row with broken JSON is one counted, logged, quarantined entry; the rest goes on."""
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core, capture_logs() as logs:
        core.subscribe(A)
        async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
            await rig.until(rig.is_at_the_tip)
            for name, data in BAD_JSON.items():
                store(core, f"MESSAGE:{name}", data)
                core.touch(f"MESSAGE:{name}")
            good = core.send(B, A, "good")
            await rig.until(lambda: bool(rig.woken))
            await rig.reaches(core.tip())
            assert [event.subject_key for event in rig.woken] == [good]
            tally = rig.ledger.tally()
    assert tally.quarantined >= len(BAD_JSON)
    said = [str(line["entity"]) for line in logs if line["event"] == "row_quarantined"]
    assert len(said) == len(set(said))


async def test_what_is_odd_but_says_who_wrote_is_told(tmp_path: Path) -> None:
    """Missing and odd values get their harmless defaults."""
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core:
        core.subscribe(A)
        async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
            await rig.until(rig.is_at_the_tip)
            for name, properties in ODD_BUT_USABLE.items():
                store(core, f"MESSAGE:{name}", whole(f"MESSAGE:{name}", **properties))
            await rig.reaches(core.tip())
            assert [event.subject_key for event in rig.woken] == [f"MESSAGE:{name}" for name in ODD_BUT_USABLE]
            assert rig.ledger.tally().quarantined == 0
            assert all(len(getattr(event.detail, "subject", "")) <= 1000 for event in rig.woken)


async def test_a_thousand_bad_rows_among_ten_thousand_hide_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """All good mail is told, in order, whatever stands between."""
    record_property("trials", 1000)
    dice = random.Random(20261127)
    bad = list(BAD_JSON.values())
    good: list[str] = []
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core:
        core.subscribe(A)
        async with TailRig(tmp_path / "graph.sqlite", tmp_path / "state") as rig:
            await rig.until(rig.is_at_the_tip)
            core.sql("BEGIN IMMEDIATE")
            for number in range(1000):
                store(core, f"MESSAGE:bad {number}", dice.choice(bad))
                core.put(f"MEMORY:{number}", "AGENT_MEMORY", {"number": number})
                if dice.random() < 0.3:
                    good.append(f"MESSAGE:good {number}")
                    store(core, good[-1], whole(good[-1], subject="good"))
                dice_edge(core, dice, number)
            core.sql("COMMIT")
            await rig.reaches(core.tip(), within=60)
            assert [event.subject_key for event in rig.woken] == good
            assert rig.ledger.tally().quarantined >= 1000


def dice_edge(core: MemoryCore, dice: random.Random, number: int) -> None:
    """Edges whose own JSON is broken, pulses that name nobody, rows of unknown kinds."""
    kind = dice.choice(["SENT_TO", "DELIVERED_TO", "CAN_REPLY_TO", "SENT_BY"])
    core.sql(
        "INSERT INTO Edges(id, source, target, type, data) VALUES (?, ?, ?, ?, ?)",
        f"edge {number}",
        f"MEMORY:{number}",
        dice.choice([A, BROADCAST]),
        kind,
        dice.choice(["{", "[]", "", '{"properties":7}']),
    )
    entity = dice.choice(["HEARTBEAT_PULSE:", "HEARTBEAT_PULSE:nobody:x", "HEARTBEAT_PULSE:@a:", "x"])
    core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES (?, 'heartbeat_pulse')", entity)
    core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('x', 'something_new')")
