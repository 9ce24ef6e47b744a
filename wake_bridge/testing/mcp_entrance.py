"""The MCP server over HTTP in a process of its own; for tests."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing import HUNG, until

_ANNOUNCED: Final = re.compile(r"http://127\.0\.0\.1:(\d+)(/mcp) serves @\w+ to whoever sends the token in (\S+)")


class McpEntrance:
    """Serves one identity of a sandbox over HTTP.

    Args:
        box: the sandbox.
        identity: whose tools are served.
        port: on 127.0.0.1; 0 for a free one.

    `errors` is the file with all that it said to stderr.
    """

    def __init__(self, box: Sandbox, identity: str, port: int = 0) -> None:
        self._command = [*box.command, "mcp", "--http", str(port), "--as", identity]
        self._environment = dict(box.environment)
        self.errors = box.home.parent / f"mcp{identity}.errors"

    def __enter__(self) -> Self:
        # a file, which never keeps it waiting
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stderr=errors
            )
        until(lambda: b"\n" in self.errors.read_bytes() or self.process.poll() is not None, "the server over HTTP")
        said = self.errors.read_text(encoding="utf-8")
        found = _ANNOUNCED.search(said)
        if found is None:
            raise AssertionError(f"it does not serve: {said}")
        self.port, self.token_file = int(found[1]), Path(found[3])
        self.url = f"http://127.0.0.1:{self.port}{found[2]}"
        self.token = self.token_file.read_text(encoding="ascii").strip()
        return self

    def status(self, headers: Mapping[str, str], body: str = "{}") -> int:
        """What a bare POST is answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HUNG)
        try:
            connection.request("POST", "/mcp", body=body, headers=dict(headers))
            return connection.getresponse().status
        finally:
            connection.close()

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=HUNG)
