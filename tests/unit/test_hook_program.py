"""`wake-bridge hook HARNESS`: prints its harness's own shape or nothing, and never stands in the way."""

from __future__ import annotations

import json
import os
import random
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.config.settings import load_settings
from wake_bridge.control import graph_lock
from wake_bridge.control.graph_lock import GraphLock
from wake_bridge.domain.sessions import Moment
from wake_bridge.integrations.agent_files import claude_plugin, hook_settings
from wake_bridge.integrations.hook import program
from wake_bridge.integrations.hook.caller import BLOCK, CONTEXT, DENY, EVENTS, FLAT_CONTEXT, HARNESSES
from wake_bridge.integrations.hook.talk import LOCK_DIRECTORY, daemon_elsewhere, state_directory
from wake_bridge.testing import HUNG
from wake_bridge.testing.hostile import HAZARDS

AGED = [sys.executable, "-c", "from wake_bridge.integrations.hook.program import _age; print(_age())"]
"""Says how long its process lives by now, as a hook counts it; what a shell did before in the same process counts."""

OFFER = {"delivery": "01J00000000000000000000000", "lease": 3, "block": "<wake-bridge>\n- é ‹x›\n</wake-bridge>"}
SAID: dict[str, dict[str, Any]] = {
    "claude": {"session_id": "s-1", "cwd": "/", "prompt_id": "p", "permission_mode": "default", "tool_name": "Bash"},
    "codex": {"session_id": "s-1", "cwd": "/", "turn_id": "t", "model": "m", "tool_response": "hi\n"},
    "gemini": {"session_id": "s-1", "cwd": "/", "timestamp": "2026-11-27T22:09:07.157Z", "tool_response": {}},
    "copilot": {"sessionId": "s-1", "cwd": "/", "timestamp": 1795817377501, "toolName": "bash"},
    "qwen": {"session_id": "s-1", "cwd": "/", "permission_mode": "default"},
}
"""What each program writes to its hooks besides the event's name, shortened."""


class FakeDaemon:
    """Answers on the socket as it is told, and keeps what it was asked."""

    def __init__(self, state: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {
            "session": {"identity": "@agent", "offer": OFFER},
            "taking": {"ok": True},
            "printed": {"ok": True},
        }
        self.delay = 0.0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(state / "daemon.sock"))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                channel, _ = self._socket.accept()
            except OSError:
                return
            with channel:
                line = channel.makefile("rb").readline()
                if not line:
                    continue
                asked = json.loads(line)
                self.asked.append(asked)
                time.sleep(self.delay)
                answer = self.answers[asked["command"]]
                text = answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
                try:
                    channel.sendall(text)
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.close()

    @property
    def commands(self) -> list[str]:
        return [one["command"] for one in self.asked]


@pytest.fixture
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="wbh-") as directory:
        yield Path(directory)


@pytest.fixture
def daemon(state: Path) -> Iterator[FakeDaemon]:
    made = FakeDaemon(state)
    yield made
    made.close()


Run = Callable[..., bytes]


@pytest.fixture
def run(state: Path, request: pytest.FixtureRequest) -> Run:
    """Run the hook as its harness does; answers what it printed. It must end well and say nothing else.

    One that lived as long as it may has given up on a busy machine, as it should: it is run once more.
    """
    fake = request.getfixturevalue("daemon") if "daemon" in request.fixturenames else None

    def ran(
        harness: str, event: str, text: bytes | None = None, places: dict[str, str] | None = None, **said: Any
    ) -> bytes:
        told = {**SAID[harness], **said}
        if harness == "copilot":
            arguments = [harness, event]
        else:
            arguments, told = [harness], {**told, "hook_event_name": event}
        for _ in range(10):
            began = time.monotonic()
            answer = subprocess.run(
                [sys.executable, "-m", "wake_bridge", "hook", *arguments],
                input=json.dumps(told).encode() if text is None else text,
                capture_output=True,
                env={
                    "HOME": str(state),
                    "PATH": os.defpath,
                    **(places or {"WAKE_BRIDGE_DAEMON_STATE_DIR": str(state)}),
                },
                timeout=30,
                check=False,
            )
            assert (answer.returncode, answer.stderr) == (0, b"")
            if time.monotonic() - began < program.LONGEST_LIFE:
                break
            if fake is not None:
                fake.asked.clear()
        else:
            pytest.fail("it lived as long as it may, ten times")
        return answer.stdout

    return ran


