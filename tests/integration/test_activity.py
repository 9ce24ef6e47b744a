"""The feed of what happened: a real ledger, whose own triggers write it."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.activity import ActivityKind, Origin
from wake_bridge.domain.attention import Episode
from wake_bridge.domain.channels import TEXT, SendOutcome, text_message
from wake_bridge.domain.delivery import Delivery, Outcome, Proof
from wake_bridge.domain.names import DAY, AttentionKind, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.domain.reminders import Reminder
from wake_bridge.records import activity_record
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing import HUNG
from wake_bridge.testing.ledger_samples import (
    AGENT,
    START,
    busy,
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)


def said(ledger: LedgerStore) -> list[tuple[str, str]]:
    return [(one.kind.value, one.outcome) for one in ledger.activity_after(0, 1000)]


def woken(ledger: LedgerStore, row: int = 1) -> Delivery:
    """A wake from its opening to the proof that its text arrived, held twice for one reason."""
    at = START + row * 100
    delivery = open_delivery(ledger, sample_event(row), new_id=counted_ids(f"WAKE{row:03d}"), now=at)
    delivery = ledger.dispatch(delivery, Instant(at + 1))
    for detail in ("spinner 3s", "spinner 9s"):
        delivery = ledger.hold(delivery, busy(at + 5000, detail), Instant(at + 2))
    delivery = lock_with_its_events(ledger, delivery, at + 3)
    return ledger.settle(delivery, Outcome.SUBMITTED, Proof.SUBMITTED, {}, Instant(at + 4))


def test_a_wake_is_told_from_its_opening_to_its_proof_with_the_why(tmp_path: Path) -> None:
    """Each entry has time, origin, trigger, stimulus, target and outcome; a hold for the same reason is told once."""
    with fresh_ledger(tmp_path) as ledger:
        delivery = woken(ledger)
        ledger.raise_proof(delivery.id, Proof.ACKNOWLEDGED, {"by": "ack"}, Instant(START + 200))

        assert said(ledger) == [
            ("wake.pending", ""),
            ("wake.held", "active"),
            ("wake.delivered", "submitted"),
            ("wake.delivered", "acknowledged"),
        ]
        entries = ledger.activity_after(0, 10)
        assert [one.id for one in entries] == [1, 2, 3, 4]
        assert {(one.identity, one.subject, one.origin, one.trigger) for one in entries} == {
            (AGENT, delivery.id, Origin.GRAPH, "SENT_TO_ME")
        }
        assert {one.stimulus for one in entries} == {'1 new message (latest: "Review request" from @sender)'}
        assert [one.told for one in entries] == [
            "waits to be told",
            "held: the agent in agents:1.0 is working",
            "woken in agents:1.0",
            "acknowledged",
        ]
        assert [one.at for one in entries] == [START + 100, START + 102, START + 104, START + 200]


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [(Outcome.FAILED, "wake.failed"), (Outcome.UNKNOWN, "wake.unknown"), (Outcome.READ, "wake.delivered")],
)
def test_what_a_wake_ended_with_is_its_entry(tmp_path: Path, outcome: Outcome, kind: str) -> None:
    """Events are named by what became of the wake; a notice about it says that a person was told."""
    with fresh_ledger(tmp_path) as ledger:
        delivery = open_delivery(ledger, sample_event(1), new_id=counted_ids())
        delivery = lock_with_its_events(ledger, ledger.dispatch(delivery, START), START)
        ledger.settle(delivery, outcome, Proof.NONE, {}, START)
        ledger.give_notice(Notice(delivery.id, outcome, "wake-bridge: look", "To do: look", START, AGENT), START)

        assert said(ledger)[1:] == [(kind, outcome.value), ("wake.escalated", outcome.value)]
        assert ledger.latest_activity(1)[0].told == f"needs you, and you were told: {outcome}"


def test_a_move_that_is_taken_back_leaves_no_entry(tmp_path: Path) -> None:
    """An entry is written in the transaction of what it tells of: both are on disk or neither."""
    with fresh_ledger(tmp_path) as ledger:
        delivery = open_delivery(ledger, sample_event(1), new_id=counted_ids())
        before = said(ledger)

        def falls() -> None:
            with ledger._db.transaction():
                ledger._to_dispatched(delivery, START)
                ledger._write_change_of_hold(delivery, busy(START), START)
                assert len(said(ledger)) == len(before) + 1
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            falls()
        assert said(ledger) == before


def test_an_agent_that_needs_a_person_and_what_the_person_did_are_told(tmp_path: Path) -> None:
    """Episodes begin and end, messages leave and settle, people pause and resume, a reminder is missed."""
    with fresh_ledger(tmp_path) as ledger:
        asks = Episode("01E", AGENT, AttentionKind.APPROVAL, START, "approval in bottom", "|1|%1", "a:1.0")
        ledger.turn_episode(None, "", asks, START)
        ledger.turn_episode(asks, "answered", None, Instant(START + 1))
        message = text_message("the \x1b[31mbuild\x1b[0m is green", "phone", "@agent", "01S", START)
        ledger.put_send(message, START)
        locked = ledger.lock_send(ledger.sends(1)[0], "phone", Instant(START + 99), Instant(START + 2))
        ledger.settle_send(locked, SendOutcome.SENT, "", Instant(START + 3))
        ledger.pause(AGENT, None, Instant(START + 4))
        ledger.pause(AGENT, Instant(START + 99), Instant(START + 5))
        ledger.resume("*", Instant(START + 6))
        ledger.resume("*", Instant(START + 7))
        tea = Reminder(id="01R", text="tea", zone="UTC", due_at=START, created_at=START)
        ledger.set_reminder(tea)
        ledger.end_reminder(tea, "missed", Instant(START + 8))

        told = [(one.kind, one.outcome, one.origin, one.told) for one in ledger.activity_after(0, 99)]
        attention, text = ActivityKind.ATTENTION, ActivityKind.MESSAGE
        assert told == [
            (attention, "approval", Origin.ATTENTION, "waits for an approval in a:1.0"),
            (attention, "answered", Origin.ATTENTION, "waits for an approval: answered"),
            (text, "pending", Origin.GRAPH, "a message to you is on its way"),
            (text, "sent", Origin.GRAPH, "you were told by phone"),
            (text, "paused", Origin.PERSON, "paused by you"),
            (text, "paused", Origin.PERSON, "paused by you"),
            (text, "resumed", Origin.PERSON, "resumed by you, every agent"),
            (text, "resumed", Origin.PERSON, "resumed by you, every agent"),
            (text, "missed", Origin.SCHEDULER, "a reminder was missed"),
        ]
        assert message.reason == TEXT
        assert ledger.activity_after(2, 1)[0].stimulus == "the build is green"


def test_ids_only_rise_and_retention_says_from_where_on_the_feed_is_whole(tmp_path: Path) -> None:
    """An id is a cursor: it is never given twice, also after everything was forgotten."""
    with fresh_ledger(tmp_path) as ledger:
        assert ledger.activity_span() == (1, 0)
        woken(ledger, 1)
        assert ledger.activity_span() == (1, 3)
        assert ledger.prune(Instant(START + DAY), 1000)
        assert ledger.activity_span() == (4, 3)
        woken(ledger, 2)
        assert ledger.activity_span() == (4, 6)
        assert [one.id for one in ledger.activity_after(0, 10)] == [4, 5, 6]
        assert [one.id for one in ledger.latest_activity(2, before=6)] == [5, 4]


def test_entries_of_one_identity_come_with_those_for_all(tmp_path: Path) -> None:
    """A pause of everybody concerns each; another's wake concerns nobody else."""
    with fresh_ledger(tmp_path) as ledger:
        woken(ledger)
        ledger.pause("*", None, Instant(START + 1))
        ledger.pause("@other", None, Instant(START + 2))

        assert [one.identity for one in ledger.activity_after(0, 99, identity="@other")] == ["*", "@other"]
        assert [one.identity for one in ledger.latest_activity(99, since=Instant(START + 2), identity="@other")] == [
            "@other"
        ]


