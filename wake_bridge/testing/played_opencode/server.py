"""The played server, run as a script by the standard library alone: `opencode server.py PORT`.

Answers have the shapes that OpenCode 1.18.33 gave. `POST /played` changes the state below, `GET /played` tells it.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

FRESH: Final[dict[str, Any]] = {
    "version": "1.18.33",
    "password": "",
    "statuses": {},
    "permission": [],
    "question": [],
    "messages": {},
    "asked": [],
    "heard": [],
    "silent": False,
    "declines": False,
    "dies": "",
}
STATE: dict[str, Any] = {**copy.deepcopy(FRESH), "sessions": {}}
"""`asked`: what was to be changed; `heard`: all that was asked. `dies`: `before` or `after` a prompt is recorded. `silent`: prompts are recorded, and never answered."""


class Server(BaseHTTPRequestHandler):
    """The calls that wake-bridge makes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """What is asked."""
        path, _, query = self.path.partition("?")
        if path == "/played":
            self._answers(STATE)
            return
        STATE["heard"].append(path)
        if not self._is_let_in():
            self._answers({"_tag": "Unauthorized"}, 401)
        else:
            self._answers(*_answer(path, query))

    def do_POST(self) -> None:
        """What is to be done."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/played":
            STATE.update(body)
            self._answers(STATE)
            return
        if not self._is_let_in():
            self._answers({"_tag": "Unauthorized"}, 401)
            return
        STATE["asked"].append(f"POST {self.path}")
        _, _, session, call = self.path.split("/")
        if session not in STATE["sessions"]:
            self._answers({"name": "NotFoundError", "data": {"message": f"Session not found: {session}"}}, 404)
        elif call != "prompt_async" or STATE["declines"]:
            self._answers({"name": "BadRequest", "data": {"message": "no"}}, 400)
        else:
            self._takes(session, body["parts"])

    def _takes(self, session: str, parts: list[dict[str, str]]) -> None:
        if STATE["dies"] == "before":
            os._exit(1)
        messages = STATE["messages"].setdefault(session, [])
        info = {"id": f"msg_{len(messages):024d}", "sessionID": session, "role": "user"}
        messages.append({"info": info, "parts": parts})
        if STATE["dies"] == "after":
            os._exit(1)
        while STATE["silent"]:
            time.sleep(0.05)
        self.send_response(204)
        self.end_headers()

    def _is_let_in(self) -> bool:
        if not STATE["password"]:
            return True
        wanted = b64encode(f"opencode:{STATE['password']}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {wanted}"

    def _answers(self, what: Any, status: int = 200) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _answer(path: str, query: str) -> tuple[Any, int]:
    if path == "/global/health":
        return {"healthy": True, "version": STATE["version"]}, 200
    if path == "/session":
        return [{"id": one, **told} for one, told in STATE["sessions"].items()], 200
    if path == "/session/status":
        return {one: {"type": status} for one, status in STATE["statuses"].items()}, 200
    if path in {"/permission", "/question"}:
        return [{"id": "per_1", "sessionID": one} for one in STATE[path[1:]]], 200
    messages = STATE["messages"].get(path.split("/")[2], [])
    return messages[-int(query.partition("limit=")[2] or 100) :], 200


def main() -> None:
    """Serve until it is killed."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
