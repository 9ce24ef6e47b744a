"""Mutants on trial: a test passes with the guard, and fails by assertion without it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.mutants import witness
from tests.mutants.mutant import Mutant, StalePatch
from tests.mutants.workshop import Ended, Workshop

KILLED: Final = "killed by assertion"
SURVIVED: Final = "survived"
ERROR: Final = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant. `said` is what the test, or the trouble, said; `seconds` those without the guard."""

    mutant: Mutant
    result: str
    said: str
    seconds: float


def trials(workshop: Workshop, tried: Sequence[Mutant]) -> Iterator[Verdict]:
    """All tests with their guards, at one go; then each without its own. Never raises for what patch or test does."""
    whole = workshop.run(tried)
    for mutant in tried:
        began = time.monotonic()
        with_guard = {node: ended for node, ended in whole.items() if mutant.is_tried_by(node)}
        result, said = _tried(workshop, mutant, with_guard)
        yield Verdict(mutant, result, said, time.monotonic() - began)


def _tried(workshop: Workshop, mutant: Mutant, with_guard: Ended) -> tuple[str, str]:
    if _kinds(with_guard) != {witness.PASSED}:
        return ERROR, f"the test does not pass with the guard: {_said(with_guard)}"
    try:
        broken = workshop.without(mutant)
    except (StalePatch, OSError) as trouble:
        return ERROR, str(trouble)
    with broken:
        ended = workshop.run([mutant])
    if _kinds(ended) == {witness.PASSED}:
        return SURVIVED, "the test passes without the guard"
    failed = _kinds(ended) - {witness.PASSED}
    return (KILLED if failed == {witness.ASSERTION} else ERROR), _said(ended)


def _kinds(ended: Ended) -> set[str]:
    return {kind for kind, _ in ended.values()}


def _said(ended: Ended) -> str:
    """What the first test that failed said."""
    if not ended:
        return "no test came to its end"
    return next((said for kind, said in ended.values() if kind != witness.PASSED), "")
