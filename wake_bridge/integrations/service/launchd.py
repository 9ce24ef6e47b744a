"""launchd's agents of the logged-in user."""

from __future__ import annotations

import os
import plistlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wake_bridge import __version__
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.integrations.service.launch import Answer, Calls, Launch, ServiceStanding, remove_ours, replace_ours
from wake_bridge.system.files import make_private_directory

LABEL: Final = "io.wake-bridge"
SIGNATURE: Final = "Written by `wake-bridge service install`"
FINAL_EXIT: Final = "--final-exit-zero"
"""What `run` is told where any exit but 0 is followed by another start."""


def agent_text(launch: Launch) -> str:
    """The agent that starts the daemon so, as the property list's text."""
    log = launch.state_dir / "service.stderr.log"
    text = plistlib.dumps(agent(launch.command, launch.environment, log)).decode()
    head, dtd, rest = text.partition("<plist ")
    comment = f"<!-- {SIGNATURE} of version {__version__}, which also replaces it. -->\n"
    return f"{head}{comment}{dtd}{rest}"


def agent(command: Sequence[str], environment: Mapping[str, str], stderr_file: Path) -> dict[str, Any]:
    """The agent's keys.

    launchd knows no exit status that ends the restarts but 0: `run` is told to end so where another start would not
    help (3, 5).
    """
    return {
        "Label": LABEL,
        "ProgramArguments": [*command, FINAL_EXIT],
        "EnvironmentVariables": dict(environment),
        # tmux's sockets and the rights to other programs' windows belong to the session of who is logged in
        "LimitLoadToSessionType": "Aqua",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardErrorPath": str(stderr_file),
    }


GONE_WITHIN: Final = 20.0
"""Seconds that launchd is given to let go of an agent: `bootout` returns before the process has ended."""

_PID: Final = re.compile(r"^\s*pid = (\d+)$", re.MULTILINE)


class Launchd:
    """`launchctl` in the domain `gui/UID`.

    Args:
        home: the user's home directory.
        calls: runs `launchctl`.
    """

    name = "launchd"

    def __init__(self, home: Path, calls: Calls) -> None:
        self.file = home / "Library/LaunchAgents" / f"{LABEL}.plist"
        self._calls = calls
        self._domain = f"gui/{os.getuid()}"
        self._service = f"{self._domain}/{LABEL}"

    def text(self, launch: Launch) -> str:
        """See `ServiceManager.text`."""
        return agent_text(launch)

    def install(self, launch: Launch, *, force: bool) -> tuple[str, ...]:
        """See `ServiceManager.install`."""
        if trouble := self._trouble():
            raise OperationFailed(
                trouble,
                hint="log in at the machine itself; otherwise start `wake-bridge run` with whatever starts your programs",
            )
        make_private_directory(launch.state_dir)  # launchd makes no directory for what the daemon complains of
        is_changed = replace_ours(self.file, self.text(launch), SIGNATURE, force=force)
        is_loaded = self._print().is_well
        if is_changed and is_loaded:
            self._boot_out()
            is_loaded = False
        self._must("enable", self._service)
        if is_loaded:
            self._must("kickstart", self._service)
        else:
            self._must("bootstrap", self._domain, str(self.file))
        wrote = f"wrote {self.file}" if is_changed else f"{self.file} is as it should be"
        return (wrote, "it runs now, and is started at every login")

    def uninstall(self, *, force: bool, dry_run: bool = False) -> tuple[str, ...]:
        """See `ServiceManager.uninstall`."""
        reachable = not self._trouble()
        is_loaded = reachable and self._print().is_well
        if not self.file.exists() and not is_loaded:
            return ()
        if dry_run:
            return (f"stop and unload {self._service}", f"remove {self.file}")
        remove = remove_ours(self.file, SIGNATURE, force=force)
        said = [f"removed {self.file}"]
        if is_loaded:
            self._boot_out()
            said.insert(0, f"stopped and unloaded {self._service}")
        remove()
        if not reachable:
            said.append("launchd did not answer: what it started runs until you log out")
        return tuple(said)

    def standing(self) -> ServiceStanding:
        """See `ServiceManager.standing`."""
        try:
            text = self.file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        trouble = self._trouble()
        shown = self._print() if not trouble else None
        pid = _PID.search(shown.output) if shown is not None and shown.is_well else None
        return ServiceStanding(
            manager=self.name,
            file=self.file,
            text=text,
            installed=self.file.exists(),
            is_ours=SIGNATURE in text,
            active=None if shown is None else pid is not None,
            starts_at_login=None if shown is None else shown.is_well,
            pid=int(pid[1]) if pid else None,
            trouble=trouble,
        )

    def _print(self) -> Answer:
        return self._calls.run("launchctl", "print", self._service)

    def _boot_out(self) -> None:
        self._must("bootout", self._service)
        deadline = time.monotonic() + GONE_WITHIN
        while self._print().is_well:
            if time.monotonic() > deadline:
                raise OperationFailed("launchd does not unload the agent", self._service, hint="try again")
            time.sleep(0.1)

    def _trouble(self) -> str:
        if not self._calls.finds("launchctl"):
            return "there is no launchctl on PATH"
        answer = self._calls.run("launchctl", "print", self._domain)
        return "" if answer.is_well else f"launchd has no session of this user's ({answer.complaint})"

    def _must(self, *arguments: str) -> None:
        answer = self._calls.run("launchctl", *arguments)
        if not answer.is_well:
            raise OperationFailed(
                f"launchctl {arguments[0]} failed ({answer.complaint})",
                str(self.file),
                hint=f"`wake-bridge doctor` and `launchctl print {self._service}` say why",
            )
