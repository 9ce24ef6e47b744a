"""The log in PostgreSQL: what is committed late, rolled back or prepared, and what is another life of the log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres import NOW, PostgresServer
from tests.postgres_line import PostgresLine
from wake_bridge.domain.errors import SourceUnavailable
from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import Epoch, LogId
from wake_bridge.engine.tail.log_reader import LogReader
from wake_bridge.ports.change_log import Page
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.graph.opened import create_graph
from wake_bridge.storage.graph.postgres import connection as module
from wake_bridge.storage.graph.postgres.change_log import PostgresGraph
from wake_bridge.storage.graph.postgres.connection import PostgresConnection


class Follower:
    """Follows a log as the tail does, page after page."""

    def __init__(self, url: str, limit: int = 1000) -> None:
        self.log = PostgresGraph(GraphUrl(url))
        census = self.log.census()
        self.place = Page((), (), census.tip, census.fingerprint, 0, census.snapshot)
        self.seen: object = None
        self.limit = limit

    def news(self) -> list[str]:
        """Ids of what is new, in the order of the pages; nothing is asked for where the version says that nothing is new."""
        found: list[str] = []
        while self.seen != (version := self.log.version()):
            page = self.log.read_after(self.place.upto, self.limit, self.place.snapshot)
            found += [entry.entity_id for entry in page.entries]
            self.place = page if page.examined else self.place
            self.seen = version if page.examined < self.limit else None
        return found


@pytest.fixture
def follower(postgres_url: str) -> Iterator[Follower]:
    """At the tip of an empty graph."""
    follower = Follower(postgres_url)
    assert follower.news() == []
    yield follower
    follower.log.close()


@contextmanager
def transaction(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that stays open; what it does not commit is rolled back."""
    connection = psycopg.connect(url)
    try:
        yield connection
    finally:
        connection.close()


def write(connection: psycopg.Connection[Any], name: str, label: str = "AgentIdentity") -> str:
    """A node; an identity leaves one relevant row in the log."""
    data = f'{{"label": "{label}", "properties": {{}}}}'
    connection.execute("INSERT INTO wake_bridge.nodes (id, data) VALUES (%s, %s)", (name, data))
    return name


def test_no_row_is_skipped_however_late_it_is_committed(postgres_url: str, follower: Follower) -> None:
    """New is what is visible now and was not in the cursor's snapshot: each row once, whatever its id."""
    with transaction(postgres_url) as early, transaction(postgres_url) as later, transaction(postgres_url) as last:
        write(early, "@early")
        write(later, "@later")
        write(last, "@last")
        last.commit()
        assert follower.news() == ["@last"]
        later.commit()
        write(early, "@early too")
        assert follower.news() == ["@later"]
        early.commit()
        assert follower.news() == ["@early", "@early too"]
    assert follower.news() == []


def test_what_is_committed_under_an_id_that_a_crash_has_given_again_is_not_skipped(postgres_url: str) -> None:
    """A server that crashes forgets the last transaction ids; a snapshot from before takes what comes under them for seen."""
    with psycopg.connect(postgres_url, autocommit=True) as writer:
        write(writer, "@before")
        follower = Follower(postgres_url)
        assert follower.news() == []
        (highest,) = writer.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone() or (0,)
        # as it was read before the crash: all ids up to these were given, and none of them was under way
        forgotten = f"{highest + 1000}:{highest + 1000}:"
        follower.place = replace(follower.place, snapshot=forgotten)
        follower.log.read_after(follower.place.upto, 1000, forgotten)
        write(writer, "@after")
        assert follower.news() == ["@after"]
        assert follower.news() == []
    follower.log.close()


def test_an_open_transaction_holds_nobody_up_also_not_in_another_database(
    postgres: PostgresServer, postgres_url: str, follower: Follower
) -> None:
    """Reading below the lowest open transaction would wait for it: here nothing waits, and nothing comes twice."""
    with transaction(postgres.url) as elsewhere, transaction(postgres_url) as here:
        elsewhere.execute("SELECT pg_current_xact_id()")
        here.execute("SELECT pg_current_xact_id()")
        with psycopg.connect(postgres_url, autocommit=True) as writer:
            for number in range(3):
                assert follower.news() == ([] if not number else [f"@{number - 1}"])
                write(writer, f"@{number}")
        assert follower.news() == ["@2"]
    assert follower.news() == []


