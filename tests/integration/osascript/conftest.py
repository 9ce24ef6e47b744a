"""A played desktop with one application, and the adapter that lives on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from wake_bridge_adapters.osascript import OsascriptAdapter
from wake_bridge_adapters.tables import OsascriptConfig

from wake_bridge.domain.delivery import Progress, Step
from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Place, Wake
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.mac_desktop import MacDesktop

MARK = "01JZ8Q5T3VXKM2N4P6R8SAVCWD"
TEXT = f'[WAKE] 1 event for @agent: 1 new message (latest: "$(touch /tmp/x) `id` \\" -e")   Wake: {MARK}'


@dataclass(slots=True)
class Desk:
    """The desktop, the adapter, and an application named Claude whose process is a real one."""

    desktop: MacDesktop
    adapter: OsascriptAdapter
    pid: int
    address: Address
    text: str = TEXT
    steps: list[Step] = field(default_factory=list)

    async def note(self, step: Step, evidence: object) -> None:
        """A journal in memory."""
        del evidence
        self.steps.append(step)

    async def deliver(self, progress: Progress = Progress.UNTOUCHED) -> AttemptOutcome:
        """One attempt at the application."""
        place = await self.adapter.resolve(self.address)
        assert isinstance(place, Place), place
        return await self.adapter.deliver(place, self.address, Wake("delivery", self.text, MARK, progress), self.note)

    @property
    def keys(self) -> list[str]:
        """Every key that reached a process, in order."""
        return [key for _, key, _ in self.desktop.read()["keys"]]


@pytest.fixture
def agent_process() -> Iterator[subprocess.Popen[bytes]]:
    """A real process called claude, to be who is there."""
    with subprocess.Popen(["claude", "600"], executable="/bin/sleep") as process:
        yield process
        process.kill()


@pytest.fixture
def desk(tmp_path: Path, agent_process: subprocess.Popen[bytes]) -> Desk:
    """The application is idle, another one is in front, nobody has touched the machine for an hour."""
    desktop = MacDesktop(tmp_path / "mac")
    desktop.open_app(agent_process.pid, "Claude", "com.example.claude")
    context = AdapterContext(
        timeout=5,
        typing_quiet=10,
        screens_directory="",
        environment={**desktop.environment, "TMPDIR": str(tmp_path)},
        clock=SteadyClock(),
    )
    adapter = OsascriptAdapter(OsascriptConfig(), context)
    return Desk(desktop, adapter, agent_process.pid, Address(Identity("@agent"), pane="Claude"))
