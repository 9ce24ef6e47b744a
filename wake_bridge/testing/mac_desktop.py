"""A Mac's desktop, played: stand-ins for `osascript`, `pbcopy`, `pbpaste` and `ps`, written from docs/macos.md.

It knows the scripts by the names and answers that the page gives them, and keeps one desktop in a file: processes, who is
in front, the clipboard, terminal sessions. Troubles can be set to strike right before the n-th call of a script: another
application takes the front, a dialog opens, a person types, an error, a hang. All that reached a process is written down.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

STATE_VARIABLE: Final = "WAKE_BRIDGE_TEST_DESKTOP"
FIELD_END: Final = "\x1f"
RECORD_END: Final = "\x1e"
_PROGRAMS: Final = ("osascript", "pbcopy", "pbpaste", "ps")

State = dict[str, Any]


class MacDesktop:
    """One played desktop; its programs stand in `bin`, for the head of a PATH.

    Args:
        directory: where programs and state are kept.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "desktop.json"
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        for program in _PROGRAMS:
            stand_in = self.bin / program
            stand_in.write_text(
                f'#!{sys.executable}\nimport sys\nfrom {__name__} import main\nsys.exit(main("{program}"))\n'
            )
            stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
        self.write(
            {
                "front": 1,
                "idle": 3600,
                "clipboard": {"kind": "text", "text": "what the person copied"},
                "apps": {"1": _process("Finder", "com.apple.finder")},
                "sessions": [],
                "strikes": [],
                "calls": [],
                "keys": [],
            }
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """For a program that is to live on this desktop."""
        return {**os.environ, "PATH": f"{self.bin}:{os.environ.get('PATH', '')}", STATE_VARIABLE: str(self.path)}

    def read(self) -> State:
        """The desktop as it stands."""
        state: State = json.loads(self.path.read_text(encoding="utf-8"))
        return state

    def write(self, state: State) -> None:
        """Let the desktop stand so."""
        self.path.write_text(json.dumps(state), encoding="utf-8")

    def change(self, **values: Any) -> None:
        """Set values of the desktop."""
        self.write({**self.read(), **values})

    def open_app(self, pid: int, name: str, bundle: str = "", **values: Any) -> None:
        """Start an application."""
        state = self.read()
        state["apps"][str(pid)] = {**_process(name, bundle), **values}
        self.write(state)

    def change_app(self, pid: int, **values: Any) -> None:
        """Set values of an application: `value`, `placeholder`, `role`, `dialog`, `swallows_return`, `deaf`."""
        state = self.read()
        state["apps"][str(pid)].update(values)
        self.write(state)

    def open_session(self, terminal: str, session: str, tty: str, pids: Sequence[int], **values: Any) -> None:
        """Open a session of `iterm` or `terminal`, with the pids of its foreground group, leader first."""
        state = self.read()
        blank = {"title": "", "above": [], "composer": "", "below": [], "frame": "", "busy": False, "front": False}
        state["sessions"].append(
            {"terminal": terminal, "id": session, "tty": tty, "pids": list(pids), "submitted": [], **blank, **values}
        )
        self.write(state)

    def change_session(self, session: str, **values: Any) -> None:
        """Set values of a session."""
        state = self.read()
        for one in state["sessions"]:
            if one["id"] == session:
                one.update(values)
        self.write(state)

    def strike(self, script: str, nth: int = 1, **effect: Any) -> None:
        """Let something happen right before the n-th call of `script` from now on.

        `effect`: `front=pid`, `app=(pid, {…})`, `session=(id, {…})`, `error=(number, message)`, or `hang=seconds`.
        """
        state = self.read()
        past = sum(call["script"] == script for call in state["calls"])
        state["strikes"].append({"script": script, "nth": past + nth, "effect": effect})
        self.write(state)


def main(program: str) -> int:
    """What a stand-in does when it is run."""
    path = Path(os.environ[STATE_VARIABLE])
    state: State = json.loads(path.read_text(encoding="utf-8"))
    script = Path(sys.argv[1]).stem if program == "osascript" else program
    state["calls"].append({"script": script, "argv": sys.argv[1:], "at": time.time()})
    errors = _strike(state, script)
    try:
        answer = "" if errors else _PLAY[program](state, script, sys.argv[2:])
    except ScriptError as problem:
        errors, answer = [problem.number, str(problem)], ""
    path.write_text(json.dumps(state), encoding="utf-8")
    if errors:
        sys.stderr.write(f"{sys.argv[1]}: execution error: {errors[1]} ({errors[0]})\n")
        return 1
    sys.stdout.write(answer)
    return 0


class ScriptError(Exception):
    """The error that a script ends with."""

    def __init__(self, number: int, message: str) -> None:
        self.number = number
        super().__init__(message)


def _process(name: str, bundle: str) -> State:
    return {
        "name": name,
        "bundle": bundle,
        "dialog": False,
        "role": "AXTextArea",
        "placeholder": "",
        "value": "",
        "submitted": [],
        "swallows_return": 0,
        "deaf": False,
    }


def _strike(state: State, script: str) -> list[Any]:
    count = sum(call["script"] == script for call in state["calls"])
    error: list[Any] = []
    for strike in state["strikes"]:
        if (strike["script"], strike["nth"]) != (script, count):
            continue
        effect = strike["effect"]
        state["front"] = effect.get("front", state["front"])
        if "app" in effect:
            state["apps"][str(effect["app"][0])].update(effect["app"][1])
        for one in state["sessions"]:
            if "session" in effect and one["id"] == effect["session"][0]:
                one.update(effect["session"][1])
        if "hang" in effect:
            time.sleep(effect["hang"])
        error = effect.get("error", error)
    return error


def _answer(*records: Sequence[object]) -> str:
    return RECORD_END.join("".join(f"{field}{FIELD_END}" for field in record) for record in records) + "\n"


def _app(state: State, pid: str) -> State:
    if pid not in state["apps"]:
        raise ScriptError(-1728, "Can't get application process")
    app: State = state["apps"][pid]
    return app


def _osascript(state: State, script: str, arguments: Sequence[str]) -> str:
    play = globals().get(f"_play_{script}")
    if play is None:
        raise ScriptError(-43, f"no script {script}")
    answer: str = play(state, arguments)
    return answer


def _play_app_find(state: State, arguments: Sequence[str]) -> str:
    wanted = arguments[0].lower()
    found = [
        (pid, app["name"], app["bundle"])
        for pid, app in state["apps"].items()
        if wanted in {app["name"].lower(), app["bundle"].lower(), app.get("title", "").lower()}
    ]
    return _answer(*found) if found else "\n"


def _play_app_look(state: State, arguments: Sequence[str]) -> str:
    app = _app(state, arguments[0])
    dialogs = int(app["dialog"])
    return _answer((state["front"], state["idle"], dialogs, app["role"], app["placeholder"], app["value"]))


def _play_app_front(state: State, arguments: Sequence[str]) -> str:
    _app(state, arguments[0])
    if arguments[1] == str(state["front"]) and not state["apps"][arguments[0]].get("stays_behind"):
        state["front"] = int(arguments[0])
    return _answer((state["front"],))


def _play_app_key(state: State, arguments: Sequence[str]) -> str:
    pid, key, tab, expected = arguments
    app = _app(state, pid)
    if state["front"] != int(pid):
        return _answer(("refused", "focus"))
    if app["dialog"]:
        return _answer(("refused", "dialog"))
    if expected != "-" and Path(expected).read_text(encoding="utf-8") != app["value"]:
        return _answer(("refused", "value"))
    state["keys"].append([pid, key, tab])
    if key == "paste" and not app["deaf"]:
        app["value"] += state["clipboard"]["text"]
    elif key == "return" and app["swallows_return"]:
        app["swallows_return"] -= 1
    elif key == "return":
        app["submitted"].append(app["value"])
        app["value"] = ""
    return _answer(("done",))


def _play_clipboard_kind(state: State, arguments: Sequence[str]) -> str:
    del arguments
    return _answer((state["clipboard"]["kind"],))


def _list(state: State, terminal: str) -> str:
    found = [(one["id"], one["tty"], one["title"]) for one in state["sessions"] if one["terminal"] == terminal]
    return _answer(*found) if found else "\n"


def _play_iterm_list(state: State, arguments: Sequence[str]) -> str:
    del arguments
    return _list(state, "iterm")


def _play_terminal_list(state: State, arguments: Sequence[str]) -> str:
    del arguments
    return _list(state, "terminal")


def _session(state: State, terminal: str, wanted: str) -> State:
    for one in state["sessions"]:
        if one["terminal"] == terminal and wanted == one["id"]:
            session: State = one
            return session
    raise ScriptError(-1728, "Can't get session")


def _visible(session: State) -> str:
    """The screen: what was said, the composer in its frame with `{}` for what is typed, what stands below."""
    composer = session["frame"].replace("{}", session["composer"])
    return "\n".join([*session["above"], composer, *session["below"]])


def _look(state: State, terminal: str, wanted: str) -> str:
    one = _session(state, terminal, wanted)
    words = [str(one[flag]).lower() for flag in ("busy", "front")]
    return _answer((one["tty"], one["title"], 120, 40, *words, state["idle"], _visible(one)))


def _play_iterm_look(state: State, arguments: Sequence[str]) -> str:
    return _look(state, "iterm", arguments[0])


def _play_terminal_look(state: State, arguments: Sequence[str]) -> str:
    return _look(state, "terminal", arguments[0])


def _write(state: State, session: State, arguments: Sequence[str], *, concerns: bool, ends: bool) -> str:
    _, expected, quiet, text = arguments[:4]
    if concerns and state["idle"] < int(quiet):
        return _answer(("refused", "typing"))
    if Path(expected).read_text(encoding="utf-8") != _visible(session):
        return _answer(("refused", "value"))
    state["keys"].append([session["id"], "return" if ends else "text", ""])
    session["composer"] += text
    if ends and session["composer"]:
        session["submitted"].append(session["composer"])
        session["above"] = [*session["above"], f"> {session['composer']}", ""]
        session["composer"] = ""
    return _answer(("done",))


def _play_iterm_write(state: State, arguments: Sequence[str]) -> str:
    session = _session(state, "iterm", arguments[0])
    return _write(state, session, arguments, concerns=session["front"], ends=arguments[4] == "yes")


def _play_terminal_write(state: State, arguments: Sequence[str]) -> str:
    return _write(state, _session(state, "terminal", arguments[0]), arguments, concerns=True, ends=True)


def _pbpaste(state: State, script: str, arguments: Sequence[str]) -> str:
    del script, arguments
    text: str = state["clipboard"]["text"]
    return text


def _pbcopy(state: State, script: str, arguments: Sequence[str]) -> str:
    del script, arguments
    state["clipboard"] = {"kind": "text", "text": sys.stdin.buffer.read().decode()}
    return ""


def _ps(state: State, script: str, arguments: Sequence[str]) -> str:
    del script
    tty = f"/dev/{arguments[-1]}"
    for one in state["sessions"]:
        if one["tty"] == tty:
            leader = one["pids"][0] if one["pids"] else 0
            return "".join(f"{pid} {leader} {leader}\n" for pid in one["pids"])
    return ""


_PLAY: Final = {"osascript": _osascript, "pbpaste": _pbpaste, "pbcopy": _pbcopy, "ps": _ps}
