"""Which tmux programs tests run on: those that `WAKE_BRIDGE_TEST_TMUX` lists, else the one on PATH.

    WAKE_BRIDGE_TEST_TMUX=~/tmux-3.5a/bin/tmux:~/tmux-3.8/bin/tmux make test

The product finds `tmux` on PATH, and so does everything else here: for a while another one is first on it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wake_bridge.testing import HUNG

VARIABLE: Final = "WAKE_BRIDGE_TEST_TMUX"
"""Paths of tmux programs, parted as in PATH."""


@dataclass(frozen=True, slots=True)
class TmuxProgram:
    """One tmux: where it is, and what it calls itself."""

    path: Path
    name: str

    @classmethod
    def at(cls, path: Path) -> TmuxProgram:
        """Ask it for its version.

        Raises:
            OSError: it cannot be run.
        """
        said = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=HUNG, check=False)
        return cls(path, said.stdout.strip().replace(" ", "-"))

    @property
    def version(self) -> tuple[int, int]:
        """`(3, 3)` of `tmux-3.3a`; a program without a number counts as newer than all."""
        numbers = re.search(r"(\d+)\.(\d+)", self.name)
        return (int(numbers[1]), int(numbers[2])) if numbers else (99, 0)

    @contextmanager
    def first_on_path(self) -> Iterator[None]:
        """As long as this lasts, `tmux` means this program in this process and in those it starts."""
        before = os.environ["PATH"]
        with tempfile.TemporaryDirectory(prefix="wbt-") as directory:
            (Path(directory) / "tmux").symlink_to(self.path)
            os.environ["PATH"] = os.pathsep.join([directory, before])
            try:
                yield
            finally:
                os.environ["PATH"] = before


def tmux_programs(environment: Mapping[str, str] = os.environ) -> list[TmuxProgram]:
    """The listed ones, else the one on PATH; none where there is none.

    Raises:
        OSError: a listed one cannot be run.
    """
    listed = [Path(path) for path in environment.get(VARIABLE, "").split(os.pathsep) if path]
    if listed:
        return [TmuxProgram.at(path) for path in listed]
    found = shutil.which("tmux", path=environment.get("PATH"))
    return [TmuxProgram.at(Path(found))] if found else []
