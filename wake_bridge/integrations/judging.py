"""Has a configuration judged in a short process: the models that judge would be 11 MB of a daemon that needs them once.

`python -m wake_bridge.integrations.judging` is that process; it is asked on stdin, and answers on stdout.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.judged import models_as_they_are, written_down
from wake_bridge.config.settings import Settings, judged, load_settings, validate_adapter_tables
from wake_bridge.config.sources import Gathered, Mistake
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.integrations.adapters import checked_settings, has_config_elsewhere, load_catalogue
from wake_bridge.system.files import ConfigPlace

PATIENCE: Final = 10.0
"""Seconds that it may take; a third of a second does on a quiet machine."""

_PROGRAM: Final = (sys.executable, "-P", "-m", "wake_bridge.integrations.judging")


_AT_START: Final = models_as_they_are()
"""Whose configuration this process understands."""

_MODELS: Final = "wake_bridge.config.fields"


class NotJudged(Exception):
    """The other process did not answer, or what was gathered cannot be told to it."""


def settings_for_daemon(config_option: str | None) -> Settings:
    """As `checked_settings`, judged in a process of its own; in this one where that fails.

    Args:
        config_option: the value of `--config`, if given.

    Raises:
        ConfigurationInvalid: with every mistake.
    """
    try:
        return load_settings(config_option, os.environ, judge=_ask)
    except NotJudged:
        return checked_settings(config_option)


def _ask(gathered: Gathered, place: ConfigPlace) -> dict[str, Any]:
    """A `Judge`. Raises `NotJudged`."""
    if _MODELS in sys.modules:
        # they are paid for already: the environment overrides a key, or an earlier one had to be judged here
        raise NotJudged
    try:
        question = json.dumps(
            {
                "path": sys.path,
                "place": [str(place.path), place.named_by],
                "tree": gathered.tree,
                "origins": [[list(key), origin] for key, origin in gathered.origins.items()],
                "mistakes": [[one.source, one.key, one.reason, one.value, one.meant] for one in gathered.mistakes],
            }
        )
        ended = subprocess.run(  # noqa: S603 - our own program
            _PROGRAM,
            input=question.encode("utf-8", "surrogatepass"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=True,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
        answer["program"], answer["problems"], answer["config"], answer["tables"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError, subprocess.SubprocessError) as trouble:
        raise NotJudged from trouble
    if answer["program"] != _AT_START:
        # what another release judges, this one may not understand; and it cannot import its own models any more
        raise ConfigurationInvalid(
            "another release was installed since this daemon started", str(place.path), hint="restart the daemon"
        )
    return answer


def _answer(question: dict[str, Any]) -> dict[str, Any]:
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
        config = judged(gathered, place, models)
    except ConfigurationInvalid as mistake:
        return {"problems": mistake.problems, "config": None, "tables": {}}
    settings = Settings(config, place.path, (), place.path, place.path, origins=gathered.origins)
    tables = validate_adapter_tables(settings, models)
    return {
        "problems": [],
        "config": written_down(config),
        "tables": {name: written_down(tables[name]) for name, kind in kinds.items() if has_config_elsewhere(kind)},
    }


def _main() -> None:
    question = json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    # what an adapter prints while it is imported is no answer
    with contextlib.redirect_stdout(sys.stderr):
        sys.path[:] = question["path"]
        answer = json.dumps({"program": _AT_START, **_answer(question)})
    sys.stdout.write(answer)


if __name__ == "__main__":
    _main()
