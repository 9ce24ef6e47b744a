"""The ledger's file: its private directory, its migration, and what becomes of a damaged one."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import LedgerDisplaced, LedgerError, LedgerTooNew, LedgerUnwritable
from wake_bridge.storage.ledger.database import (
    BUSY_PATIENCE,
    DISPLACED,
    disk_full,
    explained,
    identity_of,
    is_damage,
    is_full,
)
from wake_bridge.system.files import PRIVATE_FILE, make_directories, require_own_place

Migration = Callable[[sqlite3.Connection], None]
"""Brings the schema from one version to the next, statement by statement, inside a transaction it does not end."""


def _run_script(script: Path, connection: sqlite3.Connection) -> None:
    for statement in statements_of(script.read_text(encoding="utf-8")):
        connection.execute(statement)


def _scripts() -> Iterator[Migration]:
    """`v1.sql` to version 1, `v2.sql` to version 2 and so on, as many as there are."""
    for number in count(1):
        # beside this module; importlib.resources would open archives too, which takes a command its time
        script = Path(__file__).with_name(f"v{number}.sql")
        if not script.is_file():
            return
        yield partial(_run_script, script)


def statements_of(script: str) -> Iterator[str]:
    """The statements of an SQL script; `executescript` would commit the transaction around it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


MIGRATIONS: Final[tuple[Migration, ...]] = tuple(_scripts())
"""In order; the version of a file is how many of them it has seen. Append, never change."""

_BEFORE: Final = ".before-v"
"""Stands between the name of the ledger and the version to which the next step brought it, in the name of the copy."""

_UNFINISHED: Final = ".part"


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the file has seen."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path, newest: int) -> None:
    """Raise `LedgerTooNew` when a later version of wake-bridge wrote the file; it names the copy that this one can read."""
    version = version_of(connection)
    if version > newest:
        copy = _copy_from_before(path, newest)
        raise LedgerTooNew(
            f"the ledger has version {version}, this wake-bridge knows up to {newest}",
            str(path),
            hint=f"install the wake-bridge that wrote it, or go back to the copy from before the update: {copy}"
            if copy is not None
            else "install the wake-bridge that wrote it, or set `daemon.state_dir` to another directory",
        )


def _copy_from_before(path: Path, newest: int) -> Path | None:
    """The copy that a migration left beside the ledger and that is of version `newest` or, of several, next below."""
    versions: dict[Path, int] = {}
    for copy in path.parent.glob(f"{path.name}{_BEFORE}[0-9]*"):
        with suppress(OSError), copy.open("rb") as file:
            # the header of a SQLite file holds `user_version` here
            versions[copy] = int.from_bytes(file.read(64)[60:])
    fitting = [one for one, version in versions.items() if 0 < version <= newest and not one.name.endswith(_UNFINISHED)]
    return max(fitting, key=versions.__getitem__, default=None)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Bring the file at `path` to the newest version; all the steps happen or none.

    A file that holds something already is first copied to `<name>.before-v<newest>`. Other processes wait meanwhile.
    Raises `LedgerTooNew`; and what SQLite raises, with the file as it was.
    """
    refuse_newer(connection, path, len(migrations))
    if version_of(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another process may have been quicker
        version = version_of(connection)
        if 0 < version < len(migrations):
            _keep_copy(path, path.with_name(f"{path.name}{_BEFORE}{len(migrations)}"))
        _step_through(connection, migrations[version:])
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate_in_memory(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """The same for a ledger that is only a copy in memory."""
    connection.execute("BEGIN")
    _step_through(connection, migrations[version_of(connection) :])
    connection.execute("COMMIT")


def _step_through(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    for migration in migrations:
        migration(connection)


def _keep_copy(path: Path, copy: Path) -> None:
    """Copy through a connection of its own: the one that holds the write lock may not be the source."""
    unfinished = copy.with_name(f"{copy.name}{_UNFINISHED}")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    source = sqlite3.connect(path, isolation_level=None)
    target = sqlite3.connect(unfinished, isolation_level=None)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()
    unfinished.replace(copy)


FILE_NAME: Final = "state.sqlite"
IN_MEMORY: Final = ":memory:"

_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

# the bytes on which every SQLite connection to a file keeps a shared lock (sqlite3 os.h: SHARED_FIRST, SHARED_SIZE)
_SHARED_FIRST: Final = 0x40000002
_SHARED_SIZE: Final = 510

_CHECKED_ALWAYS: Final = 4 * 1024 * 1024
"""Bytes of a file that is checked by every command that writes: more would take longer than the command. The daemon checks all."""

_INCREMENTAL: Final = 2
"""SQLite's number for `auto_vacuum = INCREMENTAL`."""


