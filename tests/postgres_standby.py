"""A second PostgreSQL server that follows the first one's log as it is written, and may take its place."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Self

from tests.postgres import PostgresServer, run_as_its_user, watched

_PATIENCE: Final = "600"
"""Seconds for which a server that starts is waited for, on a machine that may be busy."""


@dataclass(frozen=True)
class Standby:
    """It only reads, until it takes over."""

    primary: PostgresServer
    server: PostgresServer

    @classmethod
    def of(cls, primary: PostgresServer, *, is_waited_for: bool) -> Self:
        """Copy a server that was started here, and follow it.

        With `is_waited_for` a transaction counts as committed only once it is on this one's disk as well.
        """
        assert primary.data is not None
        assert primary.programs is not None
        number = int(primary.data.suffix.removeprefix(".") or 0) + 1
        data = primary.data.with_suffix(f".{number}")
        options = ("-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        run_as_its_user([primary.programs / "pg_basebackup", *options, "-d", primary.url])
        # its socket lies in its directory: the first one's was copied along
        for left in data.glob(".s.PGSQL*"):
            left.unlink()
        server = PostgresServer(primary.url.replace(str(primary.data), str(data)), data, primary.programs)
        _set(server, f"unix_socket_directories = '{data}'")
        server.control(*server.starting, "-t", _PATIENCE)
        watched(data)
        if is_waited_for:
            with primary.connected() as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            while not _is_said(primary):
                time.sleep(0.05)
            # the process that does it has read the setting first, and tells all others what it says
            with primary.connected() as connection:
                connection.execute("CHECKPOINT")
        return cls(primary, server)

    def is_current(self) -> bool:
        """Whether it has all that the primary has written."""
        with self.primary.connected() as connection, self.server.connected() as here:
            (written,) = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone() or ("",)
            rows = here.execute("SELECT pg_last_wal_receive_lsn() >= %s::pg_lsn", (written,)).fetchall()
        return bool(rows[0][0])

    def falls_behind(self) -> None:
        """From now on nothing of the primary's log arrives here."""
        with self.server.connected() as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")

    def takes_over(self) -> PostgresServer:
        """The first one is killed, and this one is the primary."""
        self.primary.kill()
        self.server.control("promote", "-w", "-t", _PATIENCE)
        return self.server

    def left_behind(self) -> PostgresServer:
        """The first one again, as it was killed: only to be read, for nobody leads there any more."""
        _set(self.primary, "synchronous_standby_names = ''", "default_transaction_read_only = on")
        self.primary.restart()
        return self.primary


def _is_said(primary: PostgresServer) -> bool:
    """Whether a new connection finds the setting."""
    with primary.connected() as connection:
        return connection.execute("SHOW synchronous_standby_names").fetchone() == ("*",)


def _set(server: PostgresServer, *lines: str) -> None:
    """Settings that count at its next start."""
    assert server.data is not None
    with (server.data / "postgresql.auto.conf").open("a", encoding="utf-8") as settings:
        settings.write("".join(f"{line}\n" for line in lines))
