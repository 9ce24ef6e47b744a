"""What every entrance does with what is sent to it: one rule for HTTP and for links between hosts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from wake_bridge.domain.errors import LedgerError
from wake_bridge.domain.names import Identity
from wake_bridge.domain.signed_wakes import NotHere
from wake_bridge.domain.values import dataclass
from wake_bridge.ports.ledger_records import Taken

if TYPE_CHECKING:
    from wake_bridge.schemas.incoming import Incoming

Value = TypeVar("Value")

MOST_BYTES: Final = 64 * 1024
"""Bytes of a body."""

PATIENCE: Final = 10.0
"""Seconds that the daemon has to write a wake down."""

AGAIN: Final = "5"
"""Seconds after which a sender is asked to try again."""


class RequestRefused(Exception):
    """A request that is not taken: the HTTP status, why, the field that is wrong, and the seconds after which to try again."""

    def __init__(self, status: int, error: str, field: str = "", again: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.field = field
        self.again = again


class TakeIn(Protocol):
    """Hands a verified wake to the daemon."""

    async def __call__(self, sender: str, wake: Incoming, body: str) -> Taken:
        """What it was; on disk. Raises `NotHere` or `LedgerError`."""


@dataclass(frozen=True, slots=True)
class WakeAccepted:
    """A wake that is on disk: new, or known by its eventId."""

    event_id: str
    is_new: bool

    @property
    def status(self) -> int:
        """As HTTP says it."""
        return 202 if self.is_new else 200

    @property
    def record(self) -> dict[str, str]:
        """As it is answered."""
        return {"status": "accepted" if self.is_new else "known", "eventId": self.event_id}


def incoming(body: bytes) -> Incoming:
    """Read a wake. Raises `RequestRefused`."""
    from wake_bridge.schemas.incoming import NotAWake, read_wake  # noqa: PLC0415 - models, for who is sent wakes

    if len(body) > MOST_BYTES:
        raise RequestRefused(413, f"the body is larger than {MOST_BYTES} bytes")
    try:
        return read_wake(body)
    except NotAWake as wrong:
        raise RequestRefused(422, wrong.why, wrong.field) from None


async def accepted(
    wake: Incoming, body: bytes, sender: str, may_wake: Callable[[Identity], bool], take_in: TakeIn
) -> WakeAccepted:
    """Take a wake in whose signature holds; what this answers is on disk.

    Args:
        wake: what it says.
        body: the bytes that were signed.
        sender: whose signature it bears.
        may_wake: whom the sender may wake.
        take_in: hands it to the daemon.

    Raises:
        RequestRefused: it was not taken.
    """
    identity = Identity(wake.agent_identity)
    if not may_wake(identity):
        raise RequestRefused(403, f"{sender} may not wake {identity}", "agentIdentity")
    taken = await taken_in_time(take_in(sender, wake, hashlib.sha256(body).hexdigest()), identity, "agentIdentity")
    if taken is Taken.OTHER_BODY:
        raise RequestRefused(409, "this eventId was used before with another body", "eventId")
    return WakeAccepted(wake.event_id, is_new=taken is Taken.NEW)


async def taken_in_time(work: Awaitable[Value], identity: Identity, field: str) -> Value:
    """What the daemon answers in `PATIENCE` seconds; `field` names the identity. Raises `RequestRefused`."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except NotHere as nobody:
        if nobody.is_starting:
            raise RequestRefused(503, "the daemon is starting", again=AGAIN) from None
        raise RequestRefused(404, f"{identity} is not on this host: it has no target and no pane", field) from None
    except LedgerError as trouble:
        raise RequestRefused(503, trouble.what, again=AGAIN) from None
    except TimeoutError:
        raise RequestRefused(503, "the daemon is busy", again=AGAIN) from None
