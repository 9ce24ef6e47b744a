"""What the agents must be told and allowed, written into their own files and taken back again (DESIGN §9)."""

from __future__ import annotations

from wake_bridge.edges.agent_files.change import FileChange
from wake_bridge.edges.agent_files.git_exclude import plan_excludes, untracked_files
from wake_bridge.edges.agent_files.plan import plan_files
from wake_bridge.edges.agent_files.record import read_files_record
from wake_bridge.edges.agent_files.removing import Removal, plan_removal, remove
from wake_bridge.edges.agent_files.traces import take_traces
from wake_bridge.edges.agent_files.writing import apply

__all__ = [
    "FileChange",
    "Removal",
    "apply",
    "plan_excludes",
    "plan_files",
    "plan_removal",
    "read_files_record",
    "remove",
    "take_traces",
    "untracked_files",
]
