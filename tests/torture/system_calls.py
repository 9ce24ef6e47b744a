"""What a process asks the kernel for on one SQLite file, seen from outside by strace: its read transactions, its writes."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

CALLS: Final = "fcntl,pwrite64,write,writev,pwritev,ftruncate"
_LINE: Final = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\d+\.\d+) (\w+)\(\d+<([^>]*)>(.*)")
_LOCK: Final = re.compile(r"F_(?:OFD_)?SETLK.*l_type=F_(RDLCK|UNLCK|WRLCK).*l_start=(\d+).*\) += 0")
_READ_MARKS: Final = range(123, 128)
"""Bytes of the -shm file: one of them is locked while a transaction reads."""


def can_watch() -> bool:
    """Whether there is an strace that may be used."""
    program = shutil.which("strace")
    return (
        program is not None
        and subprocess.run([program, "-qq", "true"], capture_output=True, check=False).returncode == 0
    )


class Watcher:
    """Follows a process and all its threads until it is stopped.

    Args:
        pid: whom.
        output: where the calls are kept.
    """

    def __init__(self, pid: int, output: Path) -> None:
        self._output = output
        command = [
            "nice",
            "-n",
            "-20",
            "strace",
            "-f",
            "-y",
            "-ttt",
            "-qq",
            "-e",
            f"trace={CALLS}",
            "-e",
            "signal=none",
            "-o",
            str(output),
        ]
        self._process = subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.DEVNULL)
        status = Path(f"/proc/{pid}/status")
        while "TracerPid:\t0\n" in status.read_text(encoding="utf-8"):
            assert self._process.poll() is None, "strace may not follow it"
            time.sleep(0.02)

    def stop(self) -> None:
        """Follow it no longer."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            # it waits for a thread that does not stop for it; the kernel lets go of all of them with it
            self._process.kill()
            self._process.wait()

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
