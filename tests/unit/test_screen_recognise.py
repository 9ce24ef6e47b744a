from __future__ import annotations

import pytest
from wake_bridge_adapters.screens import is_shell_or_veto, load_profiles, recognise

from wake_bridge.domain.programs import (
    HARNESSES,
    Carrier,
    Known,
    carrier_of,
    is_runner,
    reads_lines,
    ssh_destination,
)

PROFILES = load_profiles()


@pytest.mark.parametrize(
    ("argv", "harness"),
    [
        (["claude", "--permission-mode", "default"], "claude"),
        (["/home/ada/.local/bin/claude"], "claude"),
        (["/home/ada/.local/share/claude/versions/2.1.332", "--resume"], "claude"),
        (["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"], "claude"),
        (["/opt/node-22.3.0/bin/node", "--max-old-space-size=8192", "/opt/n/bin/claude"], "claude"),
        (["node", "--require", "/x/hook.js", "/opt/n/bin/claude"], "claude"),
        (["/x/node_modules/@anthropic-ai/claude-code/bin/claude.exe"], "claude"),
        (["codex", "resume"], "codex"),
        (["node", "/x/node_modules/.bin/codex"], "codex"),
        (["/x/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", "-s", "read-only"], "codex"),
        (["npx", "-y", "@openai/codex@0.171.0"], "codex"),
        (["npm", "exec", "@openai/codex"], "codex"),
        (["npm exec @openai/codex@latest"], "codex"),
        (["npm exec codex"], "codex"),
        (["npm run build"], None),
        (["bunx", "codex"], "codex"),
        (["env", "-u", "TMUX", "FOO=1", "codex"], "codex"),
        (["nohup", "claude"], "claude"),
        (["python3", "-m", "wake_bridge.demo.fake_harness", "--name", "x"], "fake"),
        (["/usr/bin/python3.11", "-X", "dev", "-u", "-m", "wake_bridge.demo.fake_harness"], "fake"),
        (["node", "/opt/n/bin/gemini", "--yolo"], "gemini"),
        (["/opt/node-22/bin/node", "--max-old-space-size=12052", "/x/node_modules/.bin/gemini"], "gemini"),
        (["node", "/x/lib/node_modules/@google/gemini-cli/bundle/gemini.js"], "gemini"),
        (["npx", "--yes", "@google/gemini-cli@latest"], "gemini"),
        (["/x/node_modules/opencode-linux-x64/bin/opencode"], "opencode"),
        (["bunx", "opencode-ai"], "opencode"),
        (["node", "/x/node_modules/.bin/kilo"], "kilo"),
        (["node", "/x/node_modules/@kilocode/cli/dist/index.js"], "kilo"),
        (["/x/bin/python3", "/x/bin/aider", "--model", "gpt"], "aider"),
        (["python3.12", "-m", "aider"], "aider"),
        (["uvx", "aider"], "aider"),
        (["pi"], "pi"),
        (["node", "/x/node_modules/@mariozechner/pi-coding-agent/dist/cli.js"], "pi"),
        (["node", "/x/node_modules/@qwen-code/qwen-code/cli.js", "--auth-type", "openai"], "qwen"),
        (["node", "/opt/homebrew/bin/qwen"], "qwen"),
        (["node", "/x/node_modules/@github/copilot/index.js"], "copilot"),
        (["/x/node_modules/@github/copilot-linux-x64/copilot"], "copilot"),
        (["env", "A=1", "node", "/x/node_modules/.bin/copilot"], "copilot"),
        (["cline"], "cline"),
        (["node", "/x/node_modules/.bin/auggie"], "auggie"),
        (["node", "/x/node_modules/.bin/cn", "--config", "c.yaml"], "cn"),
        (["node", "/x/node_modules/@nanocollective/nanocoder/dist/cli.js"], "nanocoder"),
        (["Vibe", "CLI"], "vibe"),
        (["Vibe CLI"], "vibe"),
        (["/x/bin/python3.13", "/x/bin/vibe"], "vibe"),
        (["Kimi", "Code"], "kimi"),
        (["/x/uv/tools/kimi-cli/bin/python", "/home/ada/.local/bin/kimi"], "kimi"),
        (["python3", "/x/bin/gptme", "-m", "local/model"], "gptme"),
        (["pipx", "run", "gptme"], "gptme"),
        (["node", "/x/gemini/server.js"], None),
        (["python3", "aider.py.bak"], None),
        (["copilot-language-server"], None),
        (["python3", "-m", "http.server", "wake_bridge.demo.fake_harness"], None),
        (["python3", "-c", "x", "claude"], None),
        (["node", "-e", "1", "claude"], None),
        (["node", "server.js", "claude"], None),
        (["node"], None),
        (["claude-helper"], None),
        (["tail", "-f", "claude"], None),
        ([""], None),
        ([], None),
    ],
)
def test_the_foreground_process_tells_the_harness(argv: list[str], harness: str | None) -> None:
    """Interpreters and versioned paths are looked through, arguments of other programs are not."""
    assert recognise(argv, PROFILES) == harness


@pytest.mark.parametrize(
    "argv",
    [
        ["bash"],
        ["-zsh"],
        ["/bin/sh", "-c", "claude"],
        ["ssh", "host", "claude"],
        ["docker", "exec", "-it", "box", "codex"],
        ["sudo", "-u", "ada", "claude"],
        ["env", "X=1", "vim", "claude"],
        ["nvim", "claude.md"],
        ["less", "/var/log/codex"],
        ["tmux", "attach"],
        [],
    ],
)
def test_shells_remote_sessions_editors_and_pagers_are_no_agent(argv: list[str]) -> None:
    """They are vetoes, whatever their arguments say."""
    assert is_shell_or_veto(argv)
    assert recognise(argv, PROFILES) is None


