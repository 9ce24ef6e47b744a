"""The log of everything that reached the fake harness: one JSON object a line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Self, TextIO


class Record:
    """Appends events to the log file, each flushed before the next is handled; without a file they are dropped.

    Every record has `at` (UTC milliseconds, with fractions), `event`, and the `mode` and `composer` it met.
    """

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = path.open("a", encoding="utf-8") if path else None

    def write(self, event: str, mode: str, composer: str, **details: Any) -> None:
        """Append one event."""
        if self._file is None:
            return
        entry = {"at": time.time() * 1000, "event": event, "mode": mode, "composer": composer, **details}
        self._file.write(json.dumps(entry, ensure_ascii=True) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
