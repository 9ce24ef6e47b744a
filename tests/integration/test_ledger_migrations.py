"""A ledger written by an earlier version becomes one of ours, and nothing in it is lost."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.domain.delivery import DeliveryState, Outcome, Progress, Proof, Step, progress_of
from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.events import EventStatus, PermissionDetail, PresenceDetail, PulseDetail, TaskDetail
from wake_bridge.domain.names import Epoch, EventKind, Identity, Instant, LogId
from wake_bridge.domain.nudges import Beat
from wake_bridge.domain.routing import RememberedPane
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.columns import binding_of
from wake_bridge.storage.ledger.ledger_file import MIGRATIONS, statements_of
from wake_bridge.testing.ledger_samples import FENCE, START, counted_ids

FIXTURES = Path(__file__).parents[1] / "fixtures"
RELEASED = range(1, len(MIGRATIONS) + 1)


def make_drawers(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE drawer (name TEXT)")
    connection.execute("CREATE TRIGGER drawer_stands BEFORE DELETE ON drawer BEGIN SELECT RAISE(ABORT, 'no'); END")


def number_drawers(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE drawer ADD COLUMN number INTEGER")
    connection.execute("UPDATE drawer SET number = rowid")


def break_halfway(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE drawer ADD COLUMN number INTEGER")
    connection.execute("UPDATE drawer SET number = nothing_of_that_name")


def content(path: Path) -> tuple[int, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, connection.execute("SELECT * FROM drawer").fetchall()


def with_one_drawer(directory: Path) -> Path:
    with closing(LedgerStore.open(directory, migrations=[make_drawers])) as ledger:
        ledger._db.change("INSERT INTO drawer VALUES ('kept')")
    return directory / "state.sqlite"


def test_a_ledger_goes_from_version_to_version_after_a_backup_copy(tmp_path: Path) -> None:
    """`user_version` and forward migrations, after a backup copy."""
    path = with_one_drawer(tmp_path)
    assert content(path) == (1, [("kept",)])
    assert list(tmp_path.glob("*before*")) == []

    LedgerStore.open(tmp_path, migrations=[make_drawers, number_drawers]).close()

    assert content(path) == (2, [("kept", 1)])
    copy = tmp_path / "state.sqlite.before-v2"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert content(copy) == (1, [("kept",)])
    assert list(tmp_path.glob("*.part")) == []


def test_a_new_ledger_takes_all_the_steps_and_needs_no_copy(tmp_path: Path) -> None:
    """An empty file is version 0."""
    LedgerStore.open(tmp_path, migrations=[make_drawers, number_drawers]).close()

    assert content(tmp_path / "state.sqlite") == (2, [])
    assert list(tmp_path.glob("*before*")) == []


def test_a_migration_that_fails_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    """All the steps happen or none."""
    path = with_one_drawer(tmp_path)

    with pytest.raises(LedgerError, match="nothing_of_that_name"):
        LedgerStore.open(tmp_path, migrations=[make_drawers, break_halfway])

    assert content(path) == (1, [("kept",)])
    LedgerStore.open(tmp_path, migrations=[make_drawers, number_drawers]).close()
    assert content(path) == (2, [("kept", 1)])


def test_a_look_at_an_earlier_ledger_migrates_a_copy_and_not_the_file(tmp_path: Path) -> None:
    """A command that only looks changes nothing, also between two versions."""
    path = with_one_drawer(tmp_path)

    with closing(LedgerStore.open(tmp_path, read_only=True, migrations=[make_drawers, number_drawers])) as look:
        assert [tuple(row) for row in look._db.rows("SELECT * FROM drawer")] == [("kept", 1)]

    assert content(path) == (1, [("kept",)])


def test_a_statement_ends_where_sqlite_says_so() -> None:
    """A trigger's inner semicolons end no statement."""
    script = "-- a; comment\nCREATE TABLE a (b);\nCREATE TRIGGER t BEFORE DELETE ON a\nBEGIN\n  SELECT 1;\nEND;\n"

    assert [statement.split()[-1] for statement in statements_of(script)] == ["(b);", "END;"]


def restored(directory: Path, version: int) -> Path:
    path = directory / "state.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FIXTURES / f"ledger-v{version}.sql").read_text())
    return path


def rows_of(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in tables}


