"""What a person sees of hooks: installing them, what `doctor` says, `bind` inside an agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.demo.sandbox import QUICK, Sandbox
from wake_bridge.testing.hook_caller import HookCaller


@pytest.fixture
def sandbox(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Sandbox]:
    with Sandbox(tmp_path, "no-such-server", program) as made:
        made.configure(QUICK)
        made.run("init")
        made.enlist("@agent", "nowhere")
        yield made


def found(sandbox: Sandbox, check: str) -> dict[str, Any]:
    """One line of `doctor`."""
    return next(one for one in sandbox.lines("doctor", expect=None) if one.get("check") == check)


def test_doctor_says_whether_installed_hooks_call_in(sandbox: Sandbox) -> None:
    """`doctor` tells whether installed hooks have called in lately, and for whom."""
    assert not any(one.get("check") == "hooks of codex" for one in sandbox.lines("doctor", expect=None))
    sandbox.run("hook", "install", "codex")
    assert "does not answer" in found(sandbox, "hooks of codex")["detail"]
    sandbox.daemon()
    silent = found(sandbox, "hooks of codex")
    assert (silent["ok"], silent["hint"]) == (None, "restart Codex; it asks once whether to trust them (`/hooks`)")
    HookCaller(sandbox, "codex", claims="").prints("UserPromptSubmit")
    assert "for no identity" in found(sandbox, "hooks of codex")["detail"]
    HookCaller(sandbox, "codex", session_id="other").prints("UserPromptSubmit")
    well = found(sandbox, "hooks of codex")
    assert well["ok"] is True
    assert well["detail"].endswith("s ago, for @agent")


def test_an_agent_that_binds_itself_binds_its_conversation(sandbox: Sandbox) -> None:
    """`bind` inside a session records it, also outside of tmux; from then on its hooks are known."""
    sandbox.daemon()
    mine = HookCaller(sandbox, "codex", claims="", session_id="01a21f0f-9487-7a71-9fd3-06d4af47f7ba")
    mine.prints("SessionStart")
    sandbox.send("@agent", "hello", "--policy", "next_turn")
    sandbox.daemons[0].waits_for_log("event_matched")
    assert mine.prints("UserPromptSubmit", {"prompt": "x"}) == ""
    bound = json.loads(
        sandbox.run(
            "--json", "bind", "@agent", environment={"CODEX_THREAD_ID": mine.session_id, "TMUX": "", "TMUX_PANE": ""}
        ).stdout
    )
    assert (bound["pane"], bound["session"]) == (None, mine.session_id)
    assert "hello" in mine.waits_for_block("UserPromptSubmit", {"prompt": "x"})


def test_unbind_forgets_the_conversations_as_well(sandbox: Sandbox) -> None:
    """Whoever is no longer the identity is handed nothing that is its, by hook or by native channel."""
    sandbox.daemon()
    nowhere = {"TMUX": "", "TMUX_PANE": ""}
    mine = HookCaller(sandbox, "codex", claims="", session_id="01a21f0f-9487-7a71-9fd3-06d4af47f7ba")
    sandbox.run("bind", "@agent", environment={"CODEX_THREAD_ID": mine.session_id, **nowhere})
    assert mine.tells("session", event="prompt")["identity"] == "@agent"

    assert sandbox.ask("unbind", "@agent")["unbound"] is True

    assert mine.tells("session", event="prompt")["identity"] is None
    assert sandbox.ask("unbind", "@agent")["unbound"] is False


def test_nobody_is_bound_outside_of_panes_and_conversations(sandbox: Sandbox) -> None:
    """There must be something to bind to; of two conversations nobody can tell which is meant."""
    nowhere = {"TMUX": "", "TMUX_PANE": ""}
    assert sandbox.run("bind", "@agent", expect=None, environment=nowhere).returncode != 0
    both = {**nowhere, "CODEX_THREAD_ID": "a", "CLAUDE_CODE_SESSION_ID": "b"}
    assert sandbox.run("bind", "@agent", expect=None, environment=both).returncode != 0


def test_a_dry_run_writes_nothing_and_uninstall_takes_hooks_along(sandbox: Sandbox) -> None:
    """`hook install --dry-run`, `hook uninstall`, and the great `uninstall`."""
    file = sandbox.home / ".gemini/settings.json"
    assert "would write" in sandbox.run("hook", "install", "gemini", "--dry-run").stdout
    assert not file.exists()
    assert sandbox.ask("hook", "install", "gemini")["change"] == "write"
    assert sandbox.ask("hook", "install", "gemini")["change"] == "keep"
    assert sandbox.ask("hook", "uninstall", "gemini", "--dry-run")["removed"] == [str(file)]
    assert file.exists()
    assert sandbox.ask("hook", "uninstall", "gemini")["removed"] == [str(file)]
    assert not file.parent.exists()
    sandbox.run("hook", "install", "qwen")
    sandbox.run("uninstall")
    assert not (sandbox.home / ".qwen").exists()


def test_claude_code_has_its_hooks_in_a_plugin(sandbox: Sandbox) -> None:
    """The command says which one to give instead."""
    answer = sandbox.run("hook", "install", "claude", expect=2)
    assert "wake-bridge claude install" in answer.stderr


def test_the_command_line_serves_a_hook_as_well(sandbox: Sandbox) -> None:
    """With global options it does not take the short way, and says the same."""
    sandbox.daemon()
    sandbox.send("@agent", "hello")
    sandbox.waits_for_delivery(state="DISPATCHED")
    answer = sandbox.run(
        "--config",
        str(sandbox.config_file),
        "hook",
        "claude",
        text=json.dumps({"session_id": "s", "cwd": "/", "hook_event_name": "PostToolUse"}),
        environment={"WAKE_BRIDGE_AGENT": "@agent"},
    )
    assert "hello" in json.loads(answer.stdout)["hookSpecificOutput"]["additionalContext"]
