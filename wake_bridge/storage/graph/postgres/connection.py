"""One connection to a graph in PostgreSQL: opened when used, opened anew when it was lost, its errors said plainly.

Nothing of it lives in the session: a pooler in transaction mode may give every transaction another one. So no statement is
prepared, every table is named with its schema, and nothing is `SET` but inside a transaction.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from wake_bridge.domain.errors import (
    OperationFailed,
    RefusedForSafety,
    SourceError,
    SourceMissing,
    SourceNotAGraph,
    SourceUnavailable,
    UsageMistake,
)
from wake_bridge.domain.graph_places import GraphUrl

try:
    import psycopg
except ImportError as missing:
    raise SourceUnavailable(
        f"a graph in PostgreSQL needs psycopg ({missing})",
        "graph.url",
        hint="install the extra: `pip install 'wake-bridge[postgres]'`",
    ) from missing

CHANNEL: Final = "wake_bridge"
"""What is notified when something was committed: a hint, without content."""

SCHEMA_VERSION: Final = 1

OLDEST_SERVER: Final = 14
"""The oldest PostgreSQL that holds a graph; tried on each major version from it on."""

CONNECT_LIMIT: Final = 5
"""Seconds until a server that does not answer is given up."""

STATEMENT_LIMIT: Final = 20.0
"""Seconds of silence after which a statement is given up, whatever became of the server or of the way to it."""

_AT_ONCE: Final = 1000

# a log that has just grown has no statistics: without these a page would be found by sorting all that is behind it; before
# version 18 an `enable_… = off` makes the estimated cost so high that JIT would compile each query, for seconds of processor time
_SNAPSHOT: Final = """
    BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
    SET LOCAL jit = off
"""
_TRUSTED_FOR: Final = 1.0
"""Seconds for which a connection that has just answered is taken to be there still."""

Values = Sequence[object] | dict[str, object]
Rows = list[tuple[Any, ...]]
Waited = TypeVar("Waited")

_INIT: Final = "`wake-bridge init` makes the graph there; or set graph.url to yours"
_LATER: Final = "see that the server runs and can be reached; the daemon tries again by itself, and loses nothing"
_GIVE_ONE: Final = (
    "put it into ~/.pgpass (chmod 600, a line HOST:PORT:DATABASE:USER:PASSWORD), or name another file with PGPASSFILE"
)
_TLS: Final = (
    "wake-bridge verifies the server's certificate and name: put the CA's certificate into ~/.postgresql/root.crt or name it"
    " with sslrootcert=FILE in graph.url; sslmode=require encrypts without verifying, and is then your decision"
)
_HINTS: Final = {
    "28P01": _GIVE_ONE,
    "28000": "check user and host against the server's pg_hba.conf",
    "3D000": "let the database's owner create it: `createdb NAME`",
    "25006": "the server is read-only, a standby or set so: graph.url has to name the primary",
    "53100": "make room on the server's disk; what was written stays",
    "53300": "raise max_connections, or put a pooler before the server",
    "42501": "grant the role what it needs; docs/many-hosts.md lists the roles",
}
# while libpq connects it gives no sqlstate: only the server's English words tell why it refuses
_WHILE_CONNECTING: Final = (
    ("pg_hba.conf ", _HINTS["28000"]),
    ("is not permitted to log in", "let the database's owner allow it: `ALTER ROLE … LOGIN`"),
    ('role ".*" does not exist', "let the database's owner create the role, or name another one in graph.url"),
    ('database ".*" does not exist|no such database', _HINTS["3D000"]),
    ("permission denied for database", _HINTS["42501"]),
    ("too many connections for ", "raise the CONNECTION LIMIT that it has, or put a pooler before the server"),
    ("too many clients|connection slots are reserved", _HINTS["53300"]),
    (
        "invalid (uri|port|sslmode|integer)|definition of service",
        "correct graph.url, or the service file that it names",
    ),
    ("certificate|ssl", _TLS),
    ("password", _GIVE_ONE),
)


class _Impatient(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is cut when the server does not answer: one that was stopped would be waited for without end."""

    def wait(self, gen: Generator[Any, Any, Waited], *args: Any, **kwargs: Any) -> Waited:
        """As psycopg waits for an answer; it looks up every 100 ms by itself."""
        return super().wait(self._within_limit(gen), *args, **kwargs)

    def _within_limit(self, gen: Generator[Any, Any, Waited]) -> Generator[Any, Any, Waited]:
        heard_at = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > STATEMENT_LIMIT:
                    _cut(self.fileno())
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


