"""The adapter of docs/adapters.md, as a stranger would ship it: its own wheel, installed, judged by the contract suite.

What stands in the text is what is built: no copy of it exists.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing.adapter_contract import PROMISES

GUIDE = Path(__file__).parents[2] / "docs/adapters.md"
NOT_A_PIGEONS = {
    "only_an_idle_agent_looks_idle",
    "an_unsafe_moment_is_refused_without_a_byte",
    "a_wake_is_submitted_once_and_proven",
    "what_was_submitted_before_a_crash_is_recognised",
}
FROZEN = Path(__file__).parents[1] / "fixtures" / "wake_bridge_pigeon-0.1-py2.py3-none-any.whl"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
LOFT = "#!/bin/sh\n{ printf '%s\\n' \"$1\"; cat; } > {record}.$$ && mv {record}.$$ {record}.$(date +%s%N)\n"
STAGE = """
import asyncio, os, sys
from pathlib import Path

import pytest

import pigeon
from wake_bridge.domain.names import Identity
from wake_bridge.domain.routing import Address
from wake_bridge.system.clock import SteadyClock
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.testing.adapter_contract import PROMISES


class Loft:
    def __init__(self, directory):
        self.record = directory / "flown"
        loft = directory / "loft"
        loft.write_text(LOFT.replace("{record}", str(self.record)))
        loft.chmod(0o755)
        context = AdapterContext(10, 10, "", os.environ, SteadyClock())
        self.adapter = pigeon.PigeonAdapter(pigeon.PigeonAdapter.Config(loft=str(loft)), context)
        self.address = Address(Identity("@bird"), pane="carl")
        self.nowhere = Address(Identity("@bird"))
        self.before = 0

    def shows(self, scene):
        self.before = len(self.submitted())

    def submitted(self):
        return [one.read_text().partition("\\n")[2] for one in sorted(self.record.parent.glob("flown.*"))]

    def was_touched(self):
        return len(self.submitted()) > self.before


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_it_keeps_the_promise(promise, tmp_path):
    asyncio.run(promise(Loft(tmp_path)))
"""


def block(language: str, beginning: str) -> str:
    """The code block of the guide that begins like that."""
    blocks = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [one for one in blocks if one.startswith(beginning)]
    return str(found)


@dataclass(frozen=True)
class Stranger:
    """An environment that wake-bridge and the stranger's wheel are installed in."""

    python: Path
    directory: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), *arguments], cwd=self.directory, capture_output=True, text=True, timeout=110, check=False
        )


def _must(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """The wheel built from the guide's two files, without a network, and installed by pip."""
    directory = tmp_path_factory.mktemp("stranger")
    source, wheels = directory / "pigeon", directory / "wheels"
    source.mkdir()
    (source / "pigeon.py").write_text(block("python", "# pigeon.py"))
    (source / "pyproject.toml").write_text(block("toml", "# pyproject.toml"))
    _must([*PIP, "wheel", "--no-build-isolation", "--no-index", "--no-deps", "--wheel-dir", str(wheels), str(source)])
    (wheel,) = wheels.glob("*.whl")
    return _installed(wheel, directory)


def _installed(wheel: Path, directory: Path) -> Stranger:
    home = directory / "venv"
    _must([sys.executable, "-m", "venv", "--without-pip", str(home)])
    python = home / "bin" / "python"
    _must([*PIP, "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)])
    # wake-bridge and what it needs are already installed, beside
    (inside,) = (home / "lib").glob("python*/site-packages")
    here = sysconfig.get_path("purelib")
    (inside / "beside.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return Stranger(python, directory)


def test_the_adapter_of_the_guide_has_forty_lines() -> None:
    """An adapter in forty lines is enough."""
    code = block("python", "# pigeon.py").partition("class PigeonAdapter")[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 40


def test_a_wheel_of_a_third_party_is_found_and_keeps_the_contract(stranger: Stranger) -> None:
    """The same door as the bundled ones; it keeps all that it does not name as not its own."""
    _keeps_the_contract(stranger)


def test_a_wheel_that_was_built_against_0_2_runs_unchanged(tmp_path: Path) -> None:
    """Names that adapters of third parties import stay for a release: this wheel is never built again."""
    of_its_time = STAGE.replace("wake_bridge.system.clock", "wake_bridge.edges.steady_clock")
    _keeps_the_contract(_installed(FROZEN, tmp_path), of_its_time)


def _keeps_the_contract(stranger: Stranger, stage: str = STAGE) -> None:
    (stranger.directory / "test_stage.py").write_text(f"LOFT = {LOFT!r}\n{stage}")
    judged = stranger.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-rA", "test_stage.py")
    passed = set(re.findall(r"^PASSED test_stage.py::\w+\[(\w+)\]", judged.stdout, re.MULTILINE))
    names = {promise.__name__ for promise in PROMISES}
    assert passed == names - NOT_A_PIGEONS, judged.stdout
    assert len(passed) == 9
    assert all(f"`{promise}`" in GUIDE.read_text(encoding="utf-8") for promise in NOT_A_PIGEONS)


def test_a_wake_flies_through_the_installed_wheel(stranger: Stranger, tmp_path: Path) -> None:
    """Listed, configured, and woken through, by a daemon that never heard of it before."""
    record, loft = tmp_path / "flown", tmp_path / "loft"
    loft.write_text(LOFT.replace("{record}", str(record)))
    loft.chmod(0o755)
    before = Sandbox(tmp_path)
    before.run("init")
    before.run("agent", "add", "@bird")
    with Sandbox(tmp_path, command=(str(stranger.python), "-m", "wake_bridge")) as sandbox:
        sandbox.configure(
            f'[adapters.pigeon]\nloft = "{loft}"\n[targets."@bird"]\nadapter = "pigeon"\npane = "carl"\n'
            "[adapters.tmux]\nenabled = false\n"
        )
        sandbox.run("subscribe", "@bird", "--trigger", "SENT_TO_ME")
        listed = {one["name"]: one for one in sandbox.lines("adapters")}
        assert listed["pigeon"]["usable"]
        assert (listed["pigeon"]["distribution"], listed["pigeon"]["trouble"]) == ("wake-bridge-pigeon", None)
        sandbox.daemon()
        sandbox.run("wake", "@bird", "fly")
        sandbox.waits_for(lambda: [*tmp_path.glob("flown.*")], what="the pigeon")
        told = sandbox.waits_for_delivery(target="@bird", outcome="submitted")
        assert (told["adapter"], told["pane"], told["proof"]) == ("pigeon", "carl", 1)
    (flown,) = tmp_path.glob("flown.*")
    where, _, text = flown.read_text().partition("\n")
    assert (where, text) == ("carl", told["digest"])