def test_an_entry_outlives_what_it_was_about(tmp_path: Path) -> None:
    """The delivery may be forgotten first: the entry says less, and nothing fails."""
    with fresh_ledger(tmp_path) as ledger:
        delivery = woken(ledger)
        ledger._db.change("DELETE FROM delivery WHERE id = ?", (delivery.id,))

        records = [activity_record(one, None) for one in ledger.activity_after(0, 10)]
        assert [one["text"] for one in records] == ["waits to be told", "held: active", "woken"]
        assert {one["stimulus"] for one in records} == {None}


def test_what_is_new_since_a_look_is_marked(tmp_path: Path) -> None:
    """Unread is what happened after a person looked last; all of it for one who never has."""
    with fresh_ledger(tmp_path) as ledger:
        woken(ledger)
        entries = ledger.activity_after(0, 10)
        assert [activity_record(one, None)["unread"] for one in entries] == [True, True, True]
        assert [activity_record(one, Instant(START + 102))["unread"] for one in entries] == [False, False, True]


def test_the_command_follows_the_feed_of_other_processes(tmp_path: Path, program: tuple[str, ...]) -> None:
    """`activity --follow` needs no daemon: what a command writes is there at once, each entry once."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        for name in ("a", "b"):
            sandbox.run("agent", "add", f"@{name}")
        assert sandbox.run("activity").stdout == "nothing happened yet\n"
        sandbox.run("pause", "@a")
        file = tmp_path / "followed"
        with file.open("w") as output:
            follower = subprocess.Popen(
                [*sandbox.command, "activity", "--json", "--follow"],
                env=sandbox.environment,
                stdout=output,
                # what runs in the background was told to ignore it
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it takes no lock
            )
            try:
                sandbox.waits_for(file.read_text)
                sandbox.run("pause", "@b")
                sandbox.run("resume", "--all")
                sandbox.waits_for(lambda: len(file.read_text().splitlines()) == 3)
            finally:
                follower.send_signal(signal.SIGINT)
                try:
                    assert follower.wait(HUNG) == 130
                finally:
                    follower.kill()
                    follower.wait()
        told = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(one["id"], one["outcome"], one["agentIdentity"]) for one in told] == [
            (1, "paused", "@a"),
            (2, "paused", "@b"),
            (3, "resumed", "*"),
        ]
        assert sandbox.run("activity", "--agent", "@a").stdout.count("\n") == 2
        assert [one["id"] for one in sandbox.lines("activity", "--after", "1", "--limit", "1")] == [2]
