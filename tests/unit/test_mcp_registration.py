"""The MCP server in the harnesses' own files: registered beside what stands there, and taken back to the byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.integrations.agent_files import apply, has_mcp_server, plan_files, read_files_record, remove
from wake_bridge.integrations.agent_files.mcp_servers import MAIL_TOOLS

PROGRAM = ("WAKE_BRIDGE_CONFIG=/etc/my config.toml", "/opt/wake bridge/bin/wake-bridge")
HARNESSES = ("claude", "codex", "copilot", "gemini", "opencode", "qwen")
THEIRS = {
    "project/.mcp.json": '{\n    "mcpServers": {\n        "theirs": {"command": "x"}\n    }\n}\n',
    "project/.claude/settings.local.json": '{"permissions": {"allow": ["Bash(ls)"], "deny": []}, "model": "opus"}',
    ".codex/config.toml": 'model = "gpt"\n\n[mcp_servers.theirs]\ncommand = "x"\n',
    "project/.gemini/settings.json": '{"theme": "dark"}\n',
    "project/opencode.json": '{\n\t"permission": "ask",\n\t"mcp": {}\n}\n',
    "project/.qwen/settings.json": '{"permissions": {"allow": ["Bash(ls)"]}, "mcpServers": {"theirs": {"command": "x"}}}',
    ".copilot/mcp-config.json": '{\n  "mcpServers": {}\n}',
}


class Home:
    """A HOME with a project, in which one agent of each harness works."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.work = self.home / "project"
        self.work.mkdir(parents=True)
        self.state = directory / "state"

    def has(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())

    def everything(self) -> dict[str, bytes]:
        return {str(one.relative_to(self.home)): one.read_bytes() for one in self.home.rglob("*") if one.is_file()}

    def register(self, *, mcp: bool = True) -> None:
        agents = [SetupAgent(f"@{one}", one, self.work, f"a:0.{number}") for number, one in enumerate(HARNESSES)]
        apply(plan_files(agents, self.home, PROGRAM if mcp else ()), self.state)

    def json(self, name: str) -> dict[str, object]:
        read: dict[str, object] = json.loads((self.home / name).read_text())
        return read


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("theirs", [{}, THEIRS], ids=["nothing there", "files of theirs"])
def test_the_server_is_registered_with_each_harness_and_taken_back_to_the_byte(
    home: Home, theirs: dict[str, str]
) -> None:
    """The command with its configuration, the mail tools allowed; twice is once; afterwards nothing of ours is left."""
    home.has(theirs)
    before = home.everything()

    home.register()
    home.register()

    entry = {"command": PROGRAM[1], "args": ["mcp"], "env": {"WAKE_BRIDGE_CONFIG": "/etc/my config.toml"}}
    for name in ("project/.mcp.json", "project/.gemini/settings.json"):
        servers = home.json(name)["mcpServers"]
        assert isinstance(servers, dict)
        assert servers["wake-bridge"] == entry
    settings = home.json("project/.claude/settings.local.json")
    assert settings["enabledMcpjsonServers"] == ["wake-bridge"]
    assert {f"mcp__wake-bridge__{one}" for one in MAIL_TOOLS} <= set(settings["permissions"]["allow"])  # type: ignore[index]
    codex = tomllib.loads((home.home / ".codex/config.toml").read_text())["mcp_servers"]["wake-bridge"]
    assert (codex["command"], codex["args"], codex["env"]) == (entry["command"], ["mcp"], entry["env"])
    assert {one: said["approval_mode"] for one, said in codex["tools"].items()} == dict.fromkeys(MAIL_TOOLS, "approve")
    policy = tomllib.loads((home.home / ".gemini/policies/wake-bridge-mcp.toml").read_text())
    assert policy["rule"][0]["toolName"] == list(MAIL_TOOLS)
    qwen = home.json("project/.qwen/settings.json")
    assert qwen["mcpServers"]["wake-bridge"] == entry  # type: ignore[index]
    assert {f"mcp__wake-bridge__{one}" for one in MAIL_TOOLS} <= set(qwen["permissions"]["allow"])  # type: ignore[index]
    copilot = home.json(".copilot/mcp-config.json")["mcpServers"]
    assert copilot["wake-bridge"] == {"type": "local", **entry, "tools": ["*"]}  # type: ignore[index]
    opencode = home.json("project/opencode.json")["mcp"]
    assert opencode["wake-bridge"]["command"] == [PROGRAM[1], "mcp"]  # type: ignore[index]
    assert has_mcp_server(read_files_record(home.state))
    assert [one.trouble for one in remove(home.state) if one.trouble] == []
    assert home.everything() == before


def test_from_files_that_were_edited_since_only_our_parts_go(home: Home) -> None:
    """Also where three places of one file are ours, and a later run without --mcp came between."""
    home.has(THEIRS)
    home.register()
    home.register(mcp=False)
    for name in ("project/.claude/settings.local.json", "project/opencode.json"):
        path = home.home / name
        path.write_text(json.dumps({"added": True, **json.loads(path.read_text())}, indent=3))

    assert [one.trouble for one in remove(home.state) if one.trouble] == []

    assert home.json("project/.claude/settings.local.json") == {
        "added": True,
        "permissions": {"allow": ["Bash(ls)"], "deny": []},
        "model": "opus",
    }
    assert home.json("project/opencode.json")["mcp"] == {}


def test_a_server_that_a_person_registered_stays_theirs(home: Home) -> None:
    """What stands there by hand is neither changed nor taken away, and no file is broken by a second table."""
    theirs = {
        "project/.mcp.json": '{"mcpServers": {"wake-bridge": {"command": "mine"}}}',
        ".codex/config.toml": '[mcp_servers.wake-bridge]\ncommand = "mine"\n',
    }
    home.has(theirs)
    home.register()
    assert {name: home.everything()[name].decode() for name in theirs} == theirs
    remove(home.state)
    assert {name: home.everything()[name].decode() for name in theirs} == theirs


def test_a_file_that_cannot_take_the_table_is_named_and_nothing_is_changed(home: Home) -> None:
    """A configuration in another form is left to its person."""
    home.has({".codex/config.toml": 'mcp_servers = { theirs = { command = "x" } }\n'})
    before = home.everything()
    with pytest.raises(OperationFailed, match="a table cannot be added") as refused:
        home.register()
    assert refused.value.where.endswith("config.toml")
    assert home.everything() == before
