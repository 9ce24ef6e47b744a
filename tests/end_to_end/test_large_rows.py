"""Rows of a hundred megabytes, and views without end, before a real daemon and real commands."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.system.clock import timestamp_now
from wake_bridge.testing import HUNG, until

MEGABYTE: Final = 1_000_000
MOST_OF_A_DAEMON: Final = 100
MOST_OF_A_COMMAND: Final = 80
"""Megabytes resident, at the most there ever were."""

LITTLE_MEMORY: Final = "ulimit -v 550000"
ENDLESS: Final = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT n AS id, n AS user_id, n AS data FROM more"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command said, the processor time (s) it took, and the most memory (MB) it had."""

    code: int
    output: str
    errors: str
    seconds: float
    peak: float


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """wake-bridge in a HOME of its own, where @bob is woken for mail in a pane that is not there."""
    with Sandbox(tmp_path, "nobody-serves-here", program) as one:
        one.configure()
        one.run("init")
        for identity in ("@ada", "@bob", "@cyd"):
            one.run("agent", "add", identity)
        one.run("subscribe", "@bob", "--trigger", "SENT_TO_ME", "--tmux", "nowhere:0", "--window", "0")
        yield one
    # a hundred megabytes are not kept for three runs of the tests
    one.graph.unlink(missing_ok=True)
    Path(f"{one.graph}-wal").unlink(missing_ok=True)


MEASURED: Final = """
import atexit, pathlib, sys, time
begun = time.thread_time()
def tell():
    status = pathlib.Path("/proc/self/status").read_text()
    pathlib.Path("took").write_text(f"{status}\\nProcessorTime: {time.thread_time() - begun}")
atexit.register(tell)
from wake_bridge.cli.start import main
main()
"""


def measured(sandbox: Sandbox, *arguments: str) -> Ended:
    """One command, with what it took; it measures itself, for a child has its parent's memory at first."""
    took = sandbox.home / "took"
    took.unlink(missing_ok=True)
    command, sandbox.command = sandbox.command, (sys.executable, "-c", MEASURED)
    try:
        # one that uses up its processor time has as much as that takes on a busy machine
        ended = sandbox.run(*arguments, expect=None, timeout=4 * HUNG)
    finally:
        sandbox.command = command
    facts = dict(line.split(":", 1) for line in took.read_text(encoding="utf-8").splitlines() if ":" in line)
    peak = int(facts["VmHWM"].split()[0]) / 1000
    return Ended(ended.returncode, ended.stdout, ended.stderr, float(facts["ProcessorTime"]), peak)


