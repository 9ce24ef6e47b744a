"""Figures and their table: compared with the bounds that were set, never asserted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was measured, how often, and the bound that one of its quantiles is held to."""

    name: str
    values: tuple[float, ...]
    unit: str
    at_most: float | None
    quantile: float

    def record(self) -> dict[str, Any]:
        """What is kept of it, as JSON; `reached` is the value of the quantile that the bound is about."""
        return {
            "name": self.name,
            "unit": self.unit,
            "bound": self.at_most,
            "quantile": self.quantile,
            "n": len(self.values),
            "min": round(min(self.values), 4),
            "median": round(statistics.median(self.values), 4),
            "p99": round(quantile_of(self.values, 0.99), 4),
            "max": round(max(self.values), 4),
            "reached": round(quantile_of(self.values, self.quantile), 4),
        }

    def row(self) -> tuple[str, ...]:
        """The row of a table, in the order of `Figures.HEAD`."""
        return row_of(self.record())


def row_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The row of a table for what was kept of a figure."""
    bound = record["bound"]
    return (
        record["name"].strip(),
        str(record["n"]),
        *(shown(record[one]) for one in ("min", "median", "p99", "max")),
        record["unit"],
        "" if bound is None else f"{called(record['quantile'])} ≤ {shown(bound)}",
        "" if bound is None else ("met" if record["reached"] <= bound else "MISSED"),
    )


class Figures:
    """Collects figures and prints them as one table. They are compared with the bounds, never asserted."""

    HEAD: Final = ("figure", "n", "min", "median", "p99", "max", "unit", "bound", "")

    def __init__(self) -> None:
        self.rows: list[Figure] = []

    def add(
        self, name: str, values: Sequence[float], unit: str, *, at_most: float | None = None, quantile: float = 0.5
    ) -> None:
        """Take down what one thing measured over several trials; `at_most` bounds that quantile of them."""
        self.rows.append(Figure(name, tuple(values), unit, at_most, quantile))

    def table(self, title: str) -> str:
        """All rows, as Markdown."""
        return markdown(title, self.HEAD, [figure.row() for figure in self.rows])


def markdown(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join(["", f"### {title}", "", line(head), rule, *map(line, rows), ""])


def quantile_of(values: Sequence[float], quantile: float) -> float:
    """The smallest value that at least that share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]


def shown(value: float) -> str:
    """Three figures that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def called(quantile: float) -> str:
    """How a quantile is called in a table."""
    return {0.5: "median", 1.0: "max"}.get(quantile, f"p{quantile * 100:.0f}")
