"""What an adapter that judges screens by profiles offers besides: its profiles, the versions that it meets, bug reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from wake_bridge.domain.names import Instant
from wake_bridge.domain.values import dataclass


@dataclass(frozen=True, slots=True)
class RunningVersion:
    """A version that runs in a place, and that the rules for its screen were not tested with.

    `tested` are the versions that they were tested with, as the profile names them, the newest last; `since` is when the
    program was started, by the wall clock.
    """

    harness: str
    version: str
    tested: tuple[str, ...]
    is_newer: bool
    since: Instant


@runtime_checkable
class VersionTeller(Protocol):
    """What an adapter offers besides, if it knows which version of a program runs in one of its places."""

    def untested_version(self, key: str) -> RunningVersion | None:
        """What the last look at the place with this key found; None for a tested version, and where none can be told."""


@dataclass(frozen=True, slots=True)
class ScreenProfile:
    """One profile: whose it is, the versions that its rules were tested with, its file, and the text of it."""

    harness: str
    versions: tuple[str, ...]
    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class ScreenReport:
    """A look at a pane for a bug report, without personal text.

    `content` is what a capture file holds; `evidence` is each piece that was seen; `replaced` counts, by kind, what was
    replaced. `trouble` says how the screen reads otherwise without that text; empty where it reads the same.
    """

    content: Mapping[str, Any]
    evidence: Sequence[Mapping[str, Any]]
    replaced: Mapping[str, int]
    program: str
    trouble: str = ""


@runtime_checkable
class ScreenLibrary(Protocol):
    """What an adapter offers besides, if its profiles can be listed and replaced, and their faults reported."""

    def profiles(self) -> Sequence[ScreenProfile]:
        """The profiles in use, by harness."""

    def shipped_profiles(self) -> Mapping[str, ScreenProfile]:
        """Those that came with the package, by harness, in use or not."""

    def checked_profile(self, path: Path) -> ScreenProfile:
        """The profile in a file that is not in use yet. Raises `ConfigurationInvalid`, with every mistake in it."""

    async def report_on(self, pane: str, words: Sequence[str]) -> ScreenReport:
        """Look at a pane; `words` are replaced like names. Writes nothing. Raises `NotFound`."""
