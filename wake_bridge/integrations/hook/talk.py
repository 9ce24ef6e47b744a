"""Where the daemon's socket lies, and one question to it, in a hurry; its other end is `control.server`.

`wake_bridge.config` judges all of it and takes a tenth of a second; a hook has less than that. A test holds the two
against each other.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping

from wake_bridge.control.peer import is_ours

TYPE_CHECKING = False  # importing `typing` would take its time
if TYPE_CHECKING:
    from typing import Any


APPLICATION = "wake-bridge"
VARIABLE = "WAKE_BRIDGE_DAEMON_STATE_DIR"
ALIAS = "NEO_AI_DAEMON_DIR"
CONFIG_VARIABLE = "WAKE_BRIDGE_CONFIG"
_LONGEST = 1024 * 1024


def state_directory(environment: Mapping[str, str]) -> str:
    """The state directory that commands in this environment mean."""
    named = environment.get(VARIABLE, environment.get(ALIAS, ""))
    if named:
        return os.path.abspath(os.path.expanduser(named))
    if VARIABLE in environment:
        return _default("state", environment)
    config = environment.get(CONFIG_VARIABLE)
    file = os.path.abspath(os.path.expanduser(config)) if config else f"{_default('config', environment)}/config.toml"
    written = _written_in(file)
    return (
        os.path.join(os.path.dirname(file), os.path.expanduser(written)) if written else _default("state", environment)
    )


def _written_in(file: str) -> str:
    """`daemon.state_dir` of a configuration file; empty where it has none."""
    try:
        # a pipe in its place must not keep the harness waiting
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            content = stream.read(_LONGEST)
    except OSError:
        return ""
    if b"state_dir" not in content and b"\\u" not in content and b"\\U" not in content:
        return ""  # the parser takes longer to import than all the rest
    import tomllib

    try:
        table = tomllib.loads(content.decode()).get("daemon")
    except ValueError:
        return ""
    value = table.get("state_dir") if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""


def _default(kind: str, environment: Mapping[str, str]) -> str:
    if not sys.platform.startswith("linux"):
        import platformdirs

        places = platformdirs.PlatformDirs(appname=APPLICATION, appauthor=False)
        return places.user_config_dir if kind == "config" else places.user_state_dir
    place = environment.get(f"XDG_{kind.upper()}_HOME", "").strip()
    home = os.path.expanduser({"config": "~/.config", "state": "~/.local/state"}[kind])
    return f"{place or home}/{APPLICATION}"


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
