"""kill -9 in the middle of commits: what was reported as done is there, and nothing is half done."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

from wake_bridge.domain.delivery import DeliveryState, Outcome, Step
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Instant
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids, fresh_ledger

KILLS = 30
EVENTS_OF_A_ROW = 3

HAMMER = """
    import sys
    from itertools import count
    from pathlib import Path
    from uuid import uuid4

    from wake_bridge.domain.delivery import DeliveryState, Outcome, Proof, Step
    from wake_bridge.storage.ledger import LedgerStore
    from wake_bridge.testing.ledger_samples import START, advance, busy, lock_with_its_events, sample_event

    ledger = LedgerStore.open(Path(sys.argv[1]))
    print("ready", flush=True)
    for row in count(ledger.position().cursor + 1):
        advance(ledger, *(sample_event(row, f"@agent{number}") for number in range(3)))
        print("row", row, flush=True)
        ledger.gather(START, lambda: uuid4().hex)
        for seen in ledger.unsettled():
            delivery = ledger.delivery(seen.id)
            if delivery.state.is_terminal:
                continue  # merged into an older one a moment ago
            if delivery.state is DeliveryState.PENDING:
                delivery = ledger.dispatch(delivery, START)
            if delivery.state is DeliveryState.DISPATCHED:
                delivery = lock_with_its_events(ledger, delivery, START)
            elif row % 2:
                delivery = ledger.release(delivery, busy(START), START, is_attempt=False)
                delivery = lock_with_its_events(ledger, delivery, START)
            ledger.append(delivery, Step.PROBED, {"row": str(row)}, START)
            print("probed", delivery.id, flush=True)
            ledger.settle(delivery, Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
            print("settled", delivery.id, flush=True)
"""


def reports_until_killed(directory: Path, after: int) -> list[list[str]]:
    """What a hammering process said it had done when it was killed right after its report number `after`."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HAMMER), str(directory)], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        reports = [process.stdout.readline().split() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        reports += [line.split() for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL
    assert reports[0] == ["ready"]
    return reports[1:]


def check(directory: Path, reports: list[list[str]]) -> int:
    """Open the ledger anew, hold it against the reports and against its own promises; answers the cursor."""
    with closing(LedgerStore.open(directory)) as ledger:
        assert ledger.set_aside is None
        position = ledger.position()
        assert position is not None
        rows = ledger._db.rows("SELECT log_id, COUNT(*) AS events FROM wake_event GROUP BY log_id ORDER BY log_id")
        assert [row["log_id"] for row in rows] == list(range(1, position.cursor + 1))
        assert {row["events"] for row in rows} <= {EVENTS_OF_A_ROW}

        deliveries = {one.id: one for one in ledger.deliveries(state=None, identity=None, limit=100_000)}
        for kind, *what in reports:
            if kind == "row":
                assert int(what[0]) <= position.cursor
            elif kind == "probed":
                assert Step.PROBED in [line.step for line in ledger.journal_of(what[0])]
            else:
                assert deliveries[what[0]].outcome is Outcome.SUBMITTED
        for delivery in deliveries.values():
            steps = [line.step for line in ledger.journal_of(delivery.id)]
            events = ledger.events_of(delivery.id)
            was_merged = delivery.outcome is Outcome.EMPTY
            assert steps[0] is Step.OPENED
            assert (Step.SETTLED in steps) == delivery.state.is_terminal
            assert (delivery.state is DeliveryState.LOCKED) == (delivery.lease_until is not None)
            assert bool(events) != was_merged
            status = EventStatus.ANNOUNCED if delivery.state.is_terminal else EventStatus.OPEN
            assert {event.status for event in events} <= {status}
        unfrozen = [one.identity for one in deliveries.values() if not one.state.is_frozen]
        assert len(unfrozen) == len(set(unfrozen))
        ledger.gather(Instant(0), counted_ids(f"after-{position.cursor}-"))
        assert not ledger._db.rows("SELECT 1 FROM wake_event WHERE status = 'open' AND delivery_id IS NULL")
        return position.cursor


def test_a_kill_at_any_moment_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    """Cursor and events are one transaction, on disk when the call returns; the journal likewise."""
    with fresh_ledger(tmp_path):
        pass

    cursors = []
    for trial in range(KILLS):
        reports = reports_until_killed(tmp_path, after=2 + trial)
        cursors.append(check(tmp_path, reports))

    print(f"{KILLS} kills, cursor after each: {cursors}")
    assert cursors == sorted(cursors)
    assert cursors[-1] > KILLS
