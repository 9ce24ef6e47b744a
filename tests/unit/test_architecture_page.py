"""docs/architecture.md is the map: true to the tree, and to the floors that the linter enforces."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

from tests.pages.modules import FOLDERS, with_modules
from tests.pages.picture import svg_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def in_backticks(text: str) -> set[str]:
    return {word.rstrip("/") for word in re.findall(r"`([^`\n]+)`", text)}


def test_the_floors_of_the_page_are_those_of_the_linter() -> None:
    """One-way floors, enforced; who reads the page learns the same ones, in the same order."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers" and "containers" not in one]
    _, _, table = PAGE.partition("| floor |")
    rows = re.findall(r"^\| (`[^|]+) \|", table.partition("\n\n")[0], re.MULTILINE)

    told = [{name.removeprefix("wake_bridge/").removesuffix(".py") for name in in_backticks(row)} for row in rows]

    assert told == [{name.strip().removeprefix("wake_bridge.") for name in layer.split("|")} for layer in layers]


def test_the_list_of_modules_is_that_of_the_tree() -> None:
    """Each module with its first line, folder by folder; `make docs` writes the list."""
    assert with_modules(PAGE) == PAGE, "stale: run `make docs`"


def test_every_folder_of_the_order_is_there() -> None:
    """The order in which the list shows folders names none that is gone."""
    assert [one for one in FOLDERS if not (ROOT / one).is_dir()] == []


def test_every_module_says_what_it_is_on_one_line() -> None:
    """Its first line is its entry in the list: one that is short enough to read in passing."""
    entries = re.findall(r"^- `(\w+)`: (.*)$", PAGE.partition("<!-- modules")[2], re.MULTILINE)
    assert len(entries) > 100
    assert [name for name, said in entries if not 10 <= len(said) <= 200] == []


def test_no_two_classes_have_one_name() -> None:
    """A name is one thing: whoever looks for it finds what is meant. Test tools and the demo are beside the program."""
    modules = [
        path
        for top in ("wake_bridge", "adapters")
        for path in (ROOT / top).rglob("*.py")
        if not {"testing", "demo"} & set(path.relative_to(ROOT).parts)
    ]
    assert len(modules) > 100
    named = Counter(
        node.name
        for path in modules
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, times in named.items() if times > 1] == []


def test_the_picture_of_the_demo_asks_nobody_for_anything_and_shows_what_was_printed() -> None:
    """A page is read without network; the picture is of the run, shortened."""
    drawn = svg_of("── 3  after\n   │ ➤ [WAKE] 1 event\n   │ \n   │ \n   │ \nthe wake was submitted once\n")
    assert "url(http" not in drawn
    assert "[WAKE]" in drawn.replace("&#160;", " ")
    assert "submitted" in (ROOT / "docs/demo.svg").read_text(encoding="utf-8")
