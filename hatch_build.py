"""Writes into what is built which commit it was built from; an editable install asks its checkout itself."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "wake_bridge/COMMIT"
"""As `wake_bridge/program_version.py` has it. An sdist holds it, and what is built from that takes it along."""


class CommitHook(BuildHookInterface[Any]):
    """Of what was checked out here, and of no repository around it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, where git can tell the commit."""
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        asked = ["git", "-C", self.root, "rev-parse", "HEAD"]
        try:
            commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout  # noqa: S603
        except (OSError, subprocess.CalledProcessError):
            return
        file = Path(tempfile.mkdtemp(prefix="wake-bridge-build-"), "COMMIT")
        file.write_text(commit, encoding="utf-8")
        build_data["force_include"][str(file)] = PLACE
