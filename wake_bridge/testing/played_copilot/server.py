"""The played server, run as a script by the standard library alone: `copilot server.py HOME`.

Answers have the shapes that Copilot CLI 1.0.102 gave. The method `played` changes the state below and tells it.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, Final

FRESH: Final[dict[str, Any]] = {
    "protocol": 3,
    "token": "",
    "foreground": "8f620e91-1368-4751-a691-2353dd59e372",
    "processing": False,
    "pending": [],
    "asked": [],
    "heard": [],
    "declines": False,
    "silent": False,
    "dies": "",
}
"""`asked`: what was to be changed; `heard`: all that was asked. `dies`: `before` or `after` a message is recorded.
`silent`: messages are recorded, and never answered."""

STATE: dict[str, Any] = copy.deepcopy(FRESH)


class _Error(Exception):
    """An error that is answered."""


class Server(StreamRequestHandler):
    """One client."""

    def handle(self) -> None:
        """Answer until it hangs up."""
        self.attached: set[str] = set()
        self.is_let_in = False
        while True:
            length = 0
            while (line := self.rfile.readline()).strip():
                length = int(line.split(b":")[1])
            if not line:
                return
            asked = json.loads(self.rfile.read(length))
            try:
                answer: dict[str, Any] = {"result": self._answer(asked["method"], asked["params"])}
            except _Error as no:
                answer = {"error": {"code": -32603, "message": str(no)}}
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}).encode()
            self.wfile.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def _answer(self, method: str, told: dict[str, Any]) -> Any:
        if method == "played":
            STATE.update(told)
            return STATE
        STATE["heard"].append(method)
        if method == "connect":
            if STATE["token"] and told.get("token") != STATE["token"]:
                raise _Error("AUTHENTICATION_FAILED")
            self.is_let_in = True
            return {"ok": True, "protocolVersion": STATE["protocol"], "version": "1.0.102"}
        if method == "session.getForeground":
            return {"sessionId": STATE["foreground"]} if STATE["foreground"] else {}
        return self._answer_of(told["sessionId"], method, told)

    def _answer_of(self, session: str, method: str, told: dict[str, Any]) -> Any:
        if method == "session.resume":
            if told["requestPermission"] or told["requestUserInput"]:
                raise _Error("it would be asked in its person's place")
            self.attached.add(session)
            return {"sessionId": session}
        if session not in self.attached:
            raise _Error(f"Request {method} failed with message: Session not found: {session}")
        if method == "session.permissions.pendingRequests":
            return {"items": STATE["pending"]}
        if method == "session.metadata.isProcessing":
            return {"processing": STATE["processing"]}
        STATE["asked"].append(method)
        if method != "session.send" or STATE["declines"]:
            raise _Error("no")
        return _takes(session, told["prompt"])


def _takes(session: str, text: str) -> dict[str, str]:
    if STATE["dies"] == "before":
        os._exit(1)
    file = Path(sys.argv[1]) / "session-state" / session / "events.jsonl"
    with file.open("a", encoding="utf-8") as record:
        record.write(json.dumps({"type": "user.message", "data": {"content": text}, "id": "e-1"}) + "\n")
    if STATE["dies"] == "after":
        os._exit(1)
    while STATE["silent"]:
        time.sleep(0.05)
    return {"messageId": "m-1"}


def main() -> None:
    """Serve until it is killed."""
    ThreadingTCPServer.daemon_threads = True
    with ThreadingTCPServer(("127.0.0.1", 0), Server) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
