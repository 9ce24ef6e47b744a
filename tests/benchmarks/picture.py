"""The picture of all that was measured: each figure beside what it is aimed at, and wake-bridge beside other wakers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from tests.benchmarks.figures import shown

Facts = Mapping[str, Mapping[str, Any]]
"""The kept figures of each benchmark, by its name."""

WIDTH: Final = 980
NAME: Final = 330
"""Where bars begin."""

AIM: Final = 300
"""The length of a bar that is just what it is aimed at; longer ones end at half as much again."""

ROW: Final = 24
MET, MISSED, INK, FAINT = "#2e7d4f", "#b4472f", "#24292f", "#6e7781"
OURS, OTHERS = "#2e7d4f", "#8c959f"


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure and the most that it should be; `quantile` is a column of what was kept."""

    name: str
    benchmark: str
    figure: str
    most: float
    unit: str
    quantile: str = "median"
    after: str = ""
    """The figure stands behind this one, where several have its name."""


AIMS: Final = (
    Aim("commit → first byte, median", "row committed to first byte", "commit → first byte", 20, "ms"),
    Aim("commit → first byte, p99", "row committed to first byte", "commit → first byte", 60, "ms", "p99"),
    Aim("100,000 rows of backlog: first key", "backlog 100000 rows", "100,000 rows: first key", 2.4, "s"),
    Aim("1,000,000 rows: at the tip", "backlog 1000000 rows", "1,000,000 rows: at the tip, 50 events stored", 3.0, "s"),
    Aim("idle, 5 panes", "idle cost", "5 idle panes: CPU, children included", 0.15, "% core"),
    Aim("idle, 200 panes", "idle cost", "200 idle panes: CPU, children included", 0.5, "% core"),
    Aim("memory, 5 panes", "idle cost", "RSS", 50, "MB", "max", after="5 idle panes: CPU, children included"),
    Aim("a hook, nothing pending", "hooks", "`wake-bridge hook claude`, nothing pending", 15, "ms"),
    Aim("`status`", "commands", "`wake-bridge status`", 120, "ms"),
    Aim("`send`", "commands", "`wake-bridge send @agent1 --from @nobody --subject x`", 120, "ms"),
    Aim("`inbox`", "commands", "`wake-bridge inbox @nobody`", 120, "ms"),
)

CONTEST: Final = "against another waker"
BESIDE: Final = (
    ("commit → first byte, median", "commit → first byte", "ms"),
    ("drafts of a person typed into, of 3", "drafts of a person typed into", ""),
    ("idle, 1 pane", "idle CPU", "% core"),
)


def drawn(facts: Facts) -> str:
    """The picture as SVG; what was not measured is left out."""
    lines: list[str] = []
    y = _title(lines, 34, "Measured, beside what it is aimed at")
    for aim in AIMS:
        if (reached := _reached(facts, aim)) is not None:
            y = _aimed(lines, y, aim, reached)
    bottom = y - ROW + 8
    lines.append(
        f'<line x1="{NAME + AIM}" y1="44" x2="{NAME + AIM}" y2="{bottom}" stroke="{INK}" stroke-dasharray="3 3"/>'
    )
    y = _title(lines, y + 22, "On one graph and one pane, one after the other")
    for name, figure, unit in BESIDE:
        y = _beside(lines, y, name, unit, list(_wakers(facts, figure)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>\n' + "\n".join(lines) + "\n</svg>\n"
    )


def _reached(facts: Facts, aim: Aim) -> float | None:
    figures = facts.get(aim.benchmark, {}).get("figures", [])
    names = [one["name"].strip() for one in figures]
    start = names.index(aim.after) if aim.after in names else 0
    return next((one[aim.quantile] for one in figures[start:] if one["name"].strip() == aim.figure), None)


def _wakers(facts: Facts, figure: str) -> Iterator[tuple[str, float]]:
    for one in facts.get(CONTEST, {}).get("figures", []):
        name, _, waker = one["name"].partition(": ")
        if name == figure and one["unit"] != "×":
            yield waker.replace("the other", "another waker"), one["median"]


def _title(lines: list[str], y: int, text: str) -> int:
    lines.append(f'<text x="16" y="{y}" font-size="16" font-weight="bold" fill="{INK}">{escape(text)}</text>')
    return y + 28


def _aimed(lines: list[str], y: int, aim: Aim, reached: float) -> int:
    length = AIM * min(reached / aim.most, 1.5)
    is_met = reached <= aim.most
    said = f"{shown(reached)} {aim.unit} (≤ {shown(aim.most)}{'' if is_met else ', missed'})"
    _bar(lines, y, aim.name, length, MET if is_met else MISSED, said, AIM)
    return y + ROW


def _beside(lines: list[str], y: int, name: str, unit: str, wakers: Sequence[tuple[str, float]]) -> int:
    most = max((value for _, value in wakers), default=0.0)
    for number, (waker, value) in enumerate(wakers):
        length = AIM * value / most if most else 0.0
        label = f"{name}: {waker}" if number == 0 else waker
        _bar(lines, y, label, length, OURS if number == 0 else OTHERS, f"{shown(value)} {unit}".strip())
        y += ROW
    return y + (8 if wakers else 0)


def _bar(lines: list[str], y: int, name: str, length: float, colour: str, said: str, clear: float = 1) -> None:
    """A bar; what is said of it stands behind it, and behind `clear`."""
    lines.append(f'<text x="{NAME - 10}" y="{y}" text-anchor="end" fill="{INK}">{escape(name.replace("`", ""))}</text>')
    lines.append(f'<rect x="{NAME}" y="{y - 11}" width="{max(length, 1):.1f}" height="14" rx="2" fill="{colour}"/>')
    lines.append(
        f'<text x="{NAME + max(length, clear) + 8:.1f}" y="{y}" fill="{FAINT}" font-size="12">{escape(said)}</text>'
    )
