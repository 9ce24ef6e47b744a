"""The version of a running harness, read from its files without running it; and whether its screens are known.

A version comes from a versioned path, from the `package.json` above the program's script, or from the name of the
directory that describes a Python distribution.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

from wake_bridge.domain.presence import Evidence, PresenceState
from wake_bridge.domain.programs import is_interpreter, program_of
from wake_bridge_adapters.screens.profile import Profile, Recognise

_VERSION: Final = re.compile(r"v?(\d+\.\d+(?:\.\d+)*)(?:[-+.]\S*)?")
_LEVELS: Final = 8
"""How many directories above a script its `package.json` is looked for."""

_LARGEST: Final = 256 * 1024
"""Bytes of a `package.json` that is still read."""


def installed_version(argv: Sequence[str], executable: str, search_path: str, profile: Profile) -> str:
    """The version of the program that runs as `argv`, empty where its files do not tell.

    Args:
        argv: the process's arguments.
        executable: the file it was started from, as the system knows it; empty if unknown.
        search_path: the process's `PATH`, for programs that have replaced their arguments by a bare name.
        profile: the harness it was recognised as.

    Blocks for the few files it reads. Never raises.
    """
    known = profile.recognise
    for path in _files_of(argv, executable, search_path, known):
        if found := _from_path(path, known) or _from_package(path, known) or _from_distribution(path, known):
            return found
    return ""


class Drift(StrEnum):
    """How a running version stands to those whose screens are known."""

    SEEN = "seen"
    PATCH = "patch of a seen minor"
    NEWER = "newer"
    OLDER = "older or between"
    UNTOLD = "cannot be told"


def drift_of(profile: Profile, version: str) -> Drift:
    """Where `version` stands; a profile that names no versions makes no difference between them."""
    if not profile.versions or version in profile.versions:
        return Drift.SEEN
    if not version:
        return Drift.UNTOLD
    if any(_minor(version) == _minor(seen) for seen in profile.versions):
        return Drift.PATCH
    return Drift.NEWER if is_newest(version, profile.versions) else Drift.OLDER


def in_order(versions: Iterable[str]) -> tuple[str, ...]:
    """Versions by their numbers, the newest last."""
    return tuple(sorted(versions, key=_numbers))


def is_newest(version: str, others: Iterable[str]) -> bool:
    """Whether a version is above all others by its numbers; True where there are none."""
    return all(_numbers(version) > _numbers(other) for other in others)


def is_seen(profile: Profile, version: str) -> bool:
    """Whether the rules were read off this version's screens; a patch of a seen minor counts as seen."""
    return drift_of(profile, version) in {Drift.SEEN, Drift.PATCH}


def version_evidence(profile: Profile, version: str) -> tuple[Evidence, ...]:
    """A warning when the screens of this version are not known, a veto when the profile is strict about it.

    Empty where the version is known, and for a profile that names no versions.
    """
    if is_seen(profile, version):
        return ()
    read_off = f"the rules were read off {', '.join(profile.versions)}"
    saw = f"{profile.name} {version}; {read_off}" if version else f"cannot be told; {read_off}"
    if profile.strict_version:
        return (Evidence("version", PresenceState.UNKNOWN, saw=saw, region="process"),)
    return (Evidence("version", PresenceState.IDLE, saw=saw, region="process", weighs=False),)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _files_of(argv: Sequence[str], executable: str, search_path: str, known: Recognise) -> Iterator[Path]:
    """The program's own files, links followed; an interpreter's is none of them."""
    named = [word for kind, word in program_of(argv) if kind == "path"]
    for name in (*named, executable):
        path = Path(name)
        if path.is_absolute() and not is_interpreter(path.name):
            yield from _resolved(path)
            yield path
    if search_path:
        for command in known.commands:
            found = shutil.which(command, path=search_path)
            if found:
                yield from _resolved(Path(found))


def _resolved(path: Path) -> Iterator[Path]:
    try:
        yield path.resolve(strict=True)
    except (OSError, RuntimeError):
        return


def _from_path(path: PurePath, known: Recognise) -> str:
    """`2.1.332` of `…/claude/versions/2.1.332`: a version right behind one of the program's names."""
    names = {*known.commands, *(package.rpartition("/")[2] for package in known.packages)}
    parts = [part for part in path.parts if part != "versions"]
    for name, part in pairwise(parts):
        version = _VERSION.fullmatch(part)
        if name in names and version:
            return version[1]
    return ""


def _from_package(path: Path, known: Recognise) -> str:
    """The version in the nearest `package.json` above that is the program's."""
    for directory in path.parents[:_LEVELS]:
        package = _package_in(directory)
        if _is_named(str(package.get("name", "")), known):
            version = _VERSION.fullmatch(str(package.get("version", "")))
            return version[1] if version else ""
    return ""


def _is_named(package: str, known: Recognise) -> bool:
    """Whether that is the program's package, or its build for one platform (`@openai/codex-linux-x64`)."""
    return (
        package in known.packages
        or package.startswith(tuple(f"{one}-" for one in known.packages))
        or package.rpartition("/")[2].startswith(tuple(f"{one}-" for one in known.commands))
    )


def _package_in(directory: Path) -> dict[str, object]:
    file = directory / "package.json"
    try:
        if file.stat().st_size > _LARGEST:
            return {}
        package = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return package if isinstance(package, dict) else {}


def _from_distribution(path: Path, known: Recognise) -> str:
    """The version of `lib/python3.11/site-packages/aider_chat-0.86.2.dist-info` beside `bin/aider`."""
    prefix = path.parent.parent
    for distribution in known.distributions:
        name = re.sub(r"[-_.]+", "_", distribution)
        for found in prefix.glob(f"lib/python3*/site-packages/{name}-*.dist-info"):
            version = _VERSION.fullmatch(found.name.removesuffix(".dist-info").rpartition("-")[2])
            if version:
                return version[1]
    return ""
