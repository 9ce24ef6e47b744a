"""Every trap in docs/tmux-notes.md points at a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"`(tests/\S+?\.py|…)::(\w+)`")


def test_every_trap_is_linked_to_its_test() -> None:
    """Each trap is linked to its test; `…` stands for the file named last."""
    links = LINK.findall((ROOT / "docs/tmux-notes.md").read_text(encoding="utf-8"))
    path, missing = "", []
    for file, name in links:
        path = path if file == "…" else file
        if f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8"):
            missing.append(f"{path}::{name}")

    assert len(links) > 30
    assert missing == []
