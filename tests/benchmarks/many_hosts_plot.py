"""The plot of docs/scale.md: cores of the database's server by the number of hosts, both logarithmic, as plain SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 420
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 50
HOSTS: Final = (10.0, 1000.0)
CORES: Final = (0.0001, 100.0)
LABELS_APART: Final = 15
COLOURS: Final = ("#2a78d6", "#1a8f5a", "#9a6a00", "#c23a3a")


@dataclass(frozen=True, slots=True)
class Curve:
    """Cores by the number of hosts."""

    name: str
    points: Sequence[tuple[int, float]]


def plot(curves: Sequence[Curve], *, full: int, cores: int) -> str:
    """Draw them.

    Args:
        curves: each with its points, by rising number of hosts.
        full: the number of hosts with which the server's default number of connections is used up.
        cores: how many the server has.
    """
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" fill="#222222">Cores of the database server, 100 identities a host, 10 messages a day each</text>',
    ]
    for power in range(round(math.log10(CORES[0])), round(math.log10(CORES[1])) + 1):
        parts.append(_line(LEFT, _y(10.0**power), WIDTH - RIGHT, _y(10.0**power), "#dddddd"))
        parts.append(_text(LEFT - 8, _y(10.0**power) + 4, f"{10.0**power:g}", "#555555", "end"))
    for hosts in (10, 30, 100, 300, 1000):
        parts.append(_line(_x(hosts), TOP, _x(hosts), HEIGHT - BOTTOM, "#eeeeee"))
        parts.append(_text(_x(hosts), HEIGHT - BOTTOM + 18, f"{hosts:,}", "#555555", "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "hosts", "#222222", "middle"))
    parts.append(_line(LEFT, _y(cores), WIDTH - RIGHT, _y(cores), "#222222", "6 4"))
    parts.append(_text(WIDTH - RIGHT + 8, _y(cores) + 4, f"{cores} cores", "#222222"))
    parts.append(_line(_x(full), TOP, _x(full), HEIGHT - BOTTOM, "#222222", "2 4"))
    parts.append(_text(_x(full) + 6, TOP + 12, f"{full} hosts: 100 connections", "#222222"))
    for colour, curve in zip(COLOURS, curves, strict=True):
        path = " ".join(f"{_x(hosts):.1f},{_y(used):.1f}" for hosts, used in curve.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.extend(f'<circle cx="{_x(h):.1f}" cy="{_y(u):.1f}" r="3.5" fill="{colour}"/>' for h, u in curve.points)
    below = 0.0
    for used, name, colour in sorted(
        ((curve.points[-1][1], curve.name, colour) for colour, curve in zip(COLOURS, curves, strict=True)), reverse=True
    ):
        below = max(_y(used) + 4, below + LABELS_APART)
        parts.append(_text(WIDTH - RIGHT + 8, below, f"{name}: {float(f'{used:.2g}'):g}", colour))
    return "\n".join([*parts, "</svg>", ""])


def crossing(curve: Curve, cores: float) -> float:
    """The number of hosts at which a curve reaches so many cores, along the line through its last two points."""
    (first, low), (last, high) = curve.points[-2:]
    slope = math.log(high / low) / math.log(last / first)
    return float(last * (cores / high) ** (1 / slope))


def _x(hosts: float) -> float:
    span = WIDTH - LEFT - RIGHT
    return LEFT + span * (math.log(hosts) - math.log(HOSTS[0])) / (math.log(HOSTS[1]) - math.log(HOSTS[0]))


def _y(cores: float) -> float:
    span = HEIGHT - TOP - BOTTOM
    part = (math.log(max(cores, CORES[0])) - math.log(CORES[0])) / (math.log(CORES[1]) - math.log(CORES[0]))
    return HEIGHT - BOTTOM - span * part


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{text}</text>'
