"""How this wake-bridge is called by programs that know nothing of the shell it was started from."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from wake_bridge.edges.configuration.paths import CONFIG_VARIABLE

_SCRIPT: Final = "wake-bridge"


def own_program(config_option: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The words that start it: the configuration as a variable (`NAME=value`), where one was named, then the command.

    Args:
        config_option: the value of `--config`, if given.
        environment: of the person who asks.
    """
    config = config_option or environment.get(CONFIG_VARIABLE)
    named = os.path.abspath(os.path.expanduser(config)) if config else ""  # noqa: PTH100, PTH111 - as typed, links kept
    script = Path(sys.executable).with_name(_SCRIPT)
    # -P: a directory of that name where an agent works must not be taken for the program
    command = (str(script),) if os.access(script, os.X_OK) else (sys.executable, "-P", "-m", "wake_bridge")
    return (*([f"{CONFIG_VARIABLE}={named}"] if named else []), *command)


def for_a_shell(words: Sequence[str]) -> str:
    """Those words as a shell reads them; what stands before the program's path sets variables."""
    return " ".join(_assigned(word) if _is_variable(word) else shlex.quote(word) for word in words)


def _is_variable(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()


def _assigned(word: str) -> str:
    name, _, value = word.partition("=")
    return f"{name}={shlex.quote(value)}"
