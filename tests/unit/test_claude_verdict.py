"""The table that says what became of a wake, row by row."""

from __future__ import annotations

import pytest
from wake_bridge_adapters.claude_code.attempt import EchoLevel, Patience, Seen, WakeVerdict, verdict_on
from wake_bridge_adapters.claude_code.session import Life

SOON, LONG = 0.1, 60.0

ROWS = [
    (Seen(EchoLevel.TOLD, Life.RUNS), WakeVerdict.TOLD),
    (Seen(EchoLevel.TOLD, Life.ENDED), WakeVerdict.TOLD),
    (Seen(EchoLevel.QUEUED, Life.ENDED), WakeVerdict.ENDED),
    (Seen(EchoLevel.NONE, Life.ENDED, heard_for=SOON), WakeVerdict.ENDED),
    (Seen(EchoLevel.NONE, Life.RUNS, heard_for=SOON), None),
    (Seen(EchoLevel.NONE, Life.RUNS, heard_for=LONG), WakeVerdict.HEARD),
    (Seen(EchoLevel.QUEUED, Life.RUNS, waited_for=SOON), None),
    (Seen(EchoLevel.QUEUED, Life.RUNS, waited_for=LONG, rested_for=LONG), WakeVerdict.QUEUED),
    (Seen(EchoLevel.NONE, Life.RUNS, rested_for=SOON), None),
    (Seen(EchoLevel.NONE, Life.RUNS, rested_for=LONG), WakeVerdict.RESTED),
    (Seen(EchoLevel.NONE, Life.RUNS, waited_for=LONG), WakeVerdict.UNSEEN),
    (Seen(EchoLevel.NONE, Life.SUSPENDED, waited_for=LONG), WakeVerdict.UNSEEN),
]


@pytest.mark.parametrize(("seen", "verdict"), ROWS)
def test_the_first_line_that_applies_decides(seen: Seen, verdict: WakeVerdict | None) -> None:
    """What is seen beats what is not; absence is said only of a process that ended or rested long enough."""
    assert verdict_on(seen, Patience()) is verdict


def test_all_patience_together_stays_below_a_lease() -> None:
    """The attempt is bounded by the lease, of which an attempt may use four fifths."""
    patience, ringing = Patience(), 6.0

    assert ringing + max(patience.proof + patience.rest, patience.queued) + patience.written < 0.8 * 60
