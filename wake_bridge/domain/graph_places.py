"""Where a graph lies: in a file, or in a PostgreSQL database that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from wake_bridge.domain.values import dataclass

SCHEMES: Final = ("postgresql://", "postgres://")
LOCAL_HOSTS: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
_SECRETS: Final = frozenset({"password", "sslpassword"})
_DEFAULT_PORT: Final = "5432"


@dataclass(frozen=True, slots=True)
class GraphUrl:
    """A PostgreSQL database, as libpq's connection URL names it; never with a password.

    Raises:
        ValueError: it is no such URL, or holds a password; says what to do.
    """

    text: str

    def __post_init__(self) -> None:
        """Judge it."""
        if not self.text.startswith(SCHEMES):
            raise ValueError("is no URL of PostgreSQL: it begins with postgresql://")
        try:
            parts = self._parts
            asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            # what is wrong may be the password: nothing of it is told
            raise ValueError("is no URL of PostgreSQL that can be read") from None
        is_told = parts.password is not None or any(name.lower() in _SECRETS for name, _ in asked)
        if is_told or _is_cut_short(parts):
            raise ValueError(
                "holds a password, which everybody who reads the file or looks at the processes would see:"
                " take it out and put it into ~/.pgpass (chmod 600), as HOST:PORT:DATABASE:USER:PASSWORD"
            )

    def __str__(self) -> str:
        """For people, logs and answers: there is nothing secret in it."""
        return self.text

    @property
    def options(self) -> dict[str, str]:
        """What stands behind the `?`."""
        return dict(parse_qsl(self._parts.query, keep_blank_values=True))

    @property
    def is_local(self) -> bool:
        """Whether every host that it names is this machine: then there is no network to be secured."""
        return all(one.startswith("/") or one in LOCAL_HOSTS for one in self._hosts)

    @property
    def key(self) -> str:
        """The same for every way to write the same hosts, ports and database."""
        parts, options = self._parts, self.options
        database = options.get("dbname") or unquote(parts.path.lstrip("/")) or parts.username or ""
        service = options.get("service", "")
        ports = options.get("port") or ",".join(
            (one.rpartition(":")[2] if _has_port(one) else _DEFAULT_PORT) for one in _netloc(parts).split(",")
        )
        return "|".join((",".join(self._hosts), ports, database, service))

    @property
    def _parts(self) -> SplitResult:
        # libpq knows no fragment: to it `#` is a character as any other, also in a password
        return urlsplit(self.text.replace("#", "%23"))

    @property
    def _hosts(self) -> list[str]:
        parts = self._parts
        told = self.options.get("host")
        if told is not None:
            return told.split(",")
        if self.options.get("service"):
            # what the service file names is not known here: it is taken for another machine
            return [f"service {self.options['service']}"]
        hosts = (one.rpartition(":")[0] if _has_port(one) else one for one in _netloc(parts).split(","))
        return [unquote(one.strip("[]")) for one in hosts]


def _netloc(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _is_cut_short(parts: SplitResult) -> bool:
    """Whether a password with `/` or `?` in it was cut there: its beginning is taken for a port, and its `@` stands behind the host."""
    ports = [one.rpartition(":")[2] for one in _netloc(parts).split(",") if _has_port(one)]
    if all(one.isdecimal() or not one for one in ports):
        # the name of a database may have an `@`, but no `/` behind it
        return bool(ports) and "/" in parts.path.partition("@")[2]
    return "@" in parts.path + parts.query


def _has_port(host: str) -> bool:
    return ":" in host and not host.endswith("]")


GraphPlace = Path | GraphUrl
"""Where a graph lies."""


def graph_place(text: str) -> GraphPlace:
    """What was written down with `str` of a place. Raises `ValueError`."""
    return GraphUrl(text) if text.startswith(SCHEMES) else Path(text)
