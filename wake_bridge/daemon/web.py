"""The daemon's addresses on the web: the configured one, and one of the page's own on this host, from when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from wake_bridge.config.senders import has_page
from wake_bridge.config.settings import HTTP_NEEDS, Settings, listen_address, senders_of
from wake_bridge.config.source_tokens import SourceTokens
from wake_bridge.control.server import ASKING, Handler
from wake_bridge.domain.errors import OperationFailed, RefusedForSafety
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.system.ancestry import Ancestry, Homes, names_of_harnesses, processes_above, started_at
from wake_bridge.system.files import read_own_file, replace_file
from wake_bridge.wiring import Parts

if TYPE_CHECKING:
    from wake_bridge.http.server import Inbox, WebServer
    from wake_bridge.http.tokens import PageTokens

PAGE_FILE: Final = "page.listen"
"""Where it stands at which address the page was opened: a restarted daemon has it there again."""

_LOCAL: Final = "127.0.0.1"


class Web:
    """Serves what comes by HTTP: signed wakes where the settings say so, and the page on this host alone.

    The page is at the configured address if that is one of this host, without TLS and without a proxy before it; else at an
    address of its own, from the first `open` on. It has one of its own also where the configured one is a Unix socket, which
    no browser can open; there programs ask.

    Args:
        parts: the running daemon.
        settings: as they were at the start.
        directory: the state directory.
        handlers: how the page asks the daemon.
    """

    def __init__(self, parts: Parts, settings: Settings, directory: Path, handlers: Mapping[str, Handler]) -> None:
        self._parts = parts
        self._settings = settings
        self._directory = directory
        self._handlers = handlers
        self._page_at: ListenAddress | None = None
        self._servers: list[WebServer] = []
        self._has_more = asyncio.Event()
        self._tokens_made: PageTokens | None = None
        self._log = structlog.get_logger("daemon")

    def start(self) -> None:
        """Take the configured address, and the one that the page had. Raises `OperationFailed` where the first is taken."""
        where = listen_address(self._settings)
        if where is not None:
            http = self._settings.config.http
            is_for_page = has_page(http, where)
            found = self._listen(where, is_for_wakes=True, is_for_page=is_for_page)
            self._log.info("http_listening", where=str(found), senders=sorted(http.senders))
            if is_for_page and not where.path:
                self._page_at = found
        if self._page_at is None and (before := self._page_before()) is not None and not _missing():
            with suppress(OperationFailed):
                self._open_page_at(before)

    async def run(self) -> None:
        """Answer until cancelled; raises what a server met. What is opened later is served as well."""
        async with asyncio.TaskGroup() as group:
            served = 0
            while True:
                for server in self._servers[served:]:
                    group.create_task(server.run())
                served = len(self._servers)
                self._has_more.clear()
                await self._has_more.wait()

    def close(self) -> None:
        """Give the addresses up."""
        for server in self._servers:
            server.close()

    def command_handlers(self) -> Mapping[str, Handler]:
        """What commands may ask."""
        return {"page": self._page}

    async def _page(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Where the page is, with a code that opens it once; or a token for a program, or the end of all of them."""
        self._require_person(ASKING.get())
        if missing := _missing():
            raise OperationFailed(
                f"there is no page: the extra `http` is not installed ({', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing)",
                hint="run `pip install 'wake-bridge[http]'`, then restart the daemon",
            )
        if self._page_at is None:
            self._open_page()
        tokens, where = self._tokens, f"http://{self._page_at}/"
        try:
            if request.get("signOut"):
                tokens.forget_all()
                return {"listen": where}
            if request.get("token"):
                return {"listen": where, "token": tokens.new_token()}
        except OSError as trouble:
            raise OperationFailed(
                f"the key of the page cannot be used ({trouble.strerror})", str(self._directory)
            ) from trouble
        return {"listen": where, "url": f"{where}#k={tokens.new_code()}"}

    def _require_person(self, pid: int) -> None:
        """An agent that asks past `open`, by the socket, gets no more than by it. Raises `RefusedForSafety`."""
        ledger = self._parts.ledger
        held = [(one.identity, one.fence) for one in ledger.claims() if one.fence and one.until is None]
        homes = Homes([*ledger.bindings().items(), *held], ledger.all_sessions())
        names = names_of_harnesses(self._settings.own_screens)
        who = Ancestry(processes_above(pid), names, {}, lambda _: True).invoker(homes)
        if who.is_person and started_at(pid):
            return
        raise RefusedForSafety(
            "the page is for a person: its buttons act for every agent",
            "" if who.is_person else who.told,
            hint="a person can do this in their own shell, outside any agent",
        )

    @property
    def _tokens(self) -> PageTokens:
        if self._tokens_made is None:
            from wake_bridge.http.tokens import PageTokens  # noqa: PLC0415 - an extra, that was looked for

            self._tokens_made = PageTokens(self._directory, self._parts.clock.wall)
        return self._tokens_made

    def _open_page(self) -> None:
        """Where it was before, else at a port that is free, which is remembered. Raises `OperationFailed`."""
        before = self._page_before()
        if before is not None:
            with suppress(OperationFailed):
                self._open_page_at(before)
                return
        self._open_page_at(ListenAddress(host=_LOCAL))
        with suppress(OSError):
            replace_file(self._directory / PAGE_FILE, f"{self._page_at}\n")

    def _open_page_at(self, where: ListenAddress) -> None:
        self._page_at = self._listen(where, is_for_wakes=False, is_for_page=True)
        self._log.info("http_listening", where=str(self._page_at), senders=[])

    def _page_before(self) -> ListenAddress | None:
        try:
            where = ListenAddress.parse(read_own_file(self._directory / PAGE_FILE).decode("ascii", "replace").strip())
        except (OSError, ValueError):
            return None
        return where if where.host == _LOCAL else None

    def _listen(self, where: ListenAddress, *, is_for_wakes: bool, is_for_page: bool) -> ListenAddress:
        from wake_bridge.http.server import WebServer  # noqa: PLC0415 - an extra, that was looked for

        server = WebServer(
            self._settings,
            where,
            senders_of(self._settings) if is_for_wakes else None,
            self._parts.signed.take,
            self._parts.clock.wall,
            state_dir=self._directory,
            tokens=self._tokens if is_for_page else None,
            ask=self._ask,
            inbox=self._inbox() if is_for_wakes else None,
        )
        found = server.bind()
        self._servers.append(server)
        self._has_more.set()
        return found

    def _inbox(self) -> Inbox:
        from wake_bridge.http.server import Inbox  # noqa: PLC0415 - an extra, that was looked for

        parts = self._parts
        return Inbox(
            SourceTokens(self._directory),
            lambda: parts.current.settings,
            parts.items.take,
        )

    async def _ask(self, command: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._handlers[command](request)


def _missing() -> list[str]:
    """What of the extra is not installed."""
    return [one for one in HTTP_NEEDS if find_spec(one) is None]
