"""What `setup` proposes: one identity for each agent that was found (DESIGN §9)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SetupAgent:
    """One agent with the identity that it has or is to have.

    `harness` is the screen profile's name, `directory` where the program runs, `pane` the exact name it is reached by.
    """

    identity: str
    harness: str
    directory: Path
    pane: str
