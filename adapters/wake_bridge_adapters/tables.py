"""The adapters' tables in the configuration, as models. `config_from` imports them only where a table is checked.

`webhook/table.py` has the one of the webhook adapter, which shares its rules on networks.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ClaudeCodeConfig(BaseModel):
    """`[adapters.claude]`: after `wake-bridge claude install`: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="observe Claude Code by its own record, and wake it without its screen"
    )


class HeartbeatConfig(BaseModel):
    """`[adapters.heartbeat]`: how often it speaks is said in `[heartbeat]`."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="nudge through the adapter that reaches the identity")


class TmuxConfig(BaseModel):
    """`[adapters.tmux]`: which server is meant where a target names none; empty is tmux's own choice."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="wake agents in tmux panes")
    socket_name: str = Field("", description="another tmux server, by name (tmux -L)")
    socket_path: str = Field("", description="another tmux server, by path (tmux -S)")

    @model_validator(mode="after")
    def _one_socket(self) -> Self:
        if self.socket_name and self.socket_path:
            message = "socket_name (tmux -L) and socket_path (tmux -S) cannot both be set"
            raise ValueError(message)
        if "/" in self.socket_name:
            message = "socket_name is a name, as for tmux -L; a path goes into socket_path"
            raise ValueError(message)
        return self


class OsascriptConfig(BaseModel):
    """`[adapters.osascript]`: macOS only, experimental: docs/macos.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="wake agents in iTerm2, Terminal and applications")


class CodexConfig(BaseModel):
    """`[adapters.codex]`: needs the extra `codex`: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="wake Codex through its app-server if one answers, without its screen"
    )
    home: str = Field("", description="its directory; empty: $CODEX_HOME, else ~/.codex")
    versions: tuple[Annotated[str, Field(pattern=r"^\d+\.\d+$")], ...] = Field(
        ("0.171",), description="the app-server versions that wake-bridge uses, by their first two numbers"
    )


class CopilotConfig(BaseModel):
    """`[adapters.copilot]`: needs `copilot --ui-server --port N`: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="wake Copilot CLI through its own server if it was started with --ui-server"
    )
    home: str = Field("", description="its directory; empty: $COPILOT_HOME, else ~/.copilot")


class OpenCodeConfig(BaseModel):
    """`[adapters.opencode]`: needs the extra `opencode`, and `opencode --port N`: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="wake OpenCode through its own server if it was started with --port"
    )
    versions: tuple[Annotated[str, Field(pattern=r"^\d+\.\d+$")], ...] = Field(
        ("1.18",), description="the versions whose server wake-bridge uses, by their first two numbers"
    )


class QwenCodeConfig(BaseModel):
    """`[adapters.qwen]`: needs a controller's token, which you mint: docs/native.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="wake Qwen Code through the inbox of its session, with token_file")
    home: str = Field("", description="its directory; empty: $QWEN_HOME, else ~/.qwen")
    token_file: str = Field(
        "",
        description="a file with what `qwen sessions controllers add` printed, such as "
        "~/.config/wake-bridge/qwen.token; empty: its screen is used",
    )


class McpPushConfig(BaseModel):
    """`[adapters.mcp]`: which identities are pushed to, `mcp_push` in their targets says: docs/mcp.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="push wakes to MCP clients that take them")


class OtherHostConfig(BaseModel):
    """`[adapters.ssh]`: which hosts there are, `wake-bridge hosts` says: docs/many-hosts.md."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="hand wakes to the daemons of other hosts (`wake-bridge hosts add`)"
    )
