"""How each harness starts our MCP server, and is allowed its mail tools without asking.

Measured on the programs themselves: docs/mcp.md, "Registered by setup".
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from wake_bridge.domain.setup import SetupAgent
from wake_bridge.integrations.agent_files.allow_rules import AllowRule, blocked
from wake_bridge.integrations.agent_files.json_file import WrongShape, with_added
from wake_bridge.integrations.agent_files.text_file import HASH, Form, with_block, without_block
from wake_bridge.system.own_program import variables_and_command

SERVER: Final = "wake-bridge"
MAIL_TOOLS: Final = ("check_inbox", "read_message", "send_message", "acknowledge", "presence")
"""Tools that ask nobody: those that read, and what the mail commands do."""

_KEPT_BY_CODEX: Final = (
    "WAKE_BRIDGE_AGENT",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "TMUX_TMPDIR",
)
"""Variables that say where graph and state lie; Codex hands a server only those that are named."""


def servers_for(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:
    """What lets this agent's harness start the server and use it; empty where no way is known.

    Args:
        agent: who it is for.
        home: where the harnesses keep their own settings.
        program: what starts wake-bridge: variables of the environment (`NAME=value`), then a command.
    """
    make = _SERVERS.get(agent.harness)
    return make(agent, home, program) if make else []


def _entry(program: Sequence[str]) -> dict[str, Any]:
    environment, command = variables_and_command(program)
    entry: dict[str, Any] = {"command": command[0], "args": [*command[1:], "mcp"]}
    return {**entry, "env": dict(environment)} if environment else entry


def _added(path: Path, where: tuple[str, ...], wanted: Sequence[str] | Mapping[str, Any]) -> AllowRule:
    return AllowRule(path, Form.JSON, lambda text: with_added(text, where, wanted), where=where, names=tuple(wanted))


def _claude(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:  # noqa: ARG001 - all look alike
    settings = agent.directory / ".claude" / "settings.local.json"
    tools = tuple(f"mcp__{SERVER}__{tool}" for tool in MAIL_TOOLS)
    return [
        _added(agent.directory / ".mcp.json", ("mcpServers",), {SERVER: _entry(program)}),
        _added(settings, ("enabledMcpjsonServers",), (SERVER,)),
        _added(settings, ("permissions", "allow"), tools),
    ]


def _codex(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:  # noqa: ARG001 - all look alike
    environment, command = variables_and_command(program)
    # a JSON string without control characters is a TOML string
    lines = [
        f"[mcp_servers.{SERVER}]",
        f"command = {json.dumps(command[0], ensure_ascii=False)}",
        f"args = {json.dumps([*command[1:], 'mcp'], ensure_ascii=False)}",
        f"env_vars = {json.dumps(list(_KEPT_BY_CODEX))}",
        "startup_timeout_sec = 30",
    ]
    if environment:
        pairs = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in environment.items())
        lines.append(f"env = {{ {pairs} }}")
    for tool in MAIL_TOOLS:
        lines += ["", f"[mcp_servers.{SERVER}.tools.{tool}]", 'approval_mode = "approve"']
    path = home / ".codex" / "config.toml"
    return [AllowRule(path, Form.BLOCK, lambda text: _with_tables(text, "\n".join(lines) + "\n", path))]


def _with_tables(text: str, block: str, path: Path) -> str:
    """The block in a TOML file, unless the person has registered the server by hand."""
    theirs = without_block(text.encode(), path).decode()
    try:
        if SERVER in tomllib.loads(theirs).get("mcp_servers", {}):
            return text
        after = with_block(text.encode(), block, HASH, path).decode()
        tomllib.loads(after)
    except tomllib.TOMLDecodeError as broken:
        raise WrongShape(f"a table cannot be added: {broken}") from broken
    return after


def _gemini(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:
    tools = json.dumps(list(MAIL_TOOLS))
    policy = f'[[rule]]\nmcpName = "{SERVER}"\ntoolName = {tools}\ndecision = "allow"\npriority = 100\n'
    return [
        _added(agent.directory / ".gemini" / "settings.json", ("mcpServers",), {SERVER: _entry(program)}),
        blocked(home / ".gemini" / "policies" / "wake-bridge-mcp.toml", policy),
    ]


def _opencode(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:  # noqa: ARG001 - all look alike
    environment, command = variables_and_command(program)
    entry: dict[str, Any] = {"type": "local", "command": [*command, "mcp"]}
    if environment:
        entry["environment"] = dict(environment)
    path = agent.directory / "opencode.jsonc"
    if not path.exists():
        path = agent.directory / "opencode.json"
    return [_added(path, ("mcp",), {SERVER: entry})]


def _qwen(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:  # noqa: ARG001 - all look alike
    settings = agent.directory / ".qwen" / "settings.json"
    tools = tuple(f"mcp__{SERVER}__{tool}" for tool in MAIL_TOOLS)
    return [
        _added(settings, ("mcpServers",), {SERVER: _entry(program)}),
        _added(settings, ("permissions", "allow"), tools),
    ]


def _copilot(agent: SetupAgent, home: Path, program: Sequence[str]) -> list[AllowRule]:  # noqa: ARG001 - all look alike
    # it keeps no list of tools that ask nobody
    entry = {"type": "local", **_entry(program), "tools": ["*"]}
    return [_added(home / ".copilot" / "mcp-config.json", ("mcpServers",), {SERVER: entry})]


_SERVERS: Final[Mapping[str, Callable[[SetupAgent, Path, Sequence[str]], list[AllowRule]]]] = MappingProxyType(
    {
        "claude": _claude,
        "codex": _codex,
        "copilot": _copilot,
        "gemini": _gemini,
        "opencode": _opencode,
        "qwen": _qwen,
    }
)