def open_for_writing(
    directory: Path, migrations: Sequence[Migration], *, whole: bool = False
) -> tuple[sqlite3.Connection, Path | None]:
    """Open or create the ledger of a state directory; also answers where a damaged one was set aside.

    Every page is looked at where `whole` says so, and where the file is small.

    Raises `LedgerUnwritable`, `LedgerTooNew`, or `LedgerError` for a damaged file that another process still uses.
    """
    path = directory / FILE_NAME
    set_aside: Path | None = None
    try:
        _make_private_directory(directory)
        with _one_at_a_time(directory):
            _make_private_file(path)
            try:
                return _connect_whole(path, migrations, whole=whole), None
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
            set_aside = _set_aside(path)
            _make_private_file(path)
            return _connect_whole(path, migrations), set_aside
    except sqlite3.Error as error:
        raise explained(error, str(path)) from error
    except OSError as refusal:
        raise _unwritable(refusal, directory) from refusal


def put_back(
    connection: sqlite3.Connection, directory: Path, migrations: Sequence[Migration], ours: Container[str]
) -> sqlite3.Connection:
    """Write the ledger that `connection` has open to its place again, from which a part of it was deleted, and open it there.

    `connection` is closed then. Of what lies there by now only `ours` is replaced, told by device and inode: another
    ledger may know what this one does not.

    Raises:
        LedgerDisplaced: something lies there.
        LedgerUnwritable: the directory or the disk refuses; `connection` is as it was.
    """
    path = directory / FILE_NAME
    draft = path.with_name(f".{FILE_NAME}.back")
    try:
        _make_private_directory(directory)
        with _one_at_a_time(directory):
            log, index = _beside(path)
            for part in (path, log):
                if os.path.lexists(part) and identity_of(str(part)) not in ours:
                    raise LedgerDisplaced("another ledger lies in its place", str(part), hint=DISPLACED)
            draft.unlink(missing_ok=True)
            _make_private_file(draft)
            copy = sqlite3.connect(draft, isolation_level=None)
            try:
                connection.backup(copy)
            finally:
                copy.close()
            draft.replace(path)
            # after the whole: what a crash would leave of it here says nothing else
            log.unlink(missing_ok=True)
            index.unlink(missing_ok=True)
            # closed before the new one is opened: whoever closes last removes the log by its name
            connection.close()
            return _connect_whole(path, migrations)
    except sqlite3.Error as error:
        raise explained(error, str(path)) from error
    except OSError as refusal:
        raise _unwritable(refusal, directory) from refusal


def _beside(path: Path) -> tuple[Path, Path]:
    """The write-ahead log and its index."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def open_for_reading(directory: Path, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """Open the ledger of a state directory to look at it; creates nothing.

    Where there is none yet, an empty one in memory is answered; one of an earlier version is read into memory and
    migrated there. Raises `LedgerTooNew`, `LedgerUnwritable` (it cannot be opened) or `LedgerError` (damaged).
    """
    path = directory / FILE_NAME
    try:
        if not path.exists():
            return _look_at_nothing(tuple(migrations))
        _must_be_regular(path)
        try:
            return _connect_to_read(path, "mode=ro", migrations)
        except sqlite3.OperationalError:
            if os.access(directory, os.W_OK) and not is_full(directory):
                raise
            return _read_without_index(path, migrations)
    except sqlite3.Error as error:
        raise explained(error, str(path)) from error
    except OSError as refusal:
        raise _unwritable(refusal, directory) from refusal


def _connect_to_read(path: Path, how: str, migrations: Sequence[Migration]) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None, timeout=BUSY_PATIENCE
    )
    try:
        refuse_newer(connection, path, len(migrations))
        if version_of(connection) < len(migrations):
            copy = _copy_in_memory(connection, migrations)
            connection.close()
            return copy
    except BaseException:
        connection.close()
        raise
    return connection


def _read_without_index(path: Path, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """Read a ledger for whose index there is no room, or no right to write it; nobody else can have it open then.

    What lies in a log that a daemon left when it died is read in a copy, elsewhere.
    """
    log, _ = _beside(path)
    if not log.exists() or not log.stat().st_size:
        return _connect_to_read(path, "mode=ro&immutable=1", migrations)
    with tempfile.TemporaryDirectory(prefix="wake-bridge-read-") as directory:
        for part in (path, log):
            shutil.copy(part, directory)
        connection = _connect_to_read(Path(directory, path.name), "mode=rw", migrations)
        copy = _copy_in_memory(connection, migrations)
        connection.close()
        return copy


def _look_at_nothing(migrations: tuple[Migration, ...]) -> sqlite3.Connection:
    look = sqlite3.connect(IN_MEMORY, isolation_level=None)
    look.deserialize(_empty_ledger(migrations))
    look.execute("PRAGMA query_only = 1")
    return look


@cache
def _empty_ledger(migrations: tuple[Migration, ...]) -> bytes:
    """A ledger that holds nothing yet; made once, because a command looks several times and each step costs its time."""
    with closing(sqlite3.connect(IN_MEMORY, isolation_level=None)) as empty:
        migrate_in_memory(empty, migrations)
        return empty.serialize()


def _copy_in_memory(source: sqlite3.Connection, migrations: Sequence[Migration]) -> sqlite3.Connection:
    copy = sqlite3.connect(IN_MEMORY, isolation_level=None)
    source.backup(copy)
    migrate_in_memory(copy, migrations)
    copy.execute("PRAGMA query_only = 1")
    return copy


@contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Let one process at a time create, check, migrate or set aside: SQLite's own locks do not cover all of these.

    The kernel gives the lock back when its holder dies. Raises `LedgerUnwritable` after `BUSY_PATIENCE` seconds.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        give_up_at = time.monotonic() + BUSY_PATIENCE
        while not _is_locked(descriptor):
            if time.monotonic() > give_up_at:
                raise LedgerUnwritable(
                    "the ledger is busy", str(directory), hint="another process is opening it: try again in a moment"
                )
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_private_directory(directory: Path) -> None:
    make_directories(directory)
    if os.geteuid() in {0, directory.stat().st_uid}:
        require_own_place(directory)
    _close_to_others(directory)
    _must_be_writable(directory)


def _make_private_file(path: Path) -> None:
    """A file for its owner alone; SQLite gives `-wal` and `-shm` the same mode.

    One that exists is not opened: closing it would drop the locks of every connection in this process.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    _must_be_regular(path)
    _close_to_others(path)
    _must_be_writable(path)


