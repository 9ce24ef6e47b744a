"""The command that tells a person: real processes, hostile texts, hangs and failures."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from wake_bridge.domain.names import Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.integrations.human import WordToTheHuman
from wake_bridge.ports.adapter import Notifier
from wake_bridge.ports.human import Told
from wake_bridge.testing import until
from wake_bridge.testing.hostile import hostile_subjects

RECORDER = "import json, sys; json.dump([sys.argv[2:], sys.stdin.read()], open(sys.argv[1], 'w'))"
EVIL = (
    "$(touch {trap})",
    "`touch {trap}`",
    "'; touch {trap}; '",
    '"; touch {trap}; "',
    "\n touch {trap} \n",
    "-rf / --help",
    "| touch {trap}",
    "{body} {title} %s ${{IFS}}",
)


def notice(text: str = "a subject", since: int = 1_800_000_000_000) -> Notice:
    return Notice(
        "01X", "waitingOnApproval", f"wake-bridge: {text}", f"To do: {text}", Instant(since), "@agent", "a:1.0"
    )


def tell(command: Sequence[str], said: Notice, timeout: float = 10, notifiers: Sequence[Notifier] = ()) -> Told:
    return asyncio.run(WordToTheHuman(command, timeout, notifiers).tell(said))


def test_hostile_texts_reach_the_command_as_arguments_and_as_json_and_no_shell(tmp_path: Path) -> None:
    """`[human]`: argv and JSON on stdin; graph text never reaches a shell."""
    trap, record = tmp_path / "trap", tmp_path / "record.json"
    command = [sys.executable, "-c", RECORDER, str(record), "--", "{title}", "--body={body}", "{other}"]
    texts = [text.format(trap=trap) if "{trap}" in text else text for text in EVIL]
    for text in [*texts, *(one.replace("\0", "") for one in hostile_subjects(5, seed=11))]:
        printable = text.encode(errors="replace").decode()
        assert tell(command, notice(printable)) == Told(sys.executable)

        (argv, stdin) = json.loads(record.read_text())
        assert argv == ["--", f"wake-bridge: {printable}", f"--body=To do: {printable}", "{other}"]
        told = json.loads(stdin)
        assert told["body"] == f"To do: {printable}"
        assert (told["reason"], told["identity"], told["subject"]) == ("waitingOnApproval", "@agent", "01X")
        assert told["since"] == "2027-01-15T08:00:00.000Z"
        assert not trap.exists()


def test_a_script_may_be_given_the_texts_as_its_own_arguments(tmp_path: Path) -> None:
    """`[human]`: behind a script's text they are `$1`, and a shell that quotes them runs nothing."""
    trap, said = tmp_path / "trap", tmp_path / "said"
    assert tell(["sh", "-c", f'printf %s "$1" > {said}', "sh", "{title}"], notice(f"$(touch {trap})")).trouble == ""
    assert said.read_text() == f"wake-bridge: $(touch {trap})"
    assert not trap.exists()


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """`delivery.adapter_timeout`: every external call is bounded, its whole process group."""
    pids = tmp_path / "pids"

    def hangs_and_is_ended() -> bool:
        told = tell(["sh", "-c", f"trap '' TERM; sleep 600 & echo $! $$ > {pids}; wait"], notice(), timeout=0.5)
        assert told.trouble == "it was ended after 0.5 s"
        # on a busy machine it may have been ended before it wrote who it is
        return pids.exists() and pids.read_text().endswith("\n")

    until(hangs_and_is_ended)
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not _runs(pid), f"the end of {pid}")  # type: ignore[misc]


def _runs(pid: int) -> bool:
    """Whether a process is alive; one that is dead and not yet buried is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("command", "trouble"),
    [
        (["/nonexistent/program"], "it cannot be started"),
        (["sh", "-c", "echo no display >&2; exit 3"], "exit status 3: no display"),
        (["sh", "-c", "exec 0<&-; exit 1"], "exit status 1"),
    ],
)
def test_a_command_that_fails_says_why(command: list[str], trouble: str) -> None:
    """Exit status and stderr are read."""
    assert trouble in tell(command, notice()).trouble


@dataclass
class Screen:
    """Somebody's terminal, perhaps with somebody before it."""

    is_there: bool
    lines: list[str] = field(default_factory=list)

    async def show_person(self, line: str) -> bool:
        if self.is_there:
            self.lines.append(line)
        return self.is_there


def test_without_a_command_the_line_goes_to_the_terminal_where_somebody_is() -> None:
    """`[human]`: empty is the line in the terminal; where nobody is, the log and `status` have it."""
    empty, used = Screen(is_there=False), Screen(is_there=True)
    assert tell([], notice(), notifiers=[empty, used]) == Told("terminal")
    assert used.lines == ["wake-bridge: a subject. To do: a subject"]
    assert tell([], notice(), notifiers=[empty]) == Told("")
    assert tell(["true"], notice(), notifiers=[used]) == Told("true")
    assert len(used.lines) == 1
