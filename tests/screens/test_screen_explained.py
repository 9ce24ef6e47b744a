from __future__ import annotations

import re

import pytest

from tests.screens.corpus import HARNESSES, Captured, captures_of, corpus
from tests.screens.explained import ME, SNAPSHOT, explained, hold_of, presence_of
from wake_bridge.domain.presence import PresenceState

WORKS = "nothing to do: the agent in agents:1.2 is working"
ASKS = "approval waiting: answer the dialog in agents:1.2"
TRUE_REASONS = {
    r"active-(streaming|thinking|tool-running)": WORKS,
    r"(streaming|busy|compacting)": WORKS,
    r"approval(?!-help)": ASKS,
    r"question(?!-)": ASKS,
    r"(typing-|draft)": "send or clear the text in the composer of agents:1.2",
    r"copy-mode": "agents:1.2 is in copy mode: press q there",
    r"(exited|crashed)-shell": "start the agent in agents:1.2; its shell or another program has the terminal now",
    r"suspended": "the agent in agents:1.2 is suspended: bring it back there with `fg`",
    r"(menu|first-run)-": "no composer is visible in agents:1.2: close the menu or view that is open there",
}
"""What each state is told as, by the name of the capture."""

TOLD_OTHERWISE = {
    "gptme/active-tool-running": "no composer is visible",
    "vibe/menu-config": "a view covers the composer of agents:1.2: press Esc there",
    "aider/first-run-release-notes": ASKS,
    "kilo/menu-palette": "send or clear",
    "pi/menu-model": "send or clear",
}
"""What is told by another true sign: a prompt that is gone, the text that opened the menu."""


def _state(one: Captured) -> str:
    return re.sub(r"^v[\d.]+-", "", one.file.stem).partition(".")[0]


@pytest.mark.parametrize("pattern", TRUE_REASONS)
def test_every_state_is_explained_by_its_true_reason_and_names_the_place(pattern: str) -> None:
    """Explain: which state it is and what to do about it, in the words of a person who is to do it."""
    told = {one.name: hold_of(one).told(ME) for one in corpus() if re.match(pattern, _state(one))}

    assert len(told) >= 1
    wrong = {
        name: words
        for name, words in told.items()
        if not words.startswith(TOLD_OTHERWISE.get(name.partition(".")[0], TRUE_REASONS[pattern]))
    }
    assert wrong == {}


def test_the_explanations_of_all_captures_are_as_they_were() -> None:
    """Explain: a snapshot; `python -m tests.screens.explained --write` renews it, and its difference is to be read."""
    now = {one.name: explained(one) for one in corpus()}
    before = {line.partition(" | ")[0]: line for line in SNAPSHOT.read_text(encoding="utf-8").splitlines()}

    assert {name: line for name, line in now.items() if before.get(name) != line} == {}
    assert before.keys() == now.keys()


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_holds_a_wake_says_rule_and_region_and_what_was_seen(harness: str) -> None:
    """Explain: which rule, region, bytes; and one of the evidence is named as what decided."""
    for one in captures_of(harness):
        presence = presence_of(one)
        decided_by = presence.decided_by
        if presence.wants_second_look:
            continue

        assert decided_by is not None, one.name
        assert decided_by in presence.evidence, one.name
        assert presence.detail.startswith(f"{decided_by.rule} in {decided_by.region}"), one.name
        assert decided_by.vote is presence.state is not PresenceState.IDLE, one.name
        assert decided_by.saw, one.name
