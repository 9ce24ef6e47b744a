"""`why`: what became of it and what to do, from a real graph and a real ledger, by the daemon's own rules."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from wake_bridge.cli.why import _words as in_words
from wake_bridge.domain.delivery import Delivery, Hold, HoldReason, Outcome, Proof, Step
from wake_bridge.domain.errors import NotFound, SourceMissing
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.explanation import TimeFormat
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.engine.deliver.switches import SwitchReader
from wake_bridge.engine.explain.explainer import Explainer, WhyReport
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.ports.ledger_records import Lock
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tail_rig import TailRig

A, B, C = "@a", "@b", "@c"
HOUR = 3_600_000


def ago(**span: float) -> str:
    return f"{datetime.now(UTC) - timedelta(**span):%Y-%m-%dT%H:%M:%S.000Z}"


class World:
    """A foreign graph with three agents, a ledger beside it, and somebody who asks `why`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        graph = directory / "graph.sqlite"
        self.core = MemoryCore(graph) if graph.exists() else MemoryCore.create(graph, [A, B, C])
        self.rules = MatchingRules()
        self.limits = Limits()
        self.later = 0

    @property
    def now(self) -> Instant:
        return Instant(SteadyClock().now() + self.later)

    def tail(self) -> None:
        """A daemon comes by, reads to the tip, and leaves."""

        async def run() -> None:
            rig = TailRig(self.directory / "graph.sqlite", self.directory / "state", rules=self.rules, hints=False)
            await rig.tail.catch_up_once()
            await rig.close()

        asyncio.run(run())

    def ledger(self) -> LedgerStore:
        return LedgerStore.open(self.directory / "state")

    def why(self, asked: str | int, identity: str | None = None, *, running: bool = True) -> WhyReport:
        log = SqliteGraph(self.directory / "graph.sqlite")
        ledger = LedgerStore.open(self.directory / "state", read_only=True)
        current = Current(EngineSettings(limits=self.limits))
        try:
            return Explainer(
                log,
                ledger,
                self.rules,
                current,
                SwitchReader(ledger, current, SteadyClock(), lambda: None),
                is_running=running,
                times=TimeFormat(self.now, lambda instant: f"at {instant}"),
            ).explain(str(asked), Identity(identity) if identity else None)
        finally:
            ledger.close()
            log.close()

    def explanation(self, asked: str | int, identity: str | None = A, *, running: bool = True) -> str:
        """The verdict on the newest subject."""
        return self.why(asked, identity, running=running).findings[0].explanation.text

    def remedy(self, asked: str | int, identity: str | None = A) -> str:
        return self.why(asked, identity).findings[0].explanation.next

    def held(self, hold: Hold, *, since: int = 0) -> Delivery:
        """The delivery that waits, held for a reason since so many ms ago."""
        ledger = self.ledger()
        then = Instant(self.now - since)
        (delivery,) = ledger.gather(then, new_ulid)
        held = ledger.hold(ledger.dispatch(delivery, then), hold, then)
        ledger.close()
        return held

    def locked(self, ledger: LedgerStore) -> Delivery:
        (delivery,) = ledger.gather(self.now, new_ulid)
        delivery = ledger.dispatch(delivery, self.now)
        return ledger.lock(
            delivery,
            Lock(
                digest="[WAKE]",
                events=[one.id for one in ledger.events_of(delivery.id)],
                adapter="tmux",
                where="agents:1.0",
                pane_key="pane",
                until=Instant(self.now + 60_000),
            ),
            self.now,
        )

    def ended(self, outcome: Outcome, proof: Proof, **detail: str) -> Delivery:
        """A delivery that was submitted, or may have been, and has ended so."""
        ledger = self.ledger()
        locked = self.locked(ledger)
        if outcome is not Outcome.FAILED:
            ledger.append(locked, Step.INTENT_SUBMIT, {}, self.now)
        settled = ledger.settle(locked, outcome, proof, detail, self.now)
        ledger.close()
        return settled


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Nothing has happened yet."""
    made = World(tmp_path)
    yield made
    made.core.close()


def test_a_refused_message_is_told_with_the_guard_that_refused_it_and_every_subscription(world: World) -> None:
    """It says "not announced: filtered by priority"; each subscription is listed with what it said."""
    picky = world.core.subscribe(A, filters={"priority": "high"})
    deaf = world.core.subscribe(A, "TASK_STATE_CHANGED")
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()

    report = world.why(message, A)

    (finding,) = report.findings
    assert finding.explanation.text == "not announced: filtered by priority"
    assert picky in finding.explanation.next
    said = {one.id: (one.matched, one.refusal or one.unheard, one.is_recorded) for one in finding.case.answers}
    assert said == {picky: (False, "filter priority", True), deaf: (False, "trigger", False)}
    assert report.log_ids[-1] == world.core.tip()


def test_a_held_wake_is_told_with_how_long_and_where(world: World) -> None:
    """It says "held 6 h: approval waiting in agents:1.2", and the remedy as the next step."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()
    world.held(Hold(HoldReason.WAITING_ON_APPROVAL, "dialog", "agents:1.2", world.now), since=6 * HOUR + 60_000)

    assert world.explanation(message) == "held 6 h: approval waiting in agents:1.2"
    assert world.remedy(message) == "answer the dialog in agents:1.2"
    assert world.explanation(message, running=False).endswith("; the daemon is not running")


