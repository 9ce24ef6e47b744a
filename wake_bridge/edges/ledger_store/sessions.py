"""Which conversation of which harness is whose (DESIGN §7)."""

from __future__ import annotations

from sqlite3 import Row

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.sessions import Session
from wake_bridge.edges.ledger_store.part import LedgerPart


class SessionRecord(LedgerPart):
    """Known until they end, or until one of them is told to be another identity's."""

    def meet_session(self, session: Session) -> None:
        """See `Ledger.meet_session`."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO session (session_id, harness, identity, directory, pid, started, socket, pane, seen_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET harness = excluded.harness,"
                " identity = excluded.identity, directory = excluded.directory, pid = excluded.pid,"
                " started = excluded.started, socket = excluded.socket, pane = excluded.pane, seen_at = excluded.seen_at",
                (
                    session.session_id,
                    session.harness,
                    session.identity,
                    session.directory,
                    session.pid,
                    session.started,
                    session.socket,
                    session.pane,
                    session.seen_at,
                ),
            )

    def part_from_session(self, session_id: str) -> None:
        """See `Ledger.part_from_session`."""
        with self._db.transaction():
            self._db.change("DELETE FROM session WHERE session_id = ?", (session_id,))

    def session(self, session_id: str) -> Session | None:
        """See `Ledger.session`."""
        row = self._db.row("SELECT * FROM session WHERE session_id = ?", (session_id,))
        return None if row is None else _session_of(row)

    def sessions_of(self, identity: Identity) -> list[Session]:
        """See `Ledger.sessions_of`."""
        rows = self._db.rows("SELECT * FROM session WHERE identity = ? ORDER BY seen_at DESC, session_id", (identity,))
        return [_session_of(row) for row in rows]

    def all_sessions(self) -> list[Session]:
        """See `Ledger.all_sessions`."""
        return [_session_of(row) for row in self._db.rows("SELECT * FROM session ORDER BY seen_at DESC, session_id")]


def _session_of(row: Row) -> Session:
    return Session(
        harness=row["harness"],
        session_id=row["session_id"],
        identity=Identity(row["identity"]),
        directory=row["directory"],
        pid=row["pid"],
        started=row["started"],
        socket=row["socket"],
        pane=row["pane"],
        seen_at=Instant(row["seen_at"]),
    )
