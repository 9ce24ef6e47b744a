"""A restarted tmux server counts its panes from %0 again: what was said of the old ones means none of the new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pytest

from wake_bridge.demo.sandbox import QUICK
from wake_bridge.testing.playground import Playground

WAYS: Final = ("target", "rebound", "subscription", "binding")
"""Ways to say `%id`: in `[targets]` (twice, with two remedies), with `subscribe --tmux`, with `bind`."""


@dataclass
class Restart:
    """What was seen: the holds on the new server, the bytes its panes had got then, and what came in the end."""

    held: dict[str, dict[str, Any]]
    bytes_while_held: bytes
    after: dict[str, list[dict[str, Any]]]
    submits: dict[str, list[str]]


@pytest.fixture(scope="module")
def restart(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001
) -> Restart:
    """Identities in panes known by id; then the server is another one, and idle strangers have those ids."""
    with Playground(tmp_path_factory.mktemp("restart"), program) as world:
        subscription = _settle_in(world)
        return _restarted(world, subscription)


def _settle_in(world: Playground) -> str:
    sandbox = world.sandbox
    sandbox.run("init")
    for name in WAYS:
        world.agent(name, session="agents")
    world.together(lambda name: sandbox.run("agent", "add", f"@{name}"), WAYS)
    _configure(world, "")
    panes = {name: agent.id for name, agent in world.agents.items()}
    where = {
        "target": (),
        "rebound": (),
        "subscription": ("--tmux", panes["subscription"]),
        "binding": ("--harness-target", "bridge-daemon"),
    }
    mail = ("--trigger", "SENT_TO_ME", "--window", "0")
    made = world.together(lambda name: sandbox.ask("subscribe", f"@{name}", *mail, *where[name]), WAYS)
    sandbox.run("bind", "@binding", "--pane", panes["binding"])
    sandbox.daemon()
    world.together(lambda name: sandbox.send(f"@{name}", "before the restart"), WAYS)
    for agent in world.agents.values():
        agent.fake.waits_for("submit")
    sandbox.waits_for(lambda: all(one["settledAt"] for one in sandbox.deliveries()))
    return str(made["subscription"]["subscriptionId"])


def _configure(world: Playground, prefix: str) -> None:
    """Give two identities targets by the ids of their agents' panes."""
    tables = [f'[targets."@{name}"]\npane = "{world.agents[prefix + name].id}"\n' for name in ("target", "rebound")]
    world.sandbox.configure(QUICK + "".join(tables))


def _restarted(world: Playground, subscription: str) -> Restart:
    sandbox = world.sandbox
    old = {name: world.agents[name].id for name in WAYS}
    world.tmux.close()
    strangers = {name: world.agent(f"new-{name}", session="agents") for name in WAYS}
    assert {name: stranger.id for name, stranger in strangers.items()} == old
    fresh = world.together(lambda name: sandbox.send(f"@{name}", "after the restart"), WAYS)

    def held() -> dict[str, dict[str, Any]]:
        found = {one["target"][1:]: one for one in sandbox.deliveries() if one["hold_reason"]}
        return found if found.keys() == set(WAYS) else {}

    holds = sandbox.waits_for(held, what="all to be held")
    heard = b"".join(stranger.fake.bytes_received() for stranger in strangers.values())

    sandbox.run("bind", "@rebound", "--pane", strangers["rebound"].id)
    strangers["rebound"].fake.waits_for("submit")
    _configure(world, "new-")
    sandbox.daemons[0].reload()
    sandbox.run("update", subscription, "--tmux", strangers["subscription"].id)
    sandbox.run("bind", "@binding", "--pane", strangers["binding"].id)
    for stranger in strangers.values():
        stranger.fake.waits_for("submit")
    sandbox.waits_for(lambda: all(one["settledAt"] for one in sandbox.deliveries()))
    ended = sandbox.deliveries()
    return Restart(
        held=holds,
        bytes_while_held=heard,
        after={name: [one for one in ended if one["events"][0]["subject_key"] == fresh[name]] for name in WAYS},
        submits={name: stranger.fake.submits() for name, stranger in strangers.items()},
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_pane_id_of_the_old_server_holds_as_unreachable_on_the_new_one(restart: Restart, way: str) -> None:
    """Pane ids restart with the server; however the id was said, the remedy says how to say it anew."""
    assert restart.held[way]["hold_reason"] == "unreachable", restart.held[way]["hold_detail"]
    assert f"`wake-bridge bind @{way}` inside its pane" in restart.held[way]["remedy"]


def test_no_byte_reaches_a_stranger_who_has_the_id_now(restart: Restart) -> None:
    """None is a hold, never a guess."""
    assert restart.bytes_while_held == b""


@pytest.mark.parametrize("way", WAYS)
def test_the_wake_comes_exactly_once_when_the_pane_was_said_anew(restart: Restart, way: str) -> None:
    """By the configuration, an updated subscription, or `bind`, which also helps where `[targets]` is old."""
    (one,) = restart.after[way]
    assert one["outcome"] == "submitted"
    assert [one["id"] in text for text in restart.submits[way]] == [True]
