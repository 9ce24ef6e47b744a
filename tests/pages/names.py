"""The names in docs/contract.md and the table of holds in docs/faults.md, made from the tables in the code."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Final

from tests.pages.modules import ROOT
from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.storage.logs import EVENTS

CONTRACT_PAGE: Final = ROOT / "docs/contract.md"
FAULTS_PAGE: Final = ROOT / "docs/faults.md"
_WIDTH: Final = 128


def with_names(page: str) -> str:
    """docs/contract.md with the hold reasons and log events of the code."""
    page = _between(page, "hold reasons", _listed(HoldReason))
    return _between(page, "log events", _listed(sorted(EVENTS)))


def with_holds(page: str) -> str:
    """docs/faults.md with the table of causes of the code."""
    rows = ["", "| reason | cause | what is told | a person is told of it unasked |", "|---|---|---|---|"]
    for cause in Cause:
        told = cause.alone.replace("{", "").replace("}", "")
        rows.append(f"| `{cause.reason}` | `{cause}` | {told} | {cause.tell} |")
    return _between(page, "holds", "\n".join([*rows, ""]))


def _listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in names), _WIDTH, break_long_words=False)


def _between(page: str, what: str, text: str) -> str:
    begin, end = f"<!-- {what}: written by `make docs` -->", f"<!-- end of {what} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no place for {what}: {begin} … {end}")
    return f"{head}{begin}\n{text}\n{end}{tail}"
