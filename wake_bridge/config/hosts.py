"""Other hosts: those that this one links to, and those that link here, with the key of each link; in a file of the user's own."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Final

from wake_bridge.config.private_file import LONGEST, PrivateFile
from wake_bridge.config.source_tokens import has_source_tokens
from wake_bridge.domain.names import Identity, is_identity
from wake_bridge.domain.receivers import Secret
from wake_bridge.domain.values import dataclass
from wake_bridge.system.files import read_own_file, replace_file

HOSTS_FILE: Final = "hosts.json"
AGENTS_FILE: Final = "hosts-agents.json"
"""Who was seen to live on which other host: written by the daemon, so that a host that is away is still known to have them."""

_UNUSABLE: Final = (
    "make this user its owner, with nobody else's access; what is no JSON must be removed, and each host added anew"
)


@dataclass(frozen=True, slots=True)
class LinkedHost:
    """A host that this one keeps a link to.

    `destination` is what ssh is given, `program` how wake-bridge is called there, empty where it is on the PATH. `link` is the name
    by which the host knows us, `key` signs the wakes.
    """

    name: str
    destination: str
    link: str
    key: Secret
    program: str = ""


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """All of them. `incoming` are the links that other hosts keep to this one: the key of each, by its name.

    `own` is the name by which all other hosts know this one, empty before the first link: what one knows under it is known for ever.
    """

    linked: Mapping[str, LinkedHost] = field(default_factory=dict)
    incoming: Mapping[str, Secret] = field(default_factory=dict)
    own: str = ""


class HostsFile(PrivateFile[KnownHosts]):
    """The hosts of a state directory.

    Args:
        directory: the state directory.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / HOSTS_FILE, _read, KnownHosts(), what="the list of hosts", hint=_UNUSABLE)

    def own_name(self, unique: str) -> str:
        """By which name other hosts know this one; made at the first call, out of the host's name and `unique`.

        Raises:
            OperationFailed: the file cannot be read or written.
        """
        with self.alone():
            known = self.known()
            if not known.own:
                known = replace(known, own=_own_name(unique))
                self._write(known)
        return known.own

    def put(self, host: LinkedHost) -> None:
        """Add a host, or replace the one of that name. Raises `OperationFailed`."""
        with self.alone():
            known = self.known()
            self._write(replace(known, linked={**known.linked, host.name: host}))

    def forget(self, name: str) -> bool:
        """Forget a host; answers whether there was one. Raises `OperationFailed`."""
        with self.alone():
            known = self.known()
            self._write(replace(known, linked={one: host for one, host in known.linked.items() if one != name}))
        return name in known.linked

    def let_in(self, link: str, key: Secret) -> None:
        """Let a link of another host send wakes here, signed by its key. Raises `OperationFailed`."""
        with self.alone():
            known = self.known()
            self._write(replace(known, incoming={**known.incoming, link: key}))

    def shut_out(self, link: str) -> bool:
        """Take nothing in any more that a link signs; answers whether it was let in. Raises `OperationFailed`."""
        with self.alone():
            known = self.known()
            self._write(replace(known, incoming={one: key for one, key in known.incoming.items() if one != link}))
        return link in known.incoming

    def _write(self, known: KnownHosts) -> None:
        tree = {
            "linked": {name: asdict(one) | {"key": one.key.reveal()} for name, one in sorted(known.linked.items())},
            "own": known.own,
            "incoming": {name: key.reveal() for name, key in sorted(known.incoming.items())},
        }
        self.write(json.dumps(tree, indent=1))


def agents_of_hosts(directory: Path) -> dict[str, tuple[Identity, ...]]:
    """Who was seen to live on each linked host; what cannot be read is forgotten. Never raises."""
    try:
        tree = json.loads(read_own_file(directory / AGENTS_FILE, LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(tree, dict):
        return {}
    return {
        host: tuple(Identity(one) for one in agents if isinstance(one, str) and is_identity(one))
        for host, agents in tree.items()
        if isinstance(agents, list)
    }


def note_agents_of_hosts(directory: Path, agents: Mapping[str, Sequence[Identity]]) -> None:
    """Write it down. Raises `OSError`."""
    replace_file(directory / AGENTS_FILE, json.dumps({host: [*theirs] for host, theirs in sorted(agents.items())}))


def links_into(directory: Path) -> tuple[str, ...]:
    """The links that are let in; what cannot be read lets nobody in. Never raises."""
    try:
        return tuple(HostsFile(directory).now().incoming)
    except OSError:
        return ()


def has_only_links(directory: Path, *, has_senders: bool) -> bool:
    """Whether wakes come over links alone: then nothing has to listen anywhere. Never raises."""
    return bool(links_into(directory)) and not has_senders and not has_source_tokens(directory)


def host_of_agent(directory: Path, identity: str) -> str:
    """The linked host where an identity was seen to live; empty where none says so. Never raises."""
    return next((host for host, theirs in agents_of_hosts(directory).items() if identity in theirs), "")


def _own_name(unique: str) -> str:
    """Two laptops may have the same host name."""
    name = "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "-" for one in socket.gethostname())
    return f"{name[:40].strip('-_') or 'host'}-{unique[-6:].lower()}"


def _read(text: bytes) -> KnownHosts:
    try:
        tree: Any = json.loads(text)
        return KnownHosts(
            {
                name: LinkedHost(
                    name,
                    str(one["destination"]),
                    str(one["link"]),
                    Secret(str(one["key"])),
                    str(one.get("program", "")),
                )
                for name, one in tree.get("linked", {}).items()
            },
            {name: Secret(str(key)) for name, key in tree.get("incoming", {}).items()},
            str(tree.get("own", "")),
        )
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as broken:
        raise OSError(22, f"it is no list of hosts ({type(broken).__name__})") from broken
