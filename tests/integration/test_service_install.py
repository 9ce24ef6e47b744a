"""`service install|uninstall|status`: what systemd and launchd are asked, told by stand-ins that write it down."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.control.instance_lock import InstanceLock
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.integrations.service import service_manager
from wake_bridge.integrations.service.launch import Launch
from wake_bridge.integrations.service.launchd import Launchd
from wake_bridge.testing.recorded_programs import RecordedPrograms

LAUNCH = Launch(("/opt/tool/python", "-m", "wake_bridge", "run"), {"PATH": "/usr/bin"})
DOMAIN = f"gui/{os.getuid()}"
SERVICE = f"{DOMAIN}/io.wake-bridge"


@pytest.fixture
def programs(tmp_path: Path) -> RecordedPrograms:
    directory = tmp_path / "bin"
    directory.mkdir()
    return RecordedPrograms(directory, "systemctl", "loginctl", "launchctl")


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...], programs: RecordedPrograms) -> Sandbox:
    if sys.platform != "linux":
        pytest.skip("the commands ask systemd on Linux alone")
    box = Sandbox(tmp_path, command=program)
    box.environment["PATH"] = programs.path(box.environment)
    box.configure()
    return box


@pytest.fixture
def launchd(tmp_path: Path, programs: RecordedPrograms) -> Launchd:
    environment = {"HOME": str(tmp_path / "home"), "PATH": programs.path(os.environ)}
    manager = service_manager(environment, platform="darwin")
    assert isinstance(manager, Launchd)
    return manager


def unit_of(sandbox: Sandbox) -> Path:
    return sandbox.home / ".config/systemd/user/wake-bridge.service"


def done(sandbox: Sandbox, *arguments: str) -> list[str]:
    found: list[str] = sandbox.ask("service", *arguments)["done"]
    return found


# -- systemd ---------------------------------------------------------------------------------------------------------


def test_install_writes_the_unit_starts_it_and_has_it_started_at_login(
    sandbox: Sandbox, programs: RecordedPrograms
) -> None:
    """`service install` for systemd user units."""
    said = done(sandbox, "install", "--force")

    unit = unit_of(sandbox)
    assert f"ExecStart={sys.executable} -P -m wake_bridge run" in unit.read_text().splitlines()
    assert said[0] == f"wrote {unit}"
    assert programs.calls("systemctl")[-3:] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable wake-bridge.service",
        "systemctl --user restart wake-bridge.service",
    ]


def test_install_again_changes_nothing_and_disturbs_no_running_daemon(
    sandbox: Sandbox, programs: RecordedPrograms
) -> None:
    """Idempotent; only another unit, as of a later version, is a reason to start anew."""
    sandbox.run("service", "install", "--force")
    before = unit_of(sandbox).read_text()
    programs.forget()

    said = done(sandbox, "install", "--force")

    assert said[0] == f"{unit_of(sandbox)} is as it should be"
    assert unit_of(sandbox).read_text() == before
    assert programs.calls("systemctl")[-1] == "systemctl --user start wake-bridge.service"
    unit_of(sandbox).write_text(before.replace("version", "an earlier version"))
    sandbox.run("service", "install", "--force")
    assert unit_of(sandbox).read_text() == before
    assert programs.calls("systemctl")[-1] == "systemctl --user restart wake-bridge.service"


@pytest.mark.parametrize(
    ("lingers", "complaint", "is_said"),
    [
        ("Linger=no\n", "", True),
        ("Linger=yes\n", "", False),
        ("", "Failed to get user: User ID 0 is not logged in or lingering", True),
        ("", "Failed to connect to bus: No such file or directory", False),
    ],
)
def test_lingering_is_explained_where_it_is_off(
    sandbox: Sandbox, programs: RecordedPrograms, lingers: str, complaint: str, is_said: bool
) -> None:
    """Lingering explained; logind answers with an error for who is not logged in by it."""
    programs.answer("loginctl show-user", lingers, status=1 if complaint else 0, complaint=complaint)

    said = done(sandbox, "install", "--force")

    assert any("loginctl enable-linger" in line for line in said) is is_said
    assert ("loginctl enable-linger" in sandbox.run("service", "status").stdout) is is_said


def test_an_interpreter_of_a_checkout_is_refused_without_force(sandbox: Sandbox, programs: RecordedPrograms) -> None:
    """Refuses an interpreter inside a build tree; the test's own is one."""
    answer = sandbox.run("service", "install", expect=7)

    assert "lies in a checkout" in answer.stderr
    assert "--force" in answer.stderr
    assert not unit_of(sandbox).exists()
    assert programs.calls() == []


