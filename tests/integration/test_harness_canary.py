"""The canary: what it takes for a rule that moved, and what it proposes then; the versions in docs/harnesses.md are its data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.evidence import moves_between, proposal
from tests.harness.states import STATES
from tests.harness.table import PAGE
from tests.harness.versions import BEGIN, END, kept, table
from tests.harness.walk import FALSE_IDLE
from tests.screens.corpus import CAPTURES

ALL_WELL = {state.name: "pass" for state in STATES}
SHOWN = {
    "fresh-idle": "idle-empty",
    "idle-after-a-turn": "idle-after-turn",
    "streaming": "active-streaming",
    "approval": "approval-shell",
    "draft": "typing-single",
}


@pytest.fixture
def walked(tmp_path: Path) -> Path:
    """The screens of a walk, as the version has them that the rules of Claude Code were tested with."""
    for state, name in SHOWN.items():
        shutil.copy(CAPTURES / "claude" / f"{name}.80x24.json", tmp_path / f"{state}.json")
    return tmp_path


def _change(file: Path, **changed: Any) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(content | changed), encoding="utf-8")


def test_screens_of_a_tested_version_move_no_rule_and_propose_the_version_alone(walked: Path) -> None:
    """Nothing moved: exit 0, and the profile may name the version."""
    assert moves_between("claude", walked) == []
    change = proposal("claude", "2.9.0", walked, ALL_WELL)
    assert [line for line in change.splitlines() if line[:1] in {"+", "-"}][2:] == [
        '-versions = ["2.1.197", "2.1.332"]',
        '+versions = ["2.1.197", "2.1.332", "2.9.0"]',
    ]
    assert proposal("claude", "2.1.332", walked, ALL_WELL) == ""


def test_a_sign_that_is_gone_is_a_rule_that_moved_with_what_it_saw_before(walked: Path) -> None:
    """A title without its spinner: the rule, the evidence before and now, and a rule by what stands there."""
    file = walked / "streaming.json"
    flags = json.loads(file.read_text(encoding="utf-8"))["flags"]
    _change(file, flags=flags | {"pane_title": "Working 12"}, expect=["active"])

    moved = {move.rule: "\n".join(move.lines()) for move in moves_between("claude", walked)}
    change = proposal("claude", "2.9.0", walked, ALL_WELL | {"streaming": "held"})

    assert "before: title-spinner (active) in title:" in moved["title-spinner"]
    assert '+state = "active"' in change
    assert r"+regex = 'Working \d+'" in change
    assert "2.9.0" not in change


def test_an_idle_screen_that_is_not_recognised_is_learnt_in_the_proposal(walked: Path) -> None:
    """Another prompt: the proposal is what `screens trust` would learn."""
    file = walked / "fresh-idle.json"
    ansi = json.loads(file.read_text(encoding="utf-8"))["ansi"]
    _change(file, ansi=ansi.replace("❯", "»"))

    change = proposal("claude", "2.9.0", walked, ALL_WELL | {"fresh idle": "held"})

    assert "# fresh-idle: prompt '»" in change
    assert "+glyph = " in change


def test_the_page_says_what_the_data_say_and_no_version_is_falsely_idle() -> None:
    """docs/harnesses.md has the table of docs/harnesses-versions.json; in none is an agent woken where it is not idle."""
    page = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]

    assert page == table(kept())
    assert FALSE_IDLE not in [
        cell for versions in kept().values() for one in versions.values() for cell in one["cells"].values()
    ]
