"""Two hosts in miniature: network namespaces with a cable between them."""

from __future__ import annotations

import os
import subprocess
from typing import Self

import pytest

from wake_bridge.demo.sandbox import end_process_with_us


class Namespaces:
    """Two network namespaces with a cable between them; `prefix` runs a program in one of them."""

    def __init__(self) -> None:
        self._as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        self._holders: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._hold(["unshare", "--net", *self._as_root])
        self._hold([*self.prefix(0), "unshare", "--net"])
        self.run(0, "ip", "link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", str(self._holders[1].pid))
        for number, name in enumerate(("va", "vb")):
            self.run(number, "ip", "address", "add", f"10.99.7.{number + 1}/24", "dev", name)
            self.run(number, "ip", "link", "set", "lo", "up")
            self.run(number, "ip", "link", "set", name, "up")
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
        user = ["--user", "--preserve-credentials"] if self._as_root else []
        return ["nsenter", "--target", str(self._holders[number].pid), "--net", *user]

    def run(self, number: int, *command: str) -> None:
        subprocess.run([*self.prefix(number), *command], check=True, capture_output=True)

    def cable(self, state: str) -> None:
        self.run(0, "ip", "link", "set", "va", state)

    def __exit__(self, *_: object) -> None:
        for one in self._holders:
            one.kill()
            one.wait()
            if one.stdout is not None:
                one.stdout.close()