def test_print_prints_the_unit_and_touches_nothing(sandbox: Sandbox, programs: RecordedPrograms) -> None:
    """`--print`; it asks no manager, so it works where there is none."""
    told = sandbox.ask("service", "install", "--print")

    printed = sandbox.run("service", "install", "--print").stdout
    assert told["text"] == printed
    assert told["file"] == str(unit_of(sandbox))
    assert not unit_of(sandbox).parent.exists()
    assert programs.calls() == []
    sandbox.run("service", "install", "--force")
    assert unit_of(sandbox).read_text() == printed
    for command in ("uninstall", "status"):
        assert sandbox.run("service", command, "--print").stdout == printed
    assert unit_of(sandbox).exists()


def test_without_a_manager_install_refuses_and_writes_nothing(sandbox: Sandbox, programs: RecordedPrograms) -> None:
    """A plain reason, and what to do instead."""
    programs.answer(
        "systemctl --user show-environment", status=1, complaint="Failed to connect to bus: No medium found"
    )
    no_bus = sandbox.run("service", "install", "--force", expect=1)
    assert "Failed to connect to bus" in no_bus.stderr
    assert "su or sudo" in no_bus.stderr

    (programs.directory / "systemctl").unlink()
    nowhere = {"PATH": str(programs.directory)}
    nothing = sandbox.run("service", "install", "--force", expect=1, environment=nowhere)
    assert nothing.stderr.startswith("error: there is no systemctl on PATH\nhint: ")
    assert not unit_of(sandbox).exists()


def test_a_wrong_configuration_is_not_installed(sandbox: Sandbox) -> None:
    """Exit 3: the service would end at once, so it is said here."""
    sandbox.config_file.write_text("daemon.retention_days = 0\n")

    assert "retention_days" in sandbox.run("service", "install", "--force", expect=3).stderr
    assert not unit_of(sandbox).exists()


def test_a_daemon_in_a_terminal_has_to_be_stopped_first(sandbox: Sandbox) -> None:
    """Exit 5: two would fight for the lock; the service's own daemon is no other."""
    sandbox.state_dir.mkdir(parents=True)
    with InstanceLock(sandbox.state_dir):
        answer = sandbox.run("service", "install", "--force", expect=5)

    assert "already runs" in answer.stderr
    assert not unit_of(sandbox).exists()


def test_the_services_own_daemon_is_no_obstacle_to_installing_again(
    sandbox: Sandbox, programs: RecordedPrograms
) -> None:
    """Idempotent, also while it runs."""
    sandbox.state_dir.mkdir(parents=True)
    programs.answer("systemctl --user show wake-bridge.service", f"ActiveState=active\nMainPID={os.getpid()}\n")
    with InstanceLock(sandbox.state_dir):
        sandbox.run("service", "install", "--force")


def test_a_start_that_fails_is_said_with_where_to_look(sandbox: Sandbox, programs: RecordedPrograms) -> None:
    """An error says what failed, where, and what to do now."""
    programs.answer("systemctl --user restart", status=1, complaint="Job for wake-bridge.service failed")

    answer = sandbox.run("service", "install", "--force", expect=1)

    assert "systemctl restart failed (Job for wake-bridge.service failed)" in answer.stderr
    assert "journalctl --user -u wake-bridge" in answer.stderr


