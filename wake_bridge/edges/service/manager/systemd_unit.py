"""The text of a systemd user unit (DESIGN §9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Final

from wake_bridge import __version__
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.edges.service.manager.launch import Launch

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
        "# Changes of yours belong into a drop-in: `systemctl --user edit wake-bridge`.",
    )


def filled(command: str, environment: Sequence[str], heading: str) -> str:
    """The template with words that are quoted already."""
    template = files("wake_bridge.edges.service.manager").joinpath("wake-bridge.service.template")
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
