"""A daemon at work, a pane and a played Codex of one agent: native first, the fall-back, the way back, and `routes`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.route_table import TABLE
from wake_bridge.domain.sessions import Session
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.testing.fake_app_server import FakeAppServer
from wake_bridge.testing.fake_app_server.server import SOCKET
from wake_bridge.testing.playground import AgentPane, Playground

DUO = "@duo"
THREAD = "7d0c2a51-thread"


@dataclass
class House:
    """`@duo` lives in a pane, and in a thread of the app-server."""

    world: Playground
    server: FakeAppServer
    pane: AgentPane

    def routes(self, *options: str) -> dict[str, Any]:
        return self.world.sandbox.ask("routes", DUO, *options)

    def decides(self, row: str) -> dict[str, Any]:
        """Wait until the table says so; the whole answer."""
        told: list[dict[str, Any]] = []

        def look() -> bool:
            told.append(self.routes())
            return bool(told[-1]["decision"]["row"] == row)

        self.world.sandbox.waits_for(look, what=f"the row {row}")
        return told[-1]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with Playground(tmp_path) as world, FakeAppServer(world.sandbox.home / ".codex") as server:
        world.sandbox.run("init")
        pane = world.enlisted("duo", "--client-of", os.path.realpath(server.home / SOCKET))
        server.thread(THREAD, cwd=str(tmp_path), loaded=True, scene="idle")
        with closing(LedgerStore.open(world.sandbox.state_dir)) as ledger:
            ledger.meet_session(
                Session(
                    "codex", THREAD, Identity(DUO), directory=str(tmp_path), seen_at=Instant(int(time.time() * 1000))
                )
            )
        yield House(world, server, pane)


def test_native_first_then_the_pane_then_natively_again(house: House) -> None:
    """No socket, the next route; an answer, the way back; the draft in the pane stands as it was."""
    sandbox = house.world.sandbox
    daemon = sandbox.daemon()
    house.pane.fake.shows("draft", "half a thought")
    sandbox.send(DUO, "natively")
    first = sandbox.waits_for_delivery(outcome="submitted")
    assert (first["adapter"], first["proof"]) == ("codex", 3)
    assert house.pane.fake.submits() == []

    house.server.is_killed()
    house.pane.fake.shows("idle")
    house.decides("screen-idle")
    sandbox.send(DUO, "in the pane")
    house.pane.fake.waits_for("submit")
    second = sandbox.waits_for_delivery(outcome="submitted", adapter="tmux")

    house.server.starts()
    house.server.thread(THREAD, loaded=True, scene="idle")
    house.decides("native-idle")
    sandbox.send(DUO, "natively again")
    known = {first["id"], second["id"]}
    third = sandbox.waits_for(
        lambda: next((one for one in sandbox.deliveries("--state", "DELIVERED") if one["id"] not in known), None), 40
    )
    assert third["adapter"] == "codex"
    texts = [*house.server.recorded(THREAD), *house.pane.fake.submits()]
    for one in (first, second, third):
        assert sum(one["id"] in text for text in texts) == 1
    assert daemon.process.poll() is None


def test_a_pane_is_left_alone_while_its_agent_says_natively_that_it_is_busy(house: House) -> None:
    """What a control plane says of itself vetoes the screen below it, dialog or turn."""
    sandbox = house.world.sandbox
    sandbox.daemon()
    for scene, reason in (("busy", "active"), ("approval", "waitingOnApproval")):
        house.server.thread(THREAD, scene=scene)
        sandbox.send(DUO, f"while {scene}")
        held = sandbox.waits_for_delivery(hold_reason=reason)
        assert house.decides("native-busy")["decision"]["holdReason"] == reason
        assert held["outcome"] is None
        assert house.pane.fake.bytes_received() == b""


def test_routes_explains_itself_with_and_without_a_daemon(house: House) -> None:
    """Each route in order, and all rows of the table with the one that decides marked."""
    sandbox = house.world.sandbox
    for _ in range(2):
        told = house.decides("native-idle")
        assert [one["route"] for one in told["routes"] if one["route"] in {"codex", "tmux"}] == ["codex", "tmux"]
        codex, tmux = (one for one in told["routes"] if one["route"] in {"codex", "tmux"})
        assert (codex["reachable"], codex["presence"], codex["row"]) == (True, "idle", "native-idle")
        assert codex["source"] == "codex-app-server"
        assert codex["capabilities"]["can_steer"]
        assert (tmux["reachable"], tmux["row"]) == (True, None)
        assert "table" not in told
        table = house.routes("--explain")["table"]
        assert [(one["row"], one["when"], one["then"]) for one in table] == [
            (row.name, row.when, row.then) for row in TABLE
        ]
        assert [one["row"] for one in table if one["decides"]] == ["native-idle"]

        words = sandbox.run("routes", DUO, "--explain").stdout
        assert words.startswith("@duo: a wake would start a turn now, by codex  [native-idle]\n")
        (marked,) = [line for line in words.splitlines() if line.startswith("*")]
        assert "native-idle" in marked
        assert all(row.when in words and row.then in words for row in TABLE)
        presence = sandbox.ask("presence", DUO)
        assert (presence["state"], presence["route"]) == ("idle", "codex")
        sandbox.daemon()


def test_routes_of_somebody_unknown_are_not_found(house: House) -> None:
    """Exit 8, identity not found."""
    house.world.sandbox.run("routes", "@nobody", expect=8)


def test_a_route_that_is_set_aside_is_told_of_and_comes_back(house: House) -> None:
    """`status`, `doctor`, `why` and `routes` say which route failed; it is asked again at the daemon's start."""
    sandbox = house.world.sandbox
    with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
        ledger.degrade(Identity(DUO), "codex", "the server hung up", Instant(1_800_000_000_000))
    house.pane.fake.shows("draft", "half a thought")
    message = sandbox.send(DUO, "for the pane")
    sandbox.run("run", "--once")

    told = house.routes()
    (codex,) = (one for one in told["routes"] if one["route"] == "codex")
    assert codex["degraded"] == "the server hung up"
    assert told["decision"]["row"] == "screen-waits"
    (aside,) = sandbox.ask("status")["degraded"]
    assert (aside["agentIdentity"], aside["route"], aside["why"]) == (DUO, "codex", "the server hung up")
    assert "set aside  codex of @duo" in sandbox.run("status").stdout
    (finding,) = [one for one in sandbox.lines("doctor", expect=None) if one["check"] == "route codex @duo"]
    assert finding["ok"] is None
    assert "the server hung up" in finding["detail"]
    assert "codex is set aside for @duo" in sandbox.run("why", message).stdout

    daemon = sandbox.daemon()
    daemon.waits_for_log("route_restored")
    assert sandbox.waits_for_delivery(outcome="submitted")["adapter"] == "codex"
    assert sandbox.ask("status")["degraded"] == []
