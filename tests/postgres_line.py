"""A way to a PostgreSQL server that can be cut, stall or break, and made again: each host of a test has its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
COMMIT: Final = b"INSERT INTO wake_bridge.intents"
"""Stands in what a host sends before a key."""


class PostgresLine:
    """A Unix socket behind which the server of `url` is; a context manager.

    Args:
        url: of a database, by a server's Unix socket.
        directory: an empty one; short, for the socket lies in it.
    """

    def __init__(self, url: str, directory: Path) -> None:
        parts = urlsplit(url)
        self._there = _socket_of(url)
        directory.mkdir(parents=True, exist_ok=True)
        self._here = directory / SOCKET
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path}?host={directory}"
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._breaks_at: float | None = None
        self.broken = threading.Event()
        """Set once the line has broken in the middle of a commit."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._here))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def leads_to(self, url: str) -> None:
        """New connections go to another server, as after a failover; those that there are have ended with the first one."""
        self._there = _socket_of(url)

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told: as when a cable is pulled."""
        self._is_cut = True

    def stall(self) -> None:
        """What is sent is late: it gets through, in order, once the line is mended, also what nobody waits for any more."""
        self._flows.clear()

    def breaks_in_commit(self, part: float) -> None:
        """The next commit before a key is the last thing that this connection carries.

        Args:
            part: how much of it gets through; with 1 the server has all of it, and its answer is lost.
        """
        self.broken.clear()
        self._breaks_at = part

    def mend(self) -> None:
        """All gets through again; what was cut is at an end."""
        self._breaks_at = None
        self._flows.set()
        if self._is_cut:
            self._is_cut = False
            self._end_all()

    def close(self) -> None:
        """End all of it."""
        self.mend()
        self._end_all()
        self._listener.close()

    def _end_all(self) -> None:
        for one in list(self._ends):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._there)
            except OSError:
                near.close()
                continue
            self._ends |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                self._flows.wait()
                if self._is_cut:
                    # read and thrown away: whoever sent it waits for an answer
                    continue
                part = self._breaks_at
                if part is not None and COMMIT in piece:
                    self._breaks_at = None
                    sink.sendall(piece[: int(len(piece) * part)])
                    self.broken.set()
                    break
                sink.sendall(piece)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self._ends.discard(one)


def _socket_of(url: str) -> str:
    (directory,) = parse_qs(urlsplit(url).query)["host"]
    return f"{directory}/{SOCKET}"
