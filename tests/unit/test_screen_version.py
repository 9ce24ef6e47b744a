from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from wake_bridge_adapters.screens import Profile, installed_version, is_seen, load_profiles, version_evidence
from wake_bridge_adapters.screens.profile_file import checked

from wake_bridge.domain.presence import Evidence, PresenceState, single_vote

PROFILES = load_profiles()
IDLE = Evidence("idle", PresenceState.IDLE)


def _package(directory: Path, name: str, version: str, script: str) -> Path:
    (directory / script).parent.mkdir(parents=True, exist_ok=True)
    (directory / script).write_text("#!/usr/bin/env node\n")
    (directory / "package.json").write_text(json.dumps({"name": name, "version": version}))
    return directory / script


@pytest.mark.parametrize(
    ("path", "harness", "version"),
    [
        ("/home/ada/.local/share/claude/versions/2.1.332", "claude", "2.1.332"),
        ("/opt/homebrew/Cellar/gemini-cli/0.61.0/libexec/bin/gemini", "gemini", "0.61.0"),
        ("/opt/opencode/v1.18.33/bin/opencode", "opencode", "1.18.33"),
        ("/home/ada/.nvm/versions/node/v22.3.0/bin/codex", "codex", ""),
        ("/usr/bin/codex", "codex", ""),
    ],
)
def test_a_versioned_path_tells_the_version_of_the_program_and_no_other(path: str, harness: str, version: str) -> None:
    """Version drift: the version comes from a versioned path; an interpreter's version is not the program's."""
    assert installed_version([path, "--resume"], "", "", PROFILES[harness]) == version


def test_the_package_above_the_script_tells_the_version_through_links(tmp_path: Path) -> None:
    """Version drift: `node_modules/.bin/gemini` is a link into the package whose package.json says it."""
    package = tmp_path / "node_modules" / "@google" / "gemini-cli"
    script = _package(package, "@google/gemini-cli", "0.61.0", "bundle/gemini.js")
    link = tmp_path / "node_modules" / ".bin" / "gemini"
    link.parent.mkdir()
    link.symlink_to(script)
    _package(tmp_path, "@google/gemini-cli-of-another-name", "9.9.9", "other.js")

    assert installed_version(["node", str(link), "-y"], "/usr/bin/node", "", PROFILES["gemini"]) == "0.61.0"


def test_a_build_for_one_platform_is_the_program(tmp_path: Path) -> None:
    """Version drift: a program that starts its binary from a package of its own names the platform behind its name."""
    binary = _package(tmp_path, "@openai/codex-linux-x64", "0.171.0-linux-x64", "vendor/x86_64/bin/codex")

    assert installed_version(["codex", "resume"], str(binary), "", PROFILES["codex"]) == "0.171.0"
    assert installed_version([str(binary)], "", "", PROFILES["codex"]) == "0.171.0"


def test_the_distribution_beside_a_python_script_tells_the_version(tmp_path: Path) -> None:
    """Version drift: a Python program's version is in the name of the directory that describes it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aider").write_text("#!/usr/bin/python3\n")
    (tmp_path / "lib" / "python3.12" / "site-packages" / "aider_chat-0.86.2.dist-info").mkdir(parents=True)
    (tmp_path / "lib" / "python3.12" / "site-packages" / "aider_chat_extra-9.0.dist-info").mkdir()
    argv = [str(tmp_path / "bin" / "python3"), str(tmp_path / "bin" / "aider"), "--model", "x"]

    assert installed_version(argv, "/usr/bin/python3.12", "", PROFILES["aider"]) == "0.86.2"


def test_a_program_that_calls_itself_by_a_bare_name_is_found_on_its_own_path(tmp_path: Path) -> None:
    """Version drift: some replace their arguments by a title; then the PATH they were started with tells."""
    script = _package(tmp_path / "pi", "@mariozechner/pi-coding-agent", "0.73.1", "dist/cli.js")
    link = tmp_path / "bin" / "pi"
    link.parent.mkdir()
    link.symlink_to(script)
    script.chmod(0o755)

    assert installed_version(["pi"], "/usr/bin/node", str(link.parent), PROFILES["pi"]) == "0.73.1"
    assert installed_version(["pi"], "/usr/bin/node", "", PROFILES["pi"]) == ""


def test_a_program_is_never_run_for_its_version(tmp_path: Path) -> None:
    """Version drift: the version comes from files, never from running the program."""
    script = tmp_path / "codex"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho 1.2.3\n")
    script.chmod(0o755)

    assert installed_version([str(script)], str(script), str(tmp_path), PROFILES["codex"]) == ""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"name": "@openai/codex"}', '{"name": "@openai/codex", "version": "new"}']
)
def test_a_package_that_says_nothing_sensible_tells_no_version(tmp_path: Path, content: str) -> None:
    """Version drift: what cannot be told is unknown, and never an error."""
    script = _package(tmp_path, "@openai/codex", "1.0.0", "codex.js")
    (tmp_path / "package.json").write_text(content)

    assert installed_version([str(script)], "", "", PROFILES["codex"]) == ""


def _made(versions: str, *, strict: bool = False) -> Profile:
    return checked(
        {
            "name": "mine",
            "versions": versions,
            "strict_version": strict,
            "recognise": {"commands": "mine"},
            "composer": {"glyph": "> ", "frame": "none"},
        }
    )


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("2.1.332", True), ("2.1.999", True), ("2.1", True), ("2.2.0", False), ("3.1.332", False), ("", False)],
)
def test_a_patch_of_a_seen_minor_counts_as_seen(version: str, is_known: bool) -> None:
    """Version drift: a patch of a seen minor counts as seen; unknown or newer is a warning."""
    profile = _made("2.1.332")

    assert is_seen(profile, version) is is_known
    assert bool(version_evidence(profile, version)) is not is_known


def test_a_version_nobody_has_seen_is_said_and_neither_proves_nor_vetoes() -> None:
    """Version drift: a warning; idle still needs every positive sign."""
    (note,) = version_evidence(_made("2.1.332"), "3.0.0")

    assert note.saw == "mine 3.0.0; the rules were read off 2.1.332"
    assert single_vote((note, IDLE)) is IDLE
    assert single_vote((note,)).vote is PresenceState.UNKNOWN
    assert version_evidence(_made("2.1.332"), "")[0].saw.startswith("cannot be told")


def test_a_strict_profile_is_never_idle_in_a_version_nobody_has_seen() -> None:
    """Version drift: a profile may say `strict_version`."""
    (veto,) = version_evidence(_made("2.1.332", strict=True), "3.0.0")

    assert single_vote((IDLE, veto)) is veto
    assert version_evidence(_made("2.1.332", strict=True), "2.1.400") == ()


def test_a_profile_without_versions_warns_of_none() -> None:
    """Version drift: who writes a profile for himself need not list versions."""
    assert version_evidence(replace(_made("2.1.332"), versions=()), "9.9") == ()