def shape(form: str, event: str) -> Any:
    """What the harness's makers document, and what was measured."""
    block = OFFER["block"]
    return {
        CONTEXT: {"hookSpecificOutput": {"hookEventName": event, "additionalContext": block}},
        FLAT_CONTEXT: {"additionalContext": block},
        BLOCK: {"decision": "block", "reason": block},
        DENY: {"decision": "deny", "reason": block},
    }[form]


@pytest.mark.parametrize(("harness", "event"), [(one, event) for one in HARNESSES for event in EVENTS[one]])
def test_each_event_prints_exactly_its_harnesss_shape(run: Run, daemon: FakeDaemon, harness: str, event: str) -> None:
    """Prints that harness's output shape with the pending items, or nothing where the event takes none."""
    moment, form = EVENTS[harness][event]
    more = {"notification_type": "ToolPermission"} if event == "Notification" else {}
    printed = run(harness, event, **more)
    asked = daemon.asked[0]
    assert (asked["harness"], asked["session_id"], asked["event"]) == (harness, "s-1", moment)
    assert asked["drain"] is bool(form)
    if form:
        assert json.loads(printed) == shape(form, event)
        assert printed.count(b"\n") == 1
        assert daemon.commands == ["session", "taking", "printed"]
    else:
        assert printed == b""
        assert daemon.commands == ["session"]


def test_the_moments_are_the_engines_own() -> None:
    """The table speaks of moments that the daemon knows."""
    assert {moment for events in EVENTS.values() for moment, _ in events.values()} <= {str(one) for one in Moment}


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_turn_that_a_hook_has_prolonged_is_not_drained_again(run: Run, daemon: FakeDaemon, harness: str) -> None:
    """`stop_hook_active`: two hooks must not keep an agent going for ever."""
    stop = next(event for event, (moment, _) in EVENTS[harness].items() if moment == "stop")
    run(harness, stop, stop_hook_active=True)
    assert daemon.asked[0]["drain"] is False


def test_the_prompt_stays_here_and_its_marks_go(run: Run, daemon: FakeDaemon) -> None:
    """Only what may be a mark of ours is told; what a person types is nobody's business."""
    prompt = "my secret 01M8GCT12TT2VHNCPPDS1EZJ76, x01M8GCT12TT2VHNCPPDS1EZJ76 01M8GCT12TT2VHNCPPDS1EZJ7"
    run("claude", "UserPromptSubmit", prompt=prompt)
    assert daemon.asked[0]["marks"] == ["01M8GCT12TT2VHNCPPDS1EZJ76"]
    assert "secret" not in json.dumps(daemon.asked)


def test_a_sub_agent_is_named(run: Run, daemon: FakeDaemon) -> None:
    """The daemon hands a sub-agent nothing."""
    run("claude", "PostToolUse", agent_id="a-1", agent_type="explorer")
    assert daemon.asked[0]["agent"] == "a-1"


def test_a_directory_that_was_removed_keeps_nobody_from_calling(tmp_path: Path) -> None:
    """An agent may have removed the work tree it is in: its monitor names none, and would else never call again."""
    gone = tmp_path / "gone"
    gone.mkdir()
    tell = "from wake_bridge.integrations.hook.caller import told; print(repr(told('claude', {}, {})['directory']))"
    script = f'rmdir "$PWD"; exec {shlex.join([sys.executable, "-P", "-c", tell])}'
    said = subprocess.run(["/bin/sh", "-c", script], cwd=gone, capture_output=True, timeout=30, check=False)
    assert (said.stdout, said.stderr) == (b"''\n", b"")


def test_an_event_that_is_not_heard_tells_nobody(run: Run, daemon: FakeDaemon) -> None:
    """What the table does not name costs the harness no call."""
    for harness in ("claude", "gemini", "copilot"):
        assert run(harness, "Whatever") == b""
    assert run("gemini", "Notification", notification_type="other") == b""
    assert daemon.asked == []


def test_nothing_is_printed_without_the_lease(run: Run, daemon: FakeDaemon) -> None:
    """One driver: only after `taking` was answered yes may a byte go out."""
    daemon.answers["taking"] = {"ok": False}
    assert run("claude", "PostToolUse") == b""
    assert daemon.commands == ["session", "taking"]


def test_without_a_daemon_it_is_silent(run: Run) -> None:
    """Silent and exit 0 when the daemon is down."""
    assert run("codex", "PostToolUse") == b""