class PostgresConnection:
    """A connection that is opened on first use, for one thread at a time.

    Raises of every method: `SourceMissing`, `SourceNotAGraph` or `SourceUnavailable`; of a change also `OperationFailed`
    where the graph refuses it, and `UsageMistake` for a text that PostgreSQL cannot hold.

    Args:
        place: the database.
        is_checked: whether it must hold a graph that this program knows.
    """

    def __init__(self, place: GraphUrl, *, is_checked: bool = True) -> None:
        self.place = place
        self._is_checked = is_checked
        self._connection: _Impatient | None = None
        self._turn = threading.RLock()
        self._used_at = -_TRUSTED_FOR

    def rows(self, statement: str, values: Values = ()) -> Rows:
        """All rows of a question. A connection that was lost since the last one is opened anew, once."""
        with self._turn:
            is_fresh = self._connection is None
            try:
                return self._run(statement, values)
            except SourceUnavailable:
                if is_fresh or self._connection is not None:
                    raise
            return self._run(statement, values)

    def run(self, statement: str, values: Values = ()) -> int:
        """One change, never sent twice; answers how many rows it changed."""
        with self._turn, self._translating():
            return self._execute(statement, values).rowcount

    @contextlib.contextmanager
    def transaction(self, *, snapshot: bool = False) -> Iterator[None]:
        """Several statements that belong together; with `snapshot` they only read, and see one state."""
        with self._turn:
            if snapshot and time.monotonic() - self._used_at > _TRUSTED_FOR:
                # opened anew here, for inside a transaction nothing can be
                self.rows("SELECT")
            self.run(_SNAPSHOT if snapshot else "BEGIN")
            try:
                yield
            except BaseException:
                self._roll_back()
                raise
            self.run("COMMIT")

    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a question a thousand at a time; inside a transaction."""
        with self._turn, self._translating(), self._opened().cursor("stream") as cursor:
            cursor.itersize = _AT_ONCE
            yield from cursor.execute(statement.encode())

    def load(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Put rows in by `COPY … FROM STDIN`."""
        with (
            self._turn,
            self._translating(),
            self._opened().cursor() as cursor,
            cursor.copy(statement.encode()) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def execute_script(self, script: str) -> None:
        """Several statements in one transaction."""
        with self._turn, self._translating():
            self._execute(script)

    def close(self) -> None:
        """Give up the connection; the next use opens it again."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _run(self, statement: str, values: Values) -> Rows:
        with self._translating():
            return self._execute(statement, values).fetchall()

    def _execute(self, statement: str, values: Values = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._opened().execute(statement.encode(), values or None)
        finally:
            self._used_at = time.monotonic()

    def _roll_back(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(SourceError, OperationFailed):
                self.run("ROLLBACK")

    def _opened(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None:
            with libpq_defaults(self.place):
                connection = _Impatient.connect(
                    self.place.text, autocommit=True, prepare_threshold=None, **connect_options(self.place)
                )
            try:
                _require_server(connection, self.place)
                if self._is_checked:
                    _require_schema(connection, self.place)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if self._connection is not None and (self._connection.closed or self._connection.broken):
                self.close()
            raise explained(error, self.place) from error


def _cut(descriptor: int) -> None:
    """End a connection without a word: whoever waits for an answer is told that there is none."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        line.shutdown(socket.SHUT_RDWR)


def connect_options(place: GraphUrl) -> dict[str, Any]:
    """What is asked for beside the URL, where that says nothing else: a name, a limit, and a server that proves who it is."""
    options, told = place.options, os.environ
    asked: dict[str, Any] = {"fallback_application_name": "wake-bridge"}
    if "connect_timeout" not in options and "PGCONNECT_TIMEOUT" not in told:
        asked["connect_timeout"] = CONNECT_LIMIT
    is_tls_told = "sslmode" in options or "PGSSLMODE" in told or "service" in options
    if not place.is_local and not is_tls_told:
        asked["sslmode"] = "verify-full"
        has_root = (
            "sslrootcert" in options or "PGSSLROOTCERT" in told or Path("~/.postgresql/root.crt").expanduser().exists()
        )
        if not has_root:
            asked["sslrootcert"] = "system"
    return asked


class _Lent:
    """`PGSSLMODE`, set while anybody connects: the threads of a daemon connect at the same time, and the first to be done must not take it from the others."""

    turn = threading.Lock()
    connecting = 0


_LENT: Final = _Lent()


@contextlib.contextmanager
def libpq_defaults(place: GraphUrl) -> Iterator[None]:
    """For a service file, which counts more than the environment: verify where it does not say otherwise."""
    with _LENT.turn:
        is_told = "PGSSLMODE" in os.environ and not _LENT.connecting
        is_needed = "service" in place.options and not is_told and "sslmode" not in place.options
        if is_needed:
            _LENT.connecting += 1
            os.environ["PGSSLMODE"] = "verify-full"
    try:
        yield
    finally:
        if is_needed:
            with _LENT.turn:
                _LENT.connecting -= 1
                if not _LENT.connecting:
                    os.environ.pop("PGSSLMODE", None)


def explained(error: psycopg.Error, place: GraphUrl) -> SourceError | OperationFailed | UsageMistake | RefusedForSafety:
    """PostgreSQL's error as one a person can act on."""
    where, state = str(place), error.sqlstate or ""
    text = _first_line(error)
    if state in {"42P01", "3F000", "42883"}:
        return SourceMissing("there is no graph in this database", where, hint=_INIT)
    if isinstance(error, psycopg.errors.CheckViolation):
        return UsageMistake(f"the graph does not take this: {_constraint(error)}", hint="make it smaller")
    if isinstance(error, psycopg.IntegrityError):
        return OperationFailed(f"the graph refuses the change ({text})", where)
    if isinstance(error, psycopg.DataError):
        return UsageMistake(f"PostgreSQL cannot hold this text: {text}", hint="take out what is no text")
    if state == "42501":
        return SourceUnavailable(f"this role may not do that ({text})", where, hint=_HINTS[state])
    if state == "3D000" or state.startswith("28"):
        return SourceUnavailable(f"the server does not let us in ({text})", where, hint=_HINTS.get(state, _GIVE_ONE))
    heard = next((hint for words, hint in _WHILE_CONNECTING if re.search(words, text, re.IGNORECASE)), _LATER)
    return SourceUnavailable(f"the graph cannot be used now ({text})", where, hint=_HINTS.get(state, heard))


def _constraint(error: psycopg.Error) -> str:
    name = error.diag.constraint_name or ""
    return "its properties are not an object" if name.endswith("object") else "it takes more than 2 MiB"


def _first_line(error: psycopg.Error) -> str:
    told = error.diag.message_primary or str(error).strip()
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    # of an address that was tried libpq names the place, which we name besides, and then what was wrong
    text = next((line for line in lines if " failed: " in line), lines[0] if lines else type(error).__name__)
    return text.rpartition(" failed: ")[2].removeprefix("FATAL: ").strip()


def _require_server(connection: psycopg.Connection[tuple[Any, ...]], place: GraphUrl) -> None:
    """Raise where the server is too old; it said its version when it let us in."""
    if (major := connection.info.server_version // 10_000) < OLDEST_SERVER:
        raise SourceUnavailable(
            f"the server is PostgreSQL {major}, and a graph needs {OLDEST_SERVER} or later",
            str(place),
            hint="update the server, or name another one in graph.url",
        )


def _require_schema(connection: psycopg.Connection[tuple[Any, ...]], place: GraphUrl) -> None:
    """Raise what keeps this program from working on the graph: none there, or one of another version."""
    found = connection.execute("SELECT schema_version, home = wake_bridge.here() FROM wake_bridge.graph").fetchall()
    version, is_at_home = found[0] if found else (0, True)
    if version != SCHEMA_VERSION:
        raise SourceNotAGraph(
            f"the graph has schema {version}, and this wake-bridge knows {SCHEMA_VERSION}",
            str(place),
            hint="update wake-bridge on this host",
        )
    if not is_at_home:
        connection.execute("SELECT wake_bridge.settle_in()")
