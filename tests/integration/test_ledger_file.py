"""The file the ledger lives in: private, durable, versioned, and what happens when it cannot be used."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wake_bridge.domain.errors import LedgerDisplaced, LedgerError, LedgerTooNew, LedgerUnwritable
from wake_bridge.domain.names import Epoch, Instant, LogId
from wake_bridge.ports.ledger import Ledger
from wake_bridge.ports.ledger_records import PageRecord, Position, TaskState
from wake_bridge.storage.ledger import LedgerStore, database
from wake_bridge.storage.ledger.ledger_file import MIGRATIONS
from wake_bridge.testing.ledger_samples import (
    AGENT,
    START,
    advance,
    busy,
    counted_ids,
    fresh_ledger,
    later,
    lock_with_its_events,
    open_delivery,
    sample_event,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def as_port(store: LedgerStore) -> Ledger:
    """The type checker's proof that the store keeps the port."""
    return store


@pytest.fixture
def wide_open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def run_python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fill(directory: Path, events: int = 200) -> None:
    with fresh_ledger(directory) as ledger:
        advance(ledger, *(sample_event(row) for row in range(1, events + 1)))
        ledger.gather(START, counted_ids())


# -- private and durable -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("wide_open_umask")
def test_the_ledger_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    """0700/0600, the log and the shared memory file included."""
    directory = tmp_path / "made" / "state"
    with closing(LedgerStore.open(directory)) as ledger:
        ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", START)
        advance(ledger, sample_event(1))

        assert mode_of(directory) == 0o700
        assert mode_of(directory.parent) == 0o700
        files = sorted(directory.iterdir())
        assert [file.name for file in files] == ["state.sqlite", "state.sqlite-shm", "state.sqlite-wal"]
        assert {mode_of(file) for file in files} == {0o600}


def test_a_directory_and_a_file_that_stood_open_are_closed(tmp_path: Path) -> None:
    """0700/0600 also for what was there before."""
    fill(tmp_path)
    tmp_path.chmod(0o755)
    (tmp_path / "state.sqlite").chmod(0o644)

    LedgerStore.open(tmp_path).close()

    assert (mode_of(tmp_path), mode_of(tmp_path / "state.sqlite")) == (0o700, 0o600)


def test_every_commit_is_flushed_to_disk(tmp_path: Path) -> None:
    """WAL, synchronous FULL, foreign keys, a busy time-out, a version from the first commit."""
    with fresh_ledger(tmp_path) as ledger:
        as_port(ledger)
        settings = {
            name: ledger._db.value(f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "user_version")
        }

    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "user_version": len(MIGRATIONS),
    }


def test_a_hold_waits_for_no_disk_and_what_a_crash_is_judged_by_does(tmp_path: Path) -> None:
    """Who waits, and why, follows from the events: after a power cut it is found out again."""
    run: list[str] = []
    with fresh_ledger(tmp_path) as ledger:
        delivery = open_delivery(ledger, sample_event(1), new_id=counted_ids())
        ledger._db.connection.set_trace_callback(run.append)
        held = ledger.hold(ledger.dispatch(delivery, later(30_000)), busy(later(35_000)), later(30_000))
        lock_with_its_events(ledger, held, later(35_000))
    synced, found = 2, []
    for statement in run:
        if statement.startswith("PRAGMA synchronous = "):
            synced = int(statement[-1])
        elif statement == "COMMIT":
            found.append(synced)
    assert (synced, found) == (2, [1, 1, 2]), "dispatched, held, locked"


def test_what_was_written_is_there_after_opening_again(tmp_path: Path) -> None:
    """The ledger is durable."""
    fill(tmp_path, events=3)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        assert ledger.position() == Position(Epoch(1), LogId(3))
        (delivery,) = ledger.unsettled()
        assert [event.log_id for event in ledger.events_of(delivery.id)] == [1, 2, 3]
        assert ledger.set_aside is None


