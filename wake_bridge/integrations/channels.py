"""Channels: sends one message by one of them; what it answers names nothing of a recipient."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wake_bridge.config.recipients import recipient_of
from wake_bridge.domain.channels import CONVERSATION, HUMAN, ChannelKind, Send
from wake_bridge.domain.receivers import Receiver, Secret
from wake_bridge.integrations.apprise_program import UNKNOWN_SERVICE
from wake_bridge.integrations.human import Ended, WordToTheHuman, as_json, filled, run
from wake_bridge.ports.adapter import ConversationShower, MessagePoster, Notifier
from wake_bridge.ports.human import Told
from wake_bridge.system.clock import timestamp_of_instant
from wake_bridge.system.files import expanded, make_directories, open_own_file

if TYPE_CHECKING:
    from wake_bridge.config.channel_fields import ChannelTable
    from wake_bridge.config.fields import Configuration

NO_WEBHOOKS: Final = "webhooks need an extra, and must not be switched off: `pip install 'wake-bridge[webhook]'`"
NO_APPRISE: Final = "apprise is not installed: `pip install 'wake-bridge[notify]'`"
NO_NOTIFY_SEND: Final = "there is no notify-send here: install it (Debian: libnotify-bin)"

_APPRISE: Final = (sys.executable, "-P", "-m", "wake_bridge.integrations.apprise_program")
_REFUSED: Final = 1
_LOOKED_BACK: Final = 256 * 1024
"""Bytes at the end of a file in which a message is looked for that may have been written before."""

_ON_MACOS: Final = (
    "osascript",
    "-e",
    "on run argv",
    "-e",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "-e",
    "end run",
)


class ChannelSenders:
    """`ports.human.Human`, for all channels.

    Args:
        config: the configuration in force; `adopt` replaces it.
        config_file: from whose directory paths are meant.
        timeout: seconds for one message.
        adapters: those that are loaded; some can show a person a line, or post.
    """

    def __init__(self, config: Configuration, config_file: Path, timeout: float, adapters: Iterable[object]) -> None:
        loaded = list(adapters)
        self._timeout = timeout
        self._poster = next((one for one in loaded if isinstance(one, MessagePoster)), None)
        self._showers = [one for one in loaded if isinstance(one, ConversationShower)]
        self._human = WordToTheHuman((), timeout, [one for one in loaded if isinstance(one, Notifier)])
        self.adopt(config, config_file)

    def adopt(self, config: Configuration, config_file: Path) -> None:
        """Go by another configuration from now on."""
        self._channels = config.channels
        self._config_file = config_file
        self._human.command = config.human.command

    async def tell(self, send: Send, /) -> Told:
        """See `Human.tell`."""
        if send.channel == HUMAN:
            return await self._human.tell(send)
        if send.channel == CONVERSATION:
            return await self._beside(send)
        table = self._channels.get(send.channel)
        if table is None:
            return Told(send.channel, "it is not configured any more")
        try:
            recipient = recipient_of(table, self._config_file)
        except (OSError, ValueError):
            return Told(send.channel, "its recipient_file cannot be read: `wake-bridge config check` says why")
        return await self._by(table, recipient, send)

    async def _by(self, table: ChannelTable, recipient: str, send: Send) -> Told:
        match table.kind:
            case ChannelKind.TMUX:
                return await self._human.show(send)
            case ChannelKind.DESKTOP:
                return await self._on_the_desktop(send)
            case ChannelKind.COMMAND:
                ended = await run(
                    filled(table.command.reveal() if table.command else (), send), as_json(send), self._timeout
                )
                return _told(send, ended)
            case ChannelKind.FILE:
                return await self._into_file(send, self._config_file.parent / expanded(recipient))
            case ChannelKind.WEBHOOK:
                return await self._posted(send, table, recipient)
            case ChannelKind.APPRISE:
                return await self._by_apprise(send, recipient)

    async def trouble_of(self, name: str) -> str:
        """What keeps a configured channel from sending, as far as that can be told without sending; empty if nothing does."""
        table = self._channels[name]
        try:
            recipient = recipient_of(table, self._config_file)
        except OSError as refusal:
            return f"its recipient_file cannot be read ({refusal.strerror})"
        except ValueError as wrong:
            return f"its recipient_file is of no use: {wrong}"
        match table.kind:
            case ChannelKind.TMUX:
                return "" if self._human.shows_lines else "no tmux is in use here: its adapter is switched off"
            case ChannelKind.DESKTOP:
                return NO_NOTIFY_SEND if sys.platform != "darwin" and shutil.which("notify-send") is None else ""
            case ChannelKind.COMMAND:
                program = table.command.reveal()[0] if table.command else ""
                return "" if shutil.which(program) else "its program is not found, or may not be executed"
            case ChannelKind.FILE:
                return _trouble_at(self._config_file.parent / expanded(recipient))
            case ChannelKind.WEBHOOK:
                return self._trouble_of_posting()
            case ChannelKind.APPRISE:
                return await self._trouble_of_apprise(recipient)

    async def _beside(self, send: Send) -> Told:
        """A line for those who look at the conversation; nobody is there while none does."""
        socket, _, pane = send.where.rpartition(" ")
        for shower in self._showers:
            try:
                async with asyncio.timeout(self._timeout):
                    if await shower.show_there(socket, pane, f"{send.title}. {send.body}"):
                        return Told(send.channel)
            except TimeoutError:
                return Told(send.channel, f"no answer within {self._timeout:g} s", is_unknown=True)
        return Told("")

    async def _on_the_desktop(self, send: Send) -> Told:
        if sys.platform == "darwin":
            return _told(send, await run([*_ON_MACOS, send.title, send.body], b"", self._timeout))
        if shutil.which("notify-send") is None:
            return Told(send.channel, NO_NOTIFY_SEND)
        from html import escape  # noqa: PLC0415 - its tables of entities take half a megabyte, and many a daemon never needs them

        # a body may hold markup, and this one is text
        argv = ["notify-send", "--app-name=wake-bridge", "--", send.title, escape(send.body, quote=False)]
        return _told(send, await run(argv, b"", self._timeout))

    async def _into_file(self, send: Send, path: Path) -> Told:
        try:
            await asyncio.to_thread(_append, path, send.id, as_json(send))
        except OSError as refusal:
            return Told(send.channel, f"the file cannot be written ({refusal.strerror})")
        return Told(send.channel)

    async def _posted(self, send: Send, table: ChannelTable, url: str) -> Told:
        if self._poster is None or self._trouble_of_posting():
            return Told(send.channel, NO_WEBHOOKS)
        key = table.key.reveal() if table.key else ""
        receiver = Receiver(f"channel:{send.channel}", Secret(url), Secret(key))
        posted = await self._poster.post_message(receiver, _envelope(send))
        return Told(send.channel, posted.trouble, is_unknown=posted.is_unknown, wish=posted.wish)

    def _trouble_of_posting(self) -> str:
        is_there = self._poster is not None and find_spec("httpx2") and find_spec("standardwebhooks")
        return "" if is_there else NO_WEBHOOKS

    async def _trouble_of_apprise(self, url: str) -> str:
        if find_spec("apprise") is None:
            return NO_APPRISE
        text = json.dumps({"url": url}).encode()
        ended = await run(_APPRISE, text, self._timeout, _plain_environment(os.environ))
        if ended.status == UNKNOWN_SERVICE:
            return "Apprise knows no service of such a URL"
        return "Apprise cannot be asked about its URL" if ended.trouble else ""

    async def _by_apprise(self, send: Send, url: str) -> Told:
        if find_spec("apprise") is None:
            return Told(send.channel, NO_APPRISE)
        # without a body the title alone is the message, and stands there once
        title, body = (send.title, send.body) if send.body else ("", send.title)
        text = json.dumps({"url": url, "title": title, "body": body}).encode()
        ended = await run(_APPRISE, text, self._timeout, _plain_environment(os.environ))
        if ended.status == _REFUSED:
            return Told(send.channel, "the service did not take it, or cannot be reached")
        return _told(send, ended)


def _told(send: Send, ended: Ended) -> Told:
    """How it ended, without the words of a program that knows the recipient."""
    if not ended.trouble:
        return Told(send.channel)
    if ended.status is not None:
        return Told(send.channel, f"its program ended with status {ended.status}")
    trouble = ended.trouble if ended.is_unknown else "its program cannot be started"
    return Told(send.channel, trouble, is_unknown=ended.is_unknown)


def _plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program of ours: the configuration says where a message goes, and no variable."""
    return {name: value for name, value in environment.items() if not name.startswith("APPRISE_")}


def _envelope(send: Send) -> str:
    record = {
        "schemaVersion": "1.0",
        "eventId": send.id,
        "eventType": "message",
        "emittedAt": timestamp_of_instant(send.created_at),
        "title": send.title,
        "body": send.body,
        "reason": send.reason,
        "agentIdentity": send.identity or send.sender or None,
    }
    return json.dumps(record, ensure_ascii=False)


def _trouble_at(path: Path) -> str:
    """Why a line cannot be written to the end of that file."""
    if path.exists():
        return "" if path.is_file() and os.access(path, os.W_OK) else "its file cannot be written"
    there = next(one for one in path.parents if one.exists())
    return "" if there.is_dir() and os.access(there, os.W_OK) else "its file cannot be made"


def _append(path: Path, message_id: str, line: bytes) -> None:
    """Append a line, once for each id, whole, and on disk."""
    make_directories(path.parent)
    descriptor = open_own_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _LOOKED_BACK, max(0, size - _LOOKED_BACK))
        if any(
            f'"id": "{message_id}"'.encode() in one for one in tail.splitlines(keepends=True) if one.endswith(b"\n")
        ):
            return
        # what a crash cut off must not swallow this one
        rest = (b"\n" if tail and not tail.endswith(b"\n") else b"") + line
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