def schema(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_the_schema_of_a_version_is_what_it_was_when_it_was_released(tmp_path: Path, version: int) -> None:
    """A released migration is never changed, another is appended."""
    LedgerStore.open(tmp_path / "new", migrations=MIGRATIONS[:version]).close()

    assert schema(tmp_path / "new" / "state.sqlite") == schema(restored(tmp_path, version))


def test_a_ledger_of_version_2_opens_with_what_is_left_to_the_heartbeat_and_what_was_told(tmp_path: Path) -> None:
    """Cooldowns and notices outlive an update, so that nobody is told twice."""
    restored(tmp_path, 2)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        quiet = Identity("@quiet")
        assert [event.id for event in ledger.left_to_heartbeat(quiet)] == ["EVENT-untold"]
        assert [event.id for event in ledger.told_by_heartbeat(quiet)] == ["EVENT-told"]
        assert ledger.beat(quiet) == Beat(Instant(START + 2000), 600_000)
        (notice,) = ledger.standing_notices(5)
        assert (notice.identity, notice.reason, notice.title, notice.body) == (
            "@failed",
            "failed",
            "the title",
            "the body",
        )
        assert ledger.noticed() == {notice.subject}
        untold = {one.identity for one in ledger.failed_untold(Instant(0))}
        assert untold == {"@unsure"}


def test_a_ledger_of_version_1_opens_with_all_it_holds(tmp_path: Path) -> None:
    """Whoever updates wake-bridge goes on where the earlier version stopped."""
    restored(tmp_path, 1)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        assert ledger.set_aside is None
        assert ledger.position() == Position(Epoch(1), LogId(20))
        assert ledger.tally().holds == {"active": 1, "staged": 1}
        by_identity = {one.identity: one for one in ledger.deliveries(state=None, identity=None, limit=50)}
        states = {identity: one.state for identity, one in by_identity.items()}
        assert states == {
            "@pending": DeliveryState.PENDING,
            "@held": DeliveryState.DISPATCHED,
            "@staged": DeliveryState.LOCKED,
            "@failed": DeliveryState.FAILED,
            "@unsure": DeliveryState.FAILED,
            "@agent": DeliveryState.DELIVERED,
        }
        told, staged = by_identity[Identity("@agent")], by_identity[Identity("@staged")]
        assert (told.outcome, told.proof) == (Outcome.SUBMITTED, Proof.ACKNOWLEDGED)
        assert ledger.fence_of(staged.id) == FENCE
        assert progress_of(line.step for line in ledger.journal_of(staged.id)) is Progress.STAGED
        (wake, unsure) = sorted(ledger.past_wakes(Instant(0)), key=lambda one: one.identity)
        assert (wake.threads, wake.human_threads) == (("T1",), ("T2",))
        assert unsure.identity == "@unsure"
        kinds = [type(event.detail) for event in ledger.events_of(by_identity[Identity("@pending")].id)]
        assert kinds[1:] == [TaskDetail, PermissionDetail, PulseDetail]
        (refused,) = ledger.find_events(log_id=LogId(13))
        assert (refused.status, refused.refusals) == (EventStatus.REFUSED, (("WAKE_SUB:1", "filter"),))
        assert ledger.announced(Identity("@pending"), ["MESSAGE:shown"]) == {"MESSAGE:shown"}
        assert ledger.binding(Identity("@agent")) == FENCE
        assert ledger.limits_lifted_at(Identity("@agent")) == START
        assert [pause.identity for pause in ledger.pauses(START)] == ["@held"]
        assert ledger.degraded(Identity("@agent")) == {"codex": "pushes failed"}
        assert set(ledger.task_states(["MESSAGE:task"])) == {"MESSAGE:task"}
        assert ledger.tally().quarantined == 1

        again = ledger.retry(by_identity[Identity("@failed")].id, counted_ids("NEW"), START)
        assert [event.log_id for event in ledger.events_of(again.id)] == [6]


def test_every_released_schema_has_a_ledger_to_try_updates_on() -> None:
    """Whoever adds a migration leaves a ledger of its version, with something in every table."""
    assert {file.name for file in FIXTURES.glob("ledger-v*.sql")} == {f"ledger-v{one}.sql" for one in RELEASED}


@pytest.mark.parametrize("version", RELEASED)
def test_an_update_from_any_released_schema_keeps_all_that_was_recorded(tmp_path: Path, version: int) -> None:
    """Upgrade keeps state; what comes of it is what a new ledger is, with every row."""
    path = restored(tmp_path, version)
    before = rows_of(path)
    assert all(before.values()), before

    LedgerStore.open(tmp_path).close()

    after = rows_of(path)
    assert {name: after[name] for name in before} == before
    LedgerStore.open(tmp_path / "new").close()
    assert schema(path) == schema(tmp_path / "new" / "state.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,), "it could not shrink"
    has_copy = (tmp_path / f"state.sqlite.before-v{len(MIGRATIONS)}").exists()
    assert has_copy is (version < len(MIGRATIONS))


@pytest.mark.parametrize("command", [("run", "--once"), ("deliveries",), ("pause", "--all")])
def test_a_ledger_of_a_later_version_is_refused_in_words_and_left_alone(
    tmp_path: Path, program: tuple[str, ...], command: tuple[str, ...]
) -> None:
    """Newer than ours = clear error; what failed, where, and what to do, never a traceback."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        LedgerStore.open(sandbox.state_dir).close()
        ledger = sandbox.state_dir / "state.sqlite"
        with closing(sqlite3.connect(ledger)) as connection:
            connection.execute("PRAGMA user_version = 99")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = ledger.read_bytes()

        answer = sandbox.run(*command, expect=1)

        assert answer.stderr.splitlines() == [
            f"error: the ledger has version 99, this wake-bridge knows up to {len(MIGRATIONS)}: {ledger}",
            "hint: install the wake-bridge that wrote it, or set `daemon.state_dir` to another directory",
        ]
        assert ledger.read_bytes() == before


@pytest.mark.parametrize("damage", ["later version", "overwritten"])
def test_status_says_that_the_ledger_cannot_be_read_and_ends_well(
    tmp_path: Path, program: tuple[str, ...], damage: str
) -> None:
    """`status` ends with 0 whatever it finds: no figure where nobody can tell, why, and what to do."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        LedgerStore.open(sandbox.state_dir).close()
        ledger = sandbox.state_dir / "state.sqlite"
        if damage == "overwritten":
            ledger.write_bytes(b"\0" * ledger.stat().st_size)
            why, remedy = f"the ledger is damaged: {ledger}", "restart the daemon: it sets the file aside and goes on"
        else:
            with closing(sqlite3.connect(ledger)) as connection:
                connection.execute("PRAGMA user_version = 99")
            why, remedy = "the ledger has version 99", "install the wake-bridge that wrote it"
        before = ledger.read_bytes()

        said, record = sandbox.run("status").stdout, sandbox.ask("status")

        assert "deliveries nobody can tell: the ledger cannot be read" in said
        assert f"attention  the ledger cannot be read: {why}" in said
        assert remedy in said
        assert (record["open"], record["sinceYouLeft"], record["waiting"]) == (None, None, [])
        assert record["stateTrouble"].startswith(why)
        assert record["isRunning"] is False
        live = [*sandbox.command, "status", "--watch", "--json"]
        with subprocess.Popen(live, env=sandbox.environment, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            watched = json.loads(watching.stdout.readline())
            watching.terminate()
        assert watched == {**record, "agents": []}
        assert ledger.read_bytes() == before


def test_a_ledger_of_version_3_opens_with_whose_each_conversation_is(tmp_path: Path) -> None:
    """Which thread is an agent's outlives an update."""
    restored(tmp_path, 3)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        known = Session(
            harness="codex",
            session_id="5f4d0c3e-thread",
            identity=Identity("@agent"),
            directory="/home/u/project",
            pid=300,
            started="10:01",
            socket="/tmp/tmux-0/default",
            pane="%7",
            seen_at=Instant(START),
        )
        assert ledger.sessions_of(Identity("@agent")) == ledger.all_sessions() == [known]
        ledger.meet_session(replace(known, identity=Identity("@other"), seen_at=Instant(START + 1)))
        assert ledger.sessions_of(Identity("@agent")) == []
        assert ledger.session("5f4d0c3e-thread") == replace(
            known, identity=Identity("@other"), seen_at=Instant(START + 1)
        )
        ledger.part_from_session("5f4d0c3e-thread")
        assert ledger.all_sessions() == []


def test_a_ledger_of_version_4_opens_with_where_each_identity_was_found(tmp_path: Path) -> None:
    """The pane that counts outlives an update."""
    restored(tmp_path, 4)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        found = RememberedPane("agents:0.0", "", FENCE, Instant(START), Instant(START + 60_000))
        assert ledger.remembered(Identity("@agent")) == found
        assert [one.until for one in ledger.claims()] == [None, START]


@pytest.mark.parametrize(("version", "cause"), [(4, Cause.ACTIVE), (5, Cause.MOVING)])
def test_a_hold_of_an_earlier_version_has_the_general_cause_of_its_reason(
    tmp_path: Path, version: int, cause: Cause
) -> None:
    """What was held before there were causes goes on, and is advised by its reason."""
    restored(tmp_path, version)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        held = next(one.hold for one in ledger.unsettled() if one.identity == "@held")
        assert held is not None
        assert (held.reason, held.detail, held.cause) == (HoldReason.ACTIVE, "spinner", cause)


def test_a_subscription_that_is_written_is_no_failure_because_the_ledger_cannot_be_read(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    """Exit codes: 0 is done; what cannot be looked at besides is said."""
    with Sandbox(tmp_path, command=program) as sandbox:
        sandbox.run("init")
        sandbox.run("agent", "add", "@ada")
        LedgerStore.open(sandbox.state_dir).close()
        with closing(sqlite3.connect(sandbox.state_dir / "state.sqlite")) as connection:
            connection.execute("PRAGMA user_version = 99")

        told = sandbox.run("subscribe", "@ada", "--trigger", "SENT_TO_ME", "--tmux", "agents:1.0")

        assert "note: whether @ada can be reached is not known: the ledger has version 99" in told.stderr
        assert told.stdout.startswith("@ada is woken for SENT_TO_ME")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_after_an_update_it_is_known_whom_the_earlier_version_woke_where(tmp_path: Path, version: int) -> None:
    """Else a name that drifted while it was updated would make a neighbour's agent one's own."""
    path = restored(tmp_path, version)
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute(
            "SELECT identity, fence FROM delivery WHERE fence IS NOT NULL GROUP BY identity HAVING seq = MAX(seq)"
        ).fetchall()
    assert before

    with closing(LedgerStore.open(tmp_path)) as ledger:
        claims = ledger.claims()

    assert {(one.identity, one.fence) for one in claims if one.until} == {(who, binding_of(it)) for who, it in before}


def test_news_of_presence_that_an_earlier_version_kept_as_a_pulse_is_of_its_own_kind_after_the_update(
    tmp_path: Path,
) -> None:
    """A lead that is to hear of its worker hears of it after an update as before, and a pulse stays a pulse."""
    path = restored(tmp_path, 12)
    with closing(sqlite3.connect(path)) as connection:
        # without `due_at`, which the database computes
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(wake_event)")]
        chosen = f"SELECT {', '.join(columns)} FROM wake_event WHERE id = 'EVENT-pulse'"
        pulse = dict(zip(columns, connection.execute(chosen).fetchone(), strict=True))
        detail = '{"of":"@worker","stands_at":"approval","episode_id":"EPISODE1"}'
        news = {**pulse, "seq": 99, "id": "EVENT-news", "subject_key": "presence:EPISODE1", "detail": detail}
        marks = ", ".join("?" for _ in news)
        connection.execute(f"INSERT INTO wake_event ({', '.join(news)}) VALUES ({marks})", list(news.values()))
        connection.execute("INSERT INTO delivery_event VALUES (?, 'EVENT-news')", (pulse["delivery_id"],))
        connection.commit()

    with closing(LedgerStore.open(tmp_path)) as ledger:
        told = {event.id: event for event in ledger.events_of(str(pulse["delivery_id"]))}

    assert told["EVENT-news"].kind is EventKind.PRESENCE
    assert told["EVENT-news"].detail == PresenceDetail(Identity("@worker"), "approval", "EPISODE1")
    assert told["EVENT-pulse"].kind is EventKind.PULSE


@pytest.mark.parametrize("version", [1, 20])
def test_after_an_update_it_is_known_when_each_agent_was_woken_last(tmp_path: Path, version: int) -> None:
    """As the journal of the earlier version says; what was staged was not sent."""
    restored(tmp_path, version)

    with closing(LedgerStore.open(tmp_path)) as ledger:
        woken = {one: ledger.last_wake(Identity(one)) for one in ("@agent", "@unsure", "@staged", "@pending")}
        lines = {
            one.identity: ledger.journal_of(one.id) for one in ledger.deliveries(state=None, identity=None, limit=50)
        }

    sent = {who: [one.at for one in lines[Identity(who)] if one.step is Step.INTENT_SUBMIT] for who in woken}
    assert woken == {who: max(them, default=None) for who, them in sent.items()}
    assert [who for who, at in woken.items() if at] == ["@agent", "@unsure"]


def test_after_an_update_the_database_still_refuses_what_must_never_happen(tmp_path: Path) -> None:
    """A table that is made anew keeps its promises: an open event is not deleted, nor taken along by what was delivered."""
    path = restored(tmp_path, 12)
    LedgerStore.open(tmp_path).close()

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = 1")
        with pytest.raises(sqlite3.IntegrityError, match="never lost"):
            connection.execute("DELETE FROM wake_event WHERE status = 'open'")
        with pytest.raises(sqlite3.IntegrityError, match="would be lost"):
            connection.execute(
                "UPDATE delivery SET state = 'DELIVERED', outcome = 'submitted', settled_at = 1 WHERE id IN"
                " (SELECT delivery_id FROM wake_event WHERE status = 'open') AND state = 'LOCKED'"
            )
        with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
            connection.execute("DELETE FROM wake_event WHERE status = 'announced'")
