"""The service under a real systemd: its own user manager and logind, started without an init."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import cannot
from wake_bridge.testing import until
from wake_bridge.testing.playground import Playground
from wake_bridge.testing.service_manager import UserManager, why_not

UNIT = "wake-bridge.service"
EXPOSED = 6.5
"""Of 10, as `systemd-analyze security` counts; without any sandboxing it is 9.6."""


@pytest.fixture
def manager(playground: Playground) -> Iterator[UserManager]:
    if trouble := why_not():
        cannot(trouble)
    with UserManager(playground.sandbox.environment) as found:
        playground.sandbox.environment |= found.environment
        yield found


def main_pid(manager: UserManager) -> int:
    return int(manager.shown(UNIT, "MainPID"))


def runs_anew(manager: UserManager, before: int) -> int:
    """The next process of the service, once it has said that it is ready."""
    until(
        lambda: main_pid(manager) not in {0, before} and manager.shown(UNIT, "ActiveState") == "active", "a new process"
    )
    return main_pid(manager)


@pytest.mark.timeout(300)
def test_a_real_systemd_installs_starts_watches_reloads_and_uninstalls_the_daemon(
    playground: Playground, manager: UserManager
) -> None:
    """Systemd for real, with the sandboxing of the unit in force all the time."""
    box = playground.sandbox
    box.run("init")
    agent = playground.enlisted("a")
    unit = box.home / ".config/systemd/user" / UNIT

    # installed, and ready when the command returns; in the sandbox it reaches tmux, graph and locks
    box.run("service", "install", "--force")
    first = main_pid(manager)
    assert manager.shown(UNIT, "ActiveState") == "active"
    assert box.ask("status")["pid"] == first
    assert re.search(r"^Seccomp:\t2$", Path(f"/proc/{first}/status").read_text(), re.MULTILINE)
    box.send("@a", "good morning")
    agent.fake.waits_for("submit")
    exposure = manager.call("systemd-analyze", "security", "--user", "--no-pager", UNIT).stdout
    assert float(exposure.rpartition("service: ")[2].split()[0]) <= EXPOSED
    assert manager.call("systemd-analyze", "verify", "--user", "--man=no", str(unit)).stderr == ""

    # a reload is the same process, with the new settings
    manager.call("systemctl", "--user", "reload", UNIT, check=True)
    log = box.state_dir / "wake-bridge.log"
    until(lambda: "config_reloaded" in log.read_text(), "the reload")
    assert (main_pid(manager), manager.shown(UNIT, "ActiveState")) == (first, "active")

    # killed: systemd starts another
    os.kill(first, signal.SIGKILL)
    second = runs_anew(manager, first)

    # stopped, it feeds no watchdog; 60 s are the person's, not a test's
    drop_in = unit.with_name(f"{UNIT}.d") / "quick.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\nRestartSec=1\n")
    manager.call("systemctl", "--user", "daemon-reload", check=True)
    manager.call("systemctl", "--user", "restart", UNIT, check=True)
    third = runs_anew(manager, second)
    os.kill(third, signal.SIGSTOP)
    fourth = runs_anew(manager, third)
    assert manager.shown(UNIT, "NRestarts") == "1"
    drop_in.unlink()

    # another PATH, as after a tmux of one's own: another unit, which a repeated install puts in force
    own = playground.directory / "own"
    own.mkdir()
    (own / "tmux").symlink_to(shutil.which("tmux") or "")
    box.environment["PATH"] = f"{own}:{box.environment['PATH']}"
    assert box.ask("service", "status")["current"] is False
    box.run("service", "install", "--force")
    fifth = runs_anew(manager, fourth)
    assert f"PATH={own}:" in Path(f"/proc/{fifth}/environ").read_text()

    # whether it outlives the last session is logind's to say
    standing = box.ask("service", "status")
    assert (standing["current"], standing["pid"], standing["lingers"]) == (True, fifth, False)
    manager.call("loginctl", "enable-linger", "root", check=True)
    assert box.ask("service", "status")["lingers"] is True

    assert box.ask("service", "uninstall")["done"][0] == f"stopped and disabled {UNIT}"
    assert not unit.exists()
    assert manager.shown(UNIT, "ActiveState") == "inactive"
    assert fifth not in manager.processes()
