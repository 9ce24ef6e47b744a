"""What the tools take and answer: the same words as commands and graph, and mistakes that say what would be right."""

from __future__ import annotations

import sys
from typing import get_args

import pytest

pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")

from wake_bridge.cli.app import cli
from wake_bridge.domain.errors import UsageMistake
from wake_bridge.domain.names import IDENTITY_PATTERN, AttentionKind, Identity, Priority, WakePolicy
from wake_bridge.domain.tasks import TASK_STATES
from wake_bridge.mcp import models
from wake_bridge.mcp.acts import ACTS, Desk, call
from wake_bridge.mcp.callers import threads_of
from wake_bridge.mcp.tools import TOOLS
from wake_bridge.offline.mail import FLOORS, MOST_AT_ONCE
from wake_bridge.offline.subscriptions import HARNESS_TARGETS, PUBLIC_TRIGGERS


def test_tools_know_the_words_that_commands_know() -> None:
    """One list of words: what a command takes, the tool that does the same takes too, and nothing more."""
    assert set(get_args(models.Floor)) == set(FLOORS)
    assert set(get_args(models.Policy)) == set(WakePolicy)
    assert set(get_args(models.Priority)) == set(Priority)
    assert set(get_args(models.Trigger)) == set(PUBLIC_TRIGGERS)
    assert set(get_args(models.Attention)) == set(AttentionKind)
    assert set(get_args(models.HarnessTarget)) == set(HARNESS_TARGETS)
    assert set(get_args(models.TaskState)) == TASK_STATES
    schema = models.PresenceArguments.model_json_schema()
    assert f"^{IDENTITY_PATTERN.pattern}$" in str(schema)
    assert models.CheckInboxArguments.model_json_schema()["properties"]["limit"]["maximum"] == MOST_AT_ONCE


def test_every_tool_that_is_told_of_does_something() -> None:
    """Names and acts stand in two modules, so that the handshake is quick; they are the same names."""
    assert list(ACTS) == list(TOOLS)


@pytest.mark.parametrize("name", list(TOOLS))
def test_each_tool_is_described_by_schemas_of_objects(name: str) -> None:
    """Clients of both protocol eras take a tool only with an object at the root of its schemas."""
    tool = TOOLS[name]
    for schema in (tool.takes.model_json_schema(), tool.gives.model_json_schema()):
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
    assert len(tool.description) > 40


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("check_inbox", {"limit": 51}, ("limit: ", "less than or equal to 50", "got '51'")),
        ("check_inbox", {"floor": "all"}, ("floor: ", "'now', 'next' or 'later'")),
        ("check_inbox", {"mailbox": 1}, ("mailbox: ", "check_inbox takes floor, limit, consume")),
        ("read_message", {}, ("messageId: ", "required")),
        ("send_message", {"to": "neo", "subject": "x"}, ("to: ", "@[A-Za-z0-9]")),
        ("update_task", {"taskId": "M", "state": "Done"}, ("state: ", "'Submitted', 'Working'")),
        ("manage_wake_subscription", {"action": "subscribe"}, ("trigger: needed for subscribe",)),
        ("manage_wake_subscription", {"action": "resync"}, ("subscriptionId and sinceLogId: needed for resync",)),
        ("manage_wake_subscription", {"action": "grow"}, ("action: ", "'subscribe', 'unsubscribe', 'update'")),
        ("forward_message", {}, ("no tool 'forward_message'", "check_inbox, read_message")),
    ],
)
def test_a_mistake_names_the_field_and_what_would_be_right(
    name: str, arguments: dict[str, object], words: tuple[str, ...]
) -> None:
    """A model corrects itself by what it is told: the field first, then the valid values."""
    with pytest.raises(UsageMistake) as refused:
        call(Desk(None, foreign=False), Identity("@mine"), name, arguments)
    told = f"{refused.value.what}; {refused.value.hint}"
    assert [word for word in words if word not in told] == [], told


@pytest.mark.parametrize(
    ("meta", "thread"),
    [
        (None, ""),
        ({"progressToken": 1}, ""),
        ({"x-codex-turn-metadata": {"thread_id": "0199", "turn_id": "7"}}, "0199"),
        ({"x-codex-turn-metadata": '{"thread_id":"0199"}'}, "0199"),
        ({"x-codex-turn-metadata": "{", "threadId": "0200"}, "0200"),
        ({"x-codex-turn-metadata": {"thread_id": 5}}, ""),
    ],
)
def test_a_calls_conversation_is_read_of_what_the_harness_says(meta: dict[str, object] | None, thread: str) -> None:
    """Codex's app-server serves all conversations of a user: each call names its own."""
    assert threads_of(meta) == ([thread] if thread else [])


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has no SDK learns it from one sentence, not from a traceback."""
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "wake_bridge.mcp.server", raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main(["mcp"])
    assert ended.value.code == 1
    assert "pip install 'wake-bridge[mcp]'" in capsys.readouterr().err
