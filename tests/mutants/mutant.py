"""A mutant: the program without one of its guards, and the test that must notice (a file in `patches/` each)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PATCHES: Final = Path(__file__).with_name("patches")


class StalePatch(ValueError):
    """What a patch replaces does not stand in its file exactly once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One guard taken out.

    Attributes:
        name: the name of its file.
        fault: the kind of fault that comes back, a row of `docs/faults.md` by its first words.
        without: what the program lacks, a clause.
        file: the file that is changed, from the root of the repository.
        before: what stands there exactly once.
        after: what stands there instead.
        test: the test that must fail, as pytest names it.
        case: the beginning of the one parameter set that is run; empty for all.
    """

    name: str
    fault: str
    without: str
    file: str
    before: str
    after: str
    test: str
    case: str = ""

    @property
    def test_name(self) -> str:
        """The test as `docs/faults.md` names one."""
        file, _, name = self.test.partition("::")
        return f"{Path(file).name}::{name}" + (f"[{self.case}]" if self.case else "")

    def is_tried_by(self, node: str) -> bool:
        """Whether a test, as pytest names it with its parameters, is the one that must fail."""
        start = f"{self.test}[{self.case}" if self.case else self.test
        return node.startswith(start) and node[len(self.test) :][:1] in {"", "["}

    def patched(self, text: str) -> str:
        """The file's text without the guard. Raises `StalePatch`."""
        found = text.count(self.before)
        if found != 1:
            raise StalePatch(f"{self.name}: what it replaces stands {found} times in {self.file}")
        return text.replace(self.before, self.after)


def mutants(names: Sequence[str] = ()) -> Iterator[Mutant]:
    """All mutants, or those named, in the order of their names. Raises `KeyError` for a name that there is not."""
    known = {path.stem: path for path in sorted(PATCHES.glob("*.toml"))}
    for name in names or known:
        with known[name].open("rb") as file:
            yield Mutant(name, **tomllib.load(file))
