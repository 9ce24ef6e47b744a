"""What is worth a word to the human, and how it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wake_bridge.domain.causes import Cause, Tell
from wake_bridge.domain.delivery import (
    Delivery,
    DeliveryState,
    Hold,
    HoldReason,
    JournalEntry,
    Outcome,
    Step,
    held_since,
)
from wake_bridge.domain.events import MessageDetail
from wake_bridge.domain.names import Epoch, Identity, Instant
from wake_bridge.domain.notices import about_end, about_hold, about_no_routes, calls_for_a_person
from wake_bridge.domain.nudges import pulse_for
from wake_bridge.testing.hostile import hostile_subjects
from wake_bridge.testing.ledger_samples import sample_event

NOW = Instant(1_800_000_000_000)
MINUTE = 60_000
AFTER = 15 * MINUTE
ENDS_BY_ITSELF_OR_BY_WHO_BEGAN_IT = {
    HoldReason.OTHER_HOST,
    HoldReason.ACTIVE,
    HoldReason.WINDOW,
    HoldReason.BUSY_PANE,
    HoldReason.REFRACTORY,
    HoldReason.STORM,
    HoldReason.QUIET_HOURS,
    HoldReason.PAUSED,
    HoldReason.BENCHED,
    HoldReason.DRY_RUN,
    HoldReason.LIMITED,
    HoldReason.AWAITING_ACK,
}
DELIVERY = Delivery("01X", Identity("@agent"), DeliveryState.DISPATCHED, 1, NOW, NOW)
KNOWN = {Identity("@agent")}


def test_every_hold_either_calls_for_a_person_or_ends_by_itself() -> None:
    """A notice for each hold that somebody must end, and for no other."""
    untold = {cause.reason for cause in Cause if cause.tell is Tell.NEVER}
    told = {cause.reason for cause in Cause if cause.tell is not Tell.NEVER}

    assert untold == ENDS_BY_ITSELF_OR_BY_WHO_BEGAN_IT
    # of one reason a single cause is nobody's to end but a person's
    assert told == set(HoldReason) - untold | {Cause.KNOWN_HERE_ALONE.reason}


@pytest.mark.parametrize(
    ("reason", "minutes", "is_due"),
    [
        (HoldReason.WAITING_ON_APPROVAL, 14, False),
        (HoldReason.WAITING_ON_APPROVAL, 15, True),
        (HoldReason.BUDGET, 0, True),
        (HoldReason.LOOP, 0, True),
        (HoldReason.ACTIVE, 600, False),
        (HoldReason.PAUSED, 600, False),
    ],
)
def test_a_hold_calls_for_a_person_when_it_lasts(reason: HoldReason, minutes: int, is_due: bool) -> None:
    """A hold is told after `[human] notice_after`; a spent budget and a loop are told at once."""
    assert calls_for_a_person(Hold(reason), Instant(NOW - minutes * MINUTE), NOW, AFTER) is is_due


def _line(minute: int, step: Step, reason: str = "", detail: str = "") -> JournalEntry:
    return JournalEntry(Instant(NOW + minute * MINUTE), step, 1, {"reason": reason, "detail": detail})


def test_a_hold_lasts_while_its_reason_stays_whatever_its_details() -> None:
    """A hold is noted when reason or detail change; only the reason begins it anew."""
    busy = [_line(0, Step.OPENED), _line(1, Step.HELD, "active"), _line(2, Step.HELD, "active", "spinner")]
    assert held_since(busy) == NOW + MINUTE
    dialog = [*busy, _line(5, Step.HELD, "waitingOnApproval", "a"), _line(9, Step.HELD, "waitingOnApproval", "b")]
    assert held_since(dialog) == NOW + 5 * MINUTE
    tried = [*dialog, _line(11, Step.LOCKED), _line(12, Step.RELEASED, "waitingOnApproval")]
    assert held_since(tried) == NOW + 5 * MINUTE
    assert held_since([*tried, _line(13, Step.HELD, "userTyping")]) == NOW + 13 * MINUTE
    assert held_since([_line(0, Step.OPENED)]) is None


def test_a_notice_says_who_why_where_what_to_do_and_what_waits() -> None:
    """A hold has a reason and a remedy."""
    hold = Hold(HoldReason.WAITING_ON_APPROVAL, "allow?", "agents:1.0")
    said = about_hold(DELIVERY, hold, Instant(NOW - AFTER), [sample_event(1, matched_at=NOW)], NOW, KNOWN)
    assert said.title == "wake-bridge: @agent cannot be woken (waitingOnApproval)"
    assert said.body == (
        'To do: answer the dialog in agents:1.0. Waiting 15 min: 1 new message (latest: "Review request" from ＠sender)'
    )

    ended = replace(DELIVERY, state=DeliveryState.FAILED, where="agents:1.0", settled_at=NOW)
    failed = about_end(replace(ended, outcome=Outcome.FAILED), [sample_event(1)], NOW, KNOWN)
    assert failed.title == "wake-bridge: a wake for @agent failed"
    assert "deliveries retry 01X`" in failed.body
    unknown = about_end(replace(ended, outcome=Outcome.UNKNOWN), [], NOW, KNOWN)
    assert unknown.title == "wake-bridge: a wake for @agent may or may not have arrived"
    assert "look in agents:1.0 for 01X" in unknown.body
    assert "0 active routes" in about_no_routes(NOW).title


def test_a_notice_about_a_nudge_speaks_of_mail() -> None:
    """A nudge's reason is a pulse of our own until it is locked; a person is told what it is about."""
    hold = Hold(HoldReason.WAITING_ON_APPROVAL, "allow?", "agents:1.0")
    pulse = pulse_for(Identity("@agent"), "01P", Epoch(1), NOW)
    said = about_hold(DELIVERY, hold, Instant(NOW - AFTER), [pulse], NOW, KNOWN)
    assert said.body.endswith("Waiting 15 min: unread mail, which the heartbeat announces")


def test_a_hostile_text_makes_no_notice_begin_or_break_as_it_likes() -> None:
    """Graph text is made harmless; a notice is one line that begins with words of ours."""
    for text in [*hostile_subjects(200, seed=3), "--help", "-x", "$(touch /tmp/x)\n`id`"]:
        event = replace(sample_event(1), detail=MessageDetail("M", text, text, ""))
        hold = Hold(HoldReason.NO_ADAPTER, text, text)
        for said in (
            about_hold(DELIVERY, hold, NOW, [event], NOW, KNOWN),
            about_end(replace(DELIVERY, outcome=Outcome.UNKNOWN, where=text), [event], NOW, KNOWN),
        ):
            assert said.title.startswith("wake-bridge: ")
            assert said.body.startswith("To do: ")
            assert not {"\n", "\r", "\x1b", "\0"} & set(said.title + said.body + said.where)
