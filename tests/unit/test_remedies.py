from __future__ import annotations

from pathlib import Path

import pytest
from wake_bridge_adapters.screens.profile_file import load_profiles

from tests.end_to_end.test_remedies_in_a_room import PAUSES, ROWS
from tests.integration.test_remedies_by_waiting import WAITED
from wake_bridge.domain.causes import Cause, HoldReason, cause_of, cause_written
from wake_bridge.domain.delivery import Hold, JournalEntry, Step
from wake_bridge.domain.names import EPOCH_START, Identity
from wake_bridge.domain.presence import Evidence, PresenceState
from wake_bridge.engine.deliver.attempt import still_out

ROOT = Path(__file__).parents[2]
ME = Identity("@me")
WHERE = "agents:1.2"
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for package in ("wake_bridge", "adapters")
    for kind in ("*.py", "*.toml")
    for path in (ROOT / package).rglob(kind)
    if path.name != "causes.py"
)


def of(cause: Cause, detail: str = "", where: str = WHERE) -> Hold:
    return Hold(cause.reason, detail, where, cause=cause)


@pytest.mark.parametrize(
    ("cause", "detail", "told"),
    [
        (
            Cause.USER_TYPING,
            "draft in composer: half",
            (
                "send or clear the text in the composer of agents:1.2; if nobody typed it:"
                " `wake-bridge screens trust agents:1.2`"
            ),
        ),
        (
            Cause.CLIENT_KEY,
            "client-key in client: a key 3 s ago",
            "somebody is typing in agents:1.2: leave its keyboard alone for a moment",
        ),
        (
            Cause.WAITING_ON_APPROVAL,
            "approval in bottom: Allow?",
            "approval waiting: answer the dialog in agents:1.2",
        ),
        (
            Cause.SCROLLED,
            "scrolled in pill: Jump to bottom",
            (
                "the view in agents:1.2 is scrolled up: go back to its end there (Ctrl-End in Claude Code, Esc in Codex,"
                " Ctrl-Alt-G in OpenCode and Kilo, End in Copilot, Shift-Down in Vibe)"
            ),
        ),
        (Cause.COPY_MODE, "copy-mode in pane: copy-mode", "agents:1.2 is in copy mode: press q there"),
        (
            Cause.SUSPENDED,
            "suspended in process: x is stopped",
            "the agent in agents:1.2 is suspended: bring it back there with `fg`",
        ),
        (Cause.MOVING, "moving in pane", "nothing to do: agents:1.2 is still changing; wake-bridge looks again soon"),
        (
            Cause.ACTIVE,
            "moving-row in above: 3 s",
            "nothing to do: the agent in agents:1.2 is working and will be woken when its turn ends",
        ),
        (
            Cause.NO_TMUX,
            "tmux is not on PATH",
            "install tmux 3.2 or later, or start wake-bridge with a PATH that has it",
        ),
        (
            Cause.NO_SUCH_PANE,
            "no pane is called exactly 'x'",
            (
                "open agents:1.2 again, or run `wake-bridge bind @me` inside the right pane, which pins it or prints what to change in"
                " [targets]"
            ),
        ),
        (
            Cause.NO_ADAPTER,
            "no adapter named 'x' is installed",
            (
                "no adapter serves @me: name an adapter that `wake-bridge adapters` lists in its [targets] entry or its subscription"
                " (`wake-bridge update ID --adapter NAME`), or enable its own adapter and restart the daemon (`wake-bridge list @me` shows the ID)"
            ),
        ),
        (
            Cause.STORM,
            "8 wakes within 240 s",
            "nothing to do: the pane rests after many wakes (8 wakes within 240 s)",
        ),
        (
            Cause.ADAPTER_FAILED,
            "tmux exited with 1",
            "nothing to do: the attempt in agents:1.2 failed before anything was typed (tmux exited with 1); wake-bridge tries again",
        ),
    ],
)
def test_a_remedy_says_what_is_the_matter_where_and_what_to_do(cause: Cause, detail: str, told: str) -> None:
    """A hold has a remedy; the words are those of a person who is to act on it."""
    assert of(cause, detail).told(ME) == told


