"""A command's side of the daemon's control socket: one JSON object per line, one answer per line.

Quick to import: every command that changes something pokes the daemon. Its other end is `control.server`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from wake_bridge.control.peer import is_ours
from wake_bridge.domain.errors import NotRunning, OperationFailed

SOCKET_NAME: Final = "daemon.sock"
LONGEST_PATH: Final = 100
"""Bytes; the system's own limit lies a little above, on every platform."""

LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""Bytes."""


@contextlib.contextmanager
def reachable(state_dir: Path) -> Iterator[str]:
    """A path to the socket that is short enough for the system, however deep the directory lies."""
    path = str(state_dir / SOCKET_NAME)
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    directory = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET_NAME}"
    finally:
        os.close(directory)


def ask(state_dir: Path, command: str, /, timeout: float = 5.0, **arguments: Any) -> Mapping[str, Any]:
    """Ask the daemon and wait at most `timeout` seconds for its answer.

    Raises:
        NotRunning: nobody listens.
        OperationFailed: it answered with an error, or not in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout)
        try:
            with reachable(state_dir) as path:
                channel.connect(path)
            if not is_ours(channel):
                raise OperationFailed(
                    "another user listens on the control socket",
                    str(state_dir),
                    hint="nothing was sent to it; check who can write to the state directory",
                )
            channel.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            answer = json.loads(channel.makefile("rb").readline(LONGEST_ANSWER))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as absent:
            raise NotRunning(
                "the daemon is not running", str(state_dir), hint="start it: `wake-bridge run`"
            ) from absent
        except (OSError, ValueError, RecursionError) as broken:
            raise OperationFailed(
                "the daemon did not answer", str(state_dir), hint="see `wake-bridge logs`"
            ) from broken
    if "error" in answer:
        raise OperationFailed(str(answer["error"]), "daemon", hint=str(answer.get("hint", "")))
    return dict(answer)


def listens(state_dir: Path) -> bool:
    """Whether anybody takes calls on the socket; never raises."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(0.5)
        try:
            with reachable(state_dir) as path:
                channel.connect(path)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError:
            return True  # it is too busy to answer
    return True


def poke(state_dir: Path, moved: str = "") -> None:
    """Tell the daemon, if there is one, that something changed, and which identity lives elsewhere now; never fails."""
    with contextlib.suppress(NotRunning, OperationFailed):
        ask(state_dir, "poke", timeout=0.5, **({"moved": moved} if moved else {}))
