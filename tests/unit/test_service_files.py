"""What systemd and launchd are told, and that they take it."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import needs
from wake_bridge.domain.errors import OperationFailed
from wake_bridge.integrations.service.launch import (
    Launch,
    launch_of,
    other_tmux_server,
    tmux_directory,
    why_it_will_not_last,
)
from wake_bridge.integrations.service.launchd import agent, agent_text
from wake_bridge.integrations.service.systemd import filled, unit_text

ROOT = Path(__file__).parents[2]
AWKWARD = Launch(
    ("/opt/my tools/py%thon", "-m", "wake_bridge", "--config", '/home/an "odd" one/$HOME/c.toml', "run"),
    {"PATH": "/usr/bin:/a b", "NAME": "100% \\ 'quoted'", "LANG": "C.UTF-8"},
    Path("/state"),
)


def lines_of(unit: str, key: str) -> list[str]:
    """The values of a key, in order."""
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def as_systemd_reads(line: str) -> list[str]:
    """The words of a line: quotes and `%%` taken away."""
    return [word.replace("%%", "%") for word in shlex.split(line)]


# -- the launch ------------------------------------------------------------------------------------------------------


def test_a_service_starts_an_absolute_interpreter_and_no_shell() -> None:
    """Absolute interpreter, no shell; an argument list as the manager takes it."""
    launch = launch_of("~/my.toml", {"HOME": "/home/me", "PATH": "/usr/bin"}, Path("/state"))

    assert launch.command[:4] == (sys.executable, "-P", "-m", "wake_bridge")
    assert launch.command[4:] == ("--config", str(Path("~/my.toml").expanduser()), "run")
    assert Path(launch.command[0]).is_absolute()
    assert "sh -c" not in unit_text(launch)


def test_a_service_finds_the_tmux_and_the_sockets_of_the_shell_that_installed_it(tmp_path: Path) -> None:
    """Explicit PATH, `TMUX_TMPDIR`."""
    tmux = tmp_path / "tmux"
    tmux.write_text("#!/bin/sh\n")
    tmux.chmod(0o755)
    environment = {"HOME": "/home/me", "PATH": f"{tmp_path}:/usr/bin", "TMUX_TMPDIR": "/run/mine"}

    found = launch_of(None, environment, Path("/state")).environment

    assert found["PATH"] == f"{tmp_path}:/home/me/.local/bin:/usr/local/bin:/usr/bin:/bin"
    assert shutil.which("tmux", path=found["PATH"]) == str(tmux)
    assert found["TMUX_TMPDIR"] == "/run/mine"
    on_mac = launch_of(None, environment, Path("/state"), platform="darwin").environment
    assert "/opt/homebrew/bin" in on_mac["PATH"].split(":")


@pytest.mark.parametrize(
    ("inside", "directory", "other"),
    [
        ("", "/tmp", ""),
        ("/private/tmp/tmux-501/default,123,0", "/private/tmp", ""),
        ("/run/user/7/tmux-7/default,1,0", "/run/user/7", ""),
        ("/tmp/tmux-501/work,123,0", "/tmp", "/tmp/tmux-501/work"),
        ("/srv/agents.sock,123,0", "/tmp", "/srv/agents.sock"),
    ],
)
def test_the_tmux_server_we_are_in_says_where_sockets_lie(inside: str, directory: str, other: str) -> None:
    """Explicit tmux socket; a server that a service would not find by itself is named."""
    environment = {"TMUX": inside}

    assert tmux_directory(environment) == directory
    assert other_tmux_server(environment) == other


def test_a_service_uses_the_files_that_commands_use() -> None:
    """The service is the daemon that `status` and `deliveries` talk of, in its time zone, beside the same harnesses."""
    carried = {
        "XDG_STATE_HOME": "/x/state",
        "WAKE_BRIDGE_DAEMON_STATE_DIR": "/y",
        "NEO_MEMORY_DB_PATH": "/z.sqlite",
        "TZ": "Europe/Berlin",
        "CODEX_HOME": "/codex",
        "CLAUDE_CONFIG_DIR": "/claude",
    }
    others = {
        "WAKE_BRIDGE_TEST_CRASH": "1",
        "SSH_AUTH_SOCK": "/s",
        "EDITOR": "vi",
        "XDG_DATA_HOME": "",
        "TMUX": "a,1,0",
    }
    given = {"HOME": "/home/me", "PATH": "/usr/bin", "WAKE_BRIDGE_CONFIG": "/c.toml", **carried, **others}

    launch = launch_of(None, given, Path("/y"))

    assert {*launch.environment} == {"PATH", "TMUX_TMPDIR", "LANG", *carried}
    assert carried.items() <= launch.environment.items()
    assert launch.command[4:6] == ("--config", "/c.toml")


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, "de_DE.UTF-8"),
        ({"LANG": "de_DE.utf8", "LC_ALL": "C"}, "C.UTF-8"),
        ({"LANG": "C", "LC_CTYPE": "en_GB.UTF-8"}, "en_GB.UTF-8"),
    ],
)
def test_a_service_has_a_utf_8_locale_whatever_the_shell_has(environment: dict[str, str], locale: str) -> None:
    """Nothing is inherited; tmux prints every glyph as `_` in a C locale."""
    assert launch_of(None, {"HOME": "/h", **environment}, Path("/s"), platform="linux").environment["LANG"] == locale


def test_an_interpreter_of_a_checkout_or_a_cache_will_not_last(tmp_path: Path) -> None:
    """Refuses an interpreter inside a build tree; a home under version control is none."""
    home = tmp_path / "home"
    (home / ".git").mkdir(parents=True)
    checkout = home / "src/wake-bridge"
    checkout.mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    tool = home / ".local/share/uv/tools/wake-bridge"
    cache = home / ".cache/uv/archive-v0/abc"
    environment = {"HOME": str(home)}

    def judged(prefix: Path, code: Path) -> str:
        return why_it_will_not_last(environment, prefix=prefix, code=code)

    assert judged(tool, tool / "lib") == ""
    assert judged(checkout / ".venv", tool) == f"the interpreter lies in a checkout: {checkout}"
    assert judged(tool, checkout) == f"the program lies in a checkout: {checkout}"
    assert judged(cache, cache) == f"the interpreter lies in a cache: {cache}"


# -- the unit --------------------------------------------------------------------------------------------------------


def test_the_unit_says_all_that_the_design_asks_of_it() -> None:
    """`Type=notify`, watchdog, `RestartPreventExitStatus=3 5`, no `PrivateTmp`, linger's target."""
    unit = unit_text(AWKWARD)

    for line in (
        "Type=notify",
        "WatchdogSec=60",
        "Restart=on-failure",
        "RestartPreventExitStatus=3 5",
        "PrivateTmp=false",
        "SystemCallFilter=@system-service",
        "RestrictNamespaces=true",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "WantedBy=default.target",
    ):
        assert line in unit.splitlines()