def test_an_announced_message_is_told_with_its_time_and_whether_it_was_acknowledged(world: World) -> None:
    """It says "announced 01:12, submitted, not acknowledged"; and when it was, by what."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()
    settled = world.ended(Outcome.SUBMITTED, Proof.SUBMITTED)
    at = settled.settled_at

    before = world.explanation(message)
    ledger = world.ledger()
    ledger.raise_proof(settled.id, Proof.ACKNOWLEDGED, {"by": "mail read"}, Instant((at or 0) + 5))
    ledger.close()

    assert before.startswith("announced at ")
    assert before.endswith(", submitted, not acknowledged")
    assert world.explanation(message).endswith(f", submitted, acknowledged at {(at or 0) + 5} (mail read)")


def test_an_unknown_outcome_and_a_failure_say_what_to_look_for(world: World) -> None:
    """Unknown is told as unknown, with the mark to look for; FAILED with its reason."""
    world.core.subscribe(A)
    world.tail()
    first = world.core.send(B, A, "one")
    world.tail()
    unknown = world.ended(Outcome.UNKNOWN, Proof.NONE, why="the pane is gone")
    second = world.core.send(B, A, "two")
    world.tail()
    failed = world.ended(Outcome.FAILED, Proof.NONE, reason="tmux said no")

    assert "outcome unknown: nobody can tell whether it was submitted (the pane is gone)" in world.explanation(first)
    assert f"look in agents:1.0 for {unknown.id}" in world.remedy(first)
    assert world.explanation(second).startswith("FAILED at ")
    assert world.explanation(second).endswith("after 1 attempt: tmux said no")
    assert world.remedy(second).endswith(f"`wake-bridge deliveries retry {failed.id}`")


def test_what_no_daemon_has_seen_is_told_as_not_seen_yet(world: World) -> None:
    """Never seen: no daemon at all, or one that stands before the row."""
    world.core.subscribe(A)
    unseen = world.core.send(B, A, "one")
    assert world.explanation(unseen, running=False) == "not announced: no daemon has read this graph yet"
    world.tail()
    ahead = world.core.send(B, A, "two")

    assert "is still ahead of the daemon, which is 3 rows behind and not running" in world.explanation(
        ahead, running=False
    )
    assert "start the daemon" in world.why(ahead, A, running=False).findings[0].explanation.next
    assert world.explanation(ahead).startswith("not announced yet: row ")


def test_nobody_listening_is_told_with_what_is_missing(world: World) -> None:
    """No subscription; one for something else; one of the graph's own server; one that is retired."""
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()
    assert world.explanation(message) == "not announced: @a has no subscription"
    world.core.subscribe(A, "TASK_STATE_CHANGED", createdAt=ago(hours=1), updatedAt=ago(hours=1))
    assert world.explanation(message) == "not announced: @a has no subscription for SENT_TO_ME"
    foreign = world.core.subscribe(A, harnessTarget="a2a-webhook", createdAt=ago(hours=1))
    assert world.explanation(message) == (
        f"not announced: {foreign}: the graph's own server serves a2a-webhook, not wake-bridge"
    )
    world.core.set(foreign, "harnessTarget", "bridge-daemon")
    world.core.set(foreign, "status", "retired")
    assert world.explanation(message) == f"not announced: {foreign}: its status is retired"
    assert world.remedy(message) == f"`wake-bridge update {foreign} --recover`"


