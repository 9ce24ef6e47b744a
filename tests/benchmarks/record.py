"""What `make bench` leaves behind: raw figures with the machine they were measured on, and the tables of docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from tests.benchmarks.figures import Figure, called, markdown, quantile_of, shown

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
BEGIN: Final = "<!-- figures -->"
END: Final = "<!-- end of figures -->"

_LOOP: Final = 1_000_000
_MILLISECONDS: Final = {"s": 1000.0, "ms": 1.0, "ms CPU": 1.0, "µs CPU": 0.001}


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


def keep(facts: Mapping[str, Any], directory: Path = DOCS) -> None:
    """Put a benchmark's raw figures beside the page, and the page's tables into their place."""
    raw = directory / "performance"
    raw.mkdir(exist_ok=True)
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    # the values of one figure on one line
    text = re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    (raw / f"{facts['benchmark'].replace(' ', '-')}.json").write_text(text + "\n", encoding="utf-8")
    page = directory / "performance.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), raw), encoding="utf-8")


def with_tables(page: str, raw: Path) -> str:
    """The page with the tables of all raw figures; those in `before` are set beside them."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    tables = [_section(facts, _facts_of(raw / "before" / name)) for name, facts in _all_facts(raw)]
    return f"{head}{BEGIN}\n{''.join(tables)}\n{END}{tail}"


def _section(facts: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    earlier = {(one["name"], one["bound"], one["quantile"]): one for one in before.get("figures", ())}
    rows = [tuple(_row(one, earlier, facts, before)) for one in facts["figures"]]
    head = ("figure", "n", "min", "median", "p99", "max", "unit", "× loop", "reach", "", "before")
    return (
        markdown(facts["benchmark"], head, rows)
        + "\n"
        + _told(facts)
        + (f"; before: {_told(before)}" if before else "")
        + ".\n"
    )


def _row(
    one: Mapping[str, Any], earlier: Mapping[Any, Any], facts: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[str]:
    figure = Figure.of(one)
    yield from figure.row()[:7]
    yield _in_loops(figure, facts)
    yield from figure.row()[7:]
    was = earlier.get((one["name"], one["bound"], one["quantile"])) or next(
        (value for (name, *_), value in earlier.items() if name == one["name"]), None
    )
    if was is None:
        yield ""
        return
    old = Figure.of(was)
    told = f"{called(figure.quantile)} {shown(quantile_of(old.values, figure.quantile))}"
    loops = _in_loops(old, before)
    yield f"{told} ({loops} loops)" if loops else told


def _in_loops(figure: Figure, facts: Mapping[str, Any]) -> str:
    """The median in units of the fixed loop, which tell more than times where machine or load differ."""
    scale = _MILLISECONDS.get(figure.unit)
    return "" if scale is None else shown(statistics.median(figure.values) * scale / facts["loop_ms"])


def _told(facts: Mapping[str, Any]) -> str:
    on = facts["machine"]
    changes = " with uncommitted changes" if facts["uncommitted_changes"] else ""
    return (
        f"commit `{facts['commit'][:12]}`{changes}, ended {facts['ended']} after {facts['duration_seconds']} s; {on['cpu']},"
        f" {on['cores']} cores, {on['memory_gb']} GB, {on['system']}, Python {on['python']}, SQLite {on['sqlite']},"
        f" {on['tmux']}; load {facts['load'][0]} → {facts['load'][1]}, {facts['priority']} priority, one loop {facts['loop_ms']} ms"
    )


def _all_facts(raw: Path) -> list[tuple[str, Mapping[str, Any]]]:
    return [(path.name, _facts_of(path)) for path in sorted(raw.glob("*.json"))]


def _facts_of(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    facts: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


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
