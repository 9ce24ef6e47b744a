"""Where our own text is on a screen (DESIGN §§6.5–6.7)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from adapters.screens.staged import holds_only, holds_part, mark_in_transcript
from adapters.tmux.condition import NotExpressible, can_be_sight
from adapters.tmux.occupants import Agent
from adapters.tmux.view import View
from wake_bridge.ports.adapter import Wake

_LEAST_OF_MARK: Final = 8
"""Characters of the mark that must stand on one row: 40 bits, most of them random."""

_PLAIN_RUN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ]*[A-Za-z0-9]")


class Whereabouts(StrEnum):
    """Where one look shows our text.

    `ALONE` is all that the composer holds, or the harness's chip for it; `AMONG` is in the composer beside something
    else, as any chip of a paste may be; `SENT` is above the composer, or above a dialog known to have taken its place;
    `UNCLEAR` cannot be told, since no composer is to be seen, or only a piece of the text; `GONE` is none of them.
    """

    ALONE = "alone"
    AMONG = "among"
    SENT = "sent"
    UNCLEAR = "unclear"
    GONE = "gone"


def whereabouts(view: View, wake: Wake) -> Whereabouts:
    """Where our text is.

    The composer is asked first: a pane that was made narrow may show a copy of it above.
    """
    if view.reading is None or not isinstance(view.agent, Agent):
        return Whereabouts.UNCLEAR
    profile, held = view.agent.profile, view.reading.composer_text
    if holds_only(view.screen, profile, wake.text):
        return Whereabouts.ALONE
    if is_in_text(held, wake):
        return Whereabouts.AMONG
    if view.reading.composer == "draft" and holds_part(held, wake.text):
        return Whereabouts.UNCLEAR
    if mark_in_transcript(view.screen, profile, wake.mark):
        return Whereabouts.SENT
    if profile.paste.chip and re.search(profile.paste.chip, " ".join(held.split())):
        return Whereabouts.AMONG
    return Whereabouts.UNCLEAR if view.reading.composer == "absent" else Whereabouts.GONE


def is_in_text(text: str, wake: Wake) -> bool:
    """Whether the mark stands in `text`, be it wrapped and framed."""
    return wake.mark in re.sub(r"[^0-9A-Z]", "", text)


def sight_of(view: View, wake: Wake) -> str:
    """A part of our text that stands on one row, for a condition to search for: the mark, or the harness's chip.

    Raises:
        NotExpressible: no row shows enough of it.
    """
    rows = [row.text for row in view.screen.rows]
    candidates = [*_parts_of_mark(wake.mark), *_runs_of_chip(view)]
    for part in candidates:
        if can_be_sight(part) and any(part in row for row in rows):
            return part
    raise NotExpressible("our mark stands on no single row")


def placeholder_of(view: View) -> str:
    """Where a harness parks the real cursor elsewhere: a part of the placeholder that must still stand there.

    Empty where the cursor itself tells that somebody typed, and where there is no placeholder.
    """
    if view.reading is None or not isinstance(view.agent, Agent) or view.reading.composer != "placeholder":
        return ""
    if view.agent.profile.composer.anchor == "cursor":
        return ""
    rows = [row.text for row in view.screen.rows]
    runs = sorted(_PLAIN_RUN.findall(view.reading.composer_text), key=len, reverse=True)
    return next((run for run in runs if can_be_sight(run) and any(run in row for row in rows)), "")


def _parts_of_mark(mark: str) -> list[str]:
    """The mark and ever shorter parts of it, for a narrow pane that wraps inside it."""
    return [
        mark[start : start + length]
        for length in range(len(mark), _LEAST_OF_MARK - 1, -1)
        for start in range(len(mark) - length, -1, -1)
    ]


def _runs_of_chip(view: View) -> list[str]:
    if view.reading is None or not isinstance(view.agent, Agent) or not view.agent.profile.paste.chip:
        return []
    found = re.search(view.agent.profile.paste.chip, " ".join(view.reading.composer_text.split()))
    return sorted(_PLAIN_RUN.findall(found.group()), key=len, reverse=True) if found else []
