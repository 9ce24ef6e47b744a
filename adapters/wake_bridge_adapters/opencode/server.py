"""The server of one OpenCode program: where it listens, whether it is really that program, and its answers.

`opencode --port N` listens on the loopback, in the process that shows the screen. Nothing is sent to whoever else may
listen at that port: the system is asked whose it is before the first byte.

Its streams of events (`/event`) are not used: each that was ever opened stays a listener in 1.18.33, and from the ninth on
the program writes a warning across its person's screen. Another stream, `/api/event`, does not tell how a turn stands.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from wake_bridge.domain.values import dataclass
from wake_bridge_adapters.loopback import Listener, listens_alone
from wake_bridge_adapters.recorded import AnswerLost, Declined, NotThere, Program

if TYPE_CHECKING:
    import httpx2

NOT_INSTALLED: Final = "httpx2 is not installed: `pip install 'wake-bridge[opencode]'`"

_USER: Final = "opencode"
"""Whom the server asks for where it has a password; `OPENCODE_SERVER_USERNAME` names another."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the server asks for where it has a password; without one nothing is sent."""

    user: str = _USER
    password: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Credentials:
        """As OpenCode's own clients find them."""
        user = environment.get("OPENCODE_SERVER_USERNAME") or _USER
        return cls(user, environment.get("OPENCODE_SERVER_PASSWORD", ""))


class _Stranger(Exception):
    """Another program has the other end."""


class OpenCodeServer:
    """A server that was asked who it is, and is asked again over the same connections."""

    def __init__(self, program: Program, at: Listener, credentials: Credentials, timeout: float) -> None:
        self.program = program
        self.version = ""
        self._at = at
        self._credentials = credentials
        self._timeout = timeout
        self._client: httpx2.AsyncClient | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may still be asked."""
        return self._life is not None and not self._life.done()

    async def open(self, versions: Sequence[str]) -> None:
        """Ask who it is.

        Raises:
            NotThere: it is none of the known ones, or does not let us in.
        """
        is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(versions, is_open), name="opencode server")
        try:
            async with asyncio.timeout(self._timeout):
                await is_open
        except TimeoutError:
            raise NotThere(f"the server at {self._where} does not answer") from None
        finally:
            if not is_open.done() or is_open.cancelled() or is_open.exception() is not None:
                self.close()

    def close(self) -> None:
        """End it now."""
        if self._life is not None:
            self._life.cancel()

    async def get(self, path: str, **parameters: str) -> Any:
        """What the server answers.

        Raises:
            AnswerLost: nothing that can be read, in time.
            Declined: the answer is an error.
        """
        answer = await self._asked("GET", path, params=parameters)
        try:
            return answer.json()
        except ValueError:
            raise AnswerLost(f"the server answers {path} with no JSON") from None

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Have it do something. Raises `AnswerLost` and `Declined`."""
        await self._asked("POST", path, json=body)

    @property
    def _where(self) -> str:
        host, port = self._at
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def _asked(self, method: str, path: str, **told: Any) -> httpx2.Response:
        import httpx2  # noqa: PLC0415 - an extra: what is not installed must not be missed at the start

        if self._client is None or not self.is_open:
            raise AnswerLost("the connection to its server has ended")
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._client.request(method, path, extensions={"trace": self._known_only}, **told)
        except TimeoutError:
            raise AnswerLost(f"its server did not answer {path} in time") from None
        except (httpx2.HTTPError, _Stranger) as gone:
            self.close()
            raise AnswerLost(f"the connection to its server has ended: {gone}") from gone
        if answer.status_code >= 400:  # noqa: PLR2004 - an error of HTTP
            raise Declined(f"{answer.status_code} {_worded(answer.text)}".strip(), answer.status_code)
        return answer

    async def _known_only(self, event: str, told: Mapping[str, Any]) -> None:
        """Before a byte goes out over a new connection: it must be to that program."""
        if event != "connection.connect_tcp.complete":
            return
        if not await asyncio.to_thread(listens_alone, self.program.pid, self._at):
            await told["return_value"].aclose()
            raise _Stranger(f"another program answers at {self._where}")

    async def _live(self, versions: Sequence[str], is_open: asyncio.Future[None]) -> None:
        """Hold the client, until it is closed or the event loop ends."""
        import httpx2  # noqa: PLC0415 - see above

        auth = httpx2.BasicAuth(self._credentials.user, self._credentials.password)
        try:
            async with httpx2.AsyncClient(
                base_url=f"http://{self._where}",
                auth=auth if self._credentials.password else None,
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout,
            ) as client:
                self._client = client
                self.version = await self._introduced(versions)
                is_open.set_result(None)
                await asyncio.get_running_loop().create_future()
        except (httpx2.HTTPError, _Stranger, AnswerLost, Declined) as gone:
            if not is_open.done():
                is_open.set_exception(NotThere(str(gone)))
        except NotThere as stranger:
            if not is_open.done():
                is_open.set_exception(stranger)

    async def _introduced(self, versions: Sequence[str]) -> str:
        """The version, of a known one. Raises `NotThere`."""
        try:
            said = await self.get("/global/health")
        except Declined as no:
            if no.status == 401:  # noqa: PLR2004 - it wants a password
                raise NotThere("its server has a password: set OPENCODE_SERVER_PASSWORD for the daemon too") from no
            raise NotThere(f"what listens at {self._where} is no known server of OpenCode: {no}") from no
        version = str(said.get("version", "")) if isinstance(said, dict) and said.get("healthy") is True else ""
        if not any(version == one or version.startswith(f"{one}.") for one in versions):
            raise NotThere(
                f"its server is OpenCode {version or 'of an unknown version'}, not one of {', '.join(versions)}"
            )
        return version


def _worded(text: str) -> str:
    """What an error says of itself, as far as it can be printed."""
    with suppress(ValueError):
        said = json.loads(text)
        text = str((said.get("data") or {}).get("message") or said.get("name") or said.get("_tag") or "")
    return "".join(letter for letter in text if letter.isprintable())[:200]


async def connect(
    program: Program, at: Listener, credentials: Credentials, versions: Sequence[str], timeout: float
) -> OpenCodeServer:
    """Open a connection to what a program has at an address; `timeout` is of one call. Raises `NotThere`."""
    # the library takes a second, in which nobody else may be kept waiting
    await asyncio.to_thread(_load)
    server = OpenCodeServer(program, at, credentials, timeout)
    await server.open(versions)
    return server


def _load() -> None:
    import_module("httpx2")
    for chatty in ("httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
