"""The tools in this process, on a real graph and ledger: they do what the commands do, for their caller alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")

from tests.postgres_graph import ON_BOTH_ENGINES
from wake_bridge.cli.app import cli
from wake_bridge.config.locations import SETTINGS_NAME
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.domain.errors import NotFound, RefusedForSafety, SourceMissing, UsageMistake, WakeBridgeError
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.ownership import PERSON, Invoker
from wake_bridge.domain.sessions import Session
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.mcp.acts import Desk, ToolAnswer, call
from wake_bridge.mcp.callers import CODEX_TURN, who_calls
from wake_bridge.offline import owner
from wake_bridge.offline.reminders import cancel, remind
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.files import make_private_directory
from wake_bridge.testing.ledger_samples import (
    START,
    counted_ids,
    fresh_ledger,
    lock_with_its_events,
    open_delivery,
    sample_event,
)

MINE, OTHER = Identity("@mine"), Identity("@other")


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph_url: str) -> Iterator[Sandbox]:
    """A graph with @mine and @other, and a person in front of it."""
    sandbox = Sandbox(tmp_path)
    if graph_url:
        monkeypatch.setenv("WAKE_BRIDGE_GRAPH_URL", graph_url)
    for name, value in sandbox.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(owner, "_found", lambda _: PERSON)
    with sandbox:
        for command in ("init", "agent add @mine", "agent add @other"):
            does(command)
        yield sandbox


def does(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(command.split())
    assert ended.value.code == 0, command


def answers(name: str, who: Identity = MINE, **arguments: Any) -> ToolAnswer:
    desk = Desk(None, foreign=False)
    desk.invoker = Invoker("claude", 1, frozenset({who}), "it is so")
    return call(desk, who, name, arguments)


def tells(name: str, who: Identity = MINE, **arguments: Any) -> dict[str, Any]:
    """The result of a call whose answer has left."""
    answer = answers(name, who, **arguments)
    if answer.afterwards is not None:
        answer.afterwards()
    return answer.result.told()


def messages(sandbox: Sandbox) -> list[str]:
    with GraphFile(sandbox.graph) as graph:
        return [node.id for node in graph.nodes(MESSAGE_LABEL)]


def announced(sandbox: Sandbox, *message_ids: str) -> set[str]:
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        return set(ledger.announced(MINE, message_ids))


@ON_BOTH_ENGINES
def test_mail_counts_as_read_only_when_the_answer_has_left(office: Sandbox) -> None:
    """What dies with the server was shown to nobody: it is still unread, and its wake still comes."""
    sent = tells("send_message", OTHER, to="@mine", subject="look", body="the bug is here")["messageId"]

    answer = answers("check_inbox", consume=True)

    assert [one["body"] for one in answer.result.told()["messages"]] == ["the bug is here"]
    assert "unread" not in answer.result.told()
    assert announced(office, sent) == set()
    assert answer.afterwards is not None
    answer.afterwards()
    assert announced(office, sent) == {sent}
    assert tells("check_inbox") == {"messages": [], "more": 0}


def test_every_result_ends_with_the_unread_count_while_there_is_mail(office: Sandbox) -> None:  # noqa: ARG001
    """An agent that calls any tool learns that mail waits, whether a wake reached it or not."""
    for number in range(3):
        tells("send_message", OTHER, to="@mine", subject=f"mail {number}")
    asked: dict[str, dict[str, Any]] = {
        "check_inbox": {"limit": 1},
        "presence": {},
        "send_message": {"to": "@other", "subject": "hello"},
        "manage_wake_subscription": {"action": "list"},
    }
    for name, arguments in asked.items():
        told = tells(name, **arguments)
        assert (list(told)[-1], told["unread"]) == ("unread", 3), name
    shown = tells("check_inbox", limit=1, consume=True)
    assert (len(shown["messages"]), shown["more"], shown["unread"]) == (1, 2, 2)


def test_texts_that_a_harness_would_cut_are_not_marked_read(office: Sandbox) -> None:  # noqa: ARG001
    """One answer holds as many texts as there is room for, and one at least; the rest stays unread."""
    for letter in "abc":
        tells("send_message", OTHER, to="@mine", subject=letter, body=letter * 20_000)

    first = tells("check_inbox", consume=True)

    assert [one["subject"] for one in first["messages"]] == ["a"]
    assert (first["more"], first["unread"]) == (2, 2)
    assert [one["subject"] for one in tells("check_inbox")["messages"]] == ["b", "c"]


@ON_BOTH_ENGINES
def test_a_task_goes_its_way_by_tools_alone(office: Sandbox) -> None:  # noqa: ARG001
    """Sent, read, worked on, answered: what the commands do, with the rights that they know."""
    task = tells("send_message", to="@other", subject="fix it", task=True)["messageId"]
    read = tells("read_message", OTHER, messageId=task)["message"]
    assert (read["from"], read["task"]["state"]) == ("@mine", "Submitted")
    assert tells("update_task", OTHER, taskId=task, state="Working") == {
        "taskId": task,
        "previousState": "Submitted",
        "newState": "Working",
    }
    with pytest.raises(WakeBridgeError, match="may not move it") as refused:
        tells("update_task", taskId=task, state="Completed")
    assert "no move of theirs" in refused.value.hint or "allowed now" in refused.value.hint
    tells("send_message", OTHER, to="@mine", subject="done", replyTo=task)
    assert [one["inReplyTo"] for one in tells("check_inbox")["messages"]] == [task]


@ON_BOTH_ENGINES
def test_a_subscription_lives_by_the_answers_of_the_specification(office: Sandbox) -> None:  # noqa: ARG001
    """subscribe, list, update, resync, unsubscribe: each answers its own fields and no others."""
    made = tells("manage_wake_subscription", action="subscribe", trigger="SENT_TO_ME", harnessTarget="bridge-daemon")
    assert {"subscriptionId", "harnessTarget"} <= set(made) <= {"subscriptionId", "harnessTarget", "notes"}
    mine = made["subscriptionId"]
    (listed,) = tells("manage_wake_subscription", action="list")["subscriptions"]
    assert listed["subscriptionId"] == mine
    changed = tells(
        "manage_wake_subscription",
        action="update",
        subscriptionId=mine,
        filters={"senderFilter": ["@other"]},
        harnessTargetMetadata={"coalesceWindow": 7},
    )
    assert changed["currentState"]["filters"] == {"senderFilter": ["@other"]}
    assert changed["currentState"]["harnessTargetMetadata"]["coalesceWindow"] == 7
    tells("send_message", OTHER, to="@mine", subject="x")
    again = tells("manage_wake_subscription", action="resync", subscriptionId=mine, sinceLogId=0)
    assert (again["subscriptionId"], again["eventsReplayed"]) == (mine, 1)
    assert again["lastLogId"] > 0
    gone = tells("manage_wake_subscription", action="unsubscribe", subscriptionId=mine)
    assert (gone["subscriptionId"], gone["status"]) == (mine, "removed")


def test_who_lives_nowhere_gets_a_subscription_that_says_so(office: Sandbox) -> None:  # noqa: ARG001
    """An omitted harness target is chosen by what reaches the caller; nothing does, so it is disabled and told."""
    made = tells("manage_wake_subscription", action="subscribe", trigger="SENT_TO_ME")
    assert made["harnessTarget"] == "disabled"
    assert any("not woken" in note for note in made["notes"])


def test_an_answer_by_a_tool_names_the_lease_too(office: Sandbox) -> None:
    """Without it, or under another one, nothing is changed."""
    with fresh_ledger(office.state_dir) as ledger:
        asked = replace(sample_event(1, identity=MINE), ack_within=60_000)
        waiting = ledger.dispatch(open_delivery(ledger, asked, new_id=counted_ids()), START)
        locked = lock_with_its_events(ledger, waiting, START)
        ledger.settle(locked, Outcome.SUBMITTED, Proof.SUBMITTED, {}, START)
    tries: list[dict[str, Any]] = [{}, {"lease": 7}]
    for wrong in tries:
        with pytest.raises(WakeBridgeError) as refused:
            tells("acknowledge", deliveryId=waiting.id, **wrong)
        assert refused.value.exit_code == 7
    told = tells("acknowledge", deliveryId=waiting.id, lease=1)
    assert (told["outcome"], told["proof"]) == ("acknowledged", 3)
    sent = tells("send_message", to="@other", subject="Which port?", ackWithin=300)["messageId"]
    with GraphFile(office.graph) as graph:
        node = graph.node(sent)
    assert node is not None
    assert (node.properties["ackWithin"], node.properties["wakePolicy"]) == (300, "immediate")


def test_twenty_five_tries_at_anothers_are_twenty_five_refusals(office: Sandbox) -> None:
    """An agent manages only its own, whatever it names; nothing is changed."""
    does("subscribe @other --trigger SENT_TO_ME --harness-target bridge-daemon")
    with GraphFile(office.graph) as graph:
        (theirs,) = [node.id for node in graph.nodes(SUBSCRIPTION_LABEL)]
    does("send @other --from @other --subject own --task")
    does("send @other --from @other --subject letter")
    task, letter = messages(office)
    with fresh_ledger(office.state_dir) as ledger:
        delivery = open_delivery(ledger, sample_event(1, identity=OTHER), new_id=counted_ids())
    manage = "manage_wake_subscription"
    short = theirs.removeprefix("WAKE_SUB:")[:8]
    tries: list[tuple[str, dict[str, Any]]] = [
        *((manage, {"action": "unsubscribe", "subscriptionId": one}) for one in (theirs, short)),
        *((manage, {"action": "resync", "subscriptionId": one, "sinceLogId": 0}) for one in (theirs, short)),
        *(
            (manage, {"action": "update", "subscriptionId": one, **what})
            for one in (theirs, short)
            for what in (
                {},
                {"trigger": "TASK_STATE_CHANGED"},
                {"wakePolicy": "silent"},
                {"harnessTarget": "disabled"},
                {"filters": {"senderFilter": ["@mine"]}},
                {"harnessTargetMetadata": {"coalesceWindow": 300}},
                {"recover": True},
            )
        ),
        *(("update_task", {"taskId": task, "state": state}) for state in ("Working", "Canceled")),
        ("acknowledge", {"deliveryId": delivery.id}),
        ("acknowledge", {"deliveryId": delivery.id[:12]}),
        *(("read_message", {"messageId": one, "keep": keep}) for one in (task,) for keep in (False, True)),
        ("read_message", {"messageId": letter}),
    ]
    assert len(tries) == 25
    before = (office.graph.read_bytes(), tells("check_inbox", OTHER))

    for name, arguments in tries:
        with pytest.raises(WakeBridgeError) as refused:
            tells(name, **arguments)
        assert not isinstance(refused.value, UsageMistake), (name, arguments)

    with GraphFile(office.graph) as graph:
        assert [node.id for node in graph.nodes(SUBSCRIPTION_LABEL)] == [theirs]
    assert tells("check_inbox", OTHER) == before[1]


def test_a_call_without_one_identity_is_refused_and_told_what_to_do(
    office: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody, or two that share a pane: no tool acts for a guess. A conversation that is recorded says who it is."""
    desk = Desk(None, foreign=False)
    with pytest.raises(RefusedForSafety, match="wake-bridge cannot tell which agent calls") as nobody:
        who_calls(desk, None)
    assert "wake-bridge bind @ID" in nobody.value.hint
    both = Invoker("claude", 7, frozenset({MINE, OTHER}), "it runs in the pane that was found or bound")
    with monkeypatch.context() as shared:
        shared.setattr(owner, "_found", lambda _: both)
        with pytest.raises(RefusedForSafety, match="@mine and @other") as two:
            who_calls(Desk(None, foreign=False), None)
        assert "unbind" in two.value.hint
        # the pane of whoever started the shared server says nothing of this conversation
        with closing(LedgerStore.open(office.state_dir)) as ledger:
            ledger.meet_session(Session("codex", "thread-1", OTHER, seen_at=Instant(1)))
        said = Desk(None, foreign=False)
        assert who_calls(said, {"threadId": "thread-1"}) == OTHER
        assert said.invoker is not None
        assert said.invoker.identities == {OTHER}
        with pytest.raises(RefusedForSafety, match="cannot tell which agent"):
            who_calls(Desk(None, foreign=False), {"threadId": "thread-2"})
        turn = json.dumps({"thread_id": "thread-1"})
        assert who_calls(Desk(None, foreign=False), {CODEX_TURN: turn, "threadId": "thread-1"}) == OTHER
        with closing(LedgerStore.open(office.state_dir)) as ledger:
            ledger.meet_session(Session("codex", "thread-2", MINE, seen_at=Instant(1)))
        with pytest.raises(RefusedForSafety, match="@mine and @other"):
            who_calls(Desk(None, foreign=False), {CODEX_TURN: turn, "threadId": "thread-2"})
    monkeypatch.setenv("WAKE_BRIDGE_AGENT", "@mine")
    assert who_calls(Desk(None, foreign=False), None) == MINE
    monkeypatch.setenv("WAKE_BRIDGE_AGENT", "@nobody")
    with pytest.raises(RefusedForSafety):
        who_calls(Desk(None, foreign=False), None)


