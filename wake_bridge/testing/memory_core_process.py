"""A memory core in a process of its own, driven line by line: a writer that shares nothing with the reader but the file.

with MemoryCoreProcess(path) as core:
    core.do("send", "@a", "@b", "Review request")
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Self, cast

from wake_bridge.testing import HUNG
from wake_bridge.testing.memory_core import MemoryCore


class MemoryCoreProcess:
    """A `MemoryCore` in a process of its own. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._calls = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def do(self, action: str, *values: Any, **named: Any) -> Any:
        """Have one method of `MemoryCore` called; returns its answer after its commit."""
        self.start(action, *values, **named)
        return self.finish()

    def start(self, action: str, *values: Any, **named: Any) -> None:
        """Have it called without waiting; `finish` gives the answer."""
        self._calls.write(json.dumps([action, values, named]) + "\n")
        self._calls.flush()

    def finish(self) -> Any:
        """The answer to the oldest call that was started; raises `RuntimeError` when the process has ended."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the memory core process has ended")
        return json.loads(line)

    def close(self) -> None:
        """End the process, and with it every lock it holds."""
        self._calls.close()
        self._process.wait(timeout=HUNG)
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main() -> None:
    """Serve calls from standard input until it ends."""
    with MemoryCore(Path(sys.argv[1])) as core:
        for line in sys.stdin:
            action, values, named = json.loads(line)
            print(json.dumps(getattr(core, action)(*values, **named)), flush=True)


if __name__ == "__main__":
    main()
