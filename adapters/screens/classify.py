"""From one screen and one profile to evidence (DESIGN §5): idle needs every positive sign, any veto wins.

A dialog outranks a draft, a draft outranks activity, and what has no composer is unknown. One look never proves idle:
the fusion in the domain wants a second one with an equal fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from adapters.screens.composer import Composer, find_composer, glyph_styles, text_styles
from adapters.screens.profile import Profile
from adapters.screens.screen import Screen
from adapters.screens.signs import seen
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.presence import Evidence, PresenceState, single_vote

ComposerState = Literal["empty", "draft", "placeholder", "absent"]

_PLAIN_RUN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ]*[A-Za-z0-9])?")
"""Letters, digits and blanks: what may stand in a condition as it is."""

_SHOWN: Final = 60
"""Characters of the screen that evidence quotes at most."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one screen says.

    Attributes:
        evidence: all that was seen, each with the state it speaks for.
        state: the vote of this look taken alone.
        rule: the evidence that decided it.
        composer: what the composer holds; `absent` when there is none where it must be.
        composer_text: the text in it, a placeholder included.
        fingerprint: equal for two screens between which nothing that matters moved.
        footer: the rows below the composer.
        sight: where typing would not move the terminal's cursor, a part of the placeholder: while it stands on the
            screen the composer is still empty, and tmux itself can see that (DESIGN §6.4). Empty elsewhere.
    """

    evidence: tuple[Evidence, ...]
    state: PresenceState
    rule: str
    composer: ComposerState
    composer_text: str
    fingerprint: str
    footer: str
    sight: str

    @property
    def obstacles(self) -> tuple[Evidence, ...]:
        """Everything that speaks against a key, but for a draft in the composer, which may be our own text."""
        return tuple(one for one in self.evidence if one.vote is not PresenceState.IDLE and one.rule != DRAFT)


DRAFT: Final = "draft"
"""The evidence for text in the composer that is no placeholder."""


def classify(screen: Screen, profile: Profile, beside: tuple[Evidence, ...] = ()) -> Reading:
    """Read one screen by one profile, with what is known `beside` it. Never raises."""
    composer = find_composer(screen, profile.composer)
    holds = _composer_state(screen, profile, composer)
    evidence = [*beside, *_pane_facts(screen)]
    for rule in profile.ordered_rules:
        saw = seen(rule, screen, composer)
        if saw is not None:
            evidence.append(Evidence(rule.name, rule.state, saw=_shortened(saw), region=rule.region))
    evidence += _composer_evidence(screen, composer, holds)
    if composer is not None and holds in {"empty", "placeholder"}:
        evidence += _missing_signs(screen, profile, composer)
        if not any(one.weighs for one in evidence):
            saw = composer.text or composer.glyph
            evidence.append(Evidence("idle", PresenceState.IDLE, saw=_shortened(saw), region="composer"))
    verdict = single_vote(tuple(evidence))
    return Reading(
        evidence=tuple(evidence),
        state=verdict.vote,
        rule=verdict.rule,
        composer=holds,
        composer_text=composer.text if composer else "",
        fingerprint=_fingerprint(screen, profile, composer),
        footer="\n".join(row.text for row in screen.rows[composer.last + 1 :]).strip("\n") if composer else "",
        sight=_sight(screen, composer) if composer is not None and holds == "placeholder" else "",
    )


def _pane_facts(screen: Screen) -> Iterator[Evidence]:
    """What tmux itself says about the pane: each makes everything on the screen worthless."""
    for flag, rule, hold in (
        ("pane_dead", "pane-dead", HoldReason.PANE_DEAD),
        ("pane_in_mode", "copy-mode", HoldReason.COPY_MODE),
        ("pane_input_off", "input-off", HoldReason.INPUT_OFF),
    ):
        value = screen.flags.get(flag, "")
        if value not in {"", "0"}:
            yield Evidence(rule, PresenceState.UNKNOWN, saw=f"{flag}={value}", region="flags", hold=hold)


def _composer_state(screen: Screen, profile: Profile, composer: Composer | None) -> ComposerState:
    if composer is None:
        return "absent"
    placeholder = profile.composer.placeholder
    if composer.is_shell or not composer.cursor_at_start:
        return "draft"
    if composer.is_blank:
        return "draft" if placeholder.required else "empty"
    cells = text_styles(screen, composer)
    if cells and cells[0][1].reverse:  # the program draws its cursor over the first cell
        cells = cells[1:]
    if not all(placeholder.style.fits(style) for _, style in cells):
        return "draft"
    if placeholder.knows(composer.text) or (placeholder.ghost and cells):
        return "placeholder"
    return "draft"


def _composer_evidence(screen: Screen, composer: Composer | None, holds: ComposerState) -> Iterator[Evidence]:
    """What the composer itself says; where there is none, the screen's last row tells best what stands in its place."""
    if composer is None:
        last_row = _shortened(screen.row(screen.last_text_row).text)
        saw = f"the last row says {last_row!r}" if last_row else "the screen is empty"
        yield Evidence("no-composer", PresenceState.UNKNOWN, saw=saw, region="composer")
    elif composer.is_shell:
        yield Evidence("shell-mode", PresenceState.USER_TYPING, saw=composer.glyph, region="glyph")
    elif composer.is_blank and not composer.cursor_is_inside:
        yield Evidence("cursor-elsewhere", PresenceState.UNKNOWN, region="cursor")
    elif holds == "draft":
        saw = _shortened(composer.text) or "blanks"
        yield Evidence(DRAFT, PresenceState.USER_TYPING, saw=saw, region="composer")


def _missing_signs(screen: Screen, profile: Profile, composer: Composer) -> Iterator[Evidence]:
    """What idle needs and this screen does not show."""
    condition = profile.composer.glyph_style
    if not all(condition.fits(style) for style in glyph_styles(screen, composer)):
        yield Evidence("glyph-style", PresenceState.UNKNOWN, saw=composer.glyph, region="glyph")
    for sign in profile.idle:
        if seen(sign, screen, composer) is None:
            yield Evidence(sign.name, PresenceState.UNKNOWN, saw="missing", region=sign.region)


def _fingerprint(screen: Screen, profile: Profile, composer: Composer | None) -> str:
    parts = [screen.title, f"{screen.cursor_x},{screen.cursor_y},{screen.cursor_visible},{composer is None}"]
    if composer is None:
        parts += [row.text for row in screen.rows]
    else:
        parts += composer.lines
        if not profile.composer.above_may_move:
            parts += [row.text for row in screen.rows[: composer.first]]
    return hashlib.blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _sight(screen: Screen, composer: Composer) -> str:
    """The longest plain run of the placeholder's first row, unless the terminal's cursor is the one that counts."""
    if composer.cursor == (screen.cursor_x, screen.cursor_y):
        return ""
    return max(_PLAIN_RUN.findall(composer.lines[0]), key=len, default="")


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else flat[: _SHOWN - 1] + "…"
