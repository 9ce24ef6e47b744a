"""The list of modules in docs/architecture.md, made from the first line of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/architecture.md"
BEGIN: Final = "<!-- modules: written by `make docs` -->"
END: Final = "<!-- end of modules -->"

FOLDERS: Final = (
    "wake_bridge/storage/graph",
    "wake_bridge/engine/tail",
    "wake_bridge/domain",
    "wake_bridge/storage/ledger",
    "wake_bridge/engine/presence",
    "wake_bridge/engine/deliver",
    "wake_bridge/engine/sessions",
    "wake_bridge/engine/attention",
    "wake_bridge/engine/explain",
    "wake_bridge/engine",
    "wake_bridge/ports",
    "adapters/wake_bridge_adapters",
    "wake_bridge/storage",
    "wake_bridge/config",
    "wake_bridge/control",
    "wake_bridge/integrations",
    "wake_bridge/system",
    "wake_bridge/answers",
    "wake_bridge/http",
    "wake_bridge/offline",
    "wake_bridge",
    "wake_bridge/doctor",
    "wake_bridge/cli",
    "wake_bridge/demo",
    "wake_bridge/testing",
)
"""The order in which a wake passes them, then what stands around it; a folder that is not named follows the one above it."""

_CITATION: Final = re.compile(r" \(docs/[^)]*\)")


def with_modules(page: str) -> str:
    """The page with the list as the tree is now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    listed = "\n\n".join(_sections())
    return f"{head}{BEGIN}\n{listed}\n{END}{tail}"


def _sections() -> Iterator[str]:
    folders = {path.parent for top in ("wake_bridge", "adapters") for path in (ROOT / top).rglob("*.py")}
    for folder in sorted(folders, key=_place):
        modules = sorted((path for path in folder.glob("*.py") if not path.stem.startswith("__")), key=_rank)
        about = _first_line(folder / "__init__.py")
        if not (about or modules):
            continue
        name = folder.relative_to(ROOT).as_posix()
        lines = [f"- `{path.stem}`: {_first_line(path)}" for path in modules]
        yield "\n".join([f"**`{name}`**: {about}" if about else f"**`{name}`**", *([""] if lines else []), *lines])


def _place(folder: Path) -> tuple[int, str]:
    """Its own place in the order, or that of the nearest folder above it which has one."""
    name = folder.relative_to(ROOT).as_posix()
    above = name
    while above not in FOLDERS and "/" in above:
        above = above.rpartition("/")[0]
    return (FOLDERS.index(above) if above in FOLDERS else len(FOLDERS), name)


def _rank(path: Path) -> tuple[bool, str]:
    """What a folder is named after, and an adapter's class, come first."""
    return (path.stem not in {path.parent.name, "adapter"}, path.stem)


def _first_line(path: Path) -> str:
    """What a module says of itself, without the full stop and without what it cites."""
    if not path.exists():
        return ""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(said.partition("\n\n")[0].split())
    return _CITATION.sub("", paragraph).rstrip(".:")
