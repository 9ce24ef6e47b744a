"""A copy of the repository with an interpreter of its own, where the program may be broken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.mutants import witness
from tests.mutants.mutant import ROOT, Mutant

LONGEST: Final = 120
"""Seconds for the test of one mutant."""

_NOT_COPIED: Final = shutil.ignore_patterns(
    ".git", ".venv", ".harnesses", "dist", "__pycache__", ".*_cache", ".hypothesis"
)

Ended = dict[str, tuple[str, str]]
"""Each test that ran: how it ended, and what it said."""


class Workshop:
    """One copy; one test at a time.

    The copy's interpreter imports the program from the copy, and everything else from the environment that runs us, in
    every process that a test starts, whatever that one's environment variables are.
    """

    def __init__(self, directory: Path) -> None:
        self._root = directory / "tree"
        self._report = directory / "report.json"
        shutil.copytree(ROOT, self._root, ignore=_NOT_COPIED, symlinks=True)
        self._python = self._furnished(self._root / ".venv")

    def without(self, mutant: Mutant) -> _Broken:
        """A context in which the copy lacks the mutant's guard. Raises `StalePatch`."""
        return _Broken(self._root / mutant.file, mutant)

    def run(self, tried: Sequence[Mutant]) -> Ended:
        """Run the tests of some mutants in the copy as it is now; an empty answer says that they came to no end."""
        self._report.unlink(missing_ok=True)
        argv = [str(self._python), "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
        names = " ".join(one.name for one in tried)
        process = subprocess.Popen(
            [*argv, "-p", witness.__name__, *dict.fromkeys(one.test for one in tried)],
            cwd=self._root,
            env={**os.environ, witness.REPORT: str(self._report), witness.TRIED: names, "CI": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(LONGEST * len(tried))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return {}
        if not self._report.exists():
            return {}
        ended: dict[str, list[str]] = json.loads(self._report.read_text(encoding="utf-8"))
        return {name: (kind, said) for name, (kind, said) in ended.items()}

    def _furnished(self, home: Path) -> Path:
        """An interpreter that finds the copy first, then what is installed beside us, and never our own tree."""
        venv.create(home, symlinks=True, with_pip=False)
        places = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)})
        installed = sysconfig.get_path("purelib")
        ours = [str(ROOT), str(ROOT / "adapters")]
        lines = (
            str(self._root),
            str(self._root / "adapters"),
            f"import site, sys; site.addsitedir({installed!r}); sys.path[:] = [p for p in sys.path if p not in {ours!r}]",
        )
        Path(places["purelib"], "copy.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        python = home / "bin" / "python"
        for script in Path(sys.executable).parent.glob("wake-bridge*"):
            body = script.read_text(encoding="utf-8").partition("\n")[2]
            copied = home / "bin" / script.name
            copied.write_text(f"#!{python}\n{body}", encoding="utf-8")
            copied.chmod(0o755)
        asked = [
            str(python),
            "-P",
            "-c",
            "import wake_bridge, wake_bridge_adapters; print(wake_bridge.__file__, wake_bridge_adapters.__file__)",
        ]
        found = subprocess.run(asked, capture_output=True, text=True, check=True, cwd="/").stdout.split()
        if not all(Path(one).is_relative_to(self._root) for one in found):
            raise RuntimeError(f"the copy imports another tree: {found}")
        return python


class _Broken:
    """The file without the guard, until it is left."""

    def __init__(self, path: Path, mutant: Mutant) -> None:
        self._path = path
        self._whole = path.read_text(encoding="utf-8")
        self._patched = mutant.patched(self._whole)

    def __enter__(self) -> Self:
        self._write(self._patched)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._write(self._whole)

    def _write(self, text: str) -> None:
        """Compiled files are told apart by size and whole seconds only: none of this module may stay."""
        self._path.write_text(text, encoding="utf-8")
        for compiled in (self._path.parent / "__pycache__").glob(f"{self._path.stem}.*.pyc"):
            compiled.unlink()