@pytest.mark.parametrize(
    ("argv", "carrier"),
    [
        (["script", "-q"], ("script", Carrier.SEEN)),
        (["env", "X=1", "sudo", "-u", "ada", "claude"], ("sudo", Carrier.SEEN)),
        (["node", "/usr/bin/devcontainer", "exec", "claude"], ("devcontainer", Carrier.SEEN)),
        (["docker", "exec", "-it", "box", "codex"], ("docker", Carrier.HIDDEN)),
        (["/usr/bin/ssh", "host", "claude"], ("ssh", Carrier.ELSEWHERE)),
        (["bash", "-c", "sudo claude"], None),
        (["vim", "docker"], None),
        (["claude"], None),
        ([], None),
    ],
)
def test_what_only_carries_a_terminal_is_known_by_its_name(
    argv: list[str], carrier: tuple[str, Carrier] | None
) -> None:
    """Arguments name no carrier, and a carrier is no agent whatever they say."""
    assert carrier_of(argv) == carrier
    assert carrier is None or recognise(argv, PROFILES) is None


@pytest.mark.parametrize(
    ("argv", "destination"),
    [
        ("ssh devbox", "devbox"),
        ("ssh -tt me@devbox claude", "me@devbox"),
        ("ssh -l me -p 2222 devbox", "ssh://me@devbox:2222"),
        ("ssh -p2222 -l other me@devbox", "ssh://me@devbox:2222"),
        ("ssh -At -i key -o User=me -- devbox -p 1", "devbox"),
        ("ssh ssh://me@devbox:22", "ssh://me@devbox:22"),
        ("ssh", ""),
        ("ssh -p", ""),
    ],
)
def test_where_an_ssh_leads_is_one_word(argv: str, destination: str) -> None:
    """What `hosts add` is told: user and port are part of it."""
    assert ssh_destination(argv.split()) == destination


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        (["npx", "-y", "@openai/codex"], True),
        (["npm exec @openai/codex"], True),
        (["uv", "tool", "run", "aider"], True),
        (["node", "/x/node_modules/.bin/codex"], False),
        (["python3", "-m", "aider"], False),
        (["codex"], False),
        ([], False),
    ],
)
def test_a_runner_is_not_the_program_that_it_starts(argv: list[str], runs: bool) -> None:
    """Behind `npx` the program itself is a process of its own, and the one that counts."""
    assert is_runner(argv) is runs


def test_an_agent_is_no_veto() -> None:
    """The veto names programs; it does not hold everything else back."""
    assert not is_shell_or_veto(["node", "/usr/lib/node_modules/@openai/codex/bin/codex.js"])


def test_commands_know_the_harnesses_that_the_bundled_profiles_know() -> None:
    """Who runs a command is told without reading the profiles, by the same names."""
    told = {name: one.recognise for name, one in PROFILES.items()}

    assert {name: Known(one.commands, one.packages, one.modules) for name, one in told.items()} == dict(HARNESSES)


@pytest.mark.parametrize(
    ("argv", "harness"),
    [
        (["/nix/store/abc-claude-code-2.1/bin/.claude-unwrapped"], "claude"),
        ([".claude-wrapped", "--resume"], "claude"),
        (["/nix/store/abc/bin/..claude-wrapped-wrapped"], "claude"),
        (["/nix/store/abc/bin/.codex-wrapped_"], "codex"),
        (["node", "/nix/store/abc/bin/.gemini-wrapped"], "gemini"),
        (["/nix/store/abc/bin/python3.12", "/nix/store/def/bin/.aider-wrapped"], "aider"),
        ([".opencode-wrapped"], "opencode"),
        ([".unwrapped"], None),
        (["claude-unwrapped"], None),
        ([".nvim-wrapped", "claude"], None),
    ],
)
def test_what_a_wrapper_of_nix_starts_is_the_program(argv: list[str], harness: str | None) -> None:
    """Nix and devenv call it `.claude-unwrapped`, `.claude-wrapped`; an editor stays a veto."""
    assert recognise(argv, load_profiles()) == harness


@pytest.mark.parametrize(
    ("argv", "does"),
    [
        (["cat"], True),
        (["env", "PAGER=less", "psql", "shop"], True),
        (["/usr/bin/sqlite3", "shop.db"], True),
        (["python3"], True),
        (["python3", "-i"], True),
        (["python3.12", "-qi", "agent.py"], True),
        (["python3", "-"], True),
        (["python3", "-m", "code"], True),
        (["node"], True),
        (["node", "-i"], True),
        (["node", "inspect", "a.js"], True),
        (["bun", "repl"], True),
        (["lua5.4"], True),
        (["irb"], True),
        (["python3", "agent.py", "-i"], False),
        (["python3", "-m", "aider"], False),
        (["python3", "-c", "import agent"], False),
        (["node", "--no-warnings", "agent.js"], False),
        (["my-agent"], False),
        (["bun", "run", "agent"], False),
    ],
)
def test_a_repl_a_pager_and_a_database_read_lines_and_a_program_does_not(argv: list[str], does: bool) -> None:
    """Such a program is no agent where `harness` is forced, either."""
    assert reads_lines(argv) is does