def test_a_unit_keeps_awkward_paths_and_values_as_they_are() -> None:
    """No shell reads the unit, so systemd's own quoting has to be right."""
    unit = unit_text(AWKWARD)

    (command,) = lines_of(unit, "ExecStart")
    assert [word.replace("$$", "$") for word in as_systemd_reads(command)] == list(AWKWARD.command)
    assignments = [word for line in lines_of(unit, "Environment") for word in as_systemd_reads(line)]
    assert dict(one.split("=", 1) for one in assignments) == AWKWARD.environment
    with pytest.raises(OperationFailed, match="control character"):
        unit_text(Launch(("/a\nExecStartPre=/bin/rm", "run")))


@pytest.mark.parametrize("which", ["installed", "by hand"])
def test_systemd_takes_the_unit_without_a_remark(tmp_path: Path, which: str) -> None:
    """`systemd-analyze verify` accepts the file."""
    needs("systemd-analyze")
    unit = tmp_path / "wake-bridge.service"
    launch = launch_of(None, os.environ, tmp_path)
    by_hand = (ROOT / "systemd/wake-bridge.service").read_text().replace("%h/.local/bin/wake-bridge", sys.executable)
    unit.write_text(unit_text(launch) if which == "installed" else by_hand)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)

    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    # an unknown key is a remark on stderr, not an error
    assert (verdict.returncode, verdict.stdout, verdict.stderr) == (0, "", "")


def test_the_unit_to_copy_by_hand_is_the_one_that_is_installed() -> None:
    """One source; `systemd/` holds a rendering of it."""
    text = (ROOT / "systemd/wake-bridge.service").read_text()
    head, unit, rest = text.partition("[Unit]\n")

    environment = ["PATH=%h/.local/bin:/usr/local/bin:/usr/bin:/bin", "TMUX_TMPDIR=/tmp", "LANG=C.UTF-8"]
    assert unit + rest == filled("%h/.local/bin/wake-bridge run", environment, "").lstrip()
    assert all(line.startswith("# ") for line in head.splitlines())


# -- the agent -------------------------------------------------------------------------------------------------------


def test_the_agent_says_all_that_the_design_asks_of_it() -> None:
    """Launchd agent (Aqua), restarted unless it ended well; plistlib reads it."""
    content = plistlib.loads(agent_text(AWKWARD).encode())

    assert content["ProgramArguments"] == [*AWKWARD.command, "--final-exit-zero"]
    assert content["EnvironmentVariables"] == AWKWARD.environment
    assert content["LimitLoadToSessionType"] == "Aqua"
    assert content["KeepAlive"] == {"SuccessfulExit": False}
    assert content["RunAtLoad"] is True
    assert content["StandardErrorPath"] == "/state/service.stderr.log"


def test_the_agent_to_copy_by_hand_is_the_one_that_is_installed() -> None:
    """One source; `launchd/` holds a rendering of it."""
    content = plistlib.loads((ROOT / "launchd/io.wake-bridge.plist").read_bytes())
    home = "/Users/USER"
    environment = {
        "PATH": f"{home}/.local/bin:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin",
        "TMUX_TMPDIR": "/tmp",
        "LANG": "en_US.UTF-8",
    }

    log = Path(f"{home}/Library/Logs/wake-bridge.stderr.log")
    assert content == agent([f"{home}/.local/bin/wake-bridge", "run"], environment, log)
