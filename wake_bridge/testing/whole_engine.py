"""The whole engine on real files and imagined agents, for stories that take days (`wake_bridge.testing.turned_clock`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from wake_bridge.domain.delivery import Delivery
from wake_bridge.domain.guards import PastWake
from wake_bridge.domain.matching import MatchingRules
from wake_bridge.domain.names import EPOCH_START, Instant
from wake_bridge.engine.deliver.acknowledge import Acknowledge
from wake_bridge.engine.deliver.delivery_loop import Deliverer
from wake_bridge.engine.deliver.gate import Gate
from wake_bridge.engine.deliver.unknown_outcomes import UnknownOutcomes
from wake_bridge.engine.graph_queries import GraphQueries
from wake_bridge.engine.presence.watch import Watch
from wake_bridge.engine.route_recovery import RouteRecovery
from wake_bridge.engine.routes import Routes
from wake_bridge.engine.settings import Current, EngineSettings
from wake_bridge.engine.tail.tail import Tail
from wake_bridge.ports.adapter import AdapterContext
from wake_bridge.storage.graph.change_log import SqliteGraph
from wake_bridge.storage.graph.signal import SilentSignal
from wake_bridge.storage.graph.upstream import LastSyncId
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.ledger_samples import lay_ledger
from wake_bridge.testing.memory_adapter import ImaginedAgent, MemoryAdapter, MemoryConfig
from wake_bridge.testing.memory_core import MemoryCore
from wake_bridge.testing.turned_clock import TurnedClock

PERSON: Final = "@me"


class WholeEngine:
    """Tail, watch, deliverer and acknowledgement, running while the context lasts.

    Args:
        directory: an empty directory for graph and ledger.
        clock: the engine's time.
        names: the agents: `a` is `@a`, woken for mail.
        settings: what is configured besides their targets.
        window: seconds that mail is collected.
        poll_interval: seconds between two looks at the graph.
    """

    def __init__(
        self,
        directory: Path,
        clock: TurnedClock,
        names: Sequence[str],
        *,
        settings: Mapping[str, Any] | None = None,
        window: int = 30,
        poll_interval: float = 1.0,
    ) -> None:
        self.clock = clock
        self.graph = directory / "graph.sqlite"
        self.core = MemoryCore.create(self.graph, [f"@{name}" for name in names])
        self.core.identity(PERSON, accountType="human")
        self.subscriptions = {name: self.core.subscribe(f"@{name}") for name in names}
        for name in names:
            self.lives_in(name, name, window)
        self.ledger = LedgerStore.open(lay_ledger(directory / "state"))
        adapter = MemoryAdapter(MemoryConfig(), AdapterContext(10, 10, "", {}, clock))
        self.agents = adapter.agents
        self.agents |= {name: ImaginedAgent() for name in names}
        self.current = Current(EngineSettings(**(settings or {})))
        self._queries = GraphQueries(lambda: SqliteGraph(self.graph))
        self.tail = Tail(
            SqliteGraph(self.graph),
            self.ledger,
            SilentSignal(),
            LastSyncId(directory / "state"),
            clock,
            new_ulid,
            rules=MatchingRules,
            poll_interval=poll_interval,
            on_events=lambda: self.deliverer.poke(),  # noqa: PLW0108 - made below
            on_rerouted=lambda identity: self.deliverer.look_at(identity),  # noqa: PLW0108 - made below
        )
        routes = Routes({"memory": adapter}, self.current, self.tail.subscriptions_of, self.ledger.binding)
        watch = Watch(
            routes,
            self.current,
            clock,
            watched=self.tail.reachable_identities,
            waiting=lambda: self.deliverer.waiting(),  # noqa: PLW0108 - made below
            changed=lambda identity: self.deliverer.look_at(identity),  # noqa: PLW0108 - made below
        )
        recovery = RouteRecovery(
            self.ledger,
            routes,
            watch,
            self.current,
            clock,
            restored=lambda identity: self.deliverer.look_at(identity),  # noqa: PLW0108 - made below
        )
        gate = Gate(self.ledger, self._queries, routes, watch, recovery, self.current, clock, other_driver=lambda: None)
        self.deliverer = Deliverer(self.ledger, gate, self.current, clock, new_ulid)
        acknowledge = Acknowledge(
            self.ledger,
            self._queries,
            self.current,
            clock,
            place=lambda: (self.tail.epoch, self.tail.cursor, self.tail.late_pages),
            moved=self.tail.moved,
            look_again=self.deliverer.look_at,
        )
        unknowns = UnknownOutcomes(
            self.ledger, self._queries, routes, self.current, clock, new_ulid, poke=self.deliverer.poke
        )
        self._jobs = (self.tail.run, watch.run, self.deliverer.run, acknowledge.run, unknowns.run)
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._running = [asyncio.ensure_future(job()) for job in self._jobs]
        await self.tail.begun.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.deliverer.drain(10)
        for job in self._running:
            job.cancel()
        ended = await asyncio.gather(*self._running, return_exceptions=True)
        await self.tail.close()
        self._queries.close()
        self.ledger.close()
        self.core.close()
        for result in ended:
            if isinstance(result, Exception):
                raise result

    def lives_in(self, name: str, agent: str, window: int = 30) -> None:
        """The identity's subscription says from now on that this agent is its own."""
        subscription = self.subscriptions[name]
        place = {"adapter": "memory", "tmuxSession": agent, "coalesceWindow": window}
        properties = {**self.core.properties(subscription), "harnessTargetMetadata": place}
        self.core.put(subscription, "WAKE_SUBSCRIPTION", properties)

    def send(self, name: str, subject: str, sender: str = PERSON, **properties: Any) -> str:
        """Mail for an agent, sent now by the wall clock; answers its id."""
        sent_at = datetime.fromtimestamp(self.clock.wall() / 1000, UTC).isoformat(timespec="milliseconds")
        return self.core.send(sender, f"@{name}", subject, sentAt=sent_at.replace("+00:00", "Z"), **properties)

    def read_all(self, name: str) -> None:
        """The agent reads all its mail."""
        self.core.sql(
            "UPDATE Nodes SET data = json_set(data, '$.properties.readAt', ?)"
            " WHERE json_extract(data, '$.properties.to') = ? AND json_extract(data, '$.properties.readAt') IS NULL",
            datetime.fromtimestamp(self.clock.wall() / 1000, UTC).isoformat(),
            f"@{name}",
        )

    def wakes(self) -> list[PastWake]:
        """Every submit that was begun."""
        return self.ledger.past_wakes(EPOCH_START)

    def deliveries(self) -> list[Delivery]:
        """All there are."""
        return list(self.ledger.deliveries(state=None, identity=None, limit=1_000_000))

    async def until(self, holds: Callable[[], object], within: float) -> None:
        """Let time pass until something holds; raises `TimeoutError` after so many seconds of it."""
        async with asyncio.timeout(within):
            while not holds():  # noqa: ASYNC110 - what holds is seen from outside, nobody sets an event
                await asyncio.sleep(0.25)

    @property
    def now(self) -> Instant:
        """The engine's time."""
        return self.clock.now()
