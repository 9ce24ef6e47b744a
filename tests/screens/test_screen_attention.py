"""What the captured screens of the main programs say that a person may want to know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import read_capture
from wake_bridge_adapters.screens.classify import classify
from wake_bridge_adapters.screens.screen import Screen

from tests.screens.corpus import CAPTURES, PROFILES, Captured, corpus
from wake_bridge.domain.attention import Standing, standing_of
from wake_bridge.domain.names import AttentionKind, Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.usage_limits import reset_in

MAIN = ("claude", "codex", "gemini", "opencode", "copilot", "qwen", "aider")
NAMED = {
    "error-400": AttentionKind.FAILED,
    "error-given-up": AttentionKind.FAILED,
    "error-429-given-up": AttentionKind.FAILED,
    "error-529": AttentionKind.FAILED,
    "limit-": AttentionKind.LIMITED,
    "question.": AttentionKind.QUESTION,
    "approval": AttentionKind.APPROVAL,
    "scrolled-approval": AttentionKind.APPROVAL,
    "scrolled-far-from-approval": AttentionKind.APPROVAL,
    "unfocused-approval": AttentionKind.APPROVAL,
    "colour-approval": AttentionKind.APPROVAL,
}
"""What the name of a capture begins with, its version left out, and what its agent stands at."""


def _expected(one: Captured) -> AttentionKind | None:
    name = re.sub(r"^v[\d.]+-", "", one.file.name)
    kind = next((kind for begin, kind in NAMED.items() if name.startswith(begin)), None)
    # aider asks for everything in the same words
    is_asked = one.capture.harness == "aider" and one.file.name.startswith(
        ("approval", "question", "first-run-release")
    )
    return AttentionKind.QUESTION if is_asked else kind


def _standing(harness: str, screen: Screen) -> Standing:
    return standing_of(classify(screen, PROFILES[harness]).evidence)


@pytest.mark.parametrize("harness", MAIN)
def test_each_captured_screen_says_what_its_agent_stands_at_and_no_other_says_anything(harness: str) -> None:
    """Approvals, questions and the error that ends a turn, on every capture; a retry, an interrupt or a menu is none of them."""
    captures = [one for one in corpus() if one.capture.harness == harness]
    said = {one.name: _standing(harness, one.capture.screen).kind for one in captures}
    assert said == {one.name: _expected(one) for one in captures}
    assert AttentionKind.QUESTION in said.values()


ERRORS = {
    "claude": "API Error: 400 Mock bad request",
    "codex": '{"type": "error", "error": {"type": "api_error", "message": "Mock bad',
    "opencode": "Mock bad request",
    "gemini": "[API Error",
    "copilot": "400 Mock bad request",
    "qwen": "[API Error",
    "aider": "litellm.BadRequestError: OpenAIException - Mock bad request",
}
"""The words of the captured error of each."""


NOW = Instant(int(datetime(2026, 11, 29, 1, tzinfo=UTC).timestamp() * 1000))
MARK = "01K9Z3NDEKTSV4RRFFQ69G5FAV"


AT_LIMIT = int(datetime(2026, 11, 29, 15, 45, tzinfo=UTC).timestamp() * 1000)
RESETS = {
    "claude/limit-time": "2026-11-29T17:55",
    "claude/limit-no-time": None,
    "codex/limit-time": "2026-11-29T17:59",
    "codex/limit-date": "2026-12-04T15:59",
    "codex/limit-no-time": None,
    "codex/limit-question": "2026-11-29T17:43",
    "gemini/limit-question": None,
}
"""When the limit on each captured screen resets, in UTC: what the server had told the program."""


def test_the_captured_limits_say_when_they_reset() -> None:
    """A time, a date and neither, as the programs print what a server at its limit answers."""
    captures = [one for one in corpus() if one.file.name.startswith("limit-")]
    assert {one.name.partition(".")[0] for one in captures} == set(RESETS)
    for one in captures:
        said = _standing(one.capture.harness, one.capture.screen)
        assert said.sign is not None, one.name
        reset = reset_in(said.sign.text, Instant(AT_LIMIT), UTC)
        shown = datetime.fromtimestamp(reset.at / 1000, UTC).isoformat(timespec="minutes") if reset else None
        assert shown == (f"{told}+00:00" if (told := RESETS[one.name.partition(".")[0]]) else None), one.name


def _changed(harness: str, directory: Path, change: Callable[[str], str]) -> Standing:
    """What the captured error says once its screen is changed."""
    captured = json.loads((CAPTURES / harness / "error-400.80x24.json").read_text(encoding="utf-8"))
    ansi = change(captured["ansi"])
    assert ansi != captured["ansi"]
    file = directory / "changed.json"
    file.write_text(json.dumps({**captured, "ansi": ansi}), encoding="utf-8")
    return _standing(harness, read_capture(file).screen)


@pytest.mark.parametrize(
    ("harness", "words"),
    [
        ("claude", "You've hit your limit · resets 3am (Europe/Berlin)"),
        ("claude", "You’ve hit your session limit · resets 8:30pm (Asia/Tokyo)"),
        ("codex", "You've hit your usage limit. Upgrade to Pro or try again at 2:51 PM."),
    ],
)
def test_a_limit_in_the_place_and_colour_of_an_error_is_one(tmp_path: Path, harness: str, words: str) -> None:
    """The programs print a limit as they print an error; the agent is idle all the same."""
    said = _changed(harness, tmp_path, lambda ansi: ansi.replace(ERRORS[harness], words))
    assert said.kind is AttentionKind.LIMITED
    assert said.sign is not None
    assert words in " ".join(said.sign.text.split())
    assert reset_in(said.sign.text, NOW, UTC) is not None


@pytest.mark.parametrize("harness", list(ERRORS))
def test_only_an_error_right_below_a_wake_is_the_end_of_its_turn(tmp_path: Path, harness: str) -> None:
    """With anything between the two the turn has done something; the mark may be wrapped."""
    typed = re.compile(r"(?:fail|error )400(?:\x1b\[[0-9;]*m| )*now")

    def instead(text: str) -> Callable[[str], str]:
        # the screen keeps its height
        return lambda ansi: "\n".join(typed.sub(text, ansi).split("\n")[text.count("\n") :])

    wakes = {
        f"Window: 3s   Wake: {MARK}": MARK,
        f"Window: 3s   Wake: {MARK[:9]}\n  {MARK[9:]}": MARK,
        f"Wake: {MARK}\n● I have read the mail.": "",
        f"Wake: {MARK} and more": "",
        f"Wake: {MARK[:-1]}": "",
        "go on": "",
    }
    for text, wake in wakes.items():
        said = _changed(harness, tmp_path, instead(text))
        assert said.sign is not None
        assert (said.kind, said.sign.wake_id) == (AttentionKind.FAILED, wake), text


@pytest.mark.parametrize(
    ("harness", "old", "new"),
    [
        ("claude", "\x1b[38;5;220m", "\x1b[39m"),
        ("codex", "\x1b[38;5;1m", "\x1b[39m"),
        ("codex", ERRORS["codex"], "Conversation interrupted"),
        ("opencode", "\x1b[38;5;168m", "\x1b[38;5;75m"),
        ("gemini", "\x1b[38;5;217m", "\x1b[39m"),
        ("qwen", "\x1b[38;5;217m", "\x1b[39m"),
        ("copilot", "✗\x1b[39m \x1b[1m400 ", "✗\x1b[39m \x1b[1mUser "),
        ("aider", "\x1b[38;5;196m", "\x1b[38;5;33m"),
    ],
)
def test_an_answer_that_quotes_an_error_and_an_interrupt_are_none(
    tmp_path: Path, harness: str, old: str, new: str
) -> None:
    """Without its colour it is somebody's text; what a person interrupted did not fail."""
    assert _changed(harness, tmp_path, lambda ansi: ansi.replace(old, new)).kind is None


