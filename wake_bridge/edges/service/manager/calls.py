"""One bounded call to a program of the service manager's, without a shell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PATIENCE: Final = 120
"""Seconds; a start returns only when the daemon says that it is ready, or the manager has given it up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to."""

    status: int
    output: str
    complaint: str

    @property
    def is_well(self) -> bool:
        """Whether it did what was asked."""
        return self.status == 0


class Calls:
    """Runs programs that are found on the `PATH` of `environment`, and in it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def finds(self, program: str) -> bool:
        """Whether there is such a program."""
        return shutil.which(program, path=self.environment.get("PATH")) is not None

    def run(self, program: str, *arguments: str) -> Answer:
        """Run it to its end. One that is missing, or takes longer than `PATIENCE`, is an answer that is not well."""
        path = shutil.which(program, path=self.environment.get("PATH"))
        if path is None:
            return Answer(127, "", f"there is no {program} on PATH")
        try:
            done = subprocess.run(  # noqa: S603 - an argv, never a shell
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=dict(self.environment),
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"{program} did not answer within {PATIENCE} s")
        except OSError as refusal:
            return Answer(126, "", f"{program} cannot be run ({refusal.strerror})")
        complaint = done.stderr.strip().replace("\n", "; ") or f"{program} exited with {done.returncode}"
        return Answer(done.returncode, done.stdout, "" if done.returncode == 0 else complaint)
