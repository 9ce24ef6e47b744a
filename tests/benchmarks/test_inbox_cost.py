"""What an inbox costs in which a hundred thousand items wait."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import Office
from wake_bridge.domain.events import ItemTier
from wake_bridge.domain.items import MOST_SHOWN, ItemDraft, SourceRules, event_of
from wake_bridge.domain.names import Epoch, Identity
from wake_bridge.offline.items import FLOORS
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

ITEMS: Final = 100_000
SOURCES: Final = 50
TRIALS: Final = 15
OWNER: Final = Identity("@agent0")
PROGRAM: Final = str(Path(sys.executable).with_name("wake-bridge"))
COMMANDS: Final = ("inbox @agent0", "inbox @agent0 --floor later --limit 50", "inbox @agent0 --floor now")
"""What fills its ten lines, what is the most that it shows, and what finds nothing for now."""


def test_an_inbox_with_100000_items(office: Office, figures: Figures) -> None:
    """The query ≤ 50 ms, the command as a whole process ≤ 150 ms."""
    office.sandbox.configure()
    with office.core() as core:
        core.identity(OWNER)
    office.daemon()[0].stop()
    _fill(office.sandbox.state_dir)
    with closing(LedgerStore.open(office.sandbox.state_dir, read_only=True)) as ledger:
        for floor, tiers in FLOORS.items():
            taken = []
            for _ in range(TRIALS):
                began = time.monotonic()
                ledger.unread_items(OWNER, tiers, MOST_SHOWN, SteadyClock().now())
                taken.append((time.monotonic() - began) * 1000)
            figures.add(f"100,000 items: query, floor {floor}", taken, "ms", at_most=50)
    took: dict[str, list[float]] = {words: [] for words in COMMANDS}
    for _ in range(TRIALS):
        for words in COMMANDS:
            began = time.monotonic()
            subprocess.run(
                [PROGRAM, *words.split()], env=office.sandbox.environment, capture_output=True, check=True, timeout=60
            )
            took[words].append((time.monotonic() - began) * 1000)
    for words, times in took.items():
        figures.add(f"100,000 items: `wake-bridge {words}`", times, "ms", at_most=150)


def _fill(state_dir: Path) -> None:
    """Items of many sources, every second one for later, written as one page."""
    now = SteadyClock().now()
    with closing(LedgerStore.open(state_dir)) as ledger, ledger._db.transaction():
        for number in range(ITEMS):
            tier = (ItemTier.NEXT, ItemTier.LATER)[number % 2]
            draft = ItemDraft(OWNER, f"source{number % SOURCES}", f"build {number} is red, see its log", tier=tier)
            ledger._insert(event_of(draft, SourceRules(), new_ulid(), Epoch(1), now), now)
