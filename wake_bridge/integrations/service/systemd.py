"""systemd's service manager of one user: tmux sockets belong to a user, so the daemon must as well."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from wake_bridge import __version__
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.integrations.service.launch import Answer, Calls, Launch, ServiceStanding, remove_ours, replace_ours

SIGNATURE: Final = "# Written by `wake-bridge service install`"
"""How the first line of a unit of ours begins."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@+,~-]+")


def unit_text(launch: Launch) -> str:
    """The unit that starts the daemon so.

    Raises:
        OperationFailed: a path or value cannot be written into a unit.
    """
    environment = [f"{name}={value}" for name, value in launch.environment.items()]
    return filled(
        " ".join(_word(word).replace("$", "$$") for word in launch.command),
        [_word(assignment) for assignment in environment],
        f"{SIGNATURE} of version {__version__}, which also replaces it.\n"
        "# Put your own changes into a drop-in: `systemctl --user edit wake-bridge`.",
    )


def filled(command: str, environment: Sequence[str], heading: str) -> str:
    """The template with words that are quoted already."""
    template = files("wake_bridge.integrations.service").joinpath("wake-bridge.service.template")
    return Template(template.read_text(encoding="utf-8")).substitute(
        heading=heading, command=command, environment="\n".join(_lines(environment))
    )


def _lines(environment: Iterable[str]) -> Iterable[str]:
    return (f"Environment={assignment}" for assignment in environment)


def _word(text: str) -> str:
    """One word as systemd reads it: quoted where it must be, `%` as itself."""
    if any(ord(character) < ord(" ") for character in text):
        raise OperationFailed("a control character cannot be written into a unit", repr(text), hint="rename it")
    escaped = text.replace("%", "%%")
    if _PLAIN.fullmatch(escaped.replace("%", "")):
        return escaped
    escaped = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


UNIT: Final = "wake-bridge.service"
LINGER: Final = "it ends with your last session; `loginctl enable-linger` keeps it running"


class Systemd:
    """`systemctl --user`.

    Args:
        config_home: where the user's configuration lies, usually `~/.config`.
        calls: runs `systemctl` and `loginctl`.
    """

    name = "systemd"

    def __init__(self, config_home: Path, calls: Calls) -> None:
        self.file = config_home / "systemd/user" / UNIT
        self._calls = calls

    def text(self, launch: Launch) -> str:
        """See `ServiceManager.text`."""
        return unit_text(launch)

    def install(self, launch: Launch, *, force: bool) -> tuple[str, ...]:
        """See `ServiceManager.install`."""
        self._require()
        text = self.text(launch)
        is_changed = replace_ours(self.file, text, SIGNATURE, force=force)
        said = [f"wrote {self.file}" if is_changed else f"{self.file} is as it should be"]
        self._must("daemon-reload")
        self._must("enable", UNIT)
        # a running one has to be started anew to be what the file says now
        self._must("restart" if is_changed else "start", UNIT)
        said.append("it runs now, and is started at every login")
        if self._lingers() is False:
            said.append(LINGER)
        return tuple(said)

    def uninstall(self, *, force: bool, dry_run: bool = False) -> tuple[str, ...]:
        """See `ServiceManager.uninstall`."""
        link = self._link
        if not self.file.exists() and not link.is_symlink():
            return ()
        if dry_run:
            return (f"stop and disable {UNIT}", f"remove {self.file}")
        remove = remove_ours(self.file, SIGNATURE, force=force)
        said = [f"removed {self.file}"]
        reachable = not self._trouble()
        if reachable:
            self._must("disable", "--now", UNIT)
            said.insert(0, f"stopped and disabled {UNIT}")
        remove()
        link.unlink(missing_ok=True)
        if reachable:
            self._must("daemon-reload")
            # without effect, and an error, where it never failed
            self._calls.run("systemctl", "--user", "reset-failed", UNIT)
        else:
            said.append("the service manager did not answer: what it started runs until you log out")
        return tuple(said)

    def standing(self) -> ServiceStanding:
        """See `ServiceManager.standing`."""
        try:
            text = self.file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        trouble = self._trouble()
        shown = {} if trouble else self._shown()
        active = shown.get("ActiveState")
        enabled = shown.get("UnitFileState")
        return ServiceStanding(
            manager=self.name,
            file=self.file,
            text=text,
            installed=self.file.exists(),
            is_ours=text.startswith(SIGNATURE),
            active=active in {"active", "reloading"} if active else None,
            starts_at_login=enabled == "enabled" if enabled is not None else None,
            pid=int(shown.get("MainPID") or 0) or None,
            lingers=self._lingers(),
            trouble=trouble or _failure(shown),
        )

    @property
    def _link(self) -> Path:
        """By which it is started at login."""
        return self.file.parent / "default.target.wants" / UNIT

    def _shown(self) -> dict[str, str]:
        wanted = "--property=ActiveState,UnitFileState,MainPID,Result,ExecMainStatus"
        answer = self._calls.run("systemctl", "--user", "show", UNIT, wanted)
        pairs = (line.partition("=") for line in answer.output.splitlines())
        return {name: value for name, _, value in pairs}

    def _lingers(self) -> bool | None:
        try:
            user = getpass.getuser()
        except (OSError, KeyError):
            return None
        answer = self._calls.run("loginctl", "show-user", user, "--property=Linger")
        if "not logged in or lingering" in answer.complaint:
            return False  # its words where the person came in past it, as by su
        return {"Linger=yes": True, "Linger=no": False}.get(answer.output.strip())

    def _trouble(self) -> str:
        """Why the user's manager cannot be asked; empty if it can."""
        if not self._calls.finds("systemctl"):
            return "there is no systemctl on PATH"
        answer = self._calls.run("systemctl", "--user", "show-environment")
        return "" if answer.is_well else f"the user's systemd does not answer ({answer.complaint})"

    def _require(self) -> None:
        trouble = self._trouble()
        if trouble:
            raise OperationFailed(
                trouble,
                hint="log in as this user itself, not by su or sudo; without systemd, start `wake-bridge run` by"
                " whatever starts your programs (`service install --print` shows what it needs)",
            )

    def _must(self, *arguments: str) -> Answer:
        answer = self._calls.run("systemctl", "--user", *arguments)
        if not answer.is_well:
            raise OperationFailed(
                f"systemctl {arguments[0]} failed ({answer.complaint})",
                str(self.file),
                hint="`wake-bridge doctor` and `journalctl --user -u wake-bridge` say why",
            )
        return answer


def _failure(shown: dict[str, str]) -> str:
    if shown.get("ActiveState") != "failed":
        return ""
    return f"it failed: {shown.get('Result', '')}, exit status {shown.get('ExecMainStatus', '')}"
