"""`logs`: over rotated files in order, followed across a rotation, from systemd's journal, and one wake's whole story."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.playground import Playground


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    """A person's set-up, without panes."""
    with Sandbox(tmp_path, command=program) as made:
        made.configure()
        made.state_dir.mkdir(parents=True)
        yield made


def line(event: str, minutes_ago: float = 0, **fields: object) -> str:
    moment = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return (
        json.dumps({"timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}.000Z", "level": "info", "event": event, **fields}) + "\n"
    )


def log_file(sandbox: Sandbox, number: int = 0) -> Path:
    return sandbox.state_dir / ("wake-bridge.log" + (f".{number}" if number else ""))


def events(sandbox: Sandbox, *options: str) -> list[str]:
    return [one["event"] for one in sandbox.lines("logs", *options)]


@contextmanager
def followed(sandbox: Sandbox, *options: str) -> Iterator[IO[str]]:
    """What `logs -f` prints; it is ended however that went."""
    command = [*sandbox.command, "--json", "logs", "-f", *options]
    with subprocess.Popen(
        command, env=sandbox.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as follower:
        assert follower.stdout is not None
        try:
            yield follower.stdout
        finally:
            follower.kill()


def test_rotated_files_are_read_in_order_and_filtered_as_one_log(sandbox: Sandbox) -> None:
    """10 MB × 5; `--since` and `--agent` look over all of them, without a filter the last lines are shown."""
    for number in range(5):
        oldest_first = "".join(line(f"{number}-{count}", number * 60, agent=f"@{count}") for count in (1, 2))
        log_file(sandbox, number).write_text(oldest_first + "no json\n" * (number == 3))
    order = [f"{number}-{count}" for number in (4, 3, 2, 1, 0) for count in (1, 2)]

    assert [one for one in events(sandbox) if one != "no json"] == order
    assert events(sandbox, "--agent", "@2") == ["4-2", "3-2", "2-2", "1-2", "0-2"]
    assert events(sandbox, "--since", "90m") == ["1-1", "1-2", "0-1", "0-2"]
    log_file(sandbox).write_text("".join(line(f"n{count}") for count in range(150)))
    log_file(sandbox, 1).write_text("".join(line(f"o{count}") for count in range(150)))
    last = events(sandbox)
    assert (len(last), last[0], last[-1]) == (200, "o100", "n149")


def test_a_followed_log_goes_on_in_the_new_file_after_a_rotation(sandbox: Sandbox) -> None:
    """`-f` across a rotation: what the old file still got is told, then the new one, however large it is by then."""
    log_file(sandbox).write_text(line("before"))
    with followed(sandbox) as follower:
        told = [json.loads(follower.readline())["event"]]
        with log_file(sandbox).open("a") as old:
            log_file(sandbox).rename(log_file(sandbox, 1))
            log_file(sandbox).write_text("".join(line(f"new {count} {'x' * 100}") for count in range(3)))
            old.write(line("last of the old"))
        told += [json.loads(follower.readline())["event"].partition(" x")[0] for _ in range(4)]
        with log_file(sandbox).open("a") as new:
            new.write('{"event":"half')
            new.flush()
            time.sleep(0.5)
            new.write(' written"}\n')
        told.append(json.loads(follower.readline())["event"])

    assert told == ["before", "last of the old", "new 0", "new 1", "new 2", "half written"]


def test_without_a_file_a_service_is_read_from_its_journal(sandbox: Sandbox, tmp_path: Path) -> None:
    """Without a log file it uses the journal service, where the unit exists, or says what to do."""
    absent = sandbox.run("logs", expect=8)
    assert "there is no log file" in absent.stderr
    assert "`daemon.log_file` in the configuration makes it always write one" in absent.stderr

    programs = tmp_path / "programs"
    programs.mkdir()
    asked = tmp_path / "asked"
    journalctl = programs / "journalctl"
    journalctl.write_text(f"#!/bin/sh\necho \"$@\" >> {asked}\nprintf '%s' '{line('kept', agent='@a')}'\n")
    journalctl.chmod(0o755)
    sandbox.environment["PATH"] = f"{programs}{os.pathsep}{sandbox.environment['PATH']}"
    sandbox.run("logs", expect=8)
    assert not asked.exists()
    unit = sandbox.home / ".config/systemd/user/wake-bridge.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")

    assert events(sandbox) == ["kept"]
    assert events(sandbox, "--agent", "@b", "--since", "1h") == []
    first, second = asked.read_text().splitlines()
    assert first == "--user -u wake-bridge.service -o cat --no-pager -q -n 200"
    assert second.startswith("--user -u wake-bridge.service -o cat --no-pager -q --since @")


