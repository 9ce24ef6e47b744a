"""Bad input: its exit code, a clear error with what to do, and nothing lost."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.memory_core import MemoryCore, MemoryCoreProcess
from wake_bridge.testing.playground import Playground

FAMILY = ("", "-wal", "-shm")
"""The files of one SQLite database."""


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """wake-bridge in a HOME of its own, without any tmux."""
    with Sandbox(tmp_path, command=program) as alone:
        alone.configure()
        yield alone


@pytest.fixture
def world(playground: Playground) -> Playground:
    """An embedded graph and nobody in it yet."""
    playground.sandbox.run("init")
    return playground


def _complains(answer: subprocess.CompletedProcess[str], what: str, hint: str) -> None:
    """It says what failed and what to do, on stderr, and nothing else."""
    lines = answer.stderr.strip().splitlines()
    assert lines[0].startswith("error: "), answer.stderr
    assert what in lines[0]
    assert lines[-1].startswith("hint: ")
    assert hint in lines[-1]
    assert "Traceback" not in answer.stderr
    assert '"error"' not in answer.stdout


# -- the graph -------------------------------------------------------------------------------------------------------


def _nothing(_: Path) -> None:
    """There is no file."""


def _a_text(path: Path) -> None:
    path.write_text("I am no database, but I am important.\n" * 100)


def _a_database_without_a_log(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE Nodes (id TEXT PRIMARY KEY, data TEXT)")
        connection.execute("CREATE TABLE Edges (id TEXT PRIMARY KEY, source TEXT, target TEXT, type TEXT, data TEXT)")
        connection.commit()


def _a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "what", "hint"),
    [
        (_nothing, "there is no graph", "`wake-bridge setup` or `init` makes one"),
        (_a_text, "this file is not a", "set graph.path"),
        (_a_database_without_a_log, "not a graph: it has no GraphLog", "set graph.path"),
        (_a_directory, "", ""),
    ],
    ids=["no file", "a text", "no GraphLog", "a directory"],
)
def test_what_is_no_graph_ends_with_4_and_is_left_as_it_is(
    sandbox: Sandbox, make: object, what: str, hint: str
) -> None:
    """Exit 4, source graph missing, unreadable or not a graph; `status` goes on and says so."""
    graph = sandbox.home / "graph.sqlite"
    assert callable(make)
    make(graph)
    before = graph.read_bytes() if graph.is_file() else None
    sandbox.configure(f'graph.path = "{graph}"\n')

    for command in (
        ["run"],
        ["run", "--once", "--dry-run"],
        ["send", "@a", "--from", "@b", "--subject", "s"],
    ):
        answer = sandbox.run(*command, expect=4)
        _complains(answer, what, hint)
        assert str(graph) in answer.stderr
    status = sandbox.ask("status")

    assert (status["running"], status["cursor"], status["tip"]) == ("no", None, None)
    assert status["graph_trouble"]
    assert (graph.read_bytes() if graph.is_file() else None) == before


def test_broken_rows_are_set_aside_and_the_good_ones_between_them_wake(world: Playground) -> None:
    """A row with broken JSON is one counted, logged, quarantined entry."""
    agent = world.enlisted("a")
    daemon = world.sandbox.daemon()
    with MemoryCore(world.sandbox.graph) as core:
        core.identity("@b")
        first = core.send("@b", "@a", "before the rubbish")
        core.sql(
            "INSERT INTO Nodes(id, user_id, data) VALUES ('MESSAGE:broken', NULL, ?)", '{"label": "MESSAGE", "prop'
        )
        core.sql("INSERT INTO Nodes(id, user_id, data) VALUES ('MESSAGE:odd', NULL, '[1, 2, 3]')")
        core.sql("INSERT INTO Nodes(id, user_id, data) VALUES ('WAKE_SUB:broken', NULL, 'no json at all')")
        core.sql("INSERT INTO Edges VALUES ('edge', NULL, 'MESSAGE:broken', '@a', 'SENT_TO', '{\"properties\": ')")
        core.put("MESSAGE:nobody", "MESSAGE", {"subject": "who sent me?", "to": "@a"})
        core.link("MESSAGE:nobody", "@a", "SENT_TO", {})
        core.sql("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('HEARTBEAT_PULSE:nobody', 'heartbeat_pulse')")
        second = core.send("@b", "@a", "after the rubbish")

    def told() -> set[str]:
        wakes = [one for one in world.sandbox.deliveries() if one["outcome"] == "submitted"]
        return {event["subject_key"] for one in wakes for event in one["events"]}

    assert world.sandbox.waits_for(lambda: told() if told() >= {first, second} else None) == {first, second}
    status = world.sandbox.ask("status")
    aside = {entry["entity"] for entry in daemon.entries("row_quarantined")}
    assert {"MESSAGE:broken", "MESSAGE:odd", "WAKE_SUB:broken", "HEARTBEAT_PULSE:nobody"} <= aside
    assert status["quarantined"] >= len(aside)
    assert status["lag"] == 0
    assert "rubbish" in "".join(agent.fake.submits())


# -- configuration and state -----------------------------------------------------------------------------------------


def test_every_mistake_of_a_configuration_is_shown_at_once(sandbox: Sandbox) -> None:
    """Exit 3; file, key path, value and what was meant, for all of them."""
    sandbox.configure('coalesce.windw = 10\ndelivery.lease = "long"\n[notifications]\nemail = "me"\n')

    for command in (["run"], ["config", "check"], ["send", "@a", "--from", "@b", "--subject", "s"]):
        answer = sandbox.run(*command, expect=3)
        assert answer.stderr.startswith("error: the configuration has 3 mistakes: ")
        assert str(sandbox.config_file) in answer.stderr
        mistakes = [line for line in answer.stderr.splitlines() if line.startswith("  ")]
        assert len(mistakes) == 3, answer.stderr
        for words in (("coalesce.windw", "window"), ("delivery.lease", "long"), ("notifications",)):
            assert any(all(word in line for word in words) for line in mistakes), (words, mistakes)
        assert answer.stderr.splitlines()[-1].startswith("hint: ")
    said = sandbox.ask("config", "check", expect=3)
    assert said["ok"] is False
    assert [one.partition(": ")[2].split()[0] for one in said["mistakes"]] == [
        "coalesce.windw",
        "delivery.lease",
        "notifications:",
    ]
    assert not sandbox.state_dir.exists()


def test_a_notify_send_that_would_take_a_text_for_an_option_is_advised_of(sandbox: Sandbox) -> None:
    """`config check` is good and says what is better, for [human] and for a channel, whose command it does not repeat."""
    words = "notify-send takes a text that begins with - for an option"
    sandbox.configure(
        'human.command = ["notify-send", "{title}", "{body}"]\n'
        '[channels.desk]\nkind = "command"\ncommand = ["/usr/bin/notify-send", "--app-name=hunter2", "{title}"]\n'
    )
    advised = sandbox.run("config", "check").stderr
    assert advised.splitlines() == [
        f'note: {table}.command: {words}: put "--" before {{title}} and {{body}}'
        for table in ("human", "channels.desk")
    ]
    assert "hunter2" not in advised
    sandbox.configure('human.command = ["notify-send", "--", "{title}", "{body}"]\n')
    assert sandbox.run("config", "check").stderr == ""


def test_a_state_directory_that_cannot_be_written_ends_with_1_and_loses_nothing(world: Playground) -> None:
    """Exit 1, error and hint; what was sent meanwhile wakes once the directory is good."""
    agent = world.enlisted("a")
    file = world.sandbox.home / "file"
    file.write_text("a file")
    good = world.sandbox.config_file.read_text()
    # below a file, and where not even root may write
    for bad in (file / "state", Path("/proc/self/fdinfo")):
        world.sandbox.configure(f'{QUICK}daemon.state_dir = "{bad}"\n')
        world.sandbox.send("@a", f"not lost by {bad.name}")
        for command in (["run"], ["run", "--once"], ["pause", "@a"]):
            answer = world.sandbox.run(*command, expect=1)
            _complains(answer, str(bad), "")
        assert world.sandbox.ask("status")["running"] in {"no", "cannot_tell"}
    assert file.read_text() == "a file"

    world.sandbox.config_file.write_text(good)
    world.sandbox.run("run", "--once")
    (text,) = agent.fake.submits()
    assert "2 new messages" in text


# -- a graph that goes away while it is read -------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=[pytest.mark.torture, pytest.mark.timeout(300)])])
def test_a_locked_graph_is_waited_for(world: Playground, seconds: int) -> None:
    """At the start and later; what is written under the lock wakes once, what was due holds `graph_away`."""
    agent = world.enlisted("a")
    with contextlib.closing(sqlite3.connect(world.sandbox.graph)) as connection:
        # readers of a WAL are never locked out; those of a rollback journal are
        connection.execute("PRAGMA journal_mode = DELETE")
    with MemoryCoreProcess(world.sandbox.graph) as core:
        core.do("identity", "@b")
        core.do("sql", "BEGIN EXCLUSIVE")
        daemon = world.sandbox.daemon_under_way()
        daemon.waits_for_log("graph_away")
        core.do("sql", "COMMIT")
        daemon.waits_for_log("caught_up")

        agent.fake.shows("busy")
        due = core.do("send", "@b", "@a", "due meanwhile")
        world.sandbox.waits_for_delivery(hold_reason="active")
        core.do("sql", "BEGIN EXCLUSIVE")
        locked_at = time.monotonic()
        under_lock = core.do("send", "@b", "@a", "written under the lock")
        agent.fake.shows("idle")
        held = world.sandbox.waits_for_delivery(hold_reason="graph_away")
        time.sleep(max(0, seconds - (time.monotonic() - locked_at)))
        assert daemon.process.poll() is None
        assert agent.fake.bytes_received() == b""
        core.do("sql", "COMMIT")
    daemon.waits_for_log("graph_back")
    told = world.sandbox.waits_for(lambda: _told(world.sandbox) if len(_told(world.sandbox)) == 2 else None)

    assert held["remedy"] == "nothing to do: the graph cannot be read at the moment; wake-bridge tries again"
    assert sorted(told) == sorted([due, under_lock])
    assert "".join(agent.fake.submits()).count("written under the lock") == 1


def _told(sandbox: Sandbox) -> list[str]:
    """The subjects of all submitted wakes."""
    wakes = [one for one in sandbox.deliveries() if one["outcome"] == "submitted"]
    return [event["subject_key"] for one in wakes for event in one["events"]]


def test_a_graph_that_vanishes_and_comes_back_goes_on_where_it_was(world: Playground) -> None:
    """Same file, same epoch; what was written elsewhere meanwhile wakes once."""
    agent = world.enlisted("a")
    daemon = world.sandbox.daemon()
    first = world.sandbox.send("@a", "before")
    agent.fake.waits_for("submit")
    elsewhere = world.directory / "elsewhere.sqlite"

    _move(world.sandbox.graph, elsewhere)
    daemon.waits_for_log("graph_away")
    assert world.sandbox.ask("status")["graph_trouble"]
    with MemoryCore(elsewhere) as core:
        second = core.send("@me", "@a", "meanwhile")
    assert daemon.process.poll() is None
    _move(elsewhere, world.sandbox.graph)
    daemon.waits_for_log("graph_back")
    agent.fake.waits_for("submit", count=2)
    world.sandbox.waits_for(lambda: len(_told(world.sandbox)) == 2)

    assert sorted(_told(world.sandbox)) == sorted([first, second])
    assert world.sandbox.ask("status")["epoch"] == 1


def _move(source: Path, destination: Path) -> None:
    for suffix in FAMILY:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{source}{suffix}").rename(f"{destination}{suffix}")


def test_a_graph_replaced_by_another_begins_a_new_epoch_with_its_unread_mail(world: Playground) -> None:
    """Another file with another past: to the tip, a look-back, never from 0, never silent."""
    agent = world.enlisted("a")
    other = world.directory / "other.sqlite"
    with MemoryCore.create(other, ["@a", "@b"]) as core:
        core.subscribe("@a", harnessTargetMetadata={"adapter": "tmux", "tmuxSession": "a", "coalesceWindow": 0})
        core.send("@b", "@a", "read already", readAt="2026-01-01T00:00:00.000Z")
        core.send("@b", "@a", "from another year", sentAt="2020-01-01T00:00:00.000Z")
        fresh = core.send("@b", "@a", "unread in the other graph")
        core.noise(200)
        core.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    daemon = world.sandbox.daemon()
    first = world.sandbox.send("@a", "in the first graph")
    agent.fake.waits_for("submit")
    world.sandbox.waits_for(lambda: _told(world.sandbox) == [first])

    _move(world.sandbox.graph, world.directory / "old.sqlite")
    _move(other, world.sandbox.graph)
    daemon.waits_for_log("epoch_began", count=2)
    agent.fake.waits_for("submit", count=2)
    with MemoryCore(world.sandbox.graph) as core:
        later = core.send("@b", "@a", "and it goes on")
    agent.fake.waits_for("submit", count=3)
    world.sandbox.waits_for(lambda: len(_told(world.sandbox)) == 3)

    assert sorted(_told(world.sandbox)) == sorted([first, fresh, later])
    assert len(daemon.entries("graph_replaced")) == 1
    assert [entry["reason"] for entry in daemon.entries("cursor_lost")]
    assert world.sandbox.ask("status")["epoch"] == 2
