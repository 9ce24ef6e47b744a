"""An adapter for benchmarks of many hosts: its agents rest and take each wake at once, and cost nothing themselves.

`desk_program` has daemons find it, as any adapter that is installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from pydantic import BaseModel

from wake_bridge.domain.delivery import HoldReason, Progress, Proof, Step
from wake_bridge.domain.presence import Evidence, Observation, PresenceState
from wake_bridge.domain.routing import Address, Capabilities
from wake_bridge.ports.adapter import AdapterContext, AttemptOutcome, Delivered, Journal, Nowhere, Place, Unknown, Wake

HERE: Final = "DESKS_OF_HOST"
"""The variable that says which agents live on a host: `NUMBER/HOSTS`, every HOSTS-th from NUMBER on."""

_RESTS: Final = Evidence("a desk is always free", PresenceState.IDLE)


class DeskAdapter:
    """Reaches `@r5`, `@r13` … on host 5 of 8."""

    name: ClassVar[str] = "desk"
    capabilities: ClassVar[Capabilities] = Capabilities()

    class Config(BaseModel):
        """It has no settings."""

    def __init__(self, config: BaseModel, context: AdapterContext) -> None:
        del config
        self._clock = context.clock
        self._number, self._hosts = map(int, os.environ[HERE].split("/"))

    async def resolve(self, address: Address) -> Place | Nowhere:
        """The desk of that agent, if it is one of this host's."""
        number = address.identity.removeprefix("@r")
        if number.isdigit() and int(number) % self._hosts == self._number:
            return Place(f"desk:{number}", f"desk {number}")
        return Nowhere(HoldReason.UNREACHABLE, "its desk is on another host")

    async def survey(self, places: Sequence[Place]) -> Mapping[str, str]:
        """Nothing changes there."""
        return {place.key: "rests" for place in places}

    async def observe(self, place: Place, address: Address) -> Observation:
        """It rests."""
        del address
        return Observation(self._clock.now(), (_RESTS,), "rests", place.label, capabilities=("desk",), is_proof=True)

    async def deliver(self, place: Place, address: Address, wake: Wake, journal: Journal) -> AttemptOutcome:
        """It takes each once."""
        del place, address
        if wake.progress is Progress.MAYBE_SUBMITTED:
            return Unknown({"why": "desks do not tell"})
        await journal(Step.INTENT_SUBMIT, {})
        await journal(Step.SUBMITTED, {})
        return Delivered(Proof.SUBMITTED)

    async def probe(self) -> Sequence[object]:
        """Nothing can be wrong with it."""
        return ()


def desk_program(directory: Path) -> dict[str, str]:
    """The environment in which daemons find the adapter; its metadata is laid down in an empty directory."""
    metadata = directory / "desk-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: desk\nVersion: 1\n", encoding="utf-8")
    entry = f"[wake_bridge.adapters]\ndesk = {__name__}:DeskAdapter\n"
    (metadata / "entry_points.txt").write_text(entry, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(directory), str(Path(__file__).parents[2])))}
