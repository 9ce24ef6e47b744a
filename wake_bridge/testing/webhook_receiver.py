"""A receiver of webhooks in a process of its own: it writes down what it was sent, and answers as it is told."""

from __future__ import annotations

import json
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
_HUGE: Final = 64 * 1024 * 1024


class _Handler(BaseHTTPRequestHandler):
    directory: Path
    taken: int = 0
    lock = Lock()

    def do_POST(self) -> None:
        """Write it down, then answer: a status with `Name: value` headers, `hang`, `reset` or `huge`."""
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = self._write_down(body)
        if answer == "hang":
            time.sleep(3600)
        if answer in {"reset", "hang"}:
            self.close_connection = True
            return
        status, *headers = answer.split("|")
        is_huge = status == "huge"
        self.send_response(204 if is_huge else int(status))
        for header in headers:
            name, _, value = header.partition(":")
            self.send_header(name, value.strip())
        if is_huge:
            self.end_headers()
            self.wfile.write(b"x" * _HUGE)
            return
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _write_down(self, body: bytes) -> str:
        kind = type(self)
        with kind.lock:
            answers = (kind.directory / _ANSWERS).read_text(encoding="utf-8").split()
            answer = answers[min(kind.taken, len(answers) - 1)]
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
    """

    def __init__(self, directory: Path, answers: Sequence[str] = ("204",), port: int = 0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        (directory / _ANSWERS).write_text(" ".join(answers), encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(directory), str(port)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None  # noqa: S101
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/hooks/wake?token=not-to-be-shown"

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def received(self) -> list[dict[str, Any]]:
        """What it was sent: `at`, `path`, `headers`, `body`, and the `answer` it gave."""
        file = self._directory / _RECEIVED
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

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


if __name__ == "__main__":
    _Handler.directory = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
