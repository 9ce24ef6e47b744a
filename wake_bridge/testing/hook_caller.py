"""A harness's side of its hooks: calls `wake-bridge hook` as the harness would, or speaks to the daemon in its place."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wake_bridge.control.client import ask
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing import HUNG

SESSION: Final = "5e55-1000"


class HookCaller:
    """One conversation of one agent of a sandbox.

    Args:
        sandbox: whose daemon is called.
        harness: which harness it is.
        claims: the identity that its environment names.
        session_id: its conversation.
    """

    def __init__(
        self, sandbox: Sandbox, harness: str = "claude", claims: str = "@agent", session_id: str = SESSION
    ) -> None:
        self._sandbox = sandbox
        self.harness = harness
        self.session_id = session_id
        self.environment = {**sandbox.environment, **({"WAKE_BRIDGE_AGENT": claims} if claims else {})}
        self._claims = claims

    def begin(self, event: str, said: Mapping[str, Any] | None = None, **streams: Any) -> subprocess.Popen[bytes]:
        """Start the hook's process and give it its input; `streams` as for `Popen`."""
        told = {"session_id": self.session_id, "cwd": str(self._sandbox.home), "hook_event_name": event, **(said or {})}
        command = [*self._sandbox.command, "hook", self.harness]
        if self.harness == "copilot":
            told = {"sessionId": told["session_id"], "cwd": told["cwd"], **(said or {})}
            command.append(event)
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=self.environment, cwd=self._sandbox.home, **streams
        )
        if process.stdin is not None:
            process.stdin.write(json.dumps(told).encode())
            process.stdin.close()
            process.stdin = None
        return process

    def prints(self, event: str, said: Mapping[str, Any] | None = None) -> str:
        """Run the hook as a process; answers what it printed, all of it.

        Raises:
            AssertionError: it ended with another exit code than 0, or complained.
        """
        process = self.begin(event, said)
        printed, complained = process.communicate(timeout=HUNG)
        if (process.returncode, complained) != (0, b""):
            raise AssertionError(f"the hook ended with {process.returncode}: {complained.decode()}")
        return printed.decode()

    def block(self, event: str, said: Mapping[str, Any] | None = None) -> str:
        """What the model would get to see of that; empty for nothing."""
        printed = self.prints(event, said)
        if not printed:
            return ""
        answer = json.loads(printed)
        inner = answer.get("hookSpecificOutput", answer)
        return str(inner.get("additionalContext") or inner["reason"])

    def waits_for_block(self, event: str, said: Mapping[str, Any] | None = None) -> str:
        """The first block at this event: on a busy machine a hook may give up before the daemon answers, and call again.

        Raises:
            TimeoutError: there was none.
        """
        return self._sandbox.waits_for(lambda: self.block(event, said), 40, f"a block at {event}")

    # -- in the hook's place -------------------------------------------------------------------------------------

    def asks(self, moment: str, **said: Any) -> dict[str, Any] | None:
        """What the daemon offers a hook at this moment."""
        answer = self.tells("session", event=moment, drain=True, **said)
        offer = answer["offer"]
        return dict(offer) if offer else None

    def takes(self, offer: Mapping[str, Any]) -> bool:
        """Say that the offer is about to be printed."""
        return bool(self.tells("taking", delivery=offer["delivery"], lease=offer["lease"])["ok"])

    def has_printed(self, offer: Mapping[str, Any]) -> bool:
        """Say that it was."""
        return bool(self.tells("printed", delivery=offer["delivery"], lease=offer["lease"])["ok"])

    def tells(self, command: str, **said: Any) -> Mapping[str, Any]:
        """One request to the daemon."""
        known = {"harness": self.harness, "session_id": self.session_id, "claims": self._claims}
        return ask(Path(self._sandbox.state_dir), command, 10, **{**known, **said})