def test_a_subscription_that_came_or_changed_after_the_message_is_found_out(world: World) -> None:
    """A subscription matches from its creation on; `resync` is the way back, and is named with its row."""
    world.tail()
    message = world.core.send(B, A, "hello", sentAt=ago(minutes=5))
    world.tail()
    young = world.core.subscribe(A)
    world.tail()

    row = world.why(message, A).findings[0].case.row
    assert world.explanation(message) == "not announced: the subscription is newer than the event"
    assert f"`wake-bridge resync {young} --since {row - 1}`" in world.remedy(message)
    # read since: what it would have said then is not what it would say now
    world.core.mark_read(message)
    assert world.explanation(message) == "not announced: the subscription is newer than the event"
    assert [one.matched for one in world.why(message, A).findings[0].case.answers] == [True]

    old = world.core.subscribe(C, createdAt=ago(hours=1))
    world.core.set(old, "status", "retired")
    other = world.core.send(B, C, "hello")
    world.tail()
    world.core.set(old, "status", "active")
    world.core.set(old, "updatedAt", ago(minutes=-1))
    world.tail()
    assert world.explanation(other, C) == "not announced: the subscription did not match it then; it was changed later"


def test_mail_from_before_the_first_start_is_told_as_such(world: World) -> None:
    """A first start begins at the tip and looks back one hour; what is older needs `resync`."""
    world.core.subscribe(A, createdAt=ago(days=2), updatedAt=ago(days=2))
    old = world.core.send(B, A, "old", sentAt=ago(hours=3))
    fresh = world.core.send(B, A, "fresh", sentAt=ago(minutes=3))
    world.tail()

    assert (
        world.explanation(old)
        == "not announced: it is older than the point where the daemon started reading (first start)"
    )
    assert not world.explanation(fresh).startswith("not announced")


def test_each_guard_at_matching_has_its_verdict(world: World) -> None:
    """Self → suppressed or silent → filters → read → age, each told in its own words."""
    world.core.subscribe(A, createdAt=ago(days=9), updatedAt=ago(days=9))
    world.tail()
    sent = {
        "suppressed": world.core.send(B, A, "x", wakeSuppressed=True),
        "silent": world.core.send(B, A, "x", wakePolicy="silent"),
        "read": world.core.send(B, A, "x", readAt=ago(minutes=1)),
        "age": world.core.send(B, A, "x", sentAt=ago(days=8)),
        "own": world.core.send(A, "AGENT:*", "x", [A, B]),
    }
    world.tail()

    told = {name: world.explanation(message) for name, message in sent.items()}

    assert told == {
        "suppressed": "not announced: its sender suppressed the wake",
        "silent": "not announced: its policy is silent",
        "read": "not announced: it was already read when wake-bridge first saw it",
        "age": "not announced: it was too old when wake-bridge first saw it (`policy.catch_up`)",
        "own": "not announced: @a did it",
    }


def test_what_waits_for_the_next_turn_says_why(world: World) -> None:
    """`next_turn` by policy, own mail as a note to oneself, a heartbeat-only subscription."""
    world.core.subscribe(A)
    world.core.subscribe(C, harnessTarget="disabled")
    world.tail()
    quiet = world.core.send(B, A, "x", wakePolicy="next_turn")
    note = world.core.send(A, A, "note")
    beat = world.core.send(B, C, "x")
    world.tail()

    assert world.explanation(quiet) == "waits for the next turn of @a: its policy is next_turn"
    assert world.explanation(note) == "waits for the next turn of @a: mail to oneself wakes nobody"
    assert world.explanation(beat, C) == (
        "waits for the next turn of @c: its harnessTarget is disabled, so only the heartbeat announces it"
    )


