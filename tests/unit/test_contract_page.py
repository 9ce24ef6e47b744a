"""docs/contract.md lists what the code has: no name that others rely on is missing there, or stands there in vain."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tests.pages.names import with_names
from wake_bridge.cli.app import cli
from wake_bridge.control.client import SOCKET_NAME
from wake_bridge.control.instance_lock import LOCK_NAME, SIGN_OF_LIFE
from wake_bridge.domain import errors
from wake_bridge.domain.delivery import DeliveryState, HoldReason, Outcome, Step
from wake_bridge.domain.presence import PresenceState
from wake_bridge.ports import adapter
from wake_bridge.storage.graph.upstream import CURSOR_FILE
from wake_bridge.storage.logs import EVENTS

PAGE = (Path(__file__).parents[2] / "docs/contract.md").read_text(encoding="utf-8")
DEEPER = {"agent", "deliveries", "hook", "claude", "service", "screens", "config"}
"""Commands of which the page names the ones below them."""


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def names_in(text: str) -> list[str]:
    return re.findall(r"`([\w*]+)`", text)


def test_the_hold_reasons_are_those_of_the_code() -> None:
    """A hold reason is a name that others rely on."""
    said = section("Hold reasons").partition("-->")[2].partition("<!-- end")[0]
    assert names_in(said) == [one.value for one in HoldReason]


def test_the_log_events_are_those_of_the_code() -> None:
    """Whoever watches the log can rely on the list."""
    said = section("Log events").partition("-->")[2].partition("<!-- end")[0]
    assert names_in(said) == sorted(EVENTS)


def test_the_lists_of_names_are_those_that_make_docs_writes() -> None:
    """Nobody keeps them by hand."""
    assert with_names(PAGE) == PAGE, "stale: run `make docs`"


def test_the_journal_steps_are_those_of_the_code() -> None:
    """Of an attempt first, then the delivery's own."""
    assert names_in(section("Journal steps")) == [one.value for one in Step]


def test_states_and_outcomes_are_those_of_the_code() -> None:
    """They are words of `deliveries --json` and `presence --json`."""
    said = names_in(section("States, outcomes, proof"))
    assert said == [one.value for kind in (DeliveryState, Outcome, PresenceState) for one in kind]


def test_the_exit_codes_are_those_of_the_code() -> None:
    """Each class of error has one."""
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.WakeBridgeError)]
    said = [int(code) for code in re.findall(r"^\| (\d) \|", section("Exit codes"), re.MULTILINE)]
    assert said == [0, *sorted({one.exit_code for one in kinds})]


def test_the_files_of_the_state_directory_are_those_of_the_code() -> None:
    """What others may read there has the name that the code gives it."""
    said = set(re.findall(r"`([^`]+)`", section("State directory")))
    assert {CURSOR_FILE, SOCKET_NAME, LOCK_NAME, SIGN_OF_LIFE, "state.sqlite"} <= said


def test_every_command_has_its_row() -> None:
    """Each command that `--help` shows, and those below it where it has some."""
    context = click.Context(cli)
    known = set()
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        below = command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
        known |= {f"{name} {one}" for one in below} if name in DEEPER else {name}
    hidden = {f"hook {one}" for one in ("claude", "codex", "copilot", "gemini", "qwen")}
    told = {span for span in re.findall(r"`([^`\n]+)`", PAGE) if re.match(r"[a-z-]+", span)}
    missing = {
        one
        for one in known - hidden
        if not any(f"{span} ".startswith(f"{one} ") or f"wake-bridge {one}" == span for span in told)
    }
    assert missing == set()


def test_every_protocol_of_the_adapters_port_is_named() -> None:
    """What an adapter may offer besides is part of what its author relies on."""
    protocols = {
        one.__name__
        for one in vars(adapter).values()
        if getattr(one, "_is_protocol", False) and one.__module__ == adapter.__name__
    }
    told = re.search(r"optional protocols beside it \((.*?)\)", section("Adapters"), re.DOTALL)
    assert told
    assert {*names_in(told[1]), "HarnessAdapter", "Journal"} == protocols
