"""JSON has one name for one thing, and null for what is absent; the old ones stand beside it for a release."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests import golden, output_schemas
from wake_bridge.cli.app import COMMANDS, cli
from wake_bridge.cli.output import NOT_OURS, TEXTS, as_printed, camel
from wake_bridge.config.hosts import HostsFile, LinkedHost
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.demo.tmux_server import PrivateTmux
from wake_bridge.domain.attention import Episode
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import AttentionKind, Identity, is_identity
from wake_bridge.domain.notices import about_escalation
from wake_bridge.domain.receivers import Secret
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.storage.daemon_log import LOG_FILE_NAME
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.ledger_samples import START, counted_ids, fresh_ledger, open_delivery, sample_event

NEITHER = {"run", "serve", "demo", "screens", "mcp", "open", "relay"}
"""Play for some seconds, need an agent that rests or a daemon, or speak another protocol."""

GROUPS = {"add", "show", "check", "copy", "install", "status"}
"""Words behind a command that are commands themselves."""

SENDERS = {"from", "agentIdentity", "login", "who"}
"""Where an identity stands under a name that says more than that it is one."""


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmux_program: str) -> Iterator[Sandbox]:  # noqa: ARG001 - asked for what it demands
    """An agent and another program in the panes of the only tmux server there is."""
    with tempfile.TemporaryDirectory(prefix="wbt-") as directory:
        monkeypatch.setenv("TMUX_TMPDIR", directory)
        with PrivateTmux() as tmux:
            tmux.new_pane(["cat"])
            agent = FakeHarness(tmp_path, "api")
            tmux.new_pane(agent.command())
            agent.waits_for("started")
            made = Sandbox(tmp_path, tmux.socket_name)
            made.configure('channels.log = {kind = "file", label = "a log", recipient = "log.jsonl"}\n')
            for name, value in made.environment.items():
                monkeypatch.setenv(name, value)
            monkeypatch.chdir(made.home)
            yield made


def records(value: Any, besides: frozenset[str] = NOT_OURS) -> Iterator[Mapping[str, Any]]:
    """Every object in it but those whose words are not ours."""
    if isinstance(value, dict):
        yield value
        for name, one in value.items():
            if name not in besides:
                yield from records(one, besides)
    elif isinstance(value, list):
        for one in value:
            yield from records(one, besides)


def _link_hosts(hosts: HostsFile) -> None:
    """One host that this one links to, and one that links here."""
    hosts.put(LinkedHost("devbox", "me@devbox", "laptop-1", Secret("whsec_YQ==")))
    hosts.let_in("laptop-2", Secret("whsec_Yg=="))


def test_every_command_says_one_name_for_one_thing(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """An identity is `agentIdentity`, names are written in one way, and null alone says that something is absent.

    Every command that prints JSON is run.
    """

    def run(line: str) -> list[Any]:
        capsys.readouterr()
        with suppress(SystemExit):
            cli.main(["--json", *line.split()])
        return [json.loads(one) for one in capsys.readouterr().out.splitlines()]

    printed = {line: run(line) for line in ("init", "agent add @a", "agent list")}
    where = "--trigger SENT_TO_ME --harness-target bridge-daemon"
    printed[f"subscribe @a {where}"] = run(f"subscribe @a {where}")
    printed["send"] = run("send @a --from @me --subject x --task")
    with GraphFile(sandbox.graph) as graph:
        (message,) = [node.id for node in graph.nodes(MESSAGE_LABEL)]
        (subscription,) = [node.id for node in graph.nodes(SUBSCRIPTION_LABEL)]
    with fresh_ledger(sandbox.state_dir) as ledger:
        delivery = open_delivery(ledger, sample_event(1, identity="@a"), new_id=counted_ids())
        asks = Episode("01X", Identity("@a"), AttentionKind.APPROVAL, START, "approval in bottom", "|1|%1", "a:1.0")
        ledger.turn_episode(None, "", asks, START)
        asked = replace(sample_event(2, identity="@a"), ack_within=1000)
        late, passed_at = open_delivery(ledger, asked, new_id=counted_ids("LATE")), SteadyClock().now()
        given = ledger.escalate(late, about_escalation(late, [asked], passed_at, set()), [], passed_at)
        ledger.settle_escalation(given, "", passed_at)
    logged = {"timestamp": "2026-11-28T10:00:00.000Z", "level": "info", "event": "graph_opened", "logger": "tail"}
    (sandbox.state_dir / LOG_FILE_NAME).write_text(f"{json.dumps(logged)}\n")
    _link_hosts(HostsFile(sandbox.state_dir))
    for line in (
        "deliveries",
        f"deliveries show {delivery.id}",
        f"why {message} @a",
        "next",
        "pause @a",
        "pause --all",
        "status",
        "activity",
        "resume --all",
        f"escalate {delivery.id}",
        "seen @a",
        f"ack {delivery.id}",
        "wake @a x",
        f"task {message} working --as @a",
        "grant CAN_READ_INBOX_OF --to @me --as @a",
        "inbox @a",
        f"read @a {message}",
        "list",
        f"update {subscription} --window 9",
        f"resync {subscription} --since 0",
        "presence @a",
        "routes @a",
        "panes",
        "unbind @a",
        "bind @a --pane nowhere",
        "push-capable",
        "adapters",
        "config check",
        "doctor",
        "service install --print",
        "service status",
        "hook install codex --dry-run",
        "claude install --dry-run",
        "completion bash",
        "setup --dry-run",
        "setup --rebind --dry-run",
        "setup --tmux-keys --dry-run",
        "logs",
        f"logs --delivery {delivery.id}",
        "channels list",
        "channels test log",
        "channels send hello",
        "channels sent",
        "sources token ci",
        "sources list",
        "hosts list",
        f"graph copy {sandbox.graph} {sandbox.home / 'moved.sqlite'}",
        "notify @a --source build --key k x",
        "remind @a --in 20m x",
        "reminders list",
        "subscribe @a --trigger SENT_TO_ME --webhook https://ci.example.org/wake",
        f"unsubscribe {subscription}",
        "uninstall --dry-run",
    ):
        printed[line] = run(line)

    assert {line.split()[0] for line in printed} >= {one for group in COMMANDS.values() for one in group} - NEITHER
    for line, answers in printed.items():
        for record in records(answers):
            for name, value in record.items():
                assert "_" not in name or camel(name) in record, (line, name)
                if isinstance(value, str) and is_identity(value) and name not in SENDERS:
                    assert record.get("agentIdentity") == value, (line, name, value)
    absent = records(printed, NOT_OURS - {"evidence"})
    empty = [(name, one) for one in absent for name, value in one.items() if value == "" and "_" not in name]
    assert [(name, one) for name, one in empty if name not in TEXTS] == []
    assert [line for line, answers in printed.items() if not answers] == ["bind @a --pane nowhere", "push-capable"]
    now = {"json": _fields_of_commands(printed)}
    by_command = _by_command(printed)
    if golden.RECORD in os.environ:
        golden.record(now)
        for command, answers in by_command.items():
            file, schema = output_schemas.file_of(command), output_schemas.schema_of(command, answers)
            known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else schema
            file.write_text(output_schemas.written(output_schemas.joined(known, schema)), encoding="utf-8")
    unknown = [command for command in by_command if not output_schemas.file_of(command).exists()]
    assert unknown == [], "`python -m tests.golden` writes the schema of a new command"
    for command, answers in by_command.items():
        schema = json.loads(output_schemas.file_of(command).read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        checked = Draft202012Validator(output_schemas.strict(schema))
        wrong = [one.message for answer in answers for one in checked.iter_errors(answer)]
        assert (command, wrong) == (command, []), "`python -m tests.golden` adds new fields"
    assert list(golden.broken({"json": golden.frozen()["json"]}, now)) == []
    (status,) = printed["status"]
    assert (status["running"], status["isRunning"]) == ("no", False)


def _by_command(printed: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """All that each command printed, its schema's lines."""
    said: dict[str, list[Any]] = {}
    for line, answers in printed.items():
        name, *rest = line.split()
        command = " ".join([name, *(word for word in rest[:1] if word in GROUPS or name == "channels")])
        said.setdefault(command, []).extend(answers)
    return said


