"""Agents in a container of podman, and behind other carriers of terminals, woken by a daemon (docs/carriers.md)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from tests.containers import ROOT, Container
from tests.programs import needs
from wake_bridge.demo.fake_harness import FakeHarness
from wake_bridge.demo.sandbox import QUICK
from wake_bridge.domain.causes import Cause
from wake_bridge.testing.playground import Playground

TOLD: Final = f"""{QUICK}
[targets."@told"]
pane = "told"
harness = "fake"
"""


def lives(world: Playground, name: str, start: list[str], fake: FakeHarness) -> FakeHarness:
    """A fake agent that is started by these words, enlisted by its session."""
    world.tmux.new_pane(start, session=name, environment={"PYTHONPATH": str(ROOT)})
    fake.control()
    world.sandbox.enlist(f"@{name}", name)
    return fake


def test_agents_in_a_container_and_in_a_namespace_are_woken_and_who_is_hidden_once_the_line_is_written(
    playground: Playground,
) -> None:
    """The hold prints the line; copied into the configuration it ends the hold."""
    needs("unshare", "script")
    sandbox = playground.sandbox
    sandbox.configure(TOLD)
    sandbox.run("init")
    fakes = {name: FakeHarness(playground.directory, name) for name in ("told", "hidden", "apart")}
    sockets = [fake.socket.parent for fake in fakes.values()]
    with Container(playground.directory, *sockets) as box:
        inside = ("--env", f"PYTHONPATH={ROOT}")
        apart = ["unshare", "--fork", "--pid", "--mount", "--mount-proc", "--map-root-user", *fakes["apart"].command()]
        starts: Mapping[str, list[str]] = {
            "told": box.exec(*fakes["told"].command(), options=inside),
            "hidden": box.exec(*fakes["hidden"].command(), options=inside),
            "apart": ["script", "-q", "-c", shlex.join(apart), "/dev/null"],
        }
        for name, start in starts.items():
            lives(playground, name, start, fakes[name])
        daemon = sandbox.daemon()
        for name in starts:
            sandbox.send(f"@{name}", f"to {name}")

        for name in ("told", "apart"):
            woken = sandbox.waits_for_delivery(target=f"@{name}", state="DELIVERED")
            assert (woken["outcome"], len(fakes[name].submits())) == ("submitted", 1)
            assert f"to {name}" in fakes[name].submits()[0]
        held = sandbox.waits_for_delivery(target="@hidden", cause=str(Cause.HIDDEN_BY_CARRIER))
        assert fakes["hidden"].bytes_received() == b""

        (line,) = re.findall(r"`(harness = .+?)`", held["remedy"])
        sandbox.configure(f'{TOLD}[targets."@hidden"]\npane = "hidden"\n{line}\n')
        daemon.reload()

        assert sandbox.waits_for_delivery(id=held["id"], state="DELIVERED")["outcome"] == "submitted"
        assert ["to hidden" in one for one in fakes["hidden"].submits()] == [True]
