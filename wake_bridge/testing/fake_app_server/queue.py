"""Plays `codex queue` for the fake app-server: `CODEX_HOME` says which, `FAKE_QUEUE` what it does (`waits`, `fails`)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from websockets.sync.client import unix_connect

from wake_bridge.testing import HUNG
from wake_bridge.testing.fake_app_server.server import SOCKET


def main() -> None:
    """Put the message into the thread's queue, as the options say."""
    told = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[2:])
    plays = os.environ.get("FAKE_QUEUE", "")
    if plays == "fails":
        sys.exit("error: the queue is not to be had")
    resume = "resume" in told and plays != "waits"
    queued = {"threadId": told["thread"], "text": told["message"], "resume": resume}
    socket = os.path.realpath(Path(os.environ["CODEX_HOME"]) / SOCKET)
    with unix_connect(socket, uri="ws://localhost/", compression=None) as link:
        link.send(json.dumps({"id": 1, "method": "fake/queue", "params": queued}))
        link.recv(timeout=HUNG)
    print(f"Queued message for thread {told['thread']}.")


if __name__ == "__main__":
    main()
