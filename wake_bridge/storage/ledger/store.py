"""`LedgerStore`: all parts of the ledger over one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from wake_bridge.storage.ledger.activity import ActivityRecord
from wake_bridge.storage.ledger.coalescing import Coalescing, SecondChances
from wake_bridge.storage.ledger.database import Database
from wake_bridge.storage.ledger.escalations import EscalationRecord
from wake_bridge.storage.ledger.events import EventRecord, StoredEmissions
from wake_bridge.storage.ledger.identity_state import StoredReceivers, StoredSessions, StoredSwitches
from wake_bridge.storage.ledger.items import IntakeRecord
from wake_bridge.storage.ledger.ledger_file import (
    FILE_NAME,
    MIGRATIONS,
    Migration,
    open_for_reading,
    open_for_writing,
    put_back,
)
from wake_bridge.storage.ledger.moves import HandingOver
from wake_bridge.storage.ledger.other_hosts import SeenToByOtherHosts
from wake_bridge.storage.ledger.reading import DeliveryReading, Memory, WakeHistory
from wake_bridge.storage.ledger.upkeep import HeartbeatRecord, NoticeRecord, Upkeep


class LedgerStore(
    StoredEmissions,
    Coalescing,
    DeliveryReading,
    HandingOver,
    SeenToByOtherHosts,
    EscalationRecord,
    IntakeRecord,
    SecondChances,
    EventRecord,
    StoredSwitches,
    WakeHistory,
    HeartbeatRecord,
    NoticeRecord,
    ActivityRecord,
    StoredSessions,
    StoredReceivers,
    Upkeep,
    Memory,
):
    """The ledger of one state directory; see `wake_bridge.ports.ledger` for what each method promises.

    Used by the thread that opened it. `set_aside` is where a damaged predecessor was put, None if there was none.
    """

    def __init__(self, database: Database, set_aside: Path | None = None) -> None:
        super().__init__(database)
        self.set_aside = set_aside

    @classmethod
    def open(
        cls,
        state_dir: Path,
        *,
        read_only: bool = False,
        whole: bool = False,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> Self:
        """Open the ledger of a state directory, creating or migrating it as needed.

        Args:
            state_dir: made private (0700); the file in it is `state.sqlite` (0600).
            read_only: create and change nothing; where there is no ledger yet, an empty one is answered.
            whole: check every page of a file of any size; a small one is checked always.
            migrations: what makes a file current, oldest first.

        Raises:
            LedgerUnwritable: the directory or the disk refuses, or another process is busy in it.
            LedgerTooNew: a later version wrote the file.
            LedgerError: the file is damaged and cannot be set aside, for it is only read or another process uses it.
        """
        path = str(state_dir / FILE_NAME)
        if read_only:
            return cls(Database(open_for_reading(state_dir, migrations), path))
        connection, set_aside = open_for_writing(state_dir, migrations, whole=whole)
        database = Database(connection, path)
        database.stay_at(path, f"{path}-wal")
        return cls(database, set_aside)

    @property
    def trouble(self) -> str:
        """Why nothing can be written now, or could not when it was tried last, one clause; empty if it can."""
        return self._db.displaced() or self._db.trouble

    @property
    def is_displaced(self) -> bool:
        """Whether the open file was deleted from its place, or another one lies there."""
        return bool(self._db.displaced())

    def put_back(self, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Write it to its place again, with all that it knows, and go on there.

        Raises:
            LedgerDisplaced: another one lies there, which is never replaced.
            LedgerUnwritable: the directory or the disk refuses.
        """
        path = Path(self._db.path)
        self._db.reconnect(put_back(self._db.connection, path.parent, migrations, self._db.identities))
        self._db.stay_at(str(path), f"{path}-wal")

    def close(self) -> None:
        """See `Ledger.close`."""
        self._db.close()