def test_a_remedy_beside_its_reason_is_the_deed_alone() -> None:
    """Who hears the reason anyway is not told it twice."""
    assert Hold(HoldReason.WAITING_ON_APPROVAL, "", WHERE).remedy(ME) == "answer the dialog in agents:1.2"
    assert Hold(HoldReason.COPY_MODE, "", WHERE).remedy(ME) == "agents:1.2 is in copy mode: press q there"
    assert all(Hold(reason).told(ME) for reason in HoldReason)


@pytest.mark.parametrize("cause", list(Cause))
def test_the_words_of_an_emitter_do_not_change_what_is_advised(cause: Cause) -> None:
    """The cause decides; the detail is only quoted."""
    said, reworded = of(cause, "so it was put"), of(cause, "no-composer in composer: the screen is empty")

    assert said.cause is reworded.cause is cause
    assert said.remedy(ME).replace("so it was put", "…") == reworded.remedy(ME).replace(reworded.detail, "…")
    assert not set("{}") & set(said.remedy(ME) + said.told(ME))


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_emitted(cause: Cause) -> None:
    """A cause that nothing says any more would never be told."""
    is_general = cause_of(cause.reason) is cause
    names = [f"Cause.{cause.name}", *(f'"{sign}"' for sign in cause.signs)]

    assert any(name in SOURCES for name in names) or (is_general and f"HoldReason.{cause.reason.name}" in SOURCES)


@pytest.mark.parametrize("sign", [sign for cause in Cause for sign in cause.signs[1:]])
def test_every_sign_in_the_table_is_the_name_of_a_rule(sign: str) -> None:
    """A rule that was renamed takes its line of the table along."""
    assert f'"{sign}"' in SOURCES


def test_every_rule_of_our_own_screen_profiles_has_a_cause() -> None:
    """What is not recognised is told by what it is; only other people's rules are `other`."""
    profiles = load_profiles().values()
    evidence = [Evidence(rule.name, rule.state) for profile in profiles for rule in profile.rules]
    evidence += [Evidence(sign.name, PresenceState.UNKNOWN) for profile in profiles for sign in profile.idle]

    assert {one.rule for one in evidence if one.why is Cause.OTHER} == set()


@pytest.mark.parametrize(
    ("reason", "said", "rule", "cause"),
    [
        (HoldReason.UNKNOWN, Cause.OTHER, "", Cause.OTHER),
        (HoldReason.UNKNOWN, Cause.OTHER, "a-rule-of-my-own", Cause.OTHER),
        (HoldReason.UNKNOWN, Cause.OTHER, "scrolled", Cause.SCROLLED),
        (HoldReason.UNKNOWN, Cause.OVERLAY, "scrolled", Cause.OVERLAY),
        (HoldReason.UNKNOWN, Cause.COPY_MODE, "", Cause.OTHER),
        (HoldReason.USER_TYPING, Cause.OTHER, "scrolled", Cause.USER_TYPING),
        (HoldReason.UNREACHABLE, Cause.OTHER, "", Cause.UNREACHABLE),
    ],
)
def test_what_says_no_cause_of_its_reason_has_the_general_one(
    reason: HoldReason, said: Cause, rule: str, cause: Cause
) -> None:
    """Adapters of third parties, a user's own profiles and older ledgers say a reason and free text."""
    assert cause_of(reason, said, rule) is cause
    assert Hold(reason, cause=said).cause is cause_of(reason, said)


def test_a_cause_that_this_version_does_not_know_is_no_error() -> None:
    """A daemon or a ledger of another version may name one."""
    assert cause_written("scrolled") is Cause.SCROLLED
    assert cause_written("from-a-later-version") is cause_written(None) is cause_written("") is Cause.OTHER


