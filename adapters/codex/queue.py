"""`codex queue`: a message for a thread that nobody has open (docs/native.md)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.bounded_call import Answer, BoundedCall


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """The program, called for one `CODEX_HOME` and bounded by `timeout` seconds."""

    home: Path
    timeout: float
    environment: Mapping[str, str]

    @property
    def program(self) -> str | None:
        """Where it is, None where it is not on the PATH."""
        return shutil.which("codex", path=self.environment.get("PATH"))

    async def run(self, program: str, thread_id: str, text: str) -> Answer:
        """Put the text into the thread's queue, and have the app-server begin the thread."""
        words = [program, "queue", f"--thread={thread_id}", f"--message={text}", "--resume"]
        environment = {**self.environment, "CODEX_HOME": str(self.home)}
        call = BoundedCall(words, "", self.timeout, environment)
        try:
            return await asyncio.to_thread(call.run)
        finally:
            # a cancelled wait must not leave it running: it would hand the text in after all
            call.kill()
