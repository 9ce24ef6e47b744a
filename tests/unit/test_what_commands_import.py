"""Most of a short command's time is imports: what each may import is counted here, for counts do not depend on the load."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wake_bridge.cli.app import cli
from wake_bridge.control.client import SOCKET_NAME
from wake_bridge.integrations import adapters
from wake_bridge.system.files import default_state_directory

SLOW = {
    "wake_bridge_adapters",
    "apscheduler",
    "asyncio",
    "libtmux",
    "logging",
    "psutil",
    "rich",
    "structlog",
    "ulid",
    "watchfiles",
}
"""What only the daemon needs, or who looks at panes: see docs/performance.md for what each costs."""

MODELS = {"pydantic", "pydantic_core", "wake_bridge.config.fields"}
CHECKING = MODELS | {"importlib.metadata"}
"""What checks the whole configuration."""

SELDOM = {"cronsim", "importlib.resources", "zoneinfo", "zipfile"}
"""What few acts need: times of reminders, and files of archives."""

LOADED = (
    "import sys; from wake_bridge.cli.start import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
)

JUDGED = """
import os
from wake_bridge.config.settings import load_settings
from wake_bridge.control.settings_in_force import write_settings
settings = load_settings(None, os.environ)
settings.state_dir.mkdir(parents=True, exist_ok=True)
write_settings(settings.state_dir, settings)
"""
"""Leaves behind what a daemon wrote down of the configuration."""

SOMETHING_TO_DO = {
    "--help": SLOW | CHECKING | {"sqlite3", "wake_bridge.storage", "wake_bridge.config", "wake_bridge.engine"},
    "deliveries": SLOW | CHECKING | SELDOM | {"wake_bridge.wiring"},
    "ack 01M8FQXY1DZ6BPD2SHH367VR0Y": SLOW | CHECKING | SELDOM | {"wake_bridge.wiring"},
    "inbox @agent": SLOW | CHECKING | SELDOM | {"wake_bridge.wiring"},
    "send @agent --from @me --subject x": SLOW | CHECKING | {"wake_bridge.wiring"},
    "status": SLOW | CHECKING | {"wake_bridge.wiring"},
    "pause @agent": SLOW | CHECKING | {"wake_bridge.wiring"},
    "activity": SLOW | CHECKING | SELDOM | {"wake_bridge.wiring"},
    "notify @agent --source build x": (SLOW - {"ulid"})
    | MODELS
    | {"wake_bridge.wiring", "wake_bridge.schemas", "wake_bridge.engine.deliver"},
    "next": SLOW | MODELS | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "channels list": SLOW | MODELS | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "agent list": SLOW | CHECKING | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "subscribe @agent --trigger SENT_TO_ME": SLOW | CHECKING | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "reminders list": SLOW | MODELS | SELDOM | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "sources list": SLOW | MODELS | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "push-capable": SLOW | MODELS | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "logs": SLOW | MODELS | {"wake_bridge.wiring", "wake_bridge.integrations"},
    "panes": {"apscheduler", "libtmux", "rich", "structlog", "watchfiles", "wake_bridge.wiring"},
    "config check": {"apscheduler", "libtmux", "rich", "structlog", "watchfiles", "wake_bridge.wiring"},
    "doctor": {"apscheduler", "libtmux", "rich", "structlog", "watchfiles", "wake_bridge.wiring"},
}


MOST_OF_OURS = {
    "--help": 20,
    "deliveries": 80,
    "activity": 83,
    "ack 01M8FQXY1DZ6BPD2SHH367VR0Y": 100,
    "inbox @agent": 100,
    "notify @agent --source build x": 112,
    "status": 105,
    "agent list": 104,
    "subscribe @agent --trigger SENT_TO_ME": 104,
    "channels list": 109,
    "reminders list": 111,
}
"""How many modules of ours a quick command may import. A number that rises says which command pays for a new import."""

MOST_BESIDE_A_DAEMON = {"presence @agent": 97, "routes @agent": 111, "why @agent": 113}
"""The same of those that ask a daemon."""


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME with an embedded graph and one agent without mail, in which a daemon has run once."""
    home = tmp_path_factory.mktemp("first-day")
    for command in (["-m", "wake_bridge", "init"], ["-m", "wake_bridge", "agent", "add", "@agent"], ["-c", JUDGED]):
        subprocess.run([sys.executable, *command], env=_lives_in(home), check=True, capture_output=True)
    return home


