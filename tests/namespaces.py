"""Hosts in miniature: network namespaces with cables between them, which can be cut in every way that a network fails."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
from typing import Self

import pytest

from wake_bridge.demo.sandbox import end_process_with_us

_OWN = "v0"
"""The end of a cable that is not in number 0."""


class Cut(enum.Enum):
    """In which way nothing gets through; only with `OWN_DOWN` is anybody told."""

    PULLED = "cable pulled"
    OWN_DOWN = "own interface down"
    SILENT = "all packets dropped"
    UNHEARD = "what it sends dropped"
    UNANSWERED = "answers dropped"


def are_possible() -> bool:
    """Whether this machine and user can cut a cable in each way, with a server in a namespace that refuses root."""
    programs = ("ip", "iptables", "nsenter", "setpriv", "unshare")
    return os.geteuid() == 0 and all(shutil.which(one) for one in programs)


class Cable:
    """Leads from one namespace to number 0.

    Attributes:
        address: of number 0, as seen from there.
        prefix: runs a program there.
    """

    def __init__(self, namespaces: Namespaces, number: int) -> None:
        self.address = f"10.99.{6 + number}.1"
        self.prefix = namespaces.prefix(number)
        self._namespaces = namespaces
        self._ends = ((0, f"v{number}"), (number, _OWN))
        self._way = Cut.PULLED

    def cut(self, way: Cut = Cut.PULLED) -> None:
        """Nothing gets through any more."""
        self._way = way
        self._change(is_cut=True)

    def mend(self) -> None:
        """All gets through again, also what is sent once more by then."""
        self._change(is_cut=False)

    def _change(self, *, is_cut: bool) -> None:
        hub, own = self._ends
        if self._way in {Cut.PULLED, Cut.OWN_DOWN}:
            number, name = hub if self._way is Cut.PULLED else own
            self._namespaces.run(number, "ip", "link", "set", name, "down" if is_cut else "up")
            return
        at = {Cut.SILENT: (hub, own), Cut.UNHEARD: (hub,), Cut.UNANSWERED: (own,)}[self._way]
        for number, name in at:
            rule = ("INPUT", "-i", name, "-j", "DROP")
            self._namespaces.run(number, "iptables", "--wait", "--insert" if is_cut else "--delete", *rule)


class Namespaces:
    """Network namespaces, number 0 with a cable to each of the others; `prefix` runs a program in one of them.

    Args:
        others: how many there are beside number 0; they are numbers 1 and up.
    """

    def __init__(self, others: int = 1) -> None:
        self._as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        self._holders: list[subprocess.Popen[bytes]] = []
        self._others = others
        self.cables: list[Cable] = []
        """Of each of the others, in order."""

    def __enter__(self) -> Self:
        self._hold(["unshare", "--net", *self._as_root])
        for number in range(1, self._others + 1):
            self._hold([*self.prefix(0), "unshare", "--net"])
            hub = f"v{number}"
            peer = ("peer", "name", _OWN, "netns", str(self._holders[number].pid))
            self.run(0, "ip", "link", "add", hub, "type", "veth", *peer)
            for end, (where, name) in enumerate(((0, hub), (number, _OWN)), start=1):
                self.run(where, "ip", "address", "add", f"10.99.{6 + number}.{end}/24", "dev", name)
                self.run(where, "ip", "link", "set", "lo", "up")
                self.run(where, "ip", "link", "set", name, "up")
            self.cables.append(Cable(self, number))
        return self

    def _hold(self, prefix: list[str]) -> None:
        # what is executed keeps the process, whose number names the namespace
        holder = subprocess.Popen([*prefix, "sh", "-c", "echo; exec sleep 7200"], stdout=subprocess.PIPE)
        self._holders.append(holder)
        end_process_with_us(holder.pid)
        assert holder.stdout is not None
        if not holder.stdout.readline():
            pytest.skip("this kernel lets us make no network namespace")

    def prefix(self, number: int) -> list[str]:
        """What stands before a command to run it there."""
        user = ["--user", "--preserve-credentials"] if self._as_root else []
        return ["nsenter", "--target", str(self._holders[number].pid), "--net", *user]

    def run(self, number: int, *command: str) -> None:
        """A command there, which must succeed."""
        subprocess.run([*self.prefix(number), *command], check=True, capture_output=True)

    def __exit__(self, *_: object) -> None:
        for one in self._holders:
            one.kill()
            one.wait()
            if one.stdout is not None:
                one.stdout.close()
