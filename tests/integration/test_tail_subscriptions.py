"""What the tail says about who listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from wake_bridge.domain.matching import MatchingRules, TargetRule
from wake_bridge.domain.names import Identity
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.tail_rig import TailRig

pytestmark = pytest.mark.anyio

A, B = "@a", "@b"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def core(tmp_path: Path) -> Iterator[MemoryCore]:
    with MemoryCore.create(tmp_path / "graph.sqlite", [A, B]) as core:
        yield core


def rig_on(tmp_path: Path, rules: MatchingRules | None = None) -> TailRig:
    return TailRig(tmp_path / "graph.sqlite", tmp_path / "state", rules=rules)


def said(logs: list[EventDict], event: str) -> list[EventDict]:
    return [line for line in logs if line["event"] == event]


async def test_no_active_routes_is_one_loud_warning(core: MemoryCore, tmp_path: Path) -> None:
    """`0 active routes` is loud, at the start and whenever the last one goes."""
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            assert len(said(logs, "no_active_routes")) == 1
            core.subscribe(A, harnessTarget="disabled")
            subscription_id = core.subscribe(A)
            await rig.reaches(core.tip())
            assert rig.tail.active_routes == 1
            core.sql("DELETE FROM Nodes WHERE id = ?", subscription_id)
            await rig.reaches(core.tip())
            assert rig.tail.active_routes == 0
            core.noise(3)
            await rig.reaches(core.tip())
    assert [line["log_level"] for line in said(logs, "no_active_routes")] == ["warning", "warning"]


async def test_a_subscription_nobody_can_deliver_is_warned_of_once(core: MemoryCore, tmp_path: Path) -> None:
    """An unknown adapter, bad window or trigger: one warning; its mail is matched all the same."""
    metadata = {"adapter": "osascript", "coalesceWindow": 1000}
    subscription_id = core.subscribe(A, harnessTargetMetadata=metadata, wakePolicy="loud")
    rules = MatchingRules(known_adapters=frozenset({"tmux"}))
    with capture_logs() as logs:
        async with rig_on(tmp_path, rules) as rig:
            core.touch(subscription_id)
            core.send(B, A, "matched all the same")
            await rig.until(lambda: bool(rig.woken))
            assert [one.problems for one in rig.tail.subscriptions_of(Identity(A))] != [()]
    warned = said(logs, "subscription_undeliverable")
    assert len(warned) == 1
    assert [str(problem).split()[0] for problem in warned[0]["problems"]] == ["coalesceWindow", "wakePolicy", "adapter"]


async def test_a_target_makes_the_subscriptions_own_adapter_irrelevant(core: MemoryCore, tmp_path: Path) -> None:
    """`[targets]` wins over the subscription's metadata."""
    core.subscribe(A, harnessTargetMetadata={"adapter": "osascript"})
    rules = MatchingRules(known_adapters=frozenset({"tmux"}), targets={Identity(A): TargetRule(window=7)})
    with capture_logs() as logs:
        async with rig_on(tmp_path, rules) as rig:
            core.send(B, A, "to the target")
            await rig.until(lambda: bool(rig.woken))
            assert rig.woken[0].window == 7
    assert said(logs, "subscription_undeliverable") == []


async def test_rules_are_asked_anew_for_every_page(core: MemoryCore, tmp_path: Path) -> None:
    """A reload counts from the next decision."""
    core.subscribe(A, harnessTargetMetadata={"adapter": "tmux"})
    async with rig_on(tmp_path) as rig:
        core.send(B, A, "before")
        await rig.until(lambda: len(rig.woken) == 1)
        rig.rules = MatchingRules(default_window=5)
        core.send(B, A, "after")
        await rig.until(lambda: len(rig.woken) == 2)
        assert [event.window for event in rig.woken] == [30, 5]


async def test_who_is_who_follows_the_graph(core: MemoryCore, tmp_path: Path) -> None:
    """Identities are re-read when their rows appear in the log."""
    async with rig_on(tmp_path) as rig:
        core.identity("@late", accountType="human", displayName="Late")
        core.identity(A, participationStatus="operator_benched")
        await rig.reaches(core.tip())
        late, benched = rig.tail.identity(Identity("@late")), rig.tail.identity(Identity(A))
        assert late is not None
        assert late.account_type == "human"
        assert benched is not None
        assert benched.participation == "operator_benched"
        core.sql("DELETE FROM Nodes WHERE id = '@late'")
        await rig.reaches(core.tip())
        assert rig.tail.identity(Identity("@late")) is None


async def test_a_burst_is_logged_in_one_line(core: MemoryCore, tmp_path: Path) -> None:
    """No bodies, and no thousand lines for a thousand messages."""
    core.subscribe(A)
    with capture_logs() as logs:
        async with rig_on(tmp_path) as rig:
            core.sql("BEGIN IMMEDIATE")
            for number in range(50):
                core.send(B, A, f"secret subject {number}", bodyText="secret body")
            core.sql("COMMIT")
            await rig.until(lambda: len(rig.woken) == 50)
    assert [line["events"] for line in said(logs, "event_matched")] == [50]
    assert "secret" not in str(logs)


async def test_whoever_is_reached_otherwise_is_named_once_for_each_change(core: MemoryCore, tmp_path: Path) -> None:
    """What waits for somebody is looked at when the way there changes, not at its next look."""
    async with rig_on(tmp_path) as rig:

        async def after(change: object) -> list[Identity]:
            assert change is None or change
            await rig.reaches(core.tip())
            named, rig.rerouted[:] = list(rig.rerouted), []
            return named

        subscription_id = core.subscribe(A)
        assert await after(subscription_id) == [A]
        core.touch(subscription_id)
        core.touch(A)
        core.send(B, A, "mail is no change of the way")
        assert await after(None) == []
        core.put(subscription_id, "WAKE_SUBSCRIPTION", {**core.properties(subscription_id), "agentIdentity": B})
        assert sorted(await after(None)) == [A, B]
        core.set(subscription_id, "status", "disabled")
        assert await after(None) == [B]
        core.identity(A, participationStatus="operator_benched")
        assert await after(None) == [A]
        core.sql("DELETE FROM Nodes WHERE id = ?", subscription_id)
        assert await after(None) == [B]
