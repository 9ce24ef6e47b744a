"""The table of versions in docs/harnesses.md: which were walked through all states, and what came of each.

`python -m tests.harness.versions` writes the page from the data; `python -m tests.harness.canary --write` renews the data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from tests.harness.states import STATES
from tests.harness.table import DOCS, PAGE
from tests.harness.walk import FALSE_IDLE, NOT_REACHED

DATA: Final = DOCS / "harnesses-versions.json"
BEGIN, END = "<!-- versions: begin -->\n", "<!-- versions: end -->\n"

Walks = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By program and version: `date`, `cells` by state, and `wakes`: how many came of how many that were sent."""


def kept() -> dict[str, dict[str, dict[str, Any]]]:
    """The data of the page."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    return found


def keep(walks: Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]) -> None:
    """Renew these versions in data and page; what is known of others stays."""
    data = kept()
    for (name, version), states in walks.items():
        sent = [one["woken"] for one in states.values() if "woken" in one]
        data.setdefault(name, {})[version] = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "cells": {state: one["cell"] for state, one in states.items()},
            "wakes": [sum(sent), len(sent)],
        }
    ordered = {name: dict(sorted(data[name].items(), key=lambda one: _numbers(one[0]))) for name in sorted(data)}
    DATA.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page()


def table(walks: Walks) -> str:
    """One table a program: a row each state, a column each version, and last how many wakes came."""
    return "\n".join(_table_of(name, versions) for name, versions in walks.items()) + f"\n{_summary(walks)}\n"


def _table_of(name: str, versions: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [[name, *versions]]
    rows += [
        [state.name, *(one["cells"].get(state.name, NOT_REACHED) for one in versions.values())] for state in STATES
    ]
    rows += [["wakes that came", *(f"{one['wakes'][0]} of {one['wakes'][1]}" for one in versions.values())]]
    rows += [["run on", *(one["date"] for one in versions.values())]]
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    head, *body = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    return "\n".join([head, rule, *body, ""])


def _summary(walks: Walks) -> str:
    cells = [cell for versions in walks.values() for one in versions.values() for cell in one["cells"].values()]
    count = sum(len(versions) for versions in walks.values())
    return f"{count} versions, {len(cells)} cells, {cells.count(FALSE_IDLE)} times idle where it is none."


def _numbers(version: str) -> list[int]:
    return [int(one) for one in version.split(".") if one.isdigit()]


def write_page() -> None:
    """Put the tables into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(kept())}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write_page()
