"""`docs/reliability.md`: each run writes a section of its own, with its raw figures beside it."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import psutil

from tests.torture.report import DOCS

FIGURES: Final = "reliability"
"""The directory of the raw figures, beside the page."""

_HEAD: Final = """# Reliability

The promise is: *a matched event is never lost from the ledger; a wake is never knowingly submitted twice; what cannot be
known is reported as unknown.* Each section is one run, written by the command that stands in it; its raw figures lie in
[reliability](reliability).
"""


def machine_facts() -> dict[str, Any]:
    """What a figure depends on beside the program: the machine, its load, and what it runs."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "tmux": _output("tmux", "-V"),
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }


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
        "uncommitted_changes": _is_changed(),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "duration_seconds": round(seconds),
        **machine_facts(),
        "command": command,
        "figures": figures,
    }
    (directory / FIGURES).mkdir(exist_ok=True)
    raw = directory / FIGURES / f"{name}.json"
    raw.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    run = (
        f"`{command}`: {facts['duration_seconds']} s; ended {facts['ended']}, commit `{facts['commit'][:12]}`"
        f"{' with uncommitted changes' if facts['uncommitted_changes'] else ''}, {facts['tmux']}, Python {facts['python']},"
        f" {facts['system']}, {facts['cores']} cores of {facts['cpu']}, load {facts['load_average'][1]}"
        f" on average; [figures]({FIGURES}/{name}.json)."
    )
    put_section(name, f"{text}\n\n{run}", directory=directory)


def put_section(name: str, text: str, *, directory: Path = DOCS) -> None:
    """Put a text into the page, in the place of an older one of that name, or at its end."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{text}\n{end}\n"
    page = directory / "reliability.md"
    old = page.read_text(encoding="utf-8") if page.exists() else _HEAD
    place = re.compile(rf"{re.escape(begin)}.*?{re.escape(end)}\n", re.DOTALL)
    new = place.sub(lambda _: section, old) if place.search(old) else f"{old.rstrip()}\n\n{section}"
    page.write_text(new, encoding="utf-8")


def _is_changed() -> bool:
    """Whether the program differs from its commit; the figures of earlier runs do not count."""
    others = ("--", ".", f":!docs/{FIGURES}", ":!docs/reliability.md")
    return bool(_output("git", "status", "--porcelain", "--untracked-files=no", *others))


def _cpu() -> str:
    """The processor's name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _output(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=DOCS.parent)
    return answer.stdout.strip()
