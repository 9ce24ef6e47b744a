"""docs/first-day.md, run as it stands: a new user on a clean machine, five agents in tmux."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from wake_bridge.testing.transcript import Command, play, read_transcript

DOCUMENT = Path(__file__).parents[2] / "docs/first-day.md"
STARTS_THE_DAEMON = "tmux new-session -d -s wake-bridge wake-bridge run"
IT_RUNS = Command("wake-bridge status", ["…", "daemon running (pid…", "…"], is_repeated=True)
"""What a person's next key waits for; not written, since it takes them longer than that to type."""


def is_of_the_first_day(command: Command) -> bool:
    return command.line.startswith("wake-bridge") or command.line == STARTS_THE_DAEMON


def test_the_first_day_goes_as_its_document_says(
    clean_machine: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """First wake within 2 minutes of work and 6 commands, installing included; run as a test."""
    commands = read_transcript(DOCUMENT.read_text(encoding="utf-8"))
    home = Path(clean_machine["HOME"])
    taken: dict[str, float] = {}

    for command in commands:
        taken[command.line] = play(command, clean_machine, home)
        if command.line == STARTS_THE_DAEMON:
            taken[command.line] += play(IT_RUNS, clean_machine, home)

    ours = [command.line for command in commands if is_of_the_first_day(command)]
    until_it_arrived = ours[: ours.index("wake-bridge deliveries") + 1]
    with capsys.disabled():
        print(f"\nfirst day: {len(until_it_arrived)} commands and the install, {sum(taken.values()):.1f} s in all")
    assert 1 + len(until_it_arrived) <= 6
    assert sum(taken[line] for line in until_it_arrived) < 120


def test_the_readmes_quick_start_is_the_first_day() -> None:
    """Following only the README; its commands are the ones that are run."""
    readme = (DOCUMENT.parents[1] / "README.md").read_text(encoding="utf-8")
    _, _, section = readme.partition("## Your own agents")
    section, _, _ = section.partition("\n## ")
    lines = {line.removeprefix("$ ").partition("  #")[0].strip() for line in section.splitlines() if line[:2] == "$ "}
    day = [command.line for command in read_transcript(DOCUMENT.read_text(encoding="utf-8"))]
    until_it_arrived = day[: day.index("wake-bridge deliveries") + 1]

    ours = [line for line in until_it_arrived if line.startswith("wake-bridge") or line == STARTS_THE_DAEMON]
    assert set(ours) <= lines
    assert len(ours) == 5
