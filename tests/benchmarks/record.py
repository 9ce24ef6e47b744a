"""What `make bench` leaves behind: figures with the machine they were measured on, and the table of docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from tests.benchmarks.figures import Figure, Figures, markdown, row_of
from tests.benchmarks.picture import drawn

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGE: Final = DOCS / "performance.md"
PICTURE: Final = DOCS / "cost.svg"
FIGURES: Final = Path(__file__).with_name("figures.json")
"""The last figures of each benchmark, by its name."""

BEGIN: Final = "<!-- figures -->"
END: Final = "<!-- end of figures -->"

_LOOP: Final = 1_000_000


def loop_time() -> float:
    """Milliseconds of processor time that this machine takes for a fixed loop: what times are compared with."""
    taken = []
    for _ in range(7):
        began, total = time.process_time(), 0
        for number in range(_LOOP):
            total += number
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "tmux": _output("tmux", "-V"),
    }


class Run:
    """One benchmark under way: the load and the yardstick before it, to be compared with those after it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._began = time.monotonic()
        self._load = os.getloadavg()[0]
        self._loop = loop_time()

    def facts(self, figures: Sequence[Figure]) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "benchmark": self.name,
            "commit": _output("git", "rev-parse", "HEAD"),
            "uncommitted_changes": bool(_output("git", "status", "--porcelain", "--", "wake_bridge", "adapters")),
            "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "duration_seconds": round(time.monotonic() - self._began),
            "machine": machine(),
            "load": [round(self._load, 2), round(os.getloadavg()[0], 2)],
            "priority": _priority(),
            "loop_ms": round((self._loop + loop_time()) / 2, 2),
            "figures": [figure.record() for figure in figures],
        }


def keep(facts: Mapping[str, Any], figures: Path = FIGURES, page: Path = PAGE, picture: Path = PICTURE) -> None:
    """Put a benchmark's figures into the place of its last ones, the table into the page, and draw the picture anew."""
    all_facts = {**kept(figures), facts["benchmark"]: facts}
    figures.write_text(json.dumps(all_facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page.write_text(with_table(page.read_text(encoding="utf-8"), all_facts), encoding="utf-8")
    picture.write_text(drawn(all_facts), encoding="utf-8")


def kept(figures: Path = FIGURES) -> dict[str, Mapping[str, Any]]:
    """The figures of all benchmarks that were kept, by name."""
    found: dict[str, Mapping[str, Any]] = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
    return found


def with_table(page: str, all_facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with the table of all figures that are held to a bound, and the machines that they come from."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    columns = ("benchmark", *Figures.HEAD[:-2], "promised", "")
    rows = [
        (name, *row_of(one))
        for name, facts in sorted(all_facts.items())
        for one in facts["figures"]
        if one["bound"] is not None
    ]
    told = "\n".join(f"- {name}: {_told(facts)}" for name, facts in sorted(all_facts.items()))
    table = markdown("", columns, rows).partition("### \n\n")[2]
    return f"{head}{BEGIN}\n{table}\n{told}\n{END}{tail}"


def _told(facts: Mapping[str, Any]) -> str:
    on = facts["machine"]
    changes = " with uncommitted changes" if facts["uncommitted_changes"] else ""
    return (
        f"commit `{facts['commit'][:12]}`{changes}, {facts['ended'][:10]}, {facts['duration_seconds']} s; {on['cpu']}, {on['cores']} cores,"
        f" Python {on['python']}, {on['tmux']}; load {facts['load'][0]} → {facts['load'][1]}, {facts['priority']} priority,"
        f" one loop {facts['loop_ms']} ms"
    )


def _priority() -> str:
    """With which priority the benchmark, and all it started, ran: beside others' work that decides what a clock shows."""
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
        return "real-time"
    return f"nice {os.nice(0)}" if os.nice(0) else "normal"


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1].strip()
    return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or "unknown"


def _output(*command: str) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip()
