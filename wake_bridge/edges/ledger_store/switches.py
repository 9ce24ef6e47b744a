"""What slows waking down or stops it, and where an identity lives (DESIGN §§3, 6)."""

from __future__ import annotations

from collections.abc import Mapping

from wake_bridge.domain.names import EPOCH_START, Identity, Instant
from wake_bridge.domain.routing import Binding
from wake_bridge.edges.ledger_store.part import LedgerPart
from wake_bridge.edges.ledger_store.rows import binding_of, binding_to_json
from wake_bridge.ports.ledger_records import Pause, SetAside

_ALL = "*"


class Switches(LedgerPart):
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

    def degraded_routes(self) -> list[SetAside]:
        """See `Ledger.degraded_routes`."""
        return [
            SetAside(row["identity"], row["adapter"], row["why"], row["at"])
            for row in self._db.rows("SELECT identity, adapter, why, at FROM degraded ORDER BY identity, adapter")
        ]
