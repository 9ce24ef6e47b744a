"""The table of routes is one: in the code, in docs/routes.md, and in what `routes --explain` prints."""

from __future__ import annotations

import re
from pathlib import Path

from wake_bridge.domain.names import Identity, Instant, WakePolicy
from wake_bridge.domain.route_table import TABLE, decide
from wake_bridge.domain.routing import Authority
from wake_bridge.records import routes_record

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_page_shows_the_very_rows_that_are_walked() -> None:
    """A table a person can read; `decide` walks it, docs/routes.md shows it."""
    assert ROW.findall(PAGE) == [(row.part, row.name, row.when, row.then) for row in TABLE]


def test_what_is_printed_are_the_very_rows_that_are_walked() -> None:
    """`routes --explain` prints the table's row that decides, and equals docs and tests."""
    verdict = decide(WakePolicy.IMMEDIATE, [], Authority(), Instant(0), 0)
    record = routes_record(Identity("@nobody"), [], Authority(), verdict, {})

    printed = [(one["part"], one["row"], one["when"], one["then"]) for one in record["table"]]
    assert printed == [(row.part, row.name, row.when, row.then) for row in TABLE]
    assert [one["row"] for one in record["table"] if one["decides"]] == ["no-route"]
