"""Running the scripts: arguments and private files, never a composed source; every call bounded (docs/macos.md)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from adapters.bounded_call import Answer, BoundedCall
from adapters.osascript.trouble import Kind, Trouble, timed_out, trouble_of

_FIELD_END: Final = "\x1f"
_RECORD_END: Final = "\x1e"

Records = list[list[str]]


class Scripting:
    """The system's scripting programs, as far as PATH has them.

    Args:
        timeout: bound of one call in seconds.
        environment: for the programs; its `PATH` finds them.
    """

    def __init__(self, timeout: float, environment: Mapping[str, str]) -> None:
        self._timeout = timeout
        self._environment = {**environment, "LC_CTYPE": "UTF-8"}

    @property
    def is_there(self) -> bool:
        """Whether this system has `osascript`."""
        return shutil.which("osascript", path=self._environment.get("PATH")) is not None

    async def run(self, script: str, *arguments: str) -> Records | Trouble:
        """Run one of the bundled scripts and return the records that it answered, each a list of fields."""
        with as_file(files("adapters.osascript.scripts") / f"{script}.applescript") as path:
            answer = await self._call("osascript", str(path), *arguments)
        if isinstance(answer, Trouble):
            return answer
        said = answer.stdout.removesuffix("\n")
        return [record.split(_FIELD_END)[:-1] for record in said.split(_RECORD_END) if record]

    async def clipboard(self) -> str | Trouble:
        """The clipboard's text."""
        answer = await self._call("pbpaste")
        return answer if isinstance(answer, Trouble) else answer.stdout

    async def set_clipboard(self, text: str) -> Trouble | None:
        """Put text on the clipboard."""
        answer = await self._call("pbcopy", stdin=text)
        return answer if isinstance(answer, Trouble) else None

    async def _call(self, program: str, *arguments: str, stdin: str = "") -> Answer | Trouble:
        found = shutil.which(program, path=self._environment.get("PATH"))
        if found is None:
            return Trouble(Kind.PLACE, f"there is no {program} here", "this adapter works on macOS only")
        answer = await _bounded([found, *arguments], stdin, self._timeout, self._environment)
        if answer.timed_out:
            return timed_out()
        return answer if answer.is_well else trouble_of(answer.stderr)


async def _bounded(argv: Sequence[str], stdin: str, timeout: float, environment: Mapping[str, str]) -> Answer:
    call = BoundedCall(argv, stdin, timeout, environment)
    try:
        return await asyncio.to_thread(call.run)
    except asyncio.CancelledError:
        call.kill()
        raise


@contextlib.contextmanager
def private_file(text: str) -> Iterator[str]:
    """The path of a file with `text` that only this user can read; gone afterwards. What is private stands in no argv."""
    descriptor, name = tempfile.mkstemp(prefix="wake-bridge-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        yield name
    finally:
        Path(name).unlink(missing_ok=True)