def _fields_of_commands(printed: Mapping[str, list[Any]]) -> dict[str, list[str]]:
    return {
        command: sorted({path for answer in answers for path in golden.fields_of(answer)})
        for command, answers in _by_command(printed).items()
    }


def test_old_names_stay_beside_the_new_ones() -> None:
    """For one release both are said, alike at every depth; words that are not ours stay as they are."""
    was = {"paused": "*", "waiting": [{"target": "@a", "hold_reason": None}], "detail": {"session_id": "s", "saw": ""}}

    assert as_printed(was) == {
        "paused": "*",
        "agentIdentity": "*",
        "waiting": [{"target": "@a", "agentIdentity": "@a", "hold_reason": None, "holdReason": None}],
        "detail": {"session_id": "s", "saw": ""},
    }


def test_what_is_absent_is_null_and_an_old_name_keeps_its_empty_text() -> None:
    """`""` and null side by side are two words for one thing; what a person wrote is theirs, also where it is empty."""
    was = {"hint": "", "hold_detail": "", "detail": "", "events": [{"why": ""}], **dict.fromkeys(TEXTS, "")}

    assert as_printed(was) == {
        "hint": None,
        "hold_detail": "",
        "holdDetail": None,
        "detail": None,
        "events": [{"why": None}],
        **dict.fromkeys(TEXTS, ""),
    }