def test_a_daemon_in_the_foreground_tells_where_its_log_goes(sandbox: Sandbox) -> None:
    """A file behind its output is shown; a terminal is named, and older files are called old."""
    sandbox.run("init")
    sandbox.daemon()
    assert "daemon_started" in events(sandbox)
    sandbox.daemons[-1].stop()

    terminal, end = pty.openpty()
    daemon = subprocess.Popen(
        [*sandbox.command, "run"], stdin=subprocess.DEVNULL, stdout=end, stderr=end, env=sandbox.environment
    )
    try:
        told = bytearray()

        def is_up() -> bool:
            while select.select([terminal], [], [], 0)[0]:
                told.extend(os.read(terminal, 65536))
            return b"caught_up" in told and bool(sandbox.ask("status")["since"])

        sandbox.waits_for(is_up, what="the daemon")
        said = f"the daemon that runs (pid {daemon.pid}) logs to its terminal, {os.ttyname(end)}"
        assert said in sandbox.run("logs", expect=8).stderr
        log_file(sandbox).write_text(line("old"))
        assert events(sandbox) == ["old"]
        assert f"note: {said}; what follows is of earlier ones" in sandbox.run("logs").stderr
    finally:
        daemon.terminate()
        daemon.wait(60)
        os.close(end)
        os.close(terminal)


def test_one_wake_is_told_whole_across_a_restart_with_and_without_a_log(playground: Playground) -> None:
    """`logs --delivery ID` is one wake's whole story across restarts, from the ledger's journal and the log."""
    sandbox = playground.sandbox
    log = playground.directory / "daemon.log"
    sandbox.configure(f'{QUICK}daemon.log_file = "{log}"\n')
    sandbox.run("init")
    agent = playground.enlisted("agent")
    agent.fake.shows("approval")
    sandbox.daemon()
    message = sandbox.send("@agent", "hello")
    delivery = str(sandbox.waits_for_delivery(hold_reason="waitingOnApproval")["id"])
    assert sandbox.daemons[-1].stop() == 0
    sandbox.daemon()
    agent.fake.shows("idle")
    sandbox.waits_for_delivery(outcome="submitted")
    sandbox.daemons[-1].stop()

    story = sandbox.lines("logs", "--delivery", delivery)
    words = sandbox.run("logs", "--delivery", delivery).stdout
    log.unlink()
    alone = sandbox.run("--json", "logs", "--delivery", delivery)

    assert _steps(story, "ledger") == _steps([json.loads(one) for one in alone.stdout.splitlines()], "ledger")
    assert [one for one in _steps(story, "ledger") if one not in {"held", "probed", "released"}] == [
        "matched",
        "opened",
        "dispatched",
        "locked",
        "intent_stage",
        "staged",
        "intent_submit",
        "submitted",
        "settled",
    ]
    assert story[0]["subject_key"] == message
    logged = _steps(story, "log")
    assert logged.index("delivery_held") < logged.index("daemon_stopped") < logged.index("daemon_started")
    assert logged.index("daemon_started") < logged.index("delivery_settled")
    assert [one["timestamp"] for one in story] == sorted(one["timestamp"] for one in story)
    assert "this comes from the ledger alone" in alone.stderr
    assert words.rstrip().splitlines()[-2].startswith("@agent: announced ")


def _steps(story: list[dict[str, Any]], source: str) -> list[str]:
    return [str(one["event"]) for one in story if one["source"] == source]


def test_the_story_of_a_delivery_can_be_followed_without_any_log(playground: Playground) -> None:
    """`-f --delivery` goes on with what the ledger's journal gets, log file or not; an unknown one is not found."""
    sandbox = playground.sandbox
    sandbox.run("init")
    agent = playground.enlisted("agent")
    agent.fake.shows("approval")
    sandbox.daemon()
    sandbox.send("@agent", "hello")
    delivery = str(sandbox.waits_for_delivery(hold_reason="waitingOnApproval")["id"])
    assert sandbox.run("logs", "--delivery", "none", expect=8).stderr.startswith("error: no such delivery")

    told: list[str] = []
    with followed(sandbox, "--delivery", delivery) as follower:
        agent.fake.shows("idle")
        while "settled" not in told:
            entry = json.loads(follower.readline())
            told += [entry["event"]] if entry["source"] == "ledger" else []

    assert told[:3] == ["matched", "opened", "dispatched"]
    assert len([one for one in told if one != "held"]) == len({one for one in told if one != "held"})
