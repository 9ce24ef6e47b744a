"""The program's version, and in a development build the commit it was made from."""

from __future__ import annotations

import os

from wake_bridge import __version__

PROGRAM = "wake-bridge"
"""What a person types."""

COMMIT_FILE = "COMMIT"
"""Lies beside this module where it was built; a checkout is asked itself."""

_SHOWN = 7
_LONGEST = 4096


def program_version() -> str:
    """`0.2.0`; of a development build `0.3.0.dev0+g1a2b3c4`, without the commit where nobody knows it."""
    if ".dev" not in __version__:
        return __version__
    here = os.path.dirname(os.path.abspath(__file__))
    commit = _line(os.path.join(here, COMMIT_FILE)) or _commit_of(os.path.dirname(here))
    return f"{__version__}+g{commit[:_SHOWN]}" if commit else __version__


def _commit_of(checkout: str) -> str:
    """What `git rev-parse HEAD` says there, without starting it; empty where there is none."""
    directory = os.path.join(checkout, ".git")
    said = _line(directory)  # a worktree has a file there, which names the place
    if said.startswith("gitdir: "):
        directory = os.path.join(checkout, said.removeprefix("gitdir: "))
    head = _line(os.path.join(directory, "HEAD"))
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = os.path.join(directory, _line(os.path.join(directory, "commondir")))
    return _line(os.path.join(directory, name)) or _line(os.path.join(common, name)) or _packed(common, name)


def _packed(common: str, name: str) -> str:
    try:
        with open(os.path.join(common, "packed-refs"), encoding="utf-8", errors="replace") as file:
            return next((line.split()[0] for line in file if line.rstrip().endswith(f" {name}")), "")
    except OSError:
        return ""


def _line(path: str) -> str:
    """A file's first line; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(_LONGEST).strip()
    except OSError:
        return ""
