"""What a version's screens say against those of the corpus: rules that moved, and the change of the profile that would follow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final

from wake_bridge_adapters.screens import (
    Capture,
    Profile,
    classify_capture,
    learnt_from,
    load_profiles,
    profile_text,
    read_capture,
    what_is_new,
)
from wake_bridge_adapters.screens.profile_file import BUNDLED
from wake_bridge_adapters.screens.version import in_order, is_newest

from tests.harness.states import IDLE
from tests.screens.corpus import captures_of
from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.domain.presence import Evidence

ALIKE: Final[Mapping[str, str]] = {
    "fresh-idle": r"idle-empty",
    "idle-after-a-turn": r"idle-after-turn",
    "streaming": r"active-streaming",
    "thinking": r"active-thinking",
    "tool-running": r"active-tool-running|active-run",
    "approval": r"approval-shell",
    "question": r"question",
    "draft": r"typing-single",
    "spaces-only-draft": r"typing-spaces",
    "menu": r"menu|permissions-menu|config-panel",
    "scrolled": r"scrolled",
}
"""Which captures of the corpus show a state of the table, by their names' beginning; the rest is tmux's and the shell's."""

_OURS: Final = frozenset({"version", "idle", "no-composer"})
"""What the classification says by itself: no rule of a profile."""


@dataclass(frozen=True, slots=True)
class Move:
    """A rule that says otherwise than in the corpus: `before` is what it saw there, `after` what is seen now."""

    state: str
    rule: str
    before: str
    after: tuple[str, ...]
    is_new: bool = False

    def lines(self) -> Iterator[str]:
        """For the report."""
        if self.is_new:
            yield f"- {self.state}: rule {self.rule} speaks, which no capture of this state has"
        else:
            yield f"- {self.state}: rule {self.rule} is silent"
            yield f"  - before: {self.before}"
        yield from (f"  - now: {one}" for one in self.after)


def moves_between(harness: str, captures: Path) -> list[Move]:
    """Each rule that spoke in every capture of a state and is silent now, or speaks now and did in none.

    Args:
        harness: whose corpus.
        captures: the directory with the screens of one walk.
    """
    profile, moves = load_profiles()[harness], []
    for state, pattern in ALIKE.items():
        file = captures / f"{state}.json"
        known = [
            _votes(one.capture, profile)
            for one in captures_of(harness)
            if re.match(pattern, re.sub(r"^v[\d.]+-", "", one.file.stem)) and is_tested(one.capture, profile)
        ]
        if not known or not file.exists():
            continue
        now = _votes(read_capture(file), profile)
        seen = tuple(_told(one) for one in now.values()) or ("nothing but what every screen has",)
        always = set.intersection(*(set(one) for one in known)) - _OURS
        ever = set.union(*(set(one) for one in known)) | _OURS
        moves += [Move(state, rule, _told(known[0][rule]), seen) for rule in sorted(always - set(now))]
        moves += [Move(state, rule, "", (_told(now[rule]),), is_new=True) for rule in sorted(set(now) - ever)]
    return moves


def is_tested(capture: Capture, profile: Profile) -> bool:
    """Whether it shows the newest version that the rules were tested with: older ones may look otherwise."""
    return capture.version == in_order(profile.versions)[-1]


def _votes(capture: Capture, profile: Profile) -> dict[str, Evidence]:
    return {one.rule: one for one in classify_capture(capture, profile).evidence}


def _told(one: Evidence) -> str:
    return f"{one.rule} ({one.vote}) in {one.region}: {one.saw!r}"


def proposal(harness: str, version: str, captures: Path, cells: Mapping[str, str]) -> str:
    """A diff of the profile that a person may want to make; empty where nothing is to be changed.

    Where nothing moved it is the version alone. An idle screen that is not recognised is learnt as `screens trust` learns it. For
    a turn or a dialog that is not recognised, what stands there and not on the idle screen is proposed as a rule.
    """
    file = BUNDLED / f"{harness}.toml"
    before, profile = file.read_text(encoding="utf-8"), load_profiles()[harness]
    after, notes = before, []
    if all(cell in {"pass", "·"} for cell in cells.values()):
        if is_newest(version, profile.versions):
            wanted = ", ".join(f'"{one}"' for one in (*profile.versions, version))
            after = re.sub(r"^versions = .*$", f"versions = [{wanted}]", before, count=1, flags=re.MULTILINE)
    else:
        for state in ("fresh-idle", "idle-after-a-turn"):
            if cells.get(state.replace("-", " ")) == "held" and (captures / f"{state}.json").exists():
                with suppress(RefusedForSafety):
                    learnt = learnt_from(read_capture(captures / f"{state}.json").screen, profile, version)
                    notes += [f"# {state}: {one}" for one in what_is_new(profile, learnt)]
                    before, after, profile = profile_text(profile), profile_text(learnt), learnt
        after += "".join(_rule(captures, state.replace(" ", "-")) for state, cell in cells.items() if cell == "held")
    if before == after:
        return ""
    name = f"{harness}.toml"
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join([*(f"{one}\n" for one in notes), *lines])


def _rule(captures: Path, state: str) -> str:
    """A rule by what stands on the screen of a state alone; empty where it should be idle, or nothing tells them apart."""
    file, rest = captures / f"{state}.json", captures / "fresh-idle.json"
    if not file.exists() or not rest.exists():
        return ""
    shown, idle = read_capture(file), read_capture(rest).screen
    (expected,) = shown.expect or ("",)
    if expected in {IDLE, ""} or state not in ALIKE:
        return ""
    known = {row.text.strip() for row in idle.rows}
    rows = [row.text.rstrip() for row in shown.screen.rows if row.text.strip() and row.text.strip() not in known]
    if shown.screen.title != idle.title:
        region, text = "title", shown.screen.title
    elif rows:
        region, text = ("bottom" if expected == "waitingOnApproval" else "above"), rows[-1]
    else:
        return ""
    pattern = re.sub(r"\d+", r"\\d+", re.escape(text.strip()).replace(r"\ ", " "))
    quoted = "'" + pattern.replace("'", ".") + "'"
    return f'\n[[rules]]\nname = "canary-{state}"\nstate = "{expected}"\nregion = "{region}"\nregex = {quoted}\n'
