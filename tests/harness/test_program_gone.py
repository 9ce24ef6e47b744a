"""The program is removed, and its hooks stay in the settings: the real programs go on as if there had never been any."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.hook_house import HookHouse
from tests.harness.house import PATIENCE
from tests.harness.installed import executable
from tests.harness.programs import PROGRAMS
from tests.harness.tenancy import ONLY
from wake_bridge.integrations.agent_files import apply
from wake_bridge.integrations.agent_files.claude_plugin import plan_plugin
from wake_bridge.integrations.agent_files.hook_settings import INTO, plan_hooks

COMPLAINTS = ("not found", "No such file", "blocked", "hook error", "failed", "exited with", "127", "126")

GOES_ON = {"copilot"}
"""Copilot CLI shows what a hook says at a prompt, and asks the model all the same."""

pytestmark = [pytest.mark.harness, pytest.mark.timeout(400)]


class LeavingHouse(HookHouse):
    """A house whose hooks call a program of its own, which can be removed."""

    def furnish(self) -> None:
        """The hooks, as `hook install` and `claude install` write them."""
        place = self.home / "own bin"
        place.mkdir()
        self.script, self.interpreter = place / "wake-bridge", self.home / "python-of-its-own"
        self.interpreter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        self.script.write_text(
            f"#!{self.interpreter}\nimport sys\nfrom wake_bridge.cli.start import main\nsys.exit(main())\n"
        )
        for file in (self.script, self.interpreter):
            file.chmod(0o755)
        program, name = (str(self.script),), self.program.name
        state = self.home / "written"
        if name in INTO:
            apply([plan_hooks(name, program, {"HOME": str(self.home)}, state)], state)
        else:
            apply(plan_plugin(self.home / ".claude", program), state)

    def answers(self, text: str) -> str:
        """Say something, and see the model asked and the program idle again; answers what the pane shows then."""
        self.says(text)
        self.bridge.waits_for(lambda: self.requests_with(text), PATIENCE, f"the model to see {text!r}")
        self.waits_until(lambda look: "Noted." in look.text.rpartition(text)[2], what=f"the answer to {text!r}")
        self.waits_for_presence("idle")  # its last hook is over
        return self.look().text


@pytest.fixture(params=[one for one in ("gemini", "codex", "claude", "qwen", "copilot") if one in ONLY])
def house(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[LeavingHouse]:
    """One program with our hooks, idle."""
    if executable(PROGRAMS[request.param]) is None:
        pytest.fail(f"{request.param} is not installed: `make harnesses` installs it", pytrace=False)
    with LeavingHouse(request.param, tmp_path, program) as made:
        yield made


def test_without_program_or_interpreter_the_agent_goes_on_and_says_nothing(house: LeavingHouse) -> None:
    """Gemini CLI refused every prompt, others printed a failure. A hook that says no is still heard."""
    assert house.answers("hello while all is there")
    script = house.script.read_text()

    house.script.unlink()
    seen = house.answers("the program is gone")
    house.script.write_text(script)
    house.script.chmod(0o755)
    house.interpreter.unlink()
    seen += house.answers("its interpreter is gone")

    assert [one for one in COMPLAINTS if one in seen] == [], seen
    before = len(house.model.requests())
    house.script.write_text("#!/bin/sh\necho the owner says no >&2\nexit 2\n")
    house.says("do it all the same")
    house.waits_until(lambda look: "the owner says no" in look.text, what="the hook's refusal")
    if house.program.name in GOES_ON:
        house.bridge.waits_for(lambda: house.requests_with("do it all the same"), PATIENCE, "the model to be asked")
    else:
        assert not [one for one in house.model.requests(before) if "do it all the same" in one.body]
