"""A model server on the loopback: the programs' requests are written down, and answered with scenes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.harness.model.anthropic import Anthropic
from tests.harness.model.asked import Asked
from tests.harness.model.completions import ChatCompletions
from tests.harness.model.gemini import Gemini
from tests.harness.model.protocols import ModelProtocol
from tests.harness.model.refusals import Refusal, refused
from tests.harness.model.responses import Responses
from tests.harness.model.scenes import Stage

_PROTOCOLS: Final[tuple[ModelProtocol, ...]] = (Anthropic(), ChatCompletions(), Responses(), Gemini())
_MODELS: Final = {"object": "list", "data": [{"id": "mock-model", "object": "model", "type": "model"}], "models": []}
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_COUNTED: Final = {"count_tokens": {"input_tokens": 100}, "countTokens": {"totalTokens": 100}}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, when it came (monotonic seconds), and all of it as it was sent."""

    at: float
    asked: Asked
    body: str = ""


class MockModel:
    """The server. `log` is a file that gets a line for every request, for a person who wonders."""

    def __init__(self, log: Path) -> None:
        self.stage = Stage()
        self.refuses: Refusal | None = None
        """Why everything is refused; None where it is answered."""
        self._log = log
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="mock-model", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def requests(self, start: int = 0) -> list[Request]:
        """Those from number `start` on."""
        with self._lock:
            return self._requests[start:]

    def note(self, asked: Asked, body: str = "") -> None:
        """Write a request down."""
        with self._lock:
            self._requests.append(Request(time.monotonic(), asked, body))
            record = asdict(asked) | {"at": time.time(), "tools": sorted(asked.tools)}
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(record, ensure_ascii=False) + "\n")

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Let every scene come to its end, and answer no more."""
        self.stage.goes_on()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Knows whose model it serves."""

    daemon_threads = True

    def __init__(self, model: MockModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing: the tests' output is not the place."""

    def do_GET(self) -> None:
        self._answers(_MODELS if "models" in self.path else {}, 200)

    def do_HEAD(self) -> None:
        self._answers({}, 200)

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        path = self.path.partition("?")[0]
        counted = next((answer for word, answer in _COUNTED.items() if path.endswith(word)), None)
        protocol = next((one for one in _PROTOCOLS if one.serves(path)), None)
        if counted is not None:
            self._answers(counted, 200)
        elif protocol is None:
            self._answers({"error": f"nothing is served at {path}"}, 404)
        else:
            self._plays(protocol, protocol.read(path, body), json.dumps(body, ensure_ascii=False))

    def _plays(self, protocol: ModelProtocol, asked: Asked, body: str) -> None:
        model = self.server.model
        model.note(asked, body)
        if model.refuses is not None:
            status, headers, error = refused(protocol, model.refuses)
            self._answers(error, status, headers)
        elif asked.is_streamed:
            self._streams(protocol.streamed(model.stage.play(asked)))
        else:
            self._answers(protocol.whole(model.stage.play(asked)), 200)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline().partition(b";")[0] or b"0", 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        return whole

    def _answers(self, answer: Mapping[str, Any], status: int, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _streams(self, events: Iterator[bytes]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for one in events:
                self.wfile.write(one)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            return  # the program was interrupted, or has ended