def test_what_was_shown_or_read_before_its_wake_needed_none(world: World) -> None:
    """Read, or shown by `inbox`, before it was announced."""
    world.core.subscribe(A)
    world.tail()
    shown, read, gone = (world.core.send(B, A, name) for name in ("shown", "read", "gone"))
    unheard = world.core.send(B, C, "x")
    world.tail()
    ledger = world.ledger()
    (event,) = ledger.find_events(subject_key=read)
    ledger.announce(Identity(A), [shown], "inbox", world.now)
    ledger.announce(Identity(C), [unheard], "inbox", world.now)
    ledger.mark([event.id], EventStatus.READ, "read meanwhile", world.now)
    ledger.mark([ledger.find_events(subject_key=gone)[0].id], EventStatus.SUPERSEDED, "the message is gone", world.now)
    ledger.close()

    assert world.explanation(shown) == "shown to @a by `inbox` before a wake was needed"
    assert world.explanation(unheard, C) == "shown to @c by `inbox` before a wake was needed"
    assert world.explanation(read) == "not announced: it was read before it had to be announced"
    assert world.explanation(gone) == "not announced: the message is gone"


def test_a_gathering_window_names_the_delivery_and_its_company(world: World) -> None:
    """Coalesced into delivery X, with how many others, and when it is due."""
    world.core.subscribe(A, harnessTargetMetadata={"adapter": "tmux", "tmuxSession": "a", "coalesceWindow": 300})
    world.tail()
    first = world.core.send(B, A, "one")
    world.core.send(B, A, "two")
    world.tail()
    assert world.explanation(first) == "matched 0 s ago, in no delivery yet"
    ledger = world.ledger()
    (delivery,) = ledger.gather(world.now, new_ulid)
    ledger.close()

    told = world.explanation(first)

    assert told.startswith("due in 4 min: its window collects further events")
    assert told.endswith(f", together with 1 more in {delivery.id}")
    world.later = 360_000
    assert world.explanation(first, running=False).startswith("due since 1 min")


def test_the_guards_that_would_hold_it_now_are_all_named(world: World) -> None:
    """The daemon stops at the first; `why` names all: paused, and a budget that is spent besides."""
    world.core.subscribe(A)
    world.tail()
    world.core.send(B, A, "spends the budget")
    world.tail()
    world.ended(Outcome.SUBMITTED, Proof.SUBMITTED)
    message = world.core.send(B, A, "waits")
    world.tail()
    world.held(Hold(HoldReason.PAUSED, "until resumed", "", world.now))
    ledger = world.ledger()
    ledger.pause(A, None, world.now)
    ledger.close()
    world.limits = replace(world.limits, refractory=0, wakes_per_hour=1)

    (finding,) = world.why(message, A).findings

    assert [hold.reason for hold in finding.holds] == [HoldReason.PAUSED, HoldReason.BUDGET]
    assert finding.explanation.text == "held 0 s: @a is paused (until resumed)"


