"""Finds the daemon's socket and asks it one question, quickly; the other end is `control.server`.

`wake_bridge.config` checks all of it and takes a tenth of a second; a hook has less than that. A test holds the two
against each other.
"""

from __future__ import annotations

import os
import sys
import time

from wake_bridge.control.peer import is_ours
from wake_bridge.integrations.hook.quick_json import dumps, loads

try:
    import _socket as socket  # `socket` itself imports for a fifth of the time that a hook has
except ImportError:
    import socket  # type: ignore[no-redef]

TYPE_CHECKING = False  # importing `typing` would take its time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


APPLICATION = "wake-bridge"
VARIABLE = "WAKE_BRIDGE_DAEMON_STATE_DIR"
ALIAS = "NEO_AI_DAEMON_DIR"
GRAPH_VARIABLE = "WAKE_BRIDGE_GRAPH_PATH"
URL_VARIABLE = "WAKE_BRIDGE_GRAPH_URL"
GRAPH_ALIAS = "NEO_MEMORY_DB_PATH"
CONFIG_VARIABLE = "WAKE_BRIDGE_CONFIG"
LOCK_DIRECTORY = f"/tmp/wake-bridge-{os.geteuid()}"  # noqa: S108 - each file's owner is checked
_LONGEST = 1024 * 1024


def state_directory(environment: Mapping[str, str]) -> str:
    """The state directory that commands in this environment mean, by what is configured."""
    return _place(environment, (VARIABLE, ALIAS), ("daemon", "state_dir")) or _default("state", environment)


def daemon_elsewhere(environment: Mapping[str, str], configured: str) -> str:
    """Where the daemon of this graph keeps its state, if that is not where it is configured; empty where none runs.

    Asked by who found nobody there: the lock of the graph says it (`edges.service.graph_lock`).
    """
    import fcntl

    url = _url(environment)
    graph = "" if url else _place(environment, (GRAPH_VARIABLE, GRAPH_ALIAS), ("graph", "path"))
    try:
        if url:
            from wake_bridge.control.graph_lock import graph_key
            from wake_bridge.domain.graph_places import GraphUrl

            name = graph_key(GraphUrl(url))
        else:
            found = os.stat(graph or f"{_default('data', environment)}/graph.sqlite")
            name = f"{found.st_dev:x}-{found.st_ino:x}"
        path = f"{LOCK_DIRECTORY}/{name}.lock"
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as lock:
            if os.fstat(lock.fileno()).st_uid != os.geteuid():
                return ""
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                kept = loads(lock.read(_LONGEST))["state_dir"]
                return kept if isinstance(kept, str) and os.path.realpath(kept) != os.path.realpath(configured) else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # no graph, no daemon, or one that has not signed its lock yet
    return ""


def _url(environment: Mapping[str, str]) -> str:
    """The database that holds the graph; empty where a file does."""
    if URL_VARIABLE in environment:
        return environment[URL_VARIABLE]
    return "" if GRAPH_VARIABLE in environment else _written_in(_config_file(environment), "graph", "url")


def _config_file(environment: Mapping[str, str]) -> str:
    config = environment.get(CONFIG_VARIABLE)
    return os.path.abspath(os.path.expanduser(config)) if config else f"{_default('config', environment)}/config.toml"


def _place(environment: Mapping[str, str], variables: tuple[str, str], key: tuple[str, str]) -> str:
    """A place that the environment or the file says; empty where neither does."""
    variable, alias = variables
    named = environment.get(variable, environment.get(alias, ""))
    if named:
        return os.path.abspath(os.path.expanduser(named))
    if variable in environment:
        return ""
    file = _config_file(environment)
    written = _written_in(file, *key)
    return os.path.join(os.path.dirname(file), os.path.expanduser(written)) if written else ""


def _written_in(file: str, table: str, key: str) -> str:
    """What a configuration file says of a place; empty where it says nothing."""
    try:
        # a pipe in its place must not keep the harness waiting
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            content = stream.read(_LONGEST)
    except OSError:
        return ""
    if key.encode() not in content and b"\\u" not in content and b"\\U" not in content:
        return ""  # the parser takes longer to import than all the rest
    import tomllib

    try:
        said = tomllib.loads(content.decode("utf-8-sig")).get(table)
    except ValueError:
        return ""
    value = said.get(key) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


def _default(kind: str, environment: Mapping[str, str]) -> str:
    if not sys.platform.startswith("linux"):
        import platformdirs

        places = platformdirs.PlatformDirs(appname=APPLICATION, appauthor=False)
        usual = {"config": places.user_config_dir, "data": places.user_data_dir, "state": places.user_state_dir}
        return usual[kind]
    place = environment.get(f"XDG_{kind.upper()}_HOME", "").strip()
    home = os.path.expanduser({"config": "~/.config", "data": "~/.local/share", "state": "~/.local/state"}[kind])
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
        channel.sendall(dumps(request).encode() + b"\n")
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
    answer = loads(text)
    return answer if isinstance(answer, dict) else {}
