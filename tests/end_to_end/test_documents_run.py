"""Every command block of the documents, run: each page as a story, one after the other, on one machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.end_to_end.test_first_day import IT_RUNS, STARTS_THE_DAEMON
from wake_bridge.testing.transcript import Command, play, read_transcript

ROOT = Path(__file__).parents[2]
AGENTS = ("tmux new-session -d -s work -n api -c ~/api claude", "tmux new-window -d -t work: -n core -c ~/core codex")

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))

STORY = (
    "docs/by-hand.md",
    "docs/routes.md",
    "docs/profiles.md",
    "docs/service.md",
    "docs/hooks.md",
    "docs/native.md",
    "docs/webhook.md",
    "docs/serve.md",
    "docs/attention.md",
    "docs/activity.md",
    "docs/page.md",
    "docs/channels.md",
    "docs/intake.md",
    "docs/answers.md",
    "docs/carriers.md",
    "docs/macos.md",
    "docs/mcp.md",
    "docs/keeping.md",
    "docs/adapters.md",
    "docs/reliability.md",
    "README.md",
    "CONTRIBUTING.md",
)
"""In this order: who is enlisted in the first is looked at in the next; the README's last words are about leaving."""

OF_THEIR_OWN = {
    "docs/first-day.md": "test_first_day.py",
    "docs/from-neo.md": "test_from_neo.py",
    "docs/many-hosts.md": "test_many_hosts_page.py",
}
"""Pages that need another machine, and the test that runs them."""

SET_UP_BEFORE = {
    "docs/attention.md": (
        Command("wake-bridge agent add @worker"),
        Command("wake-bridge agent add @lead"),
        Command("tmux new-window -d -t work: -n lead sh"),
        Command("wake-bridge subscribe @lead --trigger SENT_TO_ME --tmux work:lead"),
    ),
    "docs/intake.md": (Command("wake-bridge agent add @api"),),
    "docs/channels.md": (
        Command("wake-bridge agent add @docs"),
        # in place of the phone's service, which no test reaches
        Command(
            'printf \'[channels.phone]\\nkind = "file"\\nrecipient = "told"\\n\' >> ~/.config/wake-bridge/config.toml'
        ),
        Command("kill -HUP $(wake-bridge status --json | tr -d ' \\n' | sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/')"),
        Command("wake-bridge channels list", ["…", "phone…", "…"], is_repeated=True),
    ),
}
"""What a page takes for granted, or has its reader write by hand."""

NOT_RUN = {
    "git clone ": "there is no network",
    "make ": "they are this suite; that the targets exist is in test_documents.py",
    "uv tool install ": "the program under test is installed already",
    "wake-bridge service ": "it would ask the person's own service manager; test_systemd.py runs it on a real one",
    "wake-bridge serve": "it ends when it is told to, and one state directory has one daemon; test_serve.py runs it",
    "brew install ": "it is a Mac's; what follows it is this suite",
    ".venv/bin/python -m tests.mac_check": "it asks a person; test_mac_check.py runs it",
    "tmux display-popup ": "it needs a person's terminal",
    "opencode --port ": "it is a real program; `make test-harness` runs it",
    "wake-bridge routes @opencode": "likewise",
    "copilot --ui-server ": "likewise",
    "wake-bridge routes @copilot": "likewise",
    "qwen sessions ": "likewise",
    "chmod 600 ~/.config/wake-bridge/qwen.token": "the file comes from that program; `make test-harness` makes one",
    "wake-bridge screens update": "it asks a person, or the network; test_screen_profiles_managed.py does it",
    "wake-bridge screens report": "likewise",
    "curl --unix-socket ": "no daemon of this story listens at one; test_http_routes.py runs it",
    "wake-bridge mcp --http ": "it ends when it is told to; test_mcp.py runs it",
    "wake-bridge activity --follow": "it ends when it is told to; test_activity.py runs it",
    "wake-bridge agent add @bird ": "needs the adapter of that page; test_third_party_adapter.py builds and runs it",
    'wake-bridge wake @bird "fly"': "likewise",
}
"""How those commands begin that this machine cannot run, and why."""

TRIED_ELSEWHERE = {
    "wake-bridge screens trust ": "it asks a person, of a program that looks unlike its profile; test_screen_trust.py does it",
    "wake-bridge setup\n   $ wake-bridge run": "on another machine; test_first_day.py does it",
    "wake-bridge hosts add ": "it leads to another machine; test_hosts.py does it",
    "wake-bridge hosts list": "of several machines; test_leases.py does it",
}
"""Commands that are shown with what they ask, and the test that runs them."""

WITHOUT_A_DAEMON = Command("wake-bridge status", ["…", "daemon not running", "…"], is_repeated=True)


def is_run(line: str) -> bool:
    return not line.startswith(tuple(NOT_RUN))


def stop_the_daemon(machine: Mapping[str, str], tmux: str) -> None:
    """End it with its session, if there is one, and wait until it has ended."""
    end = subprocess.run([tmux, "kill-session", "-t", "=wake-bridge"], env=machine, capture_output=True, check=False)
    if end.returncode == 0:
        play(WITHOUT_A_DAEMON, machine, Path(machine["HOME"]))


def test_every_command_block_of_the_documents_can_be_taken_at_its_word(
    clean_machine: Mapping[str, str], tmux_program: str
) -> None:
    """A command ends with 0, and prints what is written below it, where something is."""
    home = Path(clean_machine["HOME"])
    for line in AGENTS:
        play(Command(line), clean_machine, home)

    for page in STORY:
        commands = [one for one in read_transcript((ROOT / page).read_text(encoding="utf-8")) if is_run(one.line)]
        lines = [one.line.partition("  #")[0].strip() for one in commands]
        if STARTS_THE_DAEMON in lines and not any(line.startswith("tmux kill-session") for line in lines):
            stop_the_daemon(clean_machine, tmux_program)
        for command in SET_UP_BEFORE.get(page, ()):
            play(command, clean_machine, home, unwritten_is_any=True)
        for line, command in zip(lines, commands, strict=True):
            if line == "wake-bridge uninstall":
                # as the sentence below it says: a daemon in a terminal is stopped there first
                stop_the_daemon(clean_machine, tmux_program)
            try:
                play(command, clean_machine, home, unwritten_is_any=True)
            except AssertionError as trouble:
                pytest.fail(f"{page}: {trouble}")
            if line == STARTS_THE_DAEMON:
                play(IT_RUNS, clean_machine, home)


def test_commands_stand_in_console_blocks_alone() -> None:
    """What stands in another block is not run."""
    block = re.compile(r"^ *```(?!console)\w+\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
    firsts = [
        text.lstrip().removeprefix("$ ") for page in PAGES for text in block.findall(page.read_text(encoding="utf-8"))
    ]
    commands = [one for one in firsts if one.startswith(("wake-bridge ", "tmux ", "make "))]
    assert [one for one in commands if not one.startswith(tuple(TRIED_ELSEWHERE))] == []


def test_no_page_with_a_command_block_is_left_out_and_nothing_is_excused_that_no_page_has() -> None:
    """A new page, or a command that is gone, changes the lists above."""
    found = {str(page.relative_to(ROOT)): read_transcript(page.read_text(encoding="utf-8")) for page in PAGES}

    assert {page for page, commands in found.items() if commands} == {*STORY, *OF_THEIR_OWN}
    lines = [command.line for page in STORY for command in found[page]]
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in lines)] == []
    assert all(list((ROOT / "tests").rglob(name)) for name in OF_THEIR_OWN.values())