def test_a_row_that_could_not_be_read_is_told_with_its_reason(world: World) -> None:
    """A row with broken JSON is one quarantined entry; `why` knows it by row and by id."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello", task={"state": "Submitted", "assignee": A})
    world.core.sql("UPDATE Nodes SET data = '{broken' WHERE id = ?", message)
    row = world.core.tip()
    world.tail()

    assert "wake-bridge could not read its log row and set it aside (its JSON is broken)" in world.explanation(row)
    assert "could not read its log row" in world.explanation(message)


@pytest.mark.parametrize("what", ["message", "edge", "no sender", "unreadable subscription"])
def test_what_was_set_aside_is_told_with_what_is_wrong_though_nobody_is_concerned(world: World, what: str) -> None:
    """Nobody can tell whom it was for: `why` says what is wrong and how to mend it, by id and by row, not that all is well."""
    world.core.subscribe(A)
    world.tail()
    if what == "unreadable subscription":
        entity, why = world.core.subscribe(A), "its JSON is broken"
        world.core.sql("UPDATE Nodes SET data = '{broken' WHERE id = ?", entity)
    else:
        entity, why = world.core.send(B, A, "hello"), "its JSON is broken"
        if what == "message":
            world.core.sql("UPDATE Nodes SET data = '{broken' WHERE id = ?", entity)
        elif what == "edge":
            world.core.sql("UPDATE Edges SET data = '{broken' WHERE source = ?", entity)
        else:
            why = "the message names no sender"
            world.core.sql("UPDATE Nodes SET data = json_set(data, '$.properties.from', '') WHERE id = ?", entity)
    row = world.core.tip()
    world.tail()

    for report in (world.why(entity), world.why(row)):
        assert report.findings == []
        assert report.silence == f"wake-bridge cannot use it ({why})"
        assert report.remedy.startswith("fix it in the graph")
    if what != "unreadable subscription":
        assert f"could not read its log row and set it aside ({why})" in world.explanation(entity)


@pytest.mark.parametrize(
    ("change", "says", "mends"),
    [
        (
            "$.properties.trigger",
            "that wakes nobody: trigger 'BOGUS' is unknown",
            "`wake-bridge update --help` names the option that corrects it; `wake-bridge unsubscribe {id}` removes it",
        ),
        (
            "$.properties.status",
            "that wakes nobody: its status is BOGUS: `wake-bridge update {id} --recover`",
            "do what it says; `wake-bridge unsubscribe {id}` removes it",
        ),
        ("$.properties.note", "and nothing that anybody is told of", "`wake-bridge why @a` says whether it is woken"),
    ],
)
def test_a_subscription_is_told_with_what_keeps_it_from_waking(
    world: World, change: str, says: str, mends: str
) -> None:
    """One that is set aside is not called well."""
    entity = world.core.subscribe(A)
    world.core.sql("UPDATE Nodes SET data = json_set(data, ?, 'BOGUS') WHERE id = ?", change, entity)
    world.tail()

    report = world.why(entity)

    assert report.silence.startswith("it is a subscription of @a")
    assert says.format(id=entity) in report.silence
    assert report.remedy == mends.format(id=entity)


def test_a_pruned_row_is_remembered_by_the_ledger(world: World) -> None:
    """The log no longer has it, the ledger remembers; and a row of which nothing is left says just that."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    row = world.core.tip()
    world.tail()
    world.core.prune(row)
    world.core.sql("DELETE FROM Nodes WHERE id = ?", message)
    world.core.noise(1)

    report = world.why(row)

    assert report.subject.entity_id == message
    assert [finding.case.identity for finding in report.findings] == [A]
    assert any(f"the log no longer has row {row}; the ledger kept" in note for note in report.notes)
    assert world.why(1).silence == "the log no longer has it, and nothing is recorded of it"


def test_a_broadcast_is_told_for_everybody_it_concerns(world: World) -> None:
    """Without an identity everybody is answered for who was, or would have had to be, told."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, "AGENT:*", "to all", [A, C])
    world.tail()

    told = {one.case.identity: one.explanation.text for one in world.why(message).findings}

    assert told == {A: "matched 0 s ago, in no delivery yet", C: "not announced: @c has no subscription"}
    other = world.why(message, B)
    assert other.findings[0].explanation.text == "not announced: it is not addressed to @b"
    assert other.notes == ["it is for @a, @c"]


@pytest.mark.parametrize("typed", [False, True])
def test_a_task_is_told_by_its_moves_the_newest_first(world: World, *, typed: bool) -> None:
    """A task's id answers for every move of it; a row's number for the move it tells."""
    if typed:
        from wake_bridge.testing.memory_core import EVENT_COLUMNS

        world.core._connection.executescript(EVENT_COLUMNS)
    world.core.subscribe(B, "TASK_STATE_CHANGED")
    world.tail()
    task = world.core.give_task(B, A, "do it")
    world.tail()
    world.core.move_task(task, "Working", typed=typed)
    world.tail()
    world.core.move_task(task, "Completed", typed=typed)
    world.tail()

    report = world.why(task, B)

    assert [one.subject_key.split(":")[2] for one in report.findings] == ["Completed", "Working"]
    older = report.findings[1].case.row
    assert [one.subject_key for one in world.why(older, B).findings] == [report.findings[1].subject_key]
    assert world.explanation(task, A) == "not announced: @a has no subscription"


def test_a_task_whose_assignee_nobody_subscribed_says_which_subscription_is_missing(world: World) -> None:
    """A derived move of a task is judged again from where the task stands, without its past."""
    world.core.subscribe(B)
    world.tail()
    task = world.core.give_task(B, A, "do it")
    world.core.move_task(task, "Working")
    world.tail()

    assert world.explanation(task, B) == "not announced: @b has no subscription for TASK_STATE_CHANGED"


def test_permissions_and_pulses_are_told_by_their_rows(world: World) -> None:
    """The grantee is woken; a pulse wakes an identity."""
    world.core.subscribe(A, "PERMISSION_GRANTED")
    world.tail()
    edge = world.core.grant(A, B)
    grant_row = world.core.tip()
    world.core.pulse(A)
    pulse_row = world.core.tip()
    world.tail()

    assert world.explanation(grant_row, None) == world.explanation(edge, None) == "matched 0 s ago, in no delivery yet"
    assert world.why(pulse_row).findings[0].kind == "pulse"


def test_a_number_that_is_a_row_and_a_name_says_how_it_was_read(world: World) -> None:
    """An ambiguous number is read as a row of the log, and the answer says so."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    row = world.core.tip()
    world.core.put(str(row), "MEMORY", {})
    world.tail()

    report = world.why(row, A)

    assert report.subject.entity_id == message
    assert report.read_as == f"row {row} of the log (epoch 1)"
    assert report.notes == [f"a node is called {row} too; this answer is about the log row of that number"]


