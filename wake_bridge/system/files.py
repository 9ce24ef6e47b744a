"""Default places of files, opening them safely, and who else could change them.

Whoever can write one of them types in the person's terminals. Only this user and root may; a group only where it is the
person's own, that is, called as they are and without another member, as many systems make one for everybody.

Whatever lies there before us (a link to another file, a pipe, a directory, another user's file) is an `OSError` at once:
it is never written through, never truncated, and nothing hangs on it (SECURITY.md).
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from platformdirs import PlatformDirs

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety

APPLICATION: Final = "wake-bridge"
CONFIG_VARIABLE: Final = "WAKE_BRIDGE_CONFIG"
AGENT_VARIABLE: Final = "WAKE_BRIDGE_AGENT"
"""Names the identity of the agent that is started with it; no setting."""

PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600


def _directories() -> PlatformDirs:
    return PlatformDirs(appname=APPLICATION, appauthor=False)


def default_config_file() -> Path:
    """`<platform config dir>/wake-bridge/config.toml`."""
    return Path(_directories().user_config_dir) / "config.toml"


class ConfigPlace(NamedTuple):
    """The configuration file to read. `named_by` says who asked for it; empty: the default place, where none is fine."""

    path: Path
    named_by: str = ""


def locate_config(option: str | None, environment: Mapping[str, str]) -> ConfigPlace:
    """Which file to read: the option, else `$WAKE_BRIDGE_CONFIG`, else the platform's place."""
    if option:
        return ConfigPlace(expanded(option).absolute(), "--config")
    if named := environment.get(CONFIG_VARIABLE):
        return ConfigPlace(expanded(named).absolute(), f"${CONFIG_VARIABLE}")
    return ConfigPlace(default_config_file())


def default_screens_directory() -> Path:
    """`<platform config dir>/wake-bridge/screens`: profiles that override the bundled ones or add to them."""
    return Path(_directories().user_config_dir) / "screens"


def default_graph_file() -> Path:
    """`<data dir>/wake-bridge/graph.sqlite`: the embedded graph."""
    return Path(_directories().user_data_dir) / "graph.sqlite"


def default_state_directory() -> Path:
    """Where ledger, cursor, lock and socket live."""
    return Path(_directories().user_state_dir)


def expanded(text: str) -> Path:
    """`text` as a path, `~` replaced by the home directory where there is one."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def make_directories(directory: Path, mode: int = PRIVATE_DIRECTORY) -> tuple[Path, ...]:
    """Create a directory and those above it, each with `mode` at most; answers which were made, outermost first.

    Raises:
        OSError: the file system refuses.
    """
    # `parents=True` would leave the parents as open as the umask lets them be
    missing = tuple(reversed([one for one in (directory, *directory.parents) if not one.exists()]))
    for one in missing:
        one.mkdir(mode=mode, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    return missing


def make_private_directory(directory: Path) -> None:
    """Create a directory for its owner alone (0700), and those above it; one that exists is left as it is.

    Raises:
        OperationFailed: the file system refuses.
    """
    try:
        make_directories(directory)
    except OSError as refusal:
        raise OperationFailed(
            f"the directory cannot be created ({refusal.strerror})",
            str(directory),
            hint="choose another place, or give this user write access there",
        ) from refusal


_UNSEEN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Follow no link, wait for nobody at a pipe's other end, take no terminal for our own."""

LONGEST: Final = 16 * 1024 * 1024
"""Bytes that are read of one of our own files at most."""


def open_own_file(path: Path, flags: int) -> int:
    """A descriptor of a regular file that belongs to this user, and is theirs alone if it is made here; `flags` as for `os.open`.

    Raises:
        OSError: there is none, or something else lies there.
    """
    try:
        descriptor = os.open(path, flags | _UNSEEN, PRIVATE_FILE)
    except OSError as refusal:
        if refusal.errno in {errno.ELOOP, errno.ENXIO}:
            raise OSError(refusal.errno, "it is a link or a pipe, no regular file", str(path)) from refusal
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    raise PermissionError(errno.EPERM, "it belongs to another user", str(path))