def test_processes_that_open_a_new_ledger_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    """Daemon and commands use one file at once, from its first instant on."""
    script = """
        import sys
        from pathlib import Path
        from wake_bridge.storage.ledger import LedgerStore

        print("ready", flush=True)
        sys.stdin.readline()
        ledger = LedgerStore.open(Path(sys.argv[1]))
        ledger.pause(sys.argv[2], None, 1)
        ledger.close()
    """
    for attempt in range(3):
        directory = tmp_path / str(attempt)
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(script), str(directory), f"@agent{number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(6)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.communicate(timeout=60)[1] for process in processes] == [""] * len(processes)

        with closing(LedgerStore.open(directory)) as ledger:
            assert len(ledger.pauses(Instant(2))) == len(processes)
            assert ledger.set_aside is None


# -- versions and damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
def test_a_ledger_of_a_later_version_is_refused_untouched(tmp_path: Path, read_only: bool) -> None:
    """Newer than ours is a clear error."""
    fill(tmp_path)
    with closing(sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")

    with pytest.raises(LedgerTooNew, match="version 99") as refusal:
        LedgerStore.open(tmp_path, read_only=read_only)

    assert "daemon.state_dir" in refusal.value.hint
    assert [file.name for file in tmp_path.glob("*corrupt*")] == []


def test_an_older_program_refuses_a_newer_ledger_and_names_the_copy_that_it_can_read(tmp_path: Path) -> None:
    """Before any migration the ledger is copied; put back, the copy goes on under the program that wrote it."""
    older, newer = MIGRATIONS[:-1], MIGRATIONS
    LedgerStore.open(tmp_path, migrations=MIGRATIONS[:-2]).close()
    LedgerStore.open(tmp_path, migrations=older).close()
    LedgerStore.open(tmp_path, migrations=newer).close()
    copy = tmp_path / f"state.sqlite.before-v{len(newer)}"
    (tmp_path / "state.sqlite.before-v99").write_bytes(b"cut off")
    (tmp_path / f"{copy.name}.part").write_bytes(copy.read_bytes())

    for read_only in (False, True):
        with pytest.raises(LedgerTooNew) as refusal:
            LedgerStore.open(tmp_path, read_only=read_only, migrations=older)
        assert refusal.value.hint.endswith(f"go back to the copy from before the update: {copy}")

    (tmp_path / "state.sqlite").write_bytes(copy.read_bytes())
    LedgerStore.open(tmp_path, migrations=older).close()


def overwrite_all(path: Path) -> None:
    path.write_text("this is no database\n" * 2000)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scribble_into_the_middle(path: Path) -> None:
    with path.open("rb+") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 8192)


@pytest.mark.parametrize("damage", [overwrite_all, cut_in_half, scribble_into_the_middle])
def test_a_damaged_ledger_is_set_aside_and_a_new_one_begun(tmp_path: Path, damage: object) -> None:
    """Corrupt means set aside, start anew, and one warning (the caller is told where it went)."""
    fill(tmp_path, events=2000)
    path = tmp_path / "state.sqlite"
    assert callable(damage)
    damage(path)
    damaged = path.read_bytes()

    with closing(LedgerStore.open(tmp_path)) as ledger:
        assert ledger.set_aside is not None
        assert ledger.set_aside is not None
        assert ledger.set_aside.name.startswith("state.sqlite.corrupt-2")
        assert ledger.set_aside.read_bytes() == damaged
        assert ledger.position() is None
        ledger.begin_epoch(Position(Epoch(1), LogId(7)), [], "corrupt", START)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        assert ledger.set_aside is None
        assert ledger.position() == Position(Epoch(1), LogId(7))


