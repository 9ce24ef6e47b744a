"""Console transcripts in Markdown: read from their code blocks, run, and compared with what really comes out.

A block is fenced as `console`. A line that begins with `$ ` is a command, what follows is its output, `…` in it stands
for anything, and a line that is `…` alone for any lines. Runs of blanks count as one. A comment `<!-- until -->` before
a block says that its commands may have to be repeated for a while.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(
    r"(?P<until><!-- until -->\s*)?^(?P<indent> *)```console\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_POLL: Final = 0.3
UNTIL: Final = 45.0
"""Seconds for which a command is repeated."""


@dataclass(slots=True)
class Command:
    """One command of a transcript and the output that is written below it."""

    line: str
    expected: list[str] = field(default_factory=list)
    is_repeated: bool = False

    def matches(self, output: str) -> bool:
        """Whether this is the output that is written."""
        return self._pattern().fullmatch(_plain(output)) is not None

    def _pattern(self) -> re.Pattern[str]:
        parts = []
        for line in self.expected:
            if line.strip() == "…":
                parts.append(r"(?:.*\n)*?")
            else:
                words = _plain(line).rstrip("\n")
                parts.append(".*".join(map(re.escape, words.split("…"))).replace(r"\ ", " ") + "\n")
        return re.compile("".join(parts))


def read_transcript(markdown: str) -> list[Command]:
    """All commands of a document's `console` blocks, in order."""
    commands: list[Command] = []
    for block in _BLOCK.finditer(markdown):
        for line in textwrap.dedent(block["text"]).splitlines():
            if line.startswith("$ "):
                commands.append(Command(line.removeprefix("$ "), is_repeated=block["until"] is not None))
            else:
                commands[-1].expected.append(line)
    return commands


def play(command: Command, environment: Mapping[str, str], directory: Path, *, unwritten_is_any: bool = False) -> float:
    """Run one command in a shell, as a person types it; the seconds it took.

    Args:
        command: what is typed, and what is written below it.
        environment: all of it.
        directory: where the shell stands.
        unwritten_is_any: a command below which nothing is written may print anything, and has to end with 0.

    Raises:
        AssertionError: its output is not what is written, or its end is not good; shows both.
    """
    began = time.monotonic()
    while True:
        answer = subprocess.run(
            ["/bin/sh", "-c", command.line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(environment),
            cwd=directory,
            timeout=60,
            check=False,
        )
        taken = time.monotonic() - began
        is_any = unwritten_is_any and not command.expected
        if answer.returncode == 0 if is_any else command.matches(answer.stdout):
            return taken
        if not command.is_repeated or taken > UNTIL:
            written = "\n".join(command.expected)
            raise AssertionError(
                f"$ {command.line}\nis written:\n{written}\n\ncame out ({answer.returncode}):\n{answer.stdout}"
            )
        time.sleep(_POLL)


def _plain(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)