@pytest.fixture
def environment(first_day: Path, tmp_path: Path) -> dict[str, str]:
    """What a command is given: a HOME as it was on the first day."""
    shutil.copytree(first_day, tmp_path, dirs_exist_ok=True)
    return _lives_in(tmp_path)


def _lives_in(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMUX_TMPDIR": str(home)}


def loaded_by(command: str, environment: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command.split()], env=environment, capture_output=True, text=True, check=False
    )
    assert "error: internal" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_the_version_is_told_before_anything_is_imported() -> None:
    """The start costs hardly more than the interpreter's own; not even `typing` is worth its time."""
    loaded = loaded_by("--version", dict(os.environ))

    ours = {name for name in loaded if name.startswith("wake_bridge")}
    started = {"wake_bridge.cli", "wake_bridge.cli.start", "wake_bridge.cli.streams", "wake_bridge.program_version"}
    assert ours == {"wake_bridge", *started}
    assert not loaded & {"click", "enum", "re", "typing", *SLOW, *CHECKING}


@pytest.mark.parametrize("command", SOMETHING_TO_DO)
def test_a_quick_command_imports_nothing_slow(command: str, environment: dict[str, str]) -> None:
    """Agents call these at every turn; what they do not need is not imported, of ours neither."""
    loaded = loaded_by(command, environment)
    assert loaded & SOMETHING_TO_DO[command] == set()
    ours = sorted(name for name in loaded if name.startswith("wake_bridge"))
    assert len(ours) <= MOST_OF_OURS.get(command, len(ours)), ours


def test_the_end_of_a_command_goes_through_nothing_that_was_imported(environment: dict[str, str]) -> None:
    """An interpreter that ends looks for garbage several times, which was a sixth of a command's time."""
    told = f"import atexit, gc, sys; atexit.register(lambda: print(len(gc.get_objects()), file=sys.stderr))\n{LOADED}"
    done = subprocess.run(
        [sys.executable, "-c", told, "deliveries"], env=environment, capture_output=True, text=True, check=False
    )
    assert int(done.stderr.splitlines()[-1]) < 1000


