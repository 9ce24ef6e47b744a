"""Senders of signed wakes: their keys, read from where the configuration says, and the mistakes in them."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wake_bridge.config.layers import Key, Mistake, spelled
from wake_bridge.domain.names import Identity
from wake_bridge.domain.signed_wakes import ListenAddress
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import expanded, read_own_file

if TYPE_CHECKING:
    from wake_bridge.config.fields import HttpTable

SHORTEST_KEY: Final = 24
"""Characters; ours have 50, upstream's 64."""

_LONGEST_FILE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ConfiguredSender:
    """One `[http.senders.NAME]`. Its keys are in the configuration, or in the file at `key_path`."""

    name: str
    identities: frozenset[Identity]
    legacy: bool
    key: str = ""
    key_path: Path | None = None

    def read_keys(self) -> tuple[str, ...]:
        """Its keys as they are now.

        Raises:
            OSError: the file cannot be read.
            ValueError: others may read it, or what stands there is no key; the text is a clause.
        """
        if self.key_path is None:
            keys: tuple[str, ...] = (self.key,)
        else:
            if is_open_to_others(self.key_path):
                raise ValueError(f"others may read {self.key_path}: run `chmod 600` on it")
            keys = tuple(read_own_file(self.key_path, _LONGEST_FILE).decode("ascii", "replace").split())
        if not keys or any(len(one) < SHORTEST_KEY or not one.isascii() for one in keys):
            raise ValueError(f"holds no key of at least {SHORTEST_KEY} characters, or something that is none")
        return keys


def senders_in(http: HttpTable, config_file: Path) -> list[ConfiguredSender]:
    """All of them; files are meant from the configuration's directory."""
    return [
        ConfiguredSender(
            name,
            frozenset(Identity(one) for one in table.identities),
            table.legacy,
            table.key.reveal() if table.key else "",
            config_file.parent / expanded(table.key_file) if table.key_file else None,
        )
        for name, table in http.senders.items()
    ]


def is_open_to_others(path: Path) -> bool:
    """Whether anybody but its owner may read or write a file. Raises `OSError`."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def http_mistakes(
    http: HttpTable, config_file: Path, source_files: Sequence[Path], origins: Mapping[Key, str]
) -> Iterator[Mistake]:
    """What is wrong with the senders' keys, and with the files that TLS needs."""
    whose: dict[str, str] = {}
    for sender in senders_in(http, config_file):
        key = ("http", "senders", sender.name)
        named = spelled((*key, "key_file" if sender.key_path else "key"))
        for why in _key_mistakes(sender, source_files, whose):
            yield Mistake(origins.get(key, str(config_file)), named, why)
    for name, text in (("tls_certificate_file", http.tls_certificate_file), ("tls_key_file", http.tls_key_file)):
        is_secret = name == "tls_key_file"
        if text and (why := _why_unreadable(config_file.parent / expanded(text), is_secret=is_secret)):
            yield Mistake(origins.get(("http", name), str(config_file)), f"http.{name}", why)


def _key_mistakes(sender: ConfiguredSender, files: Sequence[Path], whose: dict[str, str]) -> Iterator[str]:
    """What is wrong with the keys of one sender; `whose` are those of the others."""
    if sender.key_path is None and any(map(is_open_to_others, files)):
        yield "others may read this file: run `chmod 600` on it, or use key_file"
    try:
        keys = sender.read_keys()
    except OSError as refusal:
        yield f"{sender.key_path} cannot be read ({refusal.strerror})"
    except ValueError as wrong:
        yield str(wrong)
    else:
        others = {whose.setdefault(one, sender.name) for one in keys} - {sender.name}
        yield from (f"is the key of {one} as well: a key identifies its sender" for one in sorted(others))


def _why_unreadable(path: Path, *, is_secret: bool) -> str:
    try:
        path.open("rb").close()
        return f"others may read {path}: run `chmod 600` on it" if is_secret and is_open_to_others(path) else ""
    except OSError as refusal:
        return f"{path} cannot be read ({refusal.strerror})"


def has_page(http: HttpTable, where: ListenAddress) -> bool:
    """Whether the page is served at the address too: to this host alone, and without a proxy or TLS before it."""
    return where.is_local and not (http.tls_certificate_file or http.behind_proxy)
