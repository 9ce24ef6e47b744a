"""A receiver of webhooks in a process of its own: it writes down what it was sent, and answers as it is told."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

_RECEIVED: Final = "received.jsonl"
_ANSWERS: Final = "answers"
_HUGE: Final = 1024
"""Megabytes."""

_NO_ANSWER: Final = {"hang", "reset", "garbage"}


class _Handler(BaseHTTPRequestHandler):
    directory: Path
    taken: int = 0
    lock = Lock()

    def do_POST(self) -> None:
        """Write it down, then answer: a status with `|Name:value` headers, or one of the ways to misbehave.

        `hang` never answers, `reset` breaks the connection off, `garbage` answers no HTTP, `huge` sends a gigabyte, `drip`
        says 204 and then a byte now and then for ever.
        """
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = self._write_down(body)
        if answer in _NO_ANSWER:
            self.close_connection = True
            self._misbehave(answer)
            return
        status, *headers = answer.split("|")
        is_endless = status in {"huge", "drip"}
        self.send_response(200 if is_endless else int(status))
        for header in headers:
            name, _, value = header.partition(":")
            self.send_header(name, value.strip())
        if not is_endless:
            self.send_header("Content-Length", "0")
        self.end_headers()
        if is_endless:
            self._send_on(status)

    def _misbehave(self, answer: str) -> None:
        if answer == "hang":
            time.sleep(3600)
        elif answer == "garbage":
            self.wfile.write(b"\x00\xff no HTTP\r\n\r\n")
        else:
            # closed at once, whatever is on its way: the peer is told of a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _send_on(self, status: str) -> None:
        piece, pause = (b"x" * 1024 * 1024, 0.0) if status == "huge" else (b"x", 0.05)
        try:
            for _ in range(_HUGE):
                self.wfile.write(piece)
                time.sleep(pause)
        except OSError:
            self.close_connection = True

    def _write_down(self, body: bytes) -> str:
        kind = type(self)
        with kind.lock:
            told = json.loads((kind.directory / _ANSWERS).read_text(encoding="utf-8"))
            answer = str(told["answers"][min(kind.taken - told["from"], len(told["answers"]) - 1)])
            kind.taken += 1
            entry = {"at": time.time(), "path": self.path, "headers": dict(self.headers), "body": body.decode()}
            with (kind.directory / _RECEIVED).open("a", encoding="utf-8") as file:
                file.write(json.dumps({**entry, "answer": answer}) + "\n")
        return answer

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


class WebhookReceiver:
    """Starts the process, and reads what it was sent.

    Args:
        directory: where it writes; made.
        answers: what it says to one POST after another, the last one for all that follow.
        port: where it listens; 0 for any.
        certificate: a PEM file with key and certificate, for TLS; None for none.
    """

    def __init__(
        self, directory: Path, answers: Sequence[str] = ("204",), port: int = 0, certificate: Path | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.says(*answers)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(directory), str(port), *([str(certificate)] if certificate else [])],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None  # noqa: S101
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/hooks/wake?token=not-to-be-shown"

    def says(self, *answers: str) -> None:
        """What it says to what comes from now on, the last one for all that follow; nothing may be on its way."""
        draft = self._directory / f"{_ANSWERS}.new"
        draft.write_text(json.dumps({"from": len(self.received()), "answers": answers}), encoding="utf-8")
        draft.replace(self._directory / _ANSWERS)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def received(self) -> list[dict[str, Any]]:
        """What it was sent: `at`, `path`, `headers`, `body`, and the `answer` it gave."""
        file = self._directory / _RECEIVED
        if not file.exists():
            return []
        # the last one may be half written
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(directory: str, port: str, certificate: str = "") -> None:
    _Handler.directory = Path(directory)
    # one that takes the place of another goes on where that one was
    earlier = _Handler.directory / _RECEIVED
    _Handler.taken = len(earlier.read_text(encoding="utf-8").splitlines()) if earlier.exists() else 0
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
