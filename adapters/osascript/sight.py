"""What one look at a place showed, in words that are the same for a terminal and an application."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from wake_bridge.domain.presence import Evidence, PresenceSource, PresenceState


@dataclass(frozen=True, slots=True)
class Sight:
    """One look.

    `composer` is the text in it, empty for none, None where it cannot be read. `raw` is what a check inside a script
    compares with: the focused element's value, or the visible text. `has_mark` says whether the wake's mark stands
    outside the composer. `front_pid` is the frontmost process, where that is asked. `quiet_for` are the seconds since a person touched the machine, where that concerns this place.
    """

    composer: str | None
    raw: str = ""
    is_front: bool = False
    front_pid: int = 0
    quiet_for: float | None = None
    has_dialog: bool = False
    has_mark: bool = False
    title: str = ""
    beside: tuple[Evidence, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Equal for two looks between which nothing relevant moved; empty where the composer cannot be read."""
        if self.composer is None:
            return ""
        return hashlib.blake2b(f"{self.title}\0{self.has_dialog}\0{self.raw}".encode(), digest_size=16).hexdigest()


def same_text(one: str, other: str) -> bool:
    """Whether two texts differ in white space only: a composer breaks lines as it likes."""
    return "".join(one.split()) == "".join(other.split())


def evidence_of(sight: Sight, typing_quiet: float) -> tuple[Evidence, ...]:
    """Every vote of one look; idle only when nothing speaks against it (DESIGN §5)."""
    votes = tuple(_votes(sight, typing_quiet))
    if any(one.weighs for one in votes):
        return votes
    return (*votes, _seen("empty-composer", PresenceState.IDLE, "composer"))


def _votes(sight: Sight, typing_quiet: float) -> Iterator[Evidence]:
    if sight.has_dialog:
        yield _seen("dialog", PresenceState.WAITING_ON_APPROVAL, "window")
    if sight.quiet_for is not None and sight.quiet_for < typing_quiet:
        yield _seen("user-active", PresenceState.USER_TYPING, "machine", f"{sight.quiet_for:.0f} s ago")
    yield from sight.beside
    if sight.composer is None:
        yield _seen("composer-unreadable", PresenceState.UNKNOWN, "focused element")
    elif sight.composer:
        yield _seen("draft", PresenceState.USER_TYPING, "composer", f"{len(sight.composer)} characters")


def _seen(rule: str, vote: PresenceState, region: str, saw: str = "") -> Evidence:
    return Evidence(rule, vote, saw=saw, region=region, source=PresenceSource.OS_UI_PROBE)
