"""docs/architecture.md is the map: true to the tree, and to the floors that the linter enforces."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
UNNAMED = {"__init__", "__main__"}


def in_backticks(text: str) -> set[str]:
    return {word.rstrip("/") for word in re.findall(r"`([^`\n]+)`", text)}


def test_the_floors_of_the_page_are_those_of_the_linter() -> None:
    """One-way floors, enforced; who reads the page learns the same ones, in the same order."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [one["layers"] for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    _, _, table = PAGE.partition("| floor |")
    rows = re.findall(r"^\| (`[^|]+) \|", table.partition("\n\n")[0], re.MULTILINE)

    told = [{name.removeprefix("wake_bridge/").removesuffix(".py") for name in in_backticks(row)} for row in rows]

    assert told == [{name.strip().removeprefix("wake_bridge.") for name in layer.split("|")} for layer in layers]


def told_of(section: str, folder: str) -> set[str]:
    """What a section names in the item of a folder; what has no folder of its own in the rest of it."""
    items = re.split(r"^- ", section, flags=re.MULTILINE)
    of_folders = [item for item in items if re.match(r"`[\w/]+/`", item)]
    if not folder:
        return in_backticks(section)
    return {name for item in of_folders if item.startswith(f"`{folder}/`") for name in in_backticks(item)}


def test_every_module_is_named_under_its_folder_and_every_name_is_a_module() -> None:
    """A newcomer finds on the page whatever is in the tree, where it is in the tree."""
    _, _, folders = PAGE.partition("## Folder by folder")
    sections = dict(
        re.findall(r"^\*\*`([\w/]+)`\*\*(.*?)(?=^\*\*`|^`lint-imports`)", folders, re.MULTILINE | re.DOTALL)
    )
    missing = []
    for place, section in sections.items():
        for path in (ROOT / place).rglob("*.py"):
            folder = path.parent.relative_to(ROOT / place).as_posix().removeprefix(".")
            if path.stem not in UNNAMED and path.stem not in (told_of(section, folder) or in_backticks(section)):
                missing.append(str(path.relative_to(ROOT)))
    alone = [path.stem for path in (ROOT / "wake_bridge").glob("*.py") if f"{path.stem}.py`" not in PAGE]

    assert missing == []
    assert set(alone) <= UNNAMED
    assert {"wake_bridge/engine", "wake_bridge/domain", "wake_bridge/storage", "adapters/wake_bridge_adapters"} <= set(
        sections
    )
    stems = {path.stem for top in ("wake_bridge", "adapters") for path in (ROOT / top).rglob("*.py")}
    folder_names = {
        path.name for top in ("wake_bridge", "adapters") for path in (ROOT / top).rglob("*") if path.is_dir()
    }
    words = {word for section in sections.values() for word in in_backticks(section)}
    assert {word for word in words if "/" not in word} - stems - folder_names - {"why", "setup"} == set()
