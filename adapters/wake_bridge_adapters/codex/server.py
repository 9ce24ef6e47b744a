"""The app server: where its socket lies, who listens there, and one JSON-RPC connection to it.

It asks and is told; it never subscribes to a thread, and what the server asks its clients is left to the person's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.values import dataclass
from wake_bridge.ports.clock import Clock
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere
from wake_bridge_adapters.unix_peer import Peer, peer_of

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


_SOCKET: Final = "app-server-control/app-server-control.sock"
_ROOT: Final = 0


def codex_home(configured: str, environment: Mapping[str, str]) -> Path:
    """The directory of Codex: as configured, else `CODEX_HOME`, else `~/.codex`; one spelling for every path of it."""
    home = environment.get("HOME") or "~"
    named = configured or environment.get("CODEX_HOME") or f"{home}/.codex"
    if named.startswith("~/"):
        named = f"{home}/{named[2:]}"
    return Path(os.path.realpath(Path(named).expanduser()))


def control_socket(home: Path) -> Path:
    """The socket in it."""
    return home / _SOCKET


def where_it_leads(socket: Path) -> str:
    """The socket itself: Codex makes a link, for the path of a socket must be short."""
    return os.path.realpath(socket)


def why_not_ours(socket: Path) -> str:
    """Why the socket may not be used; empty if it may.

    It must be this user's, and no other user may be able to put another one into its place or into that of the link.
    """
    real = Path(where_it_leads(socket))
    try:
        found = real.stat()
    except OSError as problem:
        return f"there is no app-server at {socket}: {problem.strerror}"
    if not stat.S_ISSOCK(found.st_mode):
        return f"{real} is no socket"
    if found.st_uid != os.geteuid():
        return f"{real} belongs to another user"
    for directory in dict.fromkeys((socket.parent, socket.parent.parent, *real.parents)):
        if why := _why_open_to_others(directory):
            return why
    return ""


def _why_open_to_others(directory: Path) -> str:
    """In a directory like /tmp nobody can replace what another one owns."""
    try:
        found = directory.stat()
    except OSError as problem:
        return f"{directory} cannot be looked at: {problem.strerror}"
    if found.st_uid not in {os.geteuid(), _ROOT}:
        return f"{directory} belongs to another user, who could put another socket there"
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return f"anyone may write {directory}, and put another socket there: run `chmod o-w` on it"
    return ""


NOT_INSTALLED: Final = "the package websockets is not installed: install wake-bridge with its extra `codex`"

_NAME: Final = {"name": "wake_bridge", "title": "wake-bridge", "version": "1"}
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one answer: a page of a thread's record holds what its tools printed."""

_VERSION: Final = re.compile(r"/(\d+\.\d+)[.\d]*")


class Unfamiliar(NotThere):
    """A server of a version that was never tried."""


@dataclass(frozen=True, slots=True)
class Server:
    """One life of an app-server: another process is another one. `version` is its first two numbers."""

    peer: Peer
    version: str


@dataclass(slots=True)
class ThreadSign:
    """What a thread was last said to be doing, and how often that changed."""

    status: str = ""
    changes: int = 0


class Connection:
    """An open and initialised connection. `signs` are what it was told of threads without asking."""

    def __init__(self, link: ClientConnection, server: Server, timeout: float) -> None:
        self.server = server
        self.signs: dict[str, ThreadSign] = {}
        self._link = link
        self._timeout = timeout
        self._calls = 0
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._has_ended = False
        self._reader = asyncio.create_task(self._read(), name="codex app-server")

    @property
    def is_open(self) -> bool:
        """Whether anything can still come through it."""
        return not self._has_ended

    async def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """Ask, and return what is answered.

        Raises:
            Lost: no answer within the time-out, or the connection ended.
            Declined: the answer is an error.
        """
        if not self.is_open:
            raise AnswerLost("the connection to the app-server has ended")
        self._calls += 1
        number = self._calls
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(self._timeout):
                await self._send({"id": number, "method": method, "params": parameters})
                return await answer
        except TimeoutError:
            self.close()
            raise AnswerLost(f"the app-server did not answer {method} in time") from None
        finally:
            self._waiting.pop(number, None)

    async def tell(self, method: str) -> None:
        """Say something that is not answered. Raises `AnswerLost`."""
        await self._send({"method": method})

    def close(self) -> None:
        """End it now; whoever waits for an answer is told that it is lost."""
        self._reader.cancel()
        self._end()

    async def _send(self, message: Mapping[str, Any]) -> None:
        from websockets.exceptions import WebSocketException  # noqa: PLC0415 - an optional dependency

        try:
            await self._link.send(json.dumps(message))
        except (WebSocketException, OSError) as ended:
            raise AnswerLost(f"the connection to the app-server has ended: {ended}") from ended

    async def _read(self) -> None:
        from websockets.exceptions import WebSocketException  # noqa: PLC0415 - an optional dependency

        try:
            with contextlib.suppress(WebSocketException, OSError):
                async for frame in self._link:
                    self._take(frame)
        finally:
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._link.transport.abort()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(AnswerLost("the connection to the app-server has ended"))

    def _take(self, frame: str | bytes) -> None:
        try:
            message = json.loads(frame)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        if "method" in message:
            # a request of the server has an id besides: it is for the person's own program to answer
            self._note(str(message["method"]), message.get("params") or {})
            return
        answer = self._waiting.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(Declined(str(message["error"].get("message", message["error"]))))
        else:
            answer.set_result(message.get("result") or {})

    def _note(self, method: str, told: Mapping[str, Any]) -> None:
        if method == "thread/status/changed":
            sign = self.signs.setdefault(str(told.get("threadId", "")), ThreadSign())
            sign.status, sign.changes = _worded(told.get("status") or {}), sign.changes + 1


