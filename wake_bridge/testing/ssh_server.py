"""A real sshd of its own, on loopback or in a network namespace, with keys of its own; and an `ssh` that knows it alone."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from wake_bridge.demo.sandbox import Sandbox, end_process_with_us
from wake_bridge.testing import HUNG

SSHD_PLACES: Final = ("/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd")
HOST: Final = "devbox"


def sshd_program() -> str | None:
    """Where sshd is; None where it is not installed."""
    return shutil.which("sshd") or next((one for one in SSHD_PLACES if os.access(one, os.X_OK)), None)


class SshServer:
    """One sshd, and how a sandbox reaches it by `ssh devbox`. A context manager that ends it.

    Nothing outside `directory` is read or written: neither `~/.ssh` nor the system's configuration.

    Args:
        directory: an empty directory of its own.
        address: where it listens.
        prefix: words before the command of the server, as to start it in a network namespace.
        noise: what the login shell over there prints before anything else.
    """

    def __init__(
        self, directory: Path, address: str = "127.0.0.1", prefix: Sequence[str] = (), noise: str = ""
    ) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self.address = address
        self.port = _free_port()
        self._prefix = tuple(prefix)
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)],  # noqa: S607
                check=True,
            )
        shutil.copy(directory / "user_key.pub", directory / "authorized_keys")
        (directory / "authorized_keys").chmod(0o600)
        shell = directory / "shell"
        shell.write_text(f'#!/bin/sh\nprintf %s {shlex.quote(noise)}\neval "$SSH_ORIGINAL_COMMAND"\n', encoding="utf-8")
        shell.chmod(0o755)
        (directory / "sshd_config").write_text(
            f"ListenAddress {address}\nPort {self.port}\nHostKey {directory}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {directory}/authorized_keys\nPasswordAuthentication no\nUsePAM no\nStrictModes no\n"
            f"PermitRootLogin yes\nPrintMotd no\nForceCommand {shell}\n",
            encoding="utf-8",
        )
        self.start()

    def start(self) -> None:
        """Listen."""
        program = sshd_program()
        if program is None:
            raise RuntimeError("sshd is not installed")
        if os.geteuid() == 0:
            # root's sshd refuses to work without it, and nothing else makes it where no service was started
            Path("/run/sshd").mkdir(exist_ok=True)
        with (self._directory / "sshd.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._prefix, program, "-D", "-e", "-f", str(self._directory / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end_process_with_us(self._process.pid)
        deadline = time.monotonic() + HUNG
        while b"Server listening" not in (self._directory / "sshd.log").read_bytes():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"sshd does not listen:\n{(self._directory / 'sshd.log').read_text()}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """The process that listens."""
        if self._process is None:
            raise RuntimeError("it does not run")
        return self._process.pid

    def reached_from(self, sandbox: Sandbox, *options: str, host: str = HOST, port: int | None = None) -> None:
        """Let `ssh devbox` in a sandbox lead here: an `ssh` stands first on its PATH that reads a configuration of its own.

        Args:
            sandbox: whose.
            options: further lines of the configuration of ssh.
            host: how the sandbox calls this server.
            port: where it is reached instead, as through something that can be cut.
        """
        port = port or self.port
        home = sandbox.home / ".ssh"
        home.mkdir(mode=0o700, exist_ok=True)
        key = " ".join((self._directory / "host_key.pub").read_text(encoding="ascii").split()[:2])
        with (home / "known_hosts").open("a", encoding="ascii") as known:
            known.write(f"[{self.address}]:{port} {key}\n")
        lines = [
            f"Host {host}",
            f"HostName {self.address}",
            f"Port {port}",
            f"IdentityFile {self._directory}/user_key",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {home}/known_hosts",
            "GlobalKnownHostsFile /dev/null",
            *options,
        ]
        with (home / "config").open("a", encoding="utf-8") as config:
            config.write("\n  ".join(lines) + "\n")
        programs = sandbox.home / "programs"
        programs.mkdir(exist_ok=True)
        real = shutil.which("ssh")
        (programs / "ssh").write_text(f'#!/bin/sh\nexec {real} -F {home}/config "$@"\n', encoding="utf-8")
        (programs / "ssh").chmod(0o755)
        first = f"{programs}:"
        if not sandbox.environment["PATH"].startswith(first):
            sandbox.environment["PATH"] = first + sandbox.environment["PATH"]

    def close(self) -> None:
        """End it; connections that are open go on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(HUNG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def program_in(sandbox: Sandbox) -> str:
    """What `hosts add --program` is told: wake-bridge as the sandbox has it, for a shell that knows nothing of it."""
    named = (f"{name}={value}" for name, value in sandbox.environment.items())
    return " ".join(map(shlex.quote, ["env", "-i", *named, *sandbox.command]))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
