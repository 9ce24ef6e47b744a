"""What a process asks the kernel for on one SQLite file, seen from outside by strace: its read transactions, its writes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

CALLS: Final = "fcntl,pwrite64,write,writev,pwritev,ftruncate"
_LINE: Final = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\d+\.\d+) (\w+)\(\d+<([^>]*)>(.*)")
_LOCK: Final = re.compile(r"F_(?:OFD_)?SETLK.*l_type=F_(RDLCK|UNLCK|WRLCK).*l_start=(\d+).*\) += 0")
_READ_MARKS: Final = range(123, 128)
"""Bytes of the -shm file: one of them is locked while a transaction reads."""


FILTERED: Final = ("--seccomp-bpf",)
"""The kernel stops the process for the calls that are asked for alone: stopped at every page, a scan takes thirty times as long."""


def can_watch() -> bool:
    """Whether there is an strace that may be used."""
    program = shutil.which("strace")
    command = [program or "", "-qq", "-f", *FILTERED, "true"]
    return program is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


class Watcher:
    """Follows a process and all its threads from its start to its end.

    Args:
        output: where the calls are kept.
    """

    def __init__(self, output: Path) -> None:
        self._output = output

    @property
    def command(self) -> tuple[str, ...]:
        """What comes before the command of the process; its pid is that of the process itself."""
        asked = ("-f", "-y", "-ttt", "-qq", "-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(self._output))
        return ("strace", "-D", *FILTERED, *asked)

    def transactions(self, graph: Path) -> list[float]:
        """Seconds of each read transaction on a file in WAL mode."""
        begun: dict[str, float] = {}
        taken = []
        for _, at, call, path, rest in self._calls():
            lock = _LOCK.search(rest) if call == "fcntl" and path == f"{graph}-shm" else None
            if lock is None or int(lock[2]) not in _READ_MARKS:
                continue
            if lock[1] == "RDLCK":
                begun[lock[2]] = at
            elif lock[1] == "UNLCK" and lock[2] in begun:
                taken.append(at - begun.pop(lock[2]))
        return taken

    def writes(self, graph: Path) -> list[str]:
        """Every write to the file or its log."""
        files = {str(graph), f"{graph}-wal"}
        return [
            f"{call}({path}{rest}"[:200]
            for _, _, call, path, rest in self._calls()
            if call != "fcntl" and path in files
        ]

    def _calls(self) -> list[tuple[str, float, str, str, str]]:
        text = self._output.read_text(encoding="utf-8", errors="replace")
        found = (_LINE.match(line) for line in text.splitlines())
        return [(one[1], float(one[2]), one[3], one[4], one[5]) for one in found if one is not None]
