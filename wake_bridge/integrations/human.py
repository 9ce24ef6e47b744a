"""The ways to a person on this host: a command of theirs, else a line in the terminal they last used."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from wake_bridge.domain.channels import Send
from wake_bridge.domain.notices import Notice
from wake_bridge.ports.adapter import Notifier
from wake_bridge.ports.human import Told
from wake_bridge.system.clock import timestamp_of_instant

_SAID: Final = 200
"""Characters of a command's complaint that are kept."""


class WordToTheHuman:
    """`ports.human.Human`, for the channel that `[human]` describes.

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

    @property
    def shows_lines(self) -> bool:
        """Whether there is a terminal program that could show a line."""
        return bool(self._notifiers)

    async def tell(self, notice: Notice, /) -> Told:
        """See `Human.tell`."""
        if self.command:
            ended = await run(filled(self.command, notice), as_json(notice), self._timeout)
            return Told(self.command[0], ended.trouble, is_unknown=ended.is_unknown)
        return await self.show(notice)

    async def show(self, notice: Notice) -> Told:
        """Show it as a line in the terminal."""
        for notifier in self._notifiers:
            try:
                async with asyncio.timeout(self._timeout):
                    if await notifier.show_person(f"{notice.title}. {notice.body}"):
                        return Told("terminal")
            except TimeoutError:
                return Told("terminal", f"no answer within {self._timeout:g} s", is_unknown=True)
        return Told("")


class Ended:
    """How a program ended: `trouble` is why it did not do it, empty if it did; `status` its exit status, None without one."""

    def __init__(self, trouble: str = "", status: int | None = 0, *, is_unknown: bool = False) -> None:
        self.trouble = trouble
        self.status = status
        self.is_unknown = is_unknown


async def run(argv: Sequence[str], text: bytes, timeout: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a program in a process group of its own, with a text on its stdin; nothing of it outlives the call."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environment,
        )
    except (OSError, ValueError) as refusal:
        return Ended(f"it cannot be started ({refusal})", None)
    try:
        async with asyncio.timeout(timeout):
            _, said = await process.communicate(text)
    except TimeoutError:
        return Ended(f"it was ended after {timeout:g} s", None, is_unknown=True)
    finally:
        # also what it has started and left behind
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            await process.wait()
    complaint = said.decode(errors="replace").strip()[:_SAID]
    status = process.returncode
    return Ended(f"exit status {status}: {complaint or 'it said nothing'}" if status else "", status)


def filled(command: Sequence[str], notice: Notice) -> list[str]:
    """The argv: what a place-holder brings in is never looked at again."""
    values = {"{title}": notice.title, "{body}": notice.body}
    argv = []
    for argument in command:
        option, place_holder = argument.partition("{")[0], argument[argument.find("{") :] if "{" in argument else ""
        argv.append(option + values[place_holder] if place_holder in values else argument)
    return argv


def as_json(notice: Notice) -> bytes:
    """A notice as the line that programs read; a message on its way has its id and its channel besides."""
    record = {
        "subject": notice.subject,
        "reason": notice.reason,
        "title": notice.title,
        "body": notice.body,
        "since": timestamp_of_instant(notice.since),
        "identity": notice.identity,
        "where": notice.where,
    }
    if isinstance(notice, Send):
        record |= {"id": notice.id, "channel": notice.channel, "sender": notice.sender}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
