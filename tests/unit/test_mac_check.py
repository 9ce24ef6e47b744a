"""The check for whoever has a Mac: every claim of docs/macos.md is in it, and elsewhere it says what it cannot check."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.mac_check import FAILS, HOLDS, OPEN, QUESTIONS, SCRIPTS, Finding, MacCheck
from wake_bridge.testing.mac_desktop import MacDesktop

PAGE = (Path(__file__).parents[2] / "docs/macos.md").read_text(encoding="utf-8")


def without_the_demo(check: MacCheck, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What is found; that a wake reaches a pane has tests of its own."""
    monkeypatch.setattr(check, "_tmux", lambda: iter(()))
    return list(check.findings())


def test_every_assumption_of_the_page_is_checked_or_asked() -> None:
    """A new one gets a check or a question."""
    numbers = set(re.findall(r"^(\d+)\. ", PAGE, re.MULTILINE))

    assert numbers == {*QUESTIONS, "5"}
    assert "python -m tests.mac_check" in PAGE


@pytest.mark.skipif(sys.platform == "darwin", reason="it is a Mac")
def test_elsewhere_what_needs_a_mac_is_not_checked_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch agent is read by anybody."""
    found = without_the_demo(MacCheck(os.environ), monkeypatch)

    assert {one.verdict for one in found} == {HOLDS, OPEN}
    assert [one.about for one in found if one.verdict == HOLDS] == ["launchd"]
    assert {one.detail for one in found if one.verdict == OPEN} == {"this is Linux"}
    assert len([one for one in found if one.about == "scripts"]) == len(SCRIPTS)


def test_on_a_desktop_each_answer_becomes_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A permission that is missing is a claim that does not hold, and is told with its remedy; what a person says counts."""
    desktop = MacDesktop(tmp_path)
    desktop.open_app(
        4711, "Claude", "com.example.claude", value="a draft that is longer than forty characters, and private"
    )
    desktop.strike("app_look", error=(-25211, "not allowed assistive access"))
    asked: list[str] = []

    def answer(question: str) -> bool | None:
        asked.append(question)
        return None if question.startswith("8") else not question.startswith("2.")

    found = without_the_demo(MacCheck(desktop.environment, answer), monkeypatch)
    by = {one.about: one for one in found}

    assert by["-1743"].verdict == by["Claude"].verdict == by["7"].verdict == HOLDS
    assert by["-25211"].verdict == FAILS
    assert "Accessibility" in by["-25211"].detail
    assert (by["Ghostty"].verdict, by["Ghostty"].detail) == (OPEN, "Ghostty is not running")
    assert (by["1"].verdict, by["2"].verdict, by["8"].verdict) == (HOLDS, FAILS, OPEN)
    assert len(asked) == len(QUESTIONS)
    assert not any("private" in str(one) for one in found)
    assert desktop.read()["keys"] == []
