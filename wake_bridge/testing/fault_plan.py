"""Which one operation is to fail: the word that a test and the processes of one wake pass each other.

A test plans that the N-th operation of a kind fails in some way. Whoever is about to do one asks `meets`, in whatever
process: they are counted together, the fault happens once, and every later operation is well again. The exception is
`AWAY`, which goes on for `AWAY_FOR` seconds. Kept free of slow imports: the stand-in for tmux asks at every call.
"""

from __future__ import annotations

import fcntl
import os
import time

AWAY = "away"
"""The way of failing that lasts: from the N-th operation on all of its kind fail, as on a disk that is gone for a moment."""

AWAY_FOR = 1.5
"""Seconds."""

PRIVATE = 0o600

# faults in files are made by replacing these in `os`
_open, _write, _close, _rename = os.open, os.write, os.close, os.rename


class FaultPlan:
    """Both sides of the plan.

    Args:
        directory: where they leave each other word.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    # -- the test's side -----------------------------------------------------------------------------------------

    def make(self, kind: str, way: str, nth: int) -> None:
        """Plan that from now on the `nth` operation (from 1) of a kind fails in that way."""
        name = f"{time.time_ns():x}"
        draft = self._path("draft")
        descriptor = _open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        _write(descriptor, f"{name} {kind} {way} {nth}".encode())
        _close(descriptor)
        _rename(draft, self._path("plan"))

    def end(self) -> None:
        """Let everything be well, and nothing be counted."""
        os.unlink(self._path("plan"))  # noqa: PTH108 - see the module

    def failed(self) -> str:
        """Which operation failed by the present plan; empty while none has."""
        name, *_ = self._read("plan").split()
        return self._read(f"failed-{name}")

    # -- the side of whoever does something ------------------------------------------------------------------------

    def meets(self, kind: str, what: str) -> str:
        """The way in which the operation, `what`, that is about to be done has to fail; empty for none."""
        plan = self._read("plan")
        if not plan:
            return ""
        name, planned, way, nth = plan.split()
        if planned != kind:
            return ""
        descriptor = _open(self._path(f"met-{name}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write(descriptor, b".")
            met = os.fstat(descriptor).st_size
        finally:
            _close(descriptor)
        if met == int(nth):
            failed = _open(self._path(f"failed-{name}"), os.O_WRONLY | os.O_CREAT, PRIVATE)
            _write(failed, what.encode("utf-8", "replace"))
            _close(failed)
            return way
        return way if way == AWAY and met > int(nth) and self._is_still_away(name) else ""

    def _is_still_away(self, name: str) -> bool:
        try:
            began = os.stat(self._path(f"failed-{name}")).st_mtime  # noqa: PTH116 - see the module
        except FileNotFoundError:
            return True
        return time.time() - began < AWAY_FOR

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _read(self, name: str) -> str:
        try:
            descriptor = _open(self._path(name), os.O_RDONLY)
        except FileNotFoundError:
            return ""
        try:
            return os.read(descriptor, 4096).decode("utf-8", "replace")
        finally:
            _close(descriptor)
