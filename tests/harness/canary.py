"""Newer versions of the programs through all states, offline: which rules moved (`make harness-canary`).

    python -m tests.harness.canary [NAME…] [--last N] [--write]

Each version goes into a directory of its own below `.harnesses-canary`; what it showed is compared with the captures in
`tests/screens/captures`. Ends with 0 where nothing moved, with 1 where something did, with 2 where a version could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.harness import versions
from tests.harness.evidence import moves_between, proposal
from tests.harness.installed import WHERE, executable, install, node_is_old, npm
from tests.harness.programs import WALKED, Program
from tests.harness.table import version_of
from tests.harness.walk import FALSE_IDLE, HELD, MOVED, NOT_REACHED, PASS, SoftHouse, walk

ROOT: Final = Path(__file__).parents[2] / ".harnesses-canary"
"""Where the versions go; git does not see it."""

AT_ONCE: Final = 2
"""Programs that run at once: each takes up to a gigabyte and half a core."""

LONGEST: Final = 3600
"""Seconds for one version, from its installation on: four minutes on a quiet machine, and twenty on a busy one."""

NOTHING_MOVED, SOMETHING_MOVED, COULD_NOT_RUN = 0, 1, 2
_SAYS_WHY: Final = re.compile(r"[\w.]*(?:Error|Exception|Exit|Failed|Expired)\b")
_COMMAND: Final = (sys.executable, "-m", "wake_bridge")


@dataclass(slots=True)
class Found:
    """What came of one version; `trouble` says why it could not run."""

    program: Program
    version: str
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    minutes: float = 0.0
    trouble: str = ""

    @property
    def directory(self) -> Path:
        """Its own."""
        return _home_of(self.program, self.version)


def _home_of(program: Program, version: str) -> Path:
    return ROOT / f"{program.name}-{version}"


def published(program: Program) -> list[str]:
    """The versions in the program's registry that are no previews, the newest last.

    Raises:
        subprocess.CalledProcessError: npm or pip failed.
    """
    package = program.package.rpartition("@")[0] or program.package.partition("==")[0]
    if program.registry == "npm":
        command = ["npm", "view", package, "versions", "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        told = json.loads(answer.stdout)
        return [one for one in (told if isinstance(told, list) else [told]) if "-" not in one]
    command = [sys.executable, "-m", "pip", "index", "versions", "--json", package]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return list(reversed(json.loads(answer.stdout)["versions"]))


def _in_its_own_process(program: Program, version: str) -> Found:
    """Install and run one version; `PATH` and prefix are a process's own."""
    home = _home_of(program, version)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "node").exists() and (ROOT / "node").is_dir():
        (home / "node").symlink_to(ROOT / "node")
    answer = home / "walk.json"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.harness.canary", program.name, "--one", version]
    found, start = Found(program, version), time.monotonic()
    with (home / "walk.log").open("w", encoding="utf-8") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, WHERE: str(home)})
        try:
            child.wait(LONGEST)
        except subprocess.TimeoutExpired:
            child.terminate()  # it ends its programs
            child.wait()
            found.trouble = f"not done after {LONGEST} s"
    found.minutes = round((time.monotonic() - start) / 60, 1)
    if answer.exists():
        found.states = json.loads(answer.read_text(encoding="utf-8"))
    elif not found.trouble:
        said = (home / "walk.log").read_text(encoding="utf-8").strip().splitlines()
        why = [line for line in said if _SAYS_WHY.match(line)] or said or ["it said nothing"]
        found.trouble = why[-1]
    return found


