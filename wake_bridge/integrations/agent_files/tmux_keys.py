"""Keys and a status-line segment for a person's tmux, in a marked block of their configuration file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from wake_bridge.domain.errors import RefusedForSafety
from wake_bridge.integrations.agent_files.text_file import HASH, FileChange, Form, content_of, real_place, with_block

PURPOSE: Final = "keys and a status-line segment for tmux"
"""What the record says of the file."""

NEXT_KEY: Final = "N"
BACK_KEY: Final = "B"
"""Keys behind tmux's prefix; tmux itself binds neither."""

_BLOCK: Final = """\
bind-key {next} run-shell -b {go}
bind-key {back} run-shell -b {return_}
set-option -s @wake_bridge_keys on
if-shell -F '#{{m:*@wake_bridge_attention*,#{{status-right}}}}' '' "set-option -ag status-right ' #{{@wake_bridge_attention}}'"
"""


def plan_tmux_keys(program: Sequence[str], home: Path, environment: Mapping[str, str]) -> FileChange:
    """What the person's tmux configuration would become.

    Args:
        program: the words that start this wake-bridge.
        home: the person's home directory.
        environment: says where configurations lie.

    Raises:
        OperationFailed: the file cannot be read, or its block cannot be told from the rest.
        RefusedForSafety: a word of the program has a sign that tmux or a shell would read otherwise.
    """
    path, link = real_place(tmux_configuration(home, environment))
    words = shlex.join(["env", *program] if "=" in program[0] else program)
    if any(sign in words for sign in '"#$\\\n'):
        raise RefusedForSafety("the path of wake-bridge cannot be written into a tmux configuration", words)
    text = _BLOCK.format(next=NEXT_KEY, back=BACK_KEY, go=_call(words), return_=_call(words, "--back "))
    before = content_of(path)
    return FileChange(path, before, with_block(before, text, HASH, path), PURPOSE, Form.BLOCK, link=link)


def _call(words: str, option: str = "") -> str:
    return f"\"{words} next {option}--client '#{{client_name}}' >/dev/null 2>&1\""


def tmux_configuration(home: Path, environment: Mapping[str, str]) -> Path:
    """The file that tmux reads at its start: the first that is there, else `~/.tmux.conf`."""
    directory = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    found = (home / ".tmux.conf", Path(directory) / "tmux" / "tmux.conf")
    return next((one for one in found if one.is_file()), found[0])