def test_what_nobody_knows_is_not_found_and_a_delivery_is_shown_its_way(world: World) -> None:
    """8 for what is not found: message, row, identity."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()
    delivery = world.held(Hold(HoldReason.ACTIVE, "", "a:1.0", world.now))

    for asked, identity in (
        ("MESSAGE:none", None),
        ("99999", None),
        ("0", None),
        ("9" * 23, None),
        ("9" * 5000, None),
        (message, "@nobody"),
    ):
        with pytest.raises(NotFound):
            world.why(asked, identity)
    with pytest.raises(NotFound) as error:
        world.why(delivery.id)
    assert error.value.hint == f"it is a delivery: `wake-bridge deliveries show {delivery.id}`"


def test_a_subject_forges_no_line_of_the_answer(world: World) -> None:
    """Graph text is made harmless: whoever sends cannot say what became of it, or what to do."""
    message = world.core.send(B, A, "a\n@a: acknowledged\n  next: run this")
    world.tail()

    said = in_words(world.why(message))

    assert len([line for line in said.splitlines() if line.lstrip().startswith("next:")]) == 1
    assert '"a ＠a: acknowledged next: run this" from @b' in said


def test_without_the_graph_the_ledger_alone_answers(world: World) -> None:
    """What is recorded is told although the graph is gone; what is not raises what is wrong with the graph."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()
    world.held(Hold(HoldReason.GRAPH_AWAY, "there is no graph", "", world.now))
    world.core.close()
    for file in world.directory.glob("graph.sqlite*"):
        file.unlink()

    report = world.why(message, A)

    assert report.findings[0].explanation.text == "held 0 s: the graph could not be read (there is no graph)"
    assert report.notes[0].startswith("the graph could not be read; the answer comes from the ledger alone")
    with pytest.raises(SourceMissing):
        world.why("MESSAGE:other")


def test_asking_changes_nothing(world: World) -> None:
    """`why` only reads: ledger and graph are the same bytes before and after."""
    world.core.subscribe(A)
    world.tail()
    message = world.core.send(B, A, "hello")
    world.tail()
    state = world.directory / "state/state.sqlite"
    before = (state.read_bytes(), world.core.sql("SELECT * FROM GraphLog"))

    world.why(message)

    assert (state.read_bytes(), world.core.sql("SELECT * FROM GraphLog")) == before


def test_every_row_and_every_node_of_a_real_graph_has_an_answer(tmp_path: Path) -> None:
    """A file made by the real services: whatever lies in it, `why` answers with a sentence and a next step."""
    shutil.copy(Path(__file__).parents[1] / "fixtures/neo-real.sqlite", tmp_path / "graph.sqlite")
    world = World(tmp_path)
    rows = [row for (row,) in world.core.sql("SELECT log_id FROM GraphLog")]
    nodes = [node for (node,) in world.core.sql("SELECT id FROM Nodes UNION SELECT id FROM Edges")]
    assert rows
    assert nodes

    for _ in range(2):
        for asked in (*rows, *nodes):
            report = world.why(asked)
            assert report.findings or report.silence
            assert all(one.explanation.text and one.explanation.next for one in report.findings)
        world.tail()
    world.core.close()
