"""Promises that are easy to forget when something is added: each has a test that notices."""

from __future__ import annotations

import re
from pathlib import Path

from wake_bridge.domain.delivery import REMEDIES, HoldReason
from wake_bridge.storage.logs import EVENTS

ROOT = Path(__file__).parents[2]
SOURCES = [path for package in ("wake_bridge", "adapters") for path in (ROOT / package).rglob("*.py")]
LOGGED = re.compile(r'(?:\.(?:debug|info|warning|error|exception)|report)\(\s*"([a-z_]+)"')
BY_VARIABLE = {"graph_away", "ledger_away", "library"}


def test_every_logged_event_name_is_on_the_closed_list_and_every_listed_one_is_logged() -> None:
    """Event names come from a closed list."""
    logged = {name for path in SOURCES for name in LOGGED.findall(path.read_text(encoding="utf-8"))}

    assert logged | BY_VARIABLE == EVENTS


def test_every_hold_reason_has_a_remedy() -> None:
    """A hold has a reason and a remedy."""
    assert set(REMEDIES) == set(HoldReason)


def test_the_product_speaks_of_itself_alone() -> None:
    """No machine path and no registry host in what is shipped."""
    forbidden = re.compile("/" + "work/|/" + r"root/|pypi\.|pythonhosted|registry\.npmjs")
    guilty = [str(path) for path in SOURCES if forbidden.search(path.read_text(encoding="utf-8"))]

    assert guilty == []
