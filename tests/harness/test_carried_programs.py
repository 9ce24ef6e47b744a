"""Real programs behind what only carries their terminal, woken end to end (docs/carriers.md)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.containers import Container
from tests.harness.cells import arrived_once, run_ten
from tests.harness.house import MANY_WAKES, House
from tests.harness.installed import executable, prefix, search_path
from tests.harness.programs import PROGRAMS, Setting
from tests.harness.tenancy import ONLY
from tests.programs import needs
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.causes import Cause

pytestmark = [pytest.mark.harness, pytest.mark.timeout(600)]

HIDDEN: Final = "podman"
"""The carrier behind which nothing but the screen tells."""


class CarriedHouse(House):
    """A house whose program is started behind a carrier.

    Args:
        name: of the program.
        carrier: `script` or `podman`.
        directory: an empty directory.
        command: what starts wake-bridge.
    """

    def __init__(self, name: str, carrier: str, directory: Path, command: tuple[str, ...]) -> None:
        super().__init__(PROGRAMS[name], directory, command)
        self._carrier = carrier
        self._ending = ExitStack()
        if carrier == HIDDEN:
            self.box = self._ending.enter_context(Container(self.home, prefix(), network="host"))
            self.says_who(f'harness = "{name}"')

    def says_who(self, line: str) -> None:
        """Write the target with that line into the configuration."""
        target = f'[targets."{self.identity}"]\npane = "agents"\n{line}\n'
        self.bridge.configure(f"{QUICK}{MANY_WAKES}{target}")

    def starts(self) -> None:
        """Type the command line of the carrier, which a file has for it."""
        file = self.home / "starts-it"
        file.write_text(f"exec {shlex.join(self._behind(self.program.line))}\n", encoding="utf-8")
        self.types(f"clear; sh {file}")
        self.presses("Enter")

    def _behind(self, line: str) -> list[str]:
        if self._carrier != HIDDEN:
            return ["script", "-q", "-c", line, "/dev/null"]
        settings = {"HOME": str(self.home), "PATH": search_path(), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        settings |= self.program.environment(Setting(self.model.url, self.work, self.has_plan))
        given = [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
        return self.box.exec("sh", "-c", line, options=(*given, "--workdir", str(self.work)))

    def close(self) -> None:
        """End the container as well."""
        try:
            super().close()
        finally:
            self._ending.close()


@pytest.fixture(params=[one for one in ("claude", "qwen") if one in ONLY])
def name(request: pytest.FixtureRequest) -> str:
    """A program that is installed."""
    if executable(PROGRAMS[request.param]) is None:
        pytest.fail(f"{request.param} is not installed: `make harnesses` installs it", pytrace=False)
    return str(request.param)


@pytest.fixture(params=["script", HIDDEN])
def house(
    request: pytest.FixtureRequest,
    name: str,
    tmp_path: Path,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[CarriedHouse]:
    """One program behind one carrier, idle."""
    needs(request.param)
    with CarriedHouse(name, request.param, tmp_path, program) as made:
        yield made


def test_a_program_behind_a_carrier_is_woken_ten_times(house: CarriedHouse) -> None:
    """Each once; where it is hidden, it is held without the line of configuration, and the hold has that line."""
    run_ten(house)
    if not hasattr(house, "box"):
        return
    house.says_who("")
    house.bridge.daemons[-1].reload()
    house.waits_for_presence("unknown")
    start = len(house.model.requests())
    message = house.bridge.send(house.identity, "who are you?")
    held = house.bridge.waits_for_delivery(cause=str(Cause.HIDDEN_BY_CARRIER))
    assert house.model.requests(start) == []

    (line,) = re.findall(r"`(harness = [^`]+)`", held["remedy"])
    house.says_who(line)
    house.bridge.daemons[-1].reload()

    woken = house.bridge.waits_for_delivery(id=held["id"], state="DELIVERED")
    assert [one["subject_key"] for one in woken["events"]] == [message]
    arrived_once(house, woken, start)
