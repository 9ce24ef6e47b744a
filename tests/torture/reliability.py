"""`docs/reliability.md`: each run writes a section of its own, with its raw figures beside it."""

from __future__ import annotations

import json
import platform
import re
import time
from pathlib import Path
from typing import Any, Final

from tests.torture.report import DOCS, _output

PAGE: Final = DOCS / "reliability.md"
_HEAD: Final = """# Reliability

The promise is: *a matched event is never lost from the ledger; a wake is never knowingly submitted twice; what cannot be
known is reported as unknown.* Each section is one run, written by the command that stands in it; its raw figures lie in
[reliability](reliability).
"""


def write_section(name: str, command: str, text: str, figures: Any, *, seconds: float, directory: Path = DOCS) -> None:
    """Put a run's section into the page, in the place of an older one, and its figures into `reliability/NAME.json`.

    Args:
        name: of section and figures, one word.
        command: what runs it again.
        text: the section, with its heading.
        figures: what becomes JSON.
        seconds: how long the run took.
        directory: where the documents lie.
    """
    facts = {
        "commit": _output("git", "rev-parse", "HEAD"),
        "uncommitted_changes": bool(_output("git", "status", "--porcelain", "--untracked-files=no")),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "duration_seconds": round(seconds),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "tmux": _output("tmux", "-V"),
        "figures": figures,
    }
    (directory / "reliability").mkdir(exist_ok=True)
    raw = directory / "reliability" / f"{name}.json"
    raw.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    run = (
        f"`{command}`: {facts['duration_seconds']} s; ended {facts['ended']}, commit `{facts['commit'][:12]}`"
        f"{' with uncommitted changes' if facts['uncommitted_changes'] else ''}, {facts['tmux']}, Python {facts['python']},"
        f" {facts['system']}; [figures](reliability/{name}.json)."
    )
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{text}\n\n{run}\n{end}\n"
    page = directory / "reliability.md"
    old = page.read_text(encoding="utf-8") if page.exists() else _HEAD
    place = re.compile(rf"{re.escape(begin)}.*?{re.escape(end)}\n", re.DOTALL)
    new = place.sub(lambda _: section, old) if place.search(old) else f"{old.rstrip()}\n\n{section}"
    page.write_text(new, encoding="utf-8")