@contextmanager
def alone_with(lock: Path) -> Iterator[None]:
    """One process at a time: holds the lock file of what it is about to read and write anew, and waits for it.

    Raises:
        OSError: the lock file cannot be opened, or something else lies there.
    """
    descriptor = open_own_file(lock, os.O_WRONLY | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_own_file(path: Path, at_most: int = LONGEST) -> bytes:
    """Its content, or the first `at_most` bytes of it.

    Raises:
        OSError: there is none, or something else lies there.
    """
    with open(open_own_file(path, os.O_RDONLY), "rb") as file:
        return file.read(at_most)


def touch_own_file(path: Path, at: int | None = None) -> None:
    """Make it if it is absent, and let its time be `at` (nanoseconds), or now.

    Raises:
        OSError: it cannot be made, or something else lies there.
    """
    descriptor = open_own_file(path, os.O_WRONLY | os.O_CREAT)
    try:
        if at is None:
            os.utime(descriptor)
        else:
            os.utime(descriptor, ns=(at, at))
    finally:
        os.close(descriptor)


def begin_draft(draft: Path, mode: int = PRIVATE_FILE) -> int:
    """A descriptor of a new, empty file; what lay at its name is unlinked, whatever it was, and never opened.

    Raises:
        OSError: the file system refuses.
    """
    draft.unlink(missing_ok=True)
    return os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _UNSEEN, mode)


def replace_file(path: Path, text: str, mode: int = PRIVATE_FILE) -> None:
    """Put a text (UTF-8) in a file's place, whole or not at all, also through a power cut.

    Raises:
        OSError: the file system refuses; what stood there stands.
    """
    draft = path.with_name(f".{path.name}.new")
    with open(begin_draft(draft, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


_ROOT: Final = 0


def why_another_could_change(file: Path) -> str:
    """Why a file cannot be trusted, or the directory it lies in; empty if it can, or is not there."""
    for place in dict.fromkeys((file, file.parent, Path(os.path.realpath(file)).parent)):
        if why := _why(place, allow_sticky=place != file):
            return why
    return ""


def why_another_could_add(directory: Path) -> str:
    """Why a directory cannot be trusted in which every file counts; empty if it can, or is not there."""
    return _why(directory, allow_sticky=False) or why_another_could_change(directory)


def require_own_place(directory: Path) -> None:
    """Make sure that nobody else could have put anything into the state directory.

    Raises:
        RefusedForSafety: somebody could.
    """
    if why := _why(directory, allow_sticky=False):
        raise RefusedForSafety(
            f"others can write the state directory: {why}",
            str(directory),
            hint=f"look at what lies in it, then run `chmod go-w {directory}`; or set `daemon.state_dir`",
        )


def _why(path: Path, *, allow_sticky: bool) -> str:
    """`allow_sticky`: in a directory like /tmp nobody can replace what another one owns."""
    try:
        found = path.stat()
    except OSError:
        return ""
    what = f"the directory {path}" if stat.S_ISDIR(found.st_mode) else "this file"
    if stat.S_ISCHR(found.st_mode) or (allow_sticky and found.st_mode & stat.S_ISVTX):
        return ""
    if found.st_uid not in {os.geteuid(), _ROOT}:
        return f"{what} belongs to another user ({_name_of(found.st_uid)}), who could choose where keys are typed"
    if found.st_mode & stat.S_IWOTH:
        return f"anyone may write {what}, and so choose where keys are typed; run `chmod o-w` on it"
    if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
        return f"a whole group may write {what}, and so choose where keys are typed; run `chmod g-w` on it"
    return ""


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_own_group(gid: int) -> bool:
    try:
        group, name = grp.getgrgid(gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return group.gr_name == name and not set(group.gr_mem) - {name}


def place_of_state(directory: Path) -> str:
    """Tells a directory from every copy of it: this boot of this machine, device and inode."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = f"{uuid.getnode():x}"
    found = directory.stat()
    return f"{boot}:{found.st_dev:x}-{found.st_ino:x}"
