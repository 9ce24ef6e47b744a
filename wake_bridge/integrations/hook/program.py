"""The program behind `hook HARNESS`: reports a harness's event to the daemon, and prints what it gets for the agent.

Whatever goes wrong, the harness goes on: no output, exit 0.
"""

from __future__ import annotations

import os
import time

from wake_bridge.integrations.hook.caller import EVENTS, printed, told
from wake_bridge.integrations.hook.quick_json import loads
from wake_bridge.integrations.hook.talk import ask, daemon_elsewhere, state_directory

try:
    import _signal as signal  # type: ignore[import-not-found] # `signal` itself imports `enum`
except ImportError:
    import signal

TYPE_CHECKING = False  # importing `typing` would take its time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

PATIENCE = 1.0
"""Seconds for the daemon to answer."""

LONGEST_LIFE = 2.5
"""Seconds from the start of its process after which the hook gives up whatever it waits for, its own input included.

Less than any harness waits for it (`agent_files`): what is printed to one that has gone on counts as told, and nobody reads it.
"""

LONGEST_INPUT = 8 * 1024 * 1024
"""Bytes; the result of a tool is among them."""

MOST_MARKS = 10
_START = 19
_OLDEST = 60.0
"""Seconds: a hook that seems to be older has been told nonsense."""

_MARK = r"(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])"
_ASKS_FOR_PERMISSION = frozenset({"ToolPermission", "permission_prompt"})


def run(arguments: Sequence[str]) -> NoReturn:
    """Serve one call of a hook and exit 0.

    Args:
        arguments: the harness, and the event where its input does not name it.
    """
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, max(LONGEST_LIFE - _age(), 0.001))
    # a hook that complains would stop the harness's own work
    try:  # noqa: SIM105 - `contextlib` takes its time
        _serve(arguments[0], arguments[1] if len(arguments) > 1 else "", os.environ)
    except Exception:  # noqa: BLE001, S110
        pass
    # without a look at what the interpreter would still tidy up: that takes longer than the call itself
    os._exit(0)


def _serve(harness: str, named: str, environment: Mapping[str, str]) -> None:
    said = _input()
    event = named or str(said.get("hook_event_name") or said.get("hookName") or "")
    moment, form = EVENTS[harness].get(event, ("", ""))
    if not moment or (event == "Notification" and said.get("notification_type") not in _ASKS_FOR_PERMISSION):
        return
    state_dir = state_directory(environment)
    call = {
        "command": "session",
        **told(harness, said, environment),
        "event": moment,
        "marks": _marks(said.get("prompt")) if moment == "prompt" else [],
        # a turn that a hook has prolonged is not prolonged again
        "drain": bool(form) and not said.get("stop_hook_active"),
    }
    answer = ask(state_dir, call, PATIENCE)
    if not answer and (elsewhere := daemon_elsewhere(environment, state_dir)):
        state_dir = elsewhere
        answer = ask(state_dir, call, PATIENCE)
    offer = answer.get("offer")
    if isinstance(offer, dict) and form:
        _hand_over(state_dir, printed(form, event, str(offer["block"])), offer)


def _hand_over(state_dir: str, line: str, offer: Mapping[str, Any]) -> None:
    """Take, print, say so: each step only after the one before."""
    lease = {"delivery": offer["delivery"], "lease": offer["lease"]}
    if ask(state_dir, {"command": "taking", **lease}, PATIENCE).get("ok") is not True:
        return
    text = line.encode() + b"\n"
    while text:
        text = text[os.write(1, text) :]
    ask(state_dir, {"command": "printed", **lease}, PATIENCE)


def _age() -> float:
    """Seconds since this process began: on a busy machine the interpreter alone takes its time. 0 where nobody tells."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            began = int(file.read().rpartition(")")[2].split()[_START])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 < age < _OLDEST else 0.0


def _input() -> dict[str, Any]:
    pieces = []
    left = LONGEST_INPUT
    while left > 0 and (piece := os.read(0, min(left, 1 << 16))):
        pieces.append(piece)
        left -= len(piece)
    said = loads(b"".join(pieces))
    return said if isinstance(said, dict) else {}


def _marks(prompt: object) -> list[str]:
    """What may be marks of ours in a prompt; the prompt itself goes nowhere."""
    if not isinstance(prompt, str):
        return []
    import re

    return list(dict.fromkeys(re.findall(_MARK, prompt)))[:MOST_MARKS]
