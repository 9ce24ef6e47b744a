"""The engine on a turned clock: a real graph and a real ledger, imagined agents, and nothing that waits.

For stories that take a night or a day: holds that last, cooldowns, quiet hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final, Self

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.guards import Limits
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import Identity, Instant
from wake_bridge.domain.presence import SAMPLES_APART
from wake_bridge.engine.attention.episodes import Episodes
from wake_bridge.engine.attention.heartbeat import Heartbeat
from wake_bridge.engine.deliver.failed_turns import FailedTurns
from wake_bridge.engine.deliver.gate import Gate
from wake_bridge.engine.deliver.unknown_outcomes import UnknownOutcomes
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_recovery import RouteRecovery
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current, EngineSettings, TargetSettings
from wake_bridge.engine.tail.tail import Tail
from wake_bridge.ports.adapter import AdapterContext, HarnessAdapter
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.signal import SilentSignal
from wake_bridge.storage.graph.upstream import LastSyncId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.ledger_samples import lay_ledger
from wake_bridge.testing.memory_adapter import ImaginedAgent, ImaginedLine, MemoryAdapter, MemoryChannel, MemoryConfig
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.turned_clock import TurnedClock

MOMENT: Final = 1_100
"""Milliseconds: longer than the window of a nudge."""


class Office:
    """Identities, each with the imagined agent of its name, and everything between graph and composer.

    Args:
        directory: an empty one.
        identities: who there is in the graph.
        carried: adapters without a surface of their own, by name.
        channels: names of native adapters; who has a line in one is woken there first.
        targets: who has a `[targets]` entry, for the agent of that name.
        start: UTC milliseconds at which the clock begins.
        zone: the time zone of the machine.
    """

    def __init__(
        self,
        directory: Path,
        identities: Sequence[str],
        *,
        carried: Mapping[str, type[HarnessAdapter]] | None = None,
        channels: Sequence[str] = (),
        targets: Mapping[str, str] | None = None,
        start: int,
        zone: tzinfo = UTC,
    ) -> None:
        self.clock = TurnedClock(start, zone)
        self.directory = directory
        self.core = MemoryCore.create(directory / "graph.sqlite", identities)
        context = AdapterContext(10, 10, "", {}, self.clock)
        self.adapter = MemoryAdapter(MemoryConfig(), context)
        self.adapters: dict[str, HarnessAdapter] = {"memory": self.adapter}
        self.channels = {name: MemoryChannel(MemoryConfig(), context) for name in channels}
        self.adapters |= self.channels
        for name, kind in (carried or {}).items():
            self.adapters[name] = kind(kind.Config(), context)
        self.rules = MatchingRules()
        self.current = Current(
            EngineSettings(
                default_adapter="memory",
                limits=Limits(wakes_per_day=1000),
                targets={Identity(who): TargetSettings("memory", pane) for who, pane in (targets or {}).items()},
            )
        )
        self._begin()

    def _begin(self) -> None:
        path = self.directory / "graph.sqlite"
        self.ledger = LedgerStore.open(lay_ledger(self.directory / "state"))
        self.tail = Tail(
            SqliteGraph(path),
            self.ledger,
            SilentSignal(),
            LastSyncId(self.directory / "state"),
            self.clock,
            new_ulid,
            rules=lambda: self.rules,
            poll_interval=1.0,
            on_events=lambda: None,
            on_rerouted=lambda _: None,
            on_word=lambda identity: self.episodes.note_word(identity),  # noqa: PLW0108 - made below
        )
        self.queries = GraphQueries(lambda: SqliteGraph(path))
        self.routes = Routes(
            self.adapters,
            self.current,
            self.tail.subscriptions_of,
            self.ledger.binding,
            self.ledger.degraded,
            unserved=self.tail.nothing_serves,
            standing=self.ledger.receiver_standing,
        )
        self.watch = Watch(
            self.routes,
            self.current,
            self.clock,
            watched=self.tail.reachable_identities,
            waiting=set,
            changed=lambda _: None,
        )
        self.episodes = Episodes(
            self.ledger,
            self.watch,
            self.current,
            self.clock,
            new_ulid,
            watched=self.tail.reachable_identities,
            changed=self._look_at,
            watchers=self.tail,
        )
        self.recovery = RouteRecovery(
            self.ledger, self.routes, self.watch, self.current, self.clock, restored=self._look_at
        )
        self.gate = Gate(
            self.ledger,
            self.queries,
            self.routes,
            self.watch,
            self.recovery,
            self.current,
            self.clock,
            other_driver=lambda: None,
            new_id=new_ulid,
            seen=lambda identity: self.episodes.look_at(identity, self.clock.now()),
        )
        self.unknowns = UnknownOutcomes(
            self.ledger, self.queries, self.routes, self.current, self.clock, new_ulid, poke=lambda: None
        )
        self.failed_turns = FailedTurns(self.ledger, self.queries, new_ulid, poke=lambda: None)
        self.heartbeat = Heartbeat(
            self.ledger,
            self.queries,
            self.routes,
            self.watch,
            self.tail,
            self.current,
            self.clock,
            new_ulid,
            rules=lambda: self.rules,
            poke=lambda: None,
        )

    def _look_at(self, identity: Identity) -> None:
        self.ledger.look_at_once(identity, self.clock.now())

    def line(self, identity: str, agent: str, channel: str = "channel") -> ImaginedLine:
        """A line of that channel to an agent, whom the identity is known to be; made when it is first asked for."""
        lines = self.channels[channel].lines
        return lines.setdefault(Identity(identity), ImaginedLine(self.agent(agent)))

    def now_text(self) -> str:
        """The wall clock, as a writer of the graph notes it."""
        moment = datetime.fromtimestamp(self.clock.wall() / 1000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"

    def agent(self, name: str) -> ImaginedAgent:
        """The agent of that name; made when it is first asked for."""
        return self.adapter.agents.setdefault(name, ImaginedAgent())

    def subscribe(self, identity: str, target: str = "bridge-daemon", *, pane: str = "", **properties: Any) -> str:
        """Add a subscription for mail; `pane` names the agent, none if it is empty."""
        metadata = {"adapter": "memory", "tmuxSession": pane, "coalesceWindow": 0}
        properties = {"harnessTarget": target, "harnessTargetMetadata": metadata, **properties}
        if pane:
            self.agent(pane)
        return self.core.subscribe(identity, **properties)

    async def reads(self) -> None:
        """Let the tail go to the tip."""
        await self.tail.catch_up_once()

    async def works(self) -> None:
        """Let what is due be delivered, with the two looks that takes; a few seconds pass if anything is."""
        self.ledger.gather(self.clock.now(), new_ulid)
        if not self.ledger.unsettled():
            return
        self.clock.turn(MOMENT)
        await self._takes_due()
        if self.ledger.due(Instant(self.clock.now() + SAMPLES_APART)):
            self.clock.turn(SAMPLES_APART)
            await self._takes_due()

    async def _takes_due(self, *, patient: bool = False) -> None:
        for delivery in self.ledger.due(self.clock.now()):
            fresh = self.ledger.delivery(delivery.id)
            # one that was given back takes a younger one in
            if fresh is not None and not fresh.state.is_terminal:
                await self.gate.take(fresh, patient=patient)

    async def passes(self, milliseconds: int) -> None:
        """Let so much time pass, and what falls due meanwhile be done; the panes are watched as ever."""
        end = self.clock.now() + milliseconds
        while True:
            self.ledger.gather(self.clock.now(), new_ulid)
            await self.watch.round()
            await self._does_all_that_is_due()
            deadline = self.ledger.next_deadline()
            if deadline is None or deadline > end:
                self.clock.turn(max(0, end - self.clock.now()))
                return
            self.clock.turn(max(1, deadline - self.clock.now()))

    async def _does_all_that_is_due(self) -> None:
        for _ in range(20):
            due = self.ledger.due(self.clock.now())
            if not due:
                return
            await self._takes_due(patient=True)
        raise AssertionError(f"never done: {[(one.state, one.hold) for one in due]}")

    def deliveries(self, identity: str) -> list[Delivery]:
        """An identity's deliveries, oldest first."""
        return self.ledger.deliveries(state=None, identity=Identity(identity), limit=10_000)[::-1]

    async def restarts(self) -> None:
        """End the daemon's parts and begin anew on the same files."""
        await self._end()
        self.clock.begin_anew()
        self._begin()
        self.ledger.rebase(self.clock.now())
        await self.reads()

    async def _end(self) -> None:
        await self.tail.close()
        self.queries.close()
        self.ledger.close()

    async def __aenter__(self) -> Self:
        await self.reads()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()
        self.core.close()
