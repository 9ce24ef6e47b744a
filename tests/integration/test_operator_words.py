"""What an operator is told is what was done: `resume`, `ack`, `wake`, `presence`, `subscribe --tmux`, `setup`, `uninstall`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wake_bridge.cli.app import cli
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.delivery import DeliveryState, Hold, HoldReason, Outcome, Proof
from wake_bridge.domain.events import EventStatus
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.notices import about_escalation
from wake_bridge.ports.ledger_records import Lock
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids, fresh_ledger, open_delivery, sample_event

AGENT = Identity("@agent")


@pytest.fixture
def sandbox(tmp_path: Path, tmux: PrivateTmux) -> Iterator[Sandbox]:
    """The program in a HOME of its own, with an embedded graph and one agent; no tmux server runs yet."""
    with closing(Sandbox(tmp_path, tmux.socket_name)) as made:
        made.configure()
        invoke(made, "init")
        invoke(made, "agent", "add", AGENT)
        yield made


def invoke(sandbox: Sandbox, *arguments: str, expect: int = 0) -> Result:
    """Run a command in this process."""
    done = CliRunner(env=sandbox.environment).invoke(cli, arguments)
    assert done.exit_code == expect, done.output
    return done


def held_for(sandbox: Sandbox, reason: HoldReason) -> str:
    """A delivery for the agent that is held; answers its id."""
    with fresh_ledger(sandbox.state_dir) as ledger:
        opened = open_delivery(ledger, sample_event(1, AGENT, window=0), new_id=counted_ids())
        return ledger.hold(ledger.dispatch(opened, opened.due_at), Hold(reason), opened.due_at).id


@pytest.mark.parametrize(
    ("paused", "held", "whom", "said"),
    [
        ([], HoldReason.UNKNOWN, AGENT, ["@agent was not paused by itself"]),
        ([AGENT], HoldReason.PAUSED, AGENT, ["the pause of @agent is over"]),
        (["--all"], HoldReason.PAUSED, AGENT, ["@agent was not paused by itself", "`wake-bridge resume --all`"]),
        (["--all", AGENT], HoldReason.PAUSED, AGENT, ["the pause of @agent is over", "`wake-bridge resume --all`"]),
        ([], HoldReason.BUDGET, AGENT, ["the spent budget of @agent is lifted"]),
        ([], HoldReason.LOOP, AGENT, ["the loop brake of @agent is lifted"]),
        ([], HoldReason.UNKNOWN, "--all", ["nobody was paused"]),
        (["--all"], HoldReason.PAUSED, "--all", ["the pause of every identity is over"]),
        ([AGENT], HoldReason.PAUSED, "--all", ["the pause of @agent is over"]),
        ([], HoldReason.BUDGET, "--all", ["the spent budget of every identity is lifted"]),
    ],
)
def test_resume_says_what_it_ended(
    sandbox: Sandbox, paused: list[str], held: HoldReason, whom: str, said: list[str]
) -> None:
    """Words follow the cause; a lifted budget is called a budget, and no pause ends that was not there."""
    held_for(sandbox, held)
    for one in paused:
        invoke(sandbox, "pause", one)

    told = invoke(sandbox, "resume", whom)

    assert all(words in told.output for words in said)
    has_pause = any("the pause of" in words for words in said)
    assert ("the pause of" in told.output) == has_pause


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_one_identity_and_all_at_once_is_a_contradiction(sandbox: Sandbox, command: str) -> None:
    """Nothing is done, and what is wrong is said; it is not that no identity was given."""
    said = invoke(sandbox, command, AGENT, "--all", expect=2).output
    assert "@agent and --all contradict each other" in said
    assert "no identity is given" in invoke(sandbox, command, expect=2).output
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        assert ledger.pauses(Instant(0)) == []


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_what_is_acknowledged_before_it_was_delivered_is_not_delivered_any_more(
    sandbox: Sandbox, is_dispatched: bool
) -> None:
    """What is acknowledged is not delivered any more."""
    with fresh_ledger(sandbox.state_dir) as ledger:
        waiting = open_delivery(ledger, sample_event(1, AGENT), new_id=counted_ids())
        if is_dispatched:
            waiting = ledger.dispatch(waiting, waiting.due_at)

    told = invoke(sandbox, "ack", waiting.id)

    assert (
        f"{waiting.id} is acknowledged: it was not delivered yet, and @agent is not woken for it any more"
        in told.output
    )
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        after = ledger.delivery(waiting.id)
        assert after is not None
        assert (after.outcome, after.proof) == (Outcome.ACKNOWLEDGED, Proof.ACKNOWLEDGED)
        assert [one.status for one in ledger.events_of(waiting.id)] == [EventStatus.ANNOUNCED]
        assert ledger.due(Instant(2**60)) == []
        assert ledger.gather(Instant(2**60), counted_ids("LATER")) == []
    shown = invoke(sandbox, "status").output
    assert "1 delivered" not in shown


def test_only_what_waits_for_its_window_is_said_to(sandbox: Sandbox) -> None:
    """`deliveries`: each state in its own words, also one that a person is being told of."""
    said = []

    def stands() -> None:
        (line,) = invoke(sandbox, "deliveries").output.splitlines()[1:]
        said.append(line)

    with fresh_ledger(sandbox.state_dir) as ledger:
        opened = open_delivery(ledger, sample_event(1, AGENT), new_id=counted_ids())
        stands()
        dispatched = ledger.dispatch(opened, opened.due_at)
        stands()
        until = Instant(opened.due_at + 60_000)
        lock = Lock("wake", ledger.event_ids_of(opened.id), "tmux", "a:0.0", "key", until)
        ledger.lock(dispatched, lock, opened.due_at)
        stands()
    assert ["waiting for its window" in line for line in said] == [True, False, False]
    assert "about to be announced" in said[1]
    assert "being announced right now" in said[2]


def test_one_that_a_person_is_being_told_of_waits_for_no_window(sandbox: Sandbox) -> None:
    """`deliveries` and `deliveries show` of an ESCALATED one."""
    with fresh_ledger(sandbox.state_dir) as ledger:
        event = replace(sample_event(1, AGENT), ack_within=60_000)
        opened = open_delivery(ledger, event, new_id=counted_ids())
        passed_at = Instant((opened.ack_by or opened.due_at) + 1)
        ledger.escalate(opened, about_escalation(opened, [event], passed_at, set()), [], passed_at)

    for command in (["deliveries"], ["deliveries", "show", opened.id]):
        said = invoke(sandbox, *command).output
        assert "ESCALATED" in said
        assert "not answered in time; a person is being told" in said
        assert "window" not in said


def test_a_wake_that_is_being_typed_is_acknowledged_as_it_stands(sandbox: Sandbox) -> None:
    """Its agent may have seen it before the daemon did: then the proof rises, and the attempt ends by itself."""
    with fresh_ledger(sandbox.state_dir) as ledger:
        opened = open_delivery(ledger, sample_event(1, AGENT), new_id=counted_ids())
        dispatched = ledger.dispatch(opened, opened.due_at)
        until = Instant(opened.due_at + 60_000)
        lock = Lock("wake", ledger.event_ids_of(opened.id), "tmux", "a:0.0", "key", until)
        ledger.lock(dispatched, lock, opened.due_at)

    told = invoke(sandbox, "ack", opened.id)

    assert told.stdout.strip() == f"{opened.id} is acknowledged"
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        after = ledger.delivery(opened.id)
        assert after is not None
        assert (after.state, after.proof) == (DeliveryState.LOCKED, Proof.ACKNOWLEDGED)


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_wake_without_a_word_is_a_mistake_of_usage(sandbox: Sandbox, text: str) -> None:
    """The subject is the only text a wake shows."""
    told = invoke(sandbox, "wake", AGENT, text, expect=2)

    assert "there is no text to wake it with" in told.stderr


def test_the_presence_of_nobody_is_not_found(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 8 for an identity that is none, also where the daemon would answer."""
    monkeypatch.setattr("wake_bridge.offline.looks.ask", lambda *_, **__: pytest.fail("was asked"))

    told = invoke(sandbox, "presence", "@nobody", expect=8)

    assert "there is no identity @nobody" in told.stderr