def test_uninstall_leaves_no_trace_and_may_be_repeated(sandbox: Sandbox, programs: RecordedPrograms) -> None:
    """Idempotent; the unit and its link are gone, the state stays."""
    sandbox.run("service", "install", "--force")
    link = unit_of(sandbox).parent / "default.target.wants/wake-bridge.service"
    link.parent.mkdir()
    link.symlink_to(unit_of(sandbox))
    programs.forget()

    said = done(sandbox, "uninstall")

    assert said == ["stopped and disabled wake-bridge.service", f"removed {unit_of(sandbox)}"]
    assert not unit_of(sandbox).exists()
    assert not link.is_symlink()
    assert programs.calls("systemctl")[-3:] == [
        "systemctl --user disable --now wake-bridge.service",
        "systemctl --user daemon-reload",
        "systemctl --user reset-failed wake-bridge.service",
    ]
    programs.forget()
    assert done(sandbox, "uninstall") == ["it is not installed"]
    assert programs.calls() == []


def test_uninstall_removes_the_files_where_the_manager_is_gone(sandbox: Sandbox, programs: RecordedPrograms) -> None:
    """Leaving works wherever it is asked for."""
    sandbox.run("service", "install", "--force")
    programs.answer("systemctl --user show-environment", status=1, complaint="no bus")

    said = done(sandbox, "uninstall")

    assert not unit_of(sandbox).exists()
    assert "runs until you log out" in said[-1]


def test_a_unit_that_somebody_else_wrote_is_neither_replaced_nor_removed(sandbox: Sandbox) -> None:
    """What is not ours stays; `--force` says otherwise."""
    unit_of(sandbox).parent.mkdir(parents=True)
    unit_of(sandbox).write_text("[Service]\nExecStart=/bin/true\n")

    assert "not written by" in sandbox.run("service", "uninstall", expect=7).stderr
    # --force for the interpreter is one for the file as well, so only an installed program can show it
    with pytest.raises(RefusedForSafety, match="not written by"):
        service_manager(sandbox.environment).install(LAUNCH, force=False)
    assert unit_of(sandbox).read_text() == "[Service]\nExecStart=/bin/true\n"
    sandbox.run("service", "install", "--force")
    assert "wake_bridge run" in unit_of(sandbox).read_text()


@pytest.mark.parametrize(
    ("shown", "told", "words"),
    [
        (
            "ActiveState=active\nUnitFileState=enabled\nMainPID=4711\n",
            {"active": True, "starts_at_login": True, "pid": 4711, "trouble": None},
            "runs (pid 4711), is started at login",
        ),
        (
            "ActiveState=failed\nUnitFileState=disabled\nMainPID=0\nResult=exit-code\nExecMainStatus=3\n",
            {
                "active": False,
                "starts_at_login": False,
                "pid": None,
                "trouble": "it failed: exit-code, exit status 3",
            },
            "does not run, is not started at login",
        ),
    ],
)
def test_status_tells_how_the_service_stands(
    sandbox: Sandbox, programs: RecordedPrograms, shown: str, told: dict[str, Any], words: str
) -> None:
    """`service status`: installed, current, running, started at login; 0 in each case."""
    nothing = sandbox.ask("service", "status")
    assert (nothing["installed"], nothing["current"]) == (False, None)
    assert "not installed" in sandbox.run("service", "status").stdout
    sandbox.run("service", "install", "--force")
    programs.answer("systemctl --user show wake-bridge.service", shown)

    standing = sandbox.ask("service", "status")

    assert told.items() <= standing.items()
    assert (standing["installed"], standing["current"]) == (True, True)
    assert words in sandbox.run("service", "status").stdout
    unit_of(sandbox).write_text(unit_of(sandbox).read_text().replace("WatchdogSec=60", "WatchdogSec=6"))
    assert sandbox.ask("service", "status")["current"] is False


