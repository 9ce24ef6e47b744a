"""Can the woken agent read its mail? The real programs, told and allowed what `setup` writes for them.

The model does what the instructions say: it runs the command that the `[WAKE]` line names, then answers by `send`.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.house import House
from tests.harness.installed import executable, search_path
from tests.harness.model.scenes import Call
from tests.harness.programs import PROGRAMS, Program, Setting
from tests.harness.tenancy import ONLY
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.integrations.agent_files import apply, plan_files, remove

ABLE: Final = [name for name in ONLY if name != "aider"]
"""aider runs no command by itself: it suggests one, and asks."""

WITHOUT_A_RULE: Final = ("qwen",)
"""Whose rules let more by than the commands that they name, so setup writes none (docs/harnesses.md)."""

ASKS_FOR_SERVERS: Final = {"qwen": "Approve this server"}
"""Who asks at its start whether the server of the project may run, and what it offers first."""

SANDBOXED: Final = ("codex",)
"""Who runs a command that no rule names without a question, but where it can write nothing."""

BY_FLAGS: Final = {"copilot": ("--allow-tool", "'shell(wake-bridge:*)'", "--allow-tool", "wake-bridge")}
"""Who is allowed a command only on its own command line, and what a person types there (docs/harnesses.md)."""

REPLY: Final = "I will look at it."

GREETINGS: Final = 10
"""Turns after which a program has started a server that it starts at all."""

pytestmark = [pytest.mark.harness, pytest.mark.timeout(300)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each program; but whom no rule allows to read its mail is only tried where nothing may get by."""
    marks = metafunc.definition.get_closest_marker
    needs_a_rule = marks("allowed") is not None and marks("by_tools") is None
    metafunc.parametrize("name", [one for one in ABLE if not (needs_a_rule and one in WITHOUT_A_RULE)])


@dataclass(frozen=True, slots=True)
class Reader(Program):
    """A program on whose `PATH` there is a wake-bridge."""

    tools: str = ""

    def environment(self, setting: Setting) -> dict[str, str]:
        """As ever, and the `PATH`."""
        return {**Program.environment(self, setting), "PATH": f"{self.tools}:{search_path()}"}

    def files(self, setting: Setting) -> dict[str, str]:
        """As ever, and the profile of a login shell, which makes a `PATH` of its own."""
        return {**Program.files(self, setting), ".profile": f"PATH={shlex.quote(self.tools)}:$PATH\n"}


