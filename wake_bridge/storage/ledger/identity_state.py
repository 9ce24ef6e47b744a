"""What the ledger keeps for each identity: pauses, limits, panes and conversations."""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import Row

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.receivers import ReceiverStanding
from wake_bridge.domain.routing import Binding, Claim, RememberedPane
from wake_bridge.domain.sessions import Session
from wake_bridge.ports.ledger_records import DegradedRoute, Pause
from wake_bridge.storage.ledger.columns import binding_of, binding_to_json
from wake_bridge.storage.ledger.database import LedgerPart

_ALL = "*"


class StoredSwitches(LedgerPart):
    """Lifted limits, pauses, bindings, routes set aside."""

    def limits_lifted_at(self, identity: Identity) -> Instant:
        """See `Ledger.limits_lifted_at`."""
        lifted = self._db.value("SELECT MAX(at) FROM limit_lift WHERE identity IN (?, ?)", (identity, _ALL))
        return EPOCH_START if lifted is None else Instant(lifted)

    def pause(self, identity: str, until: Instant | None, now: Instant) -> None:
        """See `Ledger.pause`; a later word replaces an earlier one."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO paused (identity, since, until) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET since = excluded.since, until = excluded.until",
                (identity, now, until),
            )

    def resume(self, identity: str, now: Instant) -> None:
        """See `Ledger.resume`."""
        with self._db.transaction():
            self._db.change("DELETE FROM paused WHERE identity = :it OR :it = '*'", {"it": identity})
            self._db.change(
                "INSERT INTO limit_lift (identity, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at",
                (identity, now),
            )

    def pauses(self, now: Instant) -> list[Pause]:
        """See `Ledger.pauses`."""
        return [
            Pause(row["identity"], row["until"])
            for row in self._db.rows(
                "SELECT identity, until FROM paused WHERE until IS NULL OR until > ? ORDER BY identity", (now,)
            )
        ]

    def bind(self, identity: Identity, binding: Binding, now: Instant) -> None:
        """See `Ledger.bind`."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO binding (identity, fence, at) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET fence = excluded.fence, at = excluded.at",
                (identity, binding_to_json(binding), now),
            )

    def unbind(self, identity: Identity) -> None:
        """See `Ledger.unbind`."""
        with self._db.transaction():
            self._db.change("DELETE FROM binding WHERE identity = ?", (identity,))
            self._leave(identity)
            self._db.change("DELETE FROM remembered_pane WHERE identity = ?", (identity,))

    def bindings(self) -> Mapping[Identity, Binding]:
        """See `Ledger.bindings`."""
        return {
            row["identity"]: binding_of(row["fence"])
            for row in self._db.rows("SELECT identity, fence FROM binding ORDER BY identity")
        }

    def binding(self, identity: Identity) -> Binding | None:
        """See `Ledger.binding`."""
        stored = self._db.value("SELECT fence FROM binding WHERE identity = ?", (identity,))
        return None if stored is None else binding_of(stored)

    def remember(self, identity: Identity, pane: RememberedPane, was: RememberedPane | None) -> bool:
        """See `Ledger.remember`."""
        with self._db.transaction():
            found = self.remembered(identity)
            if not _is_as_expected(found, was, pane):
                return False
            if found is not None and not _is_the_same(found, pane):
                self._leave(identity)
            self._db.change(
                "INSERT INTO remembered_pane (identity, name, socket, fence, since, seen_at) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET name = excluded.name, socket = excluded.socket, fence = excluded.fence,"
                " since = excluded.since, seen_at = excluded.seen_at",
                (identity, pane.name, pane.socket, binding_to_json(pane.fence), pane.since, pane.seen_at),
            )
            return True

    def seen_there(self, identity: Identity, at: Instant) -> None:
        """See `Ledger.seen_there`."""
        with self._db.transaction():
            self._db.change(
                "UPDATE remembered_pane SET seen_at = MAX(seen_at, ?) WHERE identity = ?",
                (at, identity),
            )

    def remembered(self, identity: Identity) -> RememberedPane | None:
        """See `Ledger.remembered`."""
        row = self._db.row("SELECT * FROM remembered_pane WHERE identity = ?", (identity,))
        if row is None:
            return None
        return RememberedPane(row["name"], row["socket"], binding_of(row["fence"]), row["since"], row["seen_at"])

    def claims(self) -> list[Claim]:
        """See `Ledger.claims`."""
        rows = self._db.rows(
            "SELECT identity, fence, NULL AS until FROM remembered_pane UNION ALL"
            " SELECT identity, fence, until FROM former_agent ORDER BY identity, until"
        )
        return [Claim(row["identity"], fence=binding_of(row["fence"]), until=row["until"]) for row in rows]

    def _leave(self, identity: Identity) -> None:
        """What was remembered becomes a former agent, as of when it was last seen."""
        self._db.change(
            "INSERT INTO former_agent (identity, fence, until) SELECT identity, fence, seen_at FROM remembered_pane"
            " WHERE identity = ? ON CONFLICT DO UPDATE SET until = excluded.until",
            (identity,),
        )

    def degrade(self, identity: Identity, adapter: str, why: str, now: Instant) -> None:
        """See `Ledger.degrade`."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO degraded (identity, adapter, why, at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET why = excluded.why, at = excluded.at",
                (identity, adapter, why, now),
            )

    def restore(self, identity: Identity, adapter: str) -> None:
        """See `Ledger.restore`."""
        with self._db.transaction():
            self._db.change("DELETE FROM degraded WHERE identity = ? AND adapter = ?", (identity, adapter))

    def degraded(self, identity: Identity) -> Mapping[str, str]:
        """See `Ledger.degraded`."""
        return {
            row["adapter"]: row["why"]
            for row in self._db.rows(
                "SELECT adapter, why FROM degraded WHERE identity = ? ORDER BY adapter", (identity,)
            )
        }

    def degraded_routes(self) -> list[DegradedRoute]:
        """See `Ledger.degraded_routes`."""
        return [
            DegradedRoute(row["identity"], row["adapter"], row["why"], row["at"])
            for row in self._db.rows("SELECT identity, adapter, why, at FROM degraded ORDER BY identity, adapter")
        ]


def _is_the_same(one: RememberedPane, other: RememberedPane) -> bool:
    """Whether they say the same but for when it was seen; which session shows the pane is no part of it."""
    has_agent = (one.fence.agent_pid, one.fence.agent_started) == (other.fence.agent_pid, other.fence.agent_started)
    return has_agent and one.fence.has_pane_of(other.fence) and (one.name, one.socket) == (other.name, other.socket)


def _is_as_expected(found: RememberedPane | None, was: RememberedPane | None, new: RememberedPane) -> bool:
    """Whether nobody else has written since: `was` is None where nothing was known by the name of today."""
    if found is None or was is None:
        return was is None and (found is None or (found.name, found.socket) != (new.name, new.socket))
    return _is_the_same(found, was)


class StoredSessions(LedgerPart):
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


class StoredReceivers(LedgerPart):
    """Receivers of webhooks that failed and have taken nothing since."""

    def note_receiver(self, standing: ReceiverStanding) -> None:
        """See `Ledger.note_receiver`."""
        with self._db.transaction():
            self._db.change(
                "INSERT INTO receiver (subscription_id, as_of, failures, suspended_at, tries, next_try_at, degraded_at, why)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET as_of = excluded.as_of,"
                " failures = excluded.failures, suspended_at = excluded.suspended_at, tries = excluded.tries,"
                " next_try_at = excluded.next_try_at, degraded_at = excluded.degraded_at, why = excluded.why",
                (
                    standing.subscription_id,
                    standing.as_of,
                    standing.failures,
                    standing.suspended_at,
                    standing.tries,
                    standing.next_try_at,
                    standing.degraded_at,
                    standing.why,
                ),
            )

    def forget_receiver(self, subscription_id: str) -> bool:
        """See `Ledger.forget_receiver`."""
        with self._db.transaction():
            return bool(self._db.change("DELETE FROM receiver WHERE subscription_id = ?", (subscription_id,)))

    def receiver_standing(self, subscription_id: str) -> ReceiverStanding | None:
        """See `Ledger.receiver_standing`."""
        row = self._db.row("SELECT * FROM receiver WHERE subscription_id = ?", (subscription_id,))
        return None if row is None else _standing_of(row)

    def receiver_standings(self) -> list[ReceiverStanding]:
        """See `Ledger.receiver_standings`."""
        return [_standing_of(row) for row in self._db.rows("SELECT * FROM receiver ORDER BY subscription_id")]


def _standing_of(row: Row) -> ReceiverStanding:
    return ReceiverStanding(
        subscription_id=row["subscription_id"],
        as_of=row["as_of"],
        failures=row["failures"],
        suspended_at=row["suspended_at"],
        tries=row["tries"],
        next_try_at=row["next_try_at"],
        degraded_at=row["degraded_at"],
        why=row["why"],
    )
