"""Which addresses may be posted to: a URL in a graph must not reach what only this machine can reach."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from threading import Thread
from typing import Final

from wake_bridge.domain.values import dataclass

IPAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_TRANSLATED: Final = ip_network("64:ff9b::/96")
"""NAT64: the last four bytes are an IPv4 address."""

_UNICAST: Final = ip_network("2000::/3")
"""All of IPv6 that is given out; the rest is reserved, or no host's."""

_REFUSED: Final = tuple(
    ip_network(text)
    for text in (
        "3fff::/20",  # documentation
        "100.64.0.0/10",  # carrier-grade NAT
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays, deprecated
    )
)

_HOST: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")

_LOOKED_UP_AT_ONCE: Final = 32
"""Names that are looked up at once: a resolver that hangs must not keep the others waiting."""


class Forbidden(Exception):
    """An address that may not be posted to; says what would allow it."""


class Unresolved(Exception):
    """A name that leads to no address now."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What `[adapters.webhook] allow` allows besides the public addresses: networks, and hosts by name."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entries: Sequence[str]) -> Allowed:
        """Read the entries; what is no network is a name."""
        networks: list[Network] = []
        hosts: set[str] = set()
        for entry in entries:
            try:
                networks.append(ip_network(entry))
            except ValueError:
                hosts.add(_plain(entry))
        return cls(tuple(networks), frozenset(hosts))

    def has_host(self, host: str) -> bool:
        """Whether a host is allowed by its own name, or as an address."""
        return _plain(host) in self.hosts or ((address := literal(host)) is not None and self.has(address))

    def has(self, address: IPAddress) -> bool:
        """Whether an address lies in one of the networks."""
        meant = _meant(address)
        return any(
            one.version == network.version and one in network for one in {address, meant} for network in self.networks
        )


def why_not_allowed(entry: str) -> str:
    """Why an entry of `allow` means nothing, one clause; empty where it means a network or a host."""
    if "/" in entry:
        try:
            ip_network(entry)
        except ValueError as wrong:
            return f"is no network ({wrong})" if "://" not in entry else "is a URL: write its host"
        return ""
    if literal(entry) is not None:
        return ""
    return "" if _HOST.fullmatch(entry) else "is neither a network nor a host name"


def literal(host: str) -> IPAddress | None:
    """The address that a host is written as; None for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def why_refused(address: IPAddress) -> str:
    """What kind of address it is that nobody outside could reach; empty for a public one."""
    if isinstance(address, IPv6Address):
        if address.scope_id:
            return "link-local"
        if (inner := _meant(address)) is not address:
            return why_refused(inner)
    for kind in ("is_loopback", "is_link_local", "is_multicast", "is_unspecified", "is_private"):
        if getattr(address, kind):
            return kind.removeprefix("is_").replace("_", "-")
    if any(address.version == network.version and address in network for network in _REFUSED):
        return "reserved"
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return "reserved"
    return "" if address.is_global else "not public"


def _meant(address: IPAddress) -> IPAddress:
    """The IPv4 address inside one of IPv6; else the address itself."""
    if not isinstance(address, IPv6Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").casefold()


def require_public(host: str, addresses: Sequence[IPAddress], allowed: Allowed) -> None:
    """Raise `Forbidden` where one of a host's addresses is not public, and neither it nor the host is allowed."""
    if allowed.has_host(host):
        return
    for address in addresses:
        kind = "" if allowed.has(address) else why_refused(address)
        if kind:
            where = host if literal(host) is not None else f"{host} leads to {address}, which"
            raise Forbidden(f'{where} is {kind}: `[adapters.webhook] allow = ["{host}"]` allows it')


class NameLookup:
    """Looks names up, so many at once, each on a thread of its own that nobody waits for at the end of the process."""

    def __init__(self) -> None:
        self._permits = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)

    async def addresses_of(self, host: str, port: int) -> list[IPAddress]:
        """All addresses of a host, in the system's order. Raises `Unresolved`."""
        if (address := literal(host)) is not None:
            return [address]
        try:
            found = await self._look_up(host, port)
        except (OSError, UnicodeError) as unknown:
            raise Unresolved(f"the name {host} does not resolve: {unknown}") from unknown
        addresses = list(dict.fromkeys(ip_address(text) for text in found))
        if not addresses:
            raise Unresolved(f"the name {host} does not resolve")
        return addresses

    async def _look_up(self, host: str, port: int) -> list[str]:
        await self._permits.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def tell(found: list[str], trouble: Exception | None) -> None:
            self._permits.release()
            if answer.done():
                return
            if trouble is None:
                answer.set_result(found)
            else:
                answer.set_exception(trouble)

        def work() -> None:
            found, trouble = [], None
            try:
                found = _look_up(host, port)
            except Exception as raised:  # noqa: BLE001 - who waits raises it
                trouble = raised
            # the loop may have ended meanwhile
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, found, trouble)

        # one that hangs keeps its permit until it ends
        Thread(target=work, name="webhook-names", daemon=True).start()
        return await answer


def _look_up(host: str, port: int) -> list[str]:
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in answers if isinstance(address[0], str)]
