"""How a service manager starts the daemon, and our file that says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final, Protocol

from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import AGENT_VARIABLE, CONFIG_VARIABLE, make_directories, read_own_file, replace_file

PATIENCE: Final = 120
"""Seconds; a start returns only when the daemon says that it is ready, or the manager has given it up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to."""

    status: int
    output: str
    complaint: str

    @property
    def is_well(self) -> bool:
        """Whether it did what was asked."""
        return self.status == 0


class Calls:
    """Runs programs that are found on the `PATH` of `environment`, and in it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def finds(self, program: str) -> bool:
        """Whether there is such a program."""
        return shutil.which(program, path=self.environment.get("PATH")) is not None

    def run(self, program: str, *arguments: str) -> Answer:
        """Run it to its end. One that is missing, or takes longer than `PATIENCE`, is an answer that is not well."""
        path = shutil.which(program, path=self.environment.get("PATH"))
        if path is None:
            return Answer(127, "", f"there is no {program} on PATH")
        try:
            done = subprocess.run(  # noqa: S603 - an argv, never a shell
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=dict(self.environment),
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"{program} did not answer within {PATIENCE} s")
        except OSError as refusal:
            return Answer(126, "", f"{program} cannot be run ({refusal.strerror})")
        complaint = done.stderr.strip().replace("\n", "; ") or f"{program} exited with {done.returncode}"
        return Answer(done.returncode, done.stdout, "" if done.returncode == 0 else complaint)


_NEW_FILE: Final = 0o644
_NEW_DIRECTORY: Final = 0o755


def replace_ours(file: Path, text: str, signature: str, *, force: bool) -> bool:
    """Write the file, as a whole or not at all; answers whether it changed.

    Args:
        file: where; its directory is made if absent.
        text: the new content.
        signature: in every such file of ours.
        force: replace somebody else's as well.

    Raises:
        RefusedForSafety: the file is somebody else's.
        OperationFailed: the file system refuses.
    """
    try:
        before = _content(file)
        if before == text:
            return False
        if before is not None and not force:
            _require_ours(before, signature, file)
        make_directories(file.parent, _NEW_DIRECTORY)
        replace_file(file, text, _NEW_FILE)
    except OSError as refusal:
        raise _refused("written", refusal, file) from refusal
    return True


def remove_ours(file: Path, signature: str, *, force: bool) -> Callable[[], None]:
    """Judge now whether the file may be removed; the answer removes it.

    Raises:
        RefusedForSafety: the file is somebody else's.
        OperationFailed: the file system refuses.
    """
    try:
        before = _content(file)
    except OSError as refusal:
        raise _refused("read", refusal, file) from refusal
    if before is not None and not force:
        _require_ours(before, signature, file)

    def remove() -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as refusal:
            raise _refused("removed", refusal, file) from refusal

    return remove


def _content(file: Path) -> str | None:
    try:
        return read_own_file(file).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _require_ours(content: str, signature: str, file: Path) -> None:
    if signature not in content:
        raise RefusedForSafety(
            "the service file was not written by `wake-bridge service install`",
            str(file),
            hint="move it away, or use --force",
        )


def _refused(what: str, refusal: OSError, file: Path) -> OperationFailed:
    return OperationFailed(
        f"the service file cannot be {what} ({refusal.strerror})", str(file), hint="give this user write access there"
    )


CARRIED: Final = (
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "NEO_MEMORY_DB_PATH",
    "PGPASSFILE",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGSSLMODE",
    "PGSSLROOTCERT",
    "PGSSLCERT",
    "PGSSLKEY",
    "NEO_AI_DAEMON_DIR",
    "TMUX_SESSION",
    "CODEX_HOME",
    "CLAUDE_CONFIG_DIR",
    "WAKE_MAX_DELIVERY_RETRIES",
    "TZ",
)
"""What decides which files are used, and what time it is: the service must be the daemon that commands talk of."""

OVERRIDE: Final = "WAKE_BRIDGE_"
_TEST_VARIABLE: Final = "WAKE_BRIDGE_TEST_"
_USUAL: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_HOMEBREW: Final = "/opt/homebrew/bin"
_SIGNS_OF_A_CHECKOUT: Final = ("pyproject.toml", ".git", ".hg")