class ReadersHouse(House):
    """A house whose program is told and allowed what it needs, or is not."""

    before: dict[str, bytes]

    def __init__(
        self,
        program: Program,
        directory: Path,
        command: tuple[str, ...],
        flags: tuple[str, ...],
        *,
        told: bool,
        mcp: bool,
    ) -> None:
        tools = directory / "bin"
        tools.mkdir()
        arguments = (*program.arguments, *flags)
        reader = Reader(program.name, program.registry, program.package, arguments, tools=str(tools))
        super().__init__(reader, directory, command)
        self._told = told
        self._server = (str(tools / "wake-bridge"),) if mcp else ()
        settings = (f"{name}={value}" for name, value in self.bridge.environment.items() if name != "PATH")
        script = tools / "wake-bridge"
        script.write_text(f'#!/bin/sh\nexec env {shlex.join(settings)} {shlex.join(command)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)

    def starts(self) -> None:
        """Start the program, and let it run the server of the project, where it asks."""
        super().starts()
        if self._server and (offer := ASKS_FOR_SERVERS.get(self.program.name)):
            self.waits_until(lambda look: offer in look.text, what="the question for the server")
            self.presses("Enter")

    def furnish(self) -> None:
        """What `setup --write-instructions` writes."""
        self.before = self.everything()
        if self._told:
            agent = SetupAgent(self.identity, self.program.name, self.work, "agents:0.0")
            apply(plan_files([agent], self.home, self._server), self.bridge.state_dir)

    def everything(self) -> dict[str, bytes]:
        """All files below the agent's HOME."""
        return {str(file): file.read_bytes() for file in sorted(self.home.rglob("*")) if file.is_file()}

    def wakes(self, *commands: str | Call) -> None:
        """Send a message that wakes it; the model does `commands`, in which `{message}` is the message's id."""
        self.waits_for_presence("idle", 60)
        self.bridge.run("pause", self.identity)
        message = self.bridge.send(self.identity, "please look", "--body", "The bug is in the parser.")
        self.model.stage.follows(*(_about(command, message) for command in commands))
        self.bridge.run("resume", self.identity)

    def waits_for_tool(self, tool: str) -> None:
        """Talk to the program until it offers that tool to the model: Codex begins a turn without servers that still start."""
        self.waits_for_presence("idle", 60)
        for _ in range(GREETINGS):
            asked = len(self.model.requests())
            self.says("hello there")
            waits_until(partial(self._is_asked_again, asked), self, "asked")
            self.waits_for_presence("idle", 60)
            if any(one.asked.offered(tool) or one.asked.behind_bridge(tool) for one in self.model.requests()):
                return
        raise AssertionError(f"no {tool} among {sorted(self.model.requests()[-1].asked.tools)}")

    def _is_asked_again(self, so_far: int) -> bool:
        return len(self.model.requests()) > so_far

    @property
    def reply(self) -> str:
        """The command that answers the message."""
        words = f'wake-bridge send @me --from {self.identity} --subject "Re: please look" --body "{REPLY}"'
        return f"{words} --reply-to {{message}}"

    def replies(self) -> list[dict[str, Any]]:
        """What has come back."""
        return self.bridge.lines("inbox", "@me", "--bodies")

    def unread(self) -> list[dict[str, Any]]:
        """What the agent has not read."""
        return self.bridge.lines("inbox", self.identity)


def _about(command: str | Call, message: str) -> str | Call:
    if isinstance(command, str):
        return command.replace("{message}", message)
    said = {
        name: one.replace("{message}", message) if isinstance(one, str) else one
        for name, one in command.arguments.items()
    }
    return Call(command.tool, said)


@pytest.fixture
def house(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, program: tuple[str, ...]
) -> Iterator[ReadersHouse]:
    """A house of its own; `told` unless the test says otherwise."""
    wanted = PROGRAMS[name]
    if executable(wanted) is None:
        pytest.fail(f"{name} is not installed: `make harnesses` installs it", pytrace=False)
    house = ReadersHouse(
        wanted,
        tmp_path,
        program,
        BY_FLAGS.get(name, ()) if "allowed" in request.keywords else (),
        told="untold" not in request.keywords,
        mcp="by_tools" in request.keywords,
    )
    try:
        with house:
            yield house
    finally:
        with suppress(TimeoutError):
            house.close()


def without_schema(content: bytes | None) -> bytes | None:
    """OpenCode writes the address of its schema into its configuration, whoever wrote the rest."""
    return re.sub(rb'\s*"\$schema": "[^"]*",\s*', b"", content) if content else content


def waits_until(condition: Callable[[], bool], house: ReadersHouse, what: str, timeout: float = 60) -> None:
    """Ask again and again.

    Raises:
        AssertionError: it never held; shows the pane.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never {what}\n{house.look().text}")
        time.sleep(0.5)


@pytest.mark.allowed
def test_a_wake_leads_to_mail_read_and_answered_without_a_dialog(house: ReadersHouse) -> None:
    """A wake leads to `inbox … --consume` and a reply through `send` without an approval dialog."""
    states: set[str] = set()

    def answered() -> bool:
        states.add(house.presence()["state"])
        return bool(house.replies())

    house.wakes("{read}", house.reply)
    waits_until(answered, house, "answered")
    house.waits_for_presence("idle", 30)

    (reply,) = house.replies()
    assert (reply["from"], reply["subject"], reply["body"]) == (house.identity, "Re: please look", REPLY)
    assert reply["inReplyTo"].startswith("MESSAGE:")
    assert "waitingOnApproval" not in states
    assert house.unread() == []


@pytest.mark.allowed
@pytest.mark.by_tools
def test_a_wake_leads_to_mail_read_and_answered_by_mcp_tools_without_a_dialog(house: ReadersHouse) -> None:
    """`check_inbox` and `send_message` of the registered server ask nobody, and the reply is in the agent's own name."""
    states: set[str] = set()

    def answered() -> bool:
        states.add(house.presence()["state"])
        return bool(house.replies())

    house.waits_for_tool("check_inbox")
    house.wakes(
        Call("check_inbox", {"consume": True}),
        Call("send_message", {"to": "@me", "subject": "Re: please look", "body": REPLY, "replyTo": "{message}"}),
    )
    waits_until(answered, house, "answered")
    house.waits_for_presence("idle", 30)

    (reply,) = house.replies()
    assert (reply["from"], reply["subject"], reply["body"]) == (house.identity, "Re: please look", REPLY)
    assert reply["inReplyTo"].startswith("MESSAGE:")
    assert "waitingOnApproval" not in states
    assert house.unread() == []


@pytest.mark.untold
def test_without_our_rules_the_mail_is_not_read(house: ReadersHouse) -> None:
    """What the rules are for: an approval comes up, or the sandbox refuses; and nothing is answered."""
    house.wakes("{read}", house.reply)

    if house.program.name in SANDBOXED:
        waits_until(lambda: any(one.asked.is_after_tool for one in house.model.requests()), house, "run")
        house.waits_for_presence("idle", 30)
    else:
        house.waits_for_presence("waitingOnApproval", 60)

    assert house.replies() == []
    assert [one["subject"] for one in house.unread()] == ["please look"]


@pytest.mark.parametrize(
    "command", ["{read}; touch ran", '{read} --limit "$(touch ran)"', "wake-bridge pause --all", "touch ran # {read}"]
)
def test_nothing_else_gets_by_under_the_name_of_mail(house: ReadersHouse, command: str) -> None:
    """Allow rules for the mail commands only, nothing broader."""
    house.wakes(command)

    if house.program.name in SANDBOXED:
        waits_until(lambda: any(one.asked.is_after_tool for one in house.model.requests()), house, "run")
        house.waits_for_presence("idle", 30)
    else:
        house.waits_for_presence("waitingOnApproval", 60)

    assert not (house.work / "ran").exists()
    assert not house.bridge.ask("status").get("paused")


@pytest.mark.allowed
def test_the_programs_leave_what_was_written_so_that_it_can_be_taken_back(house: ReadersHouse) -> None:
    """Also after the program itself ran with the files."""
    house.wakes("{read}", house.reply)
    waits_until(lambda: bool(house.replies()), house, "answered")

    removals = remove(house.bridge.state_dir)

    assert not [one for one in removals if one.trouble]
    now = house.everything()
    for one in removals:
        assert without_schema(now.get(str(one.path))) == without_schema(house.before.get(str(one.path)))
    project = [file for file in {*now, *house.before} if Path(file).is_relative_to(house.work) and "/.git/" not in file]
    assert {file: now.get(file) for file in project} == {file: house.before.get(file) for file in project}
