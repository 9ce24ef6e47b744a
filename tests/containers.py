"""A container of one's own by podman: the machine's programs in a root of its own, with nobody there yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil
import pytest

from tests.programs import cannot, needs
from wake_bridge.testing import until

ROOT: Final = Path(__file__).parents[1]
_MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64")
_MADE: Final = ("etc", "proc", "sys", "dev", "tmp", "run", "usr")

# a place of its own for all that podman keeps, and limits that a process without CAP_SYS_RESOURCE may set
_SETTINGS: Final = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
"""


class Container:
    """A container that runs until it is left; `exec` starts a command in it. Skips where podman starts none, and says why.

    Args:
        shared: what lies in the container as it does outside, beside this repository and its Python.
        network: `none`, or `host` for programs that speak to a server of the test.
    """

    def __init__(self, *shared: Path, network: str = "none") -> None:
        needs("podman")
        # a short path, as podman demands
        self._home = Path(tempfile.mkdtemp(prefix="wbp-"))
        self._root = self._home / "root"
        self._network = network
        self._shared = [ROOT, Path(sys.prefix), Path(sys.base_prefix), *shared]
        self._environment = {
            **os.environ,
            "CONTAINERS_CONF": str(self._home / "containers.conf"),
            "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        }
        places = (("--root", "store"), ("--runroot", "run"), ("--tmpdir", "state"))
        self._podman = ["podman", *(word for flag, name in places for word in (flag, str(self._home / name)))]
        self._podman += ["--storage-driver", "vfs"]

    def __enter__(self) -> Self:
        for name in _MADE:
            (self._root / name).mkdir(parents=True)
        for name in _MERGED:
            (self._root / name).symlink_to(f"usr/{name}")
        (self._root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
        (self._home / "containers.conf").write_text(_SETTINGS, encoding="utf-8")
        refusals = []
        runtimes = [*filter(shutil.which, ("crun", "runc"))]
        if not runtimes:
            self.close()
            cannot("neither crun nor runc is installed")
        for runtime in runtimes:
            self._podman[1:1] = ["--runtime", runtime]
            started = self._run(*self._start())
            if started.returncode == 0:
                return self
            refusals.append(started.stderr.strip().splitlines()[-1])
            self._remove()
            del self._podman[1:3]
        self.close()
        pytest.skip(f"podman starts no container here: {'; '.join(refusals)}")

    def _start(self) -> list[str]:
        places = [word for one in self._shared for word in ("-v", f"{one}:{one}")]
        options = ["--name", "box", "--network", self._network, "-v", "/usr:/usr:ro", *places]
        return ["run", "--detach", *options, "--rootfs", str(self._root), "sleep", "7200"]

    def exec(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """What starts a command in it with a terminal, as a person does."""
        settings = [f"CONTAINERS_CONF={self._environment['CONTAINERS_CONF']}", "PODMAN_IGNORE_CGROUPSV1_WARNING=1"]
        return ["env", *settings, *self._podman, "exec", "-it", *options, "box", *command]

    def close(self) -> None:
        """End it with all that runs in it, and remove what podman kept of it."""
        self._remove()
        # what cleans up after the container makes its directories anew
        until(lambda: not self._is_used())
        shutil.rmtree(self._home, ignore_errors=True)

    def _is_used(self) -> bool:
        # a tmux server whose first pane was such a command has the path in its own arguments
        theirs = [one for one in psutil.process_iter(["name"]) if one.info["name"] in {"podman", "conmon"}]
        for one in theirs:
            with suppress(psutil.Error):
                if any(str(self._home) in word for word in one.cmdline()):
                    return True
        return False

    def _remove(self) -> None:
        self._run("rm", "--force", "--time", "0", "box")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._podman, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def __exit__(self, *_: object) -> None:
        self.close()
