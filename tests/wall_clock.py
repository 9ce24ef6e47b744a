"""The wall clock of several programs of one host, set for all of them at once, as by a person: its daemon and its tmux server.

What counts steadily is as it was. The programs load `wall_clock.c` before the system's library; it is compiled here.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wake_bridge.demo.tmux_server import PrivateTmux

SOURCE: Final = Path(__file__).with_suffix(".c")
_SECONDS: Final = struct.Struct("l")


def can_be_set() -> bool:
    """Whether this machine has what it takes: a compiler, and a loader that knows `LD_PRELOAD`."""
    return shutil.which("cc") is not None and Path("/proc/self/maps").exists()


class WallClock:
    """One host's clock.

    Args:
        directory: where what is compiled lies, and how far ahead it is.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._library = directory / "wall_clock.so"
        if not self._library.exists():
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self._library, SOURCE], check=True)
        self._file = directory / "ahead"
        self._file.write_bytes(_SECONDS.pack(0))

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program is started with that is to have this clock."""
        return {"LD_PRELOAD": str(self._library), "WAKE_BRIDGE_TEST_WALL": str(self._file)}

    def set(self, seconds: int) -> None:
        """So many seconds ahead of the machine's; all at once, also for who runs."""
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), _SECONDS.size) as shown:
            shown[:] = _SECONDS.pack(seconds)

    def starts(self, tmux: PrivateTmux) -> None:
        """Start a tmux server that has this clock; what runs in its panes has the machine's."""
        command = ["tmux", "-u", "-L", tmux.socket_name, "-f", "/dev/null", "new-session", "-d", "-s", "clock"]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **self.environment}
        subprocess.run([*command, "exec sleep 100000"], check=True, env=environment, capture_output=True)
        for name in self.environment:
            tmux.run("set-environment", "-g", "-r", name)
