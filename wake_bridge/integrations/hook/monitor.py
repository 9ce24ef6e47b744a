"""`wake-bridge claude monitor`: waits for wakes of the session that started it, and prints one line for each.

Claude Code makes an event of every line, and begins a turn when its monitor ends: so nothing else is ever printed, and
it ends only with Claude Code. A daemon that is away is called again and again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from wake_bridge.integrations.hook.caller import told
from wake_bridge.integrations.hook.talk import ask, daemon_elsewhere, state_directory

LONGEST_WAIT = 30.0
"""Seconds for the daemon to have something to tell; it answers earlier."""

PATIENCE = 1.5
"""Seconds for an answer that is there at once."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between two calls to a daemon that is not there."""

AT_ONCE = 1.0
"""Seconds: an empty answer that came sooner is none; the daemon keeps us waiting longer."""

_LONGEST_RECORD = 64 * 1024
_OUT = 1


def run() -> NoReturn:
    """Wait and print until Claude Code is gone."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    threading.Thread(target=_end_with_the_reader, daemon=True).start()
    pause = FIRST_PAUSE
    while True:
        began = time.monotonic()
        if _wait(os.environ) or time.monotonic() - began > AT_ONCE:
            pause = FIRST_PAUSE
            continue
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _end_with_the_reader() -> None:
    """Nobody reads any more: that is seen at once, even where Claude Code was killed."""
    reader = select.poll()
    reader.register(_OUT, 0)
    while not any(seen & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, seen in reader.poll()):
        pass
    os._exit(0)


def _wait(environment: Mapping[str, str]) -> bool:
    """Call the daemon once, and print what it has; whether there was something."""
    state_dir = state_directory(environment)
    caller = told("claude", {"session_id": _session_id(environment)}, environment)
    answer = ask(state_dir, {"command": "monitor", **caller}, LONGEST_WAIT)
    if not answer and (elsewhere := daemon_elsewhere(environment, state_dir)):
        state_dir = elsewhere
        answer = ask(state_dir, {"command": "monitor", **caller}, LONGEST_WAIT)
    mark, line = answer.get("mark"), answer.get("line")
    if not isinstance(mark, str) or not isinstance(line, str):
        return False
    taken = {"session_id": caller["session_id"], "mark": mark}
    # only after this may the line be written: until then the daemon may give it to somebody else
    if ask(state_dir, {"command": "monitor_printing", **taken}, PATIENCE).get("ok") is True:
        _print(line)
        ask(state_dir, {"command": "monitor_printed", **taken}, PATIENCE)
    return True


def _print(line: str) -> None:
    text = " ".join(line.splitlines()).encode("utf-8", "replace") + b"\n"
    while text:
        text = text[os.write(_OUT, text) :]


def _session_id(environment: Mapping[str, str]) -> str:
    """What the session calls itself now: after `/clear` that is no longer what it was called when it started us."""
    called: Any = environment.get("CLAUDE_CODE_SESSION_ID", "")
    pid = environment.get("CLAUDE_PID", "")
    home = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    if pid.isdecimal():
        try:
            with open(os.path.join(home, "sessions", f"{pid}.json"), "rb") as file:
                called = json.loads(file.read(_LONGEST_RECORD)).get("sessionId", called)
        except (OSError, ValueError, AttributeError, RecursionError):
            pass  # it is just being written, or there is none
    return called if isinstance(called, str) else ""