def test_what_is_rolled_back_is_never_seen_and_what_a_savepoint_keeps_is(postgres_url: str, follower: Follower) -> None:
    """A subtransaction has an id of its own; the log has the one of the whole, which snapshots know."""
    with transaction(postgres_url) as mixed:
        with mixed.transaction():
            write(mixed, "@kept")
            with mixed.transaction(force_rollback=True):
                write(mixed, "@undone")
            with mixed.transaction():
                write(mixed, "@kept too")
            assert follower.news() == []
        mixed.commit()
    with transaction(postgres_url) as undone:
        write(undone, "@never")
    assert follower.news() == ["@kept", "@kept too"]


def test_a_prepared_transaction_is_open_until_it_is_committed(
    postgres: PostgresServer, postgres_url: str, follower: Follower
) -> None:
    """Two-phase commit: its rows come when it is committed, and nobody waits for that."""
    with psycopg.connect(postgres_url, autocommit=True) as writer:
        if writer.execute("SHOW max_prepared_transactions").fetchall() == [("0",)]:
            assert postgres.data is None, "our own server takes them"
            return
        name = uuid.uuid4().hex
        writer.execute("BEGIN")
        write(writer, "@prepared")
        writer.execute(f"PREPARE TRANSACTION '{name}'")
        write(writer, "@beside")
        assert follower.news() == ["@beside"]
        writer.execute(f"COMMIT PREPARED '{name}'")
        assert follower.news() == ["@prepared"]


def test_a_backlog_is_read_in_pages_each_row_once_while_more_is_committed(postgres_url: str) -> None:
    """What comes while a backlog is walked through by id is no part of it: it is new afterwards, late or not."""
    with transaction(postgres_url) as late, psycopg.connect(postgres_url, autocommit=True) as writer:
        write(late, "@late")
        follower = Follower(postgres_url, limit=3)
        backlog = [write(writer, f"@{number}") for number in range(6)]
        first = follower.log.read_after(follower.place.upto, 3, follower.place.snapshot)
        assert ([entry.entity_id for entry in first.entries], first.examined) == (backlog[:3], 3)
        follower.place = first
        more = write(writer, "@more")
        late.commit()
        # as after a restart: all that is known is what the page said
        follower.log.close()
        assert follower.news() == [*backlog[3:], "@late", more]
        assert follower.news() == []
        follower.log.close()


def test_an_old_edge_that_is_committed_late_is_no_repetition(postgres_url: str, follower: Follower) -> None:
    """`logged_before` tells old rows written again from new ones: by what was read, for a late row has a low id."""
    with transaction(postgres_url) as late, psycopg.connect(postgres_url, autocommit=True) as writer:
        write(writer, "@a")
        late.execute("INSERT INTO wake_bridge.edges VALUES ('late', NULL, '@a', '@a', 'SENT_TO', '{}')")
        write(writer, "@b")
        follower.news()
        before = follower.place
        late.commit()
        assert follower.news() == ["late"]
        assert follower.log.logged_before(["late"], before.upto, before.snapshot) == frozenset()
        assert follower.log.logged_before(["late"], follower.place.upto, follower.place.snapshot) == {"late"}


def test_a_log_that_is_emptied_while_a_backlog_is_read_is_noticed(postgres_url: str) -> None:
    """What is remembered of a backlog counts for one life: afterwards the cursor is above the tip, and its row is gone."""
    follower = Follower(postgres_url, limit=2)
    with psycopg.connect(postgres_url, autocommit=True) as writer:
        for number in range(5):
            write(writer, f"@{number}")
        follower.log.version()
        highest = follower.log.bounds().highest
        page = follower.log.read_after(follower.place.upto, 2, follower.place.snapshot)
        write(writer, "@more")
        assert follower.log.bounds().highest == highest
        page = follower.log.read_after(page.upto, 2, page.snapshot)
        writer.execute("TRUNCATE wake_bridge.graphlog")
    follower.log.version()
    assert follower.log.bounds().highest < page.upto
    assert follower.log.fingerprint_at(page.upto) is None
    follower.log.close()


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ('no pg_hba.conf entry for host "10.0.0.7", user "laptop", database "wake", SSL encryption', "pg_hba.conf"),
        (
            'pg_hba.conf rejects connection for host "10.0.0.7", user "laptop", database "wake", no encryption',
            "pg_hba.conf",
        ),
        ('role "laptop" is not permitted to log in', "ALTER ROLE"),
        ('role "laptop" does not exist', "create the role"),
        ('database "ssl" does not exist', "createdb NAME"),
        ("no such database: wake", "createdb NAME"),
        ('permission denied for database "wake"', "grant the role"),
        ('too many connections for role "laptop"', "CONNECTION LIMIT"),
        ("sorry, too many clients already", "max_connections"),
        ("remaining connection slots are reserved for roles with the SUPERUSER attribute", "max_connections"),
        ('password authentication failed for user "laptop"', "~/.pgpass"),
        ("the database system is starting up", "tries again by itself"),
    ],
)
def test_a_server_that_lets_nobody_in_is_told_with_what_to_do_about_it(said: str, hint: str) -> None:
    """While it connects libpq tells words alone. What is wrong with pg_hba.conf no certificate mends."""
    error = psycopg.OperationalError(
        f'connection failed: connection to server at "10.0.0.7", port 5432 failed: FATAL:  {said}'
    )
    told = module.explained(error, GraphUrl("postgresql://laptop@db.example/wake"))
    assert told.what == f"the graph cannot be used now ({said})"
    assert hint in told.hint


