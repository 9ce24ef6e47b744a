"""Tokens of sources: in a file of the user's own, made by commands that may run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wake_bridge.config.source_tokens import TOKENS_FILE, SourceTokens
from wake_bridge.demo.sandbox import Sandbox

AT_ONCE = 8


def test_tokens_that_are_made_at_the_same_time_all_count(tmp_path: Path) -> None:
    """What was printed is worth something: none writes over another's."""

    def makes(number: int) -> tuple[str, str]:
        return f"s{number}", SourceTokens(tmp_path).renew(f"s{number}")

    for _ in range(10):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            made = dict(pool.map(makes, range(AT_ONCE)))
        assert SourceTokens(tmp_path).now() == made


@pytest.mark.parametrize(("content", "mode", "told"), [("{}", 0o644, "chmod 600"), ("{", 0o600, "it is no JSON")])
def test_a_file_of_tokens_that_cannot_be_used_is_told_with_what_to_do(
    tmp_path: Path, content: str, mode: int, told: str
) -> None:
    """By every command that needs it, as an error and not as a fault of ours."""
    with Sandbox(tmp_path) as sandbox:
        sandbox.run("init")
        sandbox.run("sources", "token", "ci")
        file = sandbox.state_dir / TOKENS_FILE
        file.write_text(content, encoding="ascii")
        file.chmod(mode)
        for command in (("list",), ("token", "ci"), ("token", "ci", "--remove")):
            said = sandbox.run("sources", *command, expect=1).stderr
            assert "the tokens of sources cannot be used" in said
            assert told in said
            assert str(file) in said