def test_text_from_a_screen_never_chooses_or_breaks_a_remedy() -> None:
    """The detail quotes what a screen showed: braces and other words in it are only text."""
    shown = Evidence("draft", PresenceState.USER_TYPING, saw="{where} client-key {0}", region="composer")

    assert shown.told == "draft in composer: {where} client-key {0}"
    assert Hold(HoldReason.USER_TYPING, shown.told, WHERE).told(ME).startswith("send or clear")
    assert "{where}" in Hold(HoldReason.ADAPTER_FAILED, "{where}", WHERE).remedy(ME)


@pytest.mark.parametrize(
    ("hold", "command"),
    [
        (Hold(HoldReason.INPUT_OFF, "", "work:api.0"), "`tmux select-pane -e -t work:api.0`"),
        (Hold(HoldReason.INPUT_OFF, "", "work:a'; ls.0"), """`tmux select-pane -e -t 'work:a'"'"'; ls.0'`"""),
        (of(Cause.GLYPH_STYLE, where="my work:0.0"), "`wake-bridge screens trust 'my work:0.0'`"),
        (of(Cause.GLYPH_STYLE, where=""), "`wake-bridge screens trust PANE`"),
    ],
)
def test_a_command_to_be_copied_names_the_pane_as_a_shell_reads_it(hold: Hold, command: str) -> None:
    """Names of sessions and windows are other people's text: what is copied into a shell is one quoted word."""
    assert command in hold.remedy(Identity("@me"))


@pytest.mark.parametrize(
    ("why", "step", "cause"),
    [
        (Cause.NO_SUCH_PANE, Step.INTENT_STAGE, Cause.LEFT_IN_NO_PANE),
        (Cause.MOVED, Step.INTENT_STAGE, Cause.LEFT_BY_MOVE),
        (Cause.SERVER_BEGAN_ANEW, Step.INTENT_STAGE, Cause.LEFT_BY_MOVE),
        (Cause.BEGUN_BY_ANOTHER, Step.INTENT_STAGE, Cause.LEFT_BY_ADAPTER),
        (Cause.TARGET_MOVED, Step.INTENT_STAGE, Cause.LEFT_BY_TARGET),
        (Cause.NOT_YET_SHOWN, Step.INTENT_STAGE, Cause.NOT_YET_SHOWN),
        (Cause.OTHER_HOST, Step.INTENT_STAGE, Cause.LEFT_TO_HOST),
        (Cause.TOLD_ELSEWHERE, Step.INTENT_STAGE, Cause.LEFT_TO_HOST),
        (Cause.TMUX_SILENT, Step.INTENT_STAGE, Cause.STAGED),
        (Cause.NO_SUCH_PANE, Step.INTENT_SUBMIT, Cause.MAYBE_SENT),
    ],
)
def test_a_text_that_stands_somewhere_takes_the_cause_along(why: Cause, step: Step, cause: Cause) -> None:
    """What keeps a wake whose text was left in a pane says what becomes of that text."""
    held = still_out([JournalEntry(EPOCH_START, step, 1, {})], of(why, "so it is"))

    assert (held.cause, held.reason) == (cause, cause.reason)


