"""`--version` changes with each release, and of a development build it carries the commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from wake_bridge import __version__, program_version
from wake_bridge.program_version import COMMIT_FILE

ROOT = Path(__file__).parents[2]
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "commit.gpgsign=false")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A development build that is not in a checkout; its package's directory."""
    package = tmp_path / "place" / "wake_bridge"
    package.mkdir(parents=True)
    monkeypatch.setattr(program_version, "__file__", str(package / "program_version.py"))
    monkeypatch.setattr(program_version, "__version__", "1.2.0.dev0")
    return package


def git(where: Path, *words: str) -> str:
    return subprocess.run([*GIT, *words], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("how", ["branch", "packed", "detached", "worktree"])
def test_a_checkout_tells_its_commit_of_now(installed: Path, how: str) -> None:
    """Whatever git has made of HEAD, and without being built anew after each commit."""
    checkout = installed.parent
    git(checkout, "init", "-q")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "first")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    if how == "packed":
        git(checkout, "pack-refs", "--all")
    elif how == "detached":
        git(checkout, "checkout", "-q", "--detach", "HEAD~1")
    elif how == "worktree":
        git(checkout, "worktree", "add", "-q", "-b", "other", str(checkout.parent / "other"), "HEAD~1")
        (checkout / ".git").rename(checkout.parent / "moved.git")
        (checkout / ".git").write_text(f"gitdir: {checkout.parent}/moved.git/worktrees/other\n")
    head = git(checkout.parent / "moved.git" if how == "worktree" else checkout, "rev-parse", "HEAD")
    if how == "worktree":
        head = git(checkout.parent / "moved.git", "rev-parse", "other")

    assert program_version.program_version() == f"1.2.0.dev0+g{head[:7]}"


def test_a_build_tells_the_commit_that_was_built(installed: Path) -> None:
    """A wheel has no repository; its builder wrote the commit into it."""
    (installed / COMMIT_FILE).write_text("0123456789abcdef\n")

    assert program_version.program_version() == "1.2.0.dev0+g0123456"


def test_without_either_the_version_stands_alone(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that nobody built from a repository; and a release, which is its version."""
    assert program_version.program_version() == "1.2.0.dev0"

    (installed / COMMIT_FILE).write_text("0123456789abcdef\n")
    monkeypatch.setattr(program_version, "__version__", "1.2.0")
    assert program_version.program_version() == "1.2.0"


def test_the_version_is_the_changelogs_next_one() -> None:
    """What is not released yet is a development version after the last release; what is released is that release."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    released = [tuple(map(int, one.split("."))) for one in headings if one != "Unreleased"]
    number = tuple(map(int, __version__.partition(".dev")[0].split(".")))

    if headings[0] == "Unreleased":
        assert ".dev" in __version__
        assert number > released[0]
    else:
        assert __version__ == headings[0]