def _worded(status: Mapping[str, Any]) -> str:
    return " ".join([str(status.get("type", "")), *(str(one) for one in status.get("activeFlags") or ())])


async def connect(socket: str, versions: Sequence[str], timeout: float, uid: int) -> Connection:
    """Open a connection and introduce ourselves.

    Args:
        socket: the control socket.
        versions: those whose ways are known, by their first two numbers.
        timeout: seconds for everything together, and then for each call.
        uid: the user whose server it must be.

    Raises:
        NotThere: nobody answers at the socket, or not as a known app-server of that user would.
    """
    try:
        from websockets.asyncio.client import unix_connect  # noqa: PLC0415 - an optional dependency
        from websockets.exceptions import WebSocketException  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise NotThere(NOT_INSTALLED) from None
    try:
        async with asyncio.timeout(timeout):
            link = await unix_connect(
                socket, uri="ws://localhost/", compression=None, max_size=_LARGEST, open_timeout=None
            )
    except TimeoutError:
        raise NotThere(f"the app-server at {socket} does not answer") from None
    except (OSError, WebSocketException) as refused:
        raise NotThere(f"no app-server answers at {socket}: {refused}") from refused
    peer = peer_of(link.transport.get_extra_info("socket"))
    if peer is None or peer.uid != uid:
        link.transport.abort()
        raise NotThere(f"the server at {socket} is not this user's")
    return await _introduced(Connection(link, Server(peer, ""), timeout), versions)


async def _introduced(connection: Connection, versions: Sequence[str]) -> Connection:
    try:
        # a thread's queue can be looked at only so
        answer = await connection.call("initialize", clientInfo=_NAME, capabilities={"experimentalApi": True})
        version = _familiar(str(answer.get("userAgent", "")), versions)
        await connection.tell("initialized")
    except (AnswerLost, Declined) as no:
        connection.close()
        raise NotThere(f"the app-server did not introduce itself: {no}") from no
    except BaseException:
        connection.close()
        raise
    connection.server = Server(connection.server.peer, version)
    return connection


def _familiar(user_agent: str, versions: Sequence[str]) -> str:
    """The version that a server says it has, if it is a known one. Raises `Unfamiliar`."""
    found = _VERSION.search(user_agent)
    version = found[1] if found else "of an unknown version"
    if version not in versions:
        known = ", ".join(versions)
        raise Unfamiliar(
            f"the app-server is Codex {version}, whose protocol this version does not know (known: {known})"
        )
    return version


STRANGER_LASTS: Final = 30_000
"""Milliseconds before a server of an unknown version is asked again who it is."""


class AppServer:
    """The server of one `CODEX_HOME`.

    Args:
        versions: those whose ways are known, by their first two numbers.
        timeout: seconds of one call.
    """

    def __init__(self, home: Path, versions: Sequence[str], timeout: float, clock: Clock) -> None:
        self.home = home
        self._versions = versions
        self._timeout = timeout
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._trouble: NotThere | None = None
        self._again_at = 0

    async def connection(self) -> Connection:
        """The open connection.

        Raises:
            NotThere: nobody answers, or nobody who is known here.
        """
        self._belong_to(asyncio.get_running_loop())
        async with self._opening:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            if self._trouble is not None and self._clock.now() < self._again_at:
                raise self._trouble
            self._connection = None
            began = self._clock.now()
            try:
                self._connection = await self._open()
            except NotThere as trouble:
                # who does not answer is not asked all the time: each try costs a time-out
                took = self._clock.now() - began
                self._again_at = self._clock.now() + (STRANGER_LASTS if isinstance(trouble, Unfamiliar) else took)
                self._trouble = trouble
                raise
            return self._connection

    async def _open(self) -> Connection:
        socket = control_socket(self.home)
        if why := why_not_ours(socket):
            raise NotThere(why)
        return await connect(where_it_leads(socket), self._versions, self._timeout, os.geteuid())

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """A connection lives and dies with its event loop."""
        if self._loop is not loop:
            self._loop, self._opening, self._connection = loop, asyncio.Lock(), None
