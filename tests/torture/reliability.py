"""`docs/reliability.md`: one row for each run, made from the figures that the last run of each left."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from tests.torture.report import DOCS

FIGURES: Final = Path(__file__).with_name("figures.json")
"""The last figures of each run, by its name."""

PAGE: Final = DOCS / "reliability.md"

Figures = Mapping[str, Any]


def machine_facts() -> dict[str, Any]:
    """What a figure depends on beside the program: the machine, its load, and what it runs."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "tmux": output_of("tmux", "-V"),
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }


def run_facts(command: str, seconds: float) -> dict[str, Any]:
    """What is kept of every run: of which commit it was, when, for how long, on what.

    Args:
        command: what runs it again.
        seconds: how long it took.
    """
    return {
        "commit": output_of("git", "rev-parse", "HEAD"),
        "uncommitted_changes": _is_changed(),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "duration_seconds": round(seconds),
        **machine_facts(),
        "command": command,
    }


def kept(file: Path = FIGURES) -> dict[str, Figures]:
    """The figures of all runs that were kept, in the order in which the page shows them."""
    found: dict[str, Figures] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def keep_run(
    name: str,
    command: str,
    figures: Figures,
    *,
    seconds: float,
    file: Path = FIGURES,
    page: Path = PAGE,
) -> None:
    """Put a run's figures into the place of its last ones, and the table of all runs into the page.

    Args:
        name: of the run, one word.
        command: what runs it again.
        figures: `goals`, `what`, `form`, `seed`, `trials`, `violations`, and `result`, a clause where counts say too little.
        seconds: how long the run took.
        file: where the figures lie.
        page: where the table belongs.
    """
    all_runs = {**kept(file), name: {**figures, **run_facts(command, seconds)}}
    file.write_text(json.dumps(all_runs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    put_section("runs", table_of_runs(all_runs), page)


def keep_piece(
    name: str,
    what: str,
    piece: str,
    command: str,
    figures: Figures,
    *,
    seconds: float,
    file: Path = FIGURES,
    page: Path = PAGE,
) -> None:
    """Put a piece of a run into the place of its last one; the run's own figures are those of its pieces together.

    Args:
        name: of the run.
        what: the goal in a few words.
        piece: of the piece.
        command: what runs the piece again; it ends with its name.
        figures: as of a run.
        seconds: how long the piece took.
        file: where the figures lie.
        page: where the table belongs.
    """
    pieces = {**kept(file).get(name, {}).get("pieces", {}), piece: {**figures, **run_facts(command, seconds)}}
    counts = ", ".join(f"{one.removeprefix(f'{name}-')} {each['trials']}" for one, each in pieces.items())
    measured = [one["result"] for one in pieces.values() if one["result"]]
    together = {
        **figures,
        "what": what,
        "trials": sum(one["trials"] for one in pieces.values()),
        "violations": sum(one["violations"] for one in pieces.values()),
        "result": "; ".join([f"trials by piece: {counts}", *measured]),
        "pieces": pieces,
    }
    keep_run(
        name,
        command.removesuffix(piece) + name,
        together,
        seconds=sum(one["duration_seconds"] for one in pieces.values()),
        file=file,
        page=page,
    )


def table_of_runs(all_runs: Mapping[str, Figures]) -> str:
    """The one table of all runs."""
    rows: list[Sequence[str]] = [
        (
            f"`{name}`",
            ", ".join(run["goals"]),
            run["what"],
            f"{run['trials']:,}",
            str(run["violations"]),
            run["result"],
            f"{run['duration_seconds']:,}",
            f"{run['ended'][:10]}, `{run['commit'][:12]}`",
        )
        for name, run in all_runs.items()
    ]
    trials = sum(run["trials"] for run in all_runs.values())
    wrong = sum(run["violations"] for run in all_runs.values())
    head = ("run", "goals", "what is promised", "trials", "violations", "measured", "seconds", "last run")
    rows.append(("**all**", "", "", f"{trials:,}", f"**{wrong}**", "", "", ""))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def put_section(name: str, text: str, page: Path = PAGE) -> None:
    """Put a text into its place in the page, between its two marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    place = re.compile(rf"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    old = page.read_text(encoding="utf-8")
    page.write_text(place.sub(lambda _: f"{begin}\n{text}\n{end}", old), encoding="utf-8")


def output_of(*command: str) -> str:
    """What a command prints, in the repository."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=DOCS.parent)
    return answer.stdout.strip()


def _is_changed() -> bool:
    """Whether the program differs from its commit; the figures of earlier runs do not count."""
    others = ("--", ".", ":!docs/reliability.md", ":!tests/torture/figures.json", ":!tests/mutants/figures.json")
    return bool(output_of("git", "status", "--porcelain", "--untracked-files=no", *others))


def _cpu() -> str:
    """The processor's name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
