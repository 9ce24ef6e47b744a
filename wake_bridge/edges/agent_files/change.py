"""One file of a person's, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Form(StrEnum):
    """How our part stands in the file, and so how it is found again after the person has edited the rest.

    What is ours as a whole goes as a whole, whatever was edited in it: left behind, it would go on working.
    """

    BLOCK = "block"
    JSON = "json"
    WHOLE = "whole"
    HOOKS = "hooks"


@dataclass(frozen=True, slots=True)
class FileChange:
    """What is to be written into one file.

    Args:
        path: the file itself, links followed.
        before: its bytes now; None where there is none.
        after: its bytes then.
        what: one clause for the person, such as "instructions for @codex".
        form: how our part is found again.
        where: for JSON the names down to the array or object that holds our part.
        names: for JSON what we want there.
        link: the link the file was reached by, where there is one.
    """

    path: Path
    before: bytes | None
    after: bytes
    what: str
    form: Form
    where: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    link: Path | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after
