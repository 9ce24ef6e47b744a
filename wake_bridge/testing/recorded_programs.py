"""Programs that write down what reaches them: stand-ins for those of the system, and a bystander in a pane.

    python -m wake_bridge.testing.recorded_programs FILE

Whatever should reach no pane at all must not reach this one either.
"""

from __future__ import annotations

import json
import os
import sys
import tty
from collections.abc import Mapping
from pathlib import Path
from typing import Final


def main() -> None:
    """Append everything from the terminal at stdin to the file, until the terminal is gone."""
    with Path(sys.argv[1]).open("ab", buffering=0) as record:
        tty.setraw(sys.stdin.fileno())
        os.write(sys.stdout.fileno(), b"recording\r\n")
        while chunk := os.read(sys.stdin.fileno(), 65536):
            record.write(chunk)


if __name__ == "__main__":
    main()


_SCRIPT: Final = """#!{python}
import json, pathlib, sys
directory = pathlib.Path({directory!r})
words = [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]
with (directory / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
for beginning, (status, output, complaint) in json.loads((directory / "answers.json").read_text()).items():
    if " ".join(words).startswith(beginning):
        sys.stdout.write(output)
        sys.stderr.write(complaint)
        sys.exit(status)
"""


class RecordedPrograms:
    """Programs in a directory to put first on a `PATH`.

    Args:
        directory: an empty directory for the programs and what they write down.
        names: what they are called.
    """

    def __init__(self, directory: Path, *names: str) -> None:
        self.directory = directory
        self._answers: dict[str, tuple[int, str, str]] = {}
        for name in names:
            script = directory / name
            script.write_text(_SCRIPT.format(python=sys.executable, directory=str(directory)), encoding="utf-8")
            script.chmod(0o755)
        self._save()

    def answer(self, beginning: str, output: str = "", *, status: int = 0, complaint: str = "") -> None:
        """What a call that begins with those words prints and ends with; others print nothing and end with 0.

        Of several that fit, the one that was named first counts; naming one again replaces it.
        """
        self._answers[beginning] = (status, output, complaint)
        self._save()

    def calls(self, program: str = "") -> list[str]:
        """How they were called, in order, as one line each; all or those of one program."""
        log = self.directory / "calls.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        calls = [" ".join(json.loads(line)) for line in lines]
        return [call for call in calls if call.startswith(program)]

    def forget(self) -> None:
        """Begin a new list of calls."""
        (self.directory / "calls.jsonl").unlink(missing_ok=True)

    def path(self, environment: Mapping[str, str]) -> str:
        """A `PATH` on which they come first."""
        return f"{self.directory}:{environment['PATH']}"

    def _save(self) -> None:
        (self.directory / "answers.json").write_text(json.dumps(self._answers), encoding="utf-8")
