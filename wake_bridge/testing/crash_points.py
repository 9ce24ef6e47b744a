"""Dying, or standing still, exactly before or after one journalled step: the crash seam of the journal port.

    WAKE_BRIDGE_TEST_CRASH=intent_submit:after python -m wake_bridge.testing.crash_points run

runs the command line as it is, but its daemon on a ledger that watches its own transactions. A point is
`STEP:before` (all is written, nothing is committed yet), `STEP:after` (it has just been committed, nothing has followed),
and `STEP:after:2` the second time that happens. Steps are those of the journal, and `matched` for the transaction that
brings new events together with the cursor.

    WAKE_BRIDGE_TEST_CRASH   kills its own process there (SIGKILL)
    WAKE_BRIDGE_TEST_HALT    stands still there, every time, until it is told to go on: `staged:after@DIRECTORY`; `Halt`
                             is the other side
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Self

import wake_bridge.daemon.life
from wake_bridge.cli.start import main
from wake_bridge.domain.delivery import Step
from wake_bridge.domain.events import WakeEvent
from wake_bridge.domain.names import Instant
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.database import Database

CRASH: Final = "WAKE_BRIDGE_TEST_CRASH"
HALT: Final = "WAKE_BRIDGE_TEST_HALT"
COMMAND: Final = ("-m", "wake_bridge.testing.crash_points")
"""What an interpreter is given to run the command line through here."""

MATCHED: Final = "matched"
STEPS: Final = (MATCHED, *(step.value for step in Step))
WHENS: Final = ("before", "after")

LONGEST_HALT: Final = 60.0
"""Seconds after which a daemon that nobody tells to go on gives up."""

_POINT: Final = re.compile(rf"({'|'.join(STEPS)}):(before|after)(?::([1-9]\d*))?")
_POLL: Final = 0.01


@dataclass(frozen=True, slots=True)
class Point:
    """One moment in the life of the ledger; `nth` counts from 1."""

    step: str
    when: str
    nth: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `STEP:WHEN[:NTH]`; raises `ValueError` for what is none."""
        found = _POINT.fullmatch(text)
        if found is None:
            raise ValueError(f"no such point: {text!r} (STEP:before|after[:NTH], STEP one of {', '.join(STEPS)})")
        step, when, nth = found.groups(default="1")
        return cls(step, when, int(nth))

    def __str__(self) -> str:
        return f"{self.step}:{self.when}" + (f":{self.nth}" if self.nth > 1 else "")


class Halt:
    """Both sides of a standstill: the daemon stands at a point until the test has done what it wants to do there.

    Args:
        point: where; `nth` is ignored, every time counts.
        directory: where the two sides leave each other word.
    """

    def __init__(self, point: Point, directory: Path) -> None:
        self.point = point
        self._directory = directory
        self._turns = count(1)
        self._turn = next(self._turns)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `POINT@DIRECTORY`; raises `ValueError` for what is none."""
        point, separator, directory = text.partition("@")
        if not separator:
            raise ValueError(f"no such halt: {text!r} (POINT@DIRECTORY)")
        return cls(Point.parse(point), Path(directory))

    def __str__(self) -> str:
        return f"{self.point}@{self._directory}"

    def stand(self) -> None:
        """The daemon's side: say that the point is reached, and wait.

        Raises:
            TimeoutError: nobody says to go on.
        """
        self._word("reached").touch()
        _wait_for(self._word("go").exists, LONGEST_HALT, f"nobody lets it go on from {self.point}")
        self._turn = next(self._turns)

    def waits_until_reached(self, timeout: float = 40.0) -> None:
        """The test's side: return when the daemon stands there.

        Raises:
            TimeoutError: it never came there.
        """
        _wait_for(self._word("reached").exists, timeout, f"the daemon never came to {self.point}")

    def is_reached(self) -> bool:
        """Whether the daemon stands there now."""
        return self._word("reached").exists()

    def go(self) -> None:
        """The test's side: let the daemon go on."""
        self._word("go").touch()
        self._turn = next(self._turns)

    def _word(self, word: str) -> Path:
        return self._directory / f"{self._turn}-{word}"


@dataclass(slots=True)
class Moments:
    """Counts the moments that come by and does what was planned for them.

    Args:
        crash: where to die; None for nowhere.
        halt: where to stand still; None for nowhere.
    """

    crash: Point | None = None
    halt: Halt | None = None
    _met: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def planned(cls, environment: Mapping[str, str]) -> Self:
        """What the environment asks for; raises `ValueError` when it asks for what there is not."""
        crash, halt = environment.get(CRASH), environment.get(HALT)
        return cls(Point.parse(crash) if crash else None, Halt.parse(halt) if halt else None)

    def meet(self, step: str, when: str) -> None:
        """A moment has come."""
        nth = self._met[step, when] = self._met.get((step, when), 0) + 1
        if self.halt is not None and (self.halt.point.step, self.halt.point.when) == (step, when):
            self.halt.stand()
        if self.crash == Point(step, when, nth):
            os.kill(os.getpid(), signal.SIGKILL)


class WatchedDatabase(Database):
    """A database that tells of the steps in a transaction right before and right after its commit."""

    def __init__(self, origin: Database, meet: Callable[[str, str], None]) -> None:
        super().__init__(origin.connection, origin.path)
        self.steps: list[str] = []
        self._meet = meet

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Database.transaction`."""
        self.steps.clear()
        with super().transaction():
            yield
            steps = list(dict.fromkeys(self.steps))
            for step in steps:
                self._meet(step, "before")
        for step in steps:
            self._meet(step, "after")


class WatchedLedger(LedgerStore):
    """The ledger of a daemon that is to die or to stand still, as the environment says."""

    def __init__(self, database: Database, set_aside: Path | None = None) -> None:
        self._watched = WatchedDatabase(database, Moments.planned(os.environ).meet)
        super().__init__(self._watched, set_aside)

    def _write_lines(self, lines: Sequence[tuple[str, Step, Mapping[str, str]]], now: Instant) -> None:
        super()._write_lines(lines, now)
        self._watched.steps += [step.value for _, step, _ in lines]

    def _insert(self, event: WakeEvent, now: Instant, replay: int = 0) -> bool:
        is_new = super()._insert(event, now, replay)
        if is_new:
            self._watched.steps.append(MATCHED)
        return is_new


def _wait_for(condition: Callable[[], bool], timeout: float, complaint: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        time.sleep(_POLL)


def run() -> None:
    """The command line, with its daemon on a watched ledger."""
    Moments.planned(os.environ)
    wake_bridge.daemon.life.LedgerStore = WatchedLedger  # type: ignore[attr-defined]
    main()


if __name__ == "__main__":
    run()
