"""The recipes of docs/intake.md, run as they stand there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from wake_bridge.demo.sandbox import Sandbox

PAGE = Path(__file__).parents[2] / "docs/intake.md"
RECIPES = re.findall(
    r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8").partition("## Recipes")[2], re.DOTALL | re.MULTILINE
)


def recipe(word: str) -> str:
    """The one block with a word in it."""
    (found,) = [one for one in RECIPES if word in one]
    return str(found)


class Shell:
    """A person's shell, in a directory of their own; `wake-bridge` is on its PATH."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.environment = {
            **sandbox.environment,
            "PATH": f"{Path(sandbox.command[0]).parent}:{sandbox.environment['PATH']}",
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
        }

    def runs(self, script: str, **more: str) -> None:
        subprocess.run(
            ["sh", "-c", script],
            cwd=self.sandbox.home,
            env={**self.environment, **more},
            check=True,
            capture_output=True,
        )

    def items(self) -> list[dict[str, Any]]:
        return self.sandbox.lines("inbox", "@api", "--consume")


@pytest.fixture
def shell(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Shell]:
    with Sandbox(tmp_path, command=program) as home:
        home.run("init")
        home.run("agent", "add", "@api")
        yield Shell(home)


def test_a_build_says_how_it_ended(shell: Shell) -> None:
    """The exit code is the build's own."""
    needs("make")
    (shell.sandbox.home / "Makefile").write_text("all:\n\t@exit 3\n")
    shell.runs(recipe("make;"))
    (item,) = shell.items()
    assert (item["text"], item["source"], item["mode"]) == ("make ended with 2", "build", "active")


def test_crons_job_leaves_one_item_however_often_it_fails(shell: Shell) -> None:
    """Cron runs what stands behind the five fields with `sh -c`; the same within five minutes is dropped."""
    job = recipe("check-links").split(maxsplit=5)[5]
    (shell.sandbox.home / "check-links").write_text("#!/bin/sh\nexit 1\n")
    (shell.sandbox.home / "check-links").chmod(0o755)
    for _ in range(3):
        shell.runs(job)
    (item,) = shell.items()
    assert item["text"] == "check-links failed, see links.log"


def test_a_git_hook_tells_of_the_last_commit(shell: Shell) -> None:
    """Of two commits that nobody has read about, the later one is told."""
    needs("git")
    shell.runs("git init -q repo")
    hook = shell.sandbox.home / "repo/.git/hooks/post-commit"
    hook.write_text(recipe("git log"))
    hook.chmod(0o755)
    for subject in ("one", "two"):
        shell.runs(f"cd repo && git commit -q --allow-empty -m {subject}")
    (item,) = shell.items()
    assert item["text"] == "Ada committed: two"


def test_ci_tells_of_a_red_branch_by_curl(shell: Shell) -> None:
    """The recipe ends with 0 only where the item was taken in; what it is told by is no setting, so commands work beside it."""
    needs("curl")
    home = shell.sandbox
    home.configure('[http]\nlisten = "127.0.0.1:0"\n')
    token = home.ask("sources", "token", "ci")["token"]
    (told,) = home.daemon().waits_for_log("http_listening")
    where = {"WAKE_BRIDGE_URL": f"http://{told['where']}", "WAKE_BRIDGE_TOKEN": str(token)}

    shell.runs(recipe("curl"), **where)
    with pytest.raises(subprocess.CalledProcessError):
        shell.runs(recipe("curl"), **where | {"WAKE_BRIDGE_TOKEN": "wbs_wrong"})

    shell.runs("wake-bridge config check", **where)
    (item,) = shell.items()
    assert (item["text"], item["state"], item["source"]) == ("main is red", "open", "ci")


def test_a_file_watcher_tells_of_a_change(shell: Shell) -> None:
    """`watchfiles` is there because wake-bridge needs it."""
    schema = shell.sandbox.home / "schema.sql"
    schema.write_text("one")
    watcher = subprocess.Popen(
        ["sh", "-c", f"exec {recipe('watchfiles')}"],
        cwd=shell.sandbox.home,
        env=shell.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # it runs the command once when it starts
        shell.sandbox.waits_for(shell.items, what="the first item")
        schema.write_text("two")
        (item, *_) = shell.sandbox.waits_for(shell.items, what="the change")
        assert item["text"] == "schema.sql changed"
    finally:
        os.killpg(watcher.pid, signal.SIGTERM)
        watcher.wait()