def test_a_slow_daemon_is_not_waited_for(run: Run, daemon: FakeDaemon) -> None:
    """More than a second is too long for a tool to wait."""
    assert program.PATIENCE <= 1
    daemon.delay = HUNG
    assert run("codex", "PostToolUse") == b""


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"no json",
        b"[]",
        b'"text"',
        b"null",
        b"{",
        b'{"hook_event_name": 3}',
        b'{"hook_event_name": "PostToolUse", "session_id": {}}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda text: repr(text[:24]),
)
def test_broken_input_is_no_trouble(run: Run, daemon: FakeDaemon, text: bytes) -> None:
    """Whatever comes in, the harness goes on."""
    daemon.answers["session"] = {"identity": None, "offer": None}
    assert run("codex", "", text) == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\n",
        b"no json\n",
        b"[]\n",
        b"{}\n",
        b'{"offer": 1}\n',
        b'{"offer": {}}\n',
        b"x" * 3_000_000,
        b'{"error": "x"}\n',
    ],
    ids=lambda answer: repr(answer[:16]),
)
def test_a_broken_answer_is_no_trouble(run: Run, daemon: FakeDaemon, answer: bytes) -> None:
    """Nor what the daemon says."""
    daemon.answers["session"] = answer
    assert run("claude", "PostToolUse") == b""
    assert daemon.commands == ["session"]


def test_no_harness_has_gone_on_while_the_hook_lives() -> None:
    """What is printed to a harness that waits no longer would count as told, and be read by nobody."""
    assert min(hook_settings.PATIENCE, claude_plugin.HOOK_PATIENCE) > program.LONGEST_LIFE
    began = time.monotonic()
    process = subprocess.Popen(["/bin/sh", "-c", "sleep 1; exec " + shlex.join(AGED)], stdout=subprocess.PIPE)
    aged, _ = process.communicate(timeout=HUNG)
    assert 1 <= float(aged) <= time.monotonic() - began + 0.1


def test_an_input_that_never_ends_is_given_up(state: Path) -> None:
    """A harness that keeps stdin open does not keep a process of ours for ever."""
    process = subprocess.Popen(
        [sys.executable, "-m", "wake_bridge", "hook", "codex"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": str(state), "PATH": os.defpath},
    )
    assert process.wait(HUNG) == 0
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert process.stdin is not None
    process.stdin.close()
    process.stdout.close()


def test_whatever_the_block_holds_one_line_of_json_is_printed(run: Run, daemon: FakeDaemon) -> None:
    """A malicious item cannot make the hook print anything but its shape."""
    chance = random.Random(5)
    for _ in range(12):
        text = "".join(chance.choices((*HAZARDS, '"}}\n{"decision":"block"}', "\\", "\n"), k=200))
        daemon.answers["session"] = {"identity": "@agent", "offer": {**OFFER, "block": text}}
        printed = run("gemini", "AfterTool")
        assert printed.count(b"\n") == 1
        assert printed.isascii()
        (inner,) = json.loads(printed).values()
        assert inner == {"hookEventName": "AfterTool", "additionalContext": json.loads(json.dumps(text))}


MAY_IMPORT = {
    "wake_bridge",
    "wake_bridge.cli",
    "wake_bridge.cli.start",
    "wake_bridge.cli.streams",
    "wake_bridge.integrations",
    "wake_bridge.integrations.hook",
    "wake_bridge.integrations.hook.program",
    "wake_bridge.integrations.hook.caller",
    "wake_bridge.integrations.hook.quick_json",
    "wake_bridge.integrations.hook.talk",
    "wake_bridge.control",
    "wake_bridge.control.peer",
}
SLOW = {
    "asyncio",
    "collections",
    "contextlib",
    "enum",
    "json",
    "re",
    "socket",
    "typing",
    "dataclasses",
    "inspect",
    "pathlib",
    "tomllib",
    "subprocess",
    "importlib.metadata",
    "logging",
}


def test_it_imports_nothing_that_takes_its_time() -> None:
    """15 ms as a whole process: the standard library's quick modules, and few of our own."""
    code = "import sys; import wake_bridge.cli.start, wake_bridge.integrations.hook.program; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    loaded = set(answer.stdout.split())
    ours = {one for one in loaded if one.partition(".")[0] in {"wake_bridge", "wake_bridge_adapters"}}
    assert ours == MAY_IMPORT
    assert not loaded & SLOW
    assert {one.partition(".")[0] for one in loaded - ours} <= set(sys.stdlib_module_names) | {
        "__main__",
        "__mp_main__",
    }


ROOT = Path(__file__).parents[2]

CONFIGURATIONS = (
    "",
    '[daemon]\nstate_dir = "/var/one"\n',
    'daemon.state_dir = "beside"\n',
    'daemon.state_dir = "~/in-home"\n',
    '[daemon]\n"state\\u005fdir" = "/spelled"\n',
    '[daemon]\nstate_dir = ""\n',
    "# state_dir is not set\n[daemon]\nlog_level = 'info'\n",
)
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"XDG_STATE_HOME": "/xdg/state"},
    {"XDG_STATE_HOME": ""},
    {"WAKE_BRIDGE_DAEMON_STATE_DIR": "/named"},
    {"WAKE_BRIDGE_DAEMON_STATE_DIR": "~/named"},
    {"WAKE_BRIDGE_DAEMON_STATE_DIR": "relative"},
    {"WAKE_BRIDGE_DAEMON_STATE_DIR": ""},
    {"NEO_AI_DAEMON_DIR": "/neo"},
    {"NEO_AI_DAEMON_DIR": ""},
    {"NEO_AI_DAEMON_DIR": "/neo", "WAKE_BRIDGE_DAEMON_STATE_DIR": "/named"},
    {"NEO_AI_DAEMON_DIR": "/neo", "WAKE_BRIDGE_DAEMON_STATE_DIR": ""},
    {"WAKE_BRIDGE_AGENT": "@agent"},
)


