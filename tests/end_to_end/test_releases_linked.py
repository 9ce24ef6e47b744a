"""Two hosts with different releases, linked by ssh: the older one is built from this repository's history, and is real."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_hosts import TwoHosts, ssh_of, two_hosts_at
from tests.programs import cannot, needs
from wake_bridge.demo.sandbox import Sandbox
from wake_bridge.testing.ssh_server import SshServer, sshd_program

ROOT = Path(__file__).parents[2]
OLDER = "1f927ba9"
"""The last commit whose links carried no answers; `tests/integration/test_older_release.py` plays what it said on a link."""


def older_release(directory: Path) -> Path:
    """The `wake-bridge` of the older release, built and installed from history; without it the test is skipped, and says so."""
    found = subprocess.run(
        ["git", "-C", ROOT, "cat-file", "-e", f"{OLDER}^{{commit}}"], check=False, capture_output=True
    )
    if found.returncode:
        cannot(f"no history with {OLDER} here: an sdist, or a shallow clone")
    source, wheels, made = directory / "source", directory / "wheels", directory / "venv"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", OLDER], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "-w", wheels, source], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "--python", made / "bin/python", "install", *offline, wheel], check=True)
    # what it depends on is here; its own packages stand first
    place = made / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/here.pth"
    place.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return made / "bin/wake-bridge"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the older release."""
    return older_release(tmp_path_factory.mktemp("older"))


@pytest.fixture
def hosts(tmp_path: Path, tmux_program: str) -> Iterator[TwoHosts]:  # noqa: ARG001
    """Two of them, both of this release yet."""
    needs("ssh", "ssh-keygen")
    if sshd_program() is None:
        needs("sshd")
    with (
        SshServer(tmp_path / "sshd") as server,
        two_hosts_at(tmp_path, (sys.executable, "-m", "wake_bridge"), server) as found,
    ):
        yield found


def is_of(sandbox: Sandbox, program: Path) -> None:
    """From now on a host has the older release."""
    sandbox.command = (str(program),)
    # ours names its commit; what was built from an archive knows none
    assert "+g" not in sandbox.run("--version").stdout


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", ["near", "far"])
def test_a_link_between_two_releases_wakes_once_each_and_loses_no_answer(
    hosts: TwoHosts, older: Path, side: str
) -> None:
    """Wakes, presence and the feed are as between equal ones, also after ssh was killed."""
    near, far = hosts.near, hosts.far
    is_of(near if side == "near" else far, older)
    far.daemon()
    hosts.link()
    here = near.daemon()
    hosts.waits_until("up")
    near.run("subscribe", "@far", "--trigger", "SENT_TO_ME")

    near.send("@far", "the first")
    hosts.waits_for("the first")
    ssh_of(here).kill()
    near.send("@far", "while it was cut")
    hosts.waits_for("while it was cut")
    near.waits_for(lambda: all(one["outcome"] == "submitted" for one in near.deliveries()), what="all to be proven")
    seen = near.waits_for(lambda: near.ask("presence", "@far")["where"] and near.ask("presence", "@far"), what="a look")
    assert (seen["host"], seen["where"]) == ("devbox", "far:0.0")
    near.waits_for(
        lambda: "devbox" in {one["host"] for one in near.lines("activity")}, what="the feed of the other host"
    )

    # one of the two knows nothing of it: the agent is woken, and the answer is given on the host with the graph
    near.send("@far", "which port?", "--ack-within", "5m")
    hosts.waits_for("which port?")
    assert "Answer within" not in hosts.agent.fake.submits()[-1]
    mine = near.waits_for_delivery(hold_reason="awaiting_ack")
    near.run("ack", mine["id"])
    near.waits_for_delivery(id=mine["id"], outcome="acknowledged", proof=3)
    near.send("@far", "the last")
    hosts.waits_for("the last")
    sent = ("the first", "while it was cut", "which port?", "the last")
    assert [hosts.arrived(one) for one in sent] == [1, 1, 1, 1]