def _must_be_regular(path: Path) -> None:
    """SQLite would follow a link and write there, and wait for ever at a pipe, through every signal."""
    for part in (path, *_beside(path)):
        if os.path.lexists(part) and not stat.S_ISREG(part.lstat().st_mode):
            raise OSError(errno.EINVAL, f"{part.name}is not a regular file", str(part))


def _close_to_others(path: Path) -> None:
    """Take the rights of group and others away; what its owner may do was decided by the owner."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OF_OTHERS:
        path.chmod(mode & ~_OF_OTHERS)


def _must_be_writable(path: Path) -> None:
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _unwritable(refusal: OSError, directory: Path) -> LedgerUnwritable:
    if refusal.errno in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full(directory)
    return LedgerUnwritable(
        f"the state directory cannot be used ({refusal.strerror})",
        str(directory),
        hint="make this user its owner, with write access, or set `daemon.state_dir` to another directory",
    )


def _connect_whole(path: Path, migrations: Sequence[Migration], *, whole: bool = True) -> sqlite3.Connection:
    """Connect, check and migrate; raises `sqlite3.DatabaseError` as it is."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_PATIENCE)
    try:
        if path.stat().st_size == 0:
            # heeded only before the first page is written
            connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        _write_ahead(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = 1")
        if whole or path.stat().st_size <= _CHECKED_ALWAYS:
            _check(connection)
        migrate(connection, path, migrations)
        _let_it_shrink(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _let_it_shrink(connection: sqlite3.Connection) -> None:
    """See that pages which hold nothing any more can be given back; a file of an earlier version is rewritten once."""
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL:
        return
    connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
    # a full disk or another process may be in the way: the next start tries again
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")


def _write_ahead(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise LedgerUnwritable(
            "the state directory cannot hold a write-ahead log",
            str(path.parent),
            hint="set `daemon.state_dir` to a directory on a local disk",
        )


def _check(connection: sqlite3.Connection) -> None:
    """Raise what SQLite raises for damage when a look over all pages finds some."""
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        damage = sqlite3.DatabaseError(verdict)
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage


def _set_aside(path: Path) -> Path:
    """Rename a damaged ledger to `<name>.corrupt-<utc>`, its log first: a new file must never meet the old log.

    Raises `LedgerError` while another process has the file open: it would go on writing into the renamed one.
    """
    with path.open("rb+") as damaged:
        try:
            fcntl.lockf(damaged, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except OSError as in_use:
            raise LedgerError(
                "the ledger is damaged, and another process has it open",
                str(path),
                hint="stop the daemon and start it again: it sets the file aside and goes on",
            ) from in_use
        aside = path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        for suffix in ("-wal", "-shm", ""):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        return aside