def test_a_pane_that_tmux_does_not_know_is_refused_and_the_good_route_stays(
    sandbox: Sandbox, tmux: PrivateTmux
) -> None:
    """`subscribe --tmux TYPO` made a second active route and overruled the good one."""
    tmux.new_pane(["sleep", "600"], session="backend")
    subscribe = ("subscribe", AGENT, "--trigger", "SENT_TO_ME", "--tmux")
    good = json.loads(invoke(sandbox, *subscribe, "backend", "--json").stdout)["subscriptionId"]

    refused = invoke(sandbox, *subscribe, "backnd", expect=8)
    changed = invoke(sandbox, "update", good, "--tmux", "backnd", expect=8)

    assert "no pane is called exactly 'backnd'" in refused.stderr
    assert "did you mean backend" in refused.stderr
    assert "did you mean backend" in changed.stderr
    (left,) = json.loads(invoke(sandbox, "list", "--json").stdout)["subscriptions"]
    assert (left["subscriptionId"], left["deliverable"]) == (good, True)


def test_before_tmux_runs_a_pane_may_be_named(sandbox: Sandbox) -> None:
    """Where no server answers, nobody can tell a misspelled name from one that is not there yet."""
    told = invoke(sandbox, "subscribe", AGENT, "--trigger", "SENT_TO_ME", "--tmux", "later")

    assert "cannot be reached now" in told.stderr


