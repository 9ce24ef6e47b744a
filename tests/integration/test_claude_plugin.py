"""`claude install|uninstall`: the plugin is written, and taken back to the byte."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.integrations.agent_files.claude_plugin import HOOK_EVENTS

SETTINGS = b'{\r\n\t"theme":"dark",  "hooks": {}\r\n}'


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Sandbox:
    sandbox = Sandbox(tmp_path, command=program)
    (sandbox.home / ".claude" / "skills" / "mine").mkdir(parents=True)
    (sandbox.home / ".claude" / "settings.json").write_bytes(SETTINGS)
    (sandbox.home / ".claude" / "skills" / "mine" / "SKILL.md").write_text("mine", encoding="utf-8")
    sandbox.configure()
    return sandbox


def plugin(sandbox: Sandbox) -> Path:
    return sandbox.home / ".claude" / "skills" / "wake-bridge"


def everything(home: Path) -> dict[str, str]:
    """Every path below HOME with its mode and content; the state directory is wake-bridge's own."""
    return {
        str(path.relative_to(home)): f"{stat.S_IMODE(path.lstat().st_mode):o} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in sorted(home.rglob("*"))
        if ".local" not in path.parts
    }


def test_uninstall_leaves_the_home_as_it_was(sandbox: Sandbox) -> None:
    """Uninstall leaves the user's files byte-identical."""
    before = everything(sandbox.home)

    sandbox.run("claude", "install")
    assert everything(sandbox.home) != before
    sandbox.run("claude", "uninstall")

    assert everything(sandbox.home) == before
    assert "no plugin" in sandbox.run("claude", "uninstall").stdout


def test_no_file_of_the_users_is_touched_by_installing(sandbox: Sandbox) -> None:
    """The smallest trace: three files of ours, and no settings."""
    before = everything(sandbox.home)

    sandbox.run("claude", "install")

    after = everything(sandbox.home)
    new = {name for name in after if name not in before}
    assert {name: seen for name, seen in after.items() if name not in new} == before
    assert all(name.startswith(".claude/skills/wake-bridge") for name in new)


def test_what_the_user_changed_in_between_stays(sandbox: Sandbox) -> None:
    """Their edits are theirs; ours goes, also where somebody edited it: left behind it would go on working."""
    sandbox.run("claude", "install")
    (sandbox.home / ".claude" / "settings.json").write_bytes(SETTINGS + b"\n")
    (plugin(sandbox) / "notes.txt").write_text("mine", encoding="utf-8")
    (plugin(sandbox) / "hooks" / "hooks.json").write_text('{"hooks": {}}', encoding="utf-8")

    sandbox.run("claude", "uninstall")

    assert (sandbox.home / ".claude" / "settings.json").read_bytes() == SETTINGS + b"\n"
    assert [one.name for one in plugin(sandbox).iterdir()] == ["notes.txt"]


def test_installing_twice_changes_nothing_and_renews_what_is_old(sandbox: Sandbox) -> None:
    """Safe to repeat, as after an update that moved the program."""
    before = everything(sandbox.home)
    sandbox.run("claude", "install")
    installed = everything(sandbox.home)

    again = sandbox.ask("claude", "install")
    assert {one["change"] for one in again["files"]} == {"keep"}
    assert everything(sandbox.home) == installed
    monitors = plugin(sandbox) / "monitors" / "monitors.json"
    monitors.write_text("[]", encoding="utf-8")
    assert "update" in sandbox.run("claude", "install").stdout
    assert everything(sandbox.home) == installed

    sandbox.run("claude", "uninstall")
    assert everything(sandbox.home) == before


def test_a_dry_run_writes_nothing(sandbox: Sandbox) -> None:
    """`--dry-run` says what would be done, both ways."""
    before = everything(sandbox.home)
    would = sandbox.ask("claude", "install", "--dry-run")
    assert everything(sandbox.home) == before
    assert {one["change"] for one in would["files"]} == {"write"}

    sandbox.run("claude", "install")
    installed = everything(sandbox.home)
    assert len(sandbox.ask("claude", "uninstall", "--dry-run")["removed"]) == len(would["files"])
    assert everything(sandbox.home) == installed


def test_somebody_elses_plugin_of_that_name_is_left_alone(sandbox: Sandbox) -> None:
    """What wake-bridge did not write it does not replace."""
    (plugin(sandbox) / ".claude-plugin").mkdir(parents=True)
    (plugin(sandbox) / ".claude-plugin" / "plugin.json").write_text('{"name": "wake-bridge"}', encoding="utf-8")
    before = everything(sandbox.home)

    answer = sandbox.run("claude", "install", expect=7)

    assert "did not write" in answer.stderr
    assert everything(sandbox.home) == before


def test_uninstall_of_everything_takes_the_plugin_back_too(sandbox: Sandbox) -> None:
    """`wake-bridge uninstall` leaves nothing that would go on calling it."""
    before = everything(sandbox.home)
    sandbox.run("claude", "install")

    said = sandbox.run("uninstall").stdout

    assert "the plugin for Claude Code" in said
    assert everything(sandbox.home) == before


def test_a_plugin_whose_record_was_lost_is_known_by_its_manifest(sandbox: Sandbox) -> None:
    """State is removed by hand now and then: what is ours is still ours, to renew and to take back."""
    sandbox.run("claude", "install")
    (sandbox.state_dir / "agent_files.json").unlink()

    sandbox.run("claude", "install")
    sandbox.run("claude", "uninstall")

    assert not [path for path in plugin(sandbox).rglob("*") if path.is_file()]


def test_it_goes_where_claude_code_is_told_to_look(sandbox: Sandbox, tmp_path: Path) -> None:
    """`CLAUDE_CONFIG_DIR` moves everything."""
    elsewhere = {"CLAUDE_CONFIG_DIR": str(tmp_path / "else where")}

    sandbox.run("claude", "install", environment=elsewhere)

    assert (tmp_path / "else where" / "skills" / "wake-bridge" / "monitors" / "monitors.json").is_file()
    assert not plugin(sandbox).exists()


def test_its_commands_are_what_a_shell_takes_for_this_very_program(sandbox: Sandbox, tmp_path: Path) -> None:
    """Blanks and quotes in paths, and the configuration that was named, arrive; the monitor is kept alive."""
    config = tmp_path / "my $HOME 'conf'.toml"
    config.write_text("", encoding="utf-8")
    sandbox.run("--config", str(config), "claude", "install")
    hooks = json.loads((plugin(sandbox) / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    (watch,) = json.loads((plugin(sandbox) / "monitors" / "monitors.json").read_text(encoding="utf-8"))
    commands = {event: entry["hooks"][0]["command"] for event, (entry,) in hooks.items()}

    assert set(commands) == set(HOOK_EVENTS)
    (command,) = set(commands.values())
    seen = subprocess.run(
        ["/bin/sh", "-c", command.replace(sandbox.command[0] + " hook claude", "/usr/bin/env")],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert f"WAKE_BRIDGE_CONFIG={config}\n" in seen.stdout
    assert subprocess.run(["/bin/sh", "-n", "-c", watch["command"]], check=True).returncode == 0
    assert watch["command"].startswith("while kill -0")