@dataclass(frozen=True, slots=True)
class Launch:
    """A command, as an argument list with absolute paths, and its whole environment; `state_dir` takes what it prints."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    state_dir: Path = Path()


def launch_of(
    config_option: str | None, environment: Mapping[str, str], state_dir: Path, *, platform: str = sys.platform
) -> Launch:
    """The daemon as it has to be started to be the one that commands in `environment` mean.

    Args:
        config_option: the value of `--config`, if given.
        environment: of the person who asks.
        state_dir: the state directory in force.
        platform: as `sys.platform` names it.
    """
    config = config_option or environment.get(CONFIG_VARIABLE)
    chosen = ("--config", os.path.abspath(os.path.expanduser(config))) if config else ()  # noqa: PTH100, PTH111 - as typed, links kept
    # -P: a directory of that name where the manager happens to start us must not be taken for the program
    command = (sys.executable, "-P", "-m", "wake_bridge", *chosen, "run")
    carried = {name: value for name, value in environment.items() if _is_carried(name) and value}
    return Launch(
        command,
        {
            "PATH": _search_path(environment, platform),
            "TMUX_TMPDIR": tmux_directory(environment),
            "LANG": _utf8_locale(environment, platform),
            **dict(sorted(carried.items())),
        },
        state_dir,
    )


def _is_carried(name: str) -> bool:
    if name in CARRIED:
        return True
    return (
        name.startswith(OVERRIDE)
        # the service is no agent's
        and name not in {CONFIG_VARIABLE, AGENT_VARIABLE}
        and not name.startswith(_TEST_VARIABLE)
    )


def _search_path(environment: Mapping[str, str], platform: str) -> str:
    """First where this tmux is: client and server must be of one version."""
    tmux = shutil.which("tmux", path=environment.get("PATH"))
    home = Path(environment.get("HOME") or Path.home())
    directories = [str(Path(tmux).parent)] if tmux else []
    directories += [str(home / ".local/bin"), *([_HOMEBREW] if platform == "darwin" else []), *_USUAL]
    return ":".join(dict.fromkeys(directories))


def tmux_directory(environment: Mapping[str, str]) -> str:
    """Below which directory the person's default tmux server has its socket (`TMUX_TMPDIR`)."""
    inside, _, _ = environment.get("TMUX", "").partition(",")
    socket = Path(inside)
    if socket.name == "default" and socket.parent.name.startswith("tmux-"):
        return str(socket.parent.parent)
    return environment.get("TMUX_TMPDIR") or "/tmp"  # noqa: S108 - tmux's own rule


def other_tmux_server(environment: Mapping[str, str]) -> str:
    """The socket of the tmux server we are in, if a service would not find it by itself; else empty."""
    inside, _, _ = environment.get("TMUX", "").partition(",")
    return "" if not inside or Path(inside).name == "default" else inside


def _utf8_locale(environment: Mapping[str, str], platform: str) -> str:
    """The person's, if it is a UTF-8 one."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if value := environment.get(name):
            if value.lower().replace("-", "").endswith("utf8"):
                return value
            break
    return "en_US.UTF-8" if platform == "darwin" else "C.UTF-8"


def why_it_will_not_last(
    environment: Mapping[str, str], *, prefix: Path | None = None, code: Path | None = None
) -> str:
    """Why the interpreter, or the code it runs, may vanish under a service; empty if both are properly installed.

    Args:
        environment: says where home and cache are.
        prefix: the environment the interpreter belongs to; this one's if not given.
        code: where the package lies; this one if not given.
    """
    home = Path(environment.get("HOME") or Path.home())
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    places = (
        ("the interpreter", prefix or Path(sys.prefix)),
        ("the program", code or Path(__file__).parents[3]),
    )
    for what, place in places:
        if place.is_relative_to(cache):
            return f"{what} lies in a cache: {place}"
        for directory in _above(place, home):
            if any((directory / sign).exists() for sign in _SIGNS_OF_A_CHECKOUT):
                return f"{what} lies in a checkout: {directory}"
    return ""


def _above(place: Path, home: Path) -> Iterator[Path]:
    """The directory and those around it, up to the home directory, which may well be under version control itself."""
    for directory in (place, *place.parents):
        if directory == home:
            return
        yield directory


@dataclass(frozen=True, slots=True)
class ServiceStanding:
    """How the service stands.

    `installed` says that its file is there; `is_ours`, that wake-bridge wrote it. `active` is None where the manager
    cannot be asked, with the reason in `trouble`. `lingers` says whether it outlives the person's last session; None
    where that is no question or cannot be told.
    """

    manager: str
    file: Path
    text: str = ""
    installed: bool = False
    is_ours: bool = False
    active: bool | None = None
    starts_at_login: bool | None = None
    pid: int | None = None
    lingers: bool | None = None
    trouble: str = ""


class ServiceManager(Protocol):
    """Installs, removes and knows one service.

    Contract: every method may be called again and again; `install` and `uninstall` end in the same state however often.
    A file that wake-bridge did not write is neither replaced nor removed without `force`.
    """

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def file(self) -> Path:
        """Where its file about us lies, or would."""

    def text(self, launch: Launch) -> str:
        """The file's content for a daemon that is started so."""

    def install(self, launch: Launch, *, force: bool) -> tuple[str, ...]:
        """Write the file, have the daemon started now and at every login; answers, in a sentence each, what was done.

        Raises:
            OperationFailed: the manager is not there or refuses; nothing is written if it is not there.
            RefusedForSafety: the file is somebody else's.
        """

    def uninstall(self, *, force: bool, dry_run: bool = False) -> tuple[str, ...]:
        """Stop the daemon and remove every trace; answers what was done, nothing if there was nothing to do.

        With `dry_run` nothing is done, and the answer says what would be. Works without the manager's programs too:
        then the files are removed, and the answer says so.

        Raises:
            OperationFailed: the manager or the file system refuses.
            RefusedForSafety: the file is somebody else's.
        """

    def standing(self) -> ServiceStanding:
        """How it stands; never raises."""