ELSEWHERE: dict[Cause, str] = {
    Cause.PUSHED: "test_pushes.py::test_a_client_that_drops_its_wakes_is_left_alone_and_the_pane_is_woken_once",
    Cause.PUSH_UNANSWERED: "test_pushes.py::test_who_has_nothing_but_a_client_that_drops_is_told_what_helps",
    Cause.NO_MCP_CLIENT: "test_pushes.py::test_who_has_nothing_but_pushes_waits_for_a_client",
    Cause.RECEIVER_SUSPENDED: "test_webhook.py::test_a_receiver_that_is_down_loses_nothing_and_what_waited_comes_as_a_digest",
    Cause.RECEIVER_FAILED: "test_webhook.py::test_an_emission_that_may_have_arrived_is_sent_again_as_it_was_also_after_a_kill",
    Cause.RECEIVER_REJECTED: "test_receivers_that_fail.py::test_whatever_a_receiver_answers_nothing_is_lost_and_nobody_types_a_command",
    Cause.RECEIVER_DEGRADED: "test_webhook.py::test_a_receiver_that_is_gone_is_given_up_until_a_person_recovers_it",
    Cause.RECEIVER_FORBIDDEN: "test_webhook.py::test_a_key_is_changed_without_a_gap_and_a_private_address_is_refused_with_the_line_that_allows_it",
    Cause.OTHER_HOST: "test_leases.py::test_one_of_two_hosts_wakes_an_agent_and_the_other_says_which",
    Cause.TOLD_ELSEWHERE: "test_leases.py::test_what_was_committed_and_never_sent_is_told_by_who_took_over",
    Cause.LEASE_AWAY: "test_leases.py::test_who_cannot_reach_the_database_presses_nothing_and_says_why",
    Cause.LEASE_MOVES: "test_leases.py::test_an_agent_that_lives_on_another_host_is_no_fault_here_and_one_that_is_being_moved_says_so",
    Cause.LEASE_LATE: "test_leases.py::test_a_daemon_that_stood_still_between_commit_and_enter_presses_nothing_late",
    Cause.LEFT_TO_HOST: "test_leases.py::test_what_was_committed_and_never_sent_is_told_by_who_took_over",
    Cause.KNOWN_HERE_ALONE: "test_leases.py::test_what_one_host_alone_knows_of_is_told_there_and_comes_once_the_agent_is_moved",
    Cause.HOST_SILENT: "test_leases.py::test_an_agent_whose_host_is_silent_is_told_by_that_host",
    Cause.ON_ANOTHER_HOST: "test_hosts.py::test_a_pane_that_leads_to_another_host_says_what_to_do",
    Cause.HOST_AWAY: "test_hosts.py::test_a_link_that_is_down_holds_its_wakes_and_nothing_is_typed_twice_when_it_is_back",
    Cause.GRAPH_NOT_LOCKED: "test_graph_lock.py::test_where_nothing_can_be_locked_it_says_so",
    Cause.GLYPH_STYLE: "test_screen_trust.py::test_what_is_told_of_a_version_or_a_prompt_that_is_not_known_helps_when_it_is_taken_literally",
    Cause.VERSION: "test_screen_trust.py::test_what_is_told_of_a_version_or_a_prompt_that_is_not_known_helps_when_it_is_taken_literally",
    Cause.TMUX_SILENT: "test_tmux_resolve.py::test_a_server_that_stands_still_is_told_as_that_and_the_pane_is_found_once_it_goes_on",
    Cause.LEFT_BY_ADAPTER: "test_remedies_by_waiting.py::test_a_wake_whose_adapter_was_taken_away_goes_on_once_that_is_enabled_again",
    Cause.BEGUN_BY_ANOTHER: "test_remedies_by_waiting.py::test_a_wake_whose_adapter_was_taken_away_goes_on_once_that_is_enabled_again",
    Cause.MOVED: "test_remembered_panes.py::test_the_mail_of_a_closed_pane_is_not_submitted_to_the_one_that_moved_up",
    Cause.SERVER_BEGAN_ANEW: "test_setup_rebind.py::test_on_a_terminal_it_asks_for_each_who_lives_where_and_the_holds_end",
    Cause.TARGET_MOVED: "test_remembered_panes.py::test_a_pane_line_in_targets_that_leads_to_another_agent_is_named_and_ends_the_hold_once_corrected",
    Cause.LEFT_IN_NO_PANE: "test_remembered_panes.py::test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally",
    Cause.LEFT_BY_TARGET: "test_remembered_panes.py::test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally",
    Cause.LEFT_BY_MOVE: "test_remembered_panes.py::test_what_is_told_of_a_text_in_a_pane_that_is_gone_helps_when_it_is_taken_literally",
    Cause.SCROLLED: "test_real_programs.py::test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it",
    Cause.BENCHED: "test_switched_off.py::test_quiet_hours_hold_everybody_and_a_benched_identity_waits_for_its_owner",
    Cause.OTHER_DRIVER: "test_switched_off.py::test_another_driver_of_the_same_directory_holds_everything",
    Cause.ANOTHER_WAKE_BRIDGE: "test_graph_lock.py::test_whoever_was_first_at_a_replaced_graph_is_the_rival_until_it_ends",
    Cause.NOBODY_PUSHES: "test_one_truth.py::test_of_a_push_on_a_graph_of_our_own_all_say_the_same_and_what_they_advise_helps",
    Cause.NOT_SUBSCRIBED: "test_one_truth.py::test_what_is_told_of_one_that_nothing_wakes_helps_when_it_is_taken_literally",
    Cause.NOT_ACTIVE: "test_one_truth.py::test_what_is_told_of_one_that_nothing_wakes_helps_when_it_is_taken_literally",
    Cause.OWN_SERVER: "test_one_truth.py::test_what_the_graphs_own_server_serves_is_taken_over_by_the_key_that_is_named",
    Cause.ONLY_SEEN: "test_one_truth.py::test_who_is_only_seen_is_woken_in_its_pane_after_what_is_advised",
    Cause.AWAITING_ACK: "test_answered_in_time.py::test_an_agent_that_stays_silent_past_the_deadline_has_its_person_told_once",
    Cause.LOOP: "test_limits.py::test_resume_lets_one_of_them_go_on",
    Cause.GRAPH_AWAY: "test_bad_input.py::test_a_locked_graph_is_waited_for",
    Cause.DRY_RUN: "test_daemon_life.py::test_a_dry_run_types_nothing_and_leaves_ledger_and_cursor_byte_identical",
    Cause.NOT_LOADED: "test_native_routes.py::test_a_conversation_that_nobody_has_open_is_begun_only_with_authority",
    Cause.SUSPENDED: "test_real_programs.py::test_presence_is_right_and_the_wake_comes_once_when_the_state_allows_it",
    Cause.TRANSCRIPT: "test_codex_remedies.py::test_a_transcript_that_is_browsed_is_left_with_escape",
    Cause.RECONNECTING: "test_codex_remedies.py::test_a_server_that_is_gone_comes_back_by_the_command_that_is_named",
    Cause.CONVERSATION_LOST: "test_codex_remedies.py::test_after_a_conversation_was_lost_with_its_server_the_agent_is_started_anew",
    Cause.NO_TMUX: "test_no_surface.py::test_what_is_told_where_tmux_or_its_server_is_missing_helps_when_it_is_taken_literally",
    Cause.NO_TMUX_SERVER: "test_no_surface.py::test_what_is_told_where_tmux_or_its_server_is_missing_helps_when_it_is_taken_literally",
}
"""Remedies that another test takes literally."""

UNTAKEN: dict[Cause, str] = {
    Cause.OVERLAY: "the real Vibe alone has it; its rule asks for the screen's own words, `Esc Close`, which are the remedy",
    Cause.CURSOR_ELSEWHERE: "said of a box in the middle of a redraw; no program that is at hand leaves its cursor there",
}
"""Those that no test takes, and why: nothing is added here without a reason that holds."""


def test_every_remedy_is_taken_literally_by_a_test() -> None:
    """A remedy that cannot help is a kind of fault; a new one needs a test that sees the hold end."""
    taken = {row.cause for row in ROWS.values()} | set(PAUSES)
    shown = taken | set(WAITED) | set(ELSEWHERE)

    untaken = set(Cause) - shown - set(UNTAKEN)
    assert untaken == set(), "write a test that does what the remedy says and sees the hold end; name it in `ELSEWHERE`"
    assert set(UNTAKEN) & shown == set()
    for test in ELSEWHERE.values():
        file, _, name = test.partition("::")
        named = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob(file)]
        assert any(f"def {name}(" in text for text in named), test
