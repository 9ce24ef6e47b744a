from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.test_remedies_in_a_room import PAUSES, ROWS
from tests.integration.test_remedies_by_waiting import WAITED
from wake_bridge.domain.delivery import EXACT_REMEDIES, REMEDIES, WITH_REASON, Hold, HoldReason
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
            (
                "unsent text in the composer of agents:1.2: send it or clear it there; if nobody typed it:"
                " `wake-bridge screens trust agents:1.2`"
            ),
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
            (
                "open agents:1.2 again, or run `wake-bridge bind @me` inside the right pane, which binds it or says what to change in"
                " [targets]"
            ),
        ),
        (
            HoldReason.NO_ADAPTER,
            "no adapter named 'x' is installed",
            (
                "no adapter serves @me: name one that `wake-bridge adapters` lists in its [targets] entry or its subscription"
                " (`wake-bridge update ID --adapter NAME`), or enable its own and restart the daemon"
            ),
        ),
        (
            HoldReason.STORM,
            "8 wakes within 240 s",
            "nothing to do: the pane rests after many wakes (8 wakes within 240 s)",
        ),
        (
            HoldReason.ADAPTER_FAILED,
            "tmux exited with 1",
            "nothing to do: the attempt in agents:1.2 failed before anything was typed (tmux exited with 1) and is made again",
        ),
    ],
)
def test_a_remedy_says_what_is_the_matter_where_and_what_to_do(reason: HoldReason, detail: str, told: str) -> None:
    """A hold has a remedy; the words are those of a person who is to act on it."""
    assert Hold(reason, detail, WHERE).told(ME) == told


def test_a_remedy_beside_its_reason_is_the_deed_alone() -> None:
    """Who hears the reason anyway is not told it twice."""
    assert Hold(HoldReason.WAITING_ON_APPROVAL, "", WHERE).remedy(ME) == "answer the dialog in agents:1.2"
    assert Hold(HoldReason.COPY_MODE, "", WHERE).remedy(ME) == "agents:1.2 is in copy mode: press q there"
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


ELSEWHERE: dict[tuple[HoldReason, str], str] = {
    (
        HoldReason.MOVED,
        "",
    ): "test_remembered_panes.py::test_the_mail_of_a_closed_pane_is_not_submitted_to_the_one_that_moved_up",
    (
        HoldReason.MOVED,
        "the tmux server began anew",
    ): "test_setup_rebind.py::test_on_a_terminal_it_asks_for_each_who_lives_where_and_the_holds_end",
    (
        HoldReason.MOVED,
        "[targets]",
    ): "test_remembered_panes.py::test_a_pane_line_in_targets_that_leads_to_another_agent_is_named_and_ends_the_hold_once_corrected",
    (
        HoldReason.STAGED,
        "unreachable: no pane is called exactly",
    ): "test_remembered_panes.py::test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally",
    (
        HoldReason.STAGED,
        "moved: [targets]",
    ): "test_remembered_panes.py::test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally",
    (
        HoldReason.STAGED,
        "moved",
    ): "test_remembered_panes.py::test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally",
    (
        HoldReason.UNKNOWN,
        "scrolled",
    ): "test_real_programs.py::test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it",
    (
        HoldReason.UNKNOWN,
        "end-of-transcript",
    ): "test_real_programs.py::test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it",
    (
        HoldReason.BENCHED,
        "",
    ): "test_switched_off.py::test_quiet_hours_hold_everybody_and_a_benched_identity_waits_for_its_owner",
    (HoldReason.OTHER_DRIVER, ""): "test_switched_off.py::test_another_driver_of_the_same_directory_holds_everything",
    (
        HoldReason.OTHER_DRIVER,
        "another wake-bridge",
    ): "test_graph_lock.py::test_whoever_was_first_at_a_replaced_graph_is_the_rival_until_it_ends",
    (
        HoldReason.NO_ADAPTER,
        "no adapter serves the harnessTarget",
    ): "test_one_truth.py::test_of_a_push_on_a_graph_of_our_own_all_say_the_same_and_what_they_advise_helps",
    (HoldReason.LOOP, ""): "test_limits.py::test_resume_lets_one_of_them_go_on",
    (HoldReason.GRAPH_AWAY, ""): "test_bad_input.py::test_a_locked_graph_is_waited_for",
    (
        HoldReason.DRY_RUN,
        "",
    ): "test_daemon_life.py::test_a_dry_run_types_nothing_and_leaves_ledger_and_cursor_byte_identical",
    (
        HoldReason.NOT_LOADED,
        "",
    ): "test_native_routes.py::test_a_conversation_that_nobody_has_open_is_begun_only_with_authority",
    (
        HoldReason.NO_AGENT,
        "suspended",
    ): "test_real_programs.py::test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it",
    (
        HoldReason.UNREACHABLE,
        "tmux is not",
    ): "test_no_surface.py::test_what_is_told_where_tmux_or_its_server_is_missing_helps_when_it_is_taken_literally",
    (
        HoldReason.UNREACHABLE,
        "no tmux server",
    ): "test_no_surface.py::test_what_is_told_where_tmux_or_its_server_is_missing_helps_when_it_is_taken_literally",
}
"""Remedies that another test takes literally."""

UNTAKEN: dict[tuple[HoldReason, str], str] = {
    (HoldReason.UNKNOWN, "overlay"): "views of real programs alone; their screens are captured",
    (HoldReason.UNKNOWN, "transcript-browser"): "views of real programs alone; their screens are captured",
    (
        HoldReason.OTHER_DRIVER,
        "the graph cannot be locked",
    ): "it says where to look: what is wrong there, the detail tells",
    (HoldReason.UNKNOWN, ""): "whatever is open there: each kind of it has a row of its own",
    (HoldReason.UNKNOWN, "cursor-elsewhere"): "no program that is at hand leaves its cursor elsewhere",
    (HoldReason.UNKNOWN, "glyph-style"): "`screens trust` is taken in test_screen_trust.py, for another sign",
    (HoldReason.UNKNOWN, "version"): "`screens trust` is taken in test_screen_trust.py, for another sign",
    (HoldReason.UNKNOWN, "reconnecting"): "the real Codex alone shows it",
    (HoldReason.UNKNOWN, "conversation-lost"): "the real Codex alone shows it",
    (
        HoldReason.USER_TYPING,
        "session-touched",
    ): "a tmux without `client_activity` alone says it; the deed is that of client-key",
    (HoldReason.UNREACHABLE, "tmux did not"): "it says where to look, and the hold ends as tmux answers",
    (HoldReason.UNREACHABLE, "it is only seen"): "a Claude Code without its monitor alone is only seen",
    (
        HoldReason.NO_ADAPTER,
        "begun by",
    ): "an adapter that is taken away between two starts, in the middle of an attempt",
}
"""Those that no test takes, and why: nothing is added here without a reason that holds."""


def test_every_remedy_is_taken_literally_by_a_test() -> None:
    """A remedy that cannot help is a kind of fault; a new one needs a test that sees the hold end."""
    told = {(reason, "") for reason in (*REMEDIES, *WITH_REASON)} | set(EXACT_REMEDIES)
    taken = {(row.reason, row.detail) for row in ROWS.values()} | {(HoldReason.PAUSED, detail) for detail in PAUSES}
    shown = taken | set(WAITED) | set(ELSEWHERE)

    assert told - shown == set(UNTAKEN)
    assert shown - told == set()
    for test in ELSEWHERE.values():
        file, _, name = test.partition("::")
        (path,) = (ROOT / "tests").rglob(file)
        assert f"def {name}(" in path.read_text(encoding="utf-8")
