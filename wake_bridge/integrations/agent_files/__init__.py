"""Writes what agents must know and may run into their own files, and removes it again."""

from __future__ import annotations

from wake_bridge.integrations.agent_files.allow_rules import wide_rules
from wake_bridge.integrations.agent_files.git_exclude import plan_excludes, untracked_files
from wake_bridge.integrations.agent_files.hook_settings import take_traces
from wake_bridge.integrations.agent_files.plan import apply, has_mcp_server, plan_files
from wake_bridge.integrations.agent_files.record import Removal, plan_removal, read_files_record, remove
from wake_bridge.integrations.agent_files.text_file import FileChange
from wake_bridge.integrations.agent_files.tmux_keys import plan_tmux_keys

__all__ = [
    "FileChange",
    "Removal",
    "apply",
    "has_mcp_server",
    "plan_excludes",
    "plan_files",
    "plan_removal",
    "plan_tmux_keys",
    "read_files_record",
    "remove",
    "take_traces",
    "untracked_files",
    "wide_rules",
]