def test_a_database_that_is_not_there_is_told_with_how_to_make_it(postgres: PostgresServer) -> None:
    """As the server says it."""
    connection = PostgresConnection(GraphUrl(postgres.at("not_there")))
    with pytest.raises(SourceUnavailable, match="does not exist") as refused:
        connection.rows("SELECT")
    assert "createdb NAME" in refused.value.hint


def test_a_look_into_the_log_is_never_compiled(postgres: PostgresServer, postgres_url: str) -> None:
    """Before version 18 what is switched off for it makes every plan look dear enough for JIT, which takes seconds each time."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    with postgres.connected() as admin:
        admin.execute(f"ALTER DATABASE {database} SET jit = on".encode())
    connection = PostgresConnection(GraphUrl(postgres_url))
    try:
        assert connection.rows("SHOW jit") == [("on",)]
        with connection.transaction(snapshot=True):
            assert connection.rows("SHOW jit") == [("off",)]
        assert connection.rows("SHOW jit") == [("on",)]
    finally:
        connection.close()
        with postgres.connected() as admin:
            admin.execute(f"ALTER DATABASE {database} RESET jit".encode())


def test_a_look_at_news_asks_five_questions_and_four_where_no_row_matters(
    postgres_url: str, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every host looks at all that is committed: look, begin, what is new, its rows, commit. Of a memory no row is loaded."""
    asked: list[str] = []
    execute = PostgresConnection._execute

    def counting(base: PostgresConnection, statement: str, values: Any = ()) -> Any:
        asked.append(statement)
        return execute(base, statement, values)

    with psycopg.connect(postgres_url, autocommit=True) as writer:
        write(writer, "@first")
    follower.news()
    reader, place, version = LogReader(follower.log), follower.place, follower.log.version()
    monkeypatch.setattr(PostgresConnection, "_execute", counting)
    for entity, label, questions in (("@a", "AgentIdentity", 5), ("MEMORY:1", "AGENT_MEMORY", 4)):
        with psycopg.connect(postgres_url, autocommit=True) as writer:
            write(writer, entity, label)
        asked.clear()
        position = Position(Epoch(1), place.upto, place.fingerprint, place.snapshot)
        reading = reader.next_page(position, version[:2], version)
        assert reading is not None
        place, version = reading.page, reading.version
        assert len(asked) == questions
        assert reading.bounds.highest == place.upto


@pytest.mark.parametrize("table", ["graphlog", "edges"])
def test_a_table_that_is_emptied_begins_another_life(postgres_url: str, follower: Follower, table: str) -> None:
    """TRUNCATE leaves no row behind that could tell of it: the file is another one, and so is what stands at the cursor."""
    with psycopg.connect(postgres_url, autocommit=True) as writer:
        write(writer, "@a")
        follower.news()
        before = follower.log.version()
        writer.execute(f"TRUNCATE wake_bridge.{table}")
        write(writer, "@b")
    assert follower.log.version()[:2] != before[:2]
    assert follower.log.fingerprint_at(follower.place.upto) != follower.place.fingerprint


