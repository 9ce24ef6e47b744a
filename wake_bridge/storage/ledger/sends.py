"""Messages to people: each move is a compare-and-swap on (id, state, lease), and a line of its journal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from wake_bridge.domain.channels import Send, SendLine, SendOutcome, SendState, SendStep
from wake_bridge.domain.errors import StaleLease
from wake_bridge.domain.items import ME
from wake_bridge.domain.names import EPOCH_START, Instant
from wake_bridge.domain.notices import Notice
from wake_bridge.storage.ledger.database import LedgerPart

_COLUMNS = (
    "id, channel, subject, reason, title, body, since, identity, place, whose, sender, created_at, next_try_at,"
    " is_for_absent, is_patient, episodes"
)


class SendRecord(LedgerPart):
    """Notices given, and messages on their way through channels."""

    def give_notice(self, notice: Notice, now: Instant, sends: Sequence[Send] = ()) -> bool:
        """See `Ledger.give_notice`."""
        with self._db.transaction():
            given = self._note_notice(notice, now)
            if given:
                self._put(sends, now)
            return given

    def tell_of_episodes(self, notice: Notice, ids: Sequence[str], sends: Sequence[Send], now: Instant) -> None:
        """See `SendStore.tell_of_episodes`."""
        with self._db.transaction():
            self._note_notice(notice, now)
            self._db.change_each(
                "UPDATE episode SET told_at = ? WHERE id = ? AND told_at IS NULL", [(now, one) for one in ids]
            )
            self._put(sends, now)

    def put_send(self, send: Send, now: Instant, *, at_most: int | None = None, since: Instant = EPOCH_START) -> bool:
        """See `SendStore.put_send`."""
        with self._db.transaction():
            if at_most is not None:
                sent = "SELECT COUNT(*) FROM send WHERE sender = ? AND sender <> '' AND created_at > ?"
                if self._db.value(sent, (send.sender, since)) >= at_most:
                    return False
            self._put([send], now)
            return True

    def sends_to_do(self, now: Instant) -> list[Send]:
        """See `SendStore.sends_to_do`."""
        return self._sends(
            "settled_at IS NULL AND CASE state WHEN 'LOCKED' THEN lease_until <= :now ELSE next_try_at <= :now END"
            # the plus, or all that was ever sent is gone through in its order
            " ORDER BY +seq",
            {"now": now},
        )

    def lock_send(self, send: Send, channel: str, until: Instant, now: Instant) -> Send:
        """See `SendStore.lock_send`."""
        changes = "state = 'LOCKED', channel = :channel, lease_until = :until, attempts = attempts + 1"
        with self._db.transaction():
            return self._move(send, changes, {"channel": channel, "until": until}, SendStep.INTENT_SEND, channel, now)

    def release_send(self, send: Send, next_try_at: Instant, why: str, now: Instant) -> Send:
        """See `SendStore.release_send`."""
        changes = "state = 'PENDING', lease_until = NULL, next_try_at = :next, why = :why"
        with self._db.transaction():
            return self._move(send, changes, {"next": next_try_at, "why": why}, SendStep.REFUSED, why, now)

    def settle_send(self, send: Send, outcome: SendOutcome, why: str, now: Instant) -> Send:
        """See `SendStore.settle_send`."""
        with self._db.transaction():
            return self._settle(send, outcome, why, now)

    def _settle(self, send: Send, outcome: SendOutcome, why: str, now: Instant) -> Send:
        changes = "state = :to, outcome = :outcome, lease_until = NULL, settled_at = :now, why = :why"
        values = {"to": outcome.state, "outcome": outcome, "why": why, "now": now}
        told = f"{outcome}: {why}" if why else outcome
        if outcome is SendOutcome.SENT:
            self._db.change(
                "UPDATE wake_event SET delivered_at = COALESCE(delivered_at, ?) WHERE id = ? AND kind = 'item' AND identity = ?",
                (now, send.subject, ME),
            )
        return self._move(send, changes, values, SendStep.SETTLED, told, now)

    def find_send(self, send_id: str) -> Send | None:
        """See `SendStore.find_send`."""
        found = self._sends("id >= :id AND id < :id || 'g' ORDER BY id LIMIT 2", {"id": send_id}) if send_id else []
        exact = [one for one in found if one.id == send_id]
        return (exact or found)[0] if len(exact or found) == 1 else None

    def sends(self, limit: int, identity: str = "") -> list[Send]:
        """See `SendStore.sends`."""
        return self._sends(
            "(:who = '' OR identity = :who OR sender = :who) ORDER BY seq DESC LIMIT :limit",
            {"who": identity, "limit": limit},
        )

    def journal_of_send(self, send_id: str) -> list[SendLine]:
        """See `SendStore.journal_of_send`."""
        return [
            SendLine(Instant(row["at"]), SendStep(row["step"]), row["why"])
            for row in self._db.rows("SELECT at, step, why FROM send_line WHERE send_id = ? ORDER BY seq", (send_id,))
        ]

    def _note_notice(self, notice: Notice, now: Instant) -> bool:
        given = self._db.change(
            "INSERT INTO notice (subject, at, identity, reason, title, body) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (notice.subject, now, notice.identity, notice.reason, notice.title, notice.body),
        )
        return given > 0

    def _put(self, sends: Iterable[Send], now: Instant) -> None:
        for one in sends:
            values = {
                name: getattr(one, "where" if name == "place" else name)
                for name in _COLUMNS.split(", ")
                if name != "episodes"
            }
            values["episodes"] = json.dumps(one.episodes)
            places = ", ".join(f":{name}" for name in values)
            statement = f"INSERT INTO send ({_COLUMNS}) VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608 - written here
            if self._db.change(statement, values):
                self._write(one.id, SendStep.CREATED, one.channel, now)

    def _move(
        self, send: Send, changes: str, values: dict[str, object], step: SendStep, why: str, now: Instant
    ) -> Send:
        statement = f"UPDATE send SET {changes}, lease = lease + 1 WHERE id = :id AND state = :was AND lease = :lease"  # noqa: S608 - written here
        if not self._db.change(statement, {**values, "id": send.id, "was": send.state, "lease": send.lease}):
            raise StaleLease("somebody else sends it now", send.id, hint="nothing was changed")
        self._write(send.id, step, why, now)
        return self._sends("id = :id", {"id": send.id})[0]

    def _write(self, send_id: str, step: SendStep, why: str, now: Instant) -> None:
        self._db.change(
            "INSERT INTO send_line (send_id, at, step, lease, why) SELECT id, ?, ?, lease, ? FROM send WHERE id = ?",
            (now, step, why, send_id),
        )

    def _sends(self, condition: str, values: dict[str, object]) -> list[Send]:
        return [_send_of(row) for row in self._db.rows(f"SELECT * FROM send WHERE {condition}", values)]  # noqa: S608 - written here


def _send_of(row: sqlite3.Row) -> Send:
    return Send(
        subject=row["subject"],
        reason=row["reason"],
        title=row["title"],
        body=row["body"],
        since=Instant(row["since"]),
        identity=row["identity"],
        where=row["place"],
        whose=row["whose"],
        id=row["id"],
        channel=row["channel"],
        sender=row["sender"],
        created_at=Instant(row["created_at"]),
        next_try_at=Instant(row["next_try_at"]),
        is_for_absent=bool(row["is_for_absent"]),
        is_patient=bool(row["is_patient"]),
        episodes=tuple(json.loads(row["episodes"])),
        state=SendState(row["state"]),
        outcome=None if row["outcome"] is None else SendOutcome(row["outcome"]),
        attempts=row["attempts"],
        lease=row["lease"],
        lease_until=row["lease_until"],
        settled_at=row["settled_at"],
        why=row["why"],
    )