@pytest.mark.parametrize("text", CONFIGURATIONS)
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: ",".join(f"{k}={v}" for k, v in one.items()))
@pytest.mark.parametrize("named", [False, True])
def test_it_finds_the_daemon_where_every_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, environment: dict[str, str], named: bool
) -> None:
    """The same rules as the whole configuration: variables, the file, the platform's place."""
    for name in list(os.environ):
        if name.startswith(("XDG_", "WAKE_", "NEO_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ("elsewhere/own.toml" if named else ".config/wake-bridge/config.toml")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    for name, value in {**environment, **({"WAKE_BRIDGE_CONFIG": str(file)} if named else {})}.items():
        monkeypatch.setenv(name, value)
    assert state_directory(os.environ) == str(load_settings(None, os.environ).state_dir)


GRAPHS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("", {}, ".local/share/wake-bridge/graph.sqlite"),
    ("", {"XDG_DATA_HOME": "{home}/data"}, "data/wake-bridge/graph.sqlite"),
    ("graph.path = 'beside.sqlite'\n", {}, ".config/wake-bridge/beside.sqlite"),
    ("[graph]\npath = '~/own.sqlite'\n", {}, "own.sqlite"),
    ("[graph]\npath = '~/own.sqlite'\n", {"WAKE_BRIDGE_GRAPH_PATH": "{home}/named.sqlite"}, "named.sqlite"),
    ("", {"NEO_MEMORY_DB_PATH": "{home}/neo.sqlite"}, "neo.sqlite"),
)


@pytest.mark.parametrize(("text", "environment", "graph"), GRAPHS)
def test_where_nobody_is_configured_the_lock_of_the_graph_names_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, environment: dict[str, str], graph: str
) -> None:
    """`daemon.state_dir` was edited while the daemon runs; hooks find it by the graph, as commands do."""
    assert Path(LOCK_DIRECTORY) == graph_lock.LOCK_DIRECTORY
    for name in list(os.environ):
        if name.startswith(("XDG_", "WAKE_", "NEO_")):
            monkeypatch.delenv(name)
    for name, value in {"HOME": str(tmp_path), **environment}.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    file, served, old = tmp_path / ".config/wake-bridge/config.toml", tmp_path / graph, tmp_path / "old"
    for one in (file, served):
        one.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert load_settings(None, os.environ).graph_place == served

    assert daemon_elsewhere(os.environ, "/new") == ""
    served.touch()
    with GraphLock(served, old):
        assert daemon_elsewhere(os.environ, "/new") == str(old)
        assert daemon_elsewhere(os.environ, str(old)) == ""
    assert daemon_elsewhere(os.environ, "/new") == ""


def test_a_hook_goes_to_the_daemon_of_its_graph(run: Run, daemon: FakeDaemon, state: Path) -> None:
    """What the agent waits for is handed over, and taken, where the daemon is."""
    graph = state / "graph.sqlite"
    graph.touch()
    places = {"WAKE_BRIDGE_DAEMON_STATE_DIR": str(state / "edited"), "WAKE_BRIDGE_GRAPH_PATH": str(graph)}
    with GraphLock(graph, state):
        printed = run("claude", "UserPromptSubmit", places=places)
    assert json.loads(printed) == shape(CONTEXT, "UserPromptSubmit")
    assert daemon.commands == ["session", "taking", "printed"]
