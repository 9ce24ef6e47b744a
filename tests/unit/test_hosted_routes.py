"""Routes to identities that live on another host, and wakes that are on their way there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from wake_bridge_adapters.other_host import OtherHostAdapter
from wake_bridge_adapters.tables import OtherHostConfig

from wake_bridge.answers.linked_agents import LinkedAgents
from wake_bridge.cli.watch import cells_of
from wake_bridge.config.hosts import LinkedHost
from wake_bridge.domain.delivery import Delivery, DeliveryState
from wake_bridge.domain.hosts import (
    HostDirectory,
    LinkState,
    is_host_name,
    wait_before_try,
    why_no_destination,
    why_no_host_name,
)
from wake_bridge.domain.names import EPOCH_START, Identity, Instant, Trigger
from wake_bridge.domain.receivers import ReceiverStanding, Secret
from wake_bridge.domain.routing import Binding
from wake_bridge.domain.subscriptions import Subscription
from wake_bridge.engine.explain.overview import IdentityOverview, WakeBudget
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current, EngineSettings, TargetSettings
from wake_bridge.http.views import Views
from wake_bridge.integrations.hosts.links import Link, Links
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.records import overview_record
from wake_bridge.schemas.hosts import agents_elsewhere
from wake_bridge.system.clock import SteadyClock
from wake_bridge.testing.ledger_samples import fresh_ledger
from wake_bridge.testing.memory_adapter import MemoryAdapter, MemoryConfig

ME = Identity("@me")
FENCE = Binding("/tmp/t", 1, "$1", "%1", 2, "2", 3, "3")
LOCKED = Delivery("01", ME, DeliveryState.LOCKED, 1, EPOCH_START, EPOCH_START, adapter="ssh", pane_key="ssh:devbox:@me")


class House:
    """What routes are made of, all of it as it can be changed."""

    def __init__(self) -> None:
        self.hosts = {ME: "devbox"}
        self.linked = {"devbox"}
        self.bindings: dict[Identity, Binding] = {}
        self.subscriptions = [Subscription("sub", ME, Trigger.SENT_TO_ME)]
        self.standing: ReceiverStanding | None = None
        self.current = Current(EngineSettings(default_adapter="memory"))
        context = AdapterContext(10, 10, "", {}, SteadyClock())
        self.routes = Routes(
            {"ssh": OtherHostAdapter(OtherHostConfig(), context), "memory": MemoryAdapter(MemoryConfig(), context)},
            self.current,
            lambda _: self.subscriptions,
            self.bindings.get,
            standing=lambda _: self.standing,
            homes=HostDirectory(lambda who: self.hosts.get(who, ""), lambda host: host in self.linked),
        )

    def ways(self) -> list[str]:
        return [one.key for one in self.routes.of(ME, self.routes.receivers_of(ME))]


def test_who_lives_on_another_host_is_reached_by_its_daemon_alone() -> None:
    """No channel and no pane of this host serves it."""
    house = House()
    assert house.ways() == ["ssh:devbox:@me"]
    assert house.routes.names(ME) == []
    assert house.routes.missing(ME) is None
    house.hosts.clear()
    assert house.ways() == ["memory"]


def test_where_an_identity_is_bound_is_asked_once_for_all_its_adapters() -> None:
    """With thousands of identities each question counts, and most of them are bound nowhere."""
    house, asked = House(), list[Identity]()
    house.hosts.clear()
    house.routes._binding_of = asked.append
    assert house.routes.names(ME) == ["memory"]
    assert asked == []
    assert [one.adapter for one in house.routes.through(ME, ["ssh", "memory", "of another release"])] == [
        "ssh",
        "memory",
    ]
    assert asked == [ME]


def test_a_place_that_this_host_was_told_of_wins_and_the_conflict_is_said() -> None:
    """A binding, a target or a pane in the subscription: it is woken here, and never on both hosts."""
    for told in ("binding", "target", "pane"):
        house = House()
        if told == "binding":
            house.bindings[ME] = FENCE
        elif told == "target":
            house.current.settings = EngineSettings(targets={ME: TargetSettings("memory", "one")})
        else:
            house.subscriptions = [replace(house.subscriptions[0], pane="work:api")]
        assert house.ways() == ["memory"], told
        assert (house.routes.host_of(ME), house.routes.conflict_of(ME)) == ("", "devbox")


def test_what_may_have_arrived_on_a_host_goes_no_other_way_wherever_its_agent_lives_by_then() -> None:
    """Moved here, moved on, or nobody says so any more: that host is asked again. Only one that was removed cannot be."""
    house = House()
    for moved in ("here", "on", "away"):
        house.bindings.clear()
        if moved == "here":
            house.bindings[ME] = FENCE
        house.hosts = {} if moved == "away" else {ME: "attic"} if moved == "on" else {ME: "devbox"}
        route = house.routes.locked_for(LOCKED)
        assert route is not None, moved
        assert route.key == "ssh:devbox:@me"
        assert house.routes.is_sent_again(LOCKED)
    house.linked.clear()
    assert house.routes.locked_for(LOCKED) is None


def test_a_host_that_failed_is_never_suspended() -> None:
    """The link says itself whether it is up: a wake goes out within a second of it, whatever failed before."""
    house = House()
    (there,) = house.routes.receivers_of(ME)
    house.standing = ReceiverStanding(
        there.subscription_id, failures=9, suspended_at=Instant(1), degraded_at=Instant(2)
    )
    assert house.routes.shut_now(there) is None


def test_a_link_is_tried_again_soon_and_then_every_minute() -> None:
    """At once, after 1, 2, 4 s and so on, at most a minute and a fifth; nothing of a name or a destination is an option of ssh."""
    assert [wait_before_try(one, 0.0) for one in (0, 1, 2, 3, 7, 100)] == [0, 1_000, 2_000, 4_000, 60_000, 60_000]
    assert wait_before_try(100, 1.0) == 72_000
    assert [is_host_name(one) for one in ("devbox", "a.b-c_1", "-o", "a:b", "", "a b")] == [True, True, *[False] * 4]
    assert [is_host_name("a" * length) for length in (64, 65)] == [True, False]
    assert why_no_host_name("a" * 65) == "the name of a host has at most 64 characters, and this has 65"
    assert [why_no_destination(one) for one in ("devbox", "me@10.0.0.1", "ssh://me@host:22")] == ["", "", ""]
    assert all(why_no_destination(one) for one in ("", "-oProxyCommand=x", "a b", "a\nb"))


def test_an_agent_of_another_host_has_all_that_is_told_of_one_of_this_host(tmp_path: Path) -> None:
    """The page and `status --watch` read one list: what they ask of a row must stand in each, whatever an older release tells."""
    here = overview_record(IdentityOverview(ME, None, 0, None, None, None, None, WakeBudget(0, 20, 0, 150), items=2))
    link = Link(LinkedHost("devbox", "devbox", "laptop-1", Secret("")), lambda _: None)
    link.state, link.agents = LinkState.UP, agents_elsewhere([{"agentIdentity": "@far"}, {**here, "items": 3}])

    class Both:
        def all(self) -> list[Link]:
            return [link]

        def agents(self) -> dict[str, tuple[Identity, ...]]:
            return {"devbox": (ME, Identity("@far"))}

    rows = LinkedAgents(cast("Links", Both()), lambda _: "devbox").overview([here])
    assert [(one["agentIdentity"], one["items"], one["host"]) for one in rows] == [
        ("@far", 0, "devbox"),
        ("@me", 5, "devbox"),
    ]
    assert [set(one) for one in rows] == [set(here)] * 2

    async def overview(_: str, __: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"agents": rows}

    with fresh_ledger(tmp_path) as ledger:
        views = Views(lambda: ledger, overview, tmp_path, lambda: EPOCH_START)
        pages = {one: asyncio.run(views.agent(one)) for one in (ME, Identity("@far"))}
    assert "0 of 20" in pages[ME]
    # a host that did not say its limits is not one of which none is left
    assert not [one for one in ("Wakes used", "0 of 0") if one in pages[Identity("@far")]]
    assert [cells_of(one, EPOCH_START)[-1] for one in rows] == ["-", "0/20 h  0/150 d"]
