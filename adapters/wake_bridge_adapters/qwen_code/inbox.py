"""One message to a session's inbox, and the receipt for it: lines of JSON over Unix sockets, one message a connection.

By its maker's cross-session protocol: an auth line with a controller's token, the message, and the end. What became of it
comes over a connection of its own to a socket of ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from wake_bridge_adapters.qwen_code.session import QwenSession
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere
from wake_bridge_adapters.unix_peer import peer_of

_VERSION: Final = 1
_LONGEST_LINE: Final = 1024 * 1024
_TAKEN: Final = frozenset({"delivered", "held"})
_TURNED_AWAY: Final = frozenset({"denied", "refused", "expired", "misaddressed", "dropped"})
"""After these the message was not taken, or is thrown away."""


async def send(session: QwenSession, token: str, text: str, mark: str, timeout: float) -> None:
    """Hand a text to the session's inbox, once, and wait for its word that it has it: queued, or held for its person.

    Args:
        session: whose inbox; its process must have the other end.
        token: a controller's, which the session's user has minted.
        text: the digest.
        mark: the message's id as well: a session settles each id once.
        timeout: seconds to wait for the receipt.

    Raises:
        NotThere: nothing was sent.
        Declined: the session said that it did not take it.
        AnswerLost: it may have been taken.
    """
    with tempfile.TemporaryDirectory(prefix="wake-bridge-", dir="/tmp") as folder:
        receipts: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        key, own = secrets.token_hex(32), f"{folder}/inbox"

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                for told in await _lines(reader, key):
                    if told.get("origMsgId") == mark:
                        receipts.put_nowait((str(told.get("status")), str(told.get("reason") or "")))
            finally:
                writer.close()

        server = await asyncio.start_unix_server(take, own, limit=_LONGEST_LINE)
        async with server:
            os.chmod(own, 0o600)  # noqa: PTH101 - a socket
            await _hand_over(session, token, _message(session, text, mark, own, key), timeout)
            await _is_taken(receipts, timeout)


def _message(session: QwenSession, text: str, mark: str, own: str, key: str) -> dict[str, Any]:
    return {
        "msgV": _VERSION,
        "msgId": mark,
        "type": "user",
        "from": own,
        "replyToken": key,
        "fromName": "wake-bridge",
        "toSessionId": session.id,
        "priority": "next",
        "message": {"role": "user", "content": text},
    }


async def _hand_over(session: QwenSession, token: str, message: dict[str, Any], timeout: float) -> None:
    _require_ours(session.inbox)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_unix_connection(session.inbox)
    except (OSError, TimeoutError) as refused:
        raise NotThere(f"its inbox does not answer: {refused}") from refused
    try:
        peer = peer_of(writer.get_extra_info("socket"))
        if peer is None or (peer.pid, peer.started) != (session.program.pid, session.program.started):
            raise NotThere("another program answers at its inbox")
        lines = [{"msgV": _VERSION, "type": "auth", "token": token}, message]
        writer.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        try:
            async with asyncio.timeout(timeout):
                await writer.drain()
                writer.write_eof()
        except (OSError, TimeoutError) as lost:
            raise AnswerLost(f"its inbox broke off: {lost}") from lost
    finally:
        writer.close()


def _require_ours(inbox: str) -> None:
    """Raises `NotThere` where the inbox is not a socket of this user's."""
    try:
        found = os.lstat(inbox) if inbox else None
        folder = Path(inbox).parent.stat()
    except OSError as problem:
        raise NotThere(f"its inbox cannot be looked at: {problem.strerror}") from problem
    if found is None or not stat.S_ISSOCK(found.st_mode):
        raise NotThere("it has no inbox: cross-session messages are switched off there")
    if found.st_uid != os.geteuid() or folder.st_uid != os.geteuid() or folder.st_mode & stat.S_IWOTH:
        raise NotThere("its inbox is not this user's alone")


async def _lines(reader: asyncio.StreamReader, key: str) -> list[dict[str, Any]]:
    """What was said over one connection, if it began with our key."""
    said: list[Any] = []
    try:
        async with asyncio.timeout(5):
            while line := await reader.readline():
                said.append(json.loads(line))
    except (ValueError, OSError, TimeoutError):
        pass
    frames = [one for one in said if isinstance(one, dict)]
    is_let_in = bool(frames) and frames[0].get("type") == "auth" and frames[0].get("token") == key
    return [one for one in frames if one.get("action") == "delivery_status"] if is_let_in else []


async def _is_taken(receipts: asyncio.Queue[tuple[str, str]], timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            while True:
                status, reason = await receipts.get()
                if status in _TAKEN:
                    return
                if status in _TURNED_AWAY:
                    raise Declined(f"{status}: {reason}"[:200])
    except TimeoutError:
        raise AnswerLost("it did not say that it took the message") from None
