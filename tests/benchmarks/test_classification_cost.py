"""What one look costs once tmux has answered: the screen read, and judged by its harness's profile."""

from __future__ import annotations

import json
import time
from typing import Final

import pytest
from wake_bridge_adapters.screens import Screen, classify, classify_capture

from tests.benchmarks.figures import Figures
from tests.screens.corpus import PROFILES, Captured, corpus

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

TRIALS: Final = 5
"""The quickest of these counts: what the machine did beside it is not the classification's."""


def test_classification_cost(figures: Figures) -> None:
    """One classification ≤ 2 ms, on every captured screen, in every size."""
    judged, read_and_judged = zip(*(_took(one) for one in corpus()), strict=True)
    figures.add("one classification", judged, "ms", at_most=2.0, quantile=1.0)
    figures.add("  with the screen read first", read_and_judged, "ms")
    large = [took for one, took in zip(corpus(), judged, strict=True) if one.size == "200x50"]
    figures.add("  on 200×50", large, "ms")


def _took(one: Captured) -> tuple[float, float]:
    profile, screen = PROFILES[one.capture.harness], one.capture.screen
    ansi = json.loads(one.file.read_text(encoding="utf-8"))["ansi"]
    judged, both = [], []
    for _ in range(TRIALS):
        start = time.process_time()
        classify_capture(one.capture, profile)
        judged.append(time.process_time() - start)
        start = time.process_time()
        again = Screen.parse(
            ansi,
            width=screen.width,
            height=screen.height,
            cursor_x=screen.cursor_x,
            cursor_y=screen.cursor_y,
            cursor_visible=screen.cursor_visible,
            title=screen.title,
            command=screen.command,
        )
        classify(again, profile)
        both.append(time.process_time() - start)
    return 1000 * min(judged), 1000 * min(both)
