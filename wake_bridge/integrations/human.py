"""Sends notices to the person: by their own command, or by a line in the terminal they last used."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from wake_bridge.domain.notices import Notice
from wake_bridge.ports.adapter import Notifier
from wake_bridge.ports.human import Told
from wake_bridge.system.clock import timestamp_of_instant

_SAID: Final = 200
"""Characters of a command's complaint that are kept."""


class WordToTheHuman:
    """`ports.human.Human`.

    Args:
        command: the program and its arguments; `{title}` and `{body}` are put in, everything else is on its stdin as one
            JSON object. Empty: a line in the terminal. A reload replaces it.
        timeout: seconds for either.
        notifiers: adapters that can show a person a line.
    """

    def __init__(self, command: Sequence[str], timeout: float, notifiers: Iterable[Notifier]) -> None:
        self.command = tuple(command)
        self._timeout = timeout
        self._notifiers = tuple(notifiers)

    async def tell(self, notice: Notice) -> Told:
        """See `Human.tell`."""
        if self.command:
            return Told(self.command[0], await self._run(filled(self.command, notice), _as_json(notice)))
        for notifier in self._notifiers:
            try:
                async with asyncio.timeout(self._timeout):
                    if await notifier.show_person(f"{notice.title}. {notice.body}"):
                        return Told("terminal")
            except TimeoutError:
                return Told("terminal", f"no answer within {self._timeout:g} s")
        return Told("")

    async def _run(self, argv: Sequence[str], text: bytes) -> str:
        """Run the command in a process group of its own; answers what went wrong."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as refusal:
            return f"it cannot be started ({refusal})"
        try:
            async with asyncio.timeout(self._timeout):
                _, said = await process.communicate(text)
        except TimeoutError:
            return f"it was ended after {self._timeout:g} s"
        finally:
            # also what it has started and left behind
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.returncode is None:
                await process.wait()
        complaint = said.decode(errors="replace").strip()[:_SAID]
        return f"exit status {process.returncode}: {complaint or 'it said nothing'}" if process.returncode else ""


def filled(command: Sequence[str], notice: Notice) -> list[str]:
    """The argv: what a place-holder brings in is never looked at again."""
    values = {"{title}": notice.title, "{body}": notice.body}
    argv = []
    for argument in command:
        option, place_holder = argument.partition("{")[0], argument[argument.find("{") :] if "{" in argument else ""
        argv.append(option + values[place_holder] if place_holder in values else argument)
    return argv


def _as_json(notice: Notice) -> bytes:
    record = {**asdict(notice), "since": timestamp_of_instant(notice.since)}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
