"""How soon the MCP server answers a client, and what one call of a tool costs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.benchmarks.figures import Figures
from tests.benchmarks.office import Office

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

STARTS: Final = 10
CALLS: Final = 100
LETTERS: Final = 10
PROGRAM: Final = str(Path(sys.executable).with_name("wake-bridge"))
HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Client:
    """A client that speaks the protocol's lines itself, so that nothing but the server is measured."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [PROGRAM, "mcp"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._asked = 0

    def tells(self, method: str, **params: Any) -> None:
        self._writes({"jsonrpc": "2.0", "method": method, "params": params})

    def asks(self, method: str, **params: Any) -> Any:
        self._asked += 1
        self._writes({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._asked
        return answer["result"]

    def _writes(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ends(self) -> None:
        self._process.communicate(timeout=60)


def test_the_mcp_server(office: Office, figures: Figures) -> None:
    """Ready ≤ 1 s; `check_inbox` with ten unread messages ≤ 30 ms."""
    office.sandbox.configure()
    office.agents(2)
    with office.core() as core:
        core.identity("@nobody")
        for number in range(LETTERS):
            core.send("@nobody", "@agent0", f"Review request {number}")
    environment = {**office.sandbox.environment, "WAKE_BRIDGE_AGENT": "@agent0"}
    ready, calls = [], []
    for _ in range(STARTS):
        began = time.monotonic()
        client = Client(environment)
        client.asks("initialize", **HELLO)
        ready.append(time.monotonic() - began)
        client.tells("notifications/initialized")
        for _ in range(CALLS // STARTS):
            began = time.monotonic()
            answer = client.asks("tools/call", name="check_inbox", arguments={})
            calls.append((time.monotonic() - began) * 1000)
            assert len(answer["structuredContent"]["messages"]) == LETTERS, answer
        client.ends()
    figures.add("`mcp`: start → answers `initialize`", ready, "s", at_most=1.0)
    figures.add(f"`check_inbox`, {LETTERS} unread", calls, "ms", at_most=30.0)
