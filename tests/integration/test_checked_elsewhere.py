"""A daemon has its configuration checked in a process of its own: with the same errors, and without the models in its memory."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from tests.integration.test_settings_in_force import NO_TOML, TYPO
from wake_bridge.config.checked import as_json, written_down
from wake_bridge.config.locations import SETTINGS_NAME
from wake_bridge.config.settings import Settings, changed_keys, engine_settings, taken_over
from wake_bridge.control.settings_in_force import write_settings
from wake_bridge.demo.sandbox import DaemonProcess, Sandbox
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.integrations import adapters, config_check_program
from wake_bridge.integrations.adapters import CatalogueEntry, checked_settings, load_catalogue, make_adapters
from wake_bridge.integrations.config_check_program import settings_for_daemon
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.memory_adapter import MemoryAdapter

GOOD = 'limits.storm = 3\n[adapters.tmux]\nsocket_name = "mine"\n[targets."@a"]\npane = "a:1.0"\npolicy = "immediate"\n'
BROKEN = [
    NO_TOML,
    TYPO,
    "limits.storm = 0\ngraph.watch = 1\nadapters.tmux.socket_nam = 'x'\nadapters.pigeon.loft = 'y'",
    'limits.storm = 3\ndigest.action = "{who}"\n[targets."@a"]\nadapter = "nobody"',
    'digest.action = "a\\u0000b"',
    'http.senders.up.key = "hunter2"',
    'adapters.tmux = { socket_name = "a", socket_path = "b" }',
    "limits.storm = 1979-05-27",
    "[graph]\npath = 'a'\nurl = 'postgresql://u@h/d'",
]

Configured = Callable[[str], str]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configured:
    """Writes a configuration file and answers its path; this process counts as one that has no models."""
    for name in [one for one in os.environ if one.startswith("WAKE_BRIDGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(config_check_program, "_MODELS", "a.module.that.nobody.imported")

    def write(text: str) -> str:
        file = tmp_path / "config.toml"
        file.write_text(text)
        file.chmod(0o600)
        return str(file)

    return write


@pytest.fixture
def only_elsewhere(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> Configured:
    """The same, where nothing may be checked in this process."""

    def refuse(_: object) -> Settings:
        raise AssertionError("checked in this process")

    monkeypatch.setattr(config_check_program, "checked_settings", refuse)
    return configured


def test_what_is_checked_elsewhere_is_what_the_models_make(only_elsewhere: Configured) -> None:
    """Configuration, adapters' tables, and what is written down for commands."""
    file = only_elsewhere(GOOD)
    there, here = settings_for_daemon(file), checked_settings(file)

    assert written_down(there.config) == written_down(here.config)
    assert as_json(there.config) == as_json(here.config) == here.config.model_dump(mode="json")
    assert engine_settings(there, embedded=True) == engine_settings(here, embedded=True)
    assert changed_keys(there, here) == changed_keys(here, there) == []
    assert (there.fingerprint, there.origins, there.state_dir) == (here.fingerprint, here.origins, here.state_dir)
    wanted = {one.name: one.kind.Config for one in load_catalogue() if one.kind is not None}
    tables = {name: model() for name, model in wanted.items()} | {"tmux": wanted["tmux"](socket_name="mine")}
    assert {name: vars(one) for name, one in there.adapter_tables.items()} == {
        name: vars(one) for name, one in tables.items()
    }


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_wrong_is_told_in_the_same_words(configured: Configured, text: str) -> None:
    """Every mistake, whoever finds it."""
    file = configured(text)
    with pytest.raises(ConfigurationInvalid) as here:
        checked_settings(file)
    with pytest.raises(ConfigurationInvalid) as there:
        settings_for_daemon(file)

    for name in ("what", "where", "hint", "problems"):
        assert getattr(there.value, name) == getattr(here.value, name)
    assert here.value.problems


def test_a_file_that_cannot_be_read_or_is_not_there_is_told_in_the_same_words(
    configured: Configured, tmp_path: Path
) -> None:
    """What is wrong before anything is checked."""
    file = configured(TYPO)
    Path(file).chmod(0o666)
    for path in (file, str(tmp_path / "nowhere.toml"), str(tmp_path)):
        with pytest.raises(ConfigurationInvalid) as here:
            checked_settings(path)
        with pytest.raises(ConfigurationInvalid) as there:
            settings_for_daemon(path)
        assert there.value.problems == here.value.problems


@pytest.mark.parametrize(
    "program",
    [
        (sys.executable, "-c", f"import os; os.kill(os.getpid(), {signal.SIGKILL.value})"),
        (sys.executable, "-c", "raise SystemExit(1)"),
        (sys.executable, "-c", "print('no JSON')"),
        (sys.executable, "-c", "print({})"),
        ("/nowhere/python",),
    ],
)
def test_where_the_other_process_fails_the_daemon_checks_itself(
    configured: Configured, monkeypatch: pytest.MonkeyPatch, program: tuple[str, ...]
) -> None:
    """Killed, ended, talking nonsense, not there: the configuration is in force all the same, and mistakes are told."""
    monkeypatch.setattr(config_check_program, "_PROGRAM", program)

    found = settings_for_daemon(configured(GOOD))
    assert isinstance(found.config, BaseModel)
    assert (found.config.limits.storm, found.adapter_tables) == (3, {})
    with pytest.raises(ConfigurationInvalid, match="1 mistake"):
        settings_for_daemon(configured(TYPO))


