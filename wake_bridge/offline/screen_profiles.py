"""Screen profiles as a person manages them: where each comes from, and newer ones from a file or this project's newest release."""

from __future__ import annotations

import os
import platform
import pwd
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.own_profiles import ProfileOrigin, file_of_profile, origin_of, without_mark
from wake_bridge.config.settings import Settings
from wake_bridge.domain.errors import ConfigurationInvalid, OperationFailed, RefusedForSafety
from wake_bridge.domain.presence import PresenceState
from wake_bridge.domain.values import dataclass
from wake_bridge.integrations.adapters import make_adapters
from wake_bridge.ports.screens import ScreenLibrary, ScreenProfile, ScreenReport
from wake_bridge.program_version import PROGRAM, program_version
from wake_bridge.system.clock import SteadyClock

_IN_A_WHEEL: Final = "wake_bridge_adapters/screens/"
_LARGEST: Final = 256 * 1024
"""Bytes of a profile that is still read; ours have less than ten thousand."""

_DOWNLOAD_TAKES: Final = 120
"""Seconds that pip may take."""


def library(settings: Settings) -> ScreenLibrary:
    """The adapter that has profiles. Raises `OperationFailed` if none does, `ConfigurationInvalid` for a faulty profile."""
    for adapter in make_adapters(settings, SteadyClock()).adapters.values():
        if isinstance(adapter, ScreenLibrary):
            return adapter
    raise OperationFailed("no adapter has screen profiles", hint="`wake-bridge adapters` lists them")


@dataclass(frozen=True, slots=True)
class ListedProfile:
    """A profile in use. `hidden` are the versions of the shipped one that it stands in for, None where there is none."""

    profile: ScreenProfile
    origin: ProfileOrigin
    hidden: tuple[str, ...] | None


def listed_profiles(settings: Settings) -> list[ListedProfile]:
    """Every profile in use, by harness. Raises as `library` does."""
    known = library(settings)
    shipped = known.shipped_profiles()
    found = []
    for one in known.profiles():
        origin = origin_of(settings.own_screens, one.path)
        hidden = (
            shipped[one.harness].versions if origin is not ProfileOrigin.SHIPPED and one.harness in shipped else None
        )
        found.append(ListedProfile(one, origin, hidden))
    return found


@dataclass(frozen=True, slots=True)
class Update:
    """A profile that differs from the one in use: the new text, and the difference.

    `refusal` says why it cannot be written; empty where it can.
    """

    harness: str
    text: str
    difference: str
    refusal: str = ""


def updates_in(settings: Settings, file: Path, scratch: Path) -> list[Update]:
    """What a profile, or a wheel of this project, would change.

    Args:
        settings: whose profiles.
        file: a profile (`.toml`) or a wheel (`.whl`).
        scratch: an empty directory; what a wheel holds is unpacked there.

    Raises:
        OperationFailed: it cannot be read, or is neither.
        ConfigurationInvalid: a profile in it has a mistake, or this version does not know its language.
    """
    known = library(settings)
    in_use = {one.harness: one for one in known.profiles()}
    found = []
    for path in _profiles_in(file, scratch):
        new = known.checked_profile(path)
        if path != file and new.harness != path.stem:
            raise ConfigurationInvalid(f"name: is {new.harness!r}, but the file is called {path.name}", str(file))
        old = in_use.get(new.harness)
        before, text = without_mark(old.text) if old else "", without_mark(new.text)
        if before == text:
            continue
        names = (str(old.path) if old else "(none)", f"{file}: {new.harness}.toml" if path != file else str(file))
        lines = unified_diff(before.splitlines(keepends=True), text.splitlines(keepends=True), *names)
        difference = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        found.append(Update(new.harness, text, difference, _refusal(settings, new.harness)))
    return found


def _refusal(settings: Settings, harness: str) -> str:
    try:
        file_of_profile(settings.own_screens, harness, ProfileOrigin.UPDATED)
    except RefusedForSafety as refused:
        return str(refused)
    return ""


def _profiles_in(file: Path, scratch: Path) -> Iterator[Path]:
    if file.suffix != ".whl":
        if not file.is_file():
            raise OperationFailed("there is no such file", str(file), hint="name a profile (.toml) or a wheel (.whl)")
        yield file
        return
    try:
        with zipfile.ZipFile(file) as wheel:
            inside = [
                one
                for one in wheel.infolist()
                if one.filename.startswith(_IN_A_WHEEL)
                and one.filename.endswith(".toml")
                and "/" not in one.filename.removeprefix(_IN_A_WHEEL)
                and one.file_size <= _LARGEST
            ]
            for one in inside:
                path = scratch / one.filename.removeprefix(_IN_A_WHEEL)
                path.write_bytes(wheel.read(one))
                yield path
    except (OSError, zipfile.BadZipFile) as error:
        raise OperationFailed(f"the wheel cannot be read ({error})", str(file)) from error
    if not inside:
        raise OperationFailed("no screen profiles are in that wheel", str(file), hint="name a wheel of wake-bridge")


def personal_words() -> list[str]:
    """Names that a screen may show of whoever runs this: the login, the parts of the real name, the host."""
    user = pwd.getpwuid(os.getuid())
    return [user.pw_name, *re.findall(r"\w+", user.pw_gecos), Path.home().name, socket.gethostname().partition(".")[0]]


def report_content(seen: ScreenReport, expected: PresenceState) -> dict[str, Any]:
    """The bug report: a capture file, so that it tests the rules as it is, and in `report` what else helps."""
    content = dict(seen.content)
    harness = {content["harness"] or "no agent": content["version"] or "?"}
    tmux, _, version = seen.program.partition(" ")
    versions = {PROGRAM: program_version(), **harness, tmux: version, platform.system(): platform.release()}
    about = {"versions": versions, "evidence": [dict(one) for one in seen.evidence], "trouble": seen.trouble}
    return {**content, "expect": [expected.value], "report": about}


def newest_release(scratch: Path) -> Path:
    """Download the wheel of this project's newest release with pip, from where this system takes its packages.

    Raises:
        OperationFailed: pip is missing, or found none.
    """
    arguments = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    hint = "download the wheel yourself, and name it: `wake-bridge screens update FILE`"
    try:
        answer = _run([sys.executable, "-m", "pip", *arguments, "--dest", str(scratch), PROGRAM])
    except subprocess.TimeoutExpired as late:
        raise OperationFailed(f"pip did not answer in {_DOWNLOAD_TAKES} s", hint=hint) from late
    wheels = sorted(scratch.glob("*.whl"))
    if answer.returncode != 0 or not wheels:
        said = answer.stderr.strip().splitlines()
        raise OperationFailed("pip could not fetch the newest release", said[-1] if said else "", hint=hint)
    return wheels[0]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter and words of ours
        command, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_TAKES, stdin=subprocess.DEVNULL
    )
