"""Bug reports about screens hold no personal text, and read as the screen did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import Screen, classify, load_profiles, read_capture
from wake_bridge_adapters.screens.personal import Personal

CAPTURES = Path(__file__).parents[1] / "screens" / "captures"
PROFILES = load_profiles()


@pytest.mark.parametrize(
    ("text", "left", "kind"),
    [
        ("Read ~/acme/secret.py now", "Read ~/xxxx/xxxxxx.xx now", "path"),
        ("in /home/ada/acme", "in /xxxx/xxx/xxxx", "path"),
        ("● src/billing/acme.py changed", "● xxx/xxxxxxx/xxxx.xx changed", "path"),
        (r"at C:\Users\Ada", r"at x:\xxxxx\xxx", "path"),
        ("mail ada.l+x@acme.example.org!", "mail xxx.x+x@xxxx.xxxxxxx.xxx!", "mail address"),
        ("see https://acme.example/x?y=1 there", "see xxxxx://xxxx.xxxxxxx/x?x=0 there", "URL"),
        ("export KEY sk-ant-api03-Zz9", "export KEY xx-xxx-xxx00-xx0", "token"),
        ("id 01M8FQXY1DZ6BPD2SHH367VR0Y", "id 00x0xxxx0xx0xxx0xxx000xx0x", "token"),
        ("Authorization: Bearer abc", "Authorization: Bearer xxx", "token"),
        ("Hello ADA, 愛田 calls", "Hello xxx, 字字 calls", "name"),
        ("/help and esc/enter, 3/10", "/help and esc/enter, 3/10", ""),
        ("adamant", "adamant", ""),
    ],
)
def test_what_is_personal_is_replaced_by_text_of_the_same_width(text: str, left: str, kind: str) -> None:
    """Paths, names, mail addresses, URLs and tokens; commands and keys stay."""
    personal = Personal(None, ["Ada", "愛田", "xy"], 80)

    assert personal.text(text) == left
    assert [one for one, count in personal.replaced.items() if count] == ([kind] if kind else [])


def test_a_path_that_a_frame_wraps_is_replaced_as_a_whole() -> None:
    """The rest of it stands in the next row, behind the frame."""
    rows = "│ Read /home/ada/acm │\n│ e/plans.md         │\n│ now                │"

    assert Personal(None, [], 22).text(rows) == "│ Read /xxxx/xxx/xxx │\n│ x/xxxxx.xx         │\n│ now                │"


def test_links_go_and_colours_stay() -> None:
    """A terminal's hyperlink holds an address that no cell shows."""
    ansi = "\x1b[1mIn \x1b[31m~/ac\x1b[32mme\x1b[0m \x1b]8;;https://acme.example\x1b\\docs\x1b]8;;\x1b\\"

    assert Personal(None, [], 80).ansi(ansi) == "\x1b[1mIn \x1b[31m~/xx\x1b[32mxx\x1b[0m docs"


def test_every_capture_reads_the_same_without_personal_text() -> None:
    """A profile's own words stay, every cell keeps its width: a report tests the rules as the screen did."""
    changed = []
    for file in sorted(CAPTURES.rglob("*.json")):
        capture = read_capture(file)
        before, profile = capture.screen, PROFILES[capture.harness]
        personal = Personal(profile, ["agent", "project"], before.width)
        parsed = Screen.parse(
            personal.ansi(json.loads(file.read_text(encoding="utf-8"))["ansi"]),
            width=before.width,
            height=before.height,
            cursor_x=before.cursor_x,
            cursor_y=before.cursor_y,
            cursor_visible=before.cursor_visible,
        )
        after = replace(before, rows=parsed.rows, title=personal.text(before.title))
        one, other = classify(before, profile), classify(after, profile)
        if [row.columns for row in before.rows] != [row.columns for row in after.rows]:
            changed.append(f"{file.name}: cells moved")
        if (one.state, one.rule, one.composer) != (other.state, other.rule, other.composer):
            changed.append(f"{file.name}: {one.state} ({one.rule}) became {other.state} ({other.rule})")

    assert changed == []
