"""One run of the torture bench: its name, the goals it measures, and how it goes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.torture.report import Table
from wake_bridge.demo.tmux_server import PrivateTmux

Count = TypeVar("Count")


@dataclass(slots=True)
class Course:
    """What a run is given. Use as a context manager.

    Attributes:
        seed: what all chance comes from; the same one makes the same trials.
        is_long: the full counts, or as many as ten minutes allow.
        directory: an empty directory with a short name.
    """

    seed: int
    is_long: bool = False
    directory: Path = field(init=False)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tmux(self) -> PrivateTmux:
        """A tmux server of the run's own, ended with it."""
        return self._stack.enter_context(PrivateTmux())

    def count(self, short: Count, long: Count) -> Count:
        """How many in this form."""
        return long if self.is_long else short


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Attributes:
        name: by which it is asked for.
        goals: what it measures, by the G-numbers of the reliability goals.
        what: the goal in a few words.
        play: has all trials of a course.
        mostly_waits: costs little of a processor, so that others may run beside it.
        measured: a word that the names of measures have which stand in the table of all runs.
        pieces: runs of their own that the long form is made of; their figures add up to this one's.
    """

    name: str
    goals: Sequence[str]
    what: str
    play: Callable[[Course], Sequence[Table]]
    mostly_waits: bool = False
    measured: str = ""
    pieces: Sequence[Run] = ()

    def figures(self, tables: Sequence[Table], *, seed: int, is_long: bool) -> dict[str, Any]:
        """All that is kept of it, as JSON."""
        return {
            "goals": list(self.goals),
            "what": self.what,
            "form": "long" if is_long else "short",
            "seed": seed,
            "trials": sum(table.trials for table in tables),
            "violations": sum(len(table.violations) for table in tables),
            "result": ", ".join(
                f"{name} {value}"
                for table in tables
                for name, value in table.measures.items()
                if self.measured and self.measured in name
            ),
        }
