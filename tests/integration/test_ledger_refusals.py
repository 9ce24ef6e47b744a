"""What the database refuses by itself, whoever asks: plain SQL against the real file, none of our code between."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wake_bridge.domain.delivery import LEGAL_MOVES, DeliveryState
from wake_bridge.storage.ledger import LedgerStore

WAYS = {
    DeliveryState.PENDING: (),
    DeliveryState.DISPATCHED: (DeliveryState.DISPATCHED,),
    DeliveryState.LOCKED: (DeliveryState.DISPATCHED, DeliveryState.LOCKED),
    DeliveryState.ESCALATED: (DeliveryState.DISPATCHED, DeliveryState.LOCKED, DeliveryState.ESCALATED),
    DeliveryState.DELIVERED: (DeliveryState.DISPATCHED, DeliveryState.LOCKED, DeliveryState.DELIVERED),
    DeliveryState.FAILED: (DeliveryState.DISPATCHED, DeliveryState.LOCKED, DeliveryState.FAILED),
}
MOVE = """
    UPDATE delivery SET
        state = :to, owner_lease = owner_lease + 1, next_look_at = 1, lease_until = 2,
        settled_at = CASE WHEN :to IN ('DELIVERED', 'FAILED') THEN 3 END,
        escalated_at = CASE :to WHEN 'ESCALATED' THEN 1 ELSE escalated_at END,
        outcome = CASE :to WHEN 'DELIVERED' THEN 'submitted' WHEN 'FAILED' THEN 'failed' END
    WHERE id = 'D'
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    LedgerStore.open(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = 1")
        connection.execute("INSERT INTO delivery (id, identity, created_at, due_at) VALUES ('D', '@agent', 0, 100)")
        yield connection


def bring_to(connection: sqlite3.Connection, state: DeliveryState) -> None:
    for step in WAYS[state]:
        connection.execute(MOVE, {"to": step})


def row_of(connection: sqlite3.Connection) -> tuple[object, ...]:
    return tuple(connection.execute("SELECT * FROM delivery WHERE id = 'D'").fetchone())


def insert_event(connection: sqlite3.Connection, status: str, delivery_id: str | None = None) -> None:
    connection.execute(
        "INSERT INTO wake_event (id, epoch, log_id, identity, subject_key, kind, detail, thread, from_human,"
        " subscription_id, other_subscriptions, policy, priority, window_seconds, matched_at, not_before, status,"
        " status_at, reason, refusals, delivery_id) VALUES ('E', 1, 1, '@agent', 'M', 'message', '{}', '', 0, 'S', '[]',"
        " 'immediate', 'normal', 30, 0, 0, ?, 0, '', '[]', ?)",
        (status, delivery_id),
    )


@pytest.mark.parametrize("origin", DeliveryState)
@pytest.mark.parametrize("destination", DeliveryState)
def test_of_all_36_pairs_of_states_only_the_eight_legal_moves_happen(
    database: sqlite3.Connection, origin: DeliveryState, destination: DeliveryState
) -> None:
    """Eight legal pairs; the other 28 are refused by the database itself."""
    bring_to(database, origin)
    before = row_of(database)

    if (origin, destination) in LEGAL_MOVES:
        database.execute(MOVE, {"to": destination})
        assert database.execute("SELECT state FROM delivery").fetchone() == (destination,)
    else:
        with pytest.raises(sqlite3.IntegrityError, match=r"illegal transition|only the proof may rise"):
            database.execute(MOVE, {"to": destination})
        assert row_of(database) == before


@pytest.mark.parametrize("state", [state for state in DeliveryState if state is not DeliveryState.PENDING])
def test_a_delivery_cannot_be_born_in_the_middle_of_its_life(
    database: sqlite3.Connection, state: DeliveryState
) -> None:
    """The lifecycle begins with PENDING."""
    with pytest.raises(sqlite3.IntegrityError, match="begins PENDING"):
        database.execute(
            "INSERT INTO delivery (id, identity, state, created_at, due_at, next_look_at, lease_until)"
            " VALUES ('X', '@other', ?, 0, 0, 0, 0)",
            (state,),
        )


def test_a_delivery_cannot_be_put_in_place_of_another(database: sqlite3.Connection) -> None:
    """REPLACE, which asks no delete trigger, is no way round the lifecycle."""
    bring_to(database, DeliveryState.DELIVERED)
    before = row_of(database)

    with pytest.raises(sqlite3.IntegrityError, match="begins PENDING, and once"):
        database.execute(
            "INSERT OR REPLACE INTO delivery (id, identity, created_at, due_at) VALUES ('D', '@agent', 0, 0)"
        )

    assert row_of(database) == before


@pytest.mark.parametrize("state", [DeliveryState.DELIVERED, DeliveryState.FAILED])
@pytest.mark.parametrize(
    "change",
    [
        "outcome = 'empty'",
        "outcome = 'unknown'",
        "digest = 'another text'",
        "settled_at = 9",
        "owner_lease = owner_lease + 1",
        "attempts = 9",
        "pane_key = 'elsewhere'",
        "identity = '@other'",
        "fence = '{}'",
        "hold_reason = 'active'",
    ],
)
def test_of_a_terminal_delivery_nothing_changes(
    database: sqlite3.Connection, state: DeliveryState, change: str
) -> None:
    """State, outcome and digest of a terminal row never change."""
    bring_to(database, state)
    before = row_of(database)

    with pytest.raises(sqlite3.IntegrityError, match="only the proof may rise"):
        database.execute(f"UPDATE delivery SET {change}")

    assert row_of(database) == before


@pytest.mark.parametrize("state", DeliveryState)
def test_proof_rises_and_never_falls(database: sqlite3.Connection, state: DeliveryState) -> None:
    """The proof level of a row, terminal or not, may rise."""
    bring_to(database, state)

    database.execute("UPDATE delivery SET proof = 3")
    with pytest.raises(sqlite3.IntegrityError, match="proof"):
        database.execute("UPDATE delivery SET proof = 2")

    assert database.execute("SELECT proof FROM delivery").fetchone() == (3,)


@pytest.mark.parametrize("origin", [DeliveryState.DISPATCHED, DeliveryState.LOCKED])
def test_a_change_of_owner_without_a_higher_lease_is_refused(
    database: sqlite3.Connection, origin: DeliveryState
) -> None:
    """The lease rises with every change of owner."""
    bring_to(database, origin)
    destination = "LOCKED" if origin is DeliveryState.DISPATCHED else "DISPATCHED"

    with pytest.raises(sqlite3.IntegrityError, match="lease rises"):
        database.execute("UPDATE delivery SET state = ?, lease_until = 5", (destination,))
    with pytest.raises(sqlite3.IntegrityError, match="lease rises"):
        database.execute("UPDATE delivery SET owner_lease = owner_lease - 1")


def test_joining_cannot_postpone_a_delivery(database: sqlite3.Connection) -> None:
    """Due is the earliest of the members; joining never postpones."""
    database.execute("UPDATE delivery SET due_at = 50")
    with pytest.raises(sqlite3.IntegrityError, match="earlier"):
        database.execute("UPDATE delivery SET due_at = 51")


def test_a_frozen_digest_changes_only_by_thawing(database: sqlite3.Connection) -> None:
    """LOCKED means that the digest is frozen."""
    bring_to(database, DeliveryState.LOCKED)

    with pytest.raises(sqlite3.IntegrityError, match="frozen"):
        database.execute("UPDATE delivery SET digest = 'another text'")

    database.execute("UPDATE delivery SET digest = '', state = 'DISPATCHED', owner_lease = owner_lease + 1")


def test_a_second_unfrozen_delivery_of_an_identity_is_refused(database: sqlite3.Connection) -> None:
    """One unfrozen delivery per target; once it is frozen a second one may open."""
    another = "INSERT INTO delivery (id, identity, created_at, due_at) VALUES ('D2', '@agent', 0, 0)"
    for state in (DeliveryState.PENDING, DeliveryState.DISPATCHED):
        if state is not DeliveryState.PENDING:
            database.execute(MOVE, {"to": state})
        with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE.*identity"):
            database.execute(another)

    database.execute(MOVE, {"to": DeliveryState.LOCKED})
    database.execute(another)
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE.*identity"):
        database.execute("UPDATE delivery SET state = 'DISPATCHED', owner_lease = owner_lease + 1 WHERE id = 'D'")


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("DELIVERED", "unknown"),
        ("DELIVERED", "failed"),
        ("DELIVERED", None),
        ("FAILED", "submitted"),
        ("FAILED", "read"),
        ("FAILED", None),
        ("ESCALATED", "submitted"),
    ],
)
def test_an_outcome_that_does_not_belong_to_the_state_is_refused(
    database: sqlite3.Connection, state: str, outcome: str | None
) -> None:
    """Unknown is FAILED/unknown, read is DELIVERED/read; an open delivery has no outcome."""
    bring_to(database, DeliveryState.LOCKED)
    escalated_at, settled_at = (1, None) if state == "ESCALATED" else (None, 1)

    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        database.execute(
            "UPDATE delivery SET state = ?, outcome = ?, settled_at = ?, escalated_at = ?, owner_lease = owner_lease + 1",
            (state, outcome, settled_at, escalated_at),
        )


