"""The oracle sees what is lost, what came twice, and what was never a wake: a bench is as good as that."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from tests.torture.oracle import reckon
from tests.torture.rig import Rig
from wake_bridge.domain.delivery import Outcome, Proof, Step
from wake_bridge.domain.names import Instant
from wake_bridge.testing.ledger_samples import (
    START,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)

ID: Final = "01M8GCZQ3R77SZ6KJDF3A75GZ"
KEY: Final = ("MESSAGE:1", "@agent")


def _rig(directory: Path, submits: list[str], *events: str, outcome: Outcome = Outcome.SUBMITTED) -> Rig:
    """A ledger with one delivery of one message, and an agent that got those texts."""
    with fresh_ledger(directory) as ledger:
        delivery = ledger.dispatch(open_delivery(ledger, sample_event(1), new_id=lambda: f"{ID}1", now=START), START)
        locked = lock_with_its_events(ledger, delivery, START)
        ledger.settle(locked, outcome, Proof.SUBMITTED if outcome is Outcome.SUBMITTED else Proof.NONE, {}, START)
    records = [{"event": "submit", "text": text} for text in submits] + [{"event": one} for one in events]
    fake = SimpleNamespace(submits=lambda: submits, records=lambda: records)
    agents = [SimpleNamespace(identity="@agent", fake=fake)]
    return cast("Rig", SimpleNamespace(plain=SimpleNamespace(state_dir=directory, graph=None), agents=agents))


DIGEST: Final = f"[WAKE] for @agent Wake: {ID}1"


def _found(rig: Rig) -> tuple[str, list[str]]:
    found = reckon(rig, [KEY])
    return found.verdicts[KEY].result, [*found.verdicts[KEY].violations, *found.wrongs]


@pytest.mark.parametrize(
    ("submits", "stray", "outcome", "result", "wrong"),
    [
        ([DIGEST], (), Outcome.SUBMITTED, "submitted once", ""),
        ([], (), Outcome.UNKNOWN, "unknown", ""),
        ([DIGEST], (), Outcome.UNKNOWN, "unknown", ""),
        ([DIGEST, DIGEST], (), Outcome.SUBMITTED, "twice", "submitted 2 times"),
        ([], (), Outcome.SUBMITTED, "lost", "said to be submitted, and was not"),
        ([f"draft {DIGEST}"], (), Outcome.SUBMITTED, "submitted once", "no digest of the ledger"),
        ([DIGEST, "half a thought"], (), Outcome.SUBMITTED, "submitted once", "no digest of the ledger"),
        ([DIGEST], ("approved",), Outcome.SUBMITTED, "submitted once", "'approved'"),
        ([DIGEST], ("empty-enter",), Outcome.SUBMITTED, "submitted once", "'empty-enter'"),
    ],
)
def test_each_thing_that_can_go_wrong_is_seen(
    tmp_path: Path, submits: list[str], stray: tuple[str, ...], outcome: Outcome, result: str, wrong: str
) -> None:
    """README, the promise: never lost, never twice, unknown is reported; and nothing else was typed."""
    found, wrongs = _found(_rig(tmp_path, submits, *stray, outcome=outcome))

    assert found == result
    assert any(wrong in one for one in wrongs) if wrong else wrongs == []


def test_a_message_that_the_ledger_does_not_know_is_lost(tmp_path: Path) -> None:
    """README, the promise: a matched event is never lost from the ledger."""
    found = reckon(_rig(tmp_path, [DIGEST]), [("MESSAGE:2", "@agent")])

    assert [one.result for one in found.verdicts.values()] == ["lost"]


@pytest.mark.parametrize(
    ("opened_at", "drawn_at", "is_wrong"),
    [(START - 2, START - 1, True), (START - 1, START + 1, False), (START + 1, START + 2, False)],
)
def test_a_dialog_that_stood_there_before_enter_was_decided_may_not_get_it(
    tmp_path: Path, opened_at: int, drawn_at: int, is_wrong: bool
) -> None:
    """README: no dialog is answered; one that is drawn when Enter is on its way is counted, and no wrong."""
    with fresh_ledger(tmp_path) as ledger:
        opened = open_delivery(ledger, sample_event(1), new_id=lambda: f"{ID}1", now=START)
        locked = lock_with_its_events(ledger, ledger.dispatch(opened, START), START)
        ledger.append(locked, Step.INTENT_SUBMIT, {}, START)
        # the text still stood there: it was pressed once more
        ledger.append(locked, Step.INTENT_SUBMIT, {}, Instant(START + 3000))
        ledger.settle(locked, Outcome.UNKNOWN, Proof.NONE, {}, Instant(START + 4000))
    records = [
        {"event": "mode", "at": opened_at},
        {"event": "drawn", "at": drawn_at},
        {"event": "approved", "at": drawn_at + 5, "composer": DIGEST},
    ]
    agents = [SimpleNamespace(identity="@agent", fake=SimpleNamespace(submits=list, records=lambda: records))]
    found = reckon(cast("Rig", SimpleNamespace(plain=SimpleNamespace(state_dir=tmp_path), agents=agents)), [KEY])

    assert (bool(found.wrongs), found.overtaken) == (is_wrong, int(not is_wrong))


def test_a_message_that_waits_for_ever_is_seen(tmp_path: Path) -> None:
    """README, the promise: and none is forgotten in it."""
    with fresh_ledger(tmp_path) as ledger:
        open_delivery(ledger, sample_event(1), new_id=lambda: f"{ID}1", now=START)
    agents = [SimpleNamespace(identity="@agent", fake=SimpleNamespace(submits=list, records=list))]
    rig = cast("Rig", SimpleNamespace(plain=SimpleNamespace(state_dir=tmp_path), agents=agents))

    found, wrongs = _found(rig)

    assert found == "still held"
    assert "still open" in wrongs[0]


def test_a_wake_that_another_agent_submitted_is_wrong(tmp_path: Path) -> None:
    """README: another agent is never woken, also where all of them look alike."""
    rig = _rig(tmp_path, [DIGEST])
    neighbour = SimpleNamespace(identity="@neighbour", fake=rig.agents[0].fake)
    rig.agents.append(cast("Any", neighbour))

    assert [one for one in reckon(rig, [KEY]).wrongs if "was for @agent" in one] == [
        f"@neighbour submitted the wake {ID}1, which was for @agent"
    ]


@pytest.mark.parametrize(
    ("first", "opened_again", "result"),
    [
        (Outcome.UNKNOWN, True, "once more after unknown"),
        (Outcome.UNKNOWN, False, "twice"),
        (Outcome.SUBMITTED, True, "twice"),
    ],
)
def test_a_message_comes_twice_only_where_the_first_wake_was_unknown(
    tmp_path: Path, first: Outcome, opened_again: bool, result: str
) -> None:
    """Decision 11: under two ids, the first of which ended as unknown."""
    rig = _rig(tmp_path, [DIGEST, DIGEST.replace(f"{ID}1", f"{ID}2")], outcome=first)
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as ledger:
        # what happened is written down without the moves that lead there
        for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            ledger.execute(f"DROP TRIGGER {name}")
        columns = [row[1] for row in ledger.execute("PRAGMA table_info(delivery)")]
        second = DIGEST.replace(f"{ID}1", f"{ID}2")
        other = {
            "id": f"'{ID}2'",
            "seq": "99",
            "state": "'DELIVERED'",
            "digest": f"'{second}'",
            "outcome": "'submitted'",
        }
        copied = ", ".join(other.get(one, one) for one in columns)
        ledger.execute(f"INSERT INTO delivery ({', '.join(columns)}) SELECT {copied} FROM delivery")
        (event,) = ledger.execute("SELECT id FROM wake_event").fetchone()
        ledger.execute("INSERT INTO delivery_event (delivery_id, event_id) VALUES (?, ?)", (f"{ID}2", event))
        ledger.execute("UPDATE wake_event SET again_of = ?", (f"{ID}1" if opened_again else "",))
        ledger.commit()

    assert reckon(rig, [KEY]).verdicts[KEY].result == result
