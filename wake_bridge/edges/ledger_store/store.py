"""`LedgerStore`: all parts of the ledger over one file (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from wake_bridge.edges.ledger_store.archive import Memory
from wake_bridge.edges.ledger_store.coalescing import Coalescing
from wake_bridge.edges.ledger_store.database import Database
from wake_bridge.edges.ledger_store.events import EventRecord
from wake_bridge.edges.ledger_store.files import FILE_NAME, open_for_reading, open_for_writing
from wake_bridge.edges.ledger_store.hand_over import HandingOver
from wake_bridge.edges.ledger_store.heartbeat import HeartbeatRecord
from wake_bridge.edges.ledger_store.housekeeping import Upkeep
from wake_bridge.edges.ledger_store.migrations import MIGRATIONS, Migration
from wake_bridge.edges.ledger_store.notices import NoticeRecord
from wake_bridge.edges.ledger_store.reading import DeliveryReading
from wake_bridge.edges.ledger_store.second_chances import SecondChances
from wake_bridge.edges.ledger_store.sessions import SessionRecord
from wake_bridge.edges.ledger_store.switches import Switches
from wake_bridge.edges.ledger_store.tail import TailRecord
from wake_bridge.edges.ledger_store.wake_history import WakeHistory


class LedgerStore(
    TailRecord,
    Coalescing,
    DeliveryReading,
    HandingOver,
    SecondChances,
    EventRecord,
    Switches,
    WakeHistory,
    HeartbeatRecord,
    NoticeRecord,
    SessionRecord,
    Upkeep,
    Memory,
):
    """The ledger of one state directory; see `wake_bridge.ports.ledger` and `.archive` for what each method promises.

    Used by the thread that opened it. `set_aside` is where a damaged predecessor was put, None if there was none.
    """

    def __init__(self, database: Database, set_aside: Path | None = None) -> None:
        super().__init__(database)
        self.set_aside = set_aside

    @classmethod
    def open(cls, state_dir: Path, *, read_only: bool = False, migrations: Sequence[Migration] = MIGRATIONS) -> Self:
        """Open the ledger of a state directory, creating or migrating it as needed.

        Args:
            state_dir: made private (0700); the file in it is `state.sqlite` (0600).
            read_only: create and change nothing; where there is no ledger yet, an empty one is answered.
            migrations: what makes a file current, oldest first.

        Raises:
            LedgerUnwritable: the directory or the disk refuses, or another process is busy in it.
            LedgerTooNew: a later version wrote the file.
            LedgerError: the file is damaged and cannot be set aside, for it is only read or another process uses it.
        """
        path = str(state_dir / FILE_NAME)
        if read_only:
            return cls(Database(open_for_reading(state_dir, migrations), path))
        connection, set_aside = open_for_writing(state_dir, migrations)
        return cls(Database(connection, path), set_aside)

    def close(self) -> None:
        """See `Ledger.close`."""
        self._db.close()

    @property
    def was_corrupt(self) -> bool:
        """Whether a damaged file was found and set aside: a warning is due."""
        return self.set_aside is not None
