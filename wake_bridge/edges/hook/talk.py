"""One question to the daemon, one answer, in a hurry; its other end is `edges.service.control_server`."""

from __future__ import annotations

import json
import os
import socket
import time

from wake_bridge.edges.service.peer import is_ours

TYPE_CHECKING = False  # importing `typing` would take its time
if TYPE_CHECKING:
    from typing import Any

SOCKET_NAME = "daemon.sock"
LONGEST_PATH = 100
LONGEST_ANSWER = 1024 * 1024


def ask(state_dir: str, request: dict[str, Any], patience: float) -> dict[str, Any]:
    """The daemon's answer; empty when there is none within `patience` seconds, for whatever reason."""
    deadline = time.monotonic() + patience
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.settimeout(patience)
        _connect(channel, state_dir)
        if not is_ours(channel):
            return {}
        channel.sendall(json.dumps(request).encode() + b"\n")
        return _answer(channel, deadline)
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        channel.close()


def _connect(channel: socket.socket, state_dir: str) -> None:
    path = f"{state_dir}/{SOCKET_NAME}"
    if len(os.fsencode(path)) <= LONGEST_PATH:
        channel.connect(path)
        return
    directory = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        channel.connect(f"/proc/self/fd/{directory}/{SOCKET_NAME}")
    finally:
        os.close(directory)


def _answer(channel: socket.socket, deadline: float) -> dict[str, Any]:
    text = b""
    while not text.endswith(b"\n") and len(text) < LONGEST_ANSWER:
        left = deadline - time.monotonic()
        if left <= 0:
            return {}
        channel.settimeout(left)
        piece = channel.recv(65536)
        if not piece:
            return {}
        text += piece
    answer = json.loads(text)
    return answer if isinstance(answer, dict) else {}