def test_the_log_of_a_damaged_ledger_never_meets_the_new_one(tmp_path: Path) -> None:
    """A write-ahead log left beside a new file would be played into it."""
    died = run_python(
        """
        import os, signal, sys
        from pathlib import Path
        from wake_bridge.testing.ledger_samples import advance, fresh_ledger, sample_event

        with fresh_ledger(Path(sys.argv[1])) as ledger:
            ledger._db.value("PRAGMA wal_checkpoint(TRUNCATE)")
            advance(ledger, sample_event(1))
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert died.returncode == -signal.SIGKILL
    log = (tmp_path / "state.sqlite-wal").read_bytes()
    os.truncate(tmp_path / "state.sqlite", 8192)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        assert ledger.set_aside is not None
        assert ledger.set_aside.with_name(ledger.set_aside.name + "-wal").read_bytes() == log
        assert ledger.position() is None
        assert ledger.find_events(log_id=LogId(1)) == []


def test_a_damaged_ledger_that_another_process_has_open_stays_where_it_is(tmp_path: Path) -> None:
    """A command must not pull the file away under a running daemon, which would go on writing into it."""
    fill(tmp_path)
    path = tmp_path / "state.sqlite"
    script = """
        import sys
        from pathlib import Path
        from wake_bridge.storage.ledger import LedgerStore

        ledger = LedgerStore.open(Path(sys.argv[1]))
        ledger.position()
        print("open", flush=True)
        sys.stdin.readline()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        size = path.stat().st_size
        with path.open("rb+") as file:
            file.write(b"\xa5" * size)

        with pytest.raises(LedgerError, match="another process has it open") as refusal:
            LedgerStore.open(tmp_path)
        assert "stop the daemon" in refusal.value.hint
        assert path.exists()
        holder.communicate("go\n", timeout=60)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        assert ledger.set_aside is not None


# -- a directory or a disk that refuses ----------------------------------------------------------------------------


def test_a_state_directory_that_cannot_be_made_says_what_where_and_what_to_do(tmp_path: Path) -> None:
    """An error says what failed, where, and what to do now."""
    (tmp_path / "file").write_text("")

    with pytest.raises(LedgerUnwritable) as refusal:
        LedgerStore.open(tmp_path / "file" / "state")

    assert "state directory cannot be used" in refusal.value.what
    assert refusal.value.where == str(tmp_path / "file" / "state")
    assert "daemon.state_dir" in refusal.value.hint


@pytest.mark.parametrize(
    ("what", "directory_mode", "file_mode"), [("directory", 0o500, 0o600), ("file", 0o700, 0o400), ("foreign", 0, 0)]
)
def test_a_state_directory_without_the_right_to_write_is_refused(
    what: str, directory_mode: int, file_mode: int
) -> None:
    """Nothing is begun that could not be written down, and no right is taken that was not given."""
    script = """
        import os, sys
        from pathlib import Path
        from wake_bridge.storage.ledger import LedgerStore
        from wake_bridge.domain.errors import LedgerUnwritable

        directory, what, directory_mode, file_mode = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
        nobody = 65534
        LedgerStore.open(directory).close()
        if what == "foreign":
            directory.chmod(0o777)
        else:
            (directory / "state.sqlite").chmod(file_mode)
            directory.chmod(directory_mode)
        if os.getuid() == 0:
            if what != "foreign":
                os.chown(directory / "state.sqlite", nobody, nobody)
                os.chown(directory, nobody, nobody)
            os.setgid(nobody)
            os.setuid(nobody)
        try:
            LedgerStore.open(directory)
        except LedgerUnwritable as refusal:
            print(refusal, "|", refusal.hint)
    """
    if what == "foreign" and os.getuid() != 0:
        pytest.skip("only root can make a directory of another user")
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o777)
        result = run_python(script, Path(above) / "state", what, directory_mode, file_mode)
        (Path(above) / "state").chmod(0o700)

    assert result.stderr == ""
    assert "the state directory cannot be used" in result.stdout
    assert "make this user its owner" in result.stdout


@pytest.mark.parametrize("lost", ["the directory", "state.sqlite", "state.sqlite-wal"])
def test_nothing_is_written_into_a_ledger_that_is_gone_from_its_place(tmp_path: Path, lost: str) -> None:
    """What is written into a deleted file is lost with its process; put back, it knows all it knew."""
    directory = tmp_path / "state"
    with fresh_ledger(directory) as ledger:
        advance(ledger, sample_event(1))
        if lost == "the directory":
            shutil.rmtree(directory)
        else:
            (directory / lost).unlink()
        with pytest.raises(LedgerDisplaced, match="was deleted"):
            advance(ledger, sample_event(2))
        assert "was deleted" in ledger.trouble

        ledger.put_back()
        assert ledger.trouble == ""
        advance(ledger, sample_event(3))
        with closing(LedgerStore.open(directory, read_only=True)) as seen:
            assert seen.position() == Position(Epoch(1), LogId(3))
            assert len(seen.find_events(log_id=LogId(1))) == 1
        assert stat.S_IMODE((directory / "state.sqlite").stat().st_mode) == 0o600


