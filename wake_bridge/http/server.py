"""The server of signed wakes: on a thread and a loop of its own, so that no client delays a wake."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Final

from wake_bridge.config.settings import Settings, listen_address, senders_of
from wake_bridge.domain.names import Instant
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.http.app import application
from wake_bridge.http.listener import Listener, tls_context
from wake_bridge.http.signatures import Signatures
from wake_bridge.ports.ledger_records import Taken
from wake_bridge.schemas.incoming import Incoming
from wake_bridge.system.files import expanded

ENDS_WITHIN: Final = 2.0
"""Seconds for requests under way when the daemon stops."""


class WakeServer:
    """Listens as the settings say.

    Args:
        settings: those of the daemon; they say where to listen.
        take_in: writes a verified wake down, on the daemon's own loop.
        wall: the wall clock.
    """

    def __init__(
        self,
        settings: Settings,
        take_in: Callable[[str, Incoming, str], Awaitable[Taken]],
        wall: Callable[[], Instant],
    ) -> None:
        where = listen_address(settings)
        if where is None:
            raise AssertionError("there is an address")
        self._settings = settings
        self._where = where
        self._take_in = take_in
        self._wall = wall
        http, beside = settings.config.http, settings.config_file.parent
        certificate, key = (beside / expanded(one) for one in (http.tls_certificate_file, http.tls_key_file))
        self._listener = Listener(where, tls_context(certificate, key) if http.tls_certificate_file else None)
        self._signatures = Signatures(senders_of(settings))

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

        async def take_in(sender: str, wake: Incoming, body: str) -> Taken:
            async def work() -> Taken:
                return await self._take_in(sender, wake, body)

            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), daemon))

        answer = application(self._signatures, take_in, self._hosts(), self._wall)
        own = _OwnThread(lambda: self._listener.serve(answer), daemon)
        own.start()
        try:
            await asyncio.shield(own.ended)
        finally:
            own.stop()
            await asyncio.wait({own.ended}, timeout=ENDS_WITHIN)

    def _hosts(self) -> set[str]:
        """By which names this host may be called."""
        names = {"localhost", *(one.lower() for one in self._settings.config.http.hosts)}
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
