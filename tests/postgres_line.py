"""A way to a PostgreSQL server that can be cut, and made again: each host of a test has its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"


class PostgresLine:
    """A Unix socket behind which the server of `url` is; a context manager.

    Args:
        url: of a database, by a server's Unix socket.
        directory: an empty one; short, for the socket lies in it.
    """

    def __init__(self, url: str, directory: Path) -> None:
        parts = urlsplit(url)
        (there,) = parse_qs(parts.query)["host"]
        directory.mkdir(parents=True, exist_ok=True)
        self._there = f"{there}/{SOCKET}"
        self._here = directory / SOCKET
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path}?host={directory}"
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._here))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told: as when a cable is pulled."""
        self._is_cut = True

    def mend(self) -> None:
        """New connections get through; what was cut is at an end."""
        self._is_cut = False
        for one in list(self._ends):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all of it."""
        self.mend()
        self._listener.close()

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
                if self._is_cut:
                    # read and thrown away: whoever sent it waits for an answer
                    continue
                sink.sendall(piece)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self._ends.discard(one)