def test_another_ledger_in_its_place_is_never_replaced(tmp_path: Path) -> None:
    """It may know what the open one does not; a person chooses."""
    directory, other = tmp_path / "state", tmp_path / "other"
    with fresh_ledger(other) as one:
        advance(one, sample_event(7))
    with fresh_ledger(directory) as ledger:
        advance(ledger, sample_event(1))
        shutil.rmtree(directory)
        shutil.copytree(other, directory)
        with pytest.raises(LedgerDisplaced, match="another ledger lies in its place"):
            ledger.put_back()
        assert "was replaced" in ledger.trouble
    with closing(LedgerStore.open(directory, read_only=True)) as seen:
        assert seen.position() == Position(Epoch(1), LogId(7))


def test_a_full_disk_leaves_the_earlier_state_intact(tmp_path: Path) -> None:
    """All of a transaction or nothing, and a clear error."""
    with fresh_ledger(tmp_path) as ledger:
        advance(ledger, sample_event(1))
        ledger._db.connection.execute(f"PRAGMA max_page_count = {ledger._db.value('PRAGMA page_count')}")

        with pytest.raises(LedgerUnwritable, match="disk is full") as refusal:
            advance(ledger, *(sample_event(row) for row in range(2, 1002)))
        assert "nothing that was recorded is lost" in refusal.value.hint
        assert ledger.position() == Position(Epoch(1), LogId(1))
        assert ledger.find_events(log_id=LogId(2)) == []

        ledger._db.connection.execute("PRAGMA max_page_count = 1000000")
        assert len(advance(ledger, *(sample_event(row) for row in range(2, 1002)))) == 1000


def test_a_write_that_the_system_cuts_off_leaves_the_earlier_state_intact(tmp_path: Path) -> None:
    """The same with a real limit of the system, met at a different operation each time."""
    fill(tmp_path, events=10)
    script = """
        import os, resource, sys
        from pathlib import Path
        from wake_bridge.domain.errors import LedgerUnwritable
        from wake_bridge.storage.ledger import LedgerStore
        from wake_bridge.testing.ledger_samples import advance, sample_event

        directory, room = Path(sys.argv[1]), int(sys.argv[2])
        ledger = LedgerStore.open(directory)
        reached = ledger.position().cursor
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            for row in range(reached + 1, reached + 500):
                advance(ledger, sample_event(row), sample_event(row, "@other"))
                reached = row
        except LedgerUnwritable as refusal:
            print(reached, "refused", flush=True)
        assert ledger.position().cursor == reached
        os._exit(0)
    """
    for room in (40_000, 61_000, 100_100, 150_003):
        result = run_python(script, tmp_path, room)
        assert result.stderr == ""
        reached, refused = result.stdout.split()
        assert refused == "refused"
        with closing(LedgerStore.open(tmp_path)) as ledger:
            position = ledger.position()
            assert position is not None
            assert position.cursor == int(reached)
            assert ledger.set_aside is None
            assert len(ledger.find_events(log_id=position.cursor)) == (2 if position.cursor > 10 else 1)
            assert ledger.find_events(log_id=LogId(position.cursor + 1)) == []