def test_what_is_not_there_is_named(office: Sandbox) -> None:  # noqa: ARG001
    """The errors of the commands, with what was asked for."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("read_message", {"messageId": "MESSAGE:none"}),
        ("acknowledge", {"deliveryId": "01ABC"}),
        ("manage_wake_subscription", {"action": "unsubscribe", "subscriptionId": "none"}),
        ("send_message", {"to": "@nobody", "subject": "x"}),
    ]
    for name, arguments in asked:
        with pytest.raises(NotFound) as missing:
            tells(name, **arguments)
        assert missing.value.hint, name


def test_an_agent_tells_its_user_by_a_channel_and_sees_no_recipient(office: Sandbox, tmp_path: Path) -> None:
    """Ids and labels; the text has the agent's name; an unknown id names the valid ones; without any it is kept."""
    kept = tells("send_to_channel", text="nobody is there")
    assert (kept["outcome"], kept["channel"]) == ("waiting", None)
    assert "kept for 24 hours" in kept["notes"][0]
    assert tells("list_channels")["channels"] == []
    file = tmp_path / "messages.jsonl"
    office.configure(f'channels.log = {{kind = "file", label = "a log", recipient = "{file}"}}\n')
    listed = tells("list_channels")
    assert listed["channels"] == [{"channel": "log", "label": "a log", "isDefault": True}]
    sent = tells("send_to_channel", text="the build is green")
    assert (sent["outcome"], sent["channel"]) == ("sent", "log")
    (told,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (told["title"], told["body"]) == ("wake-bridge: @mine says", "the build is green")
    with pytest.raises(NotFound) as unknown:
        tells("send_to_channel", text="x", channel="phone")
    assert "there are log" in unknown.value.hint
    assert str(file) not in f"{kept}{listed}{sent}{unknown.value.hint}"
    for _ in range(20):
        with suppress(RefusedForSafety):
            tells("send_to_channel", text="and again")
    assert len(file.read_text().splitlines()) == 19
    with pytest.raises(RefusedForSafety, match="within an hour"):
        tells("send_to_channel", text="one more")


def test_an_agent_reminds_itself_and_cancels_nobody_elses(office: Sandbox) -> None:
    """`remind_me` wakes the caller; exactly one time is said; what is another's stays."""
    in_a_while: dict[str, Any] = {"text": "look at the build", "in": "20m"}
    made = tells("remind_me", **in_a_while)
    assert made["zone"]
    with closing(LedgerStore.open(office.state_dir)) as ledger:
        (reminder,) = ledger.reminders()
    assert (reminder.identity, reminder.by, reminder.text) == ("@mine", "@mine", "look at the build")
    mistakes: list[dict[str, Any]] = [{"text": "x"}, {**in_a_while, "at": "9:00"}, {"text": "x", "cron": "no"}]
    for wrong in mistakes:
        with pytest.raises(UsageMistake):
            tells("remind_me", **wrong)
    desk = Desk(None, foreign=False)
    desk.invoker = Invoker("codex", 1, frozenset([Identity("@other")]), "a test")
    with pytest.raises(RefusedForSafety):
        cancel(desk, reminder.id)
    with pytest.raises(RefusedForSafety):
        remind(desk, "x", identity="@mine", in_ms=1000)


def test_items_from_outside_stand_beside_the_mail_and_are_put_into_an_inbox_by_a_tool(office: Sandbox) -> None:  # noqa: ARG001
    """`notify` does what the command does; `check_inbox` shows items, under the lease that the command gives them."""
    made = tells(
        "notify", OTHER, to="@mine", text="the nightly run is red\nlong log", source="nightly", priority="high"
    )
    assert made["was"] == "new"

    shown = tells("check_inbox")
    (item,) = shown["items"]
    assert (item["id"], item["source"], item["priority"]) == (made["id"], "nightly", "high")
    assert item["text"] == "the nightly run is red long log"
    assert tells("acknowledge", deliveryId=item["id"])["state"] == "READ"
    assert "items" not in tells("check_inbox", consume=True)


def test_on_a_host_without_a_graph_the_inbox_has_the_items_that_come_there(office: Sandbox) -> None:
    """As the command: where none comes there is no inbox; what needs the graph says so, and the rest works."""
    make_private_directory(office.state_dir)
    office.graph.unlink()
    settings = office.state_dir / SETTINGS_NAME
    settings.write_text('{"hasGraph": false}')
    settings.chmod(0o600)
    with pytest.raises(SourceMissing, match="no graph"):
        tells("check_inbox")

    made = tells("notify", OTHER, to="@mine", text="main is red", source="ci")

    (item,) = tells("check_inbox")["items"]
    assert (item["id"], item["text"]) == (made["id"], "main is red")
    assert tells("check_inbox", consume=True) == {"messages": [], "more": 0}
    with pytest.raises(SourceMissing):
        tells("send_message", to="@other", subject="x")
    desk = Desk(None, foreign=False)
    assert not owner.is_known(desk, "@mine")
    office.configure('[targets."@mine"]\npane = "a:1"\n')
    assert owner.is_known(Desk(None, foreign=False), "@mine")
