"""How other programs call this wake-bridge, without knowing the shell that started it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from wake_bridge.system.files import CONFIG_VARIABLE

_SCRIPT: Final = "wake-bridge"

_SILENT_WHEN_GONE: Final = (
    '{ e=$("$@" 2>&1 >&3 3>&-); } 3>&1; r=$?; case $r:$e in '
    '12[67]:*|1:*"No module named"*wake_bridge*) exit 0;; esac; [ "$e" ] && printf %s "$e" >&2; exit $r'
)
"""Runs its arguments. Keeps their output and exit code, but for those of a shell, `env` or Python that finds no program.

Its own quotes are double ones, and no `!` or backslash is in it: so one pair of single quotes hides it from every shell.
"""


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


def variables_and_command(words: Sequence[str]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The variables that stand before the program's path, and the command."""
    set_first = [word for word in words if _is_variable(word)]
    pairs = (word.partition("=") for word in set_first)
    return {name: value for name, _, value in pairs}, tuple(words[len(set_first) :])


def for_a_shell(words: Sequence[str]) -> str:
    """Those words as a shell reads them; what stands before the program's path sets variables."""
    return " ".join(_assigned(word) if _is_variable(word) else shlex.quote(word) for word in words)


def silent_when_gone(words: Sequence[str]) -> str:
    """Those words as any shell reads them, fish and csh too: with exit 0 and silence once program or interpreter is gone.

    A harness that calls them goes on, where it would otherwise complain at every event, or refuse every prompt.
    """
    sets_variables = bool(words) and _is_variable(words[0])
    called = ["env", *words] if sets_variables else words
    return " ".join(map(shlex.quote, ["/bin/sh", "-c", _SILENT_WHEN_GONE, _SCRIPT, *called]))


def _is_variable(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()


def _assigned(word: str) -> str:
    name, _, value = word.partition("=")
    return f"{name}={shlex.quote(value)}"