def test_a_dump_that_was_restored_begins_another_life_and_its_rows_are_old(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """Transaction ids of another server may lie in the future here: no such row is news, now or when they are reached."""
    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as restored:
        write(restored, "@old")
        restored.execute("UPDATE wake_bridge.graphlog SET xid = '99999999999'")
        restored.execute("UPDATE wake_bridge.graph SET home = 'another server'")
        follower = Follower(url)
        assert follower.news() == []
        write(restored, "@new")
        assert follower.news() == ["@new"]
        assert restored.execute("SELECT xid FROM wake_bridge.graphlog WHERE entity_id = '@old'").fetchall() == [("3",)]
    other = Follower(postgres_url)
    assert follower.log.version()[:2] != other.log.version()[:2]
    for one in (follower, other):
        one.log.close()
    postgres.drop(url)


def test_a_log_cursor_alone_means_all_rows_above_it(postgres_url: str, follower: Follower) -> None:
    """`lastSyncId` is informative: where the ledger is gone, it is gone on from as far as an id can tell."""
    with psycopg.connect(postgres_url, autocommit=True) as writer:
        write(writer, "@a")
        tip = follower.log.bounds().highest
        write(writer, "@b")
    page = follower.log.read_after(tip, 1000)
    assert [entry.entity_id for entry in page.entries] == ["@b"]
    assert follower.log.read_after(LogId(page.upto), 1000, page.snapshot).examined == 0


def test_old_partitions_go_when_every_reader_has_seen_them_and_none_before(postgres: PostgresServer) -> None:
    """The log is cut by days: what one reader, or a transaction, still needs stays, and so does the row at a cursor."""
    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as admin:
        for number, days in enumerate((30, 20, 10)):
            day = f"(now() - interval '{days} days')"
            [(name, begins)] = admin.execute(
                f"SELECT to_char({day} AT TIME ZONE 'UTC', 'YYYYMMDD'), date_trunc('day', {day}, 'UTC')".encode()
            ).fetchall()
            admin.execute(
                f"CREATE TABLE wake_bridge.graphlog_{name} PARTITION OF wake_bridge.graphlog"
                f" FOR VALUES FROM ('{begins}') TO ('{begins + timedelta(days=1)}')".encode()
            )
            admin.execute(
                "INSERT INTO wake_bridge.graphlog (logged_at, entity_id, entity_type) VALUES (%s, %s, 'nodes')",
                (begins, f"@{number}"),
            )

        def prune() -> int:
            [(dropped,)] = admin.execute("SELECT wake_bridge.prune()").fetchall()
            return int(dropped)

        assert prune() == 0, "nobody reads"
        slow, quick = Follower(url), Follower(url)
        slow.log.note_reader("slow", slow.place.upto, slow.place.snapshot)
        write(admin, "@new")
        quick.news()
        quick.log.note_reader("quick", quick.place.upto, quick.place.snapshot)
        assert prune() == 2, "the third has the row at the cursor of the slow one"
        assert slow.news() == ["@new"]
        slow.log.note_reader("slow", slow.place.upto, slow.place.snapshot)
        assert prune() == 1
        bounds = slow.log.bounds()
        assert (bounds.lowest, bounds.highest) == (slow.place.upto, slow.place.upto)
        assert slow.news() == []
        for one in (slow, quick):
            one.log.close()
    postgres.drop(url)


def test_a_server_that_falls_silent_is_given_up_and_asked_anew(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of it or of the way to it: a question, a change and rows that are streamed end, each with an error."""
    line = PostgresLine(postgres_url, tmp_path / "line")
    with line:
        base = PostgresConnection(GraphUrl(line.url))
        for ask in (
            lambda: base.rows("SELECT 1"),
            lambda: base.run("UPDATE wake_bridge.graph SET kept_at = kept_at"),
            lambda: list(base.stream("SELECT 1")),
        ):
            with base.transaction():
                assert base.rows("SELECT 1") == [(1,)]
            line.cut()
            with monkeypatch.context() as patch:
                patch.setattr(module, "STATEMENT_LIMIT", 0.2)
                with pytest.raises(SourceUnavailable, match="cannot be used now"):
                    ask()
            line.mend()
        assert base.rows("SELECT pg_sleep(0.1)") == [("",)]
        base.close()


def test_a_server_that_is_too_old_is_refused_before_anything_is_made(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says its version, and what is asked for; nothing of the graph is in the database then."""
    url = postgres.database(is_empty=True)
    monkeypatch.setattr(module, "OLDEST_SERVER", 99)
    with pytest.raises(
        SourceUnavailable, match=r"the server is PostgreSQL \d+, and a graph needs 99 or later"
    ) as refused:
        create_graph(GraphUrl(url), NOW)
    assert "update the server" in refused.value.hint
    with psycopg.connect(url) as looks:
        assert looks.execute("SELECT to_regnamespace('wake_bridge')").fetchall() == [(None,)]
    postgres.drop(url)