@pytest.mark.parametrize(
    ("harness", "answer"),
    [
        ("claude", "\x1b[39m❯ go on\n● It works now."),
        ("codex", "\x1b[39m› go on\n• It works now."),
        ("gemini", "\x1b[39m > go on\n✦ It works now."),
        ("qwen", "\x1b[39m  > go on\n  ◆︎ It works now."),
        ("copilot", "\x1b[39m ❯ go on\n ● It works now."),
        ("aider", "\x1b[39m──────\ndiff> go on\nIt works now."),
    ],
)
def test_an_error_of_an_earlier_turn_says_nothing(tmp_path: Path, harness: str, answer: str) -> None:
    """Whoever went on has seen it."""

    def goes_on(ansi: str) -> str:
        rows = ansi.split("\n")
        at = next(number for number, row in enumerate(rows) if ERRORS[harness] in row)
        return "\n".join([*rows[2 : at + 1], *answer.split("\n"), *rows[at + 1 :]])

    assert _changed(harness, tmp_path, goes_on).kind is None


def test_a_sign_of_the_last_turn_proves_nothing_and_stops_no_wake() -> None:
    """Idle stays idle: an agent whose turn failed can be woken."""
    for harness in ERRORS:
        capture = read_capture(CAPTURES / harness / "error-400.80x24.json")
        reading = classify(capture.screen, PROFILES[harness])
        assert reading.state is PresenceState.IDLE
        assert reading.obstacles == ()