def _one(program: Program, version: str) -> None:
    """Be that process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    home = _home_of(program, version)
    package = f"{program.package.rpartition('@')[0]}@{version}" if program.registry == "npm" else ""
    pinned = replace(program, package=package or f"{program.package.partition('==')[0]}=={version}")
    if not (executable(pinned) or "").startswith(str(home)):
        install(pinned)
    with TemporaryDirectory(prefix="wbc-") as directory:
        told = version_of(pinned, Path(directory))
        if told != version:
            sys.exit(f"it says that it is {told}")
        captures = home / "captures"
        shutil.rmtree(captures, ignore_errors=True)
        captures.mkdir()
        house = SoftHouse(pinned, Path(directory), _COMMAND)
        try:
            house.__enter__()
            if house.has_ended():
                raise RuntimeError(f"it ended at once: {house.look().text.strip().splitlines()[-2:]}")
            states = walk(house, captures)
        finally:
            house.close()
    (home / "walk.json").write_text(json.dumps(states, indent=1, ensure_ascii=False), encoding="utf-8")


def _said_of(found: Found) -> Iterator[str]:
    """The report on one version, by lines."""
    name = f"{found.program.name} {found.version}"
    if found.trouble:
        yield f"## {name}: could not run: {found.trouble}"
        return
    cells = {state: one["cell"] for state, one in found.states.items()}
    counts = ", ".join(f"{list(cells.values()).count(one)} {one}" for one in _CELLS if one in cells.values())
    yield f"## {name}: {counts} ({found.minutes} min)"
    for state, one in found.states.items():
        if one["cell"] != PASS:
            yield f"- {state}: {one['cell']}: {one.get('state', '')} {one.get('rules', '')} {one.get('why') or ''}".rstrip()
        if one.get("woken") is False:
            yield f"- {state}: no wake came afterwards: {one.get('why_no_wake', '')}"
    for move in moves_between(found.program.name, found.directory / "captures"):
        yield from move.lines()
    if change := proposal(found.program.name, found.version, found.directory / "captures", cells):
        yield from (
            "",
            "A proposed change of the profile, to be read before it is made:",
            "",
            "```diff",
            change.rstrip(),
            "```",
        )


_CELLS: Final = (PASS, MOVED, HELD, FALSE_IDLE, NOT_REACHED)


def has_moved(found: Found) -> bool:
    """Whether a rule speaks otherwise than it did, a wake did otherwise than it must, or a state could not be reached."""
    cells = {one["cell"] for one in found.states.values()}
    no_wake = any(one.get("woken") is False for one in found.states.values())
    return bool(cells - {PASS}) or no_wake or any(moves_between(found.program.name, found.directory / "captures"))


def run(names: Sequence[str], last: int, wanted: Sequence[str] = ()) -> Iterator[Found]:
    """Each of the newest versions of these programs, as it comes, two at once; the report goes to stdout."""
    ROOT.mkdir(exist_ok=True)
    if node_is_old() and not (ROOT / "node").exists():
        npm(ROOT / "node", "node@22")
    work = []
    for name in names:
        try:
            work += [(WALKED[name], one) for one in wanted or published(WALKED[name])[-last:][::-1]]
        except (subprocess.SubprocessError, OSError) as error:
            print(f"## {name}: its versions cannot be listed: {error}", flush=True)
            work.append((WALKED[name], ""))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(
            lambda one: (
                _in_its_own_process(*one) if one[1] else Found(one[0], one[1], trouble="its versions cannot be listed")
            ),
            work,
        ):
            print("\n".join(_said_of(found)), flush=True)
            yield found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *WALKED], help="programs; all where none is named")
    parser.add_argument("--last", type=int, default=1, help="so many published versions of each")
    parser.add_argument("--version", action="append", default=[], help="this version, instead of the newest")
    parser.add_argument("--write", action="store_true", help="put the results into docs/harnesses.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        _one(WALKED[given.names[0]], given.one)
        return
    found = []
    for one in run(given.names or list(WALKED), given.last, given.version):
        found.append(one)
        if given.write and not one.trouble:
            versions.keep({(one.program.name, one.version): one.states})
    if any(one.trouble for one in found):
        sys.exit(COULD_NOT_RUN)
    sys.exit(SOMETHING_MOVED if any(map(has_moved, found)) else NOTHING_MOVED)


if __name__ == "__main__":
    main()