def peak_of(daemon: DaemonProcess) -> float:
    """The most memory a daemon ever had, in MB."""
    status = Path(f"/proc/{daemon.pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1000


def stores(sandbox: Sandbox, count: int, megabytes: int, recipient: str = "@bob", label: str = "MESSAGE") -> list[str]:
    """Messages of that size, as another program would write them."""
    ids = [f"{label}:{recipient}-{megabytes}-{number}" for number in range(count)]
    with contextlib.closing(sqlite3.connect(sandbox.graph, isolation_level=None)) as graph:
        for node in ids:
            graph.execute(
                'INSERT INTO Nodes(id, data) VALUES (?1, \'{"id":"\' || ?1 || \'","label":"\' || ?3 ||'
                ' \'","properties":{"subject":"subject of \' || ?1 || \'","bodyText":"\' ||'
                ' hex(zeroblob(?2 / 2)) || \'","from":"@ada","readAt":null}}\')',
                (node, megabytes * MEGABYTE, label),
            )
            for kind, target in (("SENT_BY", "@ada"), ("SENT_TO", recipient)):
                graph.execute(
                    "INSERT INTO Edges(id, source, target, type, data) VALUES (?1 || ?2, ?1, ?3, ?2,"
                    " json_object('properties', json_object('timestamp', ?4, 'userId', 'ada')))",
                    (node, kind, target, timestamp_now()),
                )
        graph.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ids


def matched(daemon: DaemonProcess, subject: str) -> None:
    """Wait until a message was matched."""
    until(
        lambda: any(one.get("subject_key") == subject for one in daemon.entries("event_matched")),
        f"the match of {subject}",
    )


@pytest.mark.parametrize("others", [3, pytest.param(50, marks=[pytest.mark.torture, pytest.mark.timeout(400)])])
def test_messages_of_a_hundred_megabytes_wake_and_are_told_without_being_loaded(
    sandbox: Sandbox, others: int, record_property: Callable[[str, object], None]
) -> None:
    """The daemon stays below 100 MB, `inbox` below 80 MB; mail that is too large is told, once, and no wake vanishes."""
    daemon = sandbox.daemon()
    large = stores(sandbox, 1, 100) + stores(sandbox, others, 20)
    stores(sandbox, 1, 20, recipient="@cyd")
    stores(sandbox, 1, 20, label="EMBEDDING")
    small = sandbox.send("@bob", "a small one", "--body", "the small text", sender="@ada")

    for message in (*large, small):
        matched(daemon, message)
    assert not daemon.entries("row_quarantined")
    assert peak_of(daemon) <= MOST_OF_A_DAEMON

    wanted, told = {*large, small}, ""
    while missing := {one for one in wanted if one not in told}:
        seen = measured(sandbox, "inbox", "@bob", "--bodies", "--consume", "--limit", "50")
        assert seen.code == 0, seen.errors
        assert seen.peak <= MOST_OF_A_COMMAND
        assert seen.seconds <= 1
        told += seen.output
        assert missing != {one for one in wanted if one not in told}
    assert f"subject of {large[0]}" in told
    assert f"(100.0 MB: too large to show; id {large[0]})" in told
    assert "the small text" in told
    record_property("trials", len(wanted))

    again = measured(sandbox, "inbox", "@bob")
    assert "no unread mail" in again.output
    assert large[1] in measured(sandbox, "read", "@bob", large[1]).output


def test_a_daemon_with_little_memory_starts_at_a_large_row_and_tells_what_comes_after(
    sandbox: Sandbox, program: tuple[str, ...]
) -> None:
    """Under `ulimit -v 550000` it died at that row at every start, and later mail never arrived."""
    sandbox.daemon().stop()
    large = stores(sandbox, 1, 100) + stores(sandbox, 1, 60)
    sandbox.command = ("bash", "-c", f'{LITTLE_MEMORY}; exec "$@"', "bash", *program)
    daemon = sandbox.daemon()
    sandbox.command = program
    later = sandbox.send("@bob", "later", sender="@ada")
    for message in (*large, later):
        matched(daemon, message)
    assert daemon.process.poll() is None


def test_what_is_too_large_to_be_read_is_not_sent(sandbox: Sandbox) -> None:
    """`send` says what is too much, and writes nothing; the largest body can be read."""
    tip = sandbox.ask("status")["tip"]
    refused = sandbox.run(
        "send", "@bob", "--from", "@ada", "--subject", "s", "--body", "-", text="x" * 1_000_001, expect=2
    )
    assert "too large" in refused.stderr
    assert "1,000,000" in refused.stderr
    assert sandbox.ask("status")["tip"] == tip

    sandbox.run("send", "@bob", "--from", "@ada", "--subject", "s", "--body", "-", text="x" * 999_000)
    (mail,) = sandbox.lines("inbox", "@bob", "--bodies", "--consume")
    assert mail["body"] == "x" * 999_000
    assert sandbox.lines("inbox", "@bob") == []


def test_a_view_in_place_of_a_table_is_refused_at_once(sandbox: Sandbox) -> None:
    """An endless view called `Nodes` stalled commands for a minute; a real graph has tables."""
    with contextlib.closing(sqlite3.connect(sandbox.graph, isolation_level=None)) as graph:
        graph.execute("ALTER TABLE Nodes RENAME TO Kept")
        graph.execute(f"CREATE VIEW Nodes AS {ENDLESS}")
    for command in (("inbox", "@bob"), ("send", "@bob", "--from", "@ada", "--subject", "s"), ("list",), ("run",)):
        ended = measured(sandbox, *command)
        assert ended.code == 4, (command, ended)
        assert "its Nodes is a view" in ended.errors, command


def test_a_question_that_never_ends_is_ended_and_the_daemon_waits_and_recovers(sandbox: Sandbox) -> None:
    """Every question has a budget; the daemon is `graph_away` meanwhile, and goes on afterwards."""
    daemon = sandbox.daemon()
    with contextlib.closing(sqlite3.connect(sandbox.graph, isolation_level=None)) as graph:
        # the daemon holds the file open: it meets the view without having looked at the schema
        graph.execute("ALTER TABLE Nodes RENAME TO Kept")
        graph.execute(f"CREATE VIEW Nodes AS {ENDLESS}")
        graph.execute("INSERT INTO GraphLog(entity_id, entity_type) VALUES ('@bob', 'nodes')")
    (away, *_) = daemon.waits_for_log("graph_away")
    assert "processor time" in away["reason"] or "is a view" in away["reason"]
    assert daemon.process.poll() is None

    with contextlib.closing(sqlite3.connect(sandbox.graph, isolation_level=None)) as graph:
        graph.execute("DROP VIEW Nodes")
        graph.execute("ALTER TABLE Kept RENAME TO Nodes")
    later = sandbox.send("@bob", "later", sender="@ada")
    matched(daemon, later)
    daemon.waits_for_log("graph_back")


def test_a_trigger_that_never_ends_stalls_no_command(sandbox: Sandbox) -> None:
    """A statement that writes has the same budget; what stalled is said, and the exit code tells."""
    with contextlib.closing(sqlite3.connect(sandbox.graph, isolation_level=None)) as graph:
        graph.execute(f"CREATE TRIGGER endless AFTER INSERT ON Nodes BEGIN SELECT COUNT(*) FROM ({ENDLESS}); END")
    ended = measured(sandbox, "send", "@bob", "--from", "@ada", "--subject", "s")
    assert ended.code == 4
    assert "processor time" in ended.errors
    assert ".schema" in ended.errors
