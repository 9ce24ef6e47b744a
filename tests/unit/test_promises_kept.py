"""Promises that are easy to forget when something is added: each has a test that notices."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from wake_bridge.domain.causes import Cause, HoldReason
from wake_bridge.storage.logs import EVENTS

ROOT = Path(__file__).parents[2]
SOURCES = [path for package in ("wake_bridge", "adapters") for path in (ROOT / package).rglob("*.py")]
LOGGED = re.compile(r'(?:\.(?:debug|info|warning|error|exception)|report)\(\s*"([a-z_]+)"')
BY_VARIABLE = {
    *("deliveries_held", "deliveries_settled", "graph_away", "ledger_away", "library"),
    *("receiver_degraded", "receiver_failed", "receiver_suspended"),
}


def test_every_logged_event_name_is_on_the_closed_list_and_every_listed_one_is_logged() -> None:
    """Event names come from a closed list."""
    logged = {name for path in SOURCES for name in LOGGED.findall(path.read_text(encoding="utf-8"))}

    assert logged | BY_VARIABLE == EVENTS


def test_every_hold_reason_and_every_cause_has_a_remedy() -> None:
    """A hold has a reason and a remedy."""
    assert {cause.reason for cause in Cause} == set(HoldReason)
    assert all(cause.remedy and cause.reason.sentence for cause in Cause)


def test_only_a_route_that_says_it_is_idempotent_gives_a_wake_back_that_may_have_been_sent() -> None:
    """`release(idempotent=…)` skips the check of the journal: what it is given is the word of the route itself.

    What was posted to a receiver whose route is gone since was posted by one that was idempotent. What was pushed to an MCP
    client whose agent did nothing for a minute goes on by the rule of pushes (docs/mcp.md).
    """
    given = {
        ast.unparse(keyword.value)
        for path in SOURCES
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "release"
        for keyword in call.keywords
        if keyword.arg in {"idempotent", None}
    }

    assert given == {
        "route is None or route.capabilities.idempotent",
        "route is None or route.capabilities.needs_sign",
    }


def test_the_engine_and_the_route_table_know_no_adapter_of_receivers_by_its_name() -> None:
    """They read what it declares, so that the next one needs no word in them."""
    asking = [path for path in SOURCES if "engine" in path.parts or path.stem.startswith("route")]
    named = [
        f"{path.name}:{node.lineno}"
        for path in asking
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Constant) and node.value == "webhook")
        or (isinstance(node, ast.ImportFrom) and any(one.name.startswith("WEBHOOK") for one in node.names))
    ]

    assert len(asking) > 20
    assert named == []


def test_the_product_speaks_of_itself_alone() -> None:
    """No machine path and no registry host in what is shipped."""
    forbidden = re.compile("/" + "work/|/" + r"root/|pypi\.|pythonhosted|registry\.npmjs")
    guilty = [str(path) for path in SOURCES if forbidden.search(path.read_text(encoding="utf-8"))]

    assert guilty == []
