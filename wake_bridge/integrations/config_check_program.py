"""Checks a configuration in a process of its own, so that the daemon does not keep pydantic and the models, 11 MB, for weeks.

It is asked on stdin and answers on stdout, each time with JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.checked import models_stamp, written_down
from wake_bridge.config.layers import Gathered, Mistake
from wake_bridge.config.settings import Settings, adapter_tables_of, configuration_of, load_settings
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.integrations.adapters import checked_settings, has_config_elsewhere, load_catalogue
from wake_bridge.system.files import ConfigPlace

PATIENCE: Final = 10.0
"""Seconds that the process may take; on a quiet machine it takes a third of a second."""

# the daemon's own path comes first: found in another way, the packages may be those of another release
_BEGIN: Final = """
import json, runpy, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
runpy.run_module("wake_bridge.integrations.config_check_program", run_name="__main__")
"""
_PROGRAM: Final = (sys.executable, "-P", "-c", _BEGIN)

_MODELS_STAMP: Final = models_stamp()
"""The models on disk when this process started: it understands what these make."""

_MODELS: Final = "wake_bridge.config.fields"
_ANSWERED: Final = frozenset({"stamp", "problems", "config", "tables"})


class CheckFailed(Exception):
    """The process did not answer, or the configuration cannot be sent to it as JSON."""


def settings_for_daemon(config_option: str | None) -> Settings:
    """The settings, adapters' tables included, checked by a process of its own; where that fails, in this one.

    Args:
        config_option: the value of `--config`, if given.

    Raises:
        ConfigurationInvalid: with every mistake.
    """
    try:
        return load_settings(config_option, os.environ, checker=_ask)
    except CheckFailed:
        return checked_settings(config_option)


def _ask(gathered: Gathered, place: ConfigPlace) -> dict[str, Any]:
    """A `Checker` that asks the process. Raises `CheckFailed`, and `ConfigurationInvalid` where another release would answer."""
    if _MODELS in sys.modules:
        # this process holds the models already, so another one would save nothing
        raise CheckFailed
    try:
        question = json.dumps(
            {
                "place": [str(place.path), place.named_by],
                "tree": gathered.tree,
                "origins": [[list(key), origin] for key, origin in gathered.origins.items()],
                "mistakes": [[one.source, one.key, one.reason, one.value, one.meant] for one in gathered.mistakes],
            }
        )
        ended = subprocess.run(  # noqa: S603 - our own program
            _PROGRAM,
            input=f"{json.dumps(sys.path)}\n{question}".encode("utf-8", "surrogatepass"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=True,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
        if answer.keys() != _ANSWERED:
            raise ValueError("no answer of ours")  # noqa: TRY301 - as for every other answer that cannot be read
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, subprocess.SubprocessError) as trouble:
        raise CheckFailed from trouble
    if answer["stamp"] != _MODELS_STAMP:
        # this release may not understand what another one made, and its own models are gone from the disk
        raise ConfigurationInvalid(
            "another release was installed since this daemon started", str(place.path), hint="restart the daemon"
        )
    return answer


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    """What the process answers: `problems`, else the configuration and the tables of adapters whose models stand elsewhere."""
    path, named_by = question["place"]
    place = ConfigPlace(Path(path), named_by)
    gathered = Gathered(
        question["tree"],
        {tuple(key): origin for key, origin in question["origins"]},
        [Mistake(*one) for one in question["mistakes"]],
    )
    kinds = {one.name: one.kind for one in load_catalogue() if one.kind is not None}
    models = {name: kind.Config for name, kind in kinds.items()}
    try:
        config = configuration_of(gathered, place, models)
    except ConfigurationInvalid as mistake:
        return {"problems": mistake.problems, "config": None, "tables": {}}
    tables = adapter_tables_of(config.adapters, gathered.origins, models)
    return {
        "problems": [],
        "config": written_down(config),
        "tables": {name: written_down(tables[name]) for name, kind in kinds.items() if has_config_elsewhere(kind)},
    }


def _main() -> None:
    question = json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    # an adapter, or what it starts, may print while it is imported; this copy of stdout is for the answer alone
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stdout:
        os.dup2(2, 1)
        stdout.write(json.dumps({"stamp": _MODELS_STAMP, **_answer(question)}))
    # an adapter may have started a thread, for which the interpreter would wait
    os._exit(0)


if __name__ == "__main__":
    _main()
