"""An agent manages only its own, with real processes: a harness in a pane, and commands that its children run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wake_bridge.cli.app import cli
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.messages import MESSAGE_LABEL
from wake_bridge.domain.names import Identity
from wake_bridge.domain.ownership import PERSON, Invoker
from wake_bridge.domain.subscriptions import SUBSCRIPTION_LABEL
from wake_bridge.offline import owner
from wake_bridge.storage.graph.graph_file import GraphFile
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.ledger_samples import counted_ids, fresh_ledger, open_delivery, sample_event
from wake_bridge.testing.playground import Playground

AGENT = """
import json, os, pathlib, subprocess, sys, time
room = pathlib.Path(sys.argv[1])
(room / "up").write_text(str(os.getpid()))
while True:
    for asked in sorted(room.glob("*.ask")):
        done = subprocess.run(["bash", "-c", asked.read_text()], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        answer = json.dumps([done.returncode, done.stdout, done.stderr])
        asked.with_suffix(".part").write_text(answer)
        asked.unlink()
        asked.with_suffix(".part").rename(asked.with_suffix(".told"))
    time.sleep(0.02)
"""


class Agent:
    """A program called `claude` in a pane of its own, which runs what it is asked."""

    def __init__(self, world: Playground, name: str) -> None:
        self._world = world
        self.room = world.directory / name
        self.room.mkdir()
        (self.room / "agent.py").write_text(AGENT)
        line = shlex.join([sys.executable, str(self.room / "agent.py"), str(self.room)])
        environment = [f"{key}={value}" for key, value in world.sandbox.environment.items()]
        world.tmux.new_pane(["env", *environment, "bash", "-c", f"exec -a claude {line}"], session=name)
        world.sandbox.waits_for((self.room / "up").exists, what="the agent")
        self._asked = 0

    def runs(self, *arguments: str, before: str = "") -> tuple[int, str, str]:
        """What a command of wake-bridge answers that the agent runs; `before` stands before it in the line."""
        self._asked += 1
        asked = self.room / f"{self._asked}.ask"
        part = asked.with_suffix(".new")
        part.write_text(f"{before} {shlex.join([*self._world.sandbox.command, *arguments])}")
        part.rename(asked)
        told = self._world.sandbox.waits_for(asked.with_suffix(".told").exists, what="an answer")
        assert told
        code, out, err = json.loads(asked.with_suffix(".told").read_text())
        return code, out, err


@pytest.fixture
def world(tmp_path: Path, program: tuple[str, ...], tmux_program: str) -> Iterator[Playground]:  # noqa: ARG001
    with Playground(tmp_path, program) as made:
        made.sandbox.run("init")
        yield made


def test_an_agent_in_a_pane_manages_its_own_and_nothing_else(world: Playground) -> None:
    """By its pane alone, no daemon has seen it; a variable more or less changes nothing."""
    agent = Agent(world, "mine")
    world.tmux.new_pane(["sleep", "1000"], session="other")
    mine = world.sandbox.enlist("@mine", "mine")
    world.sandbox.enlist("@other", "other")

    code, _, error = agent.runs("list", "@other")

    assert code == 7
    assert "you are taken for @mine (claude, process" in error
    assert agent.runs("inbox", "@other", before="env -u WAKE_BRIDGE_AGENT -u TMUX -u TMUX_PANE")[0] == 7
    assert agent.runs("inbox", "@other", before="WAKE_BRIDGE_AGENT=@other")[0] == 7
    shown = json.loads(agent.runs("list", "--json")[1])["subscriptions"]
    assert [one["subscriptionId"] for one in shown] == [mine]


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A graph with @mine and @other; commands run in this process, as if by @mine's agent."""
    sandbox = Sandbox(tmp_path)
    for name, value in sandbox.environment.items():
        monkeypatch.setenv(name, value)
    for command in ("init", "agent add @mine", "agent add @other"):
        assert ends(command) == 0
    where = "--trigger SENT_TO_ME --harness-target bridge-daemon"
    assert ends(f"subscribe @other {where}") == 0
    monkeypatch.setattr(owner, "_found", lambda _: Invoker("claude", 1, frozenset({Identity("@mine")}), "it is so"))
    with sandbox:
        yield sandbox


def ends(command: str) -> object:
    """The exit code of a command that is run in this process."""
    with pytest.raises(SystemExit) as ended:
        cli.main(command.split())
    return ended.value.code


def test_every_command_of_the_table_ends_with_7_for_another(office: Sandbox) -> None:
    """What is done in an unknown name ends with 8, where a person would have it made."""
    with GraphFile(office.graph) as graph:
        (subscription,) = [node.id for node in graph.nodes(SUBSCRIPTION_LABEL)]
    assert ends("send @other --from @mine --subject x --task") == 0
    with GraphFile(office.graph) as graph:
        (message,) = [node.id for node in graph.nodes(MESSAGE_LABEL)]
    with fresh_ledger(office.state_dir) as ledger:
        delivery = open_delivery(ledger, sample_event(1, identity="@other"), new_id=counted_ids())
    for command in (
        f"ack {delivery.id}",
        "list @other",
        f"update {subscription} --window 9",
        f"unsubscribe {subscription}",
        f"resync {subscription} --since 0",
        "inbox @other",
        "inbox @other --consume",
        f"read @other {message}",
        f"read @other {message} --keep",
        "send @mine --from @other --subject x",
        "wake @mine x --from @other",
        f"task {message} working --as @other",
        "grant CAN_READ_INBOX_OF --to @mine --as @other",
    ):
        assert ends(command) == 7, command
    for command in ("send @mine --from @nobody --subject x", f"task {message} working --as @nobody", "wake @mine x"):
        assert ends(command) == 8, command
    assert ends("list") == 0


def test_who_may_read_an_inbox_takes_nothing_from_its_owner(
    office: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CAN_READ_INBOX_OF shows the mail; it stays unread, and its wake still comes."""
    assert ends("send @other --from @mine --subject secret") == 0
    with GraphFile(office.graph) as graph:
        (message,) = [node.id for node in graph.nodes(MESSAGE_LABEL)]
    with monkeypatch.context() as person:
        person.setattr(owner, "_found", lambda _: PERSON)
        assert ends("grant CAN_READ_INBOX_OF --to @mine --as @other") == 0
    capsys.readouterr()

    assert [ends("inbox @other"), ends(f"read @other {message} --keep")] == [0, 0]
    assert capsys.readouterr().out.count("secret") == 2
    assert [ends("inbox @other --consume"), ends(f"read @other {message}")] == [7, 7]
    with closing(LedgerStore.open(office.state_dir, read_only=True)) as ledger:
        assert ledger.announced(Identity("@other"), [message]) == set()
