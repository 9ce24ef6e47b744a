"""Where things lie when nobody said otherwise: configuration, embedded graph, state (DESIGN §§3, 9)."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from platformdirs import PlatformDirs

from wake_bridge.domain.errors import OperationFailed

APPLICATION: Final = "wake-bridge"
CONFIG_VARIABLE: Final = "WAKE_BRIDGE_CONFIG"
AGENT_VARIABLE: Final = "WAKE_BRIDGE_AGENT"
"""Names the identity of the agent that is started with it; no setting."""

PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600


def _directories() -> PlatformDirs:
    return PlatformDirs(appname=APPLICATION, appauthor=False)


def default_config_file() -> Path:
    """`<platform config dir>/wake-bridge/config.toml`."""
    return Path(_directories().user_config_dir) / "config.toml"


class ConfigPlace(NamedTuple):
    """The configuration file to read. `named_by` says who asked for it; empty: the default place, where none is fine."""

    path: Path
    named_by: str = ""


def locate_config(option: str | None, environment: Mapping[str, str]) -> ConfigPlace:
    """Which file to read: the option, else `$WAKE_BRIDGE_CONFIG`, else the platform's place."""
    if option:
        return ConfigPlace(expanded(option).absolute(), "--config")
    if named := environment.get(CONFIG_VARIABLE):
        return ConfigPlace(expanded(named).absolute(), f"${CONFIG_VARIABLE}")
    return ConfigPlace(default_config_file())


def default_screens_directory() -> Path:
    """`<platform config dir>/wake-bridge/screens`: profiles that override the bundled ones or add to them."""
    return Path(_directories().user_config_dir) / "screens"


def default_graph_file() -> Path:
    """`<data dir>/wake-bridge/graph.sqlite`: the embedded graph."""
    return Path(_directories().user_data_dir) / "graph.sqlite"


def default_state_directory() -> Path:
    """Where ledger, cursor, lock and socket live."""
    return Path(_directories().user_state_dir)


def expanded(text: str) -> Path:
    """`text` as a path, `~` replaced by the home directory where there is one."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def make_directories(directory: Path, mode: int = PRIVATE_DIRECTORY) -> tuple[Path, ...]:
    """Create a directory and those above it, each with `mode` at most; answers which were made, outermost first.

    Raises:
        OSError: the file system refuses.
    """
    # `parents=True` would leave the parents as open as the umask lets them be
    missing = tuple(reversed([one for one in (directory, *directory.parents) if not one.exists()]))
    for one in missing:
        one.mkdir(mode=mode, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    return missing


def make_private_directory(directory: Path) -> None:
    """Create a directory for its owner alone (0700), and those above it; one that exists is left as it is.

    Raises:
        OperationFailed: the file system refuses.
    """
    try:
        make_directories(directory)
    except OSError as refusal:
        raise OperationFailed(
            f"the directory cannot be created ({refusal.strerror})",
            str(directory),
            hint="choose another place, or let this user write there",
        ) from refusal
