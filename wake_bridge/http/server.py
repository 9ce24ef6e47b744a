"""The web server: on a thread and a loop of its own, so that no client delays a wake."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from wake_bridge.config.senders import ConfiguredSender
from wake_bridge.config.settings import Settings
from wake_bridge.config.source_tokens import SourceTokens
from wake_bridge.domain.items import ItemDraft
from wake_bridge.domain.names import Instant
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.domain.values import dataclass
from wake_bridge.engine.settings import EngineSettings
from wake_bridge.http.app import application
from wake_bridge.http.intake import InboxRoutes, TakeItems
from wake_bridge.http.listener import Listener, tls_context
from wake_bridge.http.page import FleetPage
from wake_bridge.http.signatures import Signatures
from wake_bridge.http.tokens import PageTokens
from wake_bridge.http.views import Ask
from wake_bridge.ports.items import TakenItem
from wake_bridge.ports.ledger_records import Taken
from wake_bridge.schemas.incoming import Incoming
from wake_bridge.system.files import expanded

ENDS_WITHIN: Final = 2.0
"""Seconds for requests under way when the daemon stops."""

ANSWERED_WITHIN: Final = 10.0
"""Seconds that the daemon has to answer the page."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Inbox:
    """How items are taken in: by whose tokens, by what is in force, and into what, on the daemon's own loop."""

    tokens: SourceTokens
    settings: Callable[[], EngineSettings]
    take: Callable[[Sequence[ItemDraft]], Coroutine[None, None, Sequence[TakenItem]]]

    def routes(self, take: TakeItems) -> InboxRoutes:
        """The routes that take them in; `take` hands over from the server's loop."""
        return InboxRoutes(self.tokens, self.settings, take)


class WebServer:
    """Listens at one address.

    Args:
        settings: those of the daemon.
        where: the address.
        senders: whose signed wakes are taken in there; None where none are.
        take_in: writes a verified wake down, on the daemon's own loop.
        wall: the wall clock.
        state_dir: where the ledger lies, for the page.
        tokens: who may use the page; None where this address has none.
        ask: asks the daemon, on its own loop.
        inbox: how items are taken in there; None where none are.
    """

    def __init__(
        self,
        settings: Settings,
        where: ListenAddress,
        senders: list[ConfiguredSender] | None,
        take_in: Callable[[str, Incoming, str], Awaitable[Taken]],
        wall: Callable[[], Instant],
        *,
        state_dir: Path,
        tokens: PageTokens | None,
        ask: Ask,
        inbox: Inbox | None = None,
    ) -> None:
        self._settings = settings
        self._where = where
        self._take_in = take_in
        self._wall = wall
        self._state_dir = state_dir
        self._tokens = tokens
        self._ask = ask
        self._inbox = inbox
        http, beside = settings.config.http, settings.config_file.parent
        certificate, key = (beside / expanded(one) for one in (http.tls_certificate_file, http.tls_key_file))
        has_tls = bool(http.tls_certificate_file) and senders is not None
        self._listener = Listener(where, tls_context(certificate, key) if has_tls else None)
        self._is_configured = senders is not None
        # a path exists only with its credential
        self._signatures = Signatures(senders) if senders else None

    def bind(self) -> ListenAddress:
        """Take the address; answers which. Raises `OperationFailed`."""
        self._where = self._listener.bind()
        return self._where

    def close(self) -> None:
        """Give the address up."""
        self._listener.close()

    async def run(self) -> None:
        """Answer until cancelled; raises what the server's thread met."""
        daemon = asyncio.get_running_loop()

        async def there(work: Coroutine[None, None, Value]) -> Value:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, daemon))

        async def take_in(sender: str, wake: Incoming, body: str) -> Taken:
            async def work() -> Taken:
                return await self._take_in(sender, wake, body)

            return await there(work())

        async def take_items(drafts: Sequence[ItemDraft]) -> Sequence[TakenItem]:
            if self._inbox is None:
                raise AssertionError("items are taken in here")
            return await there(self._inbox.take(drafts))

        async def ask(command: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
            async def work() -> Mapping[str, Any]:
                return await self._ask(command, request)

            async with asyncio.timeout(ANSWERED_WITHIN):
                return await there(work())

        async def serve() -> None:
            page = FleetPage(self._state_dir, self._tokens, ask, self._wall) if self._tokens is not None else None
            routes = page.routes() if page is not None else ()
            inbox = self._inbox.routes(take_items) if self._inbox is not None else None
            try:
                await self._listener.serve(
                    application(self._signatures, take_in, self._hosts(), self._wall, routes, inbox)
                )
            finally:
                if page is not None:
                    page.close()

        own = _OwnThread(serve, daemon)
        own.start()
        try:
            await asyncio.shield(own.ended)
        finally:
            own.stop()
            await asyncio.wait({own.ended}, timeout=ENDS_WITHIN)

    def _hosts(self) -> set[str]:
        """By which names this host may be called."""
        names = {"localhost"}
        if self._is_configured:
            names |= {one.lower() for one in self._settings.config.http.hosts}
        if self._where.path or self._where.is_local:
            names |= {"127.0.0.1", "::1"}
        if self._where.host and not self._where.is_every:
            names.add(self._where.host)
        if self._where.is_every:
            names.add(socket.gethostname().lower())
        return names


class _OwnThread:
    """Runs a coroutine on a thread and a loop of its own; `ended` is the daemon's future of its end."""

    def __init__(self, job: Callable[[], Coroutine[None, None, None]], daemon: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[None] = daemon.create_future()
        self._job = job
        self._daemon = daemon
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Have it end; without effect where it has."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        trouble: BaseException | None = None
        try:
            self._task = self._loop.create_task(self._job())
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except BaseException as met:  # noqa: BLE001 - told to the daemon, which starts it again
            trouble = met
        finally:
            self._loop.run_until_complete(_end_all())
            self._loop.close()
        with suppress(RuntimeError):
            self._daemon.call_soon_threadsafe(self._tell, trouble)

    def _tell(self, trouble: BaseException | None) -> None:
        if self.ended.done():
            return
        if trouble is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(trouble)


async def _end_all() -> None:
    """End what requests and streams have left running on this loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=1)