@pytest.mark.parametrize("state", DeliveryState)
def test_only_a_terminal_delivery_can_be_deleted_and_its_journal_goes_with_it(
    database: sqlite3.Connection, state: DeliveryState
) -> None:
    """The journal is append-only, but for the pruning of a whole delivery."""
    database.execute("INSERT INTO journal (delivery_id, at, step, lease, detail) VALUES ('D', 0, 'opened', 0, '{}')")
    bring_to(database, state)

    for tampering in ("DELETE FROM journal", "UPDATE journal SET step = 'submitted'", "UPDATE journal SET at = 1"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(tampering)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(
            "INSERT OR REPLACE INTO journal (seq, delivery_id, at, step, lease, detail)"
            " VALUES (1, 'D', 0, 'submitted', 0, '{}')"
        )

    if state.is_terminal:
        database.execute("DELETE FROM delivery")
        assert database.execute("SELECT COUNT(*) FROM journal").fetchone() == (0,)
    else:
        with pytest.raises(sqlite3.IntegrityError, match="only a terminal delivery"):
            database.execute("DELETE FROM delivery")
        assert database.execute("SELECT step FROM journal").fetchall() == [("opened",)]


def test_an_open_event_can_neither_be_deleted_nor_go_under_in_a_delivered_delivery(
    database: sqlite3.Connection,
) -> None:
    """A matched event is never lost from the ledger."""
    insert_event(database, "open", "D")
    bring_to(database, DeliveryState.LOCKED)

    with pytest.raises(sqlite3.IntegrityError, match="never lost"):
        database.execute("DELETE FROM wake_event")
    with pytest.raises(sqlite3.IntegrityError, match="would be lost"):
        database.execute(MOVE, {"to": "DELIVERED"})

    database.execute("UPDATE wake_event SET status = 'announced'")
    database.execute(MOVE, {"to": "DELIVERED"})
    database.execute("DELETE FROM wake_event")
