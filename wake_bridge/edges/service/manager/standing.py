"""What a service manager does for us, and how things stand with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wake_bridge.edges.service.manager.launch import Launch


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