@pytest.mark.parametrize("answer", ["", "n\n", "y\n"])
def test_all_mail_is_deleted_only_once_a_person_said_so(
    sandbox: Sandbox, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`uninstall --purge` asked nobody; without a terminal it is refused."""
    monkeypatch.setattr("wake_bridge.cli.context.has_terminal", lambda: bool(answer))

    done = CliRunner(env=sandbox.environment).invoke(cli, ["uninstall", "--purge"], input=answer)

    assert done.exit_code == {"": 2, "n\n": 1, "y\n": 0}[answer], done.output
    assert sandbox.graph.exists() == (answer != "y\n")
    assert f"remove the graph with all mail: {sandbox.graph}" in done.output


def test_the_list_blames_the_row_that_is_to_blame(sandbox: Sandbox, tmux: PrivateTmux) -> None:
    """An identity lives where its newest subscription says; what is wrong there is not the others' fault."""
    for session in ("backend", "old"):
        tmux.new_pane(["sleep", "600"], session=session)
    made = {}
    for trigger, session in (("SENT_TO_ME", "backend"), ("TASK_STATE_CHANGED", "old")):
        told = invoke(sandbox, "subscribe", AGENT, "--trigger", trigger, "--tmux", session, "--json")
        made[session] = json.loads(told.stdout)["subscriptionId"]
    tmux.run("kill-session", "-t", "old")

    rows = json.loads(invoke(sandbox, "list", "--json").stdout)["subscriptions"]
    why = {one["subscriptionId"]: one["why"] for one in rows}

    assert why[made["old"]].startswith("no pane is called exactly 'old'")
    assert why[made["backend"]].startswith(f"{made['old']} says where it lives: no pane is called exactly 'old'")

    home = tmux.run("list-panes", "-t", "backend", "-F", "#{pane_id}").strip()
    invoke(sandbox, "bind", AGENT, "--pane", home)
    rows = json.loads(invoke(sandbox, "list", "--json").stdout)["subscriptions"]
    assert {one["subscriptionId"]: bool(one["note"]) for one in rows} == {made["old"]: True, made["backend"]: False}


@pytest.mark.parametrize(
    ("words", "counted"),
    [(("status",), 0), (("status", "--json"), 1), (("panes",), 0), (("list",), 1)],
    ids=["status", "status as JSON", "panes", "list"],
)
def test_all_kept_events_are_gone_through_for_those_alone_who_are_told_what_their_windows_gathered(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], counted: int
) -> None:
    """It costs as much as there are events, in commands that people and programs call again and again."""
    invoke(sandbox, "subscribe", AGENT, "--trigger", "SENT_TO_ME", "--webhook", "http://127.0.0.1:1/")
    counts, really_count = [], LedgerStore.window_hits

    def count(ledger: LedgerStore) -> Mapping[str, int]:
        counts.append(ledger)
        return really_count(ledger)

    monkeypatch.setattr(LedgerStore, "window_hits", count)

    invoke(sandbox, *words)

    assert len(counts) == counted