def test_a_release_that_was_installed_meanwhile_is_not_listened_to(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configuration may have other keys: the old one stays in force until a restart."""
    monkeypatch.setattr(config_check_program, "_MODELS_STAMP", [[1, 2]])

    with pytest.raises(ConfigurationInvalid, match="another release") as caught:
        settings_for_daemon(configured(GOOD))
    assert caught.value.hint == "restart the daemon"


def test_one_that_hangs_is_not_waited_for(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter may hang while it is imported."""
    monkeypatch.setattr(config_check_program, "_PROGRAM", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(config_check_program, "PATIENCE", 0.2)

    assert isinstance(settings_for_daemon(configured(GOOD)).config, BaseModel)


def test_the_other_process_has_its_packages_from_where_this_one_has(
    only_elsewhere: Configured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout beside an installed release: what the other process would find by itself is another wake-bridge."""
    (tmp_path / "wake_bridge").mkdir()
    (tmp_path / "wake_bridge/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert settings_for_daemon(only_elsewhere(GOOD)).config.limits.storm == 3


@pytest.mark.parametrize(
    "begins",
    [
        "threading.Thread(target=time.sleep, args=(3600,)).start()",
        "atexit.register(print, 'the end')",
        "os.write(1, b'hello')",
        "subprocess.Popen(['sleep', '30'])",
    ],
)
def test_an_adapter_may_begin_what_it_likes_while_it_is_imported(
    only_elsewhere: Configured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    """What it began is not waited for, and what it says is no answer."""
    about = tmp_path / "noisy-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[wake_bridge.adapters]\nnoisy = noisy:Noisy\n")
    (tmp_path / "noisy.py").write_text(
        f"import atexit, os, subprocess, threading, time\n{begins}\n"
        "from tests.integration.test_checked_elsewhere import Stranger as Noisy\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert settings_for_daemon(only_elsewhere(GOOD)).config.limits.storm == 3


def test_who_has_the_models_already_checks_itself(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started for nothing."""
    monkeypatch.setattr(config_check_program, "_MODELS", "pydantic")
    monkeypatch.setattr(config_check_program, "_PROGRAM", ("/nowhere/python",))

    assert isinstance(settings_for_daemon(configured(GOOD)).config, BaseModel)


def test_a_reload_keeps_what_waits_whoever_checked(only_elsewhere: Configured, tmp_path: Path) -> None:
    """Also where one was checked elsewhere and the other by models."""
    before, after = "limits.storm = 3\ngraph.poll_interval = 2.0", "limits.storm = 4\ngraph.poll_interval = 3.0"
    started = settings_for_daemon(only_elsewhere(before))
    read, by_models = settings_for_daemon(only_elsewhere(after)), checked_settings(only_elsewhere(after))

    for one in (read, by_models):
        now = taken_over(started, one)
        assert changed_keys(started, now) == ["limits.storm"]
        assert changed_keys(now, one) == ["graph.poll_interval"]
        write_settings(tmp_path, now)
        told = json.loads((tmp_path / SETTINGS_NAME).read_text(encoding="utf-8"))["config"]
        assert (told["limits"]["storm"], told["graph"]["poll_interval"]) == (4, 2.0)


class OwnTable(BaseModel):
    """A third party's table."""

    enabled: bool = True
    loft: str = "attic"


class Stranger(MemoryAdapter):
    """A third party's adapter, whose `Config` is a class as ever."""

    Config: ClassVar[type[BaseModel]] = OwnTable

    def __init__(self, config: Any, context: Any) -> None:
        self.given = config
        super().__init__(config, context)


def test_an_adapter_with_a_class_of_its_own_gets_an_instance_of_it(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What third parties have written goes on working."""
    settings = settings_for_daemon(configured(GOOD))
    ours = load_catalogue()
    stranger = CatalogueEntry("stranger", "far", "far:Stranger", Stranger)
    monkeypatch.setattr(adapters, "load_catalogue", lambda: [*ours, stranger])

    made = make_adapters(settings, SteadyClock()).adapters["stranger"]

    assert isinstance(made, Stranger)
    assert made.given == OwnTable()


def holds_models(daemon: DaemonProcess) -> bool:
    """Whether the shared library of pydantic is in the memory of a process."""
    return "_pydantic_core" in Path(f"/proc/{daemon.pid}/maps").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")
def test_a_running_daemon_holds_no_models_after_reloads_either(
    tmp_path: Path, program: tuple[str, ...], executed_daemons: None
) -> None:
    """Once changed, once broken, once mended; what is broken is told and changes nothing."""
    del executed_daemons
    with Sandbox(tmp_path, f"wake-bridge-test-{tmp_path.name}", program) as sandbox:
        sandbox.configure()
        sandbox.run("init")
        daemon = sandbox.daemon()
        assert not holds_models(daemon)
        whole = sandbox.config_file.read_text()
        for line, event in (("limits.storm = 3\n", "config_reloaded"), (f"{TYPO}\n", "config_refused")):
            sandbox.config_file.write_text(line + whole)
            os.kill(daemon.pid, signal.SIGHUP)
            sandbox.waits_for(partial(daemon.entries, event), what=event)
        (refused,) = daemon.entries("config_refused")
        assert "limits.storn = 3" in str(refused["problems"])
        assert not holds_models(daemon)
