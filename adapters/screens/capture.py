"""Captured screens as files: one JSON object a screen, the same for tests, `screens capture` and `screens classify`.

Fields: `harness`, `version`, `state` (what was done), `width`, `height`, `text` (`capture-pane -p`), `ansi`
(`capture-pane -p -e`), `cursor` {x, y, visible}, `flags` (tmux formats by name), `process_tree`, `note`, and `expect`
(the presence states that are acceptable, the best first; empty when nobody has judged it). Others are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from adapters.screens.classify import Reading, classify
from adapters.screens.profile import Profile
from adapters.screens.screen import Screen
from wake_bridge.domain.delivery import HoldReason
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.presence import Evidence, PresenceState
from wake_bridge.domain.programs import is_shell_or_veto

_MAKE_ONE: Final = "make one with `wake-bridge screens capture PANE`"


class _Cursor(BaseModel):
    x: int
    y: int
    visible: bool


class _CaptureFile(BaseModel):
    harness: str = ""
    version: str = ""
    state: str = ""
    width: int
    height: int
    ansi: str
    cursor: _Cursor
    flags: dict[str, str] = {}
    process_tree: tuple[str, ...] = ()
    note: str = ""
    expect: tuple[PresenceState, ...] = ()


@dataclass(frozen=True, slots=True)
class Capture:
    """A screen and what is known about it."""

    screen: Screen
    harness: str = ""
    version: str = ""
    state: str = ""
    note: str = ""
    process_tree: tuple[str, ...] = ()
    expect: tuple[PresenceState, ...] = ()


def read_capture(path: Path) -> Capture:
    """The capture in that file.

    Raises:
        OperationFailed: the file cannot be read or is no capture.
    """
    try:
        found = _CaptureFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise OperationFailed(f"the capture cannot be read ({error.strerror})", str(path), hint=_MAKE_ONE) from error
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg'][:80]}"
        raise OperationFailed(f"not a screen capture ({why})", str(path), hint=_MAKE_ONE) from error
    screen = Screen.parse(
        found.ansi,
        width=found.width,
        height=found.height,
        cursor_x=found.cursor.x,
        cursor_y=found.cursor.y,
        cursor_visible=found.cursor.visible,
        title=found.flags.get("pane_title", ""),
        command=found.flags.get("pane_current_command", ""),
        flags=found.flags,
    )
    return Capture(
        screen, found.harness, found.version, found.state, found.note, found.process_tree, tuple(found.expect)
    )


def load_capture(path: Path) -> Screen:
    """The screen in that file alone.

    Raises:
        OperationFailed: the file cannot be read or is no capture.
    """
    return read_capture(path).screen


def classify_capture(capture: Capture, profile: Profile) -> Reading:
    """Read a captured screen as its pane would be read: a shell in the foreground outranks whatever is still to be seen."""
    return classify(capture.screen, profile, tuple(_no_agent(capture)))


def _no_agent(capture: Capture) -> Iterator[Evidence]:
    """A shell, editor or pager as `pane_current_command`, unless a process in the foreground is another program.

    A script that starts the agent leaves its shell's name there.
    """
    command = capture.screen.command
    if not command or not is_shell_or_veto([command]):
        return
    in_front = [line.split() for line in capture.process_tree if " fg " in f"{line} "]
    if not all(is_shell_or_veto(words[:1]) for words in in_front):
        return
    stopped = [words[0] for line in capture.process_tree if (words := line.split())[1:2] and words[1].startswith("T")]
    rule = "suspended" if stopped else "no-agent"
    saw = f"{stopped[0]} is stopped, and {command} has the terminal" if stopped else f"{command} has the terminal"
    yield Evidence(rule, PresenceState.UNKNOWN, saw=saw, region="process", hold=HoldReason.NO_AGENT)


def dump_capture(capture: Capture, ansi: str) -> str:
    """The text of a capture file; `ansi` is what `capture-pane -p -e` printed for `capture.screen`."""
    screen = capture.screen
    flags = {"pane_title": screen.title, "pane_current_command": screen.command, **screen.flags}
    content: dict[str, Any] = {
        "harness": capture.harness,
        "version": capture.version,
        "state": capture.state,
        "width": screen.width,
        "height": screen.height,
        "cursor": {"x": screen.cursor_x, "y": screen.cursor_y, "visible": screen.cursor_visible},
        "flags": flags,
        "process_tree": list(capture.process_tree),
        "note": capture.note,
        "text": "\n".join(row.text for row in screen.rows),
        "ansi": ansi,
        "expect": [state.value for state in capture.expect],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