def test_a_ledger_that_stays_locked_is_reported_as_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer is waited for, but not for ever."""
    monkeypatch.setattr("wake_bridge.storage.ledger.ledger_file.BUSY_PATIENCE", 0.05)
    assert database.BUSY_PATIENCE == 5.0
    with fresh_ledger(tmp_path) as ledger, closing(sqlite3.connect(tmp_path / "state.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(LedgerUnwritable, match="busy"):
            ledger.pause(AGENT, None, START)
        assert ledger.pauses(START) == []

        other.rollback()
        ledger.pause(AGENT, None, START)
        assert len(ledger.pauses(START)) == 1


def test_a_ledger_is_opened_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating, migrating and setting aside are not covered by SQLite's own locks."""
    monkeypatch.setattr("wake_bridge.storage.ledger.ledger_file.BUSY_PATIENCE", 0.05)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(LedgerUnwritable, match="busy"):
            LedgerStore.open(tmp_path)
    finally:
        os.close(descriptor)

    LedgerStore.open(tmp_path).close()


# -- looking without touching --------------------------------------------------------------------------------------


def test_looking_at_a_ledger_that_does_not_exist_yet_creates_nothing(tmp_path: Path) -> None:
    """`status`: works before the first start; a look leaves no trace."""
    directory = tmp_path / "state"

    with closing(LedgerStore.open(directory, read_only=True)) as ledger:
        assert ledger.position() is None
        assert ledger.tally().open == 0
        assert ledger.due(START) == []

    assert not directory.exists()


def test_a_look_sees_what_a_running_daemon_commits(tmp_path: Path) -> None:
    """`status`: commands read while the daemon writes."""
    with fresh_ledger(tmp_path) as daemon, closing(LedgerStore.open(tmp_path, read_only=True)) as look:
        advance(daemon, sample_event(1))
        assert look.position() == Position(Epoch(1), LogId(1))
        advance(daemon, sample_event(2))
        assert look.position() == Position(Epoch(1), LogId(2))


def test_a_look_works_after_a_clean_stop_and_after_a_kill(tmp_path: Path) -> None:
    """`status`: also with no daemon, whatever way it went."""
    fill(tmp_path, events=1)
    with closing(LedgerStore.open(tmp_path, read_only=True)) as look:
        assert look.position() == Position(Epoch(1), LogId(1))

    died = run_python(
        """
        import os, signal, sys
        from pathlib import Path
        from wake_bridge.storage.ledger import LedgerStore
        from wake_bridge.testing.ledger_samples import advance, sample_event

        advance(LedgerStore.open(Path(sys.argv[1])), sample_event(2))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert died.returncode == -signal.SIGKILL
    with closing(LedgerStore.open(tmp_path, read_only=True)) as look:
        assert look.position() == Position(Epoch(1), LogId(2))


def test_nothing_can_be_changed_through_a_look(tmp_path: Path) -> None:
    """`status`: a look is a look."""
    fill(tmp_path, events=1)

    for directory in (tmp_path, tmp_path / "none"):
        with closing(LedgerStore.open(directory, read_only=True)) as look:
            with pytest.raises(LedgerUnwritable):
                look.pause(AGENT, None, START)
            assert look.pauses(START) == []


def test_a_look_at_a_damaged_ledger_says_so_and_moves_nothing(tmp_path: Path) -> None:
    """Only who writes sets aside."""
    fill(tmp_path)
    overwrite_all(tmp_path / "state.sqlite")

    with pytest.raises(LedgerError, match="damaged"):
        LedgerStore.open(tmp_path, read_only=True)

    assert [file.name for file in tmp_path.iterdir()] == ["state.sqlite"]


def test_text_that_no_database_can_hold_stops_nothing(tmp_path: Path) -> None:
    """Lone surrogates come out of the graph's JSON; the tail goes on, and knows the subject again."""
    subject = "MESSAGE:\ud800 half a pair"
    with fresh_ledger(tmp_path) as ledger:
        event = sample_event(1, subject_key=subject, thread="\udfff")
        assert advance(ledger, event) == [event]
        assert advance(ledger, sample_event(2, subject_key=subject)) == []

        assert ledger.known_subjects(AGENT, [subject, "other"]) == {subject}
        (stored,) = ledger.find_events(subject_key=subject)
        assert stored.detail == event.detail
        task = TaskState("TASK:1", "\ud800")
        ledger.advance(PageRecord(Position(Epoch(1), LogId(3)), tasks=[task]), START)
        assert ledger.task_states(["TASK:1"])["TASK:1"].state == "\\ud800"
