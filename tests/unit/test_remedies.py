from __future__ import annotations

from pathlib import Path

import pytest

from wake_bridge.domain.delivery import EXACT_REMEDIES, REMEDIES, Hold, HoldReason
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import Evidence, PresenceState

ROOT = Path(__file__).parents[2]
ME = Identity("@me")
WHERE = "agents:1.2"
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for package in ("wake_bridge", "adapters")
    for kind in ("*.py", "*.toml")
    for path in (ROOT / package).rglob(kind)
    if path.name != "delivery.py" or path.parent.name != "domain"
)


@pytest.mark.parametrize(
    ("reason", "detail", "told"),
    [
        (
            HoldReason.USER_TYPING,
            "draft in composer: half",
            "unsent text in the composer of agents:1.2: send it or clear it there",
        ),
        (
            HoldReason.USER_TYPING,
            "client-key in client: a key 3 s ago",
            "somebody is typing in agents:1.2: leave its keyboard alone for a moment",
        ),
        (
            HoldReason.WAITING_ON_APPROVAL,
            "approval in bottom: Allow?",
            "approval waiting in agents:1.2: answer the dialog there",
        ),
        (
            HoldReason.UNKNOWN,
            "scrolled in pill: Jump to bottom",
            (
                "the view in agents:1.2 is scrolled up: go back to its end there (Ctrl-End in Claude Code, Esc in Codex,"
                " Ctrl-Alt-G in OpenCode and Kilo, End in Copilot, Shift-Down in Vibe)"
            ),
        ),
        (HoldReason.COPY_MODE, "copy-mode in pane: copy-mode", "agents:1.2 is in copy mode: press q there"),
        (
            HoldReason.NO_AGENT,
            "suspended in process: x is stopped",
            "the agent in agents:1.2 is suspended: bring it back there with `fg`",
        ),
        (HoldReason.ACTIVE, "moving in pane", "nothing to do: agents:1.2 still moves and is looked at again soon"),
        (HoldReason.ACTIVE, "moving-row in above: 3 s", REMEDIES[HoldReason.ACTIVE].format(where=WHERE)),
        (
            HoldReason.UNREACHABLE,
            "tmux is not on PATH",
            "install tmux 3.2 or later, or start wake-bridge with a PATH that has it",
        ),
        (
            HoldReason.UNREACHABLE,
            "no pane is called exactly 'x'",
            "open agents:1.2 again, or run `wake-bridge bind @me` inside the right pane",
        ),
        (
            HoldReason.NO_ADAPTER,
            "no adapter named 'x' is installed",
            "no adapter serves @me: enable one (`wake-bridge adapters`), or give it a target in its subscription or in [targets]",
        ),
        (
            HoldReason.ADAPTER_FAILED,
            "tmux exited with 1",
            "nothing to do: the attempt in agents:1.2 failed before anything was typed (tmux exited with 1) and is made again",
        ),
    ],
)
def test_a_remedy_says_what_is_the_matter_where_and_what_to_do(reason: HoldReason, detail: str, told: str) -> None:
    """DESIGN §1: a hold has a remedy; the words are those of a person who is to act on it."""
    assert Hold(reason, detail, WHERE).told(ME) == told


def test_a_remedy_beside_its_reason_is_the_deed_alone() -> None:
    """Who hears the reason anyway is not told it twice."""
    assert Hold(HoldReason.WAITING_ON_APPROVAL, "", WHERE).remedy(ME) == "answer the dialog in agents:1.2"
    assert Hold(HoldReason.USER_TYPING, "", WHERE).remedy(ME) == "send or clear the text in the composer of agents:1.2"
    assert all(Hold(reason).told(ME) for reason in HoldReason)


@pytest.mark.parametrize(("reason", "start"), EXACT_REMEDIES)
def test_an_exact_remedy_is_for_something_that_is_really_said(reason: HoldReason, start: str) -> None:
    """A remedy whose beginning nobody says any more would never be shown."""
    hold = Hold(reason, f"{start} in place: seen", WHERE)

    assert start.rpartition(": ")[2] in SOURCES
    assert hold.remedy(ME) != Hold(reason, "something else", WHERE).remedy(ME)
    assert "{" not in hold.remedy(ME)


def test_text_from_a_screen_never_chooses_or_breaks_a_remedy() -> None:
    """The detail quotes what a screen showed: braces and other words in it are only text."""
    shown = Evidence("draft", PresenceState.USER_TYPING, saw="{where} client-key {0}", region="composer")

    assert shown.told == "draft in composer: {where} client-key {0}"
    assert Hold(HoldReason.USER_TYPING, shown.told, WHERE).told(ME).startswith("unsent text")
    assert "{where}" in Hold(HoldReason.ADAPTER_FAILED, "{where}", WHERE).remedy(ME)


@pytest.mark.parametrize(
    ("hold", "command"),
    [
        (Hold(HoldReason.INPUT_OFF, "", "work:api.0"), "`tmux select-pane -e -t work:api.0`"),
        (Hold(HoldReason.INPUT_OFF, "", "work:a'; ls.0"), """`tmux select-pane -e -t 'work:a'"'"'; ls.0'`"""),
        (Hold(HoldReason.UNKNOWN, "glyph-style", "my work:0.0"), "`wake-bridge screens trust 'my work:0.0'`"),
        (Hold(HoldReason.UNKNOWN, "glyph-style"), "`wake-bridge screens trust PANE`"),
    ],
)
def test_a_command_to_be_copied_names_the_pane_as_a_shell_reads_it(hold: Hold, command: str) -> None:
    """Names of sessions and windows are other people's text: what is copied into a shell is one quoted word."""
    assert command in hold.remedy(Identity("@me"))
