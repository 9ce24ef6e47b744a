"""The configuration file that `init` makes: short, and ready to be added to."""

from __future__ import annotations

import json
import os
from pathlib import Path

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.edges.configuration.paths import PRIVATE_FILE, make_private_directory

_TEMPLATE = """\
# wake-bridge: only what differs from the defaults. config.example.toml explains every key.

[graph]
{path}

# Where an identity lives, if its subscription does not say so or you know better:
# [targets."@neo-gpt"]
# pane = "agents:1.0"
"""


def write_first_config(path: Path, graph: Path | None) -> bool:
    """Write a configuration file unless there is one.

    Args:
        path: where it goes.
        graph: the graph to name in it; None leaves the default in force.

    Returns:
        Whether it was written.

    Raises:
        OperationFailed: the file system refuses.
    """
    if path.exists():
        return False
    make_private_directory(path.parent)
    line = f"path = {json.dumps(str(graph), ensure_ascii=False)}" if graph else '# path = "…"'
    try:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "w", encoding="utf-8"
        ) as file:
            file.write(_TEMPLATE.format(path=line))
    except FileExistsError:
        return False
    except OSError as refusal:
        raise OperationFailed(
            f"the configuration file cannot be written ({refusal.strerror})", str(path), hint="choose one with --config"
        ) from refusal
    return True