def test_the_service_that_is_not_the_default_tmux_servers_is_warned_of(sandbox: Sandbox) -> None:
    """Explicit tmux socket; a service does not inherit `$TMUX`."""
    inside = {"TMUX": "/srv/agents.sock,1,0"}

    said = sandbox.run("service", "install", "--force", environment=inside).stdout

    assert "socket_path in [adapters.tmux] to /srv/agents.sock" in said
    sandbox.configure('[adapters.tmux]\nsocket_path = "/srv/agents.sock"\n')
    assert "socket_path" not in sandbox.run("service", "install", "--force", environment=inside).stdout


# -- launchd ---------------------------------------------------------------------------------------------------------


def not_loaded(programs: RecordedPrograms) -> None:
    programs.answer(f"launchctl print {SERVICE}", status=113, complaint="Could not find service")


def test_install_bootstraps_the_agent_into_the_persons_session(launchd: Launchd, programs: RecordedPrograms) -> None:
    """`service install` for launchd agents."""
    not_loaded(programs)

    said = launchd.install(LAUNCH, force=False)

    assert said[0] == f"wrote {launchd.file}"
    assert launchd.file.read_text() == launchd.text(LAUNCH)
    assert programs.calls("launchctl")[-2:] == [
        f"launchctl enable {SERVICE}",
        f"launchctl bootstrap {DOMAIN} {launchd.file}",
    ]


def test_an_agent_that_is_loaded_is_only_started_if_nothing_changed(
    launchd: Launchd, programs: RecordedPrograms
) -> None:
    """Idempotent."""
    not_loaded(programs)
    launchd.install(LAUNCH, force=False)
    programs.answer(f"launchctl print {SERVICE}", "\tpid = 4711\n")
    programs.forget()

    said = launchd.install(LAUNCH, force=False)

    assert said[0] == f"{launchd.file} is as it should be"
    assert programs.calls("launchctl")[-1] == f"launchctl kickstart {SERVICE}"
    assert not any("bootout" in call for call in programs.calls())
    standing = launchd.standing()
    assert (standing.active, standing.pid, standing.starts_at_login, standing.is_ours) == (True, 4711, True, True)


def test_uninstall_unloads_the_agent_and_waits_until_it_is_gone(
    launchd: Launchd, programs: RecordedPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bootout` returns before the process has ended."""
    not_loaded(programs)
    launchd.install(LAUNCH, force=False)
    programs.answer(f"launchctl print {SERVICE}", "\tpid = 4711\n")
    monkeypatch.setattr("wake_bridge.integrations.service.launchd.GONE_WITHIN", 0.2)
    assert launchd.uninstall(force=False, dry_run=True) == (
        f"stop and unload {SERVICE}",
        f"remove {launchd.file}",
    )
    with pytest.raises(OperationFailed, match="does not unload"):
        launchd.uninstall(force=False)
    assert launchd.file.exists()
    assert programs.calls("launchctl bootout") == [f"launchctl bootout {SERVICE}"]

    not_loaded(programs)
    assert launchd.uninstall(force=False) == (f"removed {launchd.file}",)
    assert not launchd.file.exists()
    assert launchd.uninstall(force=False) == ()


def test_without_a_session_of_the_persons_nothing_is_written(launchd: Launchd, programs: RecordedPrograms) -> None:
    """Aqua, the session of who is logged in at the machine."""
    programs.answer(f"launchctl print {DOMAIN}", status=125, complaint="Domain does not support specified action")

    with pytest.raises(OperationFailed, match="launchd has no session"):
        launchd.install(LAUNCH, force=False)

    assert not launchd.file.exists()
    assert launchd.standing().active is None


def test_a_platform_without_a_manager_that_we_know_says_so() -> None:
    """An error says what to do now."""
    with pytest.raises(OperationFailed, match="no service manager") as caught:
        service_manager({"HOME": "/home/me"}, platform="freebsd14")

    assert "wake-bridge run" in caught.value.hint
