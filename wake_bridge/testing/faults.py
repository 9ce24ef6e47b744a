"""Every operation of one wake can fail, in SQLite's manner: the N-th of its kind, once.

    WAKE_BRIDGE_TEST_FAULTS=DIRECTORY python -m wake_bridge.testing.faults run

runs the command line as it is, but its daemon on a ledger, on files and on adapters that ask the `FaultPlan` in that
directory before each operation. Calls of tmux ask by themselves, see `fault_tmux`.

    ledger        each statement of SQLite: `refused` (an I/O error, nothing done) · `away` (refused for a while)
    ledger-write  those that may write: `unwritten` (the kernel refuses every write that SQLite makes meanwhile) ·
                  `unsaid` (done, but an error is reported)
    file          open, write, set the time, rename and sync below the state directory: `refused` · `unsaid` · `away`
    file-write    of those each write: `short` (half of it is written)
    adapter       resolve, survey, observe, deliver: `raises` (nothing done) · `hangs` (nothing done) · `unsaid` (done, raises)

The state directory is named by `WAKE_BRIDGE_TEST_FAULTS_STATE`.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import resource
import sqlite3
import types
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import wake_bridge.daemon.life
import wake_bridge.storage.logs
import wake_bridge.wiring
from wake_bridge.cli.start import main
from wake_bridge.integrations.adapters import make_adapters
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.storage.ledger.database import Database
from wake_bridge.testing.fault_plan import AWAY, FaultPlan

FAULTS: Final = "WAKE_BRIDGE_TEST_FAULTS"
COMMAND: Final = ("-m", "wake_bridge.testing.faults")
"""What an interpreter is given to run the command line through here."""

STATE: Final = "WAKE_BRIDGE_TEST_FAULTS_STATE"
WAYS: Final = {
    "ledger": ("refused", AWAY),
    "ledger-write": ("unwritten", "unsaid"),
    "file": ("refused", "unsaid", AWAY),
    "file-write": ("short",),
    "adapter": ("raises", "hangs", "unsaid"),
}
ADAPTER_CALLS: Final = ("resolve", "survey", "observe", "deliver")

_SHOWN: Final = 160


class PlannedFault(Exception):
    """What an adapter raises when it is planned."""


# -- the ledger ------------------------------------------------------------------------------------------------------


class FaultyConnection:
    """SQLite's connection, of which one statement fails."""

    def __init__(self, origin: sqlite3.Connection, plan: FaultPlan) -> None:
        self._origin = origin
        self._plan = plan

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        """See `sqlite3.Connection.execute`."""
        what = " ".join(statement.split())
        way = self._plan.meets("ledger", what[:_SHOWN])
        if not what.startswith(("SELECT", "BEGIN", "PRAGMA")):
            way = way or self._plan.meets("ledger-write", what[:_SHOWN])
        if way in {"refused", AWAY}:
            raise _io_error("disk I/O error (planned)")
        if way == "unwritten":
            with no_writes():
                return self._origin.execute(statement, parameters)
        done = self._origin.execute(statement, parameters)
        if way == "unsaid":
            raise _io_error("disk I/O error after it was done (planned)")
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._origin, name)


class FaultyLedger(LedgerStore):
    """The ledger on such a connection."""

    def __init__(self, database: Database, set_aside: Path | None = None) -> None:
        connection: Any = FaultyConnection(database.connection, FaultPlan(os.environ[FAULTS]))
        super().__init__(Database(connection, database.path), set_aside)


@contextmanager
def no_writes() -> Iterator[None]:
    """Let the kernel refuse to write one more byte to any file of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _io_error(text: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


# -- files -----------------------------------------------------------------------------------------------------------


class FaultyFiles:
    """The calls of `os` on what lies in the state directory, of which one fails; SQLite's own are not among them."""

    CALLS: Final = ("open", "write", "utime", "fsync", "replace", "rename")

    def __init__(self, directory: Path, plan: FaultPlan) -> None:
        self._directory = str(directory)
        self._plan = plan
        self._names: dict[int, str] = {}
        self._close = os.close

    def install(self) -> None:
        """Take the place of the calls, and of the stream that the log writes to."""
        for name in self.CALLS:
            setattr(os, name, self._asking(name, getattr(os, name)))
        os.close = self._closing  # type: ignore[assignment]
        faulty = type("FaultyFileIO", (io.FileIO,), {"write": self._asking("log", io.FileIO.write)})
        wake_bridge.storage.logs.io = types.SimpleNamespace(FileIO=faulty, TextIOWrapper=io.TextIOWrapper)  # type: ignore[assignment, attr-defined]

    def _closing(self, descriptor: int) -> None:
        self._names.pop(descriptor, None)
        self._close(descriptor)

    def _asking(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def asked(target: Any, *arguments: Any, **named: Any) -> Any:
            path = self._path(target)
            what = f"{name} {Path(path).name}"
            way = self._plan.meets("file", what) if path else ""
            if path and name in {"write", "log"}:
                way = way or self._plan.meets("file-write", what)
            if way in {"refused", AWAY}:
                raise OSError(errno.EIO, "planned", path)
            if way == "short":
                half = arguments[0][: len(arguments[0]) // 2]
                return call(target, half)
            done = call(target, *arguments, **named)
            if way:
                if name == "open":
                    self._close(done)
                raise OSError(errno.EIO, "planned, after it was done", path)
            if name == "open" and path:
                self._names[done] = path
            return done

        return asked

    def _path(self, target: Any) -> str:
        """The path of what is ours; empty for everything else."""
        if isinstance(target, io.FileIO):
            return str(target.name if isinstance(target.name, str) else self._names.get(target.name, "log"))
        path = self._names.get(target, "") if isinstance(target, int) else os.fsdecode(target)
        return path if path.startswith(self._directory) else ""


# -- adapters --------------------------------------------------------------------------------------------------------


def _faulty_adapters(make: Callable[..., Any], plan: FaultPlan) -> Callable[..., Any]:
    @wraps(make)
    def made(*arguments: Any) -> Any:
        loaded = make(*arguments)
        for name, adapter in loaded.adapters.items():
            for call in ADAPTER_CALLS:
                setattr(adapter, call, _faulty_call(f"{name}.{call}", getattr(adapter, call), plan))
        return loaded

    return made


def _faulty_call(name: str, call: Callable[..., Awaitable[Any]], plan: FaultPlan) -> Callable[..., Awaitable[Any]]:
    @wraps(call)
    async def asked(*arguments: Any) -> Any:
        way = plan.meets("adapter", name)
        if way == "raises":
            raise PlannedFault(name)
        if way == "hangs":
            await asyncio.Event().wait()
        done = await call(*arguments)
        if way == "unsaid":
            raise PlannedFault(f"{name}, after it was done")
        return done

    return asked


def run() -> None:
    """The command line, with a daemon whose operations may fail."""
    plan = FaultPlan(os.environ[FAULTS])
    wake_bridge.daemon.life.LedgerStore = FaultyLedger  # type: ignore[attr-defined]
    wake_bridge.wiring.make_adapters = _faulty_adapters(make_adapters, plan)  # type: ignore[attr-defined]
    FaultyFiles(Path(os.environ[STATE]), plan).install()
    main()


if __name__ == "__main__":
    run()