def test_config_check_looks_through_what_is_installed_once(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same catalogue tells whose tables are checked, and which adapters are made from them."""
    looks: list[None] = []

    def load() -> list[adapters.CatalogueEntry]:
        looks.append(None)
        return []

    monkeypatch.setattr(adapters, "load_catalogue", load)
    monkeypatch.setenv("HOME", environment["HOME"])
    assert CliRunner(env=environment).invoke(cli, ["config", "check"]).exit_code == 0
    assert len(looks) == 1


@pytest.fixture
def state_dir(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a daemon of that HOME keeps its state."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", environment["HOME"])
    found = default_state_directory()
    found.mkdir(parents=True, exist_ok=True)
    return found


@contextlib.contextmanager
def a_daemon_answers(state_dir: Path, answer: Mapping[str, Any]) -> Iterator[None]:
    """The same to every question."""
    with closing(socket.socket(socket.AF_UNIX)) as listener, contextlib.chdir(state_dir):
        listener.bind(SOCKET_NAME)
        listener.listen()
        threading.Thread(target=_answers, args=[listener, answer], daemon=True).start()
        yield


def test_where_a_daemon_runs_panes_imports_no_more_than_it_takes_to_ask(
    environment: dict[str, str], state_dir: Path
) -> None:
    """The daemon has looked already: neither adapters nor the engine are needed, nor the whole configuration."""
    pane: dict[str, Any] = {
        "pane": "work:api.0",
        "server": "/tmp/usual",
        "harness": "codex",
        "version": None,
        "state": "idle",
        "looks": 2,
    }
    pane |= {"why": "", "agentIdentities": ["@agent"], "cwd": "/", "doubts": [], "lasting": [], "cause": "other"}
    with a_daemon_answers(state_dir, {"panes": [pane], "silent": [], "alike": True}):
        loaded = loaded_by("panes", environment)

    assert not loaded & (SLOW | CHECKING | {"sqlite3", "wake_bridge.engine", "wake_bridge.ports", "wake_bridge.panes"})


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere watchfiles gives the hints")
def test_a_daemon_imports_nothing_that_it_never_uses(environment: dict[str, str]) -> None:
    """What it has imported it keeps for weeks: rich and its like would be 5 MB, pydantic and all models 11."""
    loaded = loaded_by("run --once", environment)
    assert {"wake_bridge.daemon.life", "wake_bridge_adapters.tmux.adapter"} <= loaded
    assert not loaded & {"rich", "pygments", "attr", "html", "watchfiles", "libtmux", "cronsim", *MODELS}


@pytest.mark.parametrize("command", MOST_BESIDE_A_DAEMON)
def test_where_a_daemon_has_watched_an_agent_nothing_that_looks_is_imported(
    environment: dict[str, str], state_dir: Path, command: str
) -> None:
    """Neither adapters, nor what asks them, nor the models of the configuration."""
    answer: dict[str, Any] = {"agentIdentity": "@agent", "state": "idle", "evidence": [], "routes": [], "table": []}
    answer |= dict.fromkeys(("where", "route", "host", "why", "remedy", "holdReason"))
    decided = dict.fromkeys(("holdReason", "turnId", "remedy", "why", "where", "cause"))
    answer |= {"decision": decided | {"move": "inject", "route": "tmux", "row": "idle"}}
    with a_daemon_answers(state_dir, answer):
        loaded = loaded_by(command, environment)

    assert not loaded & (SLOW | CHECKING | SELDOM | {"calendar"})
    assert not loaded & {"wake_bridge.wiring", "wake_bridge.offline.inspection", "wake_bridge.integrations"}
    ours = sorted(name for name in loaded if name.startswith("wake_bridge"))
    assert len(ours) <= MOST_BESIDE_A_DAEMON[command], ours


def test_where_a_daemon_knows_the_homes_list_imports_nothing_that_looks(
    environment: dict[str, str], state_dir: Path
) -> None:
    """The rows are read from the graph; where each leads, the daemon says."""
    subscribe = ["subscribe", "@agent", "--trigger", "SENT_TO_ME", "--harness-target", "disabled"]
    subprocess.run([sys.executable, "-m", "wake_bridge", *subscribe], env=environment, check=True, capture_output=True)
    reach = dict.fromkeys(("where", "key", "adapter", "overruled", "harness"), "") | {"hold": None}
    home: dict[str, Any] = {"reach": reach, "speaker": "", "pane": "", "is_placed": False, "shut": {}, "fragile": None}
    with a_daemon_answers(state_dir, {"homes": {"@agent": home}}):
        loaded = loaded_by("list", environment)

    assert not loaded & (SLOW | MODELS | SELDOM | {"wake_bridge.wiring", "wake_bridge.integrations"})
    assert not loaded & {"wake_bridge.offline.inspection", "wake_bridge.panes", "wake_bridge.engine.routes"}
    ours = sorted(name for name in loaded if name.startswith("wake_bridge"))
    assert len(ours) <= 106, ours


def _answers(listener: socket.socket, answer: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        while True:
            caller, _ = listener.accept()
            with caller, caller.makefile("rb") as question:
                question.readline()
                caller.sendall(json.dumps(answer).encode() + b"\n")
